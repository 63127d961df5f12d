//! Runs every case with every version of ttnn, and writes the table of docs/ttnn-versions.md.

use super::environment::Environment;
use crate::project::Project;

/// One version for each memory layout that the hook supports, from the oldest on.
const VERSIONS: &[&str] = &["0.69.0", "0.73.1", "0.77.0", "0.79.0", "0.81.1"];

pub(super) fn print(project: &Project, versions: &[&str]) -> Result<(), String> {
    let mut table = String::from("| ttnn | dispatch on a mock | cases equal | cases that are not |\n| --- | --- | --- | --- |\n");
    for version in if versions.is_empty() { VERSIONS } else { versions } {
        // A version that is not available does not stop the others.
        let row = match Environment::have(project, version) {
            Ok(environment) => {
                let score = super::compare(project, &environment, &[])?;
                let differing = if score.failed.is_empty() { "–".to_owned() } else { score.failed.join(", ") };
                let dispatch = if environment.is_fast() { "fast" } else { "slow" };
                format!("| {version} | {dispatch} | {} of {} | {differing} |\n", score.passed, score.passed + score.failed.len() as u64)
            }
            Err(why) => format!("| {version} | – | – | {why} |\n"),
        };
        table += &row;
    }
    print!("\n{table}");
    Ok(())
}
