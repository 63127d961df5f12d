//! `ttmon dmon` and `ttmon pmon`: lines again and again, for a pipe or a slow terminal.

use std::ops::RangeInclusive;
use std::time::Duration;

use ttmon_model::Snapshot;
use ttmon_model::limits::{REFRESH_MAX, REFRESH_MIN};
use ttmon_print::{DeviceColumns, LineStamp, Style};
use ttmon_reads::Pace;

use crate::cli::{DmonArgs, GlobalArgs, LinesArgs, PmonArgs, span};
use crate::failure::Failure;
use crate::invocation::Context;
use crate::output::Output;
use crate::server::{SampleRequest, Snapshots};
use crate::show;
use crate::watch;

const INTERVAL_DEFAULT: Duration = Duration::from_secs(1);
const INTERVALS: RangeInclusive<Duration> = REFRESH_MIN..=REFRESH_MAX;
/// Lines after which the header is printed again.
const HEADER_LINES: usize = 40;

/// What was asked for, complete.
struct MonitorOptions {
    context: Context,
    interval: Duration,
    count: Option<u64>,
    stamp: LineStamp,
}

/// Prints a line per device.
pub(crate) fn devices(common: &GlobalArgs, args: &DmonArgs) -> Result<(), Failure> {
    let columns = DeviceColumns::parse(&args.select).map_err(|error| Failure::usage(format!("-s {}: {error}", args.select)))?;
    let rounds = meant(common, &args.lines, args.deep)?;
    rounds.run(columns.needs_processes(), |snapshot, header, style, out| columns.print(snapshot, rounds.stamp, header, style, out))
}

/// Prints a line per process and device.
pub(crate) fn processes(common: &GlobalArgs, args: &PmonArgs) -> Result<(), Failure> {
    let rounds = meant(common, &args.lines, false)?;
    rounds.run(true, |snapshot, header, style, out| ttmon_print::process_lines(snapshot, rounds.stamp, header, style, out))
}

/// `-d` is the interval here, as in nvidia-smi.
fn meant(common: &GlobalArgs, args: &LinesArgs, deep: bool) -> Result<MonitorOptions, Failure> {
    if common.json {
        return Err(Failure::usage("dmon and pmon print text; for JSON lines use ttmon -l 1 --json"));
    }
    let interval = match common.device.as_slice() {
        [] => INTERVAL_DEFAULT,
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
    let context = Context::of_devices(common, common.id.iter())?.with_deep(deep);
    Ok(MonitorOptions { context, interval, count: args.count, stamp })
}

impl MonitorOptions {
    fn run(
        &self,
        processes: bool,
        print: impl Fn(&Snapshot, bool, &Style<'_>, &mut dyn std::io::Write) -> std::io::Result<usize>,
    ) -> Result<(), Failure> {
        let asked = SampleRequest::snapshot(Pace::Repeated, processes);
        let mut snapshots = if self.interval < show::SERVER_INTERVAL_MIN {
            Snapshots::read_here(&self.context, asked)
        } else {
            Snapshots::new(&self.context, asked)
        };
        let mut left = self.count.unwrap_or(u64::MAX);
        let mut lines = HEADER_LINES;
        watch::again_while(self.interval, || {
            if left == 0 {
                return Ok(false);
            }
            let snapshot = snapshots.next()?;
            let mut text = Vec::new();
            let header = lines >= HEADER_LINES;
            let printed = print(&snapshot, header, &show::style(self.context.terminal, snapshot.time, processes), &mut text)?;
            lines = if header { printed } else { lines + printed };
            left -= 1;
            Output::Stdout.write(&text)?;
            Ok(left > 0)
        })
    }
}
