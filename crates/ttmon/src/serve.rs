//! `ttmon serve`: runs the service of this host until a signal stops it.
//!
//! Start order: first the reading processes, because a fork must happen before there are threads; then the sockets; then the threads.

mod banner;
mod host;
mod intake;
mod places;
mod secret;
mod systemd;

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGUSR1};
use signal_hook::{flag, low_level::pipe};

use ttmon_reads::Pace;
use ttmon_source::Reach;
use ttmon_source::ledgers::Detail;

use crate::failure::{Failure, complain};
use crate::invocation::{Context, ServeRequest};
use crate::open::MachineConfig;

pub(crate) use host::token;
pub(crate) use places::{api_places, served, state as state_directory};
pub(crate) use secret::print as print_token;

/// Runs the service until a signal stops it.
pub(crate) fn run(context: &Context, request: &ServeRequest) -> Result<(), Failure> {
    let mut placed = MachineConfig::new(context, Pace::Repeated, true, Detail::Totals, Reach::Everybody)?;
    // Include the reported allocations of this service, also with another state directory.
    placed.root.served.extend(request.state_directory.clone());
    // Take over signals before the sockets exist, because a process that finds the sockets may send signals.
    let mut signals = Signals::new().map_err(|error| cannot("take over signals", &error))?;
    let reading = intake::read(context, request, &placed)?;
    let state = reading.is_some().then(|| intake::state(context, request, &placed));
    let mut opened = systemd::opened()?;
    let (host, announcement) = host::prepare(context, request, &placed, state, &mut opened)?;
    let intake = reading.map(|reading| intake::prepare(context, request, &placed, reading, opened)).transpose()?;
    let stopper = || signals.stopper().map_err(|error| cannot("take over signals", &error));
    let intake = intake.map(|intake| intake.start(stopper()?)).transpose()?;
    let host = host.start(intake.as_ref().map(intake::Running::keeper), [stopper()?, stopper()?, stopper()?])?;
    if !request.quiet {
        complain(&announcement);
    }
    systemd::notify("READY=1");
    while let Signal::Statistics = signals.next() {
        intake.iter().for_each(intake::Running::statistics);
    }
    systemd::notify("STOPPING=1");
    let ended = intake.map_or(Ok(()), intake::Running::stop);
    let host_ended = host.stop().map_err(Failure::new);
    drop(placed.simulation);
    ended.and(host_ended)
}

/// A system error.
fn cannot(what: &str, error: &io::Error) -> Failure {
    Failure::new(format!("cannot {what}: {error}; check the limits of this user"))
}

enum Signal {
    Statistics,
    Stop,
}

/// Stops the service when this is dropped, as a signal does.
struct Stopper {
    stop: Arc<AtomicBool>,
    waker: UnixStream,
}

impl Drop for Stopper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = self.waker.write_all(&[0]);
    }
}

/// Receives signals; `next` waits for one.
struct Signals {
    wake: UnixStream,
    waker: UnixStream,
    statistics: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
}

impl Signals {
    fn new() -> io::Result<Self> {
        let (wake, waker) = UnixStream::pair()?;
        let (statistics, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        // The flag is set before the wake-up.
        flag::register(SIGUSR1, Arc::clone(&statistics))?;
        // Keep signals ignored that nohup or a background shell ignored.
        let ignored = ignored();
        let heard = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
        for signal in heard {
            flag::register(signal, Arc::clone(&stop))?;
            pipe::register(signal, waker.try_clone()?)?;
        }
        pipe::register(SIGUSR1, waker.try_clone()?)?;
        // If the reader of the output is gone, a write fails, but the service continues.
        flag::register(SIGPIPE, Arc::new(AtomicBool::new(false)))?;
        Ok(Self { wake, waker, statistics, stop })
    }

    fn stopper(&self) -> io::Result<Stopper> {
        Ok(Stopper { stop: Arc::clone(&self.stop), waker: self.waker.try_clone()? })
    }

    fn next(&mut self) -> Signal {
        loop {
            if self.stop.load(Ordering::SeqCst) {
                return Signal::Stop;
            }
            if self.statistics.swap(false, Ordering::SeqCst) {
                return Signal::Statistics;
            }
            // Stop on an error: signals could not be received any more.
            match self.wake.read(&mut [0; 64]) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return Signal::Stop,
            }
        }
    }
}

/// The signals that are ignored, by their bits, as the kernel lists them: `SigIgn: 0000000000000001`.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
