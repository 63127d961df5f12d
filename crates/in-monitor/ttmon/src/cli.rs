//! The command line as typed. `invocation.rs` interprets the common flags, and each command its own.
#![allow(rustdoc::broken_intra_doc_links, reason = "doc comments here are the help text, where brackets mean: optional")]

mod alerts;
#[cfg(test)]
mod documents;
mod export;
mod fleet;
mod monitors;
mod plain;
mod run;
pub(crate) mod sections;
mod serve;
pub(crate) mod values;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use ttmon_model::groups::GroupBy;
use ttmon_model::order::BufferOrder;

use crate::completion;
use crate::names::Name;
pub(crate) use monitors::{DmonArgs, EventsArgs, LinesArgs, PmonArgs, RecordArgs, TopArgs, TopoArgs, WaitArgs};
use values::REFRESH;

pub(crate) use export::{ExportArgs, ExportFormat};

pub(crate) use alerts::{AlertsArgs, AlertsCommand, SilenceArgs};
pub(crate) use fleet::{FleetArgs, FleetCommand, SdArgs, SdFrom, StoreArgs};
pub(crate) use run::RunArgs;
pub(crate) use serve::ServeArgs;

/// Show Tenstorrent devices: health, clocks, power, temperature, memory, and the processes that use them.
///
/// Without a command, ttmon prints one snapshot. It opens devices only with --deep; without --deep it disturbs nothing. Sizes are
/// binary: 1GB is 2^30 bytes. Power is that of the chip's core rail, not of the board.
#[derive(Debug, Parser)]
#[command(name = "ttmon", version, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) snapshot: SnapshotArgs,
    // These flags come last, because the heading applies to all flags after it.
    #[command(flatten, next_help_heading = "Options of every command")]
    pub(crate) common: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Parses the command line. Only help needs the whole definition, which takes a millisecond to build.
pub(crate) fn typed(words: &[OsString], name: Option<&Name>) -> Result<Cli, clap::Error> {
    if let Some(cli) = plain::parse(words) {
        return Ok(cli);
    }
    let is_other_command = |name: &&Name| {
        let program = Cli::command();
        words.iter().skip(1).any(|word| program.find_subcommand(word).is_some() && !name.is_own_command(word))
    };
    match (Cli::try_parse_from(words), name.filter(|name| !is_other_command(name))) {
        (Err(error), Some(name)) if error.kind() == ErrorKind::DisplayHelp => {
            let help = if words.iter().any(|word| word == "--help") { "--help" } else { "-h" };
            command_of(name).try_get_matches_from([name.name, help]).and_then(|typed| Cli::from_arg_matches(&typed))
        }
        (Err(error), None) if error.kind() == ErrorKind::DisplayHelp => {
            command().override_help(sections::SUMMARY).try_get_matches_from(words).and_then(|typed| Cli::from_arg_matches(&typed))
        }
        (typed, _) => typed,
    }
}

/// Returns the sub-command that was typed, with its own sub-command: `alerts silence`.
pub(crate) fn command_among(words: &[OsString]) -> Option<String> {
    let program = Cli::command();
    let mut own = words.iter().skip(1).take_while(|word| *word != "--").filter_map(|word| word.to_str());
    let command = own.find_map(|word| program.find_subcommand(word))?;
    let inner = own.find_map(|word| command.find_subcommand(word)).map(|inner| format!(" {}", inner.get_name()));
    Some(format!("{}{}", command.get_name(), inner.unwrap_or_default()))
}

/// Returns the exit code of a usage error. `check` and `doctor` use other codes, because 2 has a meaning there.
pub(crate) fn usage_code(words: &[OsString]) -> u8 {
    let is_named = |command: &str| words.iter().any(|word| word == command);
    match () {
        () if is_named("check") => 3,
        () if is_named("doctor") => 64,
        () => 2,
    }
}

