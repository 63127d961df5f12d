//! Checks the contents of a trace in the Chrome format. `python/tests/test_export.py` checks the other format.

use std::sync::Arc;

use serde_json::Value;
use ttmon_buffer_history::{About, Buffer, Chip, Spool, Trace, chrome, document, memory_viz};
use ttmon_model::Kind;
use ttmon_model::ledger::BufferKind;
use ttmon_model::stack::SourceLine;

const DRAM: BufferKind = BufferKind::Of(Kind::Dram);
const L1: BufferKind = BufferKind::Of(Kind::L1);

fn empty() -> Trace {
    Trace::new(About::default(), Spool::new(Box::new(tempfile::tempfile)))
}

fn chip(number: u64) -> Chip {
    Chip { id: number, number, name: format!("chip {number}") }
}

fn buffer(address: u64, size: u64) -> Buffer<'static> {
    Buffer { address, size, per_bank: size / 4, ..Buffer::default() }
}

fn events(trace: &Trace) -> Vec<Value> {
    let mut bytes = Vec::new();
    chrome::write(trace, &mut bytes).unwrap();
    let document: Value = serde_json::from_slice(&bytes).unwrap();
    document["traceEvents"].as_array().unwrap().clone()
}

/// Returns the phase, the chip, and the name or the DRAM bytes of each event.
fn shown(trace: &Trace) -> Vec<String> {
    let events = events(trace);
    let shown = events.iter().filter(|event| event["ph"] != "M").map(|event| match event["ph"].as_str().unwrap() {
        "C" => format!("C{} {}", event["pid"], event["args"]["dram"]),
        phase => format!("{phase}{} {}", event["pid"], event["name"].as_str().unwrap()),
    });
    shown.collect()
}

#[test]
fn buffers_are_spans_and_counters() {
    let mut trace = empty();
    let owner = trace.process(7, "python3");
    let memory = trace.memory(&[chip(0)], DRAM, Some((4, 0x100, 0x1000))).unwrap();
    let line = Arc::new(SourceLine { file: "/a/models/decoder.py".into(), line: 42, function: "forward".into() });
    let stack = trace.stack(&[line]);
    trace.alloc(1000, owner, memory, &Buffer { stack, tag: Some("weights"), ..buffer(0x100, 400) }).unwrap();
    trace.alloc(2000, owner, memory, &buffer(0x200, 800)).unwrap();
    trace.free(3000, owner, memory, &buffer(0x100, 400)).unwrap();
    trace.refused(4000, owner, memory, &buffer(0, 1 << 20), 0x800, false).unwrap();
    assert_eq!(
        shown(&trace),
        [
            "C0 0",
            "b0 models/decoder.py:42 forward",
            "C0 400",
            "b0 dram",
            "C0 1200",
            "e0 models/decoder.py:42 forward",
            "C0 800",
            "i0 out of memory",
            "e0 dram",
            "C0 800"
        ]
    );
    let all = events(&trace);
    let refused = all.iter().find(|event| event["ph"] == "i").unwrap();
    assert_eq!((refused["args"]["largest_free"].as_u64(), refused["ts"].as_f64()), (Some(0x2000), Some(3.0)));
    assert_eq!((trace.complete_since(), trace.lost()), (None, 0));
}

#[test]
fn buffers_from_before_the_trace_are_counted_from_its_start() {
    let mut trace = empty();
    let owner = trace.process(7, "");
    let memory = trace.memory(&[chip(0)], DRAM, None).unwrap();
    trace.record_loss(5, 900);
    trace.free(1000, owner, memory, &buffer(0x100, 300)).unwrap();
    trace.reconcile(owner, 2000, [(500, memory, buffer(0x900, 100))].into_iter());
    assert_eq!(shown(&trace), ["C0 400", "b0 dram", "b0 dram", "e0 dram", "C0 100", "e0 dram", "C0 100"]);
    assert_eq!((trace.complete_since(), trace.lost()), (Some(900), 5));
}

#[test]
fn live_buffers_end_in_the_order_of_their_begin() {
    let mut trace = empty();
    let owner = trace.process(7, "");
    let memory = trace.memory(&[chip(0)], DRAM, Some((4, 0x100, 0x10_0000))).unwrap();
    for number in 0..50 {
        trace.alloc(number, owner, memory, &buffer(0x100 + number * 0x100, 4)).unwrap();
    }
    let numbers = |phase: &str| -> Vec<Value> {
        events(&trace).into_iter().filter(|event| event["ph"] == phase).map(|event| event["id2"]["local"].clone()).collect()
    };
    assert_eq!(numbers("e"), numbers("b"));
}

