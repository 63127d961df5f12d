//! `ttmon events`: the flight recorders of tracked processes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::mem;
use std::thread;
use std::time::Duration;

use serde_json::json;
use ttmon_ledger::layout::{Op, Refused};
use ttmon_ledger::reader::{Event, Failure as Refusal, Recorded};
use ttmon_model::identity::ProcessKey;
use ttmon_model::ledger::BufferKind;
use ttmon_model::snapshot::Allocator;
use ttmon_model::units::UnixTime;
use ttmon_model::{DeviceId, Sample, Snapshot};
use ttmon_source::ledgers::{Detail, buffer_kind};
use ttmon_source::read::Pace;
use ttmon_source::{Departed, End, Reach};
use ttmon_wire::Layout;

use crate::cli::EventsArgs;
use crate::failure::Failure;
use crate::meant::Context;
use crate::mem::nothing_found;
use crate::open::Opened;
use crate::output::Output;
use crate::refusal;

/// How often a follower looks.
const INTERVAL: Duration = Duration::from_millis(100);
/// Text is written whenever there is this much of it.
const TEXT_BYTES: usize = 64 * 1024;

/// One ledger of one process: a program that takes over after `exec` has another.
type LedgerKey = (ProcessKey, (u64, u64));

/// What is known of a ledger from one look to the next.
#[derive(Default)]
struct Known {
    /// Number and time of the last event told.
    seen: u64,
    last: u64,
    /// Its allocators, for when the process is gone from the snapshot and its last events are told.
    allocators: Vec<Allocator>,
}

/// What one look found in one ledger.
struct Batch {
    key: LedgerKey,
    recorded: Recorded,
    /// What the last refused requests among them were about.
    failures: Vec<Refusal>,
    /// When and how the ledger's program went, if it has.
    end: Option<(u64, End)>,
}

/// Which devices were asked for.
struct Meant(Option<Vec<DeviceId>>);

/// Prints what the recorders have, and goes on if asked to.
pub(crate) fn run(context: &Context, args: &EventsArgs) -> Result<(), Failure> {
    let pace = if args.follow { Pace::Repeated } else { Pace::Once };
    let mut opened = Opened::with_ledgers(context, pace, true, Detail::Totals, args.pid.map_or(Reach::Everybody, Reach::Process))?;
    let mut known: BTreeMap<LedgerKey, Known> = BTreeMap::new();
    loop {
        let mut snapshot = opened.snapshot()?;
        let mut meant = Meant(None);
        if !context.selection.is_empty() {
            meant.0 = Some(snapshot.devices.iter().map(|device| device.id).collect());
            // An allocator's other devices are told too.
            snapshot = opened.sample().map_or(snapshot, |sample| Snapshot::derive(sample, None));
        }
        let batches = look(&opened, args, &snapshot, &mut known);
        if known.is_empty() && !args.follow {
            return Err(nothing_found(&snapshot, args.pid));
        }
        tell(context, &meant, &batches, &known)?;
        for batch in batches.iter().filter(|batch| batch.end.is_some()) {
            known.remove(&batch.key);
        }
        if !args.follow {
            return Ok(());
        }
        thread::sleep(INTERVAL);
    }
}

