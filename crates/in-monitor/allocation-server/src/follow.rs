//! Event lines of programs that write ledgers, from the new events in their flight recorders.
//!
//! A separate thread reads a bounded number of events per turn, so the loop that receives messages never waits.

use std::collections::HashMap;
use std::sync::Arc;

use ttmon_collect::ledgers::OpenLedger;
use ttmon_ledger_reader::{Event, EventCursor, LedgerDetail, Lines, Op, ReadError};
use ttmon_model::event::Refused;
use ttmon_model::identity::ProcessKey;
use ttmon_model::ledger::{BufferKind, Ledger};
use ttmon_model::{KernelType, Source};
use ttmon_os::time::unix_nanos;

use crate::dump::{devices, devices_of_circular};
use crate::handed::{PostMortem, ledgers_of_programs};
use crate::limits::{FOLLOWED_EVENTS_MAX, FOLLOWED_LINES_MAX, FOLLOWED_LINES_OF_PROCESS_MAX, KERNEL_TYPES_MAX};
use crate::lines::{self, CB, Done, EventLine, Format, KERNEL};
use crate::owner::add;
use crate::peer;

/// One ledger of one process. After `exec` a process has another ledger.
type LedgerKey = (ProcessKey, (u64, u64));

/// The state of a ledger between two turns.
struct FollowedLedger {
    ledger: Arc<OpenLedger>,
    cursor: EventCursor,
    /// The end of the process was reported.
    is_over: bool,
    /// It was reported that the ledger cannot be read.
    is_unreadable: bool,
    /// Types of kernels, by allocator and address. An unload does not report the type.
    kernels: HashMap<(u16, u64), KernelType>,
}

/// The lines of one turn.
struct Turn {
    events: Vec<EventLine>,
    /// Lines after those of the events.
    after: Vec<String>,
    /// Events that may still be read.
    events_left: usize,
}

/// Reads flight recorders and writes their lines.
pub(crate) struct Follower {
    format: Format,
    /// 0, or the mark of the simulated machine of the ledgers.
    machine: u64,
    /// Earlier events are not reported.
    since_unix_ns: u64,
    known: HashMap<LedgerKey, FollowedLedger>,
    /// Index of the ledger to read first, so that the event limit is not always used up by the same ledgers.
    next: usize,
}

impl Follower {
    pub(crate) fn new(format: Format, machine: u64, now_unix_ns: u64) -> Self {
        Self { format, machine, since_unix_ns: now_unix_ns, known: HashMap::new(), next: 0 }
    }

    /// Returns the lines of all new events in these ledgers and in the handed-over ones.
    pub(crate) fn read(&mut self, present: &[Arc<OpenLedger>], handed: &PostMortem) -> Vec<u8> {
        let followed = self.followed(present, handed);
        self.known.retain(|key, _| followed.iter().any(|(ledger, _)| key_of(ledger) == *key));
        let mut turn = Turn { events: Vec::new(), after: Vec::new(), events_left: FOLLOWED_EVENTS_MAX };
        self.next = if self.next < followed.len() { self.next } else { 0 };
        let (before, first) = followed.split_at(self.next);
        for (ledger, has_ended) in first.iter().chain(before) {
            if turn.events_left == 0 {
                break;
            }
            self.next = (self.next + 1) % followed.len();
            self.read_one(ledger, *has_ended, &mut turn);
        }
        self.add_totals(&mut turn);
        let Turn { mut events, mut after, .. } = turn;
        events.sort_by_key(|line| line.unix_ns);
        let mut out = Vec::new();
        events.iter().take(FOLLOWED_LINES_MAX).for_each(|line| lines::event(&mut out, self.format, line));
        if events.len() > FOLLOWED_LINES_MAX {
            after.insert(0, format!("⚠ {} more events are not shown: too many at once", events.len() - FOLLOWED_LINES_MAX));
        }
        after.iter().for_each(|line| lines::note(&mut out, self.format, unix_nanos(), "info", line));
        out
    }

    /// Lists all ledgers, each once, and whether its process has ended. That of a ledger that is no longer in any list has ended.
    fn followed(&self, present: &[Arc<OpenLedger>], handed: &PostMortem) -> Vec<(Arc<OpenLedger>, bool)> {
        // Events reported over the socket are printed when they are received.
        let is_reporting = |owner: ProcessKey| present.iter().any(|found| found.owner == owner && found.source == Source::Server);
        let mut followed = ledgers_of_programs(handed, present.iter(), self.machine);
        for (key, known) in &self.known {
            if !known.is_over && !followed.iter().any(|(ledger, _)| key_of(ledger) == *key) {
                followed.push((Arc::clone(&known.ledger), true));
            }
        }
        followed.retain(|(ledger, _)| !is_reporting(ledger.owner));
        followed
    }

