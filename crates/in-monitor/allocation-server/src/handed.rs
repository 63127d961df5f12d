//! Ledgers that processes handed over. They are kept after the end of the process for later queries.

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use ttmon_collect::handover::{HandedLedger, Receiver};
use ttmon_collect::ledgers::OpenLedger;
use ttmon_ledger_reader::Region;
use ttmon_model::Source;
use ttmon_model::identity::ProcessKey;
use ttmon_model::units::UnixTime;
use ttmon_os::lock;
use ttmon_os::time::unix_nanos;

use crate::limits::{
    HANDED_BYTES_OF_USER_MAX, HANDED_DEAD_BYTES_MAX, HANDED_DEAD_BYTES_OF_USER_MAX, HANDED_DEAD_TIME, HANDED_MAX, HANDED_MEASURE_INTERVAL,
};
use crate::lines::megabytes;
use crate::peer;

/// Messages received per turn.
const RECEIVED_MAX: usize = 64;

/// A handed-over ledger.
#[derive(Debug)]
pub struct KeptLedger {
    number: u64,
    /// The ledger. It stays readable after the end of its process.
    pub ledger: Arc<OpenLedger>,
    /// The end of the process, if it has ended.
    pub ended: Option<Ended>,
    /// Memory of the ledger at the last measurement.
    bytes: u64,
    /// Live bytes at the end of the process, once counted.
    live: Option<u64>,
    file: File,
    pidfd: Option<OwnedFd>,
}

/// The end of a process.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// When the server noticed the end.
    pub time: UnixTime,
    at: Instant,
}

impl KeptLedger {
    fn measure(&mut self) {
        self.bytes = self.file.metadata().map_or(0, |metadata| metadata.blocks().saturating_mul(512));
    }
}

/// All kept ledgers, shared between threads.
#[derive(Clone, Debug, Default)]
pub struct PostMortem(Arc<Mutex<Vec<KeptLedger>>>);

impl PostMortem {
    /// Calls `show` with each ledger, the oldest first.
    pub fn each(&self, show: impl FnMut(&KeptLedger)) {
        lock(&self.0).iter().for_each(show);
    }
}

/// Returns the ledgers that programs of a machine write, each once, and whether the process has ended: those that were handed over, and
/// those that a sample found.
pub(crate) fn ledgers_of_programs<'a>(
    kept: &PostMortem,
    found: impl Iterator<Item = &'a Arc<OpenLedger>>,
    machine: u64,
) -> Vec<(Arc<OpenLedger>, bool)> {
    let mut ledgers: Vec<(Arc<OpenLedger>, bool)> = Vec::new();
    kept.each(|kept| {
        if kept.ledger.region.identity().machine == machine {
            ledgers.push((Arc::clone(&kept.ledger), kept.ended.is_some()));
        }
    });
    for ledger in found.filter(|ledger| ledger.source == Source::Ledger) {
        if !ledgers.iter().any(|(known, _)| (known.owner, known.identity()) == (ledger.owner, ledger.identity())) {
            ledgers.push((Arc::clone(ledger), false));
        }
    }
    ledgers
}

/// The receiving socket and the kept ledgers.
pub(crate) struct HandedLedgers {
    receiver: Option<Receiver>,
    /// The machine of the processes: 0, or the mark of a simulated machine.
    machine: u64,
    kept: PostMortem,
    /// Ledgers whose processes could not be looked at yet, because no descriptor or no memory was left.
    deferred: Vec<HandedLedger>,
    /// Ledgers that are no longer kept. Another thread releases their memory, because that would delay the loop.
    forgotten: Vec<KeptLedger>,
    last: u64,
    refused: u64,
    measured: Instant,
}

impl HandedLedgers {
    pub(crate) fn new(receiver: Option<Receiver>, machine: u64) -> Self {
        Self {
            receiver,
            machine,
            kept: PostMortem::default(),
            deferred: Vec::new(),
            forgotten: Vec::new(),
            last: 0,
            refused: 0,
            measured: Instant::now(),
        }
    }

