//! Help, manual and lists that need no machine.

use std::fs;

use super::{check, command, transcript};
use crate::program::cli::COMMANDS;

fn printed(lines: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    lines.iter().map(|line| transcript(line, &command(line, folder.path()).output().unwrap())).collect()
}

#[test]
fn generated_help() {
    let lines: Vec<String> = [""].iter().chain(COMMANDS).flat_map(|name| [format!("help {name}"), format!("{name} -h")]).collect();
    check("help.txt", &printed(&lines.iter().map(String::as_str).collect::<Vec<_>>()));
    check("fields.txt", &printed(&["--help-fields", "--help-query-gpu", "--help-query-compute-apps", "--version"]));
}

#[test]
fn generated_manual() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("pages")).unwrap();
    assert!(command("man --dir pages", folder.path()).status().unwrap().success());
    let mut pages: Vec<_> = fs::read_dir(folder.path().join("pages")).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    let text: String =
        pages.iter().map(|page| format!("== {}\n{}", page.file_name().unwrap().display(), fs::read_to_string(page).unwrap())).collect();
    check("manual.txt", &text);
}

#[test]
fn generated_lists() {
    let lines = [
        "alerts list --no-server",
        "alerts list --json --no-server",
        "completions bash",
        "completions zsh",
        "completions fish",
        "nothing",
        "-d",
        "mem --by nothing",
        "--sim n151",
    ];
    check("lists.txt", &printed(&lines));
}
