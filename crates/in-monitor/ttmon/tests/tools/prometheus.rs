//! Prometheus scrapes a simulated host, and its answers must equal those of the API. `promtool` checks the text format and the rules.

mod pods;

use std::fs;
use std::fs::File;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use ttmon_testing::{Service, until};

use crate::engines::{PROMETHEUS, Prometheus, labelled, promtool, values};
use crate::{machine, repository, run, start_service, ttmon};

/// Both architectures, a remote chip, and a process with known memory.
const SPEC: &str = "n300,p150";

/// A service on a machine that stands still, so that both sources can be read one after the other, and a Prometheus that scrapes it.
struct Scraped {
    prometheus: Prometheus,
    service: Service,
    _root: TempDir,
}

impl Scraped {
    fn start() -> Self {
        let root = machine(SPEC);
        let service = start_service(&["--root", root.path().to_str().unwrap()]);
        let job = format!("- job_name: ttmon\n  static_configs:\n  - targets: ['127.0.0.1:{}']\n", service.port);
        Self { prometheus: start_prometheus(&job), service, _root: root }
    }
}

/// Starts a Prometheus, and waits until all jobs have been scraped.
fn start_prometheus(jobs: &str) -> Prometheus {
    let prometheus = Prometheus::start(&format!("global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n{jobs}"));
    let count = jobs.matches("job_name:").count();
    let is_up = |found: &[f64]| found.iter().filter(|value| **value == 1.0).count() == count;
    until("a scrape of every job", || values(prometheus.port, "ttmon_up").is_ok_and(|found| is_up(&found)));
    prometheus
}

/// Asserts that each query has one value, this one.
#[track_caller]
fn expect_values(prometheus: &Prometheus, queries: &[(&str, f64)]) {
    for (query, expected) in queries {
        assert_eq!(values(prometheus.port, query), Ok(vec![*expected]), "{query}");
    }
}

/// Asserts that `promtool` has nothing to say about the metrics of a service.
#[track_caller]
fn expect_clean_metrics(service: &Service) {
    let file = service.path("scrape");
    let text = service.unix("/metrics").body;
    assert!(text.contains("ttmon_process_info"), "{text}");
    fs::write(&file, text).unwrap();
    assert_eq!(run(PROMETHEUS.program("promtool").args(["check", "metrics"]).stdin(File::open(file).unwrap())), "");
}

#[test]
#[ignore = "needs Prometheus: cargo xtask ci --only prometheus"]
fn promtool_accepts_the_metrics_of_a_simulated_machine() {
    expect_clean_metrics(&start_service(&["--sim", "t3k", "--process-metrics"]));
}

/// A value that is missing in the API has no series.
#[test]
#[ignore = "needs Prometheus: cargo xtask ci --only prometheus"]
fn queries_and_the_api_have_the_same_value_for_each_device() {
    const PAIRS: [(&str, &str, f64); 8] = [
        ("ttmon_device_temperature_celsius", "/temperature", 1.0),
        ("ttmon_device_power_watts", "/power", 1.0),
        ("ttmon_device_voltage_volts", "/voltage", 1.0),
        ("ttmon_device_current_amperes", "/current", 1.0),
        ("ttmon_device_aiclk_hertz", "/aiclk_mhz", 1e6),
        ("ttmon_device_fan_rpm", "/fan_rpm", 1.0),
        ("ttmon_device_memory_total_bytes", "/memory/total", 1.0),
        ("ttmon_memory_used_bytes{kind=\"dram\"}", "/memory/kinds/dram/used", 1.0),
    ];
    let scraped = Scraped::start();
    let snapshot = scraped.service.json("/api/v1/snapshot");
    let devices = snapshot["devices"].as_array().unwrap();
    assert_eq!(devices.len(), 3);
    for (query, path, factor) in PAIRS {
        let found = labelled(scraped.prometheus.port, query).unwrap();
        for device in devices {
            let id = device["id"].to_string();
            let expected = device.pointer(path).and_then(Value::as_f64).map(|value| value * factor);
            let scraped = found.iter().find(|(labels, _)| labels["device"] == id).map(|(_, value)| *value);
            let is_same = match (expected, scraped) {
                (None, None) => true,
                (Some(expected), Some(scraped)) => (expected - scraped).abs() <= 1e-3 * factor,
                _ => false,
            };
            assert!(is_same, "{query} of device {id}: Prometheus has {scraped:?}, the API {expected:?}");
        }
    }
}

#[test]
#[ignore = "needs Prometheus: cargo xtask ci --only prometheus"]
fn sums_and_joins_count_each_device_once() {
    let scraped = Scraped::start();
    let chips = scraped.service.json("/api/v1/snapshot")["devices"].as_array().unwrap().len() as f64;
    expect_values(
        &scraped.prometheus,
        &[
            ("sum(ttmon_device_state)", chips),
            ("sum(ttmon_device_health)", chips),
            ("count(ttmon_device_info)", chips),
            ("count({__name__=~\"ttmon_.*_created\"}) or vector(0)", 0.0),
            ("count(ttmon_device_memory_used_bytes / ttmon_device_memory_total_bytes <= 1)", chips),
            ("sum(ttmon_device_state * on (device, asic_id) group_left (serial) ttmon_device_info)", chips),
        ],
    );
}

#[test]
#[ignore = "needs Prometheus: cargo xtask ci --only prometheus"]
fn promtool_accepts_the_builtin_rules() {
    let listed = run(&mut ttmon(&["alerts", "list", "--json", "--no-server"]));
    let document: Value = serde_json::from_str(&listed).unwrap();
    let rule = |rule: &Value| json!({"alert": rule["alert_name"], "expr": rule["promql"], "for": rule["for"]});
    let rules: Vec<Value> = document["rules"].as_array().unwrap().iter().map(rule).collect();
    assert!(!rules.is_empty());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rules.yml");
    // JSON is valid YAML.
    fs::write(&file, json!({"groups": [{"name": "ttmon", "rules": rules}]}).to_string()).unwrap();
    promtool(&["check", "rules"], &file);
}

#[test]
#[ignore = "needs Prometheus: cargo xtask ci --only prometheus"]
fn promtool_accepts_the_deployed_rules_and_configuration() {
    let check = |arguments: &[&str], path: &str| promtool(arguments, &repository("deploy").join(Path::new(path)));
    check(&["check", "rules"], "rules/ttmon-records.yml");
    check(&["check", "rules"], "rules/ttmon-alerts.yml");
    check(&["check", "config"], "prometheus/prometheus.yml");
}

#[test]
#[ignore = "needs Prometheus: cargo xtask ci --only prometheus"]
fn the_deployed_alerts_fire_as_their_tests_say() {
    promtool(&["test", "rules"], &repository("deploy/rules/ttmon-alerts-test.yml"));
}
