//! `ttmon record`: records samples to a file, for `ttmon top --replay`.

use std::io::{self, BufWriter, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use ttmon_buffer_history::Recorder;
use ttmon_collect::ledgers::LedgerDetail;
use ttmon_collect::reads::Sampling;
use ttmon_json::recording::Writer;
use ttmon_model::Snapshot;
use ttmon_os::Existing;

use crate::cli::{GlobalArgs, RecordArgs};
use crate::failure::{Failure, print_error};
use crate::invocation::Context;
use crate::open::{MachineRequest, OpenMachine};
use crate::show::VERSION;

const INTERVAL_DEFAULT: Duration = Duration::from_secs(1);
/// Signals within this time are one request to end. systemd and terminals that close send SIGTERM and SIGHUP together.
const SAME_REQUEST: Duration = Duration::from_secs(1);

/// Records until a signal, the end of `--duration`, or an error. All samples until then are in the file.
pub(crate) fn run(common: &GlobalArgs, args: &RecordArgs) -> Result<(), Failure> {
    let context = Context::new(common, &[])?.with_deep(args.deep);
    check(common, args)?;
    let RecordArgs { file: path, refresh, no_buffers, duration, force, .. } = args;
    let (interval, has_buffers) = (refresh.unwrap_or(INTERVAL_DEFAULT), !no_buffers);
    let detail = if has_buffers { LedgerDetail::Blocks } else { LedgerDetail::Totals };
    let mut opened = OpenMachine::new(&context, MachineRequest { detail, ..MachineRequest::new(Sampling::Repeated) })?;
    let mut recorder = Recorder::default();
    let mut newest = |opened: &OpenMachine, snapshot: &Snapshot| {
        // There are no events before the first sample.
        opened.with_scene(snapshot, None, |scene, devices| recorder.newest(scene, devices)).unwrap_or_default()
    };
    let mut snapshot = opened.snapshot()?;
    let failed = |error: io::Error| Failure::new(format!("cannot write {}: {error}; choose another place or make room", path.display()));
    let existing = if *force { Existing::Replace } else { Existing::Keep };
    let file = ttmon_os::create(path, existing).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::new(format!("{} exists and was left alone; replace it with --force", path.display())),
        _ => failed(error),
    })?;
    let mut writer = Writer::new(BufWriter::new(file), VERSION, snapshot.time).map_err(failed)?;
    if io::stderr().is_terminal() {
        print_error(&format!("recording to {}; Ctrl-C ends it", path.display()));
    }
    let stop = listen()?;
    let started = Instant::now();
    let mut next = started;
    loop {
        let events = if has_buffers { newest(&opened, &snapshot) } else { Vec::new() };
        let time = snapshot.time;
        writer.push(&ttmon_top::line_of(snapshot, VERSION, &events), time).map_err(failed)?;
        next = (next + interval).max(Instant::now());
        let is_over = duration.is_some_and(|duration| next.saturating_duration_since(started) > duration);
        if is_over || stop.recv_timeout(next.saturating_duration_since(Instant::now())) != Err(RecvTimeoutError::Timeout) {
            return writer.flush().map_err(failed);
        }
        snapshot = match opened.snapshot() {
            Ok(snapshot) => snapshot,
            // Keep the samples that were recorded so far.
            Err(failure) => {
                writer.flush().map_err(failed)?;
                return Err(failure);
            }
        };
    }
}

fn check(common: &GlobalArgs, args: &RecordArgs) -> Result<(), Failure> {
    if common.json {
        return Err(Failure::usage("record writes a recording; for JSON lines use ttmon -l 1 --json"));
    }
    if args.file.as_os_str() == "-" {
        return Err(Failure::usage("record writes a file that can be read at any place: name one (./- if it is to be called so)"));
    }
    if args.file.is_dir() {
        return Err(Failure::new(format!("{} is a directory; name a file in it", args.file.display())));
    }
    Ok(())
}

/// Installs signal handlers, which send a message. The first signal ends the recording cleanly. A later signal ends the program at once, in
/// case the clean end hangs.
fn listen() -> io::Result<Receiver<()>> {
    let is_asked = Arc::new(AtomicBool::new(false));
    let signals = [SIGINT, SIGTERM, SIGHUP];
    for signal in signals {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&is_asked))?;
    }
    let mut signals = Signals::new(signals)?;
    let (waker, wake) = channel();
    let wait = move || {
        signals.forever().next();
        // Without a receiver, the recording has already ended.
        let _ = waker.send(());
        std::thread::sleep(SAME_REQUEST);
        is_asked.store(true, Ordering::SeqCst);
    };
    std::thread::Builder::new().name("signals".to_owned()).stack_size(128 * 1024).spawn(wait)?;
    Ok(wake)
}
