//! Flags of the commands that watch a machine: `top`, `record`, `wait`, `dmon`, `pmon`, `topo`, `events`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ttmon_model::units::UnixTime;
use ttmon_print::LineStamp;
use ttmon_top::View;

use super::values::{self, NamedService, Parsed, REFRESH};
use crate::completion;

#[derive(Debug, Default, Args)]
pub(crate) struct DmonArgs {
    /// Columns: p power and temperature, u utilization, c clocks, v events of the firmware, m memory, t PCIe traffic.
    #[arg(short, long, value_name = "pucvmt", default_value = "pucm")]
    pub(crate) select: String,
    /// Read the chips themselves too, as `ttmon --deep` does; needed for utilization.
    #[arg(long)]
    pub(crate) deep: bool,
    #[command(flatten)]
    pub(crate) lines: LinesArgs,
}

#[derive(Debug, Default, Args)]
pub(crate) struct PmonArgs {
    #[command(flatten)]
    pub(crate) lines: LinesArgs,
}

/// Flags of commands that print lines repeatedly.
#[derive(Debug, Default, Args)]
pub(crate) struct LinesArgs {
    /// Stop after N samples.
    #[arg(short, long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Begin each line with the date (D), the time (T) or both (DT).
    #[arg(short = 'o', long, value_name = "DT", value_parser = Parsed(values::stamp))]
    pub(crate) options: Option<LineStamp>,
}

#[derive(Debug, Default, Args)]
pub(crate) struct TopoArgs {
    /// Print the matrix, which is the default.
    #[arg(short, long)]
    pub(crate) matrix: bool,
}

#[derive(Debug, Default, Args)]
pub(crate) struct EventsArgs {
    /// Only this process.
    #[arg(long, value_name = "P")]
    pub(crate) pid: Option<u32>,
    /// Keep printing new events.
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Begin with the last N events.
    #[arg(short = 'n', long = "lines", value_name = "N")]
    pub(crate) lines: Option<usize>,
    /// Only events since this time: 5m (five minutes ago), or 2026-11-15T08:12:45Z.
    #[arg(long, value_name = "TIME", value_parser = Parsed(values::since))]
    pub(crate) since: Option<UnixTime>,
}

#[derive(Debug, Default, Args)]
pub(crate) struct TopArgs {
    /// Refresh interval in milliseconds, at least 50 [default: as in the settings, else 1000]. A recording is played at its own
    /// speed.
    #[arg(short, long, value_name = "MS", num_args = 0..=1, default_missing_value = "", allow_hyphen_values = true, value_parser = REFRESH)]
    pub(crate) refresh: Option<Duration>,
    /// First view: 1 main, 2 charts, 3 detail, 4 memory, 5 mesh.
    #[arg(long, value_name = "N", value_parser = Parsed(values::view))]
    pub(crate) view: Option<View>,
    /// Show what `ttmon record` wrote, instead of this machine.
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Option<PathBuf>,
    /// Show the machine of a service instead of this one: http://HOST:PORT, https://HOST:PORT or unix:PATH; can be repeated.
    #[arg(long, value_name = "URL", conflicts_with = "replay", value_parser = Parsed(values::service))]
    pub(crate) connect: Vec<NamedService>,
    /// File with the token for the services of --connect; also TTMON_TOKEN_FILE, or the token itself in TTMON_TOKEN.
    #[arg(long, value_name = "FILE", requires = "connect")]
    pub(crate) token_file: Option<PathBuf>,
    /// Certificates to trust for https://, in PEM, instead of the system's.
    #[arg(long, value_name = "FILE", requires = "connect")]
    pub(crate) ca: Option<PathBuf>,
    /// Send no signals to processes.
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Read the chips themselves too, as `ttmon --deep` does.
    #[arg(long, conflicts_with_all = ["replay", "connect"])]
    pub(crate) deep: bool,
    /// Settings file, instead of $XDG_CONFIG_HOME/ttmon/config.toml; also TTMON_CONFIG.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// File to write; it must not exist, unless --force is given.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Interval between samples in milliseconds, at least 50 [default: 1000].
    #[arg(short, long, value_name = "MS", num_args = 0..=1, default_missing_value = "", allow_hyphen_values = true, value_parser = REFRESH)]
    pub(crate) refresh: Option<Duration>,
    /// Leave out live buffers, blocks of banks and events: a smaller file, and an empty memory view.
    #[arg(long)]
    pub(crate) no_buffers: bool,
    /// Read the chips themselves too, as `ttmon --deep` does.
    #[arg(long)]
    pub(crate) deep: bool,
    /// End after this time: seconds, or 30s, 5m, 1h30m.
    #[arg(long, value_name = "TIME", value_parser = values::seconds)]
    pub(crate) duration: Option<Duration>,
    /// Replace FILE if it exists.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// Wait until no process has the devices open.
    #[arg(long, required = true)]
    pub(crate) idle: bool,
    /// Give up after this time: seconds, or 30s, 5m, 1h30m.
    #[arg(long, value_name = "TIME", value_parser = values::seconds)]
    pub(crate) timeout: Option<Duration>,
    /// Only these devices.
    #[arg(value_name = "DEV", add = completion::devices())]
    pub(crate) devices: Vec<String>,
}
