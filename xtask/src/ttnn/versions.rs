//! What each version of ttnn gives: every case with every version, as the table of docs/ttnn-versions.md.

use super::environment::Environment;
use crate::project::Project;

/// One of each shape that the hook has to know, from the oldest on.
const VERSIONS: &[&str] = &["0.69.0", "0.73.1", "0.77.0", "0.79.0", "0.81.1"];

pub(super) fn print(project: &Project, versions: &[&str]) -> Result<(), String> {
    println!("| ttnn | cases equal | differing |\n| --- | --- | --- |");
    for version in if versions.is_empty() { VERSIONS } else { versions } {
        let environment = Environment::have(project, version)?;
        let score = super::compare(project, &environment, &[])?;
        println!("| {version} | {} | {} |", score.passed, score.failed);
    }
    Ok(())
}
