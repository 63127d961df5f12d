//! Interprets `ttmon run`.

use std::path::Path;

use super::{CliTarget, Context, refuse};
use crate::cli::{GlobalArgs, RunArgs};
use crate::failure::Failure;

pub(crate) fn run(common: &GlobalArgs, args: &RunArgs) -> Result<Context, Failure> {
    check(common, args)?;
    let checks = args.checks();
    if checks.allow_untracked && checks.is_empty() {
        return Err(Failure::usage(
            "--allow-untracked says what a check makes of what it cannot judge; give a check: --fail-on-growth, --max-dram ...",
        ));
    }
    let context = Context::new(common, &[])?;
    if !matches!(context.target, CliTarget::Real) {
        return Err(Failure::usage("TTMON_SIM and TTMON_ROOT name another machine; run starts a program on this one: unset them"));
    }
    Ok(context)
}

/// Refuses flags that have no effect here.
fn check(common: &GlobalArgs, args: &RunArgs) -> Result<(), Failure> {
    refuse(&[
        (
            common.sim.is_some(),
            "--sim shows a simulated machine; run starts a real program, which has real devices or TT-Metal's mock ones",
        ),
        (common.root.is_some(), "--root shows a machine below a directory; run starts a program on this one"),
        (common.seed.is_some(), "--seed is of a simulated machine; run starts a program on this one"),
        (common.json, "--json is for commands that print; the report of run is JSON: --report FILE"),
        (
            !common.device.is_empty() || !common.id.is_empty(),
            "-d chooses what is shown; run tracks all devices that the program uses (TT_VISIBLE_DEVICES limits those)",
        ),
        (args.snapshot.as_deref() == Some(Path::new("-")), "--snapshot - would mix with the program's own output; give a file"),
        (args.snapshot.is_some() && args.snapshot == args.report, "--snapshot and --report name the same file"),
        (args.report.as_deref() == Some(Path::new("-")), "--report - would mix with the program's own output; give a file, or /dev/stderr"),
    ])
}
