//! Checks the document's guarantees, for every test machine and for random ones.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;
use ttmon_model::fields::{DEVICE, DeviceField, PROCESS};
use ttmon_model::memory::Figure;
use ttmon_model::sample::Problem;
use ttmon_model::stack::{SourceLine, Stack};
use ttmon_model::units::Unit;
use ttmon_model::{KernelType, KernelTypes, KernelUse, Kind, Missing, Snapshot, Source};
use ttmon_testing::machine;

use super::*;

fn parsed(snapshot: &Snapshot) -> Value {
    let text = to_string(&SnapshotJson { snapshot, version: "0.1.0" }, Layout::Line);
    assert!(!text.contains(|c: char| c.is_control() || c == '\u{202e}'), "{text}");
    let mut written = Vec::new();
    write(&SnapshotJson { snapshot, version: "0.1.0" }, Layout::Line, &mut written).unwrap();
    assert_eq!(String::from_utf8(written).unwrap(), text.clone() + "\n", "in pieces or as a whole");
    serde_json::from_str(&text).unwrap()
}

/// Collects the nulls of an object. Elements of lists have their own `missing`. All other objects use the `missing` of the outer object.
fn check_missing(object: &Value, path: &str, nulls: &mut Vec<String>) {
    let Value::Object(entries) = object else { return };
    for (key, value) in entries.iter().filter(|(key, _)| *key != "missing") {
        let here = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match value {
            Value::Null => nulls.push(here),
            Value::Object(_) => check_missing(value, &here, nulls),
            Value::Array(elements) => elements.iter().for_each(check_element),
            _ => {}
        }
    }
}

fn check_element(element: &Value) {
    let mut nulls = Vec::new();
    check_missing(element, "", &mut nulls);
    let Some(missing) = element.get("missing").and_then(Value::as_object) else {
        assert!(nulls.is_empty(), "no reasons in {element}");
        return;
    };
    nulls.sort();
    let mut reasons: Vec<_> = missing.keys().cloned().collect();
    reasons.sort();
    assert_eq!(nulls, reasons);
    assert!(missing.values().all(|reason| Missing::ALL.iter().any(|known| reason == known.name())));
}

fn pointer(name: &str) -> String {
    format!("/{}", name.replace('.', "/"))
}

#[test]
fn every_null_has_a_reason_and_nothing_else_has() {
    for (_, snapshot) in machine::all() {
        check_element(&parsed(&snapshot));
    }
}

#[test]
fn every_field_is_where_its_name_says() {
    for (machine, snapshot) in machine::all() {
        let document = parsed(&snapshot);
        for device in document["devices"].as_array().unwrap() {
            for field in DeviceField::all() {
                assert!(device.pointer(&pointer(&field.name())).is_some(), "{machine}: {}", field.name());
            }
        }
        for process in document["processes"].as_array().unwrap() {
            for field in PROCESS {
                assert!(process.get(field.name).is_some(), "{machine}: {}", field.name);
            }
        }
    }
    assert!(DEVICE.iter().all(|field| !field.name.contains('.') || field.name.starts_with("memory.")));
}