    pub(crate) fn receiver(&self) -> Option<&Receiver> {
        self.receiver.as_ref()
    }

    pub(crate) fn kept(&self) -> PostMortem {
        self.kept.clone()
    }

    /// Receives messages. Returns the number of each ledger, and a pidfd that reports the end of its process, unless it has ended.
    pub(crate) fn receive(&mut self) -> Vec<(u64, Option<OwnedFd>)> {
        let mut came = mem::take(&mut self.deferred);
        if let Some(receiver) = self.receiver.as_mut().filter(|_| came.is_empty()) {
            came = receiver.receive(RECEIVED_MAX);
        }
        self.take_in(came)
    }

    fn take_in(&mut self, came: Vec<HandedLedger>) -> Vec<(u64, Option<OwnedFd>)> {
        let mut taken = Vec::new();
        for handed in came {
            // Usually a process of a simulated machine. It is not shown here, and this is not an error of the sender.
            if handed.region.identity().machine != self.machine {
                continue;
            }
            let (owner, pidfd) = match owner(&handed) {
                Ok(Some(found)) => found,
                Ok(None) => {
                    self.refused += 1;
                    continue;
                }
                Err(_) => {
                    self.deferred.push(handed);
                    continue;
                }
            };
            let mut kept = lock(&self.kept.0);
            if kept.iter().any(|known| known.ledger.identity() == handed.identity) {
                continue;
            }
            // A process has one ledger. After `exec` it has a new one.
            self.forgotten.extend(kept.extract_if(.., |known| known.ledger.owner == owner));
            if kept.len() >= HANDED_MAX {
                let Some(oldest) = evict_one(&mut kept, handed.uid) else {
                    self.refused += 1;
                    continue;
                };
                self.forgotten.push(oldest);
            }
            self.last += 1;
            let number = self.last & 0xFFFF_FFFF_FFFF;
            kept.push(KeptLedger {
                number,
                ledger: Arc::new(OpenLedger::handed(owner, handed.uid, Arc::new(handed.region), handed.identity)),
                ended: None,
                bytes: 0,
                live: None,
                file: handed.file,
                pidfd: None,
            });
            taken.push((number, pidfd));
        }
        taken
    }

    /// Number of messages so far that were not kept.
    pub(crate) fn refused(&self) -> u64 {
        self.refused + self.receiver.as_ref().map_or(0, Receiver::refused)
    }

    /// Whether receiving is suspended.
    pub(crate) fn is_stuck(&self) -> bool {
        self.receiver.as_ref().is_some_and(Receiver::is_stuck)
    }

    /// Whether ledgers wait until their processes can be looked at. Meanwhile nothing is received.
    pub(crate) fn is_deferring(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Stores the pidfd while the process lives.
    pub(crate) fn watch(&mut self, number: u64, pidfd: OwnedFd) {
        if let Some(known) = lock(&self.kept.0).iter_mut().find(|known| known.number == number) {
            known.pidfd = Some(pidfd);
        }
    }

    /// Records the end of a process. Returns its ledger, to count the live entries.
    pub(crate) fn ended(&mut self, number: u64) -> Option<Arc<Region>> {
        let mut kept = lock(&self.kept.0);
        let known = kept.iter_mut().find(|known| known.number == number && known.ended.is_none())?;
        known.measure();
        known.ended = Some(Ended { time: UnixTime(unix_nanos()), at: Instant::now() });
        // Closing the pidfd also removes it from the epoll.
        known.pidfd = None;
        let region = Arc::clone(&known.ledger.region);
        self.forgotten.extend(drop_excess(&mut kept));
        Some(region)
    }

    pub(crate) fn counted(&mut self, number: u64, live: u64) {
        if let Some(known) = lock(&self.kept.0).iter_mut().find(|known| known.number == number) {
            known.live = Some(live);
        }
    }

    /// When the next ledger expires or the next measurement is due.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let kept = lock(&self.kept.0);
        let measure = (!kept.is_empty()).then_some(self.measured + HANDED_MEASURE_INTERVAL);
        kept.iter().filter_map(|known| known.ended).map(|ended| ended.at + HANDED_DEAD_TIME).chain(measure).min()
    }

