//! The document of `ttmon run --report`.

#![allow(missing_docs, reason = "docs/run.md has the keys")]

use std::num::NonZeroU32;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use ttmon_model::event::{Refusal, Refused};
use ttmon_model::ledger::{BufferKind, BufferLayout, FeatureState, LedgerFeature, PeakGroup};
use ttmon_model::phase::{HostMemory, Phase, Point, Tightest, UnsafeTrace};
use ttmon_model::room::HeldByLine;
use ttmon_model::stack::SourceLine;
use ttmon_model::units::{Unit, UnixTime};
use ttmon_model::{DeviceId, Kind};

use crate::event::held_json;
use crate::phase::{host_json, phase_json, trace_json};
use crate::{line_json, refusal_json, rounded};

/// Version of this document. Keys are added, but never renamed.
const SCHEMA: u32 = 1;

/// Reasons for lost events, in the order of the ledger.
const LOST: [&str; 8] =
    ["reentry", "lock_timeout", "unknown_free", "ambiguous_free", "replaced", "size_out_of_range", "no_allocator", "no_memory"];

/// Number of buffers, and their bytes.
pub type Buffers = (u64, u64);

/// Use of device memory by a command.
#[derive(Clone, Debug)]
pub struct RunReport<'a> {
    pub version: &'a str,
    pub command: &'a [String],
    pub start: UnixTime,
    pub exit: Option<i32>,
    pub signal: Option<i32>,
    pub signal_name: Option<&'static str>,
    pub duration_s: f64,
    pub allocations: u64,
    pub is_exact: bool,
    pub unread_processes: u64,
    pub overhead: Option<RunOverhead>,
    /// The features of all processes.
    pub coverage: Vec<&'a LedgerFeature>,
    pub processes: Vec<RunProcess<'a>>,
    pub devices: Vec<RunDevice>,
    pub leaks: Vec<RunBuffer>,
    pub leaked: Buffers,
    pub cache: Vec<RunBuffer>,
    pub growth_bytes: Option<i64>,
    pub growth_by_line: Vec<(Option<Arc<SourceLine>>, u64)>,
    /// Refused requests in the order of time.
    pub refusals: Vec<RunRefusal>,
    /// The smallest values of the largest free blocks of banks.
    pub tightest: Vec<RunTightest>,
    /// Phases, with the pid of the process that named them.
    pub phases: Vec<(u32, &'a Phase)>,
    /// Traces that overwrite buffers, with the pid of their process.
    pub unsafe_traces: Vec<(u32, &'a UnsafeTrace)>,
    /// Host memory of the process with the highest peak.
    pub host_rss: Option<HostMemory>,
    /// Number of events that were overwritten before they were read.
    pub missed_events: u64,
}

/// The smallest value of the largest free block of a bank, on some chips.
#[derive(Clone, Debug)]
pub struct RunTightest {
    pub chips: Vec<RunChip>,
    pub kind: BufferKind,
    pub tightest: Tightest,
    pub time_s: f64,
}

/// The cost of recording.
#[derive(Clone, Copy, Debug)]
pub struct RunOverhead {
    pub calls: u64,
    pub measured_calls: u64,
    pub nanoseconds: u64,
    /// Share of the command's duration.
    pub ratio: f64,
}

/// A process with a ledger.
#[derive(Clone, Debug)]
pub struct RunProcess<'a> {
    pub pid: u32,
    pub name: &'a str,
    pub is_running: bool,
    pub is_exact: bool,
    pub is_mock: bool,
    pub events: u64,
    pub host_rss: Option<HostMemory>,
    /// Lost events by reason, in the order of the ledger.
    pub lost: [u64; LOST.len()],
}

/// A chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunChip {
    /// A device of this host.
    Device(DeviceId),
    /// The id that the program uses.
    Unmapped(u64),
}

/// The memory of a chip.
#[derive(Clone, Debug)]
pub struct RunDevice {
    pub chip: RunChip,
    pub kinds: Vec<RunKind>,
    pub leaked: Buffers,
    pub cached: Buffers,
}

/// One kind of memory of a chip.
#[derive(Clone, Debug)]
pub struct RunKind {
    pub kind: BufferKind,
    pub peak: u64,
    pub peak_allocated: Option<u64>,
    pub peak_time_s: f64,
    pub is_at_least: bool,
    pub capacity: Option<u64>,
    pub at_end: u64,
    pub groups: Vec<PeakGroup>,
}

/// A buffer that was not freed.
#[derive(Clone, Debug)]
pub struct RunBuffer {
    pub pid: u32,
    pub allocator: Option<String>,
    pub kind: BufferKind,
    pub address: u64,
    pub size: u64,
    pub per_bank: Option<NonZeroU32>,
    pub banks: Option<NonZeroU32>,
    pub page_size: Option<NonZeroU32>,
    pub layout: Option<BufferLayout>,
    pub cores: Option<NonZeroU32>,
    pub chips: Vec<RunChip>,
    pub refs: u32,
    pub age_s: f64,
    pub tag: Option<String>,
    pub operation: Option<String>,
    pub line: Option<Arc<SourceLine>>,
}

