//! Interprets the command line. Commands get requests: complete, valid, and without contradictions.

mod alerts;
mod fleet;
mod memory;
mod monitors;
mod run;
mod serve;
mod snapshot;

use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ttmon_buffer_history::Size;
use ttmon_model::check;
use ttmon_model::select::Selection;
use ttmon_sim::Spec;

use crate::cli::{CheckArgs, Cli, Command, ExportArgs, GlobalArgs, SnapshotArgs};
use crate::failure::Failure;
use crate::terminal::Terminal;

// These values need no interpretation.
pub(crate) use crate::cli::{
    AliasArgs, DoctorArgs, EventsArgs, ExportFormat, RecordArgs, RunArgs, SdArgs, SdFrom, ServeArgs, StoreArgs, TopArgs, When,
};
pub(crate) use alerts::{SilenceRequest, silence};
pub(crate) use fleet::{FindHosts, FleetRequest, fleet, sd};
pub(crate) use memory::{BufferListing, Grouping, MemoryListing, MemoryOutput, MemoryRequest, memory};
pub(crate) use monitors::{LinesRequest, TopSource, dmon, lines, record, top, wait};
pub(crate) use run::run;
pub(crate) use serve::serve;
pub(crate) use snapshot::{Repeat, SnapshotFormat, SnapshotRequest, snapshot};

const REFRESH_DEFAULT: Duration = Duration::from_millis(500);
const READ_TIMEOUT_DEFAULT: Duration = Duration::from_millis(200);
/// Exit code of a usage error of `doctor`, where 2 means "warnings only".
const DOCTOR_USAGE: u8 = 64;

#[derive(Debug)]
pub(crate) enum CliTarget {
    Real,
    Below(PathBuf),
    Simulated(Spec, u64),
}

/// Which machine a command reads, and how.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) target: CliTarget,
    pub(crate) selection: Selection,
    pub(crate) read_timeout: Duration,
    pub(crate) cluster: Option<PathBuf>,
    pub(crate) no_server: bool,
    pub(crate) terminal: Terminal,
    /// Whether to read the chips themselves (`--deep`).
    pub(crate) deep: bool,
}

/// The format of a command that prints one document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    Text,
    Json,
}

pub(crate) enum OomTarget {
    All,
    Process(u32),
    Report(PathBuf),
}

pub(crate) struct ExportRequest {
    pub(crate) format: ExportFormat,
    pub(crate) input: ExportInput,
    /// A file; `None` is standard output.
    pub(crate) output: Option<PathBuf>,
}

pub(crate) enum ExportInput {
    Process(Context, u32),
    /// A run report or a recording.
    File(PathBuf),
}

impl OutputFormat {
    pub(crate) fn of(common: &GlobalArgs) -> Self {
        if common.json { Self::Json } else { Self::Text }
    }
}

/// Returns a usage error with the message of the first broken rule.
fn refuse(rules: &[(bool, &str)]) -> Result<(), Failure> {
    rules.iter().find(|(is_broken, _)| *is_broken).map_or(Ok(()), |(_, message)| Err(Failure::usage(message)))
}

/// Refuses flags that do not go with the command.
pub(crate) fn check_common(cli: &Cli, command: &Command) -> Result<(), Failure> {
    if cli.snapshot != SnapshotArgs::default() {
        return Err(Failure::usage("flags of the snapshot (-w, -l, -L, -q, --fields, -f ...) do not go with a sub-command"));
    }
    let common = &cli.common;
    if !command.reads_a_machine() && (common.names_a_machine() || common.seed.is_some() || common.json) {
        return Err(Failure::usage("this command reads no machine; leave -d, -i, --json, --root, --sim, --seed and --cluster out"));
    }
    Ok(())
}

impl Context {
    #[cfg(test)]
    pub(crate) fn without_flags() -> Self {
        Self::new(&GlobalArgs::default(), &[]).expect("no flags")
    }

    /// Reads the common flags. `more` are devices named as arguments.
    pub(crate) fn new(common: &GlobalArgs, more: &[String]) -> Result<Self, Failure> {
        Self::of_devices(common, common.device.iter().chain(&common.id).chain(more))
    }

    /// Reads the common flags of a command in which `-d` may have another meaning: `lists` name the devices.
    pub(crate) fn of_devices<'a>(common: &GlobalArgs, lists: impl Iterator<Item = &'a String>) -> Result<Self, Failure> {
        let mut selection = Selection::default();
        for list in lists {
            selection.extend(Selection::parse(list).map_err(Failure::usage)?);
        }
        let read_timeout = match common.read_timeout {
            None => READ_TIMEOUT_DEFAULT,
            Some(millis @ 1..=60_000) => Duration::from_millis(millis),
            Some(_) => return Err(Failure::usage("--read-timeout takes 1 to 60000 milliseconds")),
        };
        Ok(Self {
            target: target(common)?,
            selection,
            read_timeout,
            cluster: common.cluster.clone(),
            no_server: common.no_server,
            terminal: Terminal::of_stdout(common.color, common.ascii),
            deep: false,
        })
    }

    pub(crate) fn with_deep(self, deep: bool) -> Self {
        Self { deep, ..self }
    }
}

