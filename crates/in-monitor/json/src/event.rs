//! JSON of an event of a process's memory: a line of `ttmon events --json`, and an event of the service's stream.

use serde_json::{Map, Value, json};
use ttmon_model::event::{BufferEvent, Large, Op, Refusal, Refused};
use ttmon_model::room::{HeldByLine, SmallRegion, Verdict, Window};
use ttmon_model::units::UnixTime;

use crate::buffer::buffer_kind;
use crate::item::Item;
use crate::line::{line, line_json};
use crate::{Layout, ReadError};

/// Returns the document of an event, on one line.
pub fn event_line(event: &BufferEvent) -> String {
    crate::to_string(&event_json(event), Layout::Line)
}

fn event_json(event: &BufferEvent) -> Value {
    let time = event.time.map(UnixTime::rfc3339);
    let mut document = json!({
        "time": time,
        "pid": event.pid,
        "op": event.op.name(),
        "kind": event.kind.map(|kind| kind.name()),
        "devices": event.devices.iter().map(|id| id.0).collect::<Vec<_>>(),
        "allocator": event.allocator,
        "address": event.address.map(|address| format!("{address:#x}")),
        "size": event.size,
        "refs": event.refs,
        "tag": event.tag,
    });
    let Some(map) = document.as_object_mut() else { return document };
    // The ids are strings, as everywhere, because an id may have more digits than a JSON number can represent.
    let unmapped = || event.unmapped.iter().map(u64::to_string).collect::<Vec<_>>().into();
    let optional = [
        ("number", event.number.map(Value::from)),
        ("count", event.overrun.map(Value::from)),
        ("dropped", (event.op == Op::Unref).then_some(Value::Bool(true))),
        ("line", event.line.as_deref().map(|line| line_json(Some(line)))),
        ("program", event.program.map(Value::from)),
        ("unmapped", (!event.unmapped.is_empty()).then(unmapped)),
    ];
    map.extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    if let Some(refusal) = &event.refusal {
        map.extend(refusal_json(refusal, &event.place()));
    }
    document
}

