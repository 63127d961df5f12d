//! Tests the ledger's protocol with loom: every order in which a reader may see the writer's stores.

use super::{Gate, Outcome};
use crate::stop::untested;

pub(super) fn run(gate: &mut Gate) -> Outcome {
    gate.cargo(&["fetch"]).map_err(untested("the orders of stores were not tried"))?;
    // A separate target directory, because cargo rebuilds everything if flags change.
    let target = gate.project.target()?.join("loom");
    let before = gate.tally.total();
    let tests = ["test", "--package", "ttmon-ledger", "--lib", "--target-dir", &target.to_string_lossy(), "protocol"];
    gate.tests(&tests, &[("RUSTFLAGS", "--cfg loom")])?;
    if gate.tally.total() > before { Ok(()) } else { Err("there are no tests of the protocol".to_owned().into()) }
}