/// Returns the machine that the flags select, or else the environment. Each of `--root` and `--sim` overrides both variables.
fn target(common: &GlobalArgs) -> Result<CliTarget, Failure> {
    if common.root.is_some() && common.sim.is_some() {
        return Err(Failure::usage("--root and --sim both name a machine; give one of them"));
    }
    let variable = |name| variable(name).filter(|_| common.root.is_none() && common.sim.is_none());
    let named = variable("TTMON_SIM")
        .map(|spec| spec.into_string().map_err(|_| Failure::usage("TTMON_SIM is not text; it names boards, as --sim does")));
    let sim = common.sim.clone().map_or(named.transpose()?, Some);
    let root = common.root.clone().or_else(|| variable("TTMON_ROOT").map(PathBuf::from));
    if sim.is_some() && root.is_some() {
        return Err(Failure::usage("TTMON_SIM and TTMON_ROOT both name a machine; unset one of them"));
    }
    if let Some(spec) = sim {
        let spec = Spec::parse(&spec).map_err(|error| Failure::usage(format!("--sim {spec}: {error}")))?;
        return Ok(CliTarget::Simulated(spec, common.seed.unwrap_or_default()));
    }
    if common.seed.is_some() {
        return Err(Failure::usage("--seed is the seed of a simulation; it goes with --sim"));
    }
    match root {
        Some(root) if root.is_dir() => Ok(CliTarget::Below(root)),
        Some(root) => Err(Failure::new(format!("--root {}: not a directory; give the folder that stands for /", root.display()))),
        None => Ok(CliTarget::Real),
    }
}

pub(crate) fn check(common: &GlobalArgs, args: &CheckArgs) -> Result<(Context, check::Request), Failure> {
    // The monitoring system reads this error on standard output, so it is not one of the command line.
    let free_dram_min = args.min_free_dram.as_deref().map(str::parse::<Size>).transpose().map_err(Failure::usage)?;
    if args.max_temp.is_some_and(|limit| !limit.is_finite()) {
        return Err(Failure::usage("--max-temp takes degrees Celsius"));
    }
    let request = check::Request {
        is_healthy: args.healthy,
        is_idle: args.idle,
        temperature_max: args.max_temp,
        free_dram_min: free_dram_min.map(|size| size.0),
        count_min: args.count,
        has_no_stale: args.no_stale,
    };
    let is_healthy = request.is_healthy || request == check::Request::default();
    Ok((Context::new(common, &args.devices)?, check::Request { is_healthy, ..request }))
}

/// Interprets the common flags of `doctor`, whose usage errors have another exit code.
pub(crate) fn doctor(common: &GlobalArgs, args: &DoctorArgs) -> Result<Context, Failure> {
    let context = if args.full && args.bundle.is_none() {
        Err(Failure::usage("--full says what --bundle packs; give --bundle FILE too"))
    } else {
        Context::new(common, &[])
    };
    context.map_err(|failure| if failure.code == 2 { Failure { code: DOCTOR_USAGE, ..failure } } else { failure })
}

/// Interprets the target of `oom`. A number is a pid, unless a file with that name exists.
pub(crate) fn oom_target(target: Option<&str>) -> OomTarget {
    match target.map(|target| (target, target.parse::<u32>())) {
        None => OomTarget::All,
        Some((target, Ok(pid))) if !Path::new(target).exists() => OomTarget::Process(pid),
        Some((target, _)) => OomTarget::Report(PathBuf::from(target)),
    }
}

pub(crate) fn export(common: &GlobalArgs, args: &ExportArgs) -> Result<ExportRequest, Failure> {
    if !common.device.is_empty() || !common.id.is_empty() || common.json {
        return Err(Failure::usage("export writes all devices, in the format of --to; leave -d, -i and --json out"));
    }
    let output = Some(args.output.clone()).filter(|path| path != Path::new("-"));
    if output.is_none() && io::stdout().is_terminal() {
        return Err(Failure::usage("-o - would write the file to the terminal; give a file, or a pipe"));
    }
    let pid = args.input.to_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit())).and_then(|text| text.parse::<u32>().ok());
    let input = match pid {
        Some(pid) => ExportInput::Process(Context::new(common, &[])?, pid),
        None => ExportInput::File(PathBuf::from(&args.input)),
    };
    Ok(ExportRequest { format: args.to, input, output })
}

/// Returns a variable of the environment if it is set and not empty.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}
