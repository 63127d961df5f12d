//! The document of `ttmon run --report`, made from a summary of the run. docs/run.md has the keys.

use serde_json::{Map, Value, json};
use ttmon_json::{held_json, line_json, refusal_json, rounded};
use ttmon_model::event::Refused;
use ttmon_model::ledger::{BufferKind, BufferLayout, FeatureState, HookFeature, LedgerRefusal, PeakGroup};
use ttmon_model::memory::Kind;
use ttmon_model::phase::{Growth, HostMemory, PHASE_KINDS, Phase, Point, Tightest, UnsafeTrace};
use ttmon_model::room::HeldByLine;
use ttmon_model::units::{Unit, UnixTime};

use crate::chips::ChipName;
use crate::ledger_summary::LedgerSummary;
use crate::run_summary::{CommandEnd, Leftover, Overhead, RunSummary};
use crate::usage::{ChipUsage, KindUsage};

/// Version of this document. Keys are added, but never renamed.
const SCHEMA: u32 = 1;

/// Reasons for lost events, in the order of the ledger.
const LOST: [&str; 8] =
    ["reentry", "lock_timeout", "unknown_free", "ambiguous_free", "replaced", "size_out_of_range", "no_allocator", "no_memory"];

impl RunSummary {
    /// Returns the document. `name_of_signal` returns the name of a signal.
    pub fn report(&self, version: &str, name_of_signal: impl Fn(i32) -> Option<&'static str>) -> Value {
        let (exit, signal) = match self.end {
            CommandEnd::Exit(code) => (Some(code), None),
            CommandEnd::Signal(signal) => (None, Some(signal)),
        };
        let overhead = self.overhead();
        let missing = if overhead.is_none() { json!({"overhead_ratio": "no_source", "overhead": "no_source"}) } else { json!({}) };
        let refusals = self.refusals();
        let refused = |what| {
            let of_type = refusals.iter().filter(|(refused, _)| refused.refusal.what == what);
            of_type.map(|(refused, chips)| self.refusal(refused, chips)).collect::<Vec<_>>()
        };
        let left = |is_cached| self.left(is_cached).iter().map(|leftover| self.buffer(leftover)).collect::<Vec<_>>();
        let growth_by_line = self.growth_by_line();
        json!({
            "schema": SCHEMA,
            "version": version,
            "command": self.command,
            "start_time": UnixTime(self.span.0).rfc3339(),
            "exit": exit,
            "signal": signal,
            "signal_name": signal.and_then(name_of_signal),
            "duration_s": self.seconds(self.span.1),
            "events": self.summaries.iter().map(|summary| summary.ledger.events).fold(0, u64::saturating_add),
            "allocations": self.allocations(),
            "lost": lost(&self.summaries),
            "exact": self.why_inexact().is_none(),
            "unread_processes": self.unread,
            "overhead_ratio": overhead.map(|overhead| rounded(overhead.ratio, Unit::Ratio)),
            "overhead": overhead.map(overhead_json),
            "missing": missing,
            "coverage": coverage(self.summaries.iter().flat_map(|summary| &summary.ledger.coverage)),
            "processes": self.summaries.iter().map(process).collect::<Vec<_>>(),
            "devices": self.chips.iter().map(|(name, chip)| self.device(*name, chip)).collect::<Vec<_>>(),
            "peak_set": self.chips.iter().flat_map(|(name, chip)| peak_set(*name, chip)).collect::<Vec<_>>(),
            "leaks": left(false),
            "leaked": count_and_bytes(self.leaked()),
            "cache": left(true),
            "growth_bytes": self.growth(),
            "growth_by_line":
                growth_by_line.iter().map(|(line, bytes)| json!({"line": line_json(line.as_deref()), "bytes": bytes})).collect::<Vec<_>>(),
            "oom": refused(Refused::OutOfMemory),
            "clashes": refused(Refused::Clash),
            "by_line": self.by_line(),
            "smallest_largest_free":
                self.tightest().into_iter().map(|(kind, tightest, chips)| self.tight(kind, tightest, chips)).collect::<Vec<_>>(),
            "phases": self.of_each(|summary| &summary.phases, phase_json),
            "trace_unsafe": self.of_each(|summary| &summary.unsafe_traces, trace_json),
            "host_rss": self.host_rss().map(host_json),
            "missed_events": self.summaries.iter().map(|summary| summary.missed).fold(0, u64::saturating_add),
        })
    }

