//! The ledger's protocol under loom: every order in which a reader may see what the writer stores.

use super::{Gate, Outcome};

pub(super) fn run(gate: &mut Gate) -> Outcome {
    match gate.cargo(&["fetch"]) {
        Ok(()) => tests(gate).into(),
        Err(why) => Outcome::Skipped(format!("the orders of stores were not tried: {why}")),
    }
}

fn tests(gate: &mut Gate) -> Result<(), String> {
    // Apart from the rest: with another flag cargo builds everything anew.
    let target = gate.project.metadata()?.target.join("loom");
    let before = gate.tally.total();
    let tests = ["test", "--package", "ttmon-ledger", "--lib", "--target-dir", &target.to_string_lossy(), "protocol"];
    gate.tests(&tests, &[("RUSTFLAGS", "--cfg loom")])?;
    if gate.tally.total() > before { Ok(()) } else { Err("there are no tests of the protocol".to_owned()) }
}
