//! Reads the driver's files without ttmon, and compares a snapshot with them value by value.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::chips::CLASS;

/// Rules of the simulator that hold telemetry tags that change with time. The heartbeat continues.
pub(super) const HOLD_SENSORS: [&str; 6] = ["* 6 hold", "* 7 hold", "* 8 hold", "* 11 hold", "* 14 hold", "* 41 hold"];
const VERSION: &str = "/sys/module/tenstorrent/version";
const HEARTBEAT: &str = "heartbeat";

/// From this fan speed on, the firmware does not measure it.
const NO_FAN: u64 = 65_535;
/// Half of the last decimal that a snapshot prints.
const TOLERANCE: f64 = 5e-4;

/// The values of one device by their names in a snapshot. Null means that there is no file.
type Values = BTreeMap<&'static str, Value>;

pub(super) fn read_all() -> Result<BTreeMap<u64, Values>, String> {
    let entries = fs::read_dir(CLASS).map_err(|error| format!("{CLASS}: {error}"))?;
    let id = |name: String| name.strip_prefix("tenstorrent!")?.parse().ok();
    let ids = entries.flatten().filter_map(|entry| id(entry.file_name().into_string().ok()?));
    ids.map(|id| Ok((id, read(id)?))).collect()
}

fn read(id: u64) -> Result<Values, String> {
    let class = Path::new(CLASS).join(format!("tenstorrent!{id}"));
    let pci = fs::canonicalize(class.join("device")).map_err(|error| format!("device {id}: {error}"))?;
    let sensors = fs::read_dir(pci.join("hwmon")).ok().and_then(|mut names| Some(names.next()?.ok()?.path())).unwrap_or_default();
    let number = |path: &Path| text(path).and_then(|text| text.parse::<i64>().ok());
    let scaled = |file: &str, unit: f64| json!(number(&sensors.join(file)).map(|raw| raw as f64 / unit));
    let count = |path: &Path| json!(number(path));
    let words = |file: &str| json!(text(&class.join(file)));
    let fan = number(&sensors.join("fan1_input")).and_then(|rpm| u64::try_from(rpm).ok()).filter(|rpm| (1..NO_FAN).contains(rpm));
    let users = text(Path::new(&format!("/proc/driver/tenstorrent/{id}/pids"))).map(|pids| {
        let mut pids: Vec<&str> = pids.split_whitespace().collect();
        pids.sort_unstable();
        pids.dedup();
        pids.len()
    });
    let mut values = Values::from([
        ("id", json!(id)),
        ("bdf", json!(pci.file_name().and_then(|name| name.to_str()))),
        ("arch", json!(text(&pci.join("device")).and_then(|device| arch(&device)))),
        ("numa_node", json!(number(&pci.join("numa_node")).filter(|node| *node >= 0))),
        ("fan_rpm", json!(fan)),
        ("pcie_gen", json!(generation(&pci.join("current_link_speed")))),
        ("pcie_gen_max", json!(generation(&pci.join("max_link_speed")))),
        ("pcie_width", count(&pci.join("current_link_width"))),
        ("pcie_width_max", count(&pci.join("max_link_width"))),
        ("memory.holders", json!(users)),
    ]);
    for (name, file) in [("board", "tt_card_type"), ("serial", "tt_serial"), ("asic_id", "tt_asic_id"), ("firmware", "tt_fw_bundle_ver")]
        .into_iter()
        .chain([("m3_fw", "tt_m3app_fw_ver"), ("m3_bl_fw", "tt_m3bl_fw_ver"), ("arc_fw", "tt_arc_fw_ver")])
        .chain([("eth_fw", "tt_eth_fw_ver"), ("tt_flash", "tt_ttflash_ver")])
    {
        values.insert(name, words(file));
    }
    for (name, file) in [("aiclk_mhz", "tt_aiclk"), ("axiclk_mhz", "tt_axiclk"), ("arcclk_mhz", "tt_arcclk")]
        .into_iter()
        .chain([(HEARTBEAT, "tt_heartbeat"), ("therm_trip_count", "tt_therm_trip_count")])
    {
        values.insert(name, count(&class.join(file)));
    }
    for (name, limit, file, unit) in [
        ("temperature", "temperature_limit", "temp1", 1e3),
        ("power", "power_limit", "power1", 1e6),
        ("voltage", "voltage_limit", "in0", 1e3),
        ("current", "current_limit", "curr1", 1e3),
    ] {
        values.insert(name, scaled(&format!("{file}_input"), unit));
        values.insert(limit, scaled(&format!("{file}_max"), unit));
    }
    Ok(values)
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn arch(device: &str) -> Option<&'static str> {
    match device {
        "0x401e" => Some("wormhole"),
        "0xb140" => Some("blackhole"),
        _ => None,
    }
}