    /// Returns the documents of all items of all processes.
    fn of_each<'a, T: 'a>(&'a self, items: impl Fn(&'a LedgerSummary) -> &'a Vec<T>, document: impl Fn(u32, &T) -> Value) -> Vec<Value> {
        self.summaries
            .iter()
            .flat_map(|summary| items(summary).iter().map(|item| document(summary.pid, item)).collect::<Vec<_>>())
            .collect()
    }

    fn device(&self, name: ChipName, chip: &ChipUsage) -> Value {
        let key = if let ChipName::Device(_) = name { "id" } else { "unmapped" };
        json!({
            key: chip_json(name),
            "kinds": chip.kinds.iter().map(|(kind, usage)| (kind.name().to_owned(), self.kind(*kind, usage))).collect::<Map<_, _>>(),
            "leaked": count_and_bytes(chip.leaked),
            "cached": count_and_bytes(chip.cached),
        })
    }

    fn kind(&self, kind: BufferKind, usage: &KindUsage) -> Value {
        // Circular buffers appear and vanish with programs, so there is no common peak.
        let has_peak = !matches!(kind, BufferKind::Of(Kind::Cb | Kind::Kernel));
        json!({
            "peak": has_peak.then_some(usage.peak),
            "peak_allocated": usage.peak_allocated.filter(|_| has_peak),
            "peak_time_s": (has_peak && usage.peak > 0).then(|| self.seconds(usage.peak_time)),
            // Several processes or origins held memory at the same time. Each single peak is exact, but the peak of the sum is unknown.
            "peak_is_at_least": usage.is_at_least,
            "capacity": usage.limit(),
            "at_end": usage.at_end,
        })
    }

    /// Returns the peaks of each chip and kind, grouped only by line.
    fn by_line(&self) -> Vec<Value> {
        let mut lists = Vec::new();
        for (name, chip) in &self.chips {
            for (kind, usage) in &chip.kinds {
                let lines = HeldByLine::collect(usage.groups.iter().map(|group| (group.line.as_ref(), group.count, group.bytes)));
                if lines.iter().any(|held| held.line.is_some()) {
                    lists.push(json!({"device": chip_json(*name), "kind": kind.name(), "lines": held_json(&lines)}));
                }
            }
        }
        lists
    }

    fn buffer(&self, Leftover { summary, left, chips }: &Leftover<'_>) -> Value {
        let allocator = summary.ledger.allocators.get(usize::from(left.allocator));
        let banks = allocator.and_then(|allocator| allocator.geometry_of(left.kind)).map(|geometry| geometry.banks);
        json!({
            "pid": summary.pid,
            "allocator": allocator.map(|allocator| format!("{}.{}.{}", summary.pid, allocator.slot, allocator.generation)),
            "kind": left.kind.name(),
            "address": format!("{:#x}", left.address),
            "size": left.size,
            "per_bank": left.per_bank,
            "banks": banks.filter(|banks| *banks > 0),
            "page_size": left.page_size,
            "layout": left.layout.map(BufferLayout::name),
            "cores": left.cores,
            "devices": devices_of(chips),
            "unmapped": unmapped_of(chips),
            "refs": left.refs,
            "age_s": seconds_between(left.time.0, self.span.1),
            "tag": left.tag.as_deref(),
            "op": left.operation.as_deref(),
            "line": line_json(left.line().map(AsRef::as_ref)),
        })
    }

    fn refusal(&self, LedgerRefusal { refusal, time, tag, .. }: &LedgerRefusal, chips: &[ChipName]) -> Value {
        let mut document = refusal_json(refusal, &ChipName::list(chips));
        document.insert("time_s".to_owned(), self.seconds(time.0).into());
        document.insert("kind".to_owned(), refusal.kind.name().into());
        document.insert("devices".to_owned(), devices_of(chips).into());
        document.insert("unmapped".to_owned(), unmapped_of(chips).into());
        document.insert("asked".to_owned(), refusal.size.into());
        document.insert("tag".to_owned(), tag.clone().into());
        document.insert("line".to_owned(), line_json(refusal.line.as_deref()));
        document.into()
    }

    fn tight(&self, kind: BufferKind, tightest: &Tightest, chips: &[ChipName]) -> Value {
        json!({
            "kind": kind.name(),
            "bytes": tightest.bytes,
            "time_s": self.seconds(tightest.time),
            "at": tightest.at.name(),
            "phase": if let Point::Phase(name) = &tightest.at { Some(name) } else { None },
            "points": tightest.points,
            "devices": devices_of(chips),
            "unmapped": unmapped_of(chips),
        })
    }

    /// Returns the seconds since the start of the command.
    fn seconds(&self, time: u64) -> f64 {
        seconds_between(self.span.0, time)
    }
}

