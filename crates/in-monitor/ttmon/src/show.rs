//! Prints the snapshot once, repeatedly, or in place.

use std::io::{self, IsTerminal, Write};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ttmon_collect::reads::Sampling;
use ttmon_json::{Layout, SnapshotJson};
use ttmon_model::fields::SamplesNeeded;
use ttmon_model::units::UnixTime;
use ttmon_model::{Device, Snapshot};
use ttmon_print::{CsvOptions, Style};

use crate::cli::{GlobalArgs, SnapshotArgs};
use crate::failure::{Failure, print_error};
use crate::invocation::{self, CliTarget, Context, OutputFormat, Repeat, SnapshotFormat, SnapshotRequest};
use crate::open::{MachineRequest, cluster};
use crate::output::Output;
use crate::server::Snapshots;
use crate::terminal::Terminal;
use crate::watch::{self, Screen};

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Time between the two samples of a rate.
const RATE_WINDOW: Duration = Duration::from_millis(250);
/// Time between the two samples of a heartbeat, which needs slightly more than a second.
const HEARTBEAT_WINDOW: Duration = Duration::from_millis(1010);

/// Time between two samples of a chip.
const DEEP_WINDOW: Duration = Duration::from_millis(500);
/// Longest wait for an idle chip. The driver powers it down after 5 s, unless it is configured to wait longer.
const DEEP_WAIT_MAX: Duration = Duration::from_secs(10);

pub(crate) fn run(common: &GlobalArgs, args: &SnapshotArgs) -> Result<(), Failure> {
    let (context, request) = &invocation::snapshot(common, args)?;
    let sampling = if request.repeat == Repeat::Once && request.samples == SamplesNeeded::One && !context.deep {
        Sampling::Once
    } else {
        Sampling::Repeated
    };
    let snapshots = Snapshots::new(context, MachineRequest { processes: request.processes, ..MachineRequest::new(sampling) });
    let mut snapshots = match request.repeat {
        Repeat::Loop(interval) | Repeat::Watch(interval) => snapshots.repeated(interval),
        Repeat::Once => snapshots,
    };
    if matches!(
        (&context.target, &request.format),
        (CliTarget::Simulated(..), SnapshotFormat::Fields(..) | SnapshotFormat::Gpu(..) | SnapshotFormat::Apps(..))
    ) {
        print_error("these are figures of a simulated machine");
    }
    match request.repeat {
        Repeat::Once => {
            let snapshot = sampled(context, &mut snapshots, request.samples)?;
            request.output.write(&render(context.terminal, request, &snapshot, Frame::Only)?)
        }
        Repeat::Loop(interval) => run_loop(context, request, &mut snapshots, interval),
        Repeat::Watch(interval) => {
            snapshots.open()?;
            Screen::enter()?.watch(interval, || {
                let terminal = context.terminal.measured();
                let snapshot = snapshots.next()?;
                Ok((render(terminal, request, &snapshot, Frame::InPlace)?, terminal))
            })
        }
    }
}

fn run_loop(context: &Context, request: &SnapshotRequest, snapshots: &mut Snapshots<'_>, interval: Duration) -> Result<(), Failure> {
    let mut frame = Frame::First;
    watch::repeat(interval, || {
        let snapshot = if frame == Frame::First { sampled(context, snapshots, request.samples)? } else { snapshots.next()? };
        request.output.write(&render(context.terminal, request, &snapshot, frame)?)?;
        frame = Frame::Later;
        Ok(())
    })
}

/// Takes a snapshot with the requested rates.
fn sampled(context: &Context, snapshots: &mut Snapshots<'_>, samples: SamplesNeeded) -> Result<Snapshot, Failure> {
    let snapshot = snapshots.next()?;
    let window = match samples {
        _ if snapshots.is_served() => return Ok(snapshot),
        _ if context.deep => return settled(snapshot, snapshots),
        SamplesNeeded::One => return Ok(snapshot),
        SamplesNeeded::Two => RATE_WINDOW,
        SamplesNeeded::TwoSlow => HEARTBEAT_WINDOW,
    };
    if io::stderr().is_terminal() {
        print_error(&format!("taking a second sample after {} ms, for the rates", window.as_millis()));
    }
    thread::sleep(window);
    snapshots.next()
}

