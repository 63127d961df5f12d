//! Tests completion in real shells: zsh and fish load the scripts and offer values. The tests of the program cover bash.

use std::os::unix::fs::symlink;
use std::path::Path;

use super::{Gate, Outcome};
use crate::files;
use crate::project;
use crate::stop::untested;
use crate::tools;

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

pub(super) fn run(gate: &mut Gate) -> Outcome {
    for shell in ["zsh", "fish"] {
        tools::installed(gate.project, shell, shell).map_err(untested(&format!("COMPLETION WAS NOT TRIED IN {shell}")))?;
    }
    let checked = check(gate);
    gate.count(checked)
}

fn check(gate: &Gate) -> Result<(), String> {
    let ttmon = gate.ttmon(&[])?;
    let directory = files::temporary()?;
    let folder = directory.path();
    symlink(&ttmon, folder.join("ttmon")).map_err(files::at(folder))?;
    files::write(&folder.join("offer.zsh"), ZSH)?;
    for shell in ["zsh", "fish"] {
        let script = project::output(&mut gate.project.command(&ttmon, &["completions", shell]))?;
        files::write(&folder.join(format!("ttmon.{shell}")), script)?;
        let separator = if shell == "fish" { '\t' } else { ':' };
        for (typed, expected) in CASES {
            let offered = offered(gate, folder, shell, typed)?;
            // The description follows the word.
            let is_offer = |line: &str| line.strip_prefix(expected).is_some_and(|rest| rest.is_empty() || rest.starts_with(separator));
            if !offered.lines().any(is_offer) {
                return Err(format!("{shell}: {typed}: {expected} is not offered but {offered:?}"));
            }
        }
        println!("{shell}: {} words were completed", CASES.len());
    }
    Ok(())
}

fn offered(gate: &Gate, folder: &Path, shell: &str, typed: &str) -> Result<String, String> {
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = match shell {
        "fish" => gate.project.command(shell, &["--no-config", "-c", FISH, typed]),
        _ => {
            let mut command = gate.project.command(shell, &["-f", "offer.zsh"]);
            command.args(typed.split(' '));
            command
        }
    };
    project::output(command.current_dir(folder).env("PATH", path))
}
