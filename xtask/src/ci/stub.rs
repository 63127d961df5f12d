//! Checks the stub, which is not a member of the workspace: its format, its lints, and the hook's tests with the stub preloaded.

use super::{Gate, Outcome};
use crate::libs::{self, Profile};

const MANIFEST: &str = "crates/stub/Cargo.toml";

pub(super) fn run(gate: &mut Gate) -> Outcome {
    gate.cargo(&["fmt", "--manifest-path", MANIFEST, "--check"])?;
    let target = gate.project.target()?.join("stub");
    let target = target.to_string_lossy();
    gate.cargo(&["clippy", "--manifest-path", MANIFEST, "--target-dir", &target, "--", "-D", "warnings"])?;
    let stub = libs::build(gate.project, Profile::Debug)?.join("libttmon_stub.so");
    let stub = stub.to_string_lossy();
    Ok(gate.tests(&["test", "--package", "ttmon-hook", "--test", "stand_in"], &[("TTMON_TEST_PRELOAD", &stub)])?)
}