/// Reads what is new, of programs that have just gone for the last time.
fn look(opened: &Opened, args: &EventsArgs, snapshot: &Snapshot, known: &mut BTreeMap<LedgerKey, Known>) -> Vec<Batch> {
    let departed = opened.machine.departed().iter().map(|departed| (&departed.found, Some(departed)));
    let present = opened.machine.ledgers().iter().map(|found| (found, None));
    let wanted = departed.chain(present).filter(|(found, _)| args.pid.is_none_or(|pid| found.owner.pid == pid));
    wanted
        .filter_map(|(found, departed)| {
            let key = (found.owner, found.identity());
            let known = known.entry(key).or_default();
            let now = || snapshot.allocators.iter().filter(|allocator| allocator.process == found.owner).cloned().collect();
            // What a program opened after the last look and before its end is in its ledger alone.
            known.allocators = match departed {
                Some(departed) => last_allocators(opened, departed).unwrap_or(mem::take(&mut known.allocators)),
                None => now(),
            };
            let mut recorded = found.region.events(known.seen).ok().or(departed.map(|_| nothing(known.seen)))?;
            if departed.is_none() {
                leave_for_later(&mut recorded, &known.allocators, snapshot.time);
            }
            known.seen = recorded.next;
            known.last = recorded.events.last().map_or(known.last, |event| event.time);
            let end = departed.map(|departed| match departed.end {
                End::Exited => (known.last.max(snapshot.time.0), End::Exited),
                // Before all that the next program did.
                End::Replaced => (known.last, End::Replaced),
            });
            let has_failed = recorded.events.iter().any(|event| event.op == Op::Failed);
            let failures = if has_failed { found.region.failures().unwrap_or_default() } else { Vec::new() };
            Some(Batch { key, recorded, failures, end })
        })
        .collect()
}

/// The allocators of a program that went, from its ledger; `None` where that cannot be read any more.
fn last_allocators(opened: &Opened, departed: &Departed) -> Option<Vec<Allocator>> {
    departed.last.content.as_ref().ok()?;
    let sample = Sample { ledgers: vec![departed.last.clone()], ..opened.sample()?.clone() };
    Some(Snapshot::derive(&sample, None).allocators)
}

/// What happened since the snapshot may be about an allocator that it does not have: the next one will.
fn leave_for_later(recorded: &mut Recorded, allocators: &[Allocator], time: UnixTime) {
    let is_known = |event: &Event| event.time <= time.0 || allocators.iter().any(|allocator| allocator.slot == event.allocator);
    let is_placeless = |event: &Event| matches!(event.op, Op::Mark | Op::Repair | Op::Nothing);
    if let Some(first) = recorded.events.iter().position(|event| !is_known(event) && !is_placeless(event)) {
        recorded.next = recorded.events[first].number.saturating_sub(1);
        recorded.events.truncate(first);
    }
}

/// Of a ledger that can no longer be read.
fn nothing(seen: u64) -> Recorded {
    Recorded { events: Vec::new(), overrun: 0, next: seen, tags: Vec::new() }
}

/// Writes the batches as one, by time: each is in order already.
fn tell(context: &Context, meant: &Meant, batches: &[Batch], known: &BTreeMap<LedgerKey, Known>) -> Result<(), Failure> {
    let mut heads: BinaryHeap<Reverse<(u64, usize, usize)>> =
        batches.iter().enumerate().filter_map(|(index, batch)| Some(Reverse((batch.time(0)?, index, 0)))).collect();
    let mut text = String::new();
    while let Some(Reverse((_, index, position))) = heads.pop() {
        let batch = &batches[index];
        let allocators = known.get(&batch.key).map_or(&[][..], |known| &known.allocators);
        if let Some(line) = batch.line(position, context, meant, allocators) {
            text.push_str(&line);
            text.push('\n');
        }
        if text.len() >= TEXT_BYTES {
            Output::Stdout.write(text.as_bytes())?;
            text.clear();
        }
        heads.extend(batch.time(position + 1).map(|time| Reverse((time, index, position + 1))));
    }
    Output::Stdout.write(text.as_bytes())
}

/// One line's worth of a batch.
enum Item<'a> {
    Overrun(u64),
    Event(&'a Event),
    End(End),
}