    /// Measures the kept ledgers. Other processes may still write to them.
    fn measure(&mut self, now: Instant) {
        if now < self.measured + HANDED_MEASURE_INTERVAL {
            return;
        }
        self.measured = now;
        let mut kept = lock(&self.kept.0);
        kept.iter_mut().for_each(KeptLedger::measure);
        self.forgotten.extend(drop_excess(&mut kept));
    }

    pub(crate) fn forget_old(&mut self, now: Instant) {
        self.measure(now);
        let is_old = |known: &mut KeptLedger| known.ended.is_some_and(|ended| now >= ended.at + HANDED_DEAD_TIME);
        self.forgotten.extend(lock(&self.kept.0).extract_if(.., is_old));
    }

    /// Returns the ledgers that are no longer kept, to be dropped by a thread that may block. The loop no longer watches their processes.
    pub(crate) fn take_forgotten(&mut self) -> Vec<KeptLedger> {
        let mut forgotten = mem::take(&mut self.forgotten);
        forgotten.iter_mut().for_each(|known| known.pidfd = None);
        forgotten
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.kept.0).len()
    }

    /// One line of text per kept ledger of an ended process.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        self.kept.each(|known| {
            let Some(ended) = known.ended else { return };
            let (pid, name) = (known.ledger.owner.pid, &known.ledger.region.identity().program);
            let ago = ended.at.elapsed().as_secs();
            let live = known.live.map_or_else(String::new, |bytes| format!(" with {} MB live", megabytes(bytes)));
            lines.push(format!("  PID {pid} ({}) ended {ago} s ago{live}", clean(name)));
        });
        lines
    }
}

/// Returns the live bytes in a ledger. This takes long if the writer was killed in the middle of an event.
pub(crate) fn live(region: &Region) -> u64 {
    let Ok(figures) = region.figures() else { return 0 };
    figures.allocators.iter().flat_map(|allocator| &allocator.rows).fold(0, |bytes, row| bytes.saturating_add(row.used))
}

/// Frees a slot when all are used. The user with the most slots loses the oldest, preferably of an ended process. If the new ledger belongs
/// to this user, no ledger of a live process is removed.
fn evict_one(kept: &mut Vec<KeptLedger>, newcomer: u32) -> Option<KeptLedger> {
    let most = user_with_most(kept, |_| 1)?;
    let is_theirs = |known: &KeptLedger| known.ledger.uid == most;
    let oldest = kept.iter().position(|known| is_theirs(known) && known.ended.is_some());
    let oldest = oldest.or_else(|| kept.iter().position(is_theirs).filter(|_| most != newcomer));
    oldest.map(|oldest| kept.remove(oldest))
}

/// Removes ledgers beyond the limits. For dead processes the oldest is removed first. For a user's total the largest is removed first,
/// because it is the one that grows.
fn drop_excess(kept: &mut Vec<KeptLedger>) -> Vec<KeptLedger> {
    let mut dropped = Vec::new();
    let dead = |known: &KeptLedger| if known.ended.is_some() { known.bytes } else { 0 };
    while kept.iter().map(dead).fold(0, u64::saturating_add) > HANDED_DEAD_BYTES_MAX
        || user_with_most(kept, dead).is_some_and(|uid| of_user(kept, uid, dead) > HANDED_DEAD_BYTES_OF_USER_MAX)
    {
        let most = user_with_most(kept, dead);
        let Some(oldest) = kept.iter().position(|known| known.ended.is_some() && Some(known.ledger.uid) == most) else { break };
        dropped.push(kept.remove(oldest));
    }
    let all = |known: &KeptLedger| known.bytes;
    while let Some(uid) = user_with_most(kept, all).filter(|uid| of_user(kept, *uid, all) > HANDED_BYTES_OF_USER_MAX) {
        let largest = (0..kept.len()).filter(|at| kept[*at].ledger.uid == uid).max_by_key(|at| kept[*at].bytes);
        let Some(largest) = largest else { break };
        dropped.push(kept.remove(largest));
    }
    dropped
}

