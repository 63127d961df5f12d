//! The machine at hand, read again and again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use ttmon_model::select::Selection;
use ttmon_model::{ProcessKey, Sample, Snapshot};
use ttmon_source::happenings::{self, Happening};
use ttmon_source::ledgers::Detail;
use ttmon_source::{Error, Machine};

use super::{Lost, News, Request};

/// Longest environment read of a process.
const ENVIRONMENT_BYTES_MAX: u64 = 256 * 1024;

/// More than this of one ledger at once nobody reads.
const HAPPENINGS_MAX: usize = 50;

/// The last event told of each ledger.
type Seen = BTreeMap<(ProcessKey, (u64, u64)), u64>;

/// A machine, and which of its devices are meant.
#[derive(Debug)]
pub struct Local {
    /// The machine. Its reading process was forked before this program had threads.
    pub machine: Machine,
    /// Which devices.
    pub selection: Selection,
    /// Where processes are looked at: `/proc`, or the one of another root.
    pub proc: PathBuf,
}

impl Local {
    pub(super) fn run(mut self, mut interval: Duration, requests: &Receiver<Request>, tell: impl Fn(News) -> bool) {
        let mut previous: Option<Sample> = None;
        let mut next = Instant::now();
        let mut wants_buffers = false;
        let mut seen = Seen::new();
        loop {
            if !tell(self.look(&mut previous)) {
                return;
            }
            if wants_buffers && !tell(News::Happenings(self.happenings(&mut seen))) {
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
                        self.machine.set_detail(if wanted { Detail::Buffers } else { Detail::Totals });
                        if wanted {
                            break;
                        }
                    }
                    Ok(Request::Environment(process)) => {
                        tell(News::Environment(process, self.environment(process)));
                    }
                    // What happens now can be neither stopped nor hurried.
                    Ok(Request::Pause | Request::Step(_) | Request::Jump(_) | Request::Speed(_)) => {}
                }
            }
        }
    }

    fn look(&mut self, previous: &mut Option<Sample>) -> News {
        match self.machine.sample() {
            Ok(sample) => {
                let mut snapshot = Snapshot::derive(&sample, previous.as_ref());
                *previous = Some(sample);
                let all = snapshot.devices.len();
                self.selection.apply(&mut snapshot);
                if snapshot.devices.is_empty() && !self.selection.is_empty() {
                    let message = format!("none of the {all} devices is the one asked for; ttmon -L lists them");
                    return News::Lost(Lost { message, is_no_device: true });
                }
                News::Snapshot(Box::new(snapshot))
            }
            Err(error) => {
                let is_no_device = matches!(error, Error::NoDevice | Error::DriverNotLoaded { .. });
                News::Lost(Lost { message: error.to_string(), is_no_device })
            }
        }
    }

    /// What happened to buffers since the last look; of a ledger not looked at before, the last few events.
    fn happenings(&self, seen: &mut Seen) -> Vec<Happening> {
        let mut happenings = Vec::new();
        let ledgers = self.machine.ledgers();
        seen.retain(|key, _| ledgers.iter().any(|found| (found.owner, found.identity()) == *key));
        for found in ledgers {
            let number = seen.entry((found.owner, found.identity())).or_default();
            if let Some((happened, next)) = happenings::after(found, *number, HAPPENINGS_MAX) {
                *number = next;
                happenings.extend(happened);
            }
        }
        happenings.sort_by_key(|happening| happening.time);
        happenings
    }

    /// Variables that begin with `TT` or name a preloaded library, in order. Reading them needs the same user or root.
    fn environment(&self, process: ProcessKey) -> Result<Vec<String>, String> {
        let path = self.proc.join(process.pid.to_string()).join("environ");
        let mut bytes = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut bytes));
        read.map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&bytes);
        let is_ours = |line: &&str| ["TT", "LD_PRELOAD=", "ARCH_NAME="].iter().any(|start| line.starts_with(start));
        let mut variables: Vec<String> = text.split('\0').filter(is_ours).map(str::to_owned).collect();
        variables.sort();
        Ok(variables)
    }
}
