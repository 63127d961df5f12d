//! `cargo xtask docs`: writes the pages of docs/ that are generated from tables of the program.

use std::fs;

use crate::project::{Project, output};
use crate::stop::Stop;

struct Page {
    path: &'static str,
    text: fn(&Project) -> Result<String, String>,
}

const PAGES: &[Page] = &[
    Page { path: "docs/fields.md", text: |_| Ok(ttmon_print::fields_markdown()) },
    Page { path: "docs/cli.md", text: |project| printed(project, "cli") },
    Page { path: "web/openapi.json", text: |project| printed(project, "openapi") },
    Page { path: "docs/metrics.md", text: |project| printed(project, "metrics") },
    Page { path: "deploy/rules/ttmon-records.yml", text: |project| deployed(project, "rules/ttmon-records.yml") },
    Page { path: "deploy/rules/ttmon-alerts.yml", text: |project| deployed(project, "rules/ttmon-alerts.yml") },
    Page { path: "deploy/rules/ttmon-alerts-test.yml", text: |project| deployed(project, "rules/ttmon-alerts-test.yml") },
    Page { path: "deploy/grafana/ttmon-fleet.json", text: |project| deployed(project, "grafana/ttmon-fleet.json") },
    Page { path: "deploy/grafana/ttmon-host.json", text: |project| deployed(project, "grafana/ttmon-host.json") },
    Page { path: "deploy/grafana/ttmon-job.json", text: |project| deployed(project, "grafana/ttmon-job.json") },
    Page { path: "deploy/grafana/ttmon-memory.json", text: |project| deployed(project, "grafana/ttmon-memory.json") },
    Page { path: "deploy/grafana/ttmon-serving.json", text: |project| deployed(project, "grafana/ttmon-serving.json") },
];

/// Returns output of the program, so that xtask need not be built with all features.
fn printed(project: &Project, page: &str) -> Result<String, String> {
    output(&mut project.cargo(&["run", "--quiet", "--package", "ttmon", "--", "markdown", page]))
}

/// Returns a file below deploy/.
fn deployed(project: &Project, file: &str) -> Result<String, String> {
    output(&mut project.cargo(&["run", "--quiet", "--package", "ttmon", "--", "markdown", "deploy", file]))
}

pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Stop> {
    match arguments {
        [] => Ok(write(project)?),
        [flag] if flag == "--check" => Ok(check(project)?),
        _ => Err(Stop::Usage(format!("docs takes --check or nothing, not {}", arguments.join(" ")))),
    }
}

fn write(project: &Project) -> Result<(), String> {
    for page in PAGES {
        let text = page_text(project, page)?;
        let path = project.root.join(page.path);
        if fs::read_to_string(&path).ok().as_ref() != Some(&text) {
            fs::write(&path, text).map_err(|error| format!("{}: {error}", page.path))?;
            println!("docs: wrote {}", page.path);
        }
    }
    Ok(())
}

/// Lists the pages that differ from what `docs` would write now.
pub(crate) fn check(project: &Project) -> Result<(), String> {
    let mut stale = Vec::new();
    for page in PAGES {
        let fresh = page_text(project, page)?;
        let written = fs::read_to_string(project.root.join(page.path)).ok();
        if let Some(difference) = difference(written.as_deref(), &fresh) {
            println!("{}{difference}", page.path);
            stale.push(page.path);
        }
    }
    if stale.is_empty() { Ok(()) } else { Err(format!("stale: {}; renew with: cargo xtask docs", stale.join(", "))) }
}

fn page_text(project: &Project, page: &Page) -> Result<String, String> {
    Ok(format!("{}\n", (page.text)(project)?.trim()))
}

/// Returns the first difference of a generated file, as `:line: what`.
pub(crate) fn difference(written: Option<&str>, fresh: &str) -> Option<String> {
    let Some(written) = written else { return Some(":1: does not exist".to_owned()) };
    if written == fresh {
        return None;
    }
    let same = written.lines().zip(fresh.lines()).take_while(|(old, new)| old == new).count();
    let wanted = fresh.lines().nth(same).map_or_else(|| "the end".to_owned(), |line| format!("{line:?}"));
    Some(format!(":{}: stale, here should be {wanted}", same + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_page_is_reported_by_its_first_wrong_line() {
        assert_eq!(difference(Some("a\nb\n"), "a\nb\n"), None);
        assert_eq!(difference(None, "a\n").unwrap(), ":1: does not exist");
        assert_eq!(difference(Some("a\nb\n"), "a\nc\n").unwrap(), ":2: stale, here should be \"c\"");
        assert_eq!(difference(Some("a\nb\n"), "a\n").unwrap(), ":2: stale, here should be the end");
        assert_eq!(difference(Some("a\n"), "a\nb\n").unwrap(), ":2: stale, here should be \"b\"");
    }
}
