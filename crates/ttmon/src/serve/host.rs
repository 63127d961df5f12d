//! The host's sampler, history, API and metrics as a part of the service.

use std::env;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ttmon_serve::{Host, MetricsDetail, Options, StartError, Token};

use super::systemd::InheritedSockets;
use super::{places, secret};
use crate::cli::{self, ServeArgs};
use crate::failure::Failure;
use crate::invocation::{CliTarget, Context};
use crate::open::MachineConfig;
use crate::show::VERSION;

const LISTEN_DEFAULT: &str = "127.0.0.1:9477";
const INTERVAL_DEFAULT: Duration = Duration::from_secs(1);
const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

/// Ready to run, without a thread so far; the caller has it announced once it does.
pub(super) fn prepare(
    context: &Context,
    args: &ServeArgs,
    placed: &MachineConfig,
    state: Option<PathBuf>,
    opened: &mut InheritedSockets,
) -> Result<(Host, String), Failure> {
    let mut options = Options { state, ..options(context, args)? };
    if let Some(listener) = opened.http.take() {
        if args.listen.is_some() {
            return Err(Failure::usage("--listen does not go with a port that the service manager opened; leave one of them out"));
        }
        options.listen = listener.local_addr().ok();
        options.http_listener = Some(listener);
    }
    if let Some(listener) = opened.metrics.take() {
        if args.metrics_listen.is_some() {
            return Err(Failure::usage("--metrics-listen does not go with a port that the service manager opened; leave one of them out"));
        }
        options.metrics_listener = Some(listener);
    }
    options.api_listener = options.api.as_deref().and_then(|api| opened.take_stream(api));
    let api = options.api.clone();
    let slots = options.state.as_ref().map(|state| state.join("devices"));
    let host = Host::prepare(placed.root.clone(), ttmon_source::Options { slots, ..placed.options.clone() }, options)?;
    let announcement = announcement(context, api.as_deref(), &host, args);
    Ok((host, announcement))
}

fn options(context: &Context, args: &ServeArgs) -> Result<Options, Failure> {
    let interval = args.interval.unwrap_or(INTERVAL_DEFAULT);
    if !INTERVALS.contains(&interval) {
        return Err(Failure::usage("--interval takes 0.1 to 3600 seconds, or a time such as 5s"));
    }
    let listen = listen(args.listen.as_deref().unwrap_or(LISTEN_DEFAULT))?;
    // Other hosts are let in by a token that was chosen for them.
    let is_local = !args.allow_remote && listen.is_none_or(|address| address.ip().is_loopback());
    Ok(Options {
        version: VERSION,
        interval,
        api: api(context, args),
        api_listener: None,
        http_listener: None,
        listen,
        allow_remote: args.allow_remote,
        token: token(args.token_file.as_deref())?.or_else(|| is_local.then(secret::own).flatten()),
        tls: args.tls_cert.clone().zip(args.tls_key.clone()),
        metrics_listen: args.metrics_listen.as_deref().map(|text| address("--metrics-listen", text)).transpose()?,
        metrics_listener: None,
        metrics_detail: match args.metrics {
            cli::MetricsDetail::Full => MetricsDetail::Full,
            cli::MetricsDetail::Lean => MetricsDetail::Lean,
        },
        fleet: args.fleet.as_deref().map_or(Ok(None), |url| crate::fleet::store(Some(url), &args.store))?,
        process_metrics: args.process_metrics,
        state: None,
        alerts: crate::alerts::configuration(args.config.as_deref(), matches!(context.place, CliTarget::Real))?,
        complain: crate::failure::complain,
    })
}

/// A machine that is not this one does not take the place where this one's service is looked for.
fn api(context: &Context, args: &ServeArgs) -> Option<PathBuf> {
    let is_real = matches!(context.place, CliTarget::Real);
    args.api.clone().or_else(|| is_real.then(places::runtime)?.map(|directory| directory.join("api.sock")))
}

fn listen(text: &str) -> Result<Option<SocketAddr>, Failure> {
    if text == "off" {
        return Ok(None);
    }
    address("--listen", text).map(Some).map_err(|failure| Failure::usage(format!("{}, or off", failure.message)))
}

fn address(flag: &str, text: &str) -> Result<SocketAddr, Failure> {
    let address = text.strip_prefix("localhost:").map_or(text.to_owned(), |port| format!("127.0.0.1:{port}"));
    address.parse().map_err(|_| Failure::usage(format!("{flag} {text}: give ADDR:PORT, such as {LISTEN_DEFAULT}")))
}

/// From the file that was named, else from the environment. A token on the command line would be for everybody to read.
pub(crate) fn token(file: Option<&Path>) -> Result<Option<Token>, Failure> {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty());
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
    let simulated = if matches!(context.place, CliTarget::Simulated(..)) { " a simulated machine" } else { "" };
    if places.is_empty() {
        return format!("serving{simulated} on the allocation socket alone: --listen is off, and --api names no socket{metrics}");
    }
    format!("serving{simulated} at {}{metrics}", places.join(" and "))
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Machine(error) => error.into(),
            StartError::Refused(why) => Self::usage(why),
            error => Self::new(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(listen("off").unwrap(), None);
        assert_eq!(listen("localhost:80").unwrap(), "127.0.0.1:80".parse().ok());
        assert_eq!(listen("[::1]:9477").unwrap(), "[::1]:9477".parse().ok());
        for wrong in ["", "9477", "127.0.0.1", "example.org:80", "127.0.0.1:99999"] {
            assert_eq!(listen(wrong).unwrap_err().code, 2, "{wrong}");
        }
    }
}
