//! Reads the flight recorders of all ledgers. Returns the new events of all processes as model events, ordered by time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::mem;
use std::sync::Arc;

use ttmon_collect::ledgers::OpenLedger;
use ttmon_collect::{Departed, End};
use ttmon_ledger_reader::{Event as Record, EventCursor, Lines, NewEvents, Op as RecordOp};
use ttmon_model::event::{BufferEvent, Op, Refusal, Refused};
use ttmon_model::identity::ProcessKey;
use ttmon_model::ledger::LedgerRefusal;
use ttmon_model::snapshot::Allocator;
use ttmon_model::units::UnixTime;
use ttmon_model::{DeviceId, Sample, Snapshot};

use crate::history::History;

/// Maximum number of events per ledger in one frame of a screen or a recording.
const NEWEST_MAX: usize = 50;

/// Identifies a ledger of a process. A program that was started by `exec` has another ledger.
type LedgerKey = (ProcessKey, (u64, u64));

/// Stores the read position in each ledger's recorder.
#[derive(Debug, Default)]
pub struct Recorder {
    known: BTreeMap<LedgerKey, FollowedLedger>,
}

#[derive(Debug, Default)]
struct FollowedLedger {
    cursor: EventCursor,
    /// Stored for the last events of a process that has left the snapshot.
    allocators: Vec<Allocator>,
    /// Whether the end of the program was returned.
    is_over: bool,
}

/// The input of one read.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The newest sample.
    pub sample: &'a Sample,
    /// The snapshot of that sample, with all devices.
    pub snapshot: &'a Snapshot,
    /// Ledgers of live processes.
    pub present: &'a [Arc<OpenLedger>],
    /// Ledgers of ended processes.
    pub departed: &'a [Arc<Departed>],
    /// If set, reads only this process. Only in this case is a process included that ended before the first read.
    pub pid: Option<u32>,
    /// Maximum number of events to return. Each ledger gets an equal share. Its oldest events beyond that count as overrun.
    pub most: usize,
}

/// The new events of each ledger.
#[derive(Debug)]
pub struct News(Vec<Batch>);

#[derive(Debug)]
struct Batch {
    pid: u32,
    allocators: Vec<Allocator>,
    new: NewEvents,
    /// Details of the last refused requests among the events.
    refusals: Vec<LedgerRefusal>,
    /// The live buffers at the refusals, if only one process is read.
    history: Option<History>,
    lines: Arc<Lines>,
    /// When and how the program ended, if it has ended.
    end: Option<(u64, End)>,
}

impl Recorder {
    /// Returns whether no ledger is followed.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Returns the number of followed ledgers.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Returns whether a ledger was read before.
    pub fn has(&self, found: &OpenLedger) -> bool {
        self.known.contains_key(&key_of(found))
    }

    /// Reads the new events. A program that has just ended is read for the last time.
    pub fn read_new(&mut self, scene: &Scene<'_>) -> News {
        let departed = scene.departed.iter().map(|departed| (&departed.found, Some(departed)));
        let present = scene.present.iter().map(|found| (found, None));
        let all: Vec<(&Arc<OpenLedger>, Option<&Arc<Departed>>)> = departed.chain(present).collect();
        // Ledgers that are gone are dropped, so that memory stays bounded.
        let is_here = |key: &LedgerKey| all.iter().any(|(found, _)| key_of(found) == *key);
        self.known.retain(|key, known| !known.is_over || is_here(key));
        let is_wanted = |(found, _): &&(&Arc<OpenLedger>, Option<&Arc<Departed>>)| scene.pid.is_none_or(|pid| found.owner.pid == pid);
        let part = scene.most / all.iter().filter(is_wanted).count().max(1);
        let wanted = all.iter().filter(is_wanted);
        News(wanted.filter_map(|(found, departed)| self.read_new_of(scene, found, departed.map(AsRef::as_ref), part)).collect())
    }

    /// Reads the last few new events of each ledger, for a screen or a recording. If `devices` is not empty, returns only their events.
    pub fn newest(&mut self, scene: &Scene<'_>, devices: &[DeviceId]) -> Vec<BufferEvent> {
        let mut news = self.read_new(scene);
        for Batch { new, .. } in &mut news.0 {
            new.events.drain(..new.events.len().saturating_sub(NEWEST_MAX));
        }
        news.events(devices).collect()
    }

