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
        Ok(arrows) => {
            let unused = unused(&arrows, members);
            if !unused.is_empty() {
                println!("tidy: allowed by {PAGE} and not used, which is fine: {}", unused.join(", "));
            }
            forbidden(&arrows, members).into_iter().map(|(line, message)| page.finding(line, message)).collect()
        }
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

fn forbidden(arrows: &[Arrow], members: &[Member]) -> Vec<(usize, String)> {
    let mut findings = Vec::new();
    let block = arrows.first().map_or(1, |arrow| arrow.line);
    for Member { name, needs, .. } in members {
        let Some(arrow) = arrows.iter().find(|arrow| arrow.from == name) else {
            findings.push((block, format!("the crate {name} has no row in the arrows")));
            continue;
        };
        for need in needs.iter().filter(|need| !arrow.to.contains(&need.as_str())) {
            findings.push((arrow.line, format!("{name} needs {need}, and no arrow allows it: take the dependency out, or decide it here")));
        }
    }
    findings
}

/// Returns allowed dependencies that do not exist: planned or obsolete ones.
fn unused(arrows: &[Arrow], members: &[Member]) -> Vec<String> {
    let needs = |from: &str, to: &str| members.iter().any(|member| member.name == from && member.needs.contains(to));
    let all = arrows.iter().flat_map(|arrow| arrow.to.iter().map(|to| (arrow.from, *to)));
    all.filter(|(from, to)| !needs(from, to)).map(|(from, to)| format!("{from} -> {to}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::said;
    use super::*;

    const PAGE_TEXT: &str = "# Map\n\n```arrows\nmodel ->\nwire -> model\n\nprint -> model wire\n```\nmore -> text\n";

    fn member(name: &str, needs: &[&str]) -> Member {
        let needs = needs.iter().map(|&need| need.to_owned()).collect();
        Member { name: name.to_owned(), manifest: format!("/w/crates/{name}/Cargo.toml").into(), needs }
    }

    #[track_caller]
    fn check_page(page: &str, members: &[Member], expected: &[&str]) {
        assert_eq!(said(&check(&[File::new(PAGE, page)], members)), expected);
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
    fn a_dependency_that_no_arrow_allows_is_found() {
        let fine = [member("model", &[]), member("wire", &["model"]), member("print", &["model"])];
        check_page(PAGE_TEXT, &fine, &[]);
        let expected = ["ARCHITECTURE.md:4: model needs wire, and no arrow allows it: take the dependency out, or decide it here"];
        check_page(PAGE_TEXT, &[member("model", &["wire"])], &expected);
        check_page(PAGE_TEXT, &[member("top", &[])], &["ARCHITECTURE.md:4: the crate top has no row in the arrows"]);
    }

    #[test]
    fn unused_arrows_are_reported() {
        let members = [member("model", &[]), member("wire", &["model"]), member("print", &["model"])];
        assert_eq!(unused(&parse(PAGE_TEXT).unwrap(), &members), ["print -> wire"]);
    }
}
