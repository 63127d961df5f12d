//! Ledgers that processes handed over, kept past their end for those who want to know what happened.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ttmon_ledger::reader::Region;
use ttmon_model::identity::ProcessKey;
use ttmon_model::units::UnixTime;
use ttmon_source::handover::{self, Receiver};

use crate::limits::{HANDED_DEAD_BYTES_MAX, HANDED_DEAD_TIME, HANDED_MAX};
use crate::lines::megabytes;
use crate::peer;
use crate::work::unix_ns;

/// Messages taken in one turn.
const RECEIVED_MAX: usize = 64;

/// One ledger.
#[derive(Debug)]
pub struct Kept {
    number: u64,
    /// Whose.
    pub owner: ProcessKey,
    /// The user that it belongs to.
    pub uid: u32,
    /// The ledger, readable even when its process is gone.
    pub region: Arc<Region>,
    /// The end of its process, once that has come.
    pub ended: Option<Ended>,
    file: File,
    identity: (u64, u64),
    pidfd: Option<OwnedFd>,
}

/// The end of a process.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// When it was noticed.
    pub time: UnixTime,
    at: Instant,
    /// What the ledger takes of memory since.
    bytes: u64,
}

/// All that are kept, for other threads too.
#[derive(Clone, Debug, Default)]
pub struct PostMortem(Arc<Mutex<Vec<Kept>>>);

impl PostMortem {
    fn lock(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows each of them, the oldest first.
    pub fn each(&self, show: impl FnMut(&Kept)) {
        self.lock().iter().for_each(show);
    }
}

/// The receiving end, and what came.
pub(crate) struct Handed {
    receiver: Option<Receiver>,
    kept: PostMortem,
    last: u64,
}

impl Handed {
    pub(crate) fn new(receiver: Option<Receiver>) -> Self {
        Self { receiver, kept: PostMortem::default(), last: 0 }
    }

    pub(crate) fn receiver(&self) -> Option<&Receiver> {
        self.receiver.as_ref()
    }

    pub(crate) fn kept(&self) -> PostMortem {
        self.kept.clone()
    }

    /// Takes what came; of each the number, and a descriptor of its process that tells when it ends.
    pub(crate) fn receive(&mut self) -> Vec<(u64, OwnedFd)> {
        let Some(receiver) = &mut self.receiver else { return Vec::new() };
        let came = receiver.receive(RECEIVED_MAX);
        let mut watched = Vec::new();
        for handed in came {
            let Some((owner, pidfd)) = owner(&handed) else { continue };
            let mut kept = self.kept.lock();
            if kept.iter().any(|known| known.identity == handed.identity) {
                continue;
            }
            if kept.len() >= HANDED_MAX {
                // A dead one's place, or none.
                let Some(oldest) = kept.iter().position(|known| known.ended.is_some()) else { continue };
                kept.remove(oldest);
            }
            self.last += 1;
            let number = self.last & 0xFFFF_FFFF_FFFF;
            kept.push(Kept {
                number,
                owner,
                uid: handed.uid,
                region: Arc::new(handed.region),
                ended: None,
                file: handed.file,
                identity: handed.identity,
                pidfd: None,
            });
            drop(kept);
            match pidfd {
                Some(pidfd) => watched.push((number, pidfd)),
                None => drop(self.ended(number)),
            }
        }
        watched
    }

    /// Keeps the descriptor while the process lives.
    pub(crate) fn watch(&mut self, number: u64, pidfd: OwnedFd) {
        if let Some(known) = self.kept.lock().iter_mut().find(|known| known.number == number) {
            known.pidfd = Some(pidfd);
        }
    }

    /// Its process has ended: whose it was, and how many buffers and bytes were live.
    pub(crate) fn ended(&mut self, number: u64) -> Option<(u32, u64, u64)> {
        let mut kept = self.kept.lock();
        let known = kept.iter_mut().find(|known| known.number == number && known.ended.is_none())?;
        let bytes = known.file.metadata().map_or(0, |metadata| metadata.blocks().saturating_mul(512));
        known.ended = Some(Ended { time: UnixTime(unix_ns()), at: Instant::now(), bytes });
        // Closing it takes it out of the loop's interest too.
        known.pidfd = None;
        let pid = known.owner.pid;
        let live = known.region.totals().map_or((0, 0), |totals| {
            let rows = totals.allocators.iter().flat_map(|allocator| &allocator.rows);
            rows.fold((0, 0), |(count, bytes), row| (count + row.count, bytes + row.used))
        });
        let dead_bytes =
            |kept: &[Kept]| kept.iter().filter_map(|known| known.ended).fold(0_u64, |sum, ended| sum.saturating_add(ended.bytes));
        while dead_bytes(&kept) > HANDED_DEAD_BYTES_MAX {
            let Some(oldest) = kept.iter().position(|known| known.ended.is_some()) else { break };
            kept.remove(oldest);
        }
        Some((pid, live.0, live.1))
    }

    /// When the next one is to be forgotten.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.kept.lock().iter().filter_map(|known| known.ended).map(|ended| ended.at + HANDED_DEAD_TIME).min()
    }

    pub(crate) fn forget_old(&mut self, now: Instant) {
        self.kept.lock().retain(|known| known.ended.is_none_or(|ended| now < ended.at + HANDED_DEAD_TIME));
    }

    pub(crate) fn len(&self) -> usize {
        self.kept.lock().len()
    }

    /// What is kept, for people.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        self.kept.each(|known| {
            let Some(ended) = known.ended else { return };
            let live = known.region.totals().map_or(0, |totals| {
                totals.allocators.iter().flat_map(|allocator| &allocator.rows).map(|row| row.used).fold(0, u64::saturating_add)
            });
            let (pid, name) = (known.owner.pid, &known.region.identity().program);
            let ago = ended.at.elapsed().as_secs();
            lines.push(format!("  PID {pid} ({}) ended {ago} s ago with {} MB live", clean(name), megabytes(live)));
        });
        lines
    }
}

/// Foreign text on a terminal.
fn clean(name: &str) -> String {
    name.chars().map(|character| if character.is_control() { '?' } else { character }).collect()
}

/// Whose it is: who sent it, and the header says the same. One that has ended already is believed by its user alone.
fn owner(handed: &handover::Handed) -> Option<(ProcessKey, Option<OwnedFd>)> {
    let identity = handed.region.identity();
    let pid = handed.sender.map_or(identity.pid, |sender| sender.pid);
    let key = ProcessKey { pid, start_ticks: identity.start_ticks };
    let held = peer::open(pid).and_then(|pidfd| peer::look(pid, pidfd));
    match held {
        Some(held) => {
            let is_its_own = held.key == key && held.namespace_pid == identity.pid && held.uid == handed.uid;
            is_its_own.then(|| (key, held.pidfd.as_fd().try_clone_to_owned().ok()))
        }
        None => handed.sender.filter(|sender| sender.uid == handed.uid).map(|_| (key, None)),
    }
}
