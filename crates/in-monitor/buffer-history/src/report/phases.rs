//! Phases, traces and host memory.

use serde_json::{Map, Value, json};
use ttmon_json::held_json;
use ttmon_model::phase::{Growth, HostMemory, PHASE_KINDS, Phase, UnsafeTrace};

pub(super) fn host_json(host: HostMemory) -> Value {
    json!({"first": host.first, "peak": host.peak, "last": host.last})
}

/// Returns `{"dram": ..., "l1": ...}`.
fn by_kind<T: Copy + Into<Value>>(values: [T; 2]) -> Map<String, Value> {
    PHASE_KINDS.iter().zip(values).map(|(kind, value)| (kind.name().to_owned(), value.into())).collect()
}

pub(super) fn phase_json(pid: u32, phase: &Phase) -> Value {
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

pub(super) fn trace_json(pid: u32, trace: &UnsafeTrace) -> Value {
    json!({"pid": pid, "trace": trace.id.to_string(), "replays": trace.replays, "lines": held_json(&trace.lines)})
}