/// Returns the definition for the help of an earlier tool's name. The flags of that tool come first, then the flags of ttmon.
fn command_of(name: &Name) -> clap::Command {
    let program = command();
    let of_command = name.command().and_then(|command| program.find_subcommand(command)).cloned();
    let command = of_command.unwrap_or(program);
    let is_own = |id: &str| name.flags.contains(&id) || id == "help";
    let is_needless = |flag: &clap::Arg| flag.get_long().is_some_and(|long| name.needless_flags.contains(&format!("--{long}").as_str()));
    let command = command.mut_args(|flag| match flag.get_id().as_str() {
        id if is_own(id) => flag.hide(false).help_heading(None::<&str>),
        _ if is_needless(&flag) => flag.hide(true),
        _ => flag.help_heading("Options of ttmon"),
    });
    let needless = name.needless_flags.iter().filter_map(|flag| flag.strip_prefix("--"));
    let unknown: Vec<&str> = needless.filter(|flag| command.get_arguments().all(|known| known.get_long() != Some(flag))).collect();
    let command = unknown.into_iter().fold(command, |command, flag| {
        // The definition is already built, so clap derives nothing for an argument that is added here.
        let switch = clap::Arg::new(flag).long(flag).action(clap::ArgAction::SetTrue).num_args(0).help_heading(None::<&str>);
        command.arg(switch.help("Accepted and ignored: ttmon reads sysfs anyway"))
    });
    let command = command.mut_subcommands(|command| command.hide(true));
    let (once, watched) = name.stands_for();
    let watched = watched.map_or_else(String::new, |watched| format!("; with -w for `{watched}`, whose flags it takes too"));
    let end = format!("{} is a link to ttmon and stands for `{once}`{watched}.", name.name);
    command
        .name(name.name)
        .bin_name(name.name)
        .override_usage(format!("{} [OPTIONS]", name.name))
        .after_long_help(end.clone())
        .after_help(end)
}

/// Returns the definition for help, completions, manual and reference.
pub(crate) fn command() -> clap::Command {
    let mut program = Cli::command();
    // Copies the global flags to each command.
    program.build();
    let program = with_sections(program, "");
    program.mut_subcommands(|command| {
        let name = command.get_name().to_owned();
        let command = with_sections(command, &name);
        let senseless = INAPPLICABLE_FLAGS.iter().find(|(name, _)| *name == command.get_name()).map_or(&[][..], |(_, flags)| flags);
        let is_delay = DELAY_COMMANDS.contains(&command.get_name());
        command.mut_args(|flag| match flag.get_id().as_str() {
            id if senseless.contains(&id) => flag.hide(true),
            "device" if is_delay => flag.help(DELAY_HELP).value_name("TIME"),
            "id" if is_delay => flag.help("Only these devices: ids and ranges (0,2-3), PCI addresses, asic ids, serials, board:NAME"),
            _ => flag,
        })
    })
}

/// Adds the last sections of the long help.
fn with_sections(command: clap::Command, name: &str) -> clap::Command {
    match sections::Sections::of(name) {
        Some(sections) => command.after_long_help(sections.text()),
        None => command,
    }
}

/// Common flags that have no effect in some commands. Help does not list them there. A command refuses these flags with a reason, except
/// flags that ask for what the command does anyway (`--no-server`, `--color` ...).
const INAPPLICABLE_FLAGS: &[(&str, &[&str])] = &[
    ("wait", &["json"]),
    ("serve", &["device", "id", "json", "no_server"]),
    ("top", &["json"]),
    ("record", &["json", "no_server"]),
    ("run", &["device", "id", "json", "root", "sim", "seed", "no_server"]),
    ("env", OF_MACHINES),
    ("alias", OF_MACHINES),
    ("report", OF_MACHINES),
    ("export", &["device", "id", "json", "no_server"]),
    ("token", OF_MACHINES),
    ("completions", OF_MACHINES),
    ("man", OF_MACHINES),
    ("help", OF_MACHINES),
    ("fleet", &["device", "id", "no_server", "root", "sim", "seed", "cluster", "read_timeout"]),
    ("sd", &["device", "id", "json", "no_server", "root", "sim", "seed", "cluster", "read_timeout", "color", "ascii"]),
    ("dmon", &["json"]),
    ("pmon", &["json"]),
];

/// Commands in which `-d` is the interval, as in nvidia-smi.
pub(crate) const DELAY_COMMANDS: [&str; 2] = ["dmon", "pmon"];
const DELAY_HELP: &str = "Interval between lines: seconds, or 500ms, 5m [default: 1]; select devices with -i";
const OF_MACHINES: &[&str] = &["device", "id", "json", "no_server", "root", "sim", "seed", "cluster", "read_timeout", "color", "ascii"];