    fn read_one(&mut self, ledger: &Arc<OpenLedger>, has_ended: bool, turn: &mut Turn) {
        let (since, owner, region) = (self.since_unix_ns, ledger.owner, &ledger.region);
        let pid = owner.pid;
        let known = self.known.entry(key_of(ledger)).or_insert_with(|| {
            // For a ledger that existed before, only later events are printed. Below it is reported if it cannot be read.
            let seen = if region.identity().created_unix_ns < since { region.last_event().unwrap_or(0) } else { 0 };
            let (ledger, cursor) = (Arc::clone(ledger), EventCursor::after(seen));
            FollowedLedger { ledger, cursor, is_over: false, is_unreadable: false, kernels: HashMap::new() }
        });
        if known.is_over {
            return;
        }
        known.is_over = has_ended;
        let (events, mut hidden) = match known.cursor.read(region, |_| false, usize::MAX) {
            Ok(new) => (new.events, new.overrun),
            Err(error) => {
                known.report_unreadable(&error, &mut turn.after);
                (Vec::new(), 0)
            }
        };
        turn.events_left = turn.events_left.saturating_sub(events.len());
        if events.is_empty() && !has_ended {
            return;
        }
        let ledger = match region.figures() {
            Ok(ledger) => ledger,
            Err(error) => return known.report_unreadable(&error, &mut turn.after),
        };
        known.learn_kernels(&ledger, &events);
        let first = turn.events.len();
        for event in &events {
            let lines: Vec<EventLine> = lines_of(pid, event, &ledger, &known.kernels);
            if turn.events.len() - first + lines.len() <= FOLLOWED_LINES_OF_PROCESS_MAX {
                turn.events.extend(lines);
            } else {
                hidden += 1;
            }
        }
        if hidden > 0 {
            turn.after.push(format!("⚠ [PID {pid}] {hidden} more events are not shown: too many at once"));
        }
        if has_ended && !lives(owner) {
            turn.after.extend(lines::end_of_process(pid, live(&ledger)));
        }
    }

    /// Sets the total bytes after each event of a circular buffer or kernel, computed backwards from the current totals.
    fn add_totals(&mut self, turn: &mut Turn) {
        if !turn.events.iter().any(|line| is_summed(line.kind)) {
            return;
        }
        let mut now: HashMap<(i32, BufferKind), u64> = HashMap::new();
        for known in self.known.values_mut().filter(|known| !known.is_over) {
            let whole = known.ledger.region.figures_with_circulars().or_else(|error| {
                known.report_unreadable(&error, &mut turn.after);
                known.ledger.region.figures()
            });
            let ledger = match whole {
                Ok(ledger) => ledger,
                Err(error) => {
                    known.report_unreadable(&error, &mut turn.after);
                    continue;
                }
            };
            for allocator in &ledger.allocators {
                for device in devices(allocator) {
                    for row in allocator.rows.iter().filter(|row| is_summed(row.kind)) {
                        add_bytes(&mut now, (signed(device), row.kind), row.used);
                    }
                }
            }
            for circular in ledger.circulars.iter().filter(|circular| !circular.is_global) {
                for device in devices_of_circular(&ledger, circular) {
                    add_bytes(&mut now, (signed(device), CB), circular.size);
                }
            }
        }
        for line in turn.events.iter_mut().rev().filter(|line| is_summed(line.kind)) {
            let sum = now.entry((line.device, line.kind)).or_default();
            line.total = *sum;
            *sum = if line.done == Done::Freed { sum.saturating_add(line.size) } else { sum.saturating_sub(line.size) };
        }
    }
}

impl FollowedLedger {
    /// Reports once that the ledger cannot be read. Later turns try again.
    fn report_unreadable(&mut self, error: &ReadError, after: &mut Vec<String>) {
        if !std::mem::replace(&mut self.is_unreadable, true) {
            let pid = self.ledger.owner.pid;
            after.push(format!("⚠ [PID {pid}] its ledger cannot be read, so its events and bytes are not shown: {error}"));
        }
    }

    /// Reads the types of loaded kernels, which the recorder does not store.
    fn learn_kernels(&mut self, figures: &Ledger, events: &[Event]) {
        let is_load = |event: &Event| event.kind == KERNEL && matches!(event.op, Op::Alloc | Op::UnlistedAlloc);
        let is_short = |ledger: &Ledger| ledger.live_entries() <= KERNEL_TYPES_MAX as u64;
        if !is_short(figures) || !events.iter().any(is_load) {
            return;
        }
        let choose = |ledger: &Ledger| if is_short(ledger) { LedgerDetail::Buffers } else { LedgerDetail::Totals };
        let Ok(Some(ledger)) = self.ledger.region.ledger(choose, Lines::default, &mut |_, _| true) else { return };
        if self.kernels.len() > KERNEL_TYPES_MAX {
            self.kernels.clear();
        }
        let slot = |allocator: u16| ledger.allocators.get(usize::from(allocator)).map(|allocator| allocator.slot);
        self.kernels
            .extend(ledger.buffers.iter().filter_map(|buffer| Some(((slot(buffer.allocator)?, buffer.address), buffer.kernel_type?))));
    }
}

