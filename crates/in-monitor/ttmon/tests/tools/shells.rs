//! Completion in zsh and fish, which load the scripts and offer values. The tests of the program cover bash.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::{TTMON, run, ttmon};

/// What is typed, and a word that must be offered.
const CASES: [(&str, &str); 6] = [
    ("ttmon --sim t", "t3k"),
    ("ttmon --sim t3k,fault=ho", "t3k,fault=hot:"),
    ("ttmon --fields id,temperature_l", "id,temperature_limit"),
    ("ttmon help ev", "events"),
    ("ttmon alerts silence stale", "stale-holder"),
    ("ttmon mem --bl", "--blocks"),
];

/// Zsh completes only on a terminal, so this replaces its function that shows the offered words.
const ZSH: &str = "compdef() { : }\n\
                   _describe() { shift 2; print -l -- \"${(@P)1}\" }\n\
                   source ./ttmon.zsh\n\
                   words=(\"$@\"); CURRENT=$#\n\
                   _clap_dynamic_completer_ttmon\n";
const FISH: &str = "source ./ttmon.fish; complete -C \"$argv\"";

/// Asserts that all words are offered by this shell. A separator and a description follow each.
fn expect_words(shell: &str, separator: char, offer: fn(&mut Command, &str)) {
    let directory = tempfile::tempdir().unwrap();
    let folder: &Path = directory.path();
    symlink(TTMON, folder.join("ttmon")).unwrap();
    fs::write(folder.join("offer.zsh"), ZSH).unwrap();
    fs::write(folder.join(format!("ttmon.{shell}")), run(&mut ttmon(&["completions", shell]))).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    for (typed, expected) in CASES {
        let mut command = ttmon_testing::command(Path::new(shell), &[]);
        offer(command.current_dir(folder).env("PATH", &path), typed);
        let offered = run(&mut command);
        let is_offer = |line: &str| line.strip_prefix(expected).is_some_and(|rest| rest.is_empty() || rest.starts_with(separator));
        assert!(offered.lines().any(is_offer), "{typed}: {expected} is not offered but {offered:?}");
    }
}

#[test]
#[ignore = "needs zsh: cargo xtask ci --only shells"]
fn zsh_offers_values() {
    expect_words("zsh", ':', |command, typed| {
        command.args(["-f", "offer.zsh"]).args(typed.split(' '));
    });
}

#[test]
#[ignore = "needs fish: cargo xtask ci --only shells"]
fn fish_offers_values() {
    expect_words("fish", '\t', |command, typed| {
        command.args(["--no-config", "-c", FISH, typed]);
    });
}