#[derive(Debug, Default, Args)]
pub(crate) struct GlobalArgs {
    /// Only these devices: ids and ranges (0,2-3), PCI addresses, asic ids, serials, board:NAME.
    #[arg(short = 'd', long = "device", value_name = "LIST", global = true, add = completion::devices())]
    pub(crate) device: Vec<String>,
    /// Same as --device.
    #[arg(short = 'i', long = "id", value_name = "LIST", global = true, add = completion::devices())]
    pub(crate) id: Vec<String>,
    /// Print JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Do not ask a running ttmon server; read the machine here.
    #[arg(long, global = true)]
    pub(crate) no_server: bool,
    /// Read the files of a machine below DIR instead of /; read nothing outside DIR.
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) root: Option<PathBuf>,
    /// Show a simulated machine: BOARD[xN][,BOARD[xN]...][,OPTION...], for example t3k or p150x2,fault=hot:1.
    #[arg(long, value_name = "SPEC", global = true, add = completion::sims())]
    pub(crate) sim: Option<String>,
    /// Seed of the simulation.
    #[arg(long, value_name = "N", global = true)]
    pub(crate) seed: Option<u64>,
    /// UMD's cluster descriptor: which remote chips there are, and their ids.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) cluster: Option<PathBuf>,
    /// Longest wait for one file, in milliseconds [default: 200].
    #[arg(long, value_name = "MS", global = true)]
    pub(crate) read_timeout: Option<u64>,
    /// When to colour.
    #[arg(long, value_name = "WHEN", global = true, default_value = "auto")]
    pub(crate) color: When,
    /// Draw with ASCII only.
    #[arg(long, global = true)]
    pub(crate) ascii: bool,
}

impl GlobalArgs {
    /// Whether a flag selects devices or a machine. `--seed` does not count: some commands have a simulation of their own.
    pub(crate) fn names_a_machine(&self) -> bool {
        let Self { device, id, root, sim, cluster, .. } = self;
        !device.is_empty() || !id.is_empty() || root.is_some() || sim.is_some() || cluster.is_some()
    }
}

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

