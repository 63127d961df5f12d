//! Runs the real ttnn on mock chips, in its pinned versions, and compares ttmon's figures with the allocators' own.

use super::{Gate, Outcome};
use crate::ttnn;

pub(super) fn run(gate: &mut Gate) -> Outcome {
    let environments = match ttnn::environments(gate.project) {
        Ok(environments) => environments,
        Err(why) => return Outcome::Skipped(format!("NOTHING WAS COMPARED WITH THE REAL TTNN: {why}")),
    };
    let mut differing = Vec::new();
    for environment in environments {
        match ttnn::compare(gate.project, &environment, &[]) {
            Ok(score) => {
                gate.tally.add(score.passed, score.failed.len() as u64);
                differing.extend(score.failed.iter().map(|case| format!("{case} with {}", environment.version)));
            }
            Err(why) => return Outcome::Failed(why),
        }
    }
    if differing.is_empty() {
        Outcome::Passed
    } else {
        Outcome::Failed(format!("not as TT-Metal's allocators say: {}", differing.join(", ")))
    }
}
