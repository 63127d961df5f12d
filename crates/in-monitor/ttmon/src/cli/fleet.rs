//! `ttmon fleet` and `ttmon sd` as typed.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use ttmon_buffer_history::Size;

use super::values::{self, NamedService, Parsed};

#[derive(Debug, Args)]
pub(crate) struct FleetArgs {
    #[command(subcommand)]
    pub(crate) command: Option<FleetCommand>,
    /// Address of a Prometheus server or a compatible store, such as http://prometheus:9090; also TTMON_STORE.
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) store: Option<String>,
    #[command(flatten)]
    pub(crate) access: StoreArgs,
    /// Ask these services too: http://HOST:PORT, https://HOST:PORT or unix:PATH. They are shown when the store does not answer.
    #[arg(long, value_name = "URL", num_args = 1.., global = true, value_parser = Parsed(values::service))]
    pub(crate) connect: Vec<NamedService>,
    /// File with the token of the services; also TTMON_TOKEN_FILE, or the token itself in TTMON_TOKEN.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) token_file: Option<PathBuf>,
    /// List at most N hosts [default: 1000].
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
}

/// How a store is asked.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct StoreArgs {
    /// File with a bearer token for the store.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) store_token_file: Option<PathBuf>,
    /// File with USER:PASSWORD for the store.
    #[arg(long, value_name = "FILE", global = true, conflicts_with = "store_token_file")]
    pub(crate) store_password_file: Option<PathBuf>,
    /// Certificates to trust for https:// [default: those of the system].
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) store_ca: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    /// List hosts with idle chips. Nothing is reserved. Exits 1 when there is none.
    Find(FindArgs),
}

#[derive(Debug, Args)]
pub(crate) struct FindArgs {
    /// Hosts with at least N chips that no process has open [default: 1].
    #[arg(long, value_name = "N", default_value = "1", hide_default_value = true)]
    pub(crate) chips: u32,
    /// Only boards whose name begins with BOARD, such as n300.
    #[arg(long, value_name = "BOARD")]
    pub(crate) board: Option<String>,
    /// Only chips with at least SIZE (10G) of DRAM free. Unknown memory does not count as free.
    #[arg(long, value_name = "SIZE", value_parser = Parsed(values::size))]
    pub(crate) free_dram: Option<Size>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct SdArgs {
    /// Where the list of hosts comes from.
    #[arg(long, value_name = "SOURCE")]
    pub(crate) from: SdFrom,
    /// Read the list from FILE. `hosts`: NAME[:PORT] [LABEL=VALUE]... per line, tt[01-16] for sixteen hosts; `slurm`: the output of
    /// sinfo --noheader --Node --format "%N %R %f"; `k8s`: that of kubectl get nodes -o json. Without --input, ttmon runs sinfo or kubectl.
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Port of hosts that have no port in the list [default: 9478].
    #[arg(long, value_name = "PORT", default_value = "9478", hide_default_value = true)]
    pub(crate) port: u16,
    /// Serve the list at http://ADDR:PORT/sd instead of printing it; it is read again for every request.
    #[arg(long, value_name = "ADDR:PORT", value_parser = Parsed(values::sd_address))]
    pub(crate) listen: Option<SocketAddr>,
}

/// Where a list of hosts comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SdFrom {
    /// A file with one host per line.
    Hosts,
    /// Slurm's sinfo.
    Slurm,
    /// Nodes of Kubernetes that have cards.
    K8s,
}