    fn read_new_of(&mut self, scene: &Scene<'_>, found: &OpenLedger, departed: Option<&Departed>, most: usize) -> Option<Batch> {
        let key = key_of(found);
        if departed.is_some() && scene.pid.is_none() && !self.known.contains_key(&key) {
            return None;
        }
        let known = self.known.entry(key).or_default();
        if known.is_over {
            return None;
        }
        let of_owner = |allocator: &&Allocator| allocator.process == found.owner;
        // Allocators that were opened after the last read are only in the ledger.
        known.allocators = match departed {
            Some(departed) => last_allocators(scene.sample, departed).unwrap_or(mem::take(&mut known.allocators)),
            None => scene.snapshot.allocators.iter().filter(of_owner).cloned().collect(),
        };
        // Events of allocators that the snapshot does not have yet are read later.
        let is_later = |event: &Record| departed.is_none() && is_of_unknown(event, &known.allocators, scene.sample.time);
        let new = match known.cursor.read(&found.region, is_later, most) {
            Ok(new) => new,
            // The snapshot has the reason of an unreadable ledger. After the end of its program, only the end is reported.
            Err(_) if departed.is_some() => NewEvents::default(),
            Err(_) => return None,
        };
        known.is_over = departed.is_some();
        let last = known.cursor.last_time();
        let end = departed.map(|departed| match departed.end {
            End::Exited => (last.max(departed.time.0), End::Exited),
            // The exec is sorted before the events of the next program.
            End::Replaced => (last, End::Replaced),
        });
        let refusals = known.cursor.refusals(&found.region, &new);
        // This reads the whole ledger, so it is done only if one process is requested. Without it, a refusal has fewer details.
        let has_refused = scene.pid.is_some() && new.events.iter().any(|event| event.op == RecordOp::Failed);
        let history = if has_refused { History::of(&found.region).ok() } else { None };
        let lines = if new.events.is_empty() { Arc::default() } else { known.cursor.lines(&found.region) };
        Some(Batch { pid: found.owner.pid, allocators: known.allocators.clone(), new, refusals, history, lines, end })
    }
}

fn key_of(found: &OpenLedger) -> LedgerKey {
    (found.owner, found.identity())
}

/// Returns the allocators of an ended program from its ledger, or `None` if the ledger cannot be read.
fn last_allocators(sample: &Sample, departed: &Departed) -> Option<Vec<Allocator>> {
    departed.last.content.as_ref().ok()?;
    let sample = Sample { ledgers: vec![departed.last.clone()], ..sample.clone() };
    Some(Snapshot::derive(&sample, None).allocators)
}

/// Returns whether an event belongs to an allocator that was opened after the snapshot.
fn is_of_unknown(event: &Record, allocators: &[Allocator], time: UnixTime) -> bool {
    let has_no_allocator =
        matches!(event.op, RecordOp::Mark | RecordOp::Repair | RecordOp::Nothing | RecordOp::PhaseBegin | RecordOp::PhaseEnd);
    !has_no_allocator && event.time > time.0 && !allocators.iter().any(|allocator| allocator.slot == event.allocator)
}

impl News {
    /// Iterates by time over all events, or those of `devices` if it is not empty. It is lazy, because there may be millions of events.
    pub fn events<'a>(&'a self, devices: &'a [DeviceId]) -> impl Iterator<Item = BufferEvent> + 'a {
        // Each batch is already sorted.
        let heads = self.0.iter().enumerate().filter_map(|(index, batch)| Some(Reverse((batch.time(0)?, index, 0))));
        let mut heads: BinaryHeap<Reverse<(u64, usize, usize)>> = heads.collect();
        let next = move || {
            let Reverse((_, index, position)) = heads.pop()?;
            let batch = &self.0[index];
            heads.extend(batch.time(position + 1).map(|time| Reverse((time, index, position + 1))));
            Some(batch.event(position, devices))
        };
        std::iter::from_fn(next).flatten()
    }
}

enum Item<'a> {
    Overrun,
    Record(&'a Record),
    End(End),
}

