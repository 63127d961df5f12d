//! `--report`: everything that is known of the command, as JSON.

use serde_json::{Map, Value, json};
use ttmon_ledger::layout::{LOST_KINDS, Refused};
use ttmon_model::ledger::BufferLayout;
use ttmon_model::ledger::{BufferKind, FeatureState};
use ttmon_model::memory::Kind;
use ttmon_model::units::{Unit, UnixTime};
use ttmon_source::{ledgers, recorder};
use ttmon_wire::rounded;

use super::account::{Account, Leftover, OfKind, Place, Refusal};
use super::child::End;
use super::digest::Digest;
use crate::show::VERSION;

/// Version of this document; keys are added, never renamed.
const SCHEMA: u32 = 1;

/// Reasons of lost events, in the order of the ledger.
const LOST: [&str; LOST_KINDS] =
    ["reentry", "lock_timeout", "unknown_free", "ambiguous_free", "replaced", "size_out_of_range", "no_allocator", "no_memory"];

/// The document.
pub(crate) fn document(account: &Account) -> Value {
    let (code, signal) = match account.end {
        End::Exit(code) => (Some(code), None),
        End::Signal(signal) => (None, Some(signal)),
    };
    let overhead = account.overhead();
    let missing = if overhead.is_none() { json!({"overhead_ratio": "no_source", "overhead": "no_source"}) } else { json!({}) };
    let refusals = account.refusals();
    let of = |what| refusals.iter().filter(move |refusal| refusal.failure.what == what);
    json!({
        "schema": SCHEMA,
        "version": VERSION,
        "command": account.command,
        "start_time": UnixTime(account.span.0).rfc3339(),
        "exit": code,
        "signal": signal,
        "signal_name": signal.and_then(signal_hook::low_level::signal_name),
        "duration_s": account.seconds(account.span.1),
        "events": account.digests.iter().map(|digest| digest.events).fold(0, u64::saturating_add),
        "allocations": account.allocations(),
        "lost": lost(account.digests.iter()),
        "exact": account.why_inexact().is_none(),
        "unread_processes": account.unread,
        "overhead_ratio": overhead.map(|overhead| rounded(overhead.ratio, Unit::Ratio)),
        "overhead": overhead.map(|overhead| json!({
            "calls": overhead.calls,
            "measured_calls": overhead.measured,
            "ns_per_call": overhead.nanoseconds / overhead.calls.max(1),
            "duration_s": overhead.nanoseconds as f64 / 1e9,
        })),
        "missing": missing,
        "coverage": coverage(account),
        "processes": account.digests.iter().map(process).collect::<Vec<_>>(),
        "devices": devices(account),
        "peak_set": peak_set(account),
        "leaks": account.left(false).iter().map(|leftover| buffer(account, leftover)).collect::<Vec<_>>(),
        "leaked": {"count": account.leaked().0, "bytes": account.leaked().1},
        "cache": account.left(true).iter().map(|leftover| buffer(account, leftover)).collect::<Vec<_>>(),
        "growth_bytes": account.growth(),
        "oom": of(Refused::OutOfMemory).map(|refusal| refused(account, refusal)).collect::<Vec<_>>(),
        "clashes": of(Refused::Clash).map(|refusal| refused(account, refusal)).collect::<Vec<_>>(),
    })
}

fn lost<'a>(digests: impl Iterator<Item = &'a Digest>) -> Value {
    let mut sums = [0_u64; LOST.len()];
    for digest in digests {
        for (sum, count) in sums.iter_mut().zip(digest.lost) {
            *sum = sum.saturating_add(count);
        }
    }
    LOST.iter().zip(sums).map(|(name, count)| ((*name).to_owned(), Value::from(count))).collect::<Map<_, _>>().into()
}

fn process(digest: &Digest) -> Value {
    json!({
        "pid": digest.pid,
        "name": digest.program,
        "running": digest.is_running,
        "exact": digest.is_exact,
        "mock": digest.places.is_mock,
        "events": digest.events,
        "lost": lost(std::iter::once(digest)),
    })
}