/// Waits for the values of `--deep`: utilization needs a second sample, and an idle chip some seconds.
fn settled(mut snapshot: Snapshot, snapshots: &mut Snapshots<'_>) -> Result<Snapshot, Failure> {
    let until = Instant::now() + DEEP_WAIT_MAX;
    let mut is_announced = !io::stderr().is_terminal();
    while snapshot.devices.iter().any(Device::is_deep_pending) && Instant::now() < until {
        if !is_announced && snapshot.devices.iter().any(Device::waits_for_power_down) {
            print_error("waiting for the idle power-down of a chip, which opening it would prevent; this takes some seconds");
            is_announced = true;
        }
        thread::sleep(DEEP_WINDOW);
        snapshot = snapshots.next()?;
    }
    Ok(snapshot)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    Only,
    First,
    Later,
    /// The snapshot replaces the previous one on the screen.
    InPlace,
}

fn render(terminal: Terminal, request: &SnapshotRequest, snapshot: &Snapshot, frame: Frame) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    // Created only if needed, because local time requires reading the time zone.
    let rows = (frame == Frame::InPlace).then_some(terminal.rows);
    let style = || Style { rows, ..style(terminal, snapshot.time, request.processes) };
    let once = |options: &CsvOptions| CsvOptions { header: options.header && frame != Frame::Later, ..*options };
    match &request.format {
        SnapshotFormat::Table => {
            if frame == Frame::Later {
                text.push(b'\n');
            }
            ttmon_print::snapshot(snapshot, &style(), &mut text)?;
        }
        SnapshotFormat::List => ttmon_print::list(snapshot, &style(), &mut text)?,
        SnapshotFormat::Query(sections) => ttmon_print::query(snapshot, sections, &style(), &mut text)?,
        SnapshotFormat::Json => {
            let layout = if frame == Frame::Only { Layout::Pretty } else { Layout::Line };
            // Do not copy the document into `text`: the document of a large machine would be in memory twice.
            text = ttmon_json::to_string(&SnapshotJson { snapshot, version: VERSION }, layout).into_bytes();
            text.push(b'\n');
        }
        SnapshotFormat::Fields(fields, options) => ttmon_print::csv_fields(snapshot, fields, once(options), &style(), &mut text)?,
        SnapshotFormat::Gpu(fields, options) => ttmon_print::csv_gpu(snapshot, fields, once(options), &style(), &mut text)?,
        SnapshotFormat::Apps(fields, options) => ttmon_print::csv_apps(snapshot, fields, once(options), &style(), &mut text)?,
    }
    Ok(text)
}

/// `ttmon who`: lists the processes that use each device.
pub(crate) fn who(context: &Context) -> Result<(), Failure> {
    once(context, true, ttmon_print::who)
}

/// `ttmon topo`: how each pair of devices is connected. Links between boards are known only from a cluster descriptor.
pub(crate) fn topo(context: &Context) -> Result<(), Failure> {
    let cluster = context.cluster.as_deref().map(cluster).transpose()?;
    once(context, false, |snapshot, style, out| ttmon_print::topology(snapshot, cluster.as_ref(), style, out))
}

fn once(
    context: &Context,
    processes: bool,
    print: impl FnOnce(&Snapshot, &Style<'_>, &mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    let snapshot = &Snapshots::new(context, MachineRequest { processes, ..MachineRequest::new(Sampling::Once) }).next()?;
    let mut text = Vec::new();
    match context.format {
        OutputFormat::Json => ttmon_json::write(&SnapshotJson { snapshot, version: VERSION }, Layout::Pretty, &mut text)?,
        OutputFormat::Text => print(snapshot, &style(context.terminal, snapshot.time, processes), &mut text)?,
    }
    Output::Stdout.write(&text)
}

/// Returns the time of the system's clock.
pub(crate) fn now() -> UnixTime {
    UnixTime(ttmon_os::time::unix_nanos())
}

/// Returns the style for a snapshot with this time.
pub(crate) fn style(terminal: Terminal, time: UnixTime, show_processes: bool) -> Style<'static> {
    Style {
        width: terminal.columns,
        rows: None,
        colors: terminal.colors,
        ascii: terminal.ascii,
        local_time: local(time),
        version: VERSION,
        show_processes,
    }
}

fn local(time: UnixTime) -> String {
    // Every `UnixTime` is a valid timestamp.
    let time = Timestamp::from_nanosecond(i128::from(time.0)).unwrap_or_default();
    time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}