/// Returns the figures of a refused request. They are the same in the report of a run and in events.
pub fn refusal_json(refusal: &Refusal, place: &str) -> Map<String, Value> {
    let known = |value: u64| Some(value).filter(|_| refusal.per_bank > 0);
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let top = refusal.largest.iter().map(|large| {
        json!({
            "address": format!("{:#x}", large.address),
            "size": large.size,
            "per_bank": Some(large.per_bank).filter(|per_bank| *per_bank > 0),
            "tag": text(&large.tag),
            "op": text(&large.operation),
            "line": line_json(large.line.as_deref()),
        })
    });
    let document = json!({
        "banks": Some(refusal.banks).filter(|banks| *banks > 0),
        "per_bank": known(refusal.per_bank),
        "free_per_bank": known(refusal.free_per_bank),
        "largest_free_per_bank": known(refusal.largest_free_per_bank),
        "fits_without_fragmentation": refusal.fits_without_fragmentation(),
        "verdict": refusal.verdict().map(Verdict::name),
        "cheapest_window": refusal.window.as_ref().map(window_json),
        "bytes_over": refusal.bytes_over(),
        "l1_small_size": refusal.l1_small.map(|small| small.bytes),
        "l1_small_used": refusal.l1_small.map(|small| small.used),
        "live_set": refusal.is_overrun.then_some(RING_OVERRUN),
        "bank_bytes": Some(refusal.bank_bytes).filter(|bytes| *bytes > 0),
        "top": top.collect::<Vec<_>>(),
        "operation": text(&refusal.operation),
        "message": text(&refusal.message),
        "words": refusal.words(place),
    });
    match document {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// The reason for unknown live buffers: too many events followed.
const RING_OVERRUN: &str = "ring_overrun";

/// Returns the JSON of a window. Bytes and addresses are those of a bank.
fn window_json(window: &Window) -> Value {
    json!({"bytes": window.bytes, "address": format!("{:#x}", window.start), "lines": held_json(&window.lines)})
}

/// Returns the JSON of buffers by line.
pub fn held_json(lines: &[HeldByLine]) -> Vec<Value> {
    let one = |held: &HeldByLine| json!({"line": line_json(held.line.as_deref()), "bytes": held.bytes, "count": held.count});
    lines.iter().map(one).collect()
}

/// Reads the cheapest window, if a refusal has one.
fn window(item: &Item<'_>) -> Option<Window> {
    let window = item.part("cheapest_window")?;
    let line = |item: &Item<'_>| HeldByLine {
        line: line(item, "line"),
        bytes: item.whole("bytes").unwrap_or(0),
        count: item.whole("count").unwrap_or(0),
    };
    // A window without its list is still the cheapest one.
    let lines = window.list("lines").unwrap_or_default().iter().map(line).collect();
    Some(Window { start: window.address("address").ok()?, bytes: window.whole("bytes").ok()?, lines })
}

/// Reads the document of an event.
pub fn read_event(text: &str) -> Result<BufferEvent, ReadError> {
    let value = crate::document::read_value(text)?;
    Item::new(&value).and_then(|item| event(&item)).ok_or(ReadError::Shape("an event"))
}

/// Reads an event. Its members are missing if they do not apply to its sort.
pub(crate) fn event(item: &Item<'_>) -> Option<BufferEvent> {
    let op = item.meaning("op", Op::from_name).ok()?;
    let op = if op == Op::Ref && item.truth("dropped") == Ok(true) { Op::Unref } else { op };
    let mut event = BufferEvent {
        time: item.time("time").ok(),
        pid: item.small("pid")?,
        number: item.whole("number").ok(),
        op,
        kind: item.meaning("kind", buffer_kind).ok(),
        allocator: item.text("allocator").ok(),
        devices: item.ids("devices"),
        unmapped: item.texts("unmapped").iter().filter_map(|text| text.parse().ok()).collect(),
        address: item.address("address").ok(),
        size: item.whole("size").ok(),
        refs: item.whole("refs").ok(),
        program: item.whole("program").ok(),
        tag: item.text("tag").ok(),
        overrun: item.whole("count").ok(),
        refusal: None,
        line: line(item, "line"),
    };
    event.refusal = refusal(item, &event);
    Some(event)
}

fn refusal(item: &Item<'_>, event: &BufferEvent) -> Option<Refusal> {
    let what = match event.op {
        Op::OutOfMemory => Refused::OutOfMemory,
        Op::Clash => Refused::Clash,
        _ => return None,
    };
    // Only the most recent refusals have details. The service writes 0 and no text for what a program did not report.
    item.text("words").ok()?;
    let whole = |item: &Item<'_>, name: &str| item.whole(name).unwrap_or(0);
    let text = |item: &Item<'_>, name: &str| item.text(name).unwrap_or_default();
    let large = |item: &Item<'_>| Large {
        address: item.address("address").unwrap_or(0),
        size: whole(item, "size"),
        per_bank: whole(item, "per_bank"),
        tag: text(item, "tag"),
        operation: text(item, "op"),
        line: line(item, "line"),
    };
    Some(Refusal {
        what,
        kind: event.kind?,
        size: event.size?,
        banks: whole(item, "banks"),
        per_bank: whole(item, "per_bank"),
        free_per_bank: whole(item, "free_per_bank"),
        largest_free_per_bank: whole(item, "largest_free_per_bank"),
        largest: item.list("top").unwrap_or_default().iter().map(large).collect(),
        operation: text(item, "operation"),
        message: text(item, "message"),
        line: event.line.clone(),
        bank_bytes: whole(item, "bank_bytes"),
        window: window(item),
        l1_small: item.whole("l1_small_size").ok().map(|bytes| SmallRegion { bytes, used: whole(item, "l1_small_used") }),
        is_overrun: text(item, "live_set") == RING_OVERRUN,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use ttmon_model::ledger::BufferKind;
    use ttmon_model::stack::SourceLine;
    use ttmon_model::{DeviceId, Kind};

    fn event(op: Op) -> BufferEvent {
        BufferEvent {
            time: Some(UnixTime(1_763_194_365_120_000_000)),
            pid: 4242,
            number: Some(17),
            op,
            kind: Some(BufferKind::Of(Kind::L1)),
            allocator: Some("4242.0.0".to_owned()),
            devices: vec![DeviceId(0), DeviceId(4)],
            unmapped: vec![u64::MAX],
            address: Some(0x1000),
            size: Some(32 << 20),
            refs: None,
            program: None,
            tag: Some("layer \"7\"".to_owned()),
            overrun: None,
            refusal: None,
            line: None,
        }
    }

    #[test]
    fn every_kind_of_event_is_read_back() {
        let at = |line| Some(Arc::new(SourceLine { file: "/me/model.py".into(), line, function: "forward".into() }));
        let large = Large { address: 0x2000, size: 77, per_bank: 0, tag: String::new(), operation: "matmul".to_owned(), line: at(9) };
        let refusal = |what| Refusal {
            what,
            kind: BufferKind::Of(Kind::L1),
            size: 32 << 20,
            banks: 64,
            per_bank: 512 << 10,
            free_per_bank: 700 << 10,
            largest_free_per_bank: 0,
            largest: vec![large.clone()],
            operation: "add".to_owned(),
            message: "no\nroom".to_owned(),
            line: at(7),
            bank_bytes: 1 << 20,
            window: Some(Window { start: 64, bytes: 32, lines: vec![HeldByLine { line: at(3), bytes: 32, count: 1 }] }),
            l1_small: Some(SmallRegion { bytes: 4096, used: 64 }),
            is_overrun: true,
        };
        for op in Op::ALL {
            let mut event = event(op);
            match op {
                Op::Ref | Op::Unref => event.refs = Some(3),
                Op::Alloc => (event.program, event.line) = (Some(9), at(5)),
                Op::OutOfMemory => (event.address, event.line, event.refusal) = (None, at(7), Some(refusal(Refused::OutOfMemory))),
                Op::Clash => (event.address, event.line, event.refusal) = (None, at(7), Some(refusal(Refused::Clash))),
                Op::Overrun => {
                    let BufferEvent { time, pid, .. } = event;
                    let nothing = BufferEvent { number: None, kind: None, allocator: None, address: None, size: None, tag: None, ..event };
                    event = BufferEvent { time, pid, overrun: Some(12), devices: Vec::new(), unmapped: Vec::new(), ..nothing };
                }
                _ => {}
            }
            assert_eq!(read_event(&event_line(&event)), Ok(event), "{op:?}");
        }
    }

    #[test]
    fn other_documents_are_rejected() {
        assert!(matches!(read_event("{"), Err(ReadError::NotJson(_))));
        for wrong in ["[]", "{}", "{\"pid\":1,\"op\":\"explode\"}", "{\"op\":\"alloc\"}", "{\"pid\":-1,\"op\":\"alloc\"}"] {
            assert_eq!(read_event(wrong), Err(ReadError::Shape("an event")), "{wrong}");
        }
    }
}
