//! The interpreted command line: complete, valid, and without contradictions. Commands read only this form.

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
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap_complete::Shell;
use ttmon_account::Size;
use ttmon_model::check;
use ttmon_model::limits::{REFRESH_MAX, REFRESH_MIN};
use ttmon_model::select::Selection;
use ttmon_print::DeviceColumns;
use ttmon_sim::Spec;

use crate::cli::{self, AliasArgs, CheckArgs, Cli, Command, DoctorArgs, ExportArgs, GlobalArgs, Page, SnapshotArgs};
use crate::failure::Failure;
use crate::terminal::Terminal;

pub(crate) use crate::cli::{ExportFormat, When};
pub(crate) use alerts::{AlertsRequest, SilenceRequest};
pub(crate) use fleet::{FindHosts, FleetRequest, HostFault, HostListSource, SdRequest, SimFleetRequest, StoreRequest, StoreSecret};
pub(crate) use memory::{BufferListing, Grouping, MemoryListing, MemoryOutput, MemoryRequest};
pub(crate) use monitors::{EventsRequest, LinesRequest, RecordRequest, TopRequest, TopSource};
pub(crate) use run::RunRequest;
pub(crate) use serve::{HttpAddress, ServeRequest};
pub(crate) use snapshot::{Repeat, SnapshotFormat, SnapshotRequest};

const REFRESH_DEFAULT: Duration = Duration::from_millis(500);
const READ_TIMEOUT_DEFAULT: Duration = Duration::from_millis(200);
/// Exit code of a usage error of `doctor`, where 2 means "warnings only".
const DOCTOR_USAGE: u8 = 64;

/// A command with its arguments.
pub(crate) enum Invocation {
    Snapshot(Context, SnapshotRequest),
    FieldList(Terminal, FieldList),
    Who(Context, OutputFormat),
    Topo(Context, OutputFormat),
    Dmon(Context, LinesRequest, DeviceColumns),
    Pmon(Context, LinesRequest),
    /// Waits until the devices are idle, or until the timeout.
    Wait(Context, Option<Duration>),
    Check(CheckRequest),
    Doctor(Context, OutputFormat, Option<BundleRequest>),
    Alerts(Context, AlertsRequest),
    Memory(Context, MemoryRequest),
    Oom(Context, OutputFormat, OomTarget),
    Events(Context, EventsRequest),
    Top(Context, TopRequest),
    Run(Context, RunRequest),
    Env {
        ops: bool,
        stacks: bool,
    },
    Serve(Context, ServeRequest),
    Record(Context, RecordRequest),
    Alias(AliasRequest),
    Page(PageRequest),
    Fleet(FleetRequest),
    Sd(SdRequest),
    SimFleet(SimFleetRequest),
    /// Writes the input as an HTML page.
    Report {
        input: PathBuf,
        output: PathBuf,
    },
    Export(ExportRequest),
    Token(Option<PathBuf>),
}

/// Which machine.
#[derive(Debug)]
pub(crate) enum CliTarget {
    Real,
    Below(PathBuf),
    Simulated(Spec, u64),
}

/// Which machine a command reads, and how.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) place: CliTarget,
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

/// A list of fields in the help.
pub(crate) enum FieldList {
    Device,
    Gpu,
    ComputeApps,
}

/// The conditions of `check`. A usage error is also a result of the check.
pub(crate) struct CheckRequest {
    pub(crate) format: OutputFormat,
    pub(crate) checked: Result<(Context, check::Request), Failure>,
}

/// A bundle for a bug report.
pub(crate) struct BundleRequest {
    pub(crate) file: PathBuf,
    /// Whether the bundle keeps the host name and serial numbers.
    pub(crate) is_full: bool,
}

/// The refusals that `oom` explains.
pub(crate) enum OomTarget {
    All,
    Process(u32),
    Report(PathBuf),
}

/// The links of `alias`.
pub(crate) struct AliasRequest {
    /// The folder of the links. `None` means the folder of the program.
    pub(crate) directory: Option<PathBuf>,
    pub(crate) action: AliasAction,
}

/// What `alias` does with each link.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AliasAction {
    Make {
        /// Whether links to another ttmon are replaced.
        force: bool,
    },
    Remove,
}

