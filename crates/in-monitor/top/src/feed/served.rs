//! Uses a service of this machine instead of reading the machine. The service has a longer history, and sees other users' processes.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use ttmon_collect::reads::boot_time;
use ttmon_hosts::{Service, ServiceAddress};
use ttmon_model::Snapshot;
use ttmon_model::units::UnixTime;

use super::past::past;
use super::remote::pause;
use super::{FeedMessage, unix_time};
use crate::signals::start_ticks;

/// How long to wait for an answer. A working service answers within milliseconds.
const TIMEOUT: Duration = Duration::from_millis(500);
/// With a shorter interval than this, the machine is read here.
const INTERVAL_MIN: Duration = Duration::from_millis(500);
/// A clock tick of /proc, on all supported architectures.
const TICK_NANOS: u64 = 10_000_000;

#[derive(Debug, Default)]
pub(super) struct Served {
    services: Vec<Service>,
    used: Option<usize>,
    failures: u32,
    is_deep: bool,
    trouble: Option<String>,
    next: Option<Instant>,
    /// Start times in ticks. Signals need them, but a service's documents do not have them.
    ticks: BTreeMap<(u32, u64), u64>,
}

impl Served {
    pub(super) fn new(services: Vec<Service>, is_deep: bool) -> Self {
        Self { services, is_deep, ..Self::default() }
    }

    pub(super) fn set_deep(&mut self, is_deep: bool) {
        if self.is_deep != is_deep {
            (self.is_deep, self.used, self.failures, self.next) = (is_deep, None, 0, None);
        }
    }

    /// Returns the newest snapshot of the service in use. If the service fails, reports it and stops using it.
    pub(super) fn snapshot(&mut self, interval: Duration, proc: &Path, send: &impl Fn(FeedMessage) -> bool) -> Option<Snapshot> {
        let used = self.used.filter(|_| interval >= INTERVAL_MIN)?;
        match self.services[used].snapshot(TIMEOUT) {
            Ok(snapshot) if self.is_deep && !snapshot.is_deep() => {
                self.leave();
                None
            }
            Ok(mut snapshot) => {
                self.failures = 0;
                self.give_ticks(&mut snapshot, proc);
                Some(snapshot)
            }
            Err(trouble) => {
                let text = format!("the service at {} {trouble}: reading here", self.services[used].address());
                send(FeedMessage::Source { is_back: false, text: text.clone() });
                self.trouble = Some(text);
                self.leave();
                None
            }
        }
    }

    /// If the machine cannot be read here either, both errors are reported.
    pub(super) fn explain(&self, mut message: FeedMessage) -> FeedMessage {
        if let (FeedMessage::Error(error), Some(trouble)) = (&mut message, &self.trouble) {
            error.message = format!("{trouble}; {}", error.message);
        }
        message
    }

    fn leave(&mut self) {
        self.used = None;
        self.failures += 1;
        self.next = Some(Instant::now() + pause(self.failures));
    }

    /// Searches a service that answers, if it is time, and sends its history. Done after sampling the machine, so that a hung
    /// service delays nothing.
    pub(super) fn find_service(&mut self, interval: Duration, send: &impl Fn(FeedMessage) -> bool) {
        if self.used.is_some() || interval < INTERVAL_MIN || self.next.is_some_and(|next| Instant::now() < next) {
            return;
        }
        let is_there = |index: &usize| match self.services[*index].address() {
            ServiceAddress::Unix(path) => path.exists(),
            ServiceAddress::Tcp { .. } => true,
        };
        let there: Vec<usize> = (0..self.services.len()).filter(is_there).collect();
        if there.is_empty() {
            self.next = Some(Instant::now() + pause(self.failures.max(3)));
            return;
        }
        // A dead service may have left its socket, so try them all.
        let fits = |snapshot: &Snapshot| !self.is_deep || snapshot.is_deep();
        // If none answers, they are tried again later.
        let answer = |index: usize| Some((index, self.services[index].snapshot(TIMEOUT).ok().filter(fits)?));
        let Some((index, snapshot)) = there.into_iter().find_map(answer) else { return self.leave() };
        let service = &self.services[index];
        if self.failures > 0 {
            send(FeedMessage::Source { is_back: true, text: format!("the service at {} is back", service.address()) });
        }
        let devices: Vec<u32> = snapshot.devices.iter().map(|device| device.id.0).collect();
        if let Some(grid) = past(service, &devices, TIMEOUT) {
            send(FeedMessage::Past(grid));
        }
        (self.used, self.trouble) = (Some(index), None);
    }

    /// Adds the start ticks of each process, if it is still the process that the service saw.
    fn give_ticks(&mut self, snapshot: &mut Snapshot, proc: &Path) {
        let booted = Duration::from_nanos(unix_time().0).saturating_sub(boot_time());
        let mut known = BTreeMap::new();
        for process in &mut snapshot.processes {
            let start = process.start_time.map_or(0, |time: UnixTime| time.0);
            let place = (process.key.pid, start);
            let ticks = self.ticks.get(&place).copied().or_else(|| {
                let ticks = start_ticks(proc, process.key.pid)?;
                let began = booted + Duration::from_nanos(ticks * TICK_NANOS);
                (began.abs_diff(Duration::from_nanos(start)) <= Duration::from_secs(2)).then_some(ticks)
            });
            if let Some(ticks) = ticks {
                process.key.start_ticks = ticks;
                known.insert(place, ticks);
            }
        }
        self.ticks = known;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_socket_that_was_left_hides_no_service() {
        let directory = tempfile::tempdir().unwrap();
        let [dead, alive] = ["dead", "alive"].map(|name| directory.path().join(name));
        drop(UnixListener::bind(&dead).unwrap());
        let listener = UnixListener::bind(&alive).unwrap();
        std::thread::spawn(move || {
            let document = crate::line_of(crate::tests::machine::n300(), "1", &[]);
            for mut stream in listener.incoming().map_while(Result::ok) {
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(format!("HTTP/1.0 200 OK\r\n\r\n{document}").as_bytes());
            }
        });
        let unused = "http://127.0.0.1:1".parse().unwrap();
        let services = [ServiceAddress::Unix(dead), unused, ServiceAddress::Unix(alive)].map(|place| Service::new(place, None, None));
        let mut served = Served::new(services.into(), false);
        let interval = Duration::from_secs(1);
        served.find_service(interval, &|_| true);
        assert_eq!(served.used, Some(2));
        assert!(served.snapshot(interval, Path::new("/proc"), &|_| true).is_some_and(|snapshot| snapshot.devices.len() == 2));
        // The service does not read the chips themselves, so with --deep the machine is read here.
        served.set_deep(true);
        served.find_service(interval, &|_| true);
        assert!(served.used.is_none() && served.snapshot(interval, Path::new("/proc"), &|_| true).is_none());
        served.set_deep(false);
        served.find_service(interval, &|_| true);
        assert_eq!(served.used, Some(2));
    }
}