#[derive(Debug, Default, PartialEq, Args)]
pub(crate) struct SnapshotArgs {
    /// Refresh in place.
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// Refresh of --watch in milliseconds, at least 50 [default: 500]; also 2s. (Not tt-smi's reset: ttmon never resets a
    /// device.)
    #[arg(short, long, value_name = "MS", num_args = 0..=1, default_missing_value = "", allow_hyphen_values = true, value_parser = REFRESH)]
    pub(crate) refresh: Option<Duration>,
    /// Print again every SEC seconds [default without a value: 5]; also 500ms, 5m.
    #[arg(short = 'l', long = "loop", value_name = "SEC", num_args = 0..=1, default_missing_value = "5", value_parser = values::seconds)]
    pub(crate) loop_interval: Option<Duration>,
    /// Print again every MS milliseconds; also spelled -lms.
    #[arg(long = "loop-ms", value_name = "MS")]
    pub(crate) loop_ms: Option<u64>,
    /// One line per device; also spelled --list-gpus.
    #[arg(short = 'L', long, alias = "list-gpus")]
    pub(crate) list: bool,
    /// Print all values of each device, and the reason for each missing value. With -q, -d selects nvidia-smi's sections (MEMORY,
    /// POWER ...), and -i selects devices.
    #[arg(short, long)]
    pub(crate) query: bool,
    /// CSV of these fields (see --help-fields).
    #[arg(long, value_name = "F,F...", add = completion::fields())]
    pub(crate) fields: Option<String>,
    /// csv[,noheader][,nounits]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<String>,
    /// Like nvidia-smi --query-gpu: same field names and output format.
    #[arg(long, value_name = "F,F...", add = completion::gpu_fields())]
    pub(crate) query_gpu: Option<String>,
    /// Like nvidia-smi --query-compute-apps: same field names and output format.
    #[arg(long, value_name = "F,F...", add = completion::app_fields())]
    pub(crate) query_compute_apps: Option<String>,
    /// List the fields of --fields.
    #[arg(long)]
    pub(crate) help_fields: bool,
    /// List the fields of --query-gpu.
    #[arg(long)]
    pub(crate) help_query_gpu: bool,
    /// List the fields of --query-compute-apps.
    #[arg(long)]
    pub(crate) help_query_compute_apps: bool,
    /// Leave processes and memory out.
    #[arg(long)]
    pub(crate) no_processes: bool,
    /// Write to FILE; it appears only when it is complete.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Read the chips themselves too: utilization, GDDR, Ethernet links, board power. Opens each device for a millisecond per
    /// sample; see docs/deep.md.
    #[arg(long)]
    pub(crate) deep: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the processes that use each device.
    Who {
        /// Only these devices.
        #[arg(value_name = "DEV", add = completion::devices())]
        devices: Vec<String>,
    },
    /// Print one line per device and interval, as nvidia-smi dmon does.
    Dmon(DmonArgs),
    /// Print one line per process, device and interval, as nvidia-smi pmon does.
    Pmon(PmonArgs),
    /// Print how each pair of devices is connected.
    Topo(TopoArgs),
    /// Wait until devices are idle; exits 4 on timeout.
    Wait(WaitArgs),
    /// Check this machine; print each problem with the command that fixes it.
    ///
    /// Exit codes: 0 fine, 1 a problem, 2 warnings only, 64 usage error.
    Doctor(DoctorArgs),
    /// Check devices for Nagios, Slurm or Kubernetes: one line, and an exit code.
    ///
    /// Without a flag it checks --healthy. Performance data follows a `|`. Exit codes: 0 ok, 1 warning, 2 critical, 3 unknown
    /// (also a usage error, or no device).
    Check(CheckArgs),
    /// List, test and silence the alerts of this host.
    Alerts(AlertsArgs),
    /// Show the memory of tracked processes by kind or by buffer, or compare it with an earlier result.
    Mem(MemArgs),
    /// Explain refused allocations: what was requested, what was free, which source lines held the memory, and what to free.
    Oom {
        /// A pid (with a running service also of an ended process), or a report of `ttmon run --report` [default: all live processes].
        #[arg(value_name = "PID|REPORT")]
        target: Option<String>,
    },
    /// List allocations and frees of tracked processes: at most the last 65,536 events of each process.
    Events(EventsArgs),
    /// Run the service of this host: sample the devices, keep history, receive allocation messages, and answer requests on Unix
    /// sockets and over HTTP (JSON, events, metrics).
    Serve(ServeArgs),
    /// Open the interactive monitor: devices, processes, charts, memory, mesh. Press h to list its keys.
    Top(TopArgs),
    /// Run a command and track its device memory; print a summary at the end.
    ///
    /// The command runs as it would without ttmon: terminal, signals, input, output and exit code pass through. Its child processes
    /// are tracked too. At the end, ttmon prints on standard error: the peaks of each device and their content, buffers that were
    /// not freed, and refused allocations. ttmon's own exit codes: 123 a check failed, 125 ttmon failed before the command was
    /// started, 126 the command cannot be executed, 127 it was not found.
    Run(RunArgs),
    /// Print the environment variables that `run` sets, as shell commands: eval "$(ttmon env)".
    Env {
        /// Also record which operation allocated each buffer.
        #[arg(long)]
        ops: bool,
        /// Do not record Python lines.
        #[arg(long)]
        no_stacks: bool,
    },
    /// List the hosts of a fleet, worst first, from a Prometheus server or a compatible store.
    Fleet(FleetArgs),
    /// Print the hosts of a fleet as JSON for Prometheus's file_sd and http_sd.
    Sd(SdArgs),
    /// Record samples to a file, for `ttmon top --replay`: JSON lines in zstd. Ctrl-C ends the recording.
    Record(RecordArgs),
    /// Make (or remove) links under the names of earlier tools: tt_smi, tt_smi_umd, tt-nvtop, allocation_monitor_client,
    /// allocation_server_poc.
    Alias(AliasArgs),
    /// Print a shell's completion script.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, in roff: `ttmon man | man -l -`.
    Man {
        /// Print the page of this command.
        command: Option<String>,
        /// Write one page per command into this folder instead of printing one.
        #[arg(long, value_name = "DIR", conflicts_with = "command")]
        dir: Option<PathBuf>,
    },
    /// Print the help of ttmon, or of one of its commands.
    Help {
        /// The command, and its sub-command if it has any.
        #[arg(value_name = "CMD", add = completion::commands())]
        command: Vec<String>,
    },
    /// Write a run report or a recording as one HTML file that opens without network.
    Report(ReportArgs),
    /// Write the memory of a process, a run report or a recording for the viewers of other projects.
    ///
    /// memory-viz is the snapshot that the page pytorch.org/memory_viz and torch.cuda._memory_viz read; chrome is a trace that
    /// ui.perfetto.dev and chrome://tracing open.
    Export(ExportArgs),
    /// Print the access token of the service; it gives access to all data over HTTP and on the page.
    Token {
        /// File with the token; also TTMON_TOKEN_FILE [default: that of the service of this user].
        #[arg(long, value_name = "FILE")]
        token_file: Option<PathBuf>,
    },
}

