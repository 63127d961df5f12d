//! Interprets `ttmon fleet`, `ttmon sd` and `ttmon sim-fleet`.

use std::net::SocketAddr;
use std::path::PathBuf;

use ttmon_buffer_history::Size;
use ttmon_hosts::ServiceAddress;
use ttmon_hosts::fleet::{FindRequest, HOSTS_SHOWN};
use ttmon_serve::MetricsDetail;

use super::{OutputFormat, address, variable};
use crate::cli::{FleetArgs, FleetCommand, GlobalArgs, SdArgs, SdFrom, SimFleetArgs, StoreArgs};
use crate::failure::Failure;

/// Maximum number of hosts of a simulated fleet. Each host takes some kilobytes.
const HOSTS_MAX: u32 = 100_000;
const SD_LISTEN_EXAMPLE: &str = "127.0.0.1:9479";

/// The store and the services to query, and which hosts to list.
pub(crate) struct FleetRequest {
    pub(crate) format: OutputFormat,
    /// Address of a store with Prometheus's HTTP API, and how it is asked.
    pub(crate) store: Option<(String, StoreArgs)>,
    /// Services of `--connect`. At least one if there is no store.
    pub(crate) places: Vec<(String, ServiceAddress)>,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) find: FindHosts,
}

pub(crate) enum FindHosts {
    /// All hosts, worst first, up to this number.
    All(usize),
    Idle(FindRequest),
}

pub(crate) struct SdRequest {
    pub(crate) from: SdFrom,
    /// The list itself, or the output of sinfo or kubectl. Without a file, the program is run.
    pub(crate) input: Option<PathBuf>,
    /// Port of hosts without a port in the list.
    pub(crate) port: u16,
    /// Serve the list at this address instead of printing it.
    pub(crate) listen: Option<SocketAddr>,
}

pub(crate) struct SimFleetRequest {
    pub(crate) hosts: u32,
    pub(crate) seed: u64,
    pub(crate) spec: String,
    pub(crate) faults: Vec<HostFault>,
    pub(crate) listen: SocketAddr,
    pub(crate) detail: MetricsDetail,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostFault {
    pub(crate) host: u64,
    /// The fault in the format of `--sim`.
    pub(crate) text: String,
    /// Seconds after the start.
    pub(crate) from: u64,
    pub(crate) until: u64,
}

pub(crate) fn fleet(common: &GlobalArgs, args: &FleetArgs) -> Result<FleetRequest, Failure> {
    if common.names_a_machine() || common.seed.is_some() {
        return Err(Failure::usage("fleet asks a store; leave -d, -i, --root, --sim, --seed and --cluster out"));
    }
    let url = match (&args.store, variable("TTMON_STORE")) {
        (Some(url), _) => Some(url.clone()),
        (None, Some(url)) => Some(url.into_string().map_err(|_| Failure::usage("TTMON_STORE is not text; it is a URL"))?),
        (None, None) => None,
    };
    let name = if args.command.is_some() { "fleet find" } else { "fleet" };
    if url.is_none() && args.connect.is_empty() {
        let remedy = "name one with --store URL, TTMON_STORE or --connect URL";
        return Err(Failure::usage(format!("{name} asks a store or services; {remedy}")));
    }
    let find = match &args.command {
        None => FindHosts::All(args.limit.unwrap_or(HOSTS_SHOWN)),
        Some(FleetCommand::Find(find)) if find.chips == 0 => return Err(Failure::usage("--chips takes 1 and more")),
        Some(FleetCommand::Find(find)) => {
            let free_dram = find.free_dram.as_deref().map(str::parse::<Size>).transpose().map_err(Failure::usage)?;
            let free_dram = free_dram.map_or(0, |size| size.0);
            FindHosts::Idle(FindRequest { chips: find.chips, board: find.board.clone(), free_dram })
        }
    };
    Ok(FleetRequest {
        format: OutputFormat::of(common),
        store: url.map(|url| (url, args.access.clone())),
        places: places(&args.connect)?,
        token_file: args.token_file.clone(),
        ca: args.access.store_ca.clone(),
        find,
    })
}

/// Parses the services of `--connect`. Returns each with its text.
pub(crate) fn places(connect: &[String]) -> Result<Vec<(String, ServiceAddress)>, Failure> {
    let parse = |text: &String| {
        let place = text.parse().map_err(|bad| Failure::usage(format!("--connect {text}: {bad}")))?;
        Ok((text.clone(), place))
    };
    connect.iter().map(parse).collect()
}

pub(crate) fn sd(args: &SdArgs) -> Result<SdRequest, Failure> {
    if (args.from, &args.input) == (SdFrom::Hosts, &None) {
        return Err(Failure::usage("--from hosts reads a list; name its file with --input FILE"));
    }
    let listen = args.listen.as_deref().map(|text| address("--listen", text, SD_LISTEN_EXAMPLE)).transpose()?;
    Ok(SdRequest { from: args.from, input: args.input.clone(), port: args.port, listen })
}

pub(crate) fn sim_fleet(common: &GlobalArgs, args: &SimFleetArgs) -> Result<SimFleetRequest, Failure> {
    if common.names_a_machine() {
        return Err(Failure::usage("sim-fleet simulates what --spec says; leave -d, -i, --json, --root, --sim and --cluster out"));
    }
    if !(1..=HOSTS_MAX).contains(&args.hosts) {
        return Err(Failure::usage(format!("--hosts takes 1 to {HOSTS_MAX}")));
    }
    Ok(SimFleetRequest {
        hosts: args.hosts,
        seed: common.seed.unwrap_or_default(),
        spec: args.spec.clone(),
        faults: args.fault.iter().map(|text| fault(text, u64::from(args.hosts))).collect::<Result<_, _>>()?,
        listen: address("--listen", &args.listen, SD_LISTEN_EXAMPLE)?,
        detail: args.metrics,
    })
}

/// Parses `HOST:KIND:DEVICE[@SECONDS[-SECONDS]]`.
fn fault(text: &str, hosts: u64) -> Result<HostFault, Failure> {
    let bad = |why: &str| Failure::usage(format!("--fault {text}: {why}; it is HOST:KIND:DEVICE[@SECONDS[-SECONDS]]"));
    let (host, rest) = text.split_once(':').ok_or_else(|| bad("no host"))?;
    let host = host.parse::<u64>().ok().filter(|host| *host < hosts).ok_or_else(|| bad("no such host"))?;
    let (what, span) = rest.split_once('@').unwrap_or((rest, "0"));
    let (from, until) = span.split_once('-').map_or((span, None), |(from, until)| (from, Some(until)));
    let number = |text: &str| text.parse::<u64>().map_err(|_| bad("not seconds"));
    let (from, until) = (number(from)?, until.map_or(Ok(u64::MAX), number)?);
    if until <= from {
        return Err(bad("it ends before it begins"));
    }
    // The fault begins after the first sample, so that a device exists before it vanishes.
    Ok(HostFault { host, text: format!("fault={what}@1"), from, until })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read() {
        let good = HostFault { host: 3, text: "fault=hot:0@1".to_owned(), from: 60, until: 120 };
        assert_eq!(fault("3:hot:0@60-120", 10).unwrap(), good);
        for text in ["", "hot:0", "10:hot:0", "x:hot:0", "1:hot:0@a", "1:hot:0@5-5"] {
            assert_eq!(fault(text, 10).unwrap_err().code, 2, "{text}");
        }
    }
}
