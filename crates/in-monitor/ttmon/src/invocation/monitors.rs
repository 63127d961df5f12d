//! Interprets the commands that watch a machine: `dmon`, `pmon`, `wait`, `events`, `record`, `top`.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ttmon_hosts::ServiceAddress;
use ttmon_model::limits::{REFRESH_MAX, REFRESH_MIN};
use ttmon_model::units::UnixTime;
use ttmon_print::{DeviceColumns, LineStamp};
use ttmon_top::View;

use super::{CliTarget, Context, OutputFormat, variable};
use crate::cli::{DmonArgs, EventsArgs, GlobalArgs, LinesArgs, RecordArgs, TopArgs, WaitArgs, span};
use crate::failure::Failure;

const LINES_INTERVAL_DEFAULT: Duration = Duration::from_secs(1);
const INTERVALS: RangeInclusive<Duration> = REFRESH_MIN..=REFRESH_MAX;
const RECORD_INTERVAL_DEFAULT: Duration = Duration::from_secs(1);

pub(crate) struct LinesRequest {
    pub(crate) interval: Duration,
    /// Number of samples; unlimited if `None`.
    pub(crate) count: Option<u64>,
    pub(crate) stamp: LineStamp,
}

pub(crate) struct EventsRequest {
    pub(crate) format: OutputFormat,
    pub(crate) pid: Option<u32>,
    pub(crate) follow: bool,
    /// Begin with this many of the recorded events, the newest ones.
    pub(crate) last: Option<usize>,
    /// Leave out earlier events.
    pub(crate) since: Option<UnixTime>,
}

pub(crate) struct RecordRequest {
    pub(crate) file: PathBuf,
    pub(crate) interval: Duration,
    pub(crate) duration: Option<Duration>,
    /// Whether live buffers, blocks and events are recorded.
    pub(crate) has_buffers: bool,
    pub(crate) force: bool,
}

pub(crate) struct TopRequest {
    pub(crate) source: TopSource,
    /// Overrides the interval of the settings.
    pub(crate) interval: Option<Duration>,
    /// Overrides the view of the settings.
    pub(crate) view: Option<View>,
    pub(crate) is_read_only: bool,
    /// Settings file that is read instead of the default files.
    pub(crate) config: Option<PathBuf>,
}

pub(crate) enum TopSource {
    Machine,
    Recording(PathBuf),
    Services {
        /// At least one service.
        places: Vec<(String, ServiceAddress)>,
        token_file: Option<PathBuf>,
        ca: Option<PathBuf>,
    },
}

pub(crate) fn dmon(common: &GlobalArgs, args: &DmonArgs) -> Result<(Context, LinesRequest, DeviceColumns), Failure> {
    let columns = DeviceColumns::parse(&args.select).map_err(|error| Failure::usage(format!("-s {}: {error}", args.select)))?;
    let (context, lines) = lines(common, &args.lines)?;
    Ok((context.with_deep(args.deep), lines, columns))
}

/// Interprets the common flags. `-d` is the interval here, as in nvidia-smi.
pub(crate) fn lines(common: &GlobalArgs, args: &LinesArgs) -> Result<(Context, LinesRequest), Failure> {
    if common.json {
        return Err(Failure::usage("dmon and pmon print text; for JSON lines use ttmon -l 1 --json"));
    }
    let interval = match common.device.as_slice() {
        [] => LINES_INTERVAL_DEFAULT,
        [time] => span::seconds(time)
            .ok()
            .filter(|interval| INTERVALS.contains(interval))
            .ok_or_else(|| Failure::usage(format!("-d {time}: -d is the interval here, 50ms to 1d; name devices with -i")))?,
        _ => return Err(Failure::usage("-d is the interval here, and is given once; name devices with -i")),
    };
    let stamp = match args.options.as_deref().map(str::to_ascii_uppercase).as_deref() {
        None => LineStamp { date: false, time: false },
        Some("D") => LineStamp { date: true, time: false },
        Some("T") => LineStamp { date: false, time: true },
        Some("DT" | "TD") => LineStamp { date: true, time: true },
        Some(other) => return Err(Failure::usage(format!("-o {other}: it takes D (date), T (time) or DT"))),
    };
    Ok((Context::of_devices(common, common.id.iter())?, LinesRequest { interval, count: args.count, stamp }))
}

