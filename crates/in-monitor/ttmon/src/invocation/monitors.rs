//! Interprets the commands that watch a machine: `dmon`, `pmon`, `wait`, `events`, `record`, `top`.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use ttmon_hosts::ServiceAddress;
use ttmon_model::limits::{REFRESH_MAX, REFRESH_MIN};
use ttmon_print::{DeviceColumns, LineStamp};

use super::{CliTarget, Context};
use crate::cli::{DmonArgs, GlobalArgs, LinesArgs, RecordArgs, TopArgs, WaitArgs, values};
use crate::failure::Failure;

const LINES_INTERVAL_DEFAULT: Duration = Duration::from_secs(1);
const INTERVALS: RangeInclusive<Duration> = REFRESH_MIN..=REFRESH_MAX;

pub(crate) struct LinesRequest {
    pub(crate) interval: Duration,
    /// Number of samples; unlimited if `None`.
    pub(crate) count: Option<u64>,
    pub(crate) stamp: LineStamp,
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
        [time] => values::seconds(time)
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

pub(crate) fn record(common: &GlobalArgs, args: &RecordArgs) -> Result<Context, Failure> {
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
    Ok(context)
}

pub(crate) fn top(common: &GlobalArgs, args: &TopArgs) -> Result<(Context, TopSource), Failure> {
    let context = Context::new(common, &[])?.with_deep(args.deep);
    if common.json {
        return Err(Failure::usage("top is a screen; for repeated JSON use ttmon -w --json"));
    }
    let is_real = matches!(context.target, CliTarget::Real);
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
    Ok((context, source))
}
