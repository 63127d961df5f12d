//! Runs the real kernel driver on simulated chips in a virtual machine, and checks ttmon's values, states and recovery.

use super::{Gate, Outcome};
use crate::driver_vm::{self, Detail, NotRun};

pub(super) fn run(gate: &mut Gate) -> Outcome {
    let rig = match driver_vm::prepare(gate.project, None) {
        Ok(rig) => rig,
        Err(NotRun::Unavailable(why)) => return Outcome::Skipped(format!("NOTHING WAS CHECKED AGAINST THE REAL DRIVER: {why}")),
        Err(NotRun::Failed(why)) => return Outcome::Failed(why),
    };
    match driver_vm::check(&rig, &driver_vm::gate(), Detail::Failures) {
        Ok(score) => {
            gate.tally.add(score.passed, score.failed);
            if score.failed == 0 { Outcome::Passed } else { Outcome::Failed(format!("{} checks against the real driver", score.failed)) }
        }
        Err(why) => Outcome::Failed(why),
    }
}