fn of_user(kept: &[KeptLedger], uid: u32, of: impl Fn(&KeptLedger) -> u64) -> u64 {
    kept.iter().filter(|known| known.ledger.uid == uid).map(of).fold(0, u64::saturating_add)
}

fn user_with_most(kept: &[KeptLedger], of: impl Fn(&KeptLedger) -> u64) -> Option<u32> {
    kept.iter().map(|known| known.ledger.uid).max_by_key(|uid| of_user(kept, *uid, &of))
}

/// Replaces control characters, to print a name safely on a terminal.
fn clean(name: &str) -> String {
    name.chars().map(|character| if character.is_control() { '?' } else { character }).collect()
}

/// Returns the owner of a ledger, if its header agrees with the sender. If the sender has ended already, only its user id is checked. The
/// error says that it is not known whether it has ended, because no descriptor or no memory is left.
fn owner(handed: &HandedLedger) -> io::Result<Option<(ProcessKey, Option<OwnedFd>)>> {
    let identity = handed.region.identity();
    let pid = handed.sender.map_or(identity.pid, |sender| sender.pid);
    let key = ProcessKey { pid, start_ticks: identity.start_ticks };
    Ok(match peer::held(pid)? {
        Some(held) => {
            let is_its_own = held.key == key && held.namespace_pid == identity.pid && held.uid() == handed.uid;
            is_its_own.then_some((key, Some(held.pidfd)))
        }
        None => handed.sender.filter(|sender| sender.uid == handed.uid).map(|_| (key, None)),
    })
}

#[cfg(test)]
mod tests {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::*;
    use crate::owner::ProcessView;
    use crate::store::Store;
    use crate::store::tests::in_memory;
    use ttmon_collect::handover::Sender;

    /// Ledgers of one process, presented as those of many: `(user, bytes of a dead one)`.
    fn handed(ledgers: &[(u32, Option<u64>)]) -> HandedLedgers {
        let directory = in_memory();
        let store = Store::open(&directory.path().join("state"), 0, "0.0.0").expect("in memory");
        let held = peer::held(std::process::id()).expect("descriptors").expect("alive");
        let hosted = store.create(&held, &ProcessView::UNKNOWN).expect("room");
        let region = Arc::new(Region::open(hosted.file().try_clone().expect("descriptor")).expect("a ledger"));
        let handed = HandedLedgers::new(None, 0);
        for ((uid, dead_bytes), number) in ledgers.iter().zip(0..) {
            let owner = ProcessKey { pid: 1, start_ticks: number };
            let ended = dead_bytes.map(|_| Ended { time: UnixTime(0), at: Instant::now() });
            lock(&handed.kept.0).push(KeptLedger {
                number,
                ledger: Arc::new(OpenLedger::handed(owner, *uid, Arc::clone(&region), (0, number))),
                ended,
                bytes: dead_bytes.unwrap_or_default(),
                live: None,
                file: hosted.file().try_clone().expect("descriptor"),
                pidfd: None,
            });
        }
        handed
    }

    fn numbers(handed: &HandedLedgers) -> Vec<u64> {
        lock(&handed.kept.0).iter().map(|known| known.number).collect()
    }

