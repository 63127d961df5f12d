//! Output formats that scripts rely on.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Map, Value};

use crate::program::run::{command, root, ttmon_at};

/// Checks that every reason has a null value, and every null a reason in the nearest enclosing object with reasons.
fn check_reasons(value: &Value, path: &str, reasons: &Map<String, Value>) {
    match value {
        Value::Object(object) => {
            let own = object.get("missing").and_then(Value::as_object);
            for (path, reason) in own.into_iter().flatten() {
                let found = path.split('.').try_fold(value, |value, key| value.get(key));
                assert_eq!(found, Some(&Value::Null), "{path} is {reason}");
            }
            let (path, reasons) = own.map_or((path, reasons), |own| ("", own));
            for (key, value) in object.iter().filter(|(key, _)| *key != "missing") {
                check_reasons(value, &if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, reasons);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| check_reasons(value, path, reasons)),
        Value::Null => assert!(reasons.contains_key(path), "{path} is absent without a reason"),
        _ => {}
    }
}

#[test]
fn json() {
    for spec in ["n150", "t3k", "p300", "galaxy-bh", "n300,p150,fault=gone:0,fault=garbage:1"] {
        let root = root(spec);
        let json = ttmon_at(root.path(), "--json").json();
        assert_eq!((&json["schema"], &json["origin"]), (&1.into(), &"local".into()), "{spec}");
        check_reasons(&json, "", &Map::new());
        for device in json["devices"].as_array().unwrap() {
            for field in [
                "id",
                "metal_id",
                "name",
                "arch",
                "board",
                "location",
                "bdf",
                "serial",
                "state",
                "health",
                "temperature",
                "power",
                "memory",
                "processes",
                "missing",
            ] {
                assert!(device.get(field).is_some(), "{spec}: {field}");
            }
        }
    }
}

#[test]
fn a_stream_of_json_has_one_object_a_line_and_rates_from_the_second_on() {
    let root = root("n150");
    let mut child = command("-w -r 60 --json").arg("--root").arg(root.path()).stdout(Stdio::piped()).spawn().unwrap();
    let lines: Vec<Value> =
        BufReader::new(child.stdout.take().unwrap()).lines().take(2).map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(lines[0]["devices"][0]["missing"]["pcie_to_device_bytes_per_s"], "first_sample");
    assert!(lines[1]["devices"][0]["pcie_to_device_bytes_per_s"].is_number(), "{}", lines[1]);
}

/// If a rate is requested by name, the command takes a second sample.
#[test]
fn csv() {
    let root = root("n300");
    let ran = ttmon_at(root.path(), "--fields id,temperature,memory.used,pcie_to_device_bytes_per_s,heartbeat_alive -d 0");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines[0], "id, temperature [C], memory.used [B], pcie_to_device_bytes_per_s [B/s], heartbeat_alive");
    let cells: Vec<&str> = lines[1].split(", ").collect();
    assert_eq!((lines.len(), cells[0], cells[2], cells[3]), (2, "0", "0", "0.0"), "{}", lines[1]);
    assert_eq!(cells[4], "false", "the tree stands still");
    let remote = ttmon_at(root.path(), "--fields id,temperature --format csv,noheader,nounits -d 1");
    assert_eq!(remote.stdout, "1, N/A\n");
}

#[test]
fn nvidia_smi_habits() {
    let root = root("n300");
    let ran = ttmon_at(root.path(), "--query-gpu=index,name,memory.total,memory.used,temperature.gpu,utilization.gpu --format=csv -i 1");
    assert_eq!(
        ran.stdout,
        "index, name, memory.total [MiB], memory.used [MiB], temperature.gpu, utilization.gpu [%]\n\
         1, Wormhole_B0, 12288 MiB, 0 MiB, N/A, N/A\n"
    );
    let apps = ttmon_at(root.path(), "--query-compute-apps=pid,used_memory --format=csv,noheader");
    assert_eq!((apps.code, apps.stdout.as_str()), (0, ""));
}

#[test]
fn a_query_explains_what_is_missing() {
    let root = root("n300");
    let all = ttmon_at(root.path(), "-q -d 1").stdout;
    assert!(all.contains("temperature: N/A (remote_chip"), "{all}");
    let some = ttmon_at(root.path(), "-q -d TEMPERATURE,0").stdout;
    assert!(some.contains("temperature_limit") && !some.contains("firmware") && !some.contains("device 1"), "{some}");
    std::fs::write(root.path().join("sys/module/tenstorrent/version"), "2.4.1\n").unwrap();
    std::fs::remove_file(root.path().join("sys/class/tenstorrent/tenstorrent!0/tt_heartbeat")).unwrap();
    let old = ttmon_at(root.path(), "-q -d 0").stdout;
    assert!(old.contains("2.7.0") && old.contains("2.4.1"), "{old}");
}

#[test]
fn a_table_in_a_pipe_is_80_columns_without_escapes() {
    for spec in ["n150", "t3k", "galaxy"] {
        let root = root(spec);
        let table = ttmon_at(root.path(), "").stdout;
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
        assert!(!table.contains('\x1b'));
        let ascii = ttmon_at(root.path(), "--ascii").stdout;
        assert!(ascii.is_ascii(), "{ascii}");
        let locale = command("").arg("--root").arg(root.path()).env("LANG", "C").output().unwrap();
        assert!(locale.stdout.is_ascii());
    }
    assert!(ttmon_at(root("n300").path(), "--color always").stdout.contains('\x1b'), "the remote chip's absent values are dim");
}

#[test]
fn a_file_is_written_whole() {
    let root = root("n150");
    let file = root.path().join("out.json");
    let ran = ttmon_at(root.path(), &format!("--json -f {}", file.display()));
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""));
    let json: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(json["schema"], 1);
}

/// Hundreds of programs with thousands of mappings each quickly exceed 64 MiB.
#[test]
fn the_mappings_of_many_processes() {
    let root = root("n150,idle");
    let maps = root.path().join("maps");
    std::fs::write(&maps, "7f0000000000-7f0000001000 r-xp 00000000 08:01 77  /usr/lib/libc.so.6\n".repeat(60_000)).unwrap();
    for pid in 1..=20 {
        let process = root.path().join(format!("proc/{pid}"));
        std::fs::create_dir_all(process.join("fd")).unwrap();
        std::fs::hard_link(&maps, process.join("maps")).unwrap();
    }
    let ran = ttmon_at(root.path(), "mem --json");
    assert_eq!((ran.code, ran.json()["devices"].as_array().map(Vec::len)), (0, Some(1)), "{}", ran.stderr);
}

/// A fixture has no device node, and a plain file is not a device. Only the driver's node is ever read.
#[test]
fn deep_needs_the_device_node() {
    let root = root("n300");
    let reasons = |arguments: &str| {
        let json = ttmon_at(root.path(), arguments).json();
        check_reasons(&json, "", &Map::new());
        let reason = |device: &Value| device["missing"]["utilization"].as_str().unwrap_or_default().to_owned();
        json["devices"].as_array().unwrap().iter().map(reason).collect::<Vec<_>>()
    };
    assert_eq!(reasons("--json"), ["needs_deep", "remote_chip"]);
    assert_eq!(reasons("--json --deep"), ["no_permission", "remote_chip"]);
    let nodes = root.path().join("dev/tenstorrent");
    std::fs::create_dir_all(&nodes).unwrap();
    std::fs::write(nodes.join("0"), "").unwrap();
    assert_eq!(reasons("--json --deep"), ["not_exposed", "remote_chip"]);
    let table = ttmon_at(root.path(), "--deep").stdout;
    assert!(table.contains("Util"), "{table}");
}
