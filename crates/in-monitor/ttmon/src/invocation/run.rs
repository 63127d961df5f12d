//! Interprets `ttmon run`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ttmon_buffer_history::{Checks, Limit, Size};

use super::{CliTarget, Context, ExportFormat, refuse};
use crate::cli::{GlobalArgs, RunArgs};
use crate::failure::Failure;

pub(crate) struct RunRequest {
    pub(crate) command: Vec<OsString>,
    pub(crate) report: Option<PathBuf>,
    pub(crate) snapshot: Option<(PathBuf, ExportFormat)>,
    pub(crate) quiet: bool,
    pub(crate) ops: bool,
    /// Whether to record Python lines. `None` leaves the decision to the environment.
    pub(crate) stacks: Option<bool>,
    pub(crate) checks: Checks,
}

pub(crate) fn run(common: &GlobalArgs, args: &RunArgs) -> Result<(Context, RunRequest), Failure> {
    check(common, args)?;
    let checks = checks(args)?;
    let context = Context::new(common, &[])?;
    if !matches!(context.place, CliTarget::Real) {
        return Err(Failure::usage("TTMON_SIM and TTMON_ROOT name another machine; run starts a program on this one: unset them"));
    }
    let format = |path: &Path| match path.extension() {
        Some(extension) if extension.eq_ignore_ascii_case("json") => ExportFormat::Chrome,
        _ => ExportFormat::MemoryViz,
    };
    let request = RunRequest {
        command: args.command.clone(),
        report: args.report.clone(),
        snapshot: args.snapshot.clone().map(|path| (path.clone(), format(&path))),
        quiet: args.quiet,
        ops: args.ops,
        stacks: match (args.stacks, args.no_stacks) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        },
        checks,
    };
    Ok((context, request))
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

fn checks(args: &RunArgs) -> Result<Checks, Failure> {
    let size = |flag: &str, text: &Option<String>| match text {
        Some(text) => text.parse::<Size>().map(|size| Some(size.0)).map_err(|why| Failure::usage(format!("{flag}: {why}"))),
        None => Ok(None),
    };
    let limit = |flag: &str, text: &Option<String>| {
        let parsed = text.as_deref().map(str::parse::<Limit>).transpose();
        parsed.map_err(|why| Failure::usage(format!("{flag}: {why}")))
    };
    let checks = Checks {
        leak: size("--fail-on-leak", &args.fail_on_leak)?,
        growth: size("--fail-on-growth", &args.fail_on_growth)?,
        max_dram: limit("--max-dram", &args.max_dram)?,
        max_l1: limit("--max-l1", &args.max_l1)?,
        min_largest_free: size("--min-largest-free", &args.min_largest_free)?,
        allow_untracked: args.allow_untracked,
    };
    if checks.allow_untracked && checks.is_empty() {
        return Err(Failure::usage(
            "--allow-untracked says what a check makes of what it cannot judge; give a check: --fail-on-growth, --max-dram ...",
        ));
    }
    Ok(checks)
}