impl Batch {
    /// Returns an item of the batch: first the overrun, then the events, then the end.
    fn item(&self, position: usize) -> Option<Item<'_>> {
        let events = &self.new.events;
        let Some(position) = position.checked_sub(usize::from(self.new.overrun > 0)) else {
            return Some(Item::Overrun);
        };
        match events.get(position) {
            Some(event) => Some(Item::Record(event)),
            None if position == events.len() => self.end.map(|(_, end)| Item::End(end)),
            None => None,
        }
    }

    fn time(&self, position: usize) -> Option<u64> {
        let first = || self.new.events.first().map(|event| event.time);
        let ended = self.end.map(|(time, _)| time);
        Some(match self.item(position)? {
            // A batch with an overrun or an end has at least one of these times.
            Item::Overrun => first().or(ended).unwrap_or_default(),
            Item::Record(event) => event.time,
            Item::End(_) => ended.unwrap_or_default(),
        })
    }

    fn event(&self, position: usize, devices: &[DeviceId]) -> Option<BufferEvent> {
        let (op, record) = match self.item(position)? {
            Item::Overrun => (Op::Overrun, None),
            Item::End(End::Exited) => (Op::Exit, None),
            Item::End(End::Replaced) => (Op::Exec, None),
            Item::Record(record) => (op(record)?, Some(record)),
        };
        let of_allocator = record.filter(|record| record.op != RecordOp::Mark);
        let allocator = of_allocator.and_then(|record| self.allocators.iter().rfind(|allocator| allocator.slot == record.allocator));
        // An event of no allocator is shown if any allocator of the process is on the devices.
        let is_on = |allocator: &Allocator| devices.is_empty() || allocator.devices.iter().any(|device| devices.contains(device));
        if !allocator.map_or_else(|| devices.is_empty() || self.allocators.iter().any(is_on), is_on) {
            return None;
        }
        let of_buffer = record.filter(|_| !matches!(op, Op::Open | Op::Close | Op::Mark));
        // A refused request and a free-all have no address.
        let with_address = of_buffer.filter(|_| !matches!(op, Op::OutOfMemory | Op::Clash | Op::FreeAll));
        let of_program = record.filter(|record| matches!(record.op, RecordOp::AddCircular | RecordOp::RemoveProgram));
        Some(BufferEvent {
            time: self.time(position).filter(|time| *time > 0).map(UnixTime),
            pid: self.pid,
            number: record.map(|record| record.number),
            op,
            kind: of_buffer.map(|record| record.kind),
            allocator: allocator.map(|allocator| allocator.id.clone()),
            devices: allocator.map_or_else(Vec::new, |allocator| allocator.devices.clone()),
            unmapped: allocator.map_or_else(Vec::new, |allocator| allocator.unmapped.clone()),
            address: with_address.map(|record| record.address),
            size: of_buffer.map(|record| record.size),
            refs: of_buffer.filter(|_| matches!(op, Op::Ref | Op::Unref)).map(|record| record.refs.into()),
            program: of_program.map(|record| record.page.into()),
            tag: record.and_then(|record| self.new.tags.get(record.tag)).map(|tag| tag.as_str().to_owned()),
            overrun: (op == Op::Overrun).then_some(self.new.overrun),
            refusal: record.and_then(|record| self.refusal(record)),
            line: record.and_then(|record| self.lines.line(record.stack).cloned()),
        })
    }

    fn refusal(&self, record: &Record) -> Option<Refusal> {
        let is_it = |refused: &&LedgerRefusal| record.op == RecordOp::Failed && refused.event == record.number;
        let refusal = self.refusals.iter().find(is_it)?.refusal.clone();
        Some(match &self.history {
            Some(history) => history.complete(record.number, refusal),
            None => refusal,
        })
    }
}

/// Returns the operation of a record, or `None` for a record that only the ledger needs.
fn op(record: &Record) -> Option<Op> {
    Some(match record.op {
        RecordOp::Alloc | RecordOp::UnlistedAlloc | RecordOp::AddCircular => Op::Alloc,
        RecordOp::Free | RecordOp::UnlistedFree | RecordOp::RemoveProgram => Op::Free,
        RecordOp::Ref => Op::Ref,
        RecordOp::Unref => Op::Unref,
        RecordOp::FreeAll => Op::FreeAll,
        RecordOp::Failed if record.refused() == Some(Refused::Clash) => Op::Clash,
        RecordOp::Failed => Op::OutOfMemory,
        RecordOp::Open => Op::Open,
        RecordOp::Close => Op::Close,
        RecordOp::Mark => Op::Mark,
        RecordOp::Repair | RecordOp::Nothing | RecordOp::PhaseBegin | RecordOp::PhaseEnd => return None,
        RecordOp::TraceBegin | RecordOp::TraceEnd | RecordOp::TraceReplay | RecordOp::TraceRelease => return None,
    })
}
