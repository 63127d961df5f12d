use super::*;
use crate::config::Config;
use crate::limits::START_GRACE;
use crate::outbox::Outbox;
use crate::silence::Silence;
use proptest::prelude::*;
use ttmon_model::sample::Origin;
use ttmon_model::snapshot::State;
use ttmon_model::units::Celsius;
use ttmon_model::{Missing, Reading};

fn rules(text: &str) -> Vec<Rule> {
    let mut config = Config::default();
    config.read(&format!("[alerts]\nbuiltin = false\n[[alerts.rule]]\nname = \"hot\"\n{text}")).expect("rules");
    config.rules
}

const HOT: &str = "when = \"temperature >= 90\"\nclear = \"temperature < 80\"\nclear_for = \"1m\"";

fn snapshot(second: u64, temperatures: &[Reading<f64>]) -> Snapshot {
    let device = |(id, temperature): (u32, &Reading<f64>)| Device {
        id: DeviceId(id),
        state: State::Ok,
        temperature: temperature.map(Celsius),
        asic_id: Ok(format!("{id:016X}")),
        ..Device::absent()
    };
    Snapshot {
        host: "machine".to_owned(),
        time: UnixTime(1_000_000_000 * (1_700_000_000 + second)),
        lists_time: UnixTime(0),
        driver: Err(Missing::NoSource),
        origin: Origin::Sim,
        devices: (0..).zip(temperatures).map(device).collect(),
        processes: Vec::new(),
        allocators: Vec::new(),
        buffers: Vec::new(),
        circulars: Vec::new(),
        denied_processes: 0,
        scan_age: Duration::ZERO,
        problems: Vec::new(),
    }
}

/// One device with one sample per second, and the recorded events.
struct TestDevice {
    engine: Engine,
    second: u64,
    changes: Vec<(u64, Phase)>,
}

impl TestDevice {
    fn new(text: &str, grace: u64) -> Self {
        Self { engine: Engine::new(rules(text), Duration::from_secs(grace)), second: 0, changes: Vec::new() }
    }

    fn see(&mut self, temperature: Reading<f64>, seconds: u64) {
        for _ in 0..seconds {
            self.second += 1;
            let events = self.engine.observe(Duration::from_secs(self.second), &snapshot(self.second, &[temperature]));
            self.changes.extend(events.iter().map(|event| (self.second, event.phase)));
        }
    }
}

#[test]
fn an_alert_fires_and_ends_with_hysteresis() {
    let mut hot = TestDevice::new(&format!("{HOT}\nfor = \"5s\""), 0);
    hot.see(Ok(70.0), 3);
    hot.see(Ok(95.0), 5);
    assert_eq!(hot.changes, [], "five seconds pass between six samples");
    hot.see(Ok(95.0), 1);
    assert_eq!(hot.changes, [(9, Phase::Firing)]);
    hot.see(Ok(85.0), 100);
    hot.see(Ok(75.0), 60);
    hot.see(Ok(85.0), 1);
    hot.see(Ok(75.0), 60);
    assert_eq!(hot.changes.len(), 1, "85 is not clear, and the minute begins anew");
    hot.see(Ok(75.0), 1);
    assert_eq!(hot.changes[1], (231, Phase::Resolved));
    let listing = hot.engine.listing();
    assert_eq!((listing.alerts.len(), listing.alerts[0].phase), (1, Phase::Resolved));
    // The end is the time when the condition became clear, not the end of `clear_for`.
    assert_eq!(listing.alerts[0].resolved, Some(UnixTime(1_000_000_000 * (1_700_000_000 + 171))));
    hot.see(Ok(75.0), 1000);
    assert_eq!(hot.engine.listing().alerts, []);
}

#[test]
fn a_condition_that_holds_too_shortly_is_no_alert() {
    let mut hot = TestDevice::new(&format!("{HOT}\nfor = \"5s\""), 0);
    for _ in 0..100 {
        hot.see(Ok(95.0), 5);
        hot.see(Ok(89.0), 1);
    }
    assert_eq!(hot.changes, []);
}

#[test]
fn a_missing_value_starts_no_alert_and_ends_a_firing_one() {
    let mut hot = TestDevice::new(HOT, 0);
    hot.see(Err(Missing::Timeout), 100);
    hot.see(Ok(95.0), 1);
    hot.see(Err(Missing::Timeout), 60);
    hot.see(Ok(95.0), 1);
    assert_eq!(hot.changes, [(101, Phase::Firing)]);
    hot.see(Err(Missing::Gone), 61);
    assert_eq!(hot.changes[1..], [(223, Phase::Resolved)]);
}

#[test]
fn nothing_fires_at_the_start_and_then_all_at_once() {
    let mut engine = Engine::new(rules(HOT), START_GRACE);
    let all = vec![Ok(95.0); 32];
    for second in 0..10 {
        assert_eq!(engine.observe(Duration::from_secs(second), &snapshot(second, &all)), []);
    }
    assert_eq!(engine.listing().alerts.len(), 32, "they are pending");
    assert_eq!(engine.observe(Duration::from_secs(10), &snapshot(10, &all)).len(), 32);
}

