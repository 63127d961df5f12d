//! Values of flags: times, sizes, addresses, modes. An error of [`Parsed`] is the whole message.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{StringValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command};
use jiff::{SignedDuration, Timestamp};
use ttmon_buffer_history::{Size, SizeError};
use ttmon_hosts::ServiceAddress;
use ttmon_model::duration;
use ttmon_model::limits::{REFRESH_MAX, REFRESH_MIN};
use ttmon_model::units::UnixTime;
use ttmon_print::LineStamp;
use ttmon_top::View;

/// Longest silence, so that a forgotten silence ends.
const SILENCE_MAX: Duration = Duration::from_secs(30 * 86_400);
/// The HTTP server of `serve`, unless a flag or the service manager gives another address.
pub(crate) const LISTEN_DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9477);

/// Parses a value with a function of the flag and the text. clap would put the name of the flag before an error; here the function does.
#[derive(Clone)]
pub(super) struct Parsed<T>(pub(super) fn(&str, &str) -> Result<T, String>);

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Parsed<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, flag: Option<&Arg>, value: &OsStr) -> Result<T, clap::Error> {
        let text = StringValueParser::new().parse_ref(command, flag, value)?;
        let name = flag.and_then(Arg::get_long).map_or_else(String::new, |long| format!("--{long}"));
        self.0(&name, &text).map_err(|message| clap::Error::raw(ErrorKind::ValueValidation, message))
    }
}

pub(super) const REFRESH: Parsed<Duration> = Parsed(refresh);

/// Whether an error of the command line is from [`Parsed`].
pub(crate) fn is_whole_message(error: &clap::Error) -> bool {
    error.kind() == ErrorKind::ValueValidation && error.context().next().is_none()
}

/// Parses a time: `90`, `1.5`, `500ms`, `5m`, `1h30m`. A bare number is in seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let time = match text.parse::<f64>() {
        // A time that is too long for the type becomes the longest `Duration`.
        Ok(seconds) => (seconds >= 0.0).then(|| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)),
        Err(_) => duration::parse(text),
    };
    time.ok_or_else(|| "it takes seconds or a time such as 500ms, 30s, 5m or 1h30m".to_owned())
}

/// Parses `-r`. tt-smi's `-r` resets boards, so the error message explains that ttmon never does.
fn refresh(_: &str, text: &str) -> Result<Duration, String> {
    let interval = text.parse::<u64>().ok().map(Duration::from_millis).or_else(|| duration::parse(text));
    match interval {
        Some(interval) if (REFRESH_MIN..=REFRESH_MAX).contains(&interval) => Ok(interval),
        _ if text.is_empty() => Err("-r needs milliseconds, for example -r 500 (ttmon never resets a device)".to_owned()),
        _ => Err(format!(
            "-r {text}: ttmon never resets a device; -r takes the milliseconds from one refresh to the next, \
             {} to {}, or a time such as 2s",
            REFRESH_MIN.as_millis(),
            REFRESH_MAX.as_millis()
        )),
    }
}

/// Parses the time of a silence.
pub(super) fn silence(flag: &str, text: &str) -> Result<Duration, String> {
    let time = duration::parse(text).filter(|time| !time.is_zero() && *time <= SILENCE_MAX);
    time.ok_or_else(|| format!("{flag} takes 1s to 30d, such as 30m, 2h or 1d"))
}

/// Parses `--since`. `5m` is five minutes ago; any other text must be a time in RFC 3339.
pub(super) fn since(flag: &str, text: &str) -> Result<UnixTime, String> {
    let now = Timestamp::now();
    let ago = seconds(text).ok().and_then(|ago| now.checked_sub(SignedDuration::try_from(ago).ok()?).ok());
    let time = ago.or_else(|| text.parse::<Timestamp>().ok());
    let nanoseconds = time.and_then(|time| u64::try_from(time.as_nanosecond()).ok());
    let why = "it takes a time ago, such as 5m, or a time, such as 2026-11-15T08:12:45Z";
    nanoseconds.map(UnixTime).ok_or_else(|| format!("{flag} {text}: {why}"))
}

/// Parses a size.
pub(super) fn size(_: &str, text: &str) -> Result<Size, String> {
    text.parse().map_err(|why: SizeError| why.to_string())
}