fn key_of(ledger: &OpenLedger) -> LedgerKey {
    (ledger.owner, ledger.identity())
}

/// Returns the lines of an event, one for each chip of its allocator.
fn lines_of(pid: u32, event: &Event, ledger: &Ledger, kernels: &HashMap<(u16, u64), KernelType>) -> Vec<EventLine> {
    let (done, refs) = match event.op {
        Op::Alloc | Op::UnlistedAlloc | Op::AddCircular => (Done::Allocated, 1),
        Op::Ref => (Done::Allocated, event.refs),
        Op::Free | Op::UnlistedFree | Op::RemoveProgram => (Done::Freed, 0),
        Op::Unref => (Done::Freed, event.refs),
        Op::FreeAll if event.size > 0 => (Done::FreedAll, 0),
        Op::Failed if event.refused() == Some(Refused::OutOfMemory) => (Done::Refused, 0),
        Op::Failed | Op::FreeAll | Op::Repair | Op::Open | Op::Close | Op::Mark | Op::Nothing => return Vec::new(),
        Op::PhaseBegin | Op::PhaseEnd | Op::TraceBegin | Op::TraceEnd | Op::TraceReplay | Op::TraceRelease => return Vec::new(),
    };
    let Some(allocator) = ledger.allocators.iter().find(|allocator| allocator.slot == event.allocator) else { return Vec::new() };
    let line = |device: u32| EventLine {
        done,
        pid,
        device: signed(device),
        kind: event.kind,
        kernel_type: kernels.get(&(event.allocator, event.address)).copied().unwrap_or(KernelType::Other),
        size: event.size,
        address: event.address,
        refs,
        total: 0,
        unix_ns: event.time,
    };
    devices(allocator).into_iter().map(line).collect()
}

/// Whether the process still runs, as another program. Without descriptors that is unknown, and its end is not reported.
fn lives(owner: ProcessKey) -> bool {
    peer::held(owner.pid).map_or(true, |held| held.is_some_and(|held| held.key == owner))
}

/// Live bytes and buffers: plain buffers, circular buffers, kernels.
fn live(ledger: &Ledger) -> [(u64, u64); 3] {
    let sum = |is_meant: fn(BufferKind) -> bool| {
        let rows = ledger.allocators.iter().flat_map(|allocator| &allocator.rows).filter(|row| is_meant(row.kind));
        rows.fold((0, 0), |sum, row| add(sum, (row.used, row.count)))
    };
    [sum(|kind| !is_summed(kind)), sum(|kind| kind == CB), sum(|kind| kind == KERNEL)]
}

fn is_summed(kind: BufferKind) -> bool {
    matches!(kind, CB | KERNEL)
}

fn add_bytes(sums: &mut HashMap<(i32, BufferKind), u64>, key: (i32, BufferKind), bytes: u64) {
    let sum = sums.entry(key).or_default();
    *sum = sum.saturating_add(bytes);
}

fn signed(device: u32) -> i32 {
    i32::try_from(device).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use ttmon_ledger_reader::Region;

    use super::*;
    use crate::owner::ProcessView;
    use crate::store::Store;
    use crate::store::tests::in_memory;

    #[test]
    fn an_unreadable_ledger_is_reported_once() {
        let directory = in_memory();
        let store = Store::open(&directory.path().join("state"), 0, "0.0.0").expect("in memory");
        let held = peer::held(std::process::id()).expect("descriptors").expect("alive");
        let mut written = store.create(&held, &ProcessView::UNKNOWN).expect("room").file().try_clone().expect("descriptor");
        let path = directory.path().join("copy");
        std::io::copy(&mut written, &mut File::create(&path).expect("room")).expect("a copy");
        let region = Arc::new(Region::open(File::open(&path).expect("a copy")).expect("a ledger"));
        let found = [Arc::new(OpenLedger::handed(held.key, 0, region, (0, 0)))];
        let mut follower = Follower::new(Format::Text, 0, 0);
        let mut read = || String::from_utf8(follower.read(&found, &PostMortem::default())).expect("text");
        assert_eq!(read(), "", "it has no events");
        fs::write(&path, "").expect("an empty file");
        let line = format!("⚠ [PID {}] its ledger cannot be read, so its events and bytes are not shown: ", held.key.pid);
        let first = read();
        assert!(first.contains(&line) && first.lines().count() == 1, "{first}");
        assert_eq!(read(), "", "once");
    }
}
