//! `--deep` on simulated chips: all outputs with values that only the chip has.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::run::ttmon;

/// A board whose chip is in use from the first second; Blackhole has no idle power-down to wait for.
const SIM: &str = "--sim p150,procs=1 --seed 3";

fn device(arguments: &str) -> Value {
    ttmon(&format!("{arguments} {SIM}")).json()["devices"][0].clone()
}

#[test]
fn simulated_chips_are_read() {
    let deep = device("--deep --json");
    let number = |name: &str| deep[name].as_f64().unwrap_or_else(|| panic!("{name}: {}", deep["missing"][name]));
    assert!((0.0..=1.0).contains(&number("utilization")) && number("programs_per_s") >= 0.0, "{deep}");
    assert!(number("core_efficiency") <= number("utilization"), "{deep}");
    assert!(number("board_power") > deep["power"].as_f64().unwrap(), "{deep}");
    assert_eq!((&deep["tensix_cores"], &deep["gddr_trained"], &deep["gddr_speed_mts"]), (&120.into(), &true.into(), &16_000.into()));
    assert!(number("gddr_temperature") > deep["temperature"].as_f64().unwrap(), "{deep}");
    assert_eq!((&deep["eth_links_up"], deep["eth_links"].as_array().map(Vec::len)), (&0.into(), Some(14)));
    assert_eq!((&deep["throttle_reasons"], deep["queue_utilization"].as_array().map(Vec::len)), (&Value::Array(Vec::new()), Some(1)));
    // The firmware bundle is the same in the chip and in the driver's files.
    assert_eq!(deep["firmware"], "19.13.0.0");
}

#[test]
fn nothing_is_read_without_the_flag() {
    let plain = device("--json");
    let missing = plain["missing"].as_object().unwrap();
    let deep: Vec<&str> = missing.iter().filter(|(_, reason)| *reason == "needs_deep").map(|(name, _)| name.as_str()).collect();
    assert!(deep.len() >= 18 && deep.contains(&"utilization"), "{missing:?}");
    let table = ttmon(&format!("--ascii {SIM}")).stdout;
    assert!(!table.contains("Util") && !table.contains("deep"), "{table}");
}

#[test]
fn utilization_is_in_every_face() {
    let table = ttmon(&format!("--deep --ascii {SIM}")).stdout;
    let heading = table.lines().find(|line| line.contains("Util")).unwrap_or_else(|| panic!("{table}"));
    let end = heading.find("Util").unwrap() + 4;
    let row = table.lines().find(|line| line.contains("p150")).unwrap();
    assert!(row[..end].ends_with('%') && table.contains("deep"), "{table}");
    let query = ttmon(&format!("--deep -q -d UTILIZATION {SIM}")).stdout;
    let value = query.lines().find_map(|line| line.trim_start().strip_prefix("utilization: "));
    assert!(value.is_some_and(|value| value.parse::<f64>().is_ok()), "{query}");
    let csv = ttmon(&format!("--deep --query-gpu=utilization.gpu --format=csv,noheader {SIM}")).stdout;
    assert!(csv.trim().ends_with(" %") && csv.trim() != "N/A", "{csv}");
    // The second line of values is computed from the difference to the first sample.
    let lines = ttmon(&format!("dmon --deep -s u -c 3 -d 0.6 {SIM}")).stdout;
    let heading: Vec<&str> = lines.lines().next().unwrap().split_ascii_whitespace().collect();
    let column = heading.iter().position(|name| *name == "utilization").unwrap_or_else(|| panic!("{lines}"));
    // The heading begins with `#`, so it has one column more.
    let value = lines.lines().last().unwrap().split_ascii_whitespace().nth(column - 1).unwrap();
    assert!(value.parse::<f64>().is_ok(), "{lines}");
}

#[test]
fn a_chip_that_hangs_or_is_hot_says_so() {
    let reasons = |spec: &str| ttmon(&format!("--deep --json --sim {spec}")).json()["devices"][0].clone();
    assert_eq!(reasons("p150,procs=1,fault=garbage:0")["missing"]["board_power"], "out_of_range");
    assert_eq!(reasons("p150,procs=1,fault=reset:0")["missing"]["board_power"], "resetting");
    assert_eq!(reasons("p150,procs=1,fault=throttle:0")["throttle_reasons"], serde_json::json!(["temperature"]));
}

/// An idle Wormhole chip is read only after its power-down time is over. The simulation behaves in the same way.
#[test]
fn an_idle_wormhole_chip_is_waited_for() {
    let start = Instant::now();
    let json = ttmon("--deep --json --sim n300,idle").json();
    assert!(start.elapsed() >= Duration::from_secs(6), "{:?}", start.elapsed());
    let [local, remote] = [0, 1].map(|index| &json["devices"][index]);
    assert_eq!((&local["utilization"], &remote["missing"]["utilization"]), (&0.0.into(), &"remote_chip".into()));
    // The totals are computed from the cores that are not harvested. Without --deep, the product table gives the same totals.
    assert_eq!(local["tensix_cores"], 64);
}

#[test]
fn boards_are_not_cut_in_eighty_columns() {
    for columns in ["80", "120", "200"] {
        let mut command = crate::program::run::command("--deep --sim t3k,procs=1 --seed 3");
        let table = crate::program::run::ran(command.env("COLUMNS", columns).output().unwrap()).stdout;
        for gateway in 0..4 {
            assert!(table.contains(&format!("n300 R  via {gateway}")), "{table}");
        }
        let width = columns.parse::<usize>().unwrap();
        assert!(table.lines().all(|line| line.chars().count() <= width), "{table}");
    }
}
