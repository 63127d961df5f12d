//! Interprets `ttmon serve`.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use ttmon_allocation_server::Format;
use ttmon_serve::MetricsDetail;

use super::{Context, address, variable};
use crate::cli::{GlobalArgs, ServeArgs, StoreArgs};
use crate::failure::Failure;

const LISTEN_DEFAULT: &str = "127.0.0.1:9477";
const INTERVAL_DEFAULT: Duration = Duration::from_secs(1);
const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);
const SOCKET_MODE_DEFAULT: &str = "0666";

pub(crate) struct ServeRequest {
    /// The allocation socket of `--socket`.
    pub(crate) socket: Option<PathBuf>,
    /// The allocation socket of the environment variable. It applies only to the real machine.
    pub(crate) socket_of_environment: Option<PathBuf>,
    pub(crate) socket_mode: u32,
    pub(crate) handover: Option<PathBuf>,
    pub(crate) state_directory: Option<PathBuf>,
    pub(crate) api: Option<PathBuf>,
    pub(crate) http: HttpAddress,
    pub(crate) allow_remote: bool,
    pub(crate) token_file: Option<PathBuf>,
    /// Files of the certificate and the key.
    pub(crate) tls: Option<(PathBuf, PathBuf)>,
    pub(crate) metrics_address: Option<SocketAddr>,
    pub(crate) metrics_detail: MetricsDetail,
    pub(crate) process_metrics: bool,
    pub(crate) fleet: Option<(String, StoreArgs)>,
    pub(crate) interval: Duration,
    pub(crate) config: Option<PathBuf>,
    pub(crate) quiet: bool,
    pub(crate) log: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpAddress {
    Off,
    /// The address of the flag.
    Named(SocketAddr),
    /// The default address. It is not used if the service manager opened a port.
    Usual(SocketAddr),
}

impl HttpAddress {
    pub(crate) fn get(self) -> Option<SocketAddr> {
        match self {
            Self::Off => None,
            Self::Named(address) | Self::Usual(address) => Some(address),
        }
    }
}

pub(crate) fn serve(common: &GlobalArgs, args: &ServeArgs) -> Result<(Context, ServeRequest), Failure> {
    let context = Context::new(common, &[])?.with_deep(args.deep);
    if common.json || !context.selection.is_empty() {
        return Err(Failure::usage("serve is about the whole machine; leave --json and -d out (--log json is how its lines look)"));
    }
    let interval = args.interval.unwrap_or(INTERVAL_DEFAULT);
    if !INTERVALS.contains(&interval) {
        return Err(Failure::usage("--interval takes 0.1 to 3600 seconds, or a time such as 5s"));
    }
    let metrics_address = args.metrics_listen.as_deref().map(|text| address("--metrics-listen", text, LISTEN_DEFAULT));
    let request = ServeRequest {
        socket: args.socket.clone(),
        socket_of_environment: variable("TTMON_SOCKET").map(PathBuf::from),
        socket_mode: socket_mode(args.socket_mode.as_deref().unwrap_or(SOCKET_MODE_DEFAULT))?,
        handover: args.handover.clone(),
        state_directory: args.state_dir.clone(),
        api: args.api.clone(),
        http: http_address(args.listen.as_deref())?,
        allow_remote: args.allow_remote,
        token_file: args.token_file.clone(),
        tls: args.tls_cert.clone().zip(args.tls_key.clone()),
        metrics_address: metrics_address.transpose()?,
        metrics_detail: args.metrics,
        process_metrics: args.process_metrics,
        fleet: args.fleet.clone().map(|url| (url, args.store.clone())),
        interval,
        config: args.config.clone(),
        quiet: args.quiet,
        log: args.log,
    };
    Ok((context, request))
}

fn http_address(text: Option<&str>) -> Result<HttpAddress, Failure> {
    let parse = |text| address("--listen", text, LISTEN_DEFAULT);
    match text {
        None => parse(LISTEN_DEFAULT).map(HttpAddress::Usual),
        Some("off") => Ok(HttpAddress::Off),
        Some(text) => parse(text).map(HttpAddress::Named).map_err(|failure| Failure::usage(format!("{}, or off", failure.message))),
    }
}

/// Parses a mode such as `0666`, in the format of chmod.
fn socket_mode(text: &str) -> Result<u32, Failure> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| *mode <= 0o777)
        .ok_or_else(|| Failure::usage(format!("--socket-mode {text}: give octal digits, such as 0666 or 0660")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(http_address(Some("off")).unwrap(), HttpAddress::Off);
        assert_eq!(http_address(Some("localhost:80")).unwrap().get(), "127.0.0.1:80".parse().ok());
        assert_eq!(http_address(Some("[::1]:9477")).unwrap().get(), "[::1]:9477".parse().ok());
        assert_eq!(http_address(None).unwrap().get(), LISTEN_DEFAULT.parse().ok());
        for wrong in ["", "9477", "127.0.0.1", "example.org:80", "127.0.0.1:99999"] {
            assert_eq!(http_address(Some(wrong)).unwrap_err().code, 2, "{wrong}");
        }
    }

    #[test]
    fn socket_modes() {
        assert_eq!((socket_mode(SOCKET_MODE_DEFAULT).ok(), socket_mode("660").ok()), (Some(0o666), Some(0o660)));
        for wrong in ["", "9", "1777", "rw"] {
            assert_eq!(socket_mode(wrong).map_err(|failure| failure.code), Err(2), "{wrong}");
        }
    }
}