/// Parses `16.0 GT/s PCIe`.
fn generation(path: &Path) -> Option<u64> {
    let text = text(path)?;
    let speed = text.split_whitespace().next()?;
    (1..).zip(["2.5", "5.0", "8.0", "16.0", "32.0", "64.0"]).find_map(|(generation, known)| (known == speed).then_some(generation))
}

/// Returns all differences between a snapshot and the files, which were read before and after it.
pub(super) fn differences(before: &BTreeMap<u64, Values>, after: &BTreeMap<u64, Values>, document: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let version = json!(text(Path::new(VERSION)));
    if document["driver"] != version {
        found.push(format!("driver: expected {version}, found {}", document["driver"]));
    }
    let devices: Vec<&Value> =
        document["devices"].as_array().into_iter().flatten().filter(|device| device["location"] == "local").collect();
    if !devices.iter().filter_map(|device| device["id"].as_u64()).eq(before.keys().copied()) {
        found.push(format!("devices: expected {:?}, found {}", before.keys(), devices.len()));
    }
    for (id, values) in before {
        let Some(device) = devices.iter().find(|device| device["id"] == *id) else { continue };
        for (name, first) in values {
            let last = after.get(id).and_then(|values| values.get(name)).unwrap_or(&Value::Null);
            let shown = name.split('.').fold(*device, |value, part| &value[part]);
            let is_between = *name == HEARTBEAT && is_between(first, shown, last);
            if !is_equal(first, shown) && !is_equal(last, shown) && !is_between {
                found.push(format!("device {id} {name}: expected {first} (later {last}), found {shown}"));
            }
            if shown.is_null() && !device["missing"][*name].is_string() {
                found.push(format!("device {id} {name}: expected a reason why there is none, found {}", device["missing"][*name]));
            }
        }
    }
    found
}

fn is_equal(file: &Value, shown: &Value) -> bool {
    match (file.as_f64(), shown.as_f64()) {
        (Some(file), Some(shown)) => (file - shown).abs() < TOLERANCE,
        _ => file == shown,
    }
}

fn is_between(first: &Value, shown: &Value, last: &Value) -> bool {
    match (first.as_u64(), shown.as_u64(), last.as_u64()) {
        (Some(first), Some(shown), Some(last)) => (first..=last).contains(&shown),
        _ => false,
    }
}

/// Changes each value of the snapshot in turn, and checks that the comparison detects it. Returns the number of values.
pub(super) fn plant(before: &BTreeMap<u64, Values>, after: &BTreeMap<u64, Values>, document: &Value) -> Result<usize, String> {
    let mut planted = 0;
    for (index, device) in document["devices"].as_array().into_iter().flatten().enumerate() {
        let Some(values) = device["id"].as_u64().and_then(|id| before.get(&id)) else { continue };
        for name in values.keys() {
            let mut changed = document.clone();
            let value = name.split('.').fold(&mut changed["devices"][index], |value, part| &mut value[part]);
            *value = other(value);
            if differences(before, after, &changed).is_empty() {
                return Err(format!("the comparison does not notice another {name}"));
            }
            planted += 1;
        }
    }
    Ok(planted)
}

fn other(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64().unwrap_or_default() + 1e6),
        Value::String(text) => json!(format!("{text}?")),
        _ => json!(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> (BTreeMap<u64, Values>, Value) {
        let values = Values::from([
            ("temperature", json!(51.054)),
            (HEARTBEAT, json!(7)),
            ("fan_rpm", Value::Null),
            ("serial", json!("0100")),
            ("memory.holders", json!(0)),
        ]);
        let device = json!({"id": 0, "location": "local", "temperature": 51.054, "heartbeat": 8, "fan_rpm": null, "serial": "0100",
            "memory": {"holders": 0}, "missing": {"fan_rpm": "not_on_this_arch"}});
        (BTreeMap::from([(0, values)]), json!({"driver": text(Path::new(VERSION)), "devices": [device]}))
    }

    #[test]
    fn equal_values_have_no_difference_and_every_planted_one_is_found() {
        let (before, document) = machine();
        let mut after = before.clone();
        after.get_mut(&0).unwrap().insert(HEARTBEAT, json!(9));
        assert_eq!(differences(&before, &after, &document), Vec::<String>::new());
        assert_eq!(plant(&before, &after, &document), Ok(5));
    }

    #[test]
    fn differences_name_the_device_and_the_value() {
        let (before, mut document) = machine();
        document["devices"][0]["temperature"] = json!(51.055);
        document["devices"][0]["missing"] = json!({});
        let expected = [
            "device 0 fan_rpm: expected a reason why there is none, found null",
            "device 0 heartbeat: expected 7 (later 7), found 8",
            "device 0 temperature: expected 51.054 (later 51.054), found 51.055",
        ];
        assert_eq!(differences(&before, &before, &document), expected);
        document["devices"] = json!([]);
        assert_eq!(differences(&before, &before, &document), ["devices: expected [0], found 0"]);
    }
}