impl Batch {
    /// First what is no longer there, then the events, then the end.
    fn item(&self, position: usize) -> Option<Item<'_>> {
        let events = &self.recorded.events;
        let Some(position) = position.checked_sub(usize::from(self.recorded.overrun > 0)) else {
            return Some(Item::Overrun(self.recorded.overrun));
        };
        match events.get(position) {
            Some(event) => Some(Item::Event(event)),
            None if position == events.len() => self.end.map(|(_, end)| Item::End(end)),
            None => None,
        }
    }

    fn ended(&self) -> Option<u64> {
        self.end.map(|(time, _)| time)
    }

    fn time(&self, position: usize) -> Option<u64> {
        let first = || self.recorded.events.first().map(|event| event.time);
        Some(match self.item(position)? {
            Item::Overrun(_) => first().or(self.ended()).unwrap_or_default(),
            Item::Event(event) => event.time,
            Item::End(_) => self.ended().unwrap_or_default(),
        })
    }

    fn line(&self, position: usize, context: &Context, meant: &Meant, allocators: &[Allocator]) -> Option<String> {
        let pid = self.key.0.pid;
        let time = || self.time(position).filter(|time| *time > 0).map(|time| UnixTime(time).rfc3339());
        let has_any_meant = || meant.0.is_none() || allocators.iter().any(|allocator| meant.includes(allocator));
        match self.item(position)? {
            Item::Overrun(_) | Item::End(_) if !has_any_meant() => None,
            Item::Overrun(count) if context.json => Some(line(&json!({"time": time(), "pid": pid, "op": "overrun", "count": count}))),
            Item::Overrun(1) => Some(format!("! [PID {pid}] 1 earlier event is no longer in the recorder")),
            Item::Overrun(count) => Some(format!("! [PID {pid}] {count} earlier events are no longer in the recorder")),
            Item::End(end) if context.json => Some(line(&json!({
                "time": time(), "pid": pid, "op": if end == End::Exited { "exit" } else { "exec" }, "kind": null, "devices": [], "allocator": null, "address": null, "size": null,
                "refs": null, "tag": null,
            }))),
            Item::End(End::Exited) => Some(format!("= [PID {pid}] Exited")),
            Item::End(End::Replaced) => Some(format!("= [PID {pid}] Became another program")),
            Item::Event(event) => {
                let allocator = allocators.iter().rfind(|allocator| allocator.slot == event.allocator && event.op != Op::Mark);
                let is_meant = match allocator {
                    Some(allocator) => meant.includes(allocator),
                    None => has_any_meant(),
                };
                let tags = &self.recorded.tags;
                let tag = usize::try_from(event.tag).ok().filter(|tag| *tag > 0).and_then(|tag| tags.get(tag)).map(String::as_str);
                let failure = self.failures.iter().find(|failure| event.op == Op::Failed && failure.event == event.number);
                let described = Described { pid, event, allocator, tag, kind: buffer_kind(event.kind), failure };
                let text = || if context.json { described.json() } else { described.text(context.terminal.ascii) };
                is_meant.then(text).flatten()
            }
        }
    }
}

impl Meant {
    /// Whether an allocator has a device asked for.
    fn includes(&self, allocator: &Allocator) -> bool {
        self.0.as_ref().is_none_or(|meant| allocator.devices.iter().any(|device| meant.contains(device)))
    }
}

/// A document in a stream of them.
fn line(document: &serde_json::Value) -> String {
    ttmon_wire::to_string(document, Layout::Line)
}

/// An event with what its numbers mean.
struct Described<'a> {
    pid: u32,
    event: &'a Event,
    allocator: Option<&'a Allocator>,
    tag: Option<&'a str>,
    kind: BufferKind,
    /// What stood in the way, of the last that were refused.
    failure: Option<&'a Refusal>,
}