pub(crate) fn wait(common: &GlobalArgs, args: &WaitArgs) -> Result<Context, Failure> {
    if common.json {
        return Err(Failure::usage("wait prints nothing; its exit code is the answer"));
    }
    Context::new(common, &args.devices)
}

pub(crate) fn events(common: &GlobalArgs, args: &EventsArgs) -> Result<EventsRequest, Failure> {
    let since = args.since.as_deref().map(since).transpose()?;
    Ok(EventsRequest { format: OutputFormat::of(common), pid: args.pid, follow: args.follow, last: args.lines, since })
}

/// Parses a time. `5m` is five minutes ago; any other text must be a time in RFC 3339.
fn since(text: &str) -> Result<UnixTime, Failure> {
    let now = Timestamp::now();
    let ago = span::seconds(text).ok().and_then(|ago| now.checked_sub(SignedDuration::try_from(ago).ok()?).ok());
    let time = ago.or_else(|| text.parse::<Timestamp>().ok());
    let nanoseconds = time.and_then(|time| u64::try_from(time.as_nanosecond()).ok());
    nanoseconds
        .map(UnixTime)
        .ok_or_else(|| Failure::usage(format!("--since {text}: it takes a time ago, such as 5m, or a time, such as 2026-11-15T08:12:45Z")))
}

pub(crate) fn record(common: &GlobalArgs, args: &RecordArgs) -> Result<(Context, RecordRequest), Failure> {
    let context = Context::new(common, &[])?.with_deep(args.deep);
    if common.json {
        return Err(Failure::usage("record writes a recording; for JSON lines use ttmon -l 1 --json"));
    }
    if args.file.as_os_str() == "-" {
        return Err(Failure::usage("record writes a file that can be read at any place: name one (./- if it is to be called so)"));
    }
    if args.file.is_dir() {
        return Err(Failure::new(format!("{} is a directory; name a file in it", args.file.display())));
    }
    let interval = args.refresh.as_deref().map_or(Ok(RECORD_INTERVAL_DEFAULT), super::refresh)?;
    let (file, duration, has_buffers, force) = (args.file.clone(), args.duration, !args.no_buffers, args.force);
    Ok((context, RecordRequest { file, interval, duration, has_buffers, force }))
}

pub(crate) fn top(common: &GlobalArgs, args: &TopArgs) -> Result<(Context, TopRequest), Failure> {
    let context = Context::new(common, &[])?.with_deep(args.deep);
    if common.json {
        return Err(Failure::usage("top is a screen; for repeated JSON use ttmon -w --json"));
    }
    let is_real = matches!(context.place, CliTarget::Real);
    let source = match &args.replay {
        Some(_) if !is_real => return Err(Failure::usage("--replay shows a recording; it goes with neither --sim nor --root")),
        Some(path) => TopSource::Recording(path.clone()),
        None if args.connect.is_empty() => TopSource::Machine,
        None if !is_real || context.cluster.is_some() => {
            return Err(Failure::usage("--connect shows the machines of services; it goes with none of --sim, --root and --cluster"));
        }
        None => {
            let mut places: Vec<(String, ServiceAddress)> = Vec::new();
            for (text, place) in super::fleet::places(&args.connect)? {
                if places.iter().any(|(_, known)| *known == place) {
                    return Err(Failure::usage(format!("--connect {text}: it is named twice")));
                }
                places.push((text, place));
            }
            TopSource::Services { places, token_file: args.token_file.clone(), ca: args.ca.clone() }
        }
    };
    let view = |number: usize| {
        let view = View::ALL.get(number.wrapping_sub(1)).copied();
        view.ok_or_else(|| Failure::usage(format!("--view {number}: views are 1 to {}", View::ALL.len())))
    };
    let request = TopRequest {
        source,
        interval: args.refresh.as_deref().map(super::refresh).transpose()?,
        view: args.view.map(view).transpose()?,
        is_read_only: args.read_only,
        config: args.config.clone().or_else(|| variable("TTMON_CONFIG").map(PathBuf::from)),
    };
    Ok((context, request))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_takes_ages_and_times() {
        assert_eq!(since("1970-01-01T00:00:05Z").expect("a time"), UnixTime(5_000_000_000));
        assert!(since("5m").expect("ago") < since("1s").expect("ago"));
        for wrong in ["", "yesterday", "-5m", "2026-11-15"] {
            assert_eq!(since(wrong).map_err(|failure| failure.code), Err(2), "{wrong}");
        }
    }
}
