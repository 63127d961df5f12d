//! The real ttnn on mock chips, in its pinned versions: ttmon's figures beside the allocators' own.

use super::{Gate, Outcome};
use crate::ttnn;

pub(super) fn run(gate: &mut Gate) -> Outcome {
    let environments = match ttnn::environments(gate.project) {
        Ok(environments) => environments,
        Err(why) => return Outcome::Skipped(format!("NOTHING WAS COMPARED WITH THE REAL TTNN: {why}")),
    };
    let mut failed = 0;
    for environment in environments {
        match ttnn::compare(gate.project, &environment, &[]) {
            Ok(score) => {
                gate.tally.add(score.passed, score.failed);
                failed += score.failed;
            }
            Err(why) => return Outcome::Failed(why),
        }
    }
    if failed == 0 { Outcome::Passed } else { Outcome::Failed(format!("{failed} cases differ from TT-Metal's allocators")) }
}