/// A page about the program itself.
pub(crate) enum PageRequest {
    Completions(Shell),
    Help(Vec<String>),
    /// The manual of the program or of a command.
    Manual(Option<String>),
    /// Writes all manual pages into this folder.
    ManualFiles(PathBuf),
    CliReference,
    Metrics,
    Openapi,
    /// A file below deploy/.
    Deploy(Option<String>),
}

/// What `export` writes, and where.
pub(crate) struct ExportRequest {
    pub(crate) format: ExportFormat,
    pub(crate) input: ExportInput,
    /// A file; `None` is standard output.
    pub(crate) output: Option<PathBuf>,
}

/// Where an exported trace comes from.
pub(crate) enum ExportInput {
    Process(Context, u32),
    /// A run report or a recording.
    File(PathBuf),
}

impl OutputFormat {
    fn of(common: &GlobalArgs) -> Self {
        if common.json { Self::Json } else { Self::Text }
    }
}

/// Interprets a command line. Returns a usage error if it is invalid.
pub(crate) fn meant(cli: &Cli) -> Result<Invocation, Failure> {
    let common = &cli.common;
    let Some(command) = &cli.command else {
        let list = |list| Ok(Invocation::FieldList(Terminal::of_stdout(common.color, common.ascii), list));
        return match &cli.snapshot {
            args if args.help_fields => list(FieldList::Device),
            args if args.help_query_gpu => list(FieldList::Gpu),
            args if args.help_query_compute_apps => list(FieldList::ComputeApps),
            args => snapshot::snapshot(common, args).map(|(context, request)| Invocation::Snapshot(context, request)),
        };
    };
    if cli.snapshot != SnapshotArgs::default() {
        return Err(Failure::usage("flags of the snapshot (-w, -l, -L, -q, --fields, -f ...) do not go with a sub-command"));
    }
    if !command.reads_a_machine() && common.names_a_machine() {
        return Err(Failure::usage("this command reads no machine; leave -d, -i, --json, --root, --sim, --seed and --cluster out"));
    }
    let format = OutputFormat::of(common);
    let context = || Context::new(common, &[]);
    Ok(match command {
        Command::Who { devices } => Invocation::Who(Context::new(common, devices)?, format),
        Command::Topo(_) => Invocation::Topo(context()?, format),
        Command::Dmon(args) => monitors::dmon(common, args)?,
        Command::Pmon(args) => monitors::pmon(common, args)?,
        Command::Wait(args) => Invocation::Wait(monitors::wait(common, args)?, args.timeout),
        Command::Check(args) => Invocation::Check(check(common, args)),
        Command::Doctor(args) => {
            let usage = |failure: Failure| if failure.code == 2 { Failure { code: DOCTOR_USAGE, ..failure } } else { failure };
            let (context, bundle) = doctor(common, args).map_err(usage)?;
            Invocation::Doctor(context, format, bundle)
        }
        Command::Alerts(args) => alerts::alerts(common, args)?,
        Command::Mem(args) => Invocation::Memory(context()?, memory::memory(common, args)?),
        Command::Oom { target } => Invocation::Oom(context()?, format, oom_target(target.as_deref())),
        Command::Events(args) => Invocation::Events(context()?, monitors::events(common, args)?),
        Command::Top(args) => monitors::top(common, args)?,
        Command::Run(args) => run::run(common, args)?,
        Command::Env { ops, no_stacks } => Invocation::Env { ops: *ops, stacks: !no_stacks },
        Command::Serve(args) => serve::serve(common, args)?,
        Command::Record(args) => monitors::record(common, args)?,
        Command::Alias(args) => Invocation::Alias(alias(args)),
        Command::Completions { shell } => Invocation::Page(PageRequest::Completions(*shell)),
        Command::Help { command } => Invocation::Page(PageRequest::Help(command.clone())),
        Command::Man { dir: Some(dir), .. } => Invocation::Page(PageRequest::ManualFiles(dir.clone())),
        Command::Man { command, dir: None } => Invocation::Page(PageRequest::Manual(command.clone())),
        Command::Markdown { page, file } => Invocation::Page(match page {
            Page::Cli => PageRequest::CliReference,
            Page::Metrics => PageRequest::Metrics,
            Page::Openapi => PageRequest::Openapi,
            Page::Deploy => PageRequest::Deploy(file.clone()),
        }),
        Command::Fleet(args) => Invocation::Fleet(fleet::fleet(common, args)?),
        Command::Sd(args) => Invocation::Sd(fleet::sd(args)?),
        Command::SimFleet(args) => Invocation::SimFleet(fleet::sim_fleet(common, args)?),
        Command::Report(args) => Invocation::Report { input: args.input.clone(), output: args.output.clone() },
        Command::Export(args) => Invocation::Export(export(common, args)?),
        Command::Token { token_file } => Invocation::Token(token_file.clone()),
    })
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
            place: place(common)?,
            selection,
            read_timeout,
            cluster: common.cluster.clone(),
            no_server: common.no_server,
            terminal: Terminal::of_stdout(common.color, common.ascii),
            deep: false,
        })
    }

    /// Sets whether to read the chips themselves.
    pub(crate) fn with_deep(self, deep: bool) -> Self {
        Self { deep, ..self }
    }
}