/// A restarted service neither sends an alert twice nor loses one.
#[test]
fn alerts_of_an_earlier_run_continue() {
    let mut before = TestDevice::new(HOT, 0);
    before.see(Ok(95.0), 5);
    let saved = before.engine.listing().saved();
    assert_eq!(saved.len(), 1);
    let mut after = TestDevice::new(HOT, 10);
    after.engine.restore(saved.clone());
    after.see(Ok(95.0), 30);
    assert_eq!(after.changes, []);
    assert_eq!(after.engine.listing().saved(), saved);
    after.see(Ok(70.0), 61);
    assert_eq!(after.changes, [(91, Phase::Resolved)]);
    let mut without = TestDevice::new("when = \"temperature > 1000\"", 0);
    without.engine.restore(vec![Saved { rule: "other".to_owned(), ..saved[0].clone() }]);
    without.see(Ok(95.0), 100);
    assert_eq!((without.changes, without.engine.listing().alerts.len()), (vec![], 0), "a rule that is no longer there");
}

#[test]
fn a_device_that_is_no_longer_listed_is_gone() {
    let mut engine = Engine::new(crate::builtin(), Duration::ZERO);
    let two = |second| snapshot(second, &[Ok(50.0), Ok(50.0)]);
    engine.observe(Duration::from_secs(1), &two(1));
    let one = snapshot(2, &[Ok(50.0)]);
    let events = engine.observe(Duration::from_secs(2), &one);
    let changes: Vec<_> = events.iter().map(|event| (event.rule.name.as_str(), event.device, event.phase)).collect();
    assert_eq!(changes, [("gone", DeviceId(1), Phase::Firing)]);
    assert!(events[0].chip.contains(&("asic_id", "0000000000000001".to_owned())), "{:?}", events[0].chip);
    for second in 3..30 {
        engine.observe(Duration::from_secs(second), &two(second));
    }
    assert_eq!(engine.listing().firing().count(), 0);
}

#[test]
fn another_chip_with_the_same_id_has_no_alerts() {
    let mut engine = Engine::new(rules(HOT), Duration::ZERO);
    engine.observe(Duration::from_secs(1), &snapshot(1, &[Ok(95.0)]));
    let mut other = snapshot(2, &[Ok(50.0)]);
    other.devices[0].asic_id = Ok("0123456789ABCDEF".to_owned());
    let events = engine.observe(Duration::from_secs(2), &other);
    assert_eq!(events.iter().map(|event| event.phase).collect::<Vec<_>>(), [Phase::Resolved]);
}

#[test]
fn silences_hold_back_and_lasting_alerts_are_sent_when_they_end() {
    let mut engine = Engine::new(rules(HOT), Duration::ZERO);
    let mut outbox = Outbox::default();
    let silence = |until: u64| Silence {
        rule: Some("hot".to_owned()),
        device: Some(0),
        until: UnixTime(1_000_000_000 * (1_700_000_000 + until)),
        comment: String::new(),
    };
    let mut step = |second: u64, temperature: f64, silences: &[Silence]| {
        let seen = snapshot(second, &[Ok(temperature)]);
        let events = engine.observe(Duration::from_secs(second), &seen);
        let messages = outbox.take(&events, &engine.listing(), silences, seen.time);
        messages.iter().map(|event| event.phase).collect::<Vec<_>>()
    };
    assert_eq!(step(1, 95.0, &[silence(10)]), []);
    assert_eq!(step(10, 95.0, &[silence(10)]), [Phase::Firing], "it has ended");
    assert_eq!(step(11, 95.0, &[silence(20)]), []);
    assert_eq!(step(12, 95.0, &[]), [], "it was announced");
    assert_eq!(step(13, 70.0, &[silence(1000)]), []);
    assert_eq!(step(80, 70.0, &[silence(1000)]), [Phase::Resolved]);
    assert_eq!(step(81, 95.0, &[silence(1000)]), []);
    assert_eq!(step(82, 70.0, &[silence(1000)]), []);
    assert_eq!(step(200, 70.0, &[silence(1000)]), [], "an alert that began and ended in silence is not sent");
}

/// Returns the number of messages, and the limit in docs/alerts.md: two messages per `clear_for`, for each rule and device.
fn messages_for(samples: impl IntoIterator<Item = bool>) -> (usize, u64) {
    let mut hot = TestDevice::new(HOT, 0);
    for is_hot in samples {
        hot.see(Ok(if is_hot { 95.0 } else { 70.0 }), 1);
    }
    (hot.changes.len(), 2 * (hot.second / 60 + 1))
}

#[test]
fn ten_thousand_flapping_samples_are_few_messages() {
    for period in [1, 2, 5, 30, 59, 60, 61, 62, 63, 90, 1000] {
        let (count, most) = messages_for((0..10_000).map(|second| second / period % 2 == 0));
        assert!(count as u64 <= most, "period {period}: {count} of {most}");
        assert!(count > 0, "period {period}");
    }
    assert_eq!(messages_for((0..10_000).map(|second| second % 2 == 0)).0, 1, "one that never calms down is one alert");
}

proptest! {
    #[test]
    fn any_flapping_is_bounded(samples in prop::collection::vec(any::<bool>(), 0..2000)) {
        let (count, most) = messages_for(samples);
        prop_assert!(count as u64 <= most);
    }
}
