//! Runs the real ttnn on mock chips, in its pinned versions, and compares ttmon's figures with the allocators' own.

use super::{Gate, Outcome};
use crate::stop::untested;
use crate::ttnn;

pub(super) fn run(gate: &mut Gate) -> Outcome {
    let environments = ttnn::environments(gate.project).map_err(untested("NOTHING WAS COMPARED WITH THE REAL TTNN"))?;
    let mut differing = Vec::new();
    for environment in environments {
        let score = ttnn::compare(gate.project, &environment, &[])?;
        gate.tally.add(score.passed, score.failed.len() as u64);
        differing.extend(score.failed.iter().map(|case| format!("{case} with {}", environment.version)));
    }
    if differing.is_empty() { Ok(()) } else { Err(format!("not as TT-Metal's allocators say: {}", differing.join(", ")).into()) }
}