#[test]
fn a_teardown_frees_only_its_own_buffers() {
    let mut trace = empty();
    let (first, second) = (trace.process(7, ""), trace.process(8, ""));
    let dram = trace.memory(&[chip(0)], DRAM, None).unwrap();
    let l1 = trace.memory(&[chip(0)], L1, None).unwrap();
    trace.alloc(1, first, dram, &buffer(1, 10)).unwrap();
    trace.alloc(2, first, l1, &buffer(1, 20)).unwrap();
    trace.alloc(3, second, dram, &buffer(1, 40)).unwrap();
    trace.free_all(4, first, dram).unwrap();
    let last = events(&trace).into_iter().rfind(|event| event["ph"] == "C").unwrap();
    assert_eq!((last["args"]["dram"].as_u64(), last["args"]["l1"].as_u64()), (Some(40), Some(20)));
}

/// The memory of a process is freed when the process ends, so the next process on the chip starts with none.
#[test]
fn an_ended_process_gives_way_to_the_next() {
    let mut trace = empty();
    let first = trace.process(7, "");
    let memory = trace.memory(&[chip(0)], DRAM, None).unwrap();
    trace.alloc(1000, first, memory, &buffer(1, 100)).unwrap();
    trace.end(first);
    let second = trace.process(8, "");
    trace.alloc(2000, second, memory, &buffer(1, 40)).unwrap();
    assert_eq!(shown(&trace), ["C0 0", "b0 dram", "C0 100", "e0 dram", "C0 0", "b0 dram", "C0 40", "e0 dram", "C0 40"]);
}

#[test]
fn a_mesh_buffer_is_on_each_chip() {
    let mut trace = empty();
    let owner = trace.process(7, "");
    let memory = trace.memory(&[chip(3), chip(1)], DRAM, None).unwrap();
    trace.alloc(1000, owner, memory, &buffer(1, 100)).unwrap();
    let peaks: Vec<String> = shown(&trace).into_iter().filter(|text| text.ends_with(" 100")).collect();
    assert_eq!(peaks, ["C0 100", "C0 100", "C1 100", "C1 100"]);
}

#[test]
fn kinds_that_are_not_drawn_have_no_space() {
    let mut trace = empty();
    for kind in [BufferKind::Of(Kind::Cb), BufferKind::Of(Kind::Kernel), BufferKind::Host, BufferKind::Other] {
        assert_eq!(trace.memory(&[chip(0)], kind, None), None);
    }
    assert_eq!(trace.memory(&[], DRAM, None), None);
    assert!(trace.is_empty());
    memory_viz::write(&trace, &mut Vec::new()).unwrap();
}

#[test]
fn a_full_disk_is_an_error() {
    let mut trace = empty();
    let owner = trace.process(7, "");
    let memory = trace.memory(&[chip(0)], DRAM, None).unwrap();
    trace.alloc(1, owner, memory, &buffer(1, 1)).unwrap();
    let mut full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    assert_eq!(memory_viz::write(&trace, &mut full).unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(chrome::write(&trace, &mut full).unwrap_err().kind(), std::io::ErrorKind::StorageFull);
}

const REPORT: &str = r#"{"schema": 1, "command": ["python3", "a\u001b.py"], "start_time": "1970-01-01T00:00:10Z", "duration_s": 5.0,
  "devices": [],
  "leaks": [
    {"pid": 7, "kind": "dram", "address": "0x40", "size": 100, "per_bank": 32, "banks": 4, "devices": [2], "unmapped": [], "age_s": 1.0,
     "tag": "a\u0000b", "line": {"file": "/x/y.py", "line": 3, "function": "f"}},
    {"pid": 7, "kind": "dram", "address": "0x80", "size": 7, "devices": [], "unmapped": ["0"], "age_s": 4.0},
    {"pid": "?", "kind": "moon", "address": 3, "size": -1, "devices": "all"}],
  "cache": [],
  "oom": [{"time_s": 2.0, "kind": "dram", "asked": 4096, "banks": 4, "per_bank": 1024, "largest_free_per_bank": 16, "devices": [2]}]}"#;

#[test]
fn a_report_has_its_leaks_and_refusals() {
    let mut trace = empty();
    document::add_report(&mut trace, REPORT).unwrap();
    let shown = shown(&trace);
    for expected in ["b1 /x/y.py:3 f", "C1 100", "i1 out of memory", "b0 dram", "C0 7"] {
        assert!(shown.iter().any(|text| text == expected), "{expected}: {shown:?}");
    }
    let names: Vec<Value> = events(&trace).into_iter().filter(|event| event["name"] == "process_name").collect();
    assert_eq!((&names[0]["args"]["name"], &names[1]["args"]["name"]), (&"chip 0".into(), &"device 2".into()));
}

#[test]
fn invalid_and_truncated_reports_are_refused() {
    for text in ["", "{}", "[]", "nonsense", r#"{"schema": 1, "devices": []}"#] {
        assert!(document::add_report(&mut empty(), text).is_err(), "{text}");
    }
    for length in (0..REPORT.len()).filter(|length| REPORT.is_char_boundary(*length)) {
        assert!(document::add_report(&mut empty(), &REPORT[..length]).is_err(), "{length}");
    }
}