/// A refused request.
#[derive(Clone, Debug)]
pub struct RunRefusal {
    pub refusal: Refusal,
    /// The names of its chips.
    pub place: String,
    pub chips: Vec<RunChip>,
    pub time_s: f64,
    pub tag: Option<String>,
}

impl RunReport<'_> {
    /// Returns the document.
    pub fn json(&self) -> Value {
        let overhead = self.overhead.as_ref();
        let missing = if overhead.is_none() { json!({"overhead_ratio": "no_source", "overhead": "no_source"}) } else { json!({}) };
        let of = |what| self.refusals.iter().filter(move |refused| refused.refusal.what == what).map(refusal).collect::<Vec<_>>();
        json!({
            "schema": SCHEMA,
            "version": self.version,
            "command": self.command,
            "start_time": self.start.rfc3339(),
            "exit": self.exit,
            "signal": self.signal,
            "signal_name": self.signal_name,
            "duration_s": self.duration_s,
            "events": self.processes.iter().map(|process| process.events).fold(0, u64::saturating_add),
            "allocations": self.allocations,
            "lost": lost(self.processes.iter()),
            "exact": self.is_exact,
            "unread_processes": self.unread_processes,
            "overhead_ratio": overhead.map(|overhead| rounded(overhead.ratio, Unit::Ratio)),
            "overhead": overhead.map(|overhead| json!({
                "calls": overhead.calls,
                "measured_calls": overhead.measured_calls,
                "ns_per_call": overhead.nanoseconds / overhead.calls.max(1),
                "duration_s": overhead.nanoseconds as f64 / 1e9,
            })),
            "missing": missing,
            "coverage": coverage(&self.coverage),
            "processes": self.processes.iter().map(process).collect::<Vec<_>>(),
            "devices": self.devices.iter().map(device).collect::<Vec<_>>(),
            "peak_set": self.devices.iter().flat_map(peak_set).collect::<Vec<_>>(),
            "leaks": self.leaks.iter().map(buffer).collect::<Vec<_>>(),
            "leaked": count_and_bytes(self.leaked),
            "cache": self.cache.iter().map(buffer).collect::<Vec<_>>(),
            "growth_bytes": self.growth_bytes,
            "growth_by_line": self.growth_by_line.iter().map(growth).collect::<Vec<_>>(),
            "oom": of(Refused::OutOfMemory),
            "clashes": of(Refused::Clash),
            "by_line": self.by_line(),
            "smallest_largest_free": self.tightest.iter().map(tightest).collect::<Vec<_>>(),
            "phases": self.phases.iter().map(|(pid, phase)| phase_json(*pid, phase)).collect::<Vec<_>>(),
            "trace_unsafe": self.unsafe_traces.iter().map(|(pid, trace)| trace_json(*pid, trace)).collect::<Vec<_>>(),
            "host_rss": self.host_rss.map(host_json),
            "missed_events": self.missed_events,
        })
    }

    /// Returns the peaks of each chip and kind, grouped only by line.
    fn by_line(&self) -> Vec<Value> {
        let mut lists = Vec::new();
        for on_chip in &self.devices {
            for of_kind in &on_chip.kinds {
                let lines = HeldByLine::collect(of_kind.groups.iter().map(|group| (group.line.as_ref(), group.count, group.bytes)));
                if lines.iter().any(|held| held.line.is_some()) {
                    let kind = of_kind.kind.name();
                    lists.push(json!({"device": chip_name(on_chip.chip), "kind": kind, "lines": held_json(&lines)}));
                }
            }
        }
        lists
    }
}

fn growth((line, bytes): &(Option<Arc<SourceLine>>, u64)) -> Value {
    json!({"line": line_json(line.as_deref()), "bytes": bytes})
}

fn tightest(RunTightest { chips, kind, tightest, time_s }: &RunTightest) -> Value {
    json!({
        "kind": kind.name(),
        "bytes": tightest.bytes,
        "time_s": time_s,
        "at": tightest.at.name(),
        "phase": if let Point::Phase(name) = &tightest.at { Some(name) } else { None },
        "points": tightest.points,
        "devices": devices_of(chips),
        "unmapped": unmapped_of(chips),
    })
}

fn chip_name(chip: RunChip) -> Value {
    match chip {
        RunChip::Device(id) => id.0.into(),
        RunChip::Unmapped(id) => id.to_string().into(),
    }
}

fn count_and_bytes((count, bytes): Buffers) -> Value {
    json!({"count": count, "bytes": bytes})
}

fn lost<'a>(processes: impl Iterator<Item = &'a RunProcess<'a>>) -> Value {
    let mut sums = [0_u64; LOST.len()];
    for process in processes {
        for (sum, count) in sums.iter_mut().zip(process.lost) {
            *sum = sum.saturating_add(count);
        }
    }
    LOST.iter().zip(sums).map(|(name, count)| ((*name).to_owned(), Value::from(count))).collect::<Map<_, _>>().into()
}

