//! Runs the real kernel driver on simulated chips in a virtual machine, and checks ttmon's values, states and recovery.

use super::{Gate, Outcome};
use crate::driver_vm::{self, Detail};

pub(super) fn run(gate: &mut Gate) -> Outcome {
    let rig = driver_vm::prepare(gate.project, None)?;
    let score = driver_vm::check(&rig, &driver_vm::gate(), Detail::Failures)?;
    gate.tally.add(score.passed, score.failed);
    if score.failed == 0 { Ok(()) } else { Err(format!("{} checks against the real driver", score.failed).into()) }
}
