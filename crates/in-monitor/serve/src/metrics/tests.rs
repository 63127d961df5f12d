use std::time::Duration;

use ttmon_model::Missing;

use super::*;
use crate::fixture::{all, machine};
use crate::service::Figures;

const FULL: Scope = Scope { detail: Detail::Full, has_processes: false };
const PER_PROCESS: Scope = Scope { detail: Detail::Full, has_processes: true };

/// The golden scrape. Dashboards rely on these names.
#[test]
fn the_scrape_equals_the_golden_file() {
    let own = ServiceFigures {
        version: "0.0.0",
        origin: "local",
        page: Some(PageAddress { address: ([127, 0, 0, 1], 9477).into(), is_tls: false }),
        is_fresh: true,
        age: Some(Duration::from_millis(250)),
        interval: Duration::from_secs(1),
        problems: Some(0),
        history_bytes: 1000,
        events: 3,
        sampler: Figures { duration: Duration::from_millis(4), samples: 12, cpu: Duration::from_millis(40), ..Figures::default() },
        allocation_counters: vec![("messages", 5), ("memory_refused", 0)],
        ..ServiceFigures::default()
    };
    for (name, dialect) in [("openmetrics", Dialect::Open), ("text", Dialect::Text)] {
        let text = machine_and(&machine(), &own, dialect);
        insta::assert_snapshot!(name, text);
    }
}

fn machine_and(snapshot: &Snapshot, own: &ServiceFigures, dialect: Dialect) -> String {
    let mut chips = Chips::default();
    chips.record(Duration::from_secs(10), snapshot);
    chips.record(Duration::from_secs(12), snapshot);
    super::machine(snapshot, &chips, dialect, PER_PROCESS) + &own.text(&Counters::default(), dialect, Detail::Full) + dialect.end()
}

/// Each family appears once and in one piece. Each series appears once, with at most six labels, or eight for an info. Values are numbers.
#[test]
fn every_scrape_keeps_the_rules() {
    for (name, snapshot) in all() {
        let text = machine_and(&snapshot, &ServiceFigures::default(), Dialect::Text);
        let mut families = Vec::new();
        let mut series = BTreeSet::new();
        let mut current = String::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                current = rest.split(' ').next().unwrap_or_default().to_owned();
                assert!(!families.contains(&current), "{name}: {current} twice");
                families.push(current.clone());
            } else if !line.starts_with('#') {
                let (key, value) = line.rsplit_once(' ').expect("a value");
                assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{name}: {line}");
                assert_eq!(key.split('{').next(), Some(current.as_str()), "{name}: {line}");
                assert!(series.insert(key.to_owned()), "{name}: {key} twice");
                let most = if current.ends_with("_info") { 8 } else { 6 };
                assert!(key.matches("=\"").count() <= most || key.contains('\\'), "{name}: {line}");
                assert!(!current.ends_with("_created"), "{name}: {line}");
            }
        }
    }
}

/// Both formats have the same series, so that a store sees the same series in either format.
#[test]
fn both_formats_have_the_same_series() {
    let series = |dialect| -> Vec<String> {
        let text = super::machine(&machine(), &Chips::default(), dialect, PER_PROCESS);
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    };
    assert_eq!(series(Dialect::Open), series(Dialect::Text));
}

#[test]
fn unknown_values_have_no_series() {
    let mut snapshot = machine();
    snapshot.devices[0].temperature = Err(Missing::Timeout);
    let text = super::machine(&snapshot, &Chips::default(), Dialect::Open, FULL);
    assert!(!text.contains("ttmon_device_temperature_celsius{device=\"0\""));
    assert!(text.contains("ttmon_device_temperature_celsius{device=\"1\""));
    assert!(!text.contains("ttmon_process_"));
}

/// Rules and joins of a store use labels. A reset changes a value, not the labels.
#[test]
fn labels_outlast_a_reset() {
    let mut chips = Chips::default();
    let before = machine();
    chips.record(Duration::from_secs(1), &before);
    let mut away = before.clone();
    let device = &mut away.devices[0];
    (device.state, device.asic_id, device.serial) = (State::Resetting, Err(Missing::Resetting), Err(Missing::Resetting));
    let keys = |snapshot: &Snapshot, name: &str| -> Vec<String> {
        let text = super::machine(snapshot, &chips, Dialect::Text, FULL);
        text.lines().filter(|line| line.starts_with(name)).filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())).collect()
    };
    for name in ["ttmon_device_state{", "ttmon_device_info{", "ttmon_workload_info{"] {
        assert_eq!(keys(&before, name), keys(&away, name));
    }
}

/// A host of 32 chips with all values except those of `--deep`: as many series as planned for a store.
#[test]
fn lean_series_are_few() {
    let snapshot = crate::fixture::with_devices(32);
    let mut chips = Chips::default();
    chips.record(Duration::from_secs(10), &snapshot);
    let series = |detail| {
        let scope = Scope { detail, has_processes: false };
        let own = ServiceFigures {
            alerts: AlertFigures { firing: vec![("hot".to_owned(), "critical", 0); 16], ..AlertFigures::default() },
            ..ServiceFigures::default()
        };
        let own = own.text(&Counters::default(), Dialect::Text, detail);
        let text = super::machine(&snapshot, &chips, Dialect::Text, scope) + &own;
        let lines = text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned);
        lines.collect::<Vec<String>>()
    };
    let (lean, full) = (series(Detail::Lean), series(Detail::Full));
    assert!(lean.len() <= 1_500 && lean.len() < full.len(), "{} of {}", lean.len(), full.len());
    assert!(lean.iter().all(|line| full.contains(line)), "lean has what full has not");
    assert!(!lean.iter().any(|line| line.starts_with("ttmon_http_") || line.starts_with("ttmon_process_")));
}

/// The rules for Prometheus find their series in both levels of detail.
#[test]
fn metrics_of_built_in_alerts_are_lean() {
    for rule in ttmon_alerts::builtin() {
        for name in rule.when.fields() {
            let field = ttmon_model::fields::DeviceField::find(&name).expect("a field");
            let is_lean = name == "state" || name == "health" || field.metric.is_some_and(|metric| metric.is_lean);
            assert!(is_lean, "{}: {name}", rule.name);
        }
    }
}
