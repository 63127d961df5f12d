//! What the common flags and the flags of the snapshot mean. Each other command interprets its own flags.

mod snapshot;

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use ttmon_model::select::Selection;
use ttmon_sim::Spec;

use crate::cli::{Cli, Command, GlobalArgs, SnapshotArgs};
use crate::failure::Failure;
use crate::terminal::Terminal;

pub(crate) use snapshot::{Repeat, SnapshotFormat, SnapshotRequest, snapshot};

pub(crate) const REFRESH_DEFAULT: Duration = Duration::from_millis(500);
const READ_TIMEOUT_DEFAULT: Duration = Duration::from_millis(200);

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
    pub(crate) format: OutputFormat,
    /// Whether to read the chips themselves (`--deep`).
    pub(crate) deep: bool,
}

/// The format of a command that prints one document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    Text,
    Json,
}

/// Returns a usage error with the message of the first broken rule.
pub(crate) fn refuse(rules: &[(bool, &str)]) -> Result<(), Failure> {
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
            format: if common.json { OutputFormat::Json } else { OutputFormat::Text },
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

/// Returns a variable of the environment if it is set and not empty.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}