/// Returns the machine that the flags select, or else the environment. Each of `--root` and `--sim` overrides both variables.
fn place(common: &GlobalArgs) -> Result<CliTarget, Failure> {
    if common.root.is_some() && common.sim.is_some() {
        return Err(Failure::usage("--root and --sim both name a machine; give one of them"));
    }
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty() && common.root.is_none() && common.sim.is_none());
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

fn check(common: &GlobalArgs, args: &CheckArgs) -> CheckRequest {
    let request = || -> Result<check::Request, Failure> {
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
        Ok(if request == check::Request::default() { check::Request { is_healthy: true, ..request } } else { request })
    };
    let checked = request().and_then(|request| Ok((Context::new(common, &args.devices)?, request)));
    CheckRequest { format: OutputFormat::of(common), checked }
}

fn doctor(common: &GlobalArgs, args: &DoctorArgs) -> Result<(Context, Option<BundleRequest>), Failure> {
    if args.full && args.bundle.is_none() {
        return Err(Failure::usage("--full says what --bundle packs; give --bundle FILE too"));
    }
    let bundle = args.bundle.clone().map(|file| BundleRequest { file, is_full: args.full });
    Ok((Context::new(common, &[])?, bundle))
}

/// Interprets the target of `oom`. A number is a pid, unless a file with that name exists.
fn oom_target(target: Option<&str>) -> OomTarget {
    match target.map(|target| (target, target.parse::<u32>())) {
        None => OomTarget::All,
        Some((target, Ok(pid))) if !Path::new(target).exists() => OomTarget::Process(pid),
        Some((target, _)) => OomTarget::Report(PathBuf::from(target)),
    }
}

fn alias(args: &AliasArgs) -> AliasRequest {
    let action = if args.remove { AliasAction::Remove } else { AliasAction::Make { force: args.force } };
    AliasRequest { directory: args.dir.clone(), action }
}

fn export(common: &GlobalArgs, args: &ExportArgs) -> Result<ExportRequest, Failure> {
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

/// Parses the address of a server, such as `localhost:80`.
fn address(flag: &str, text: &str, example: &str) -> Result<SocketAddr, Failure> {
    let address = text.strip_prefix("localhost:").map_or(text.to_owned(), |port| format!("127.0.0.1:{port}"));
    address.parse().map_err(|_| Failure::usage(format!("{flag} {text}: give ADDR:PORT, such as {example}")))
}

/// Returns a variable of the environment if it is set and not empty.
fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

fn metrics_detail(typed: cli::MetricsDetail) -> ttmon_serve::MetricsDetail {
    match typed {
        cli::MetricsDetail::Full => ttmon_serve::MetricsDetail::Full,
        cli::MetricsDetail::Lean => ttmon_serve::MetricsDetail::Lean,
    }
}

/// Parses `-r`. tt-smi's `-r` resets boards, so the error message explains that ttmon never does.
fn refresh(text: &str) -> Result<Duration, Failure> {
    let interval = text.parse::<u64>().ok().map(Duration::from_millis).or_else(|| ttmon_model::duration::parse(text));
    match interval {
        Some(interval) if (REFRESH_MIN..=REFRESH_MAX).contains(&interval) => Ok(interval),
        _ if text.is_empty() => Err(Failure::usage("-r needs milliseconds, for example -r 500 (ttmon never resets a device)")),
        _ => Err(Failure::usage(format!(
            "-r {text}: ttmon never resets a device; -r takes the milliseconds from one refresh to the next, {} to {}, or a time such as 2s",
            REFRESH_MIN.as_millis(),
            REFRESH_MAX.as_millis()
        ))),
    }
}
