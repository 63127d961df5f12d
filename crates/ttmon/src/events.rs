//! `ttmon events`: the flight recorders of tracked processes.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use ttmon_ledger::layout::Op;
use ttmon_ledger::reader::Event;
use ttmon_model::Snapshot;
use ttmon_model::identity::ProcessKey;
use ttmon_model::ledger::BufferKind;
use ttmon_model::snapshot::Allocator;
use ttmon_model::units::UnixTime;
use ttmon_source::Reach;
use ttmon_source::ledgers::{Detail, Found, buffer_kind};
use ttmon_source::read::Pace;

use crate::cli::EventsArgs;
use crate::failure::Failure;
use crate::meant::Context;
use crate::open::Opened;
use crate::output::Output;

/// How often a follower looks.
const INTERVAL: Duration = Duration::from_millis(100);

/// One line to print, with what orders it.
struct Line {
    time: u64,
    text: String,
}

/// Prints what the recorders have, and goes on if asked to.
pub(crate) fn run(context: &Context, args: &EventsArgs) -> Result<(), Failure> {
    let pace = if args.follow { Pace::Repeated } else { Pace::Once };
    let mut opened = Opened::with_ledgers(context, pace, true, Detail::Totals, Reach::Everybody)?;
    let mut seen: BTreeMap<ProcessKey, u64> = BTreeMap::new();
    let mut has_any = false;
    loop {
        let snapshot = opened.snapshot()?;
        let mut lines = Vec::new();
        for found in opened.machine.ledgers().iter().filter(|found| args.pid.is_none_or(|pid| found.owner.pid == pid)) {
            has_any = true;
            take(context, &snapshot, found, seen.entry(found.owner).or_default(), &mut lines);
        }
        if !has_any && !args.follow {
            return Err(Failure::no_device("no tracked process found; start programs with TTMON_TRACKING=1, or try --sim t3k"));
        }
        lines.sort_by_key(|line| line.time);
        let text: String = lines.into_iter().map(|line| line.text + "\n").collect();
        Output::Stdout.write(text.as_bytes())?;
        if !args.follow {
            return Ok(());
        }
        thread::sleep(INTERVAL);
    }
}

fn take(context: &Context, snapshot: &Snapshot, found: &Found, seen: &mut u64, lines: &mut Vec<Line>) {
    let Ok(recorded) = found.region.events(*seen) else { return };
    let pid = found.owner.pid;
    *seen = recorded.next;
    let first = recorded.events.first().map_or(snapshot.time.0, |event| event.time);
    if recorded.overrun > 0 {
        let count = recorded.overrun;
        let text = if context.json {
            json!({"time": UnixTime(first).rfc3339(), "pid": pid, "op": "overrun", "count": count}).to_string()
        } else {
            format!("! [PID {pid}] {count} earlier events were overrun: the recorder keeps the last 65,536")
        };
        lines.push(Line { time: first, text });
    }
    for event in &recorded.events {
        let allocator = snapshot.allocators.iter().rfind(|allocator| allocator.process == found.owner && allocator.slot == event.allocator);
        let tag = usize::try_from(event.tag).ok().filter(|tag| *tag > 0).and_then(|tag| recorded.tags.get(tag)).map(String::as_str);
        let described = Described { pid, event, allocator, tag, kind: buffer_kind(event.kind) };
        let text = if context.json { described.json() } else { described.text(context.terminal.ascii) };
        lines.extend(text.map(|text| Line { time: event.time, text }));
    }
}

/// An event with what its numbers mean.
struct Described<'a> {
    pid: u32,
    event: &'a Event,
    allocator: Option<&'a Allocator>,
    tag: Option<&'a str>,
    kind: BufferKind,
}

impl Described<'_> {
    fn op(&self) -> Option<&'static str> {
        Some(match self.event.op {
            Op::Alloc | Op::UnlistedAlloc => "alloc",
            Op::Free | Op::UnlistedFree => "free",
            Op::Ref | Op::Unref => "ref",
            Op::FreeAll => "free_all",
            Op::Failed => "oom",
            Op::Open => "open",
            Op::Close => "close",
            Op::Mark => "mark",
            Op::Repair => return None,
        })
    }

    fn json(&self) -> Option<String> {
        let devices: Vec<u32> = self.allocator.map_or(Vec::new(), |allocator| allocator.devices.iter().map(|id| id.0).collect());
        let refs = matches!(self.event.op, Op::Ref | Op::Unref).then_some(self.event.refs);
        let document: Value = json!({
            "time": UnixTime(self.event.time).rfc3339(),
            "pid": self.pid,
            "op": self.op()?,
            "kind": self.kind.name(),
            "devices": devices,
            "allocator": self.allocator.map(|allocator| allocator.id.as_str()),
            "address": format!("{:#x}", self.event.address),
            "size": self.event.size,
            "refs": refs,
            "tag": self.tag,
        });
        Some(document.to_string())
    }

    /// The reference server's words, with the kind and the tag it left out of frees.
    fn text(&self, ascii: bool) -> Option<String> {
        let (pid, event) = (self.pid, self.event);
        let (good, bad) = if ascii { ("+", "-") } else { ("✓", "✗") };
        let kind = self.kind.name().to_uppercase();
        let place = self.place();
        let tag = self.tag.map_or(String::new(), |tag| format!(" tag {tag:?}"));
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
            Op::FreeAll => format!("{bad} [PID {pid}] Freed all {kind} on {place}"),
            Op::Failed => format!("! [PID {pid}] Out of memory: {} bytes of {kind} on {place}", event.size),
            Op::Open => format!("{good} [PID {pid}] Opened {place}"),
            Op::Close => format!("{bad} [PID {pid}] Closed {place}"),
            Op::Mark => format!("= [PID {pid}] Mark"),
            Op::Repair => return None,
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