impl Command {
    /// Whether the flags that select a machine have an effect.
    pub(crate) fn reads_a_machine(&self) -> bool {
        !matches!(
            self,
            Self::Env { .. }
                | Self::Alias(_)
                | Self::Report(_)
                | Self::Sd(_)
                | Self::Token { .. }
                | Self::Completions { .. }
                | Self::Man { .. }
                | Self::Help { .. }
        )
    }
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// A report of `ttmon run --report`, or a recording of `ttmon record`.
    pub(crate) input: PathBuf,
    /// The file to write.
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

#[derive(Debug, Default, Args)]
pub(crate) struct DoctorArgs {
    /// Write what a bug report needs to FILE (.tar.zst): the driver's files, a snapshot, versions, the driver's log.
    #[arg(long, value_name = "FILE")]
    pub(crate) bundle: Option<PathBuf>,
    /// Keep the host name and serial numbers in the bundle, instead of replacing them.
    #[arg(long)]
    pub(crate) full: bool,
}

#[derive(Debug, Default, Args)]
pub(crate) struct CheckArgs {
    /// Check that every device is readable and within its own limits.
    #[arg(long)]
    pub(crate) healthy: bool,
    /// Check that no process has a device open.
    #[arg(long)]
    pub(crate) idle: bool,
    /// Check that no device is hotter than C degrees Celsius.
    #[arg(long, value_name = "C")]
    pub(crate) max_temp: Option<f64>,
    /// Check that every device has at least SIZE (10G) of DRAM free. Memory that is not tracked does not count as free.
    #[arg(long, value_name = "SIZE")]
    pub(crate) min_free_dram: Option<String>,
    /// Check that at least N devices are readable.
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<usize>,
    /// Check that no ended process left memory or an open device.
    #[arg(long)]
    pub(crate) no_stale: bool,
    /// Check only these devices.
    #[arg(value_name = "DEV", add = completion::devices())]
    pub(crate) devices: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AliasArgs {
    /// Folder for the links [default: the folder of the ttmon program].
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Replace links that point to another ttmon.
    #[arg(long)]
    pub(crate) force: bool,
    /// Remove the links instead.
    #[arg(long, conflicts_with = "force")]
    pub(crate) remove: bool,
}

#[derive(Debug, Default, Args)]
pub(crate) struct MemArgs {
    /// List the live buffers.
    #[arg(long)]
    pub(crate) buffers: bool,
    /// Show how each allocator's banks are filled: free, largest free block, fragmentation.
    #[arg(long)]
    pub(crate) banks: bool,
    /// List the blocks of each allocator, used and free.
    #[arg(long)]
    pub(crate) blocks: bool,
    /// Write the files of TT-Metal's MemoryReporter and a table of all blocks into DIR. With -w: write MemoryReporter's files by
    /// program, and append each new program. With --by: write the groups into DIR, or print them if DIR is "-".
    #[arg(long, value_name = "DIR")]
    pub(crate) csv: Option<PathBuf>,
    /// Only this process.
    #[arg(long, value_name = "P")]
    pub(crate) pid: Option<u32>,
    /// Order of the buffers [default: size].
    #[arg(long, value_name = "BY", value_parser = one_of(ORDERS))]
    pub(crate) sort: Option<BufferOrder>,
    /// Only the first N buffers, or groups of --by.
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    /// Group live buffers by the line, tag or operation that allocated them, largest group first. Also show the growth since the
    /// program's last mark.
    #[arg(long, value_name = "WHAT", value_parser = one_of(GROUPS))]
    pub(crate) by: Option<GroupBy>,
    /// With --by: also show the bytes allocated in the last SECONDS.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) since: Option<f64>,
    /// Compare with an earlier `ttmon mem --json --buffers` in FILE: new, gone, grown.
    #[arg(long, value_name = "FILE")]
    pub(crate) diff: Option<PathBuf>,
    /// Show idle devices too.
    #[arg(short = 'a', long)]
    pub(crate) all: bool,
    /// Refresh in place.
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// Refresh of --watch in milliseconds, at least 50 [default: 500].
    #[arg(short, long, value_name = "MS", num_args = 0..=1, default_missing_value = "", allow_hyphen_values = true, value_parser = REFRESH)]
    pub(crate) refresh: Option<Duration>,
}

const GROUPS: &[(&str, &str, GroupBy)] = &[
    ("line", "By the Python line that allocated them", GroupBy::Line),
    ("tag", "By tag", GroupBy::Tag),
    ("op", "By operation", GroupBy::Op),
];

const ORDERS: &[(&str, &str, BufferOrder)] = &[
    ("size", "Largest first", BufferOrder::Size),
    ("age", "Oldest first", BufferOrder::Age),
    ("address", "By address", BufferOrder::Address),
    ("tag", "By tag", BufferOrder::Tag),
];

/// Parses one of these words, each with its help and its value.
fn one_of<T: Copy + Send + Sync + 'static>(words: &'static [(&str, &str, T)]) -> impl TypedValueParser<Value = T> {
    let shown = words.iter().map(|(word, help, _)| PossibleValue::new(*word).help(*help));
    let value = |typed: String| words.iter().find(|(word, ..)| *word == typed).map(|(.., value)| *value).ok_or("unknown word");
    PossibleValuesParser::new(shown).try_map(value)
}
