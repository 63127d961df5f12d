//! Checks the dependencies between crates: ARCHITECTURE.md against cargo's metadata.
//!
//! The page has one block of arrows, one crate per line, with all crates that it may need:
//!
//! ````text
//! ```arrows
//! model -> print -> model wire
//! ```
//! ````

use super::{File, Finding};
use crate::project::Member;

const PAGE: &str = "ARCHITECTURE.md";

#[derive(Debug, PartialEq, Eq)]
struct Arrow<'a> {
    line: usize,
    from: &'a str,
    to: Vec<&'a str>,
}

pub(super) fn check(files: &[File], members: &[Member]) -> Vec<Finding> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        let message = "does not exist, and should say which crate may need which, in an ```arrows block".to_owned();
        return vec![Finding { path: PAGE.to_owned(), line: 1, message }];
    };
    match parse(&page.text) {
        Err((line, message)) => vec![page.finding(line, message)],
        Ok(arrows) => differences(&arrows, members).into_iter().map(|(line, message)| page.finding(line, message)).collect(),
    }
}

fn parse(page: &str) -> Result<Vec<Arrow<'_>>, (usize, String)> {
    let mut lines = (1..).zip(page.lines());
    let start = lines.find(|(_, line)| line.trim_end() == "```arrows");
    let (start, _) = start.ok_or((1, "has no ```arrows block".to_owned()))?;
    let mut arrows: Vec<Arrow> = Vec::new();
    for (line, text) in lines {
        if text.trim_end() == "```" {
            return Ok(arrows);
        }
        if text.trim().is_empty() {
            continue;
        }
        let (from, to) = text.split_once("->").ok_or((line, format!("not an arrow, `crate -> crates it may need`: {text}")))?;
        let from = from.trim();
        if arrows.iter().any(|arrow| arrow.from == from) {
            return Err((line, format!("a second row of {from}")));
        }
        arrows.push(Arrow { line, from, to: to.split_whitespace().collect() });
    }
    Err((start, "the ```arrows block has no end".to_owned()))
}

/// Returns dependencies without an arrow, and arrows without a dependency.
fn differences(arrows: &[Arrow], members: &[Member]) -> Vec<(usize, String)> {
    let mut findings = Vec::new();
    let block = arrows.first().map_or(1, |arrow| arrow.line);
    for Member { name, needs, .. } in members {
        let Some(arrow) = arrows.iter().find(|arrow| arrow.from == name) else {
            findings.push((block, format!("the crate {name} has no row in the arrows")));
            continue;
        };
        for need in needs.iter().filter(|need| !arrow.to.contains(&need.as_str())) {
            findings.push((arrow.line, format!("{name} needs {need}, and no arrow allows it: remove the dependency, or add the arrow")));
        }
        for unused in arrow.to.iter().filter(|to| !needs.contains(**to)) {
            findings.push((arrow.line, format!("{name} does not need {unused}: remove the arrow")));
        }
    }
    for arrow in arrows.iter().filter(|arrow| members.iter().all(|member| member.name != arrow.from)) {
        findings.push((arrow.line, format!("there is no crate {}", arrow.from)));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE_TEXT: &str = "# Map\n\n```arrows\nmodel ->\nwire -> model\n\nprint -> model wire\n```\nmore -> text\n";

    fn member(name: &str, needs: &[&str]) -> Member {
        let needs = needs.iter().map(|&need| need.to_owned()).collect();
        Member { name: name.to_owned(), manifest: format!("/w/crates/{name}/Cargo.toml").into(), needs }
    }

    #[track_caller]
    fn check_page(page: &str, members: &[Member], expected: &[&str]) {
        let files = [File { path: PAGE.to_owned(), text: page.to_owned() }];
        let messages: Vec<String> = check(&files, members).iter().map(Finding::to_string).collect();
        assert_eq!(messages, expected);
    }

    #[test]
    fn rows_are_read_from_the_block_alone() {
        let arrows = parse(PAGE_TEXT).unwrap();
        let rows: Vec<_> = arrows.iter().map(|arrow| (arrow.line, arrow.from, arrow.to.as_slice())).collect();
        assert_eq!(rows, [(4, "model", &[][..]), (5, "wire", &["model"][..]), (7, "print", &["model", "wire"][..])]);
    }

    #[test]
    fn a_page_without_arrows_is_an_error() {
        assert_eq!(check(&[], &[]).len(), 1);
        check_page("# Map\n", &[], &["ARCHITECTURE.md:1: has no ```arrows block"]);
        check_page("\n```arrows\nmodel ->\n", &[], &["ARCHITECTURE.md:2: the ```arrows block has no end"]);
        let senseless = "ARCHITECTURE.md:2: not an arrow, `crate -> crates it may need`: model";
        check_page("```arrows\nmodel\n```\n", &[], &[senseless]);
        check_page("```arrows\na ->\na -> b\n```\n", &[], &["ARCHITECTURE.md:3: a second row of a"]);
    }

    #[test]
    fn arrows_and_dependencies_are_equal() {
        let print = member("print", &["model", "wire"]);
        let (model, wire) = (member("model", &[]), member("wire", &["model"]));
        check_page(PAGE_TEXT, &[model, wire, print], &[]);
        let (model, wire) = (member("model", &["wire"]), member("wire", &["model"]));
        let expected = [
            "ARCHITECTURE.md:4: model needs wire, and no arrow allows it: remove the dependency, or add the arrow",
            "ARCHITECTURE.md:7: print does not need wire: remove the arrow",
        ];
        check_page(PAGE_TEXT, &[model, wire, member("print", &["model"])], &expected);
        let expected = [
            "ARCHITECTURE.md:4: the crate top has no row in the arrows",
            "ARCHITECTURE.md:4: there is no crate model",
            "ARCHITECTURE.md:5: there is no crate wire",
            "ARCHITECTURE.md:7: there is no crate print",
        ];
        check_page(PAGE_TEXT, &[member("top", &[])], &expected);
    }
}
