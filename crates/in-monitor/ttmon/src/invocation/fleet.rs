//! Interprets `ttmon fleet` and `ttmon sd`.

use std::path::PathBuf;

use ttmon_hosts::ServiceAddress;
use ttmon_hosts::fleet::{FindRequest, HOSTS_SHOWN};

use super::{OutputFormat, variable};
use crate::cli::{FleetArgs, FleetCommand, GlobalArgs, SdArgs, SdFrom, StoreArgs};
use crate::failure::Failure;

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
            let free_dram = find.free_dram.map_or(0, |size| size.0);
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

pub(crate) fn sd(args: &SdArgs) -> Result<(), Failure> {
    if (args.from, &args.input) == (SdFrom::Hosts, &None) {
        return Err(Failure::usage("--from hosts reads a list; name its file with --input FILE"));
    }
    Ok(())
}