/// What the hook covers, of all processes together. Where it differs, the worst is what a reader must know of.
fn coverage(account: &Account) -> Value {
    let mut features: Map<String, Value> = Map::new();
    for feature in account.digests.iter().flat_map(|digest| &digest.places.coverage) {
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

fn devices(account: &Account) -> Vec<Value> {
    let kind = |(kind, of_kind): (&BufferKind, &OfKind)| (kind.name().to_owned(), of_kind_json(account, *kind, of_kind));
    account
        .chips
        .iter()
        .map(|(place, chip)| {
            let mut document = named(account, *place);
            document["kinds"] = chip.kinds.iter().map(kind).collect::<Map<_, _>>().into();
            document["leaked"] = json!({"count": chip.leaked.0, "bytes": chip.leaked.1});
            document["cached"] = json!({"count": chip.cached.0, "bytes": chip.cached.1});
            document
        })
        .collect()
}

fn of_kind_json(account: &Account, kind: BufferKind, of_kind: &OfKind) -> Value {
    // Programs come and go with their circular buffers: nobody keeps the most they had together.
    let has_peak = !matches!(kind, BufferKind::Of(Kind::Cb | Kind::Kernel));
    json!({
        "peak": has_peak.then_some(of_kind.peak),
        "peak_allocated": of_kind.peak_allocated.filter(|_| has_peak),
        "peak_time_s": (has_peak && of_kind.peak > 0).then(|| account.seconds(of_kind.peak_time)),
        // Several processes or origins held memory at once: each one's own peak is exact, their sum's is not known.
        "peak_is_at_least": of_kind.is_at_least,
        "capacity": of_kind.limit(),
        "at_end": of_kind.at_end,
    })
}

fn peak_set(account: &Account) -> Vec<Value> {
    let mut groups = Vec::new();
    for (place, chip) in &account.chips {
        for (kind, of_kind) in &chip.kinds {
            for group in &of_kind.groups {
                groups.push(json!({
                    "device": device_name(account, *place),
                    "kind": kind.name(),
                    "tag": group.tag,
                    "op": group.operation,
                    "bytes": group.bytes,
                    "count": group.count,
                }));
            }
        }
    }
    groups
}

fn buffer(account: &Account, leftover: &Leftover<'_>) -> Value {
    let (digest, left) = (leftover.digest, leftover.left);
    let entry = &left.entry;
    let known = |value: u32| Some(value).filter(|value| *value > 0);
    let allocator = digest.allocators.get(left.allocator);
    let id = allocator.map(|allocator| format!("{}.{}.{}", digest.pid, allocator.slot, allocator.generation));
    json!({
        "pid": digest.pid,
        "allocator": id,
        "kind": left.kind.name(),
        "address": format!("{:#x}", entry.address),
        "size": entry.size,
        "per_bank": known(entry.per_bank),
        "page_size": known(entry.page),
        "layout": BufferLayout::from_number(entry.layout).map(BufferLayout::name),
        "cores": known(u32::from(entry.cores)),
        "devices": devices_of(leftover.places),
        "unmapped": unmapped_of(account, leftover.places),
        "refs": entry.refs,
        "age_s": age(account, entry.time),
        "tag": left.tag,
        "op": left.operation,
    })
}

/// Seconds until the end of the command.
fn age(account: &Account, time: u64) -> f64 {
    let millis = account.span.1.saturating_sub(time) / 1_000_000;
    millis as f64 / 1000.0
}

fn refused(account: &Account, refusal: &Refusal<'_>) -> Value {
    let failure = refusal.failure;
    let mut document = ttmon_wire::refusal_json(&recorder::refusal(failure), &account.names(refusal.places));
    document.insert("time_s".to_owned(), account.seconds(failure.time).into());
    document.insert("kind".to_owned(), ledgers::buffer_kind(failure.kind).name().into());
    document.insert("devices".to_owned(), devices_of(refusal.places).into());
    document.insert("unmapped".to_owned(), unmapped_of(account, refusal.places).into());
    document.insert("asked".to_owned(), failure.size.into());
    document.insert("tag".to_owned(), Some(failure.tag.as_str()).filter(|tag| !tag.is_empty()).into());
    document.into()
}

/// `{"id": 0}`, or `{"unmapped": "0"}`: such an id may have more digits than a JSON number keeps.
fn named(account: &Account, place: Place) -> Value {
    match place {
        Place::Device(id) => json!({"id": id.0}),
        Place::Unmapped(id) => json!({"unmapped": account.given(id).to_string()}),
    }
}

/// A number where it is a device's id, text where it is what the program gave.
fn device_name(account: &Account, place: Place) -> Value {
    match place {
        Place::Device(id) => id.0.into(),
        Place::Unmapped(id) => account.given(id).to_string().into(),
    }
}

fn devices_of(places: &[Place]) -> Vec<u32> {
    places.iter().filter_map(|place| if let Place::Device(id) = place { Some(id.0) } else { None }).collect()
}

fn unmapped_of(account: &Account, places: &[Place]) -> Vec<String> {
    places.iter().filter_map(|place| if let Place::Unmapped(id) = place { Some(account.given(*id).to_string()) } else { None }).collect()
}