impl Described<'_> {
    fn op(&self) -> Option<&'static str> {
        Some(match self.event.op {
            Op::Alloc | Op::UnlistedAlloc | Op::AddCircular => "alloc",
            Op::Free | Op::UnlistedFree | Op::RemoveProgram => "free",
            Op::Ref | Op::Unref => "ref",
            Op::FreeAll => "free_all",
            Op::Failed if self.is_clash() => "clash",
            Op::Failed => "oom",
            Op::Open => "open",
            Op::Close => "close",
            Op::Mark => "mark",
            Op::Repair | Op::Nothing | Op::Geometry => return None,
        })
    }

    fn is_clash(&self) -> bool {
        self.event.slot == u32::from(Refused::Clash as u8)
    }

    fn json(&self) -> Option<String> {
        let devices: Vec<u32> = self.allocator.map_or(Vec::new(), |allocator| allocator.devices.iter().map(|id| id.0).collect());
        let refs = matches!(self.event.op, Op::Ref | Op::Unref).then_some(self.event.refs);
        let is_of_buffer = !matches!(self.event.op, Op::Open | Op::Close | Op::Mark);
        let mut document = json!({
            "time": (self.event.time > 0).then(|| UnixTime(self.event.time).rfc3339()),
            "pid": self.pid,
            "op": self.op()?,
            "kind": is_of_buffer.then(|| self.kind.name()),
            "devices": devices,
            "allocator": self.allocator.map(|allocator| allocator.id.as_str()),
            "address": is_of_buffer.then(|| format!("{:#x}", self.event.address)),
            "size": is_of_buffer.then_some(self.event.size),
            "refs": refs,
            "tag": self.tag,
        });
        // As text, as everywhere: such an id may have more digits than a JSON number keeps.
        let unmapped: Vec<String> = self.allocator.map_or(Vec::new(), |allocator| allocator.unmapped.iter().map(u64::to_string).collect());
        if !unmapped.is_empty() {
            document["unmapped"] = unmapped.into();
        }
        if let (Some(failure), Some(document)) = (self.failure, document.as_object_mut()) {
            document.extend(refusal::figures(failure, &self.place()));
        }
        Some(line(&document))
    }

    /// The reference server's words, with the kind and the tag it left out of frees.
    fn text(&self, ascii: bool) -> Option<String> {
        let (pid, event) = (self.pid, self.event);
        let (good, bad) = if ascii { ("+", "-") } else { ("✓", "✗") };
        let kind = self.kind.name().to_uppercase();
        let place = self.place();
        let tag = self.tag.map_or(String::new(), |tag| format!(" tag {tag:?}"));
        if let Some(failure) = self.failure {
            let what = if self.is_clash() { "Clash" } else { "Out of memory" };
            return Some(format!("! [PID {pid}] {what}: {}{tag}", refusal::words(failure, &place)));
        }
        Some(match event.op {
            Op::Alloc | Op::UnlistedAlloc => {
                format!("{good} [PID {pid}] Allocated {} bytes of {kind} on {place} (buffer_id={:#x}){tag}", event.size, event.address)
            }
            Op::Free | Op::UnlistedFree => {
                format!("{bad} [PID {pid}] Freed buffer {:#x} on {place} ({} bytes of {kind}, FINAL){tag}", event.address, event.size)
            }
            Op::Ref => format!(
                "{good} [PID {pid}] Buffer {:#x} on {place} now has {} references ({} bytes of {kind}){tag}",
                event.address, event.refs, event.size
            ),
            Op::Unref => format!(
                "{bad} [PID {pid}] Freed buffer {:#x} on {place} ({} bytes of {kind}, {} references left){tag}",
                event.address, event.size, event.refs
            ),
            Op::AddCircular => {
                format!("{good} [PID {pid}] Program {} has {} bytes of {kind} at {:#x} on {place}", event.page, event.size, event.address)
            }
            Op::RemoveProgram => format!("{bad} [PID {pid}] Program {} gave up {} bytes of {kind} on {place}", event.page, event.size),
            Op::FreeAll => format!("{bad} [PID {pid}] Freed all {kind} on {place}"),
            Op::Failed if self.is_clash() => format!("! [PID {pid}] Circular buffers clash with {kind} buffers on {place}"),
            Op::Failed => format!("! [PID {pid}] Out of memory: {} bytes of {kind} on {place}", event.size),
            Op::Open => format!("{good} [PID {pid}] Opened {place}"),
            Op::Close => format!("{bad} [PID {pid}] Closed {place}"),
            Op::Mark => format!("= [PID {pid}] Mark"),
            Op::Repair | Op::Nothing | Op::Geometry => return None,
        })
    }

    fn place(&self) -> String {
        let Some(allocator) = self.allocator else { return "an unknown device".to_owned() };
        match (allocator.devices.as_slice(), allocator.unmapped.as_slice()) {
            ([only], []) => format!("device {only}"),
            ([], [only]) => format!("chip {only} (on no device here)"),
            ([], _) => "chips on no device here".to_owned(),
            (devices, _) => format!("devices {}", devices.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")),
        }
    }
}