/// Parses the size or the limit of a check of `run`.
pub(super) fn limit<T: FromStr<Err = SizeError>>(flag: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|why| format!("{flag}: {why}"))
}

/// The address of `serve --listen`, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    Off,
    At(SocketAddr),
}

pub(super) fn listen(flag: &str, text: &str) -> Result<Listen, String> {
    match text {
        "off" => Ok(Listen::Off),
        _ => address(flag, text).map(Listen::At).map_err(|why| format!("{why}, or off")),
    }
}

/// Parses an address of `serve`.
pub(super) fn address(flag: &str, text: &str) -> Result<SocketAddr, String> {
    socket_address(flag, text, LISTEN_DEFAULT)
}

/// Parses the address of `sd --listen`.
pub(super) fn sd_address(flag: &str, text: &str) -> Result<SocketAddr, String> {
    socket_address(flag, text, SocketAddr::new(LISTEN_DEFAULT.ip(), 9479))
}

/// Parses an address such as `localhost:80`.
fn socket_address(flag: &str, text: &str, example: SocketAddr) -> Result<SocketAddr, String> {
    let address = text.strip_prefix("localhost:").map_or(text.to_owned(), |port| format!("127.0.0.1:{port}"));
    address.parse().map_err(|_| format!("{flag} {text}: give ADDR:PORT, such as {example}"))
}

/// A service of `--connect`, with its address as typed.
#[derive(Clone, Debug)]
pub(crate) struct NamedService {
    pub(crate) text: String,
    pub(crate) address: ServiceAddress,
}

pub(super) fn service(flag: &str, text: &str) -> Result<NamedService, String> {
    let address = text.parse().map_err(|bad| format!("{flag} {text}: {bad}"))?;
    Ok(NamedService { text: text.to_owned(), address })
}

/// Parses `-o` of `dmon` and `pmon`.
pub(super) fn stamp(_: &str, text: &str) -> Result<LineStamp, String> {
    match text.to_ascii_uppercase().as_str() {
        "D" => Ok(LineStamp { date: true, time: false }),
        "T" => Ok(LineStamp { date: false, time: true }),
        "DT" | "TD" => Ok(LineStamp { date: true, time: true }),
        other => Err(format!("-o {other}: it takes D (date), T (time) or DT")),
    }
}

/// Parses the number of a view of `top`.
pub(super) fn view(flag: &str, text: &str) -> Result<View, String> {
    let number = text.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let view = number.and_then(|index| View::ALL.get(index).copied());
    view.ok_or_else(|| format!("{flag} {text}: views are 1 to {}", View::ALL.len()))
}

/// Parses a mode such as `0666`, in the format of chmod.
pub(super) fn mode(flag: &str, text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| format!("{flag} {text}: give octal digits, such as 0666 or 0660"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_with_and_without_units() {
        for (text, millis) in [("0", 0), ("90", 90_000), ("1.5", 1_500), ("500ms", 500), ("5m", 300_000), ("0.5h", 1_800_000)] {
            assert_eq!(seconds(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(seconds("1e30"), Ok(Duration::MAX));
    }

    #[test]
    fn invalid_times_are_refused() {
        for text in ["", "s", "-1", "-5m", "5x", "NaN", "all", "0,1", "5m3"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn since_takes_ages_and_times() {
        assert_eq!(since("", "1970-01-01T00:00:05Z"), Ok(UnixTime(5_000_000_000)));
        assert!(since("", "5m").unwrap() < since("", "1s").unwrap());
        for wrong in ["", "yesterday", "-5m", "2026-11-15"] {
            assert!(since("", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_are_parsed() {
        let at = |text: &str| Ok(Listen::At(text.parse().unwrap()));
        assert_eq!(listen("", "off"), Ok(Listen::Off));
        assert_eq!(listen("", "localhost:80"), at("127.0.0.1:80"));
        assert_eq!(listen("", "[::1]:9477"), at("[::1]:9477"));
        for wrong in ["", "9477", "127.0.0.1", "example.org:80", "127.0.0.1:99999"] {
            assert!(listen("", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn socket_modes_are_parsed() {
        assert_eq!((mode("", "0666"), mode("", "660")), (Ok(0o666), Ok(0o660)));
        for wrong in ["", "9", "1777", "rw"] {
            assert!(mode("", wrong).is_err(), "{wrong}");
        }
    }
}