fn process(tracked: &RunProcess<'_>) -> Value {
    json!({
        "pid": tracked.pid,
        "name": tracked.name,
        "running": tracked.is_running,
        "exact": tracked.is_exact,
        "mock": tracked.is_mock,
        "events": tracked.events,
        "host_rss": tracked.host_rss.map(host_json),
        "lost": lost(std::iter::once(tracked)),
    })
}

/// Returns the coverage of the hook over all processes. If the states differ, the worst is reported.
fn coverage(all: &[&LedgerFeature]) -> Value {
    let mut features: Map<String, Value> = Map::new();
    for feature in all {
        let state = feature.state.name();
        let known = features.entry(feature.name.clone()).or_insert_with(|| json!({"state": state, "hits": 0_u64, "reason": null}));
        let hits = known["hits"].as_u64().unwrap_or(0).saturating_add(feature.hits);
        known["hits"] = hits.into();
        let is_worse = known["state"] == FeatureState::Found.name() && feature.state != FeatureState::Found;
        if is_worse || known["reason"].is_null() && feature.reason.is_some() {
            known["state"] = state.into();
            known["reason"] = feature.reason.clone().into();
        }
    }
    features.into()
}

fn device(on_chip: &RunDevice) -> Value {
    // An id that the program uses may have more digits than a JSON number can represent.
    let mut document = match on_chip.chip {
        RunChip::Device(id) => json!({"id": id.0}),
        RunChip::Unmapped(id) => json!({"unmapped": id.to_string()}),
    };
    document["kinds"] = on_chip.kinds.iter().map(|of_kind| (of_kind.kind.name().to_owned(), kind(of_kind))).collect::<Map<_, _>>().into();
    document["leaked"] = count_and_bytes(on_chip.leaked);
    document["cached"] = count_and_bytes(on_chip.cached);
    document
}

fn kind(of_kind: &RunKind) -> Value {
    // Circular buffers appear and vanish with programs, so there is no common peak.
    let has_peak = !matches!(of_kind.kind, BufferKind::Of(Kind::Cb | Kind::Kernel));
    json!({
        "peak": has_peak.then_some(of_kind.peak),
        "peak_allocated": of_kind.peak_allocated.filter(|_| has_peak),
        "peak_time_s": (has_peak && of_kind.peak > 0).then_some(of_kind.peak_time_s),
        // Several processes or origins held memory at the same time. Each single peak is exact, but the peak of the sum is unknown.
        "peak_is_at_least": of_kind.is_at_least,
        "capacity": of_kind.capacity,
        "at_end": of_kind.at_end,
    })
}

fn peak_set(on_chip: &RunDevice) -> Vec<Value> {
    let name = chip_name(on_chip.chip);
    let groups = on_chip.kinds.iter().flat_map(|of_kind| of_kind.groups.iter().map(move |group| (of_kind.kind, group)));
    groups
        .map(|(kind, group)| {
            json!({
                "device": name,
                "kind": kind.name(),
                "tag": group.tag.as_deref(),
                "op": group.operation.as_deref(),
                "line": line_json(group.line.as_deref()),
                "bytes": group.bytes,
                "count": group.count,
            })
        })
        .collect()
}

fn buffer(buffer: &RunBuffer) -> Value {
    json!({
        "pid": buffer.pid,
        "allocator": buffer.allocator,
        "kind": buffer.kind.name(),
        "address": format!("{:#x}", buffer.address),
        "size": buffer.size,
        "per_bank": buffer.per_bank,
        "banks": buffer.banks,
        "page_size": buffer.page_size,
        "layout": buffer.layout.map(BufferLayout::name),
        "cores": buffer.cores,
        "devices": devices_of(&buffer.chips),
        "unmapped": unmapped_of(&buffer.chips),
        "refs": buffer.refs,
        "age_s": buffer.age_s,
        "tag": buffer.tag,
        "op": buffer.operation,
        "line": line_json(buffer.line.as_deref()),
    })
}

fn refusal(refused: &RunRefusal) -> Value {
    let mut document = refusal_json(&refused.refusal, &refused.place);
    document.insert("time_s".to_owned(), refused.time_s.into());
    document.insert("kind".to_owned(), refused.refusal.kind.name().into());
    document.insert("devices".to_owned(), devices_of(&refused.chips).into());
    document.insert("unmapped".to_owned(), unmapped_of(&refused.chips).into());
    document.insert("asked".to_owned(), refused.refusal.size.into());
    document.insert("tag".to_owned(), refused.tag.clone().into());
    document.insert("line".to_owned(), line_json(refused.refusal.line.as_deref()));
    document.into()
}

fn devices_of(chips: &[RunChip]) -> Vec<u32> {
    chips.iter().filter_map(|chip| if let RunChip::Device(id) = chip { Some(id.0) } else { None }).collect()
}

fn unmapped_of(chips: &[RunChip]) -> Vec<String> {
    chips.iter().filter_map(|chip| if let RunChip::Unmapped(id) = chip { Some(id.to_string()) } else { None }).collect()
}