    /// The limit is of the whole process.
    #[test]
    fn a_ledger_waits_while_no_descriptor_is_left() {
        if !ttmon_testing::is_alone("handed::tests::a_ledger_waits_while_no_descriptor_is_left", |_| {}) {
            return;
        }
        let directory = in_memory();
        let store = Store::open(&directory.path().join("state"), 0, "0.0.0").expect("in memory");
        let held = peer::held(std::process::id()).expect("descriptors").expect("alive");
        let hosted = store.create(&held, &ProcessView::UNKNOWN).expect("room");
        let region = Region::open(hosted.file().try_clone().expect("descriptor")).expect("a ledger");
        let identity = (0, 1);
        let sender = Some(Sender { pid: std::process::id(), uid: held.uid() });
        let handed_over = HandedLedger { region, file: hosted.file().try_clone().expect("descriptor"), identity, sender, uid: held.uid() };
        let mut handed = HandedLedgers::new(None, handed_over.region.identity().machine);
        let before = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..before }).expect("a lower limit");
        let came = handed.take_in(vec![handed_over]);
        setrlimit(Resource::Nofile, before).expect("the limit as before");
        assert!(came.is_empty() && handed.is_deferring() && handed.refused() == 0, "it is not known whether the process has ended");
        assert_eq!(handed.receive().len() as u64 + handed.refused(), 1, "the process is looked at again");
        assert!(!handed.is_deferring());
    }

    #[test]
    fn the_user_with_most_ledgers_loses_one() {
        let handed = handed(&[(1, None), (2, None), (1, None), (1, None)]);
        let evict_one = |newcomer| evict_one(&mut lock(&handed.kept.0), newcomer).is_some();
        assert!(!evict_one(1), "not for himself, while all of his live");
        assert!(evict_one(2));
        assert_eq!(numbers(&handed), [1, 2, 3], "the oldest one");
        lock(&handed.kept.0)[2].ended = Some(Ended { time: UnixTime(0), at: Instant::now() });
        assert!(evict_one(1));
        assert_eq!(numbers(&handed), [1, 2], "one of a process that has ended before one that lives");
    }

    /// Dropping a ledger may take long.
    #[test]
    fn a_forgotten_ledger_reports_no_end() {
        let mut handed = handed(&[(1, None)]);
        handed.watch(0, peer::open(std::process::id()).expect("descriptors").expect("alive"));
        handed.forgotten.extend(evict_one(&mut lock(&handed.kept.0), 2));
        assert!(handed.forgotten.iter().all(|known| known.pidfd.is_some()));
        let forgotten = handed.take_forgotten();
        assert!(forgotten.len() == 1 && forgotten.iter().all(|known| known.pidfd.is_none()));
    }

    #[test]
    fn the_oldest_ledger_of_the_user_with_most_is_dropped() {
        let half = HANDED_DEAD_BYTES_OF_USER_MAX / 2;
        let mut handed = handed(&[(2, Some(half)), (1, Some(half)), (1, Some(half)), (2, None), (1, Some(1))]);
        assert!(handed.ended(3).is_some());
        assert_eq!(numbers(&handed), [0, 2, 3, 4], "the oldest of the user with most");
        assert!(handed.ended(3).is_none(), "an end comes once");
        handed.forget_old(Instant::now() + HANDED_DEAD_TIME);
        assert_eq!(numbers(&handed), [0; 0]);
        let forgotten: Vec<u64> = handed.take_forgotten().iter().map(|known| known.number).collect();
        assert_eq!(forgotten, [1, 0, 2, 3, 4], "what they take is given back elsewhere");
    }

    /// Four users, each within its share for dead processes, exceed the total. A ledger that grows while its process lives is dropped.
    #[test]
    fn all_ledgers_together_and_those_of_live_processes_have_limits() {
        let share = HANDED_DEAD_BYTES_OF_USER_MAX;
        let dead = handed(&[(1, Some(share)), (2, Some(share)), (3, Some(share)), (4, Some(share)), (5, Some(share))]);
        assert_eq!(drop_excess(&mut lock(&dead.kept.0)).len(), 1);
        let alive = handed(&[(1, None), (1, None), (2, None)]);
        for (known, bytes) in lock(&alive.kept.0).iter_mut().zip([1, HANDED_BYTES_OF_USER_MAX, HANDED_BYTES_OF_USER_MAX]) {
            known.bytes = bytes;
        }
        let dropped = drop_excess(&mut lock(&alive.kept.0));
        assert_eq!(dropped.iter().map(|known| known.number).collect::<Vec<_>>(), [1]);
    }
}
