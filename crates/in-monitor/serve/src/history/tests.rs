use std::time::Duration;

use ttmon_model::fields::DeviceField;
use ttmon_model::units::Celsius;
use ttmon_model::{DeviceId, Missing, Snapshot};

use super::*;
use crate::fixture::{machine, with_devices};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn values(history: &History, name: &str, since: u64, step: Option<u64>) -> (u64, Vec<Option<f64>>) {
    let fields = vec![DeviceField::find(name).expect("a field")];
    let query = Query { since: seconds(since), step: step.map(seconds), fields, devices: vec![DeviceId(0)] };
    let response = history.read(&query);
    assert_eq!(response.points, history.size(&query).0);
    let values = response.series.into_iter().next().map_or(Vec::new(), |mut series| series.columns.remove(0));
    (response.start.as_secs(), values)
}

fn at_degrees(snapshot: &Snapshot, degrees: f64) -> Snapshot {
    let mut snapshot = snapshot.clone();
    snapshot.devices[0].temperature = Ok(Celsius(degrees));
    snapshot
}

#[test]
fn missing_samples_leave_gaps() {
    let snapshot = machine();
    let mut history = History::new(seconds(1));
    history.add(seconds(100), &at_degrees(&snapshot, 40.0));
    history.add(seconds(101), &at_degrees(&snapshot, 41.5));
    let mut silent = snapshot.clone();
    silent.devices[0].temperature = Err(Missing::Timeout);
    history.add(seconds(102), &silent);
    // There were no samples at 103 and 104.
    history.add(seconds(105), &at_degrees(&snapshot, 42.25));
    let expected = vec![Some(40.0), Some(41.5), None, None, None, Some(42.25)];
    assert_eq!(values(&history, "temperature", 0, None), (100, expected));
    assert_eq!(values(&history, "temperature", 104, None), (104, vec![None, Some(42.25)]));
    // The value of a step is the mean of its samples.
    assert_eq!(values(&history, "temperature", 100, Some(2)), (100, vec![Some(40.75), None, Some(42.25)]));
    assert_eq!(values(&history, "serial", 100, None).1, vec![None; 6]);
}

#[test]
fn old_seconds_become_minutes() {
    let snapshot = machine();
    let mut history = History::new(seconds(1));
    for second in 0..2 * 3600 {
        history.add(seconds(second), &at_degrees(&snapshot, (second / 60) as f64));
    }
    let (start, fine) = values(&history, "temperature", 3600, None);
    assert_eq!((start, fine.len(), fine[0], fine[3599]), (3600, 3600, Some(60.0), Some(119.0)));
    // Before the last hour, the step is a minute. The current minute is not included.
    let (start, coarse) = values(&history, "temperature", 600, None);
    assert_eq!((start, coarse.len(), coarse[0]), (600, 109, Some(10.0)));
}

/// A service that started recently has every second, for any requested span.
#[test]
fn a_short_history_has_every_second() {
    let snapshot = machine();
    let mut history = History::new(seconds(1));
    for second in 1025..1160 {
        history.add(seconds(second), &at_degrees(&snapshot, 40.0));
    }
    for since in [0, 560, 1024, 1025] {
        let (start, values) = values(&history, "temperature", since, None);
        assert_eq!((start, values.len(), values[134]), (1025, 135, Some(40.0)), "since {since}");
    }
    // In minutes, including the current one: 1020, 1080, 1140.
    assert_eq!(values(&history, "temperature", 0, Some(60)), (1020, vec![Some(40.0); 3]));
}

/// With several samples in a second, its value is their mean.
#[test]
fn a_second_is_the_mean_of_its_samples() {
    let snapshot = machine();
    let mut history = History::new(Duration::from_millis(250));
    for (millis, degrees) in [(100_000, 40.0), (100_250, 41.0), (100_500, 42.0), (101_000, 50.0)] {
        history.add(Duration::from_millis(millis), &at_degrees(&snapshot, degrees));
    }
    assert_eq!(values(&history, "temperature", 0, None), (100, vec![Some(41.0), Some(50.0)]));
}

#[test]
fn the_ring_of_a_day_overwrites_the_oldest() {
    let snapshot = machine();
    let mut history = History::new(seconds(60));
    for minute in 0..3 * 1440 {
        history.add(seconds(60 * minute), &at_degrees(&snapshot, minute as f64));
    }
    let (start, values) = values(&history, "temperature", 0, Some(60));
    assert_eq!((start, values.len()), (60 * (3 * 1440 - 1441), 1440));
    assert!(values.iter().zip((3 * 1440 - 1441)..).all(|(value, minute)| *value == Some(f64::from(minute))));
}

#[test]
fn another_chip_begins_a_new_history() {
    let snapshot = machine();
    let mut history = History::new(seconds(1));
    history.add(seconds(1), &at_degrees(&snapshot, 40.0));
    let mut other = at_degrees(&snapshot, 50.0);
    other.devices[0].asic_id = Ok("00000000DEADBEEF".to_owned());
    history.add(seconds(2), &other);
    assert_eq!(values(&history, "temperature", 1, None).1, vec![None, Some(50.0)]);
    // A device that is missing for a short time is the same when it returns.
    let mut away = other.clone();
    (away.devices[0].asic_id, away.devices[0].temperature) = (Err(Missing::Resetting), Err(Missing::Resetting));
    history.add(seconds(3), &away);
    history.add(seconds(4), &other);
    assert_eq!(values(&history, "temperature", 2, None).1, vec![Some(50.0), None, Some(50.0)]);
}

#[test]
fn thirty_two_devices_stay_below_the_bound() {
    let snapshot = with_devices(32);
    let mut history = History::new(seconds(1));
    // Every stored field has a value, including large values if possible.
    for second in [0, 61] {
        history.add(seconds(second), &snapshot);
    }
    assert!(history.bytes() < 20_000_000, "{} bytes", history.bytes());
    let before = history.bytes();
    for second in 62..4000 {
        history.add(seconds(second), &snapshot);
    }
    assert_eq!(history.bytes(), before);
}
