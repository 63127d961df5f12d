//! `cargo xtask docs`: writes the pages of docs/ that are generated from tables of the program.

use crate::generated::{self, Generated};
use crate::project::{Project, output};
use crate::stop::Stop;

const NAME: &str = "docs";

/// Pages that the program prints, each with the arguments of `ttmon markdown`.
const PRINTED: &[(&str, &[&str])] = &[
    ("docs/cli.md", &["cli"]),
    ("docs/metrics.md", &["metrics"]),
    ("deploy/rules/ttmon-records.yml", &["deploy", "rules/ttmon-records.yml"]),
    ("deploy/rules/ttmon-alerts.yml", &["deploy", "rules/ttmon-alerts.yml"]),
    ("deploy/rules/ttmon-alerts-test.yml", &["deploy", "rules/ttmon-alerts-test.yml"]),
    ("deploy/grafana/ttmon-fleet.json", &["deploy", "grafana/ttmon-fleet.json"]),
    ("deploy/grafana/ttmon-host.json", &["deploy", "grafana/ttmon-host.json"]),
    ("deploy/grafana/ttmon-job.json", &["deploy", "grafana/ttmon-job.json"]),
    ("deploy/grafana/ttmon-memory.json", &["deploy", "grafana/ttmon-memory.json"]),
    ("deploy/grafana/ttmon-serving.json", &["deploy", "grafana/ttmon-serving.json"]),
];

pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Stop> {
    generated::run(project, NAME, arguments, || pages(project))
}

pub(crate) fn check(project: &Project) -> Result<(), String> {
    generated::check(project, NAME, &pages(project)?)
}

fn pages(project: &Project) -> Result<Vec<Generated>, String> {
    let page = |text: &str| format!("{}\n", text.trim());
    let mut pages = vec![("docs/fields.md", page(&ttmon_print::fields_markdown()))];
    for (path, arguments) in PRINTED {
        // The program prints them, so that xtask need not be built with all features.
        let mut program = project.cargo(&["run", "--quiet", "--package", "ttmon", "--", "markdown"]);
        pages.push((path, page(&output(program.args(*arguments))?)));
    }
    Ok(pages)
}