#[test]
fn keys_are_in_the_order_of_the_table() {
    let text = to_string(&SnapshotJson { snapshot: &machine::n300(), version: "0.1.0" }, Layout::Line);
    let device = &text[text.find("\"devices\"").unwrap()..];
    let places: Vec<_> = DEVICE
        .iter()
        .filter(|field| !field.name.contains('.'))
        .map(|field| device.find(&format!("\"{}\":", field.name)).expect(field.name))
        .collect();
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn the_document_has_the_required_shape() {
    let document = parsed(&machine::n300());
    let device = &document["devices"][0];
    assert_eq!(document["schema"], 1);
    assert_eq!((device["id"].as_u64(), device["name"].as_str()), (Some(0), Some("Wormhole_B0")));
    assert_eq!((device["temperature"].as_f64(), device["power"].as_f64()), (Some(54.312), Some(38.0)));
    assert_eq!(device["memory"]["total"], 12u64 << 30);
    assert_eq!(device["memory"]["used"], 2_576_980_377u64);
    assert_eq!(device["memory"]["kinds"]["dram"]["source"], "shm");
    assert_eq!(device["processes"][0]["pid"], 12345);
    assert_eq!(device["processes"][0]["memory"], 2_576_980_377u64);
    assert_eq!(document["devices"][1]["missing"]["temperature"], "remote_chip");
    assert_eq!(document["devices"][0]["missing"]["memory.kinds.dram.peak"], "no_source");
    assert_eq!(document["processes"][0]["kinds"]["dram"]["used"], 2_576_980_377u64 + 838_860_800);
    assert_eq!(document["processes"][0]["devices"][1]["id"], 1);
}

/// A device lists only the values of a process that depend on the device. All other values are in `processes`, by pid.
#[test]
fn a_process_on_a_device_has_what_depends_on_the_device() {
    for (name, snapshot) in machine::all() {
        let document = parsed(&snapshot);
        for process in document["devices"].as_array().unwrap().iter().flat_map(|device| device["processes"].as_array().unwrap()) {
            let mut keys: Vec<&str> = process.as_object().unwrap().keys().map(String::as_str).collect();
            keys.sort_unstable();
            assert_eq!(keys, ["kinds", "memory", "metal_ids", "missing", "name", "pid", "source", "status"], "{name}");
            let all = document["processes"].as_array().unwrap();
            assert_eq!(all.iter().filter(|other| other["pid"] == process["pid"]).count(), 1, "{name}");
        }
    }
    let hooked = machine::hooked();
    let document = parsed(&hooked);
    let ids = |device: usize| document["devices"][device]["processes"][0]["metal_ids"].clone();
    assert_eq!((ids(0), ids(1)), (serde_json::json!([0]), serde_json::json!([1])), "{document}");
    assert_eq!(parsed(&machine::n300())["devices"][0]["processes"][0]["missing"]["metal_ids"], "not_tracked");
    let back = read(&to_string(&SnapshotJson { snapshot: &hooked, version: "0.1.0" }, Layout::Line)).unwrap();
    let of = |snapshot: &Snapshot| snapshot.processes[0].devices.iter().map(|one| one.metal_ids.clone()).collect::<Vec<_>>();
    assert_eq!(of(&back), of(&hooked));
}

fn memory(snapshot: &Snapshot) -> Value {
    let document = MemoryJson {
        snapshot: SnapshotJson { snapshot, version: "0.1.0" },
        parts: MemoryParts { banks: true, blocks: true, ..MemoryParts::default() },
    };
    serde_json::from_str(&to_string(&document, Layout::Line)).unwrap()
}

#[test]
fn banks_and_blocks_are_exact() {
    let document = memory(&machine::hooked());
    let dram = &document["allocators"][0]["kinds"]["dram"];
    // The bank has two buffers, a gap between them, and the rest.
    let free = 1_072_693_184_u64 - 86 * 2048 - 2048;
    let largest = 0x10_0040 + 1_072_693_184_u64 - 0x20_0040 - 2048;
    assert_eq!((&dram["banks"], &dram["bank_bytes"]), (&12.into(), &1_072_693_184_u64.into()));
    assert_eq!((&dram["allocated_per_bank"], &dram["free_per_bank"]), (&(87 * 2048).into(), &free.into()));
    assert_eq!((&dram["largest_free_per_bank"], &dram["blocks"]), (&largest.into(), &4.into()));
    let fragmentation = 1.0 - largest as f64 / free as f64;
    assert_eq!(dram["fragmentation"].as_f64(), Some((fragmentation * 10_000.0).round() / 10_000.0));
    assert_eq!(dram["free"], free * 12);
    let blocks = document["blocks"].as_array().unwrap();
    let of_dram: Vec<_> = blocks.iter().filter(|block| block["allocator"] == "4242.0.1" && block["kind"] == "dram").collect();
    assert_eq!(
        *of_dram[0],
        serde_json::json!({"allocator": "4242.0.1", "kind": "dram", "address": "0x100040", "size": 176_128, "free": false})
    );
    assert_eq!(of_dram[1]["free"], true);
    assert_eq!(document["allocators"][0]["kinds"]["l1_small"]["blocks"], 2, "L1_SMALL lies above L1");
}

#[test]
fn nothing_allocated_is_one_free_block_and_not_nothing_known() {
    let document = memory(&machine::hooked());
    let trace = &document["allocators"][0]["kinds"]["trace"];
    assert_eq!(
        (&trace["used"], &trace["count"], &trace["blocks"], &trace["largest_free_per_bank"]),
        (&0.into(), &0.into(), &1.into(), &0.into())
    );
    let l1 = &document["allocators"][1]["kinds"]["l1"];
    assert_eq!(
        (&l1["used"], &l1["largest_free_per_bank"], &l1["fragmentation"], &l1["blocks"]),
        (&0.into(), &1_360_544.into(), &0.0.into(), &1.into())
    );
    assert!(document["allocators"][0]["kinds"].get("kernel").is_none(), "unread parts are absent");
}

#[test]
fn unknown_parts_have_a_reason_and_totals_stay_exact() {
    let document = memory(&machine::hooked());
    let allocator = &document["allocators"][2];
    let (dram, l1) = (&allocator["kinds"]["dram"], &allocator["kinds"]["l1"]);
    assert_eq!((&dram["allocated_per_bank"], &dram["free_per_bank"]), (&6144.into(), &(1_072_693_184_u64 - 6144).into()));
    assert_eq!((&dram["largest_free_per_bank"], &dram["no_blocks"]), (&Value::Null, &"more buffers are live than can be listed".into()));
    assert_eq!((&dram["unlisted"]["count"], &dram["unlisted"]["bytes"]), (&2.into(), &48_000.into()));
    assert_eq!((&l1["allocated_per_bank"], &l1["blocks"], &l1["used"]), (&Value::Null, &Value::Null, &262_144.into()));
    assert_eq!(allocator["missing"]["kinds.l1.blocks"], "not_tracked");
    assert_eq!((&allocator["self_check"]["inexact"], &allocator["self_check"]["differences"]), (&true.into(), &3.into()));
    assert!(document["blocks"].as_array().unwrap().iter().all(|block| block["allocator"] != "5000.0.1" || block["kind"] != "dram"));
    let problems: Vec<_> = document["problems"].as_array().unwrap().iter().filter_map(|problem| problem["detail"].as_str()).collect();
    assert!(problems.iter().any(|detail| detail.contains("differ from TT-Metal's own statistics")), "{problems:?}");
}

#[test]
fn programs_launches_and_coverage_are_written() {
    let document = memory(&machine::hooked());
    let allocator = &document["allocators"][0];
    let cb = &allocator["kinds"]["cb"];
    // 64 cores have 64 KiB, but one of them has 96 KiB.
    let bytes = 63 * 65_536 + 98_304;
    assert_eq!((&cb["used"], &cb["programs"], &cb["per_core"], &cb["count"]), (&bytes.into(), &2.into(), &98_304.into(), &2.into()));
    assert_eq!(allocator["coverage"]["launches"], serde_json::json!({"state": "found", "hits": 18_204}));
    assert_eq!(allocator["coverage"]["program cache"], serde_json::json!({"state": "missing", "hits": 0, "reason": "no such symbol"}));
    let process = &document["processes"][0];
    assert_eq!(
        (&process["launches"], &process["launches_per_s"]),
        (&(2 * 18_204).into(), &100.0.into()),
        "100 more on each of two chips in 2 s"
    );
    assert_eq!(process["last_launch"], "2026-11-19T08:12:42.120Z");
    assert_eq!(
        (&document["processes"][1]["launches"], &document["processes"][1]["missing"]["launches"]),
        (&Value::Null, &"not_tracked".into())
    );
    let l1 = |device: usize| document["devices"][device]["memory"]["kinds"]["cb"]["used"].clone();
    assert_eq!((l1(0), l1(1)), (bytes.into(), bytes.into()), "each chip of the mesh");
    assert!(document["allocators"][2]["kinds"].get("cb").is_none(), "no hit: not tracked, and not 0");
}

#[test]
fn overlapping_buffers_are_reported() {
    let document = memory(&machine::hooked());
    let process = &document["processes"][0];
    assert_eq!(process["overlap_bytes"], 43 * 2048 * 12);
    assert_eq!(document["processes"][1]["overlap_bytes"], 0);
    let dram = &process["devices"][0]["kinds"]["dram"];
    assert_eq!((&dram["used"], &dram["peak"]), (&(3_145_728 + 20_000).into(), &(3_145_728 + 20_000).into()), "never below what is used");
    let problems: Vec<_> = document["problems"].as_array().unwrap().iter().filter_map(|problem| problem["detail"].as_str()).collect();
    assert!(problems.iter().any(|detail| detail.contains("1056768 bytes of device 0 belong to two live buffers")), "{problems:?}");
}

#[test]
fn an_invalid_ledger_is_reported_in_time() {
    let document = memory(&machine::overfull());
    assert_eq!(document["allocators"].as_array().unwrap().len(), 256);
    assert_eq!(document["processes"][0]["unmapped"].as_array().unwrap().len(), 255 * 32 + 64);
}

#[test]
fn optional_parts_of_the_memory_document_are_written_on_request() {
    let snapshot = machine::hooked();
    let document = MemoryJson { snapshot: SnapshotJson { snapshot: &snapshot, version: "0.1.0" }, parts: MemoryParts::default() };
    let text = to_string(&document, Layout::Line);
    assert!(!text.contains("\"banks\"") && !text.contains("\"blocks\"") && !text.contains("\"buffers\""));
    let document = memory(&snapshot);
    check_element(&document);
    let text = to_string(&document["allocators"][0]["kinds"]["dram"], Layout::Line);
    let keys = ["used", "allocated", "free", "count", "peak", "peak_time", "banks", "bank_bytes", "allocated_per_bank", "free_per_bank"];
    for key in keys.iter().chain(&["largest_free_per_bank", "fragmentation", "blocks"]) {
        assert!(text.contains(&format!("\"{key}\":")), "{key} in {text}");
    }
}

#[test]
fn unmapped_ids_are_decimal_text() {
    let document = parsed(&machine::statuses());
    let unmapped = document["processes"].as_array().unwrap().iter().find_map(|process| process["unmapped"].get(0)).unwrap();
    assert_eq!(unmapped["id"], "9956278468");
    assert_eq!(unmapped["kinds"]["dram"]["used"], 1 << 30);
}

#[test]
fn numbers_are_rounded() {
    let text = |number: f64, unit: Unit| serde_json::to_string(&rounded(number, unit)).unwrap();
    assert_eq!(text(54_312.0 / 1e3, Unit::Celsius), "54.312");
    assert_eq!((text(12.0, Unit::Watts), text(1.0 / 3.0, Unit::None)), ("12.0".to_owned(), "0.333".to_owned()));
    assert_eq!(text(2.0 / 3.0, Unit::Ratio), "0.6667");
}

#[test]
fn both_layouts_have_the_same_content_and_end_with_a_newline() {
    let (snapshot, mut line, mut pretty) = (machine::n300(), Vec::new(), Vec::new());
    let document = SnapshotJson { snapshot: &snapshot, version: "0.1.0" };
    write(&document, Layout::Line, &mut line).unwrap();
    write(&document, Layout::Pretty, &mut pretty).unwrap();
    assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
    assert!(pretty.starts_with(b"{\n  \"schema\": 1,\n") && pretty.ends_with(b"}\n"));
    assert_eq!(serde_json::from_slice::<Value>(&line).unwrap(), serde_json::from_slice::<Value>(&pretty).unwrap());
}

#[test]
fn hostile_names_survive_as_data_and_do_no_harm() {
    let snapshot = machine::hostile();
    let document = parsed(&snapshot);
    let names: Vec<_> = snapshot.processes.iter().filter_map(|process| process.name.clone().ok()).collect();
    let written: Vec<_> = document["processes"].as_array().unwrap().iter().filter_map(|process| process["name"].as_str()).collect();
    assert_eq!(names, written);
}

proptest! {
    #![proptest_config(machine::cases())]

    #[test]
    fn banks_are_whole_with_any_live_buffers(snapshot in machine::any_hooked()) {
        let document = memory(&snapshot);
        check_element(&document);
        let blocks = document["blocks"].as_array().unwrap();
        for (kind, item) in document["allocators"][0]["kinds"].as_object().unwrap().iter().filter(|(_, item)| item["banks"].is_u64()) {
            let number = |name: &str| item[name].as_u64();
            prop_assert_eq!(number("allocated_per_bank").unwrap() + number("free_per_bank").unwrap(), number("bank_bytes").unwrap());
            prop_assert_eq!(number("free").unwrap(), number("free_per_bank").unwrap() * number("banks").unwrap());
            let Some(largest) = number("largest_free_per_bank") else {
                prop_assert!(number("count") > Some(0), "without a list only what is empty is known");
                continue;
            };
            prop_assert!(largest <= number("free_per_bank").unwrap());
            let of_kind: Vec<_> = blocks.iter().filter(|block| block["kind"] == *kind).collect();
            prop_assert_eq!(number("blocks"), Some(of_kind.len() as u64));
            let size = |block: &&Value| block["size"].as_u64().unwrap();
            let sum = |free: bool| of_kind.iter().copied().filter(|block| block["free"] == free).map(|block| size(&block)).sum::<u64>();
            prop_assert_eq!((Some(sum(false)), Some(sum(true))), (number("allocated_per_bank"), number("free_per_bank")));
            prop_assert_eq!(of_kind.iter().filter(|block| block["free"] == false).count() as u64, number("count").unwrap());
        }
    }

    #[test]
    fn random_machines_keep_the_promise(snapshot in machine::any_snapshot()) {
        check_element(&parsed(&snapshot));
    }
}

#[test]
fn the_time_of_a_host_named_time_is_found() {
    let written = r#"{"schema":1,"host":"time","time":"2026-11-15T08:12:45.120Z"}"#;
    assert_eq!(time_of(written), ttmon_model::units::UnixTime::parse_rfc3339("2026-11-15T08:12:45.120Z"));
    assert!(time_of(written).is_some() && time_of(r#"{"host":"time"}"#).is_none());
}

/// Checks that reading and writing returns the same document.
fn check_round_trip(snapshot: &Snapshot) {
    let written = to_string(&SnapshotJson { snapshot, version: "0.1.0" }, Layout::Line);
    let read = read(&written).unwrap();
    assert_eq!(to_string(&SnapshotJson { snapshot: &read, version: "0.1.0" }, Layout::Line), written);
    assert_eq!(time_of(&written), Some(read.time));
}

/// Checks the same for a document with all parts of `mem`. The keys of features may be in another order.
fn check_memory_round_trip(snapshot: &Snapshot) {
    let parts = MemoryParts { buffers: true, banks: true, blocks: true, ..MemoryParts::default() };
    let document = |snapshot: &Snapshot| -> (String, Value) {
        let text = to_string(&MemoryJson { snapshot: SnapshotJson { snapshot, version: "0.1.0" }, parts }, Layout::Line);
        let value = serde_json::from_str(&text).unwrap();
        (text, value)
    };
    let (written, value) = document(snapshot);
    assert_eq!(document(&read(&written).unwrap()).1, value);
}

#[test]
fn documents_are_read_back() {
    for (_, snapshot) in machine::all() {
        check_round_trip(&snapshot);
        check_memory_round_trip(&snapshot);
    }
}

/// A stack is listed once, even if several buffers have it, and long lists are truncated.
#[test]
fn stacks_of_buffers_are_kept() {
    let line = |line: u32| Arc::new(SourceLine { file: "/me/model.py".into(), line, function: "forward".into() });
    let stack = Arc::new(Stack::new(3, vec![line(7), line(9)]).unwrap());
    let mut snapshot = machine::hooked();
    snapshot.buffers.iter_mut().take(2).for_each(|buffer| buffer.buffer.stack = Some(stack.clone()));
    let text = |snapshot: &Snapshot| {
        let parts = MemoryParts { buffers: true, ..MemoryParts::default() };
        to_string(&MemoryJson { snapshot: SnapshotJson { snapshot, version: "0.1.0" }, parts }, Layout::Line)
    };
    let document: Value = serde_json::from_str(&text(&snapshot)).unwrap();
    let frame = |line: u32| serde_json::json!({"file": "/me/model.py", "line": line, "function": "forward"});
    assert_eq!(document["stacks"], serde_json::json!([{"pid": 4242, "stack": 3, "frames": [frame(7), frame(9)]}]));
    assert_eq!((&document["buffers"][0]["stack"], &document["buffers"][0]["line"]), (&3.into(), &frame(7)));
    let again = read(&text(&snapshot)).unwrap();
    assert_eq!(again.buffers[1].buffer.stack.as_deref(), Some(&*stack));
    let many: Vec<_> = (0..ttmon_model::limits::DOCUMENT_FRAMES_MAX).map(|number| line(u32::try_from(number).unwrap())).collect();
    snapshot.buffers[0].buffer.stack = Some(Arc::new(Stack::new(4, many).unwrap()));
    let document: Value = serde_json::from_str(&text(&snapshot)).unwrap();
    assert_eq!((document["stacks"].as_array().unwrap().len(), &document["stacks_left_out"]), (1, &1.into()));
}

#[test]
fn other_texts_are_rejected() {
    let good = to_string(&SnapshotJson { snapshot: &machine::n300(), version: "0.1.0" }, Layout::Line);
    assert!(matches!(read(&good[..good.len() / 2]), Err(ReadError::NotJson(_))));
    assert_eq!(read(&good.replace("\"schema\":1", "\"schema\":9")), Err(ReadError::Schema(9)));
    assert_eq!(read("{}"), Err(ReadError::Shape("schema")));
    assert_eq!(read("{\"schema\":1}"), Err(ReadError::Shape("devices")));
    assert_eq!(read(&good.replace("\"time\":\"2", "\"time\":\"x")), Err(ReadError::Shape("time")));
}

/// A hostile service sends millions of the smallest elements of each list. None is stored beyond the limits.
#[test]
fn documents_larger_than_those_of_any_host_are_refused() {
    use ttmon_model::limits::{DOCUMENT_ALLOCATORS_MAX, DOCUMENT_DEVICES_MAX, DOCUMENT_PROCESSES_MAX, DOCUMENT_USES_MAX};
    let document = |name: &str, element: &str, count: usize| {
        let list = vec![element; count].join(",");
        let lists = [("devices", "[]"), ("processes", "[]")].map(|(name, list)| format!("\"{name}\":{list}")).join(",");
        format!("{{\"schema\":1,\"host\":\"h\",\"time\":\"2026-11-16T00:00:00Z\",{lists},\"{name}\":[{list}]}}")
    };
    let allocator = "{\"id\":\"1.2.3\",\"pid\":1,\"kinds\":{}}";
    for (name, element, most) in [
        ("devices", "{\"id\":0}", DOCUMENT_DEVICES_MAX),
        ("processes", "{\"pid\":1,\"devices\":[]}", DOCUMENT_PROCESSES_MAX),
        ("allocators", allocator, DOCUMENT_ALLOCATORS_MAX),
    ] {
        assert!(read(&document(name, element, most)).is_ok(), "{name}");
        assert_eq!(read(&document(name, element, most + 1)), Err(ReadError::TooMuch(name)));
    }
    let uses = vec!["{\"id\":0}"; DOCUMENT_USES_MAX / 16].join(",");
    let process = format!("{{\"pid\":1,\"devices\":[{uses}]}}");
    assert!(read(&document("processes", &process, 16)).is_ok());
    assert_eq!(read(&document("processes", &process, 17)), Err(ReadError::TooMuch("devices of processes")));
}

/// A user can cause any number of problems. Beyond the limit, ttmon writes only their number. If another writer lists more, the reader
/// drops them.
#[test]
fn problems_have_a_limit() {
    use ttmon_model::limits::DOCUMENT_TEXTS_MAX;
    let problem = |number: usize| Problem { part: format!("process {number}"), reason: Missing::OutOfRange, detail: String::new() };
    let mut snapshot = machine::n300();
    snapshot.problems = (0..DOCUMENT_TEXTS_MAX).map(problem).collect();
    check_round_trip(&snapshot);
    snapshot.problems = (0..DOCUMENT_TEXTS_MAX + 9).map(problem).collect();
    let text = to_string(&SnapshotJson { snapshot: &snapshot, version: "0.1.0" }, Layout::Line);
    let problems = read(&text).unwrap().problems;
    assert_eq!(problems.len(), DOCUMENT_TEXTS_MAX);
    assert_eq!(problems.last().unwrap().detail, "10 more are not listed");
    let one = "{\"part\":\"process 0\",\"reason\":\"out_of_range\",\"detail\":\"\"}";
    let longer = text.replacen(one, &[one; 300].join(","), 1);
    assert_eq!(read(&longer).unwrap().problems.len(), DOCUMENT_TEXTS_MAX);
}

/// The processes of a device are also in the list of processes, so they are not read twice.
#[test]
fn a_device_may_have_thousands_of_processes() {
    let mut snapshot = machine::n300();
    let first = snapshot.processes[0].clone();
    snapshot.processes = (1..3000)
        .map(|pid| ttmon_model::Process { key: ttmon_model::identity::ProcessKey { pid, ..first.key }, ..first.clone() })
        .collect();
    let text = to_string(&SnapshotJson { snapshot: &snapshot, version: "0.1.0" }, Layout::Line);
    assert_eq!(read(&text).map(|read| read.processes.len()), Ok(2999));
}

/// A field that an older program did not write is missing. A field that a newer program added is skipped.
#[test]
fn other_versions_are_read() {
    let good = to_string(&SnapshotJson { snapshot: &machine::n300(), version: "0.1.0" }, Layout::Line);
    let other = good.replacen("\"power\":38.0", "\"wattage\":38.0", 1);
    assert_ne!(other, good);
    assert_eq!(read(&other).unwrap().devices[0].power, Err(Missing::NotExposed));
}

proptest! {
    #![proptest_config(machine::cases())]

    #[test]
    fn random_machines_are_read_back(snapshot in machine::any_snapshot()) {
        check_round_trip(&snapshot);
    }

    #[test]
    fn memory_is_read_back(snapshot in machine::any_hooked()) {
        check_memory_round_trip(&snapshot);
    }
}

#[test]
fn kernel_types_are_kept() {
    let mut types = KernelTypes::default();
    types.add(KernelType::Fabric, KernelUse { used: 57_344, count: 1 });
    types.add(KernelType::Dispatch, KernelUse { used: 94_208, count: 2 });
    let kernels = Figure { kernel_types: Some(Box::new(types)), ..Figure::used_only(151_552, Source::Server) };
    let mut snapshot = machine::n300();
    snapshot.devices[0].memory.kinds[Kind::Kernel].figure = kernels.clone();
    snapshot.processes[0].devices[0].kinds[Kind::Kernel] = kernels;
    check_round_trip(&snapshot);
    let written = parsed(&snapshot);
    let device = &written["devices"][0];
    let expected = serde_json::json!({"fabric": {"used": 57_344, "count": 1}, "dispatch": {"used": 94_208, "count": 2}});
    assert_eq!(device["memory"]["kinds"]["kernel"]["types"], expected);
    assert_eq!(device["processes"][0]["kinds"]["kernel"]["types"], expected);
    assert_eq!(device["memory"]["kinds"]["l1"].get("types"), None);
}
