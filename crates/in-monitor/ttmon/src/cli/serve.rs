//! `ttmon serve` as typed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ttmon_allocation_server::Format;
use ttmon_serve::MetricsDetail;

use super::fleet::StoreArgs;
use super::one_of;
use super::values::{self, Listen, Parsed};

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Allocation socket [default: /run/ttmon/alloc.sock and /tmp/tt_allocation_server.sock, also TTMON_SOCKET].
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// File mode of the allocation socket [default: 0666; the kernel identifies each client, which can change only its own entries].
    #[arg(long, value_name = "MODE", default_value = "0666", hide_default_value = true, value_parser = Parsed(values::mode))]
    pub(crate) socket_mode: u32,
    /// Socket on which programs send their ledgers to the service [default: /run/ttmon/handover.sock as root, else below $XDG_RUNTIME_DIR].
    #[arg(long, value_name = "PATH")]
    pub(crate) handover: Option<PathBuf>,
    /// Directory for reported allocations, so that they survive a restart; slower outside tmpfs [default: /run/ttmon/state as root,
    /// else below $XDG_RUNTIME_DIR, else below /dev/shm].
    #[arg(long, value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    /// Unix socket of the API [default: /run/ttmon/api.sock as root, else $XDG_RUNTIME_DIR/ttmon/api.sock].
    #[arg(long, value_name = "PATH")]
    pub(crate) api: Option<PathBuf>,
    /// Address of the HTTP server [default: 127.0.0.1:9477], or off.
    #[arg(long, value_name = "ADDR:PORT|off", value_parser = Parsed(values::listen))]
    pub(crate) listen: Option<Listen>,
    /// Interval between samples, 100ms to 1h; a number without a unit is in seconds [default: 1].
    #[arg(long, value_name = "TIME", default_value = "1", hide_default_value = true, value_parser = values::seconds)]
    pub(crate) interval: Duration,
    /// Read the chips themselves too, as `ttmon --deep` does, for all clients.
    #[arg(long)]
    pub(crate) deep: bool,
    /// Allow requests from other hosts; also requires a token and TLS.
    #[arg(long)]
    pub(crate) allow_remote: bool,
    /// File with the token that gives access to all data over HTTP; also TTMON_TOKEN_FILE, or the token itself in TTMON_TOKEN.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// TLS certificate chain, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// TLS private key, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// How many series the metrics have [default: full].
    #[arg(long, value_name = "DETAIL", default_value = "full", hide_default_value = true, value_parser = one_of(METRICS))]
    pub(crate) metrics: MetricsDetail,
    /// Serve only the metrics of devices and workloads at this address; every host can read them without a token. HTTPS with --tls-cert.
    #[arg(long, value_name = "ADDR:PORT", value_parser = Parsed(values::address))]
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// Add metrics per process, except at the address of --metrics-listen.
    #[arg(long)]
    pub(crate) process_metrics: bool,
    /// Also show a fleet of hosts; URL is the address of a Prometheus server or a compatible store.
    #[arg(long, value_name = "URL")]
    pub(crate) fleet: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Configuration file of alerts instead of /etc/ttmon/config.toml and the user's own; also TTMON_CONFIG.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print neither the banner nor events; errors and dumps are still printed.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Format of log lines.
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = one_of(LOGS))]
    pub(crate) log: Format,
}

const METRICS: &[(&str, &str, MetricsDetail)] = &[
    ("full", "Everything: up to 2,700 series for 32 chips", MetricsDetail::Full),
    ("lean", "What alerts and dashboards of many hosts need: at most 1,500", MetricsDetail::Lean),
];

const LOGS: &[(&str, &str, Format)] = &[("text", "For people", Format::Text), ("json", "One JSON object per line", Format::Json)];
