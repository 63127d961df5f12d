//! `ttmon dmon` and `ttmon pmon`: print lines repeatedly, for a pipe or a slow terminal.

use std::io::{self, Write};
use std::time::Duration;

use ttmon_collect::reads::Sampling;
use ttmon_model::Snapshot;
use ttmon_model::limits::{REFRESH_MAX, REFRESH_MIN};
use ttmon_print::{DeviceColumns, LineStamp, Style};

use crate::cli::{DmonArgs, GlobalArgs, LinesArgs, PmonArgs, values};
use crate::failure::Failure;
use crate::invocation::Context;
use crate::open::MachineRequest;
use crate::output::Output;
use crate::server::Snapshots;
use crate::show;
use crate::watch;

const INTERVAL_DEFAULT: Duration = Duration::from_secs(1);
/// Lines after which the header is printed again.
const HEADER_LINES: usize = 40;

pub(crate) fn devices(common: &GlobalArgs, args: &DmonArgs) -> Result<(), Failure> {
    let columns = DeviceColumns::parse(&args.select).map_err(|error| Failure::usage(format!("-s {}: {error}", args.select)))?;
    let context = context(common)?.with_deep(args.deep);
    lines(&context, interval(common)?, &args.lines, columns.needs_processes(), |snapshot, stamp, header, style, out| {
        columns.print(snapshot, stamp, header, style, out)
    })
}

pub(crate) fn processes(common: &GlobalArgs, args: &PmonArgs) -> Result<(), Failure> {
    lines(&context(common)?, interval(common)?, &args.lines, true, ttmon_print::process_lines)
}

/// Reads the common flags. `-d` is the interval here, as in nvidia-smi.
fn context(common: &GlobalArgs) -> Result<Context, Failure> {
    if common.json {
        return Err(Failure::usage("dmon and pmon print text; for JSON lines use ttmon -l 1 --json"));
    }
    Context::of_devices(common, common.id.iter())
}

fn interval(common: &GlobalArgs) -> Result<Duration, Failure> {
    match common.device.as_slice() {
        [] => Ok(INTERVAL_DEFAULT),
        [time] => values::seconds(time)
            .ok()
            .filter(|interval| (REFRESH_MIN..=REFRESH_MAX).contains(interval))
            .ok_or_else(|| Failure::usage(format!("-d {time}: -d is the interval here, 50ms to 1d; name devices with -i"))),
        _ => Err(Failure::usage("-d is the interval here, and is given once; name devices with -i")),
    }
}

fn lines(
    context: &Context,
    interval: Duration,
    args: &LinesArgs,
    processes: bool,
    print: impl Fn(&Snapshot, LineStamp, bool, &Style<'_>, &mut dyn Write) -> io::Result<usize>,
) -> Result<(), Failure> {
    let request = MachineRequest { processes, ..MachineRequest::new(Sampling::Repeated) };
    let mut snapshots = Snapshots::new(context, request).repeated(interval);
    let stamp = args.options.unwrap_or(LineStamp { date: false, time: false });
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut lines = HEADER_LINES;
    watch::repeat_while(interval, || {
        if left == 0 {
            return Ok(false);
        }
        let snapshot = snapshots.next()?;
        let mut text = Vec::new();
        let header = lines >= HEADER_LINES;
        let printed = print(&snapshot, stamp, header, &show::style(context.terminal, snapshot.time, processes), &mut text)?;
        lines = if header { printed } else { lines + printed };
        left -= 1;
        Output::Stdout.write(&text)?;
        Ok(left > 0)
    })
}
