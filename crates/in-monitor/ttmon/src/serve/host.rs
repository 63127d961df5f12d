//! Starts the host's sampler, history, API and metrics as a part of the service.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ttmon_serve::{Host, Options, Socket, Sockets, StartError, Token};

use super::systemd::InheritedSockets;
use super::{paths, secret};
use crate::cli::ServeArgs;
use crate::cli::values::{LISTEN_DEFAULT, Listen};
use crate::failure::Failure;
use crate::invocation::{CliTarget, Context, variable};
use crate::open::MachineConfig;
use crate::show::VERSION;

/// Prepares the host without starting threads. Returns it with the text to print after the start.
pub(super) fn prepare(
    context: &Context,
    args: &ServeArgs,
    placed: &MachineConfig,
    state: Option<PathBuf>,
    opened: &mut InheritedSockets,
) -> Result<(Host, String), Failure> {
    let api = api(context, args);
    let sockets = sockets(args, api.as_deref(), opened)?;
    let slots = state.as_ref().map(|state| state.join("devices"));
    let reading = ttmon_collect::Options { slots, ..placed.options.clone() };
    let host = Host::prepare(placed.root.clone(), reading, options(context, args, state)?, sockets)?;
    let announcement = announcement(context, api.as_deref(), &host, args);
    Ok((host, announcement))
}

fn sockets(args: &ServeArgs, api: Option<&Path>, opened: &mut InheritedSockets) -> Result<Sockets, Failure> {
    let refuse =
        |flag: &str| Failure::usage(format!("{flag} does not go with a port that the service manager opened; leave one of them out"));
    let api = api.map(|path| match opened.take_stream(path) {
        Some(listener) => Socket::Inherited(listener),
        None => Socket::At(path.to_owned()),
    });
    let http = match opened.http.take() {
        Some(_) if args.listen.is_some() => return Err(refuse("--listen")),
        Some(listener) => Some(Socket::Inherited(listener)),
        None => http_address(args).map(Socket::At),
    };
    let metrics = match (opened.metrics.take(), args.metrics_listen) {
        (Some(_), Some(_)) => return Err(refuse("--metrics-listen")),
        (Some(listener), None) => Some(Socket::Inherited(listener)),
        (None, address) => address.map(Socket::At),
    };
    Ok(Sockets { api, http, metrics })
}

/// The address of the HTTP server, unless the service manager opened a port.
fn http_address(args: &ServeArgs) -> Option<SocketAddr> {
    match args.listen {
        None => Some(LISTEN_DEFAULT),
        Some(Listen::Off) => None,
        Some(Listen::At(address)) => Some(address),
    }
}

fn options(context: &Context, args: &ServeArgs, state: Option<PathBuf>) -> Result<Options, Failure> {
    // Access from other hosts needs a token that the user provided, not a generated one.
    let is_local = !args.allow_remote && http_address(args).is_none_or(|address| address.ip().is_loopback());
    Ok(Options {
        version: VERSION,
        interval: args.interval,
        allow_remote: args.allow_remote,
        token: token(args.token_file.as_deref())?.or_else(|| is_local.then(secret::own).flatten()),
        tls: args.tls_cert.clone().zip(args.tls_key.clone()),
        metrics_detail: args.metrics,
        process_metrics: args.process_metrics,
        state,
        fleet: args.fleet.as_deref().map(|url| crate::fleet::store(url, &args.store)).transpose()?,
        alerts: crate::config::alerts(args.config.as_deref(), matches!(context.target, CliTarget::Real))?,
        complain: crate::failure::print_error,
    })
}

/// The path of the API socket. A simulated machine does not use the default path, which belongs to the real machine.
fn api(context: &Context, args: &ServeArgs) -> Option<PathBuf> {
    let is_real = matches!(context.target, CliTarget::Real);
    args.api.clone().or_else(|| is_real.then(paths::runtime)?.map(|directory| directory.join("api.sock")))
}

/// Reads the token from a file, or else from the environment. A token on the command line would be visible to all users.
pub(crate) fn token(file: Option<&Path>) -> Result<Option<Token>, Failure> {
    let file = file.map(Path::to_owned).or_else(|| variable("TTMON_TOKEN_FILE").map(PathBuf::from));
    let read = match (file, variable("TTMON_TOKEN")) {
        (Some(file), _) => Token::read(&file).map_err(|error| format!("--token-file {error}")),
        (None, Some(token)) => Token::new(token.as_encoded_bytes()).map_err(|error| format!("TTMON_TOKEN: {error}")),
        (None, None) => return Ok(None),
    };
    read.map(Some).map_err(Failure::new)
}

fn announcement(context: &Context, api: Option<&Path>, host: &Host, args: &ServeArgs) -> String {
    let scheme = if args.tls_cert.is_some() { "https" } else { "http" };
    let at = |address: SocketAddr| format!("{scheme}://{address}");
    let metrics = host.metrics_address().map(|address| format!("; metrics alone, to every host, at {}/metrics", at(address)));
    let metrics = metrics.unwrap_or_default();
    let places: Vec<String> = api.map(|path| path.display().to_string()).into_iter().chain(host.address().map(at)).collect();
    let simulated = if matches!(context.target, CliTarget::Simulated(..)) { " a simulated machine" } else { "" };
    if places.is_empty() {
        return format!("serving{simulated} on the allocation socket alone: --listen is off, and --api names no socket{metrics}");
    }
    format!("serving{simulated} at {}{metrics}", places.join(" and "))
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Machine(error) => error.into(),
            StartError::Exposed(..) => Self::usage(error),
            _ => Self::new(error),
        }
    }
}
