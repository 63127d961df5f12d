//! What the pages for users show: commands of `ttmon`, and links.

use std::fs;
use std::path::{Path, PathBuf};

/// Pages with commands of users, besides docs/.
const PAGES: [&str; 3] = ["README.md", "python/README.md", "deploy/README.md"];

/// The help of all commands. A test of `ttmon` compares it with what the program prints.
const HELP: &str = "crates/in-monitor/ttmon/tests/all/golden/files/help.txt";

/// A command line of `ttmon` in a block of code, or in a cell of a table that begins with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentedCommand {
    /// The page from the root of the workspace, and the line.
    pub place: String,
    /// The words of the command, the first one is `ttmon`.
    pub words: Vec<String>,
}

/// Returns the path of a file of the repository.
#[must_use]
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Returns the names of the pages in a folder of the repository.
#[must_use]
pub fn pages_of(folder: &str) -> Vec<String> {
    let names = fs::read_dir(repository(folder)).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut pages: Vec<String> = names.filter(|name| name.ends_with(".md")).map(|name| format!("{folder}/{name}")).collect();
    pages.sort();
    pages
}

/// Returns the commands of all pages for users.
#[must_use]
pub fn documented_commands() -> Vec<DocumentedCommand> {
    let pages = PAGES.map(str::to_owned).into_iter().chain(pages_of("docs"));
    pages.flat_map(|page| commands_of(&page, &fs::read_to_string(repository(&page)).unwrap())).collect()
}

/// Returns the commands of the sections EXAMPLES in the help of all commands.
#[must_use]
pub fn help_examples() -> Vec<DocumentedCommand> {
    let help = fs::read_to_string(repository(HELP)).unwrap();
    let sections = help.split("\nEXAMPLES:\n").skip(1).filter_map(|rest| rest.split("\n\n").next());
    sections.flat_map(|section| commands_of("help", &format!("```\n{section}\n```"))).collect()
}

fn commands_of(page: &str, text: &str) -> Vec<DocumentedCommand> {
    let mut is_code = false;
    let mut commands = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut shown: Vec<&str> = Vec::new();
        if line.starts_with("```") {
            is_code = !is_code;
        } else if is_code {
            shown.push(line.trim_start().trim_start_matches("$ "));
        } else if line.starts_with('|') {
            let cells = line.split('|').map(str::trim).filter(|cell| cell.starts_with("`ttmon") || cell.starts_with("`sudo ttmon"));
            shown.extend(cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)));
        }
        let words = shown.into_iter().map(|line| words(line.trim_start_matches("sudo ")));
        let own = words.filter(|words| words.first().is_some_and(|word| word == "ttmon"));
        commands.extend(own.map(|words| DocumentedCommand { place: format!("{page}:{number}"), words }));
    }
    commands
}

/// Splits a command line into words, up to a comment or an operator of the shell. Two spaces separate a comment too.
fn words(line: &str) -> Vec<String> {
    let mut is_quoted = false;
    let words = line.split(|character| {
        is_quoted ^= character == '"';
        character == ' ' && !is_quoted
    });
    words.take_while(|word| !["", "#", "|", "&", "&&", ">"].contains(word)).map(|word| word.replace('"', "")).collect()
}

/// Returns the links of a page that lead nowhere: to a missing file, or to a missing heading.
#[must_use]
pub fn broken_links(page: &str) -> Vec<String> {
    let text = fs::read_to_string(repository(page)).unwrap();
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let is_broken = |link: &&str| {
        let (file, heading) = link.split_once('#').unwrap_or((link, ""));
        let target = if file.is_empty() { repository(page) } else { repository(page).with_file_name("").join(file) };
        let has_heading =
            || fs::read_to_string(&target).is_ok_and(|text| text.lines().any(|line| anchor(line).as_deref() == Some(heading)));
        !target.exists() || (!heading.is_empty() && !has_heading())
    };
    links.filter(|link| !link.contains("://")).filter(is_broken).map(|link| format!("{page}: {link}")).collect()
}

/// Returns the anchor of a heading, if the line is one.
fn anchor(line: &str) -> Option<String> {
    let title = line.strip_prefix('#')?.trim_start_matches('#').trim();
    let kept = title.chars().filter(|character| character.is_alphanumeric() || [' ', '-', '_'].contains(character));
    Some(kept.collect::<String>().to_lowercase().replace(' ', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_in_code_and_in_tables() {
        let text = "`ttmon who`\n```\n$ ttmon mem  a comment\nsudo ttmon -l 1 | head\nttmon_device 1\n\
                    ttmon run -- python -c \"a b\" # c\n```\n\
                    | b | `ttmon -L`, in Python `ttmon.tag(1)`, `ttmon -q` |\n| `x` and `ttmon run` |\n";
        let found = commands_of("p", text).into_iter().map(|command| format!("{} {}", command.place, command.words.join(",")));
        let expected = ["p:3 ttmon,mem", "p:4 ttmon,-l,1", "p:6 ttmon,run,--,python,-c,a b", "p:8 ttmon,-L", "p:8 ttmon,-q"];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn an_anchor_is_made_of_the_words_of_its_heading() {
        assert_eq!(anchor("## Keys of `ttmon top`, and more").as_deref(), Some("keys-of-ttmon-top-and-more"));
        assert_eq!(anchor("text"), None);
    }
}
