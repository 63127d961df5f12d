//! The document against what it promises, for every machine at hand and for random ones.

mod machine;

use proptest::prelude::*;
use serde_json::Value;
use ttmon_model::fields::{DEVICE, DeviceField, PROCESS};

use super::*;

fn parsed(snapshot: &Snapshot) -> Value {
    let text = to_string(&SnapshotJson { snapshot, version: "0.1.0" }, Layout::Line);
    assert!(!text.contains(|c: char| c.is_control() || c == '\u{202e}'), "{text}");
    let mut written = Vec::new();
    write(&SnapshotJson { snapshot, version: "0.1.0" }, Layout::Line, &mut written).unwrap();
    assert_eq!(String::from_utf8(written).unwrap(), text.clone() + "\n", "in pieces or as a whole");
    serde_json::from_str(&text).unwrap()
}

/// Walks an object. Elements of lists answer for themselves; all else answers to the `missing` around it.
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
    assert!(missing.values().all(|reason| ttmon_model::Missing::ALL.iter().any(|known| reason == known.name())));
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
fn keys_stand_in_the_order_of_the_table() {
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
fn the_seeds_shape_is_kept() {
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

#[test]
fn unmapped_ids_are_decimal_text() {
    let document = parsed(&machine::statuses());
    let unmapped = document["processes"].as_array().unwrap().iter().find_map(|process| process["unmapped"].get(0)).unwrap();
    assert_eq!(unmapped["id"], "9956278468");
    assert_eq!(unmapped["kinds"]["dram"]["used"], 1 << 30);
}

#[test]
fn numbers_look_sane() {
    assert_eq!(serde_json::to_string(&rounded(54_312.0 / 1e3)).unwrap(), "54.312");
    assert_eq!(serde_json::to_string(&rounded(12.0)).unwrap(), "12.0");
    assert_eq!(serde_json::to_string(&rounded(1.0 / 3.0)).unwrap(), "0.333");
}

#[test]
fn layouts_and_ends() {
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
    #[test]
    fn random_machines_keep_the_promise(snapshot in machine::any_snapshot()) {
        check_element(&parsed(&snapshot));
    }
}
