//! The local machine, sampled repeatedly.

use std::fs::File;
use std::io::{self, Read};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use ttmon_buffer_history::{Recorder, Scene};
use ttmon_collect::ledgers::LedgerDetail;
use ttmon_collect::{Error, Machine};
use ttmon_hosts::Service;
use ttmon_model::select::Selection;
use ttmon_model::{ProcessKey, Sample, Snapshot};

use super::served::Served;
use super::{FeedError, FeedMessage, Request, chosen, unix_time};
use crate::signals::start_ticks;

const ENVIRONMENT_BYTES_MAX: u64 = 256 * 1024;

/// A machine and its selected devices.
#[derive(Debug)]
pub struct Local {
    /// The machine. Its reading process was forked before this program had threads.
    pub machine: Machine,
    /// The selected devices.
    pub selection: Selection,
    /// The directory of processes: `/proc`, or that of another root.
    pub proc: PathBuf,
    /// Services of this machine that may be used instead, running or not.
    pub services: Vec<Service>,
    /// Whether `--deep` is on at the start. Then only services with `--deep` are used.
    pub is_deep: bool,
    /// The executable that is started to read chips ([`Machine::set_deep`]).
    pub deep_program: PathBuf,
}

/// Reads the events of buffers that belong to a sample.
type NoteEvents<'a> = &'a mut dyn FnMut(&Machine, &Sample, &Snapshot);

impl Local {
    pub(super) fn run(mut self, mut interval: Duration, requests: &Receiver<Request>, send: impl Fn(FeedMessage) -> bool) {
        let mut previous: Option<Sample> = None;
        let mut next = Instant::now();
        let mut wants_buffers = false;
        let mut recorder = Recorder::default();
        let mut served = Served::new(mem::take(&mut self.services), self.is_deep);
        served.find_service(interval, &send);
        let mut last = None;
        loop {
            let mut events = Vec::new();
            let mut note_events = |machine: &Machine, sample: &Sample, snapshot: &Snapshot| {
                if wants_buffers {
                    let scene =
                        Scene { sample, snapshot, present: machine.ledgers(), departed: machine.departed(), pid: None, most: usize::MAX };
                    events = recorder.newest(&scene, &[]);
                }
            };
            let message = match served.snapshot(interval, &self.proc, &send) {
                Some(snapshot) => self.served(snapshot, wants_buffers, &mut note_events),
                None => served.explain(self.take_sample(&mut previous, &mut note_events)),
            };
            // A service has its own interval, so it may return the same sample again.
            let time = if let FeedMessage::Snapshot(snapshot) = &message { Some(snapshot.time) } else { None };
            let is_new = time.is_none() || time != last || wants_buffers;
            last = time;
            if is_new && !send(message) {
                return;
            }
            served.find_service(interval, &send);
            if !events.is_empty() && !send(FeedMessage::BufferEvents(events)) {
                return;
            }
            next = (next + interval).max(Instant::now());
            loop {
                match requests.recv_timeout(next.saturating_duration_since(Instant::now())) {
                    Err(RecvTimeoutError::Timeout) | Ok(Request::Now) => break,
                    Err(RecvTimeoutError::Disconnected) => return,
                    Ok(Request::Interval(other)) => {
                        interval = other;
                        next = next.min(Instant::now() + interval);
                    }
                    Ok(Request::Buffers(wanted)) => {
                        wants_buffers = wanted;
                        self.machine.set_detail(if wanted { LedgerDetail::Blocks } else { LedgerDetail::Totals });
                        if wanted {
                            break;
                        }
                    }
                    Ok(Request::Deep(wanted)) => {
                        self.machine.set_deep(wanted.then_some(self.deep_program.as_path()));
                        served.set_deep(wanted);
                        break;
                    }
                    Ok(Request::Environment(process)) => {
                        send(FeedMessage::Environment(process, environment(&self.proc, process)));
                    }
                    // These requests are only for recordings.
                    Ok(Request::Pause | Request::Step(_) | Request::Jump(_) | Request::Speed(_)) => {}
                }
            }
        }
    }

    /// Adds buffers to a service's snapshot. A service shows buffers only to their owner, so they are read here, at another time.
    fn served(&mut self, mut snapshot: Snapshot, wants_buffers: bool, note_events: NoteEvents<'_>) -> FeedMessage {
        if wants_buffers && let Ok(sample) = self.machine.sample() {
            let here = Snapshot::derive(&sample, None);
            note_events(&self.machine, &sample, &here);
            (snapshot.allocators, snapshot.buffers, snapshot.circulars) = (here.allocators, here.buffers, here.circulars);
            snapshot.lists_time = here.time;
        }
        self.chosen(snapshot)
    }

    fn chosen(&self, snapshot: Snapshot) -> FeedMessage {
        chosen(&self.selection, snapshot).map_or_else(FeedMessage::Error, |snapshot| FeedMessage::Snapshot(Box::new(snapshot)))
    }

    fn take_sample(&mut self, previous: &mut Option<Sample>, note_events: NoteEvents<'_>) -> FeedMessage {
        match self.machine.sample() {
            Ok(sample) => {
                let snapshot = Snapshot::derive(&sample, previous.as_ref());
                note_events(&self.machine, &sample, &snapshot);
                *previous = Some(sample);
                self.chosen(snapshot)
            }
            Err(error) => {
                let is_no_device = matches!(error, Error::NoDevice | Error::DriverNotLoaded { .. });
                FeedMessage::Error(FeedError { message: error.to_string(), is_no_device, since: unix_time() })
            }
        }
    }
}

/// Returns the variables that begin with `TT` or name a preloaded library, in order. Reading them needs the same user or root.
fn environment(proc: &Path, process: ProcessKey) -> io::Result<Vec<String>> {
    let path = proc.join(process.pid.to_string()).join("environ");
    let mut bytes = Vec::new();
    File::open(&path)?.take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut bytes)?;
    // Another process may have this pid now.
    if start_ticks(proc, process.pid) != Some(process.start_ticks) {
        return Err(io::Error::other("it is not certain that those of this pid are its own"));
    }
    let text = String::from_utf8_lossy(&bytes);
    let is_ours = |line: &&str| ["TT", "LD_PRELOAD=", "ARCH_NAME="].iter().any(|start| line.starts_with(start));
    let mut variables: Vec<String> = text.split('\0').filter(is_ours).map(str::to_owned).collect();
    variables.sort();
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn variables_are_those_of_the_chosen_process() {
        let proc = tempfile::tempdir().unwrap();
        let process = ProcessKey { pid: 7, start_ticks: 99 };
        fs::create_dir(proc.path().join("7")).unwrap();
        fs::write(proc.path().join("7/environ"), "PATH=/bin\0TT_METAL_HOME=/opt\0LD_PRELOAD=x.so\0").unwrap();
        let told_at = |ticks: u64| {
            let zeros = "0 ".repeat(18);
            fs::write(proc.path().join("7/stat"), format!("7 (a) b) S {zeros}{ticks} 0 0\n")).unwrap();
            environment(proc.path(), process)
        };
        assert_eq!(told_at(99).unwrap(), ["LD_PRELOAD=x.so", "TT_METAL_HOME=/opt"]);
        assert_eq!(told_at(100).unwrap_err().to_string(), "it is not certain that those of this pid are its own");
        assert!(environment(proc.path(), ProcessKey { pid: 8, ..process }).is_err());
    }
}