fn peak_set(name: ChipName, chip: &ChipUsage) -> Vec<Value> {
    let groups = chip.kinds.iter().flat_map(|(kind, usage)| usage.groups.iter().map(move |group| (kind, group)));
    let document = |(kind, group): (&BufferKind, &PeakGroup)| {
        json!({
            "device": chip_json(name),
            "kind": kind.name(),
            "tag": group.tag.as_deref(),
            "op": group.operation.as_deref(),
            "line": line_json(group.line.as_deref()),
            "bytes": group.bytes,
            "count": group.count,
        })
    };
    groups.map(document).collect()
}

/// Returns the id of a device, or the number of another chip. That may have more digits than a JSON number can represent.
fn chip_json(name: ChipName) -> Value {
    match name {
        ChipName::Device(id) => id.0.into(),
        ChipName::Unmapped { number, .. } => number.to_string().into(),
    }
}

fn devices_of(chips: &[ChipName]) -> Vec<Value> {
    chips.iter().filter(|chip| matches!(chip, ChipName::Device(_))).map(|chip| chip_json(*chip)).collect()
}

fn unmapped_of(chips: &[ChipName]) -> Vec<Value> {
    chips.iter().filter(|chip| matches!(chip, ChipName::Unmapped { .. })).map(|chip| chip_json(*chip)).collect()
}

fn process(summary: &LedgerSummary) -> Value {
    json!({
        "pid": summary.pid,
        "name": summary.program,
        "running": summary.is_running,
        "exact": summary.is_exact(),
        "mock": summary.ledger.is_mock,
        "events": summary.ledger.events,
        "host_rss": summary.host_rss.map(host_json),
        "lost": lost(std::slice::from_ref(summary)),
    })
}

/// Returns the lost events of processes by reason.
fn lost(summaries: &[LedgerSummary]) -> Value {
    let sum = |reason: usize| summaries.iter().map(|summary| summary.ledger.lost[reason]).fold(0, u64::saturating_add);
    LOST.iter().enumerate().map(|(reason, name)| ((*name).to_owned(), Value::from(sum(reason)))).collect::<Map<_, _>>().into()
}

fn overhead_json(overhead: Overhead) -> Value {
    json!({
        "calls": overhead.calls,
        "measured_calls": overhead.measured_calls,
        "ns_per_call": overhead.nanoseconds / overhead.calls.max(1),
        "duration_s": overhead.nanoseconds as f64 / 1e9,
    })
}

/// Returns the coverage of the hook over all processes. If the states differ, the worst is reported.
fn coverage<'a>(all: impl Iterator<Item = &'a HookFeature>) -> Value {
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

fn host_json(host: HostMemory) -> Value {
    json!({"first": host.first, "peak": host.peak, "last": host.last})
}

/// Returns `{"dram": ..., "l1": ...}`.
fn by_kind<T: Copy + Into<Value>>(values: [T; 2]) -> Map<String, Value> {
    PHASE_KINDS.iter().zip(values).map(|(kind, value)| (kind.name().to_owned(), value.into())).collect()
}

fn phase_json(pid: u32, phase: &Phase) -> Value {
    json!({
        "name": phase.name,
        "pid": pid,
        "count": phase.count,
        "peak": by_kind(phase.peak),
        "first_peak": by_kind(phase.first_peak),
        "change": by_kind(phase.change),
        "allocations": phase.allocations,
        "smallest_largest_free": by_kind(phase.smallest_largest_free),
        "host_rss_peak": Some(phase.host_rss_peak).filter(|bytes| *bytes > 0),
        "host_rss_change": phase.host_rss_change,
        "duration_s": phase.duration_ns as f64 / 1e9,
        "growth_per_iteration": phase.growth.as_ref().map(growth_json),
    })
}

fn growth_json(growth: &Growth) -> Value {
    let mut document = by_kind(growth.bytes);
    document.insert("lines".to_owned(), held_json(&growth.lines).into());
    document.into()
}

fn trace_json(pid: u32, trace: &UnsafeTrace) -> Value {
    json!({"pid": pid, "trace": trace.id.to_string(), "replays": trace.replays, "lines": held_json(&trace.lines)})
}

fn count_and_bytes((count, bytes): (u64, u64)) -> Value {
    json!({"count": count, "bytes": bytes})
}

/// Returns the seconds between two times, to the millisecond. Returns 0 if the second time is earlier.
fn seconds_between(first: u64, second: u64) -> f64 {
    let millis = second.saturating_sub(first) / 1_000_000;
    millis as f64 / 1000.0
}
