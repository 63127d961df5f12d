use super::*;
use proptest::prelude::*;
use ttmon_model::snapshot::State;
use ttmon_model::units::Celsius;
use ttmon_model::{Kind, Missing};

const AT: Duration = Duration::from_secs(1000);

fn device() -> Device {
    let mut device = Device::absent();
    (device.temperature, device.temperature_limit) = (Ok(Celsius(84.0)), Ok(Celsius(100.0)));
    device.state = State::Ok;
    device.heartbeat_alive = Ok(false);
    device.via = Err(Missing::NoSource);
    (device.memory.dram.used, device.memory.dram.total) = (Ok(11 << 30), Ok(12 << 30));
    device.memory.kinds[Kind::Dram].largest_free_per_bank = Ok(8 << 20);
    device
}

fn evaluated(text: &str) -> Option<bool> {
    let condition = Condition::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
    condition.evaluate(AT, &device(), &mut condition.windows())
}

#[test]
fn conditions_are_evaluated() {
    for (text, expected) in [
        ("temperature >= 84", Some(true)),
        ("temperature > 84", Some(false)),
        ("temperature>=0.8*temperature_limit", Some(true)),
        ("temperature >= 90% * temperature_limit", Some(false)),
        ("temperature < temperature_limit and state == \"ok\"", Some(true)),
        ("state != \"ok\"", Some(false)),
        ("heartbeat_alive == false", Some(true)),
        ("memory.used >= 10.5G", Some(true)),
        ("memory.kinds.dram.largest_free_per_bank < 16M", Some(true)),
        ("power > 1", None),
        ("power > 1 and temperature > 100", Some(false)),
        ("power > 1 and temperature > 80", None),
        ("power > 1 or temperature > 80", Some(true)),
        ("temperature > power", None),
        ("increase(therm_trip_count, 5m) > 0", None),
        ("increase(temperature, 5m) > 0", Some(false)),
        ("growth(memory.used, 30m) > 1G", None),
        ("board == \"n300\"", None),
    ] {
        assert_eq!(evaluated(text), expected, "{text}");
    }
}

#[test]
fn invalid_conditions_are_refused_with_the_reason() {
    for (text, why) in [
        ("", "expected the name of a field, found the end"),
        ("temperature", "expected a comparison such as >=, found the end"),
        ("temperature >", "expected a number, a text, true, false or a field; found the end"),
        ("temprature > 5", "no field temprature (ttmon --help-fields lists them)"),
        ("temperature > 5 and", "expected the name of a field, found the end"),
        ("temperature > 5 6", "expected and, or, or the end; found 6"),
        ("temperature = 5", "unexpected character '='"),
        ("temperature > 5x", "5x is no number, size or percentage"),
        ("temperature > 1e9", "1e9 is no number, size or percentage"),
        ("temperature > \"hot", "a text without its closing quote"),
        ("state > \"ok\"", "a text is compared with == or !=, not >"),
        ("increase(state, 5m) == \"ok\"", "increase and growth are numbers, not text"),
        ("increase(memory.refusals) > 0", "expected ,, found )"),
        ("increase(memory.refusals, 5) > 0", "expected a duration of 30s to 7d, found 5"),
        ("5 < temperature", "expected the name of a field, found 5"),
        ("temperature > 2 * 5", "expected a field after *, found 5"),
        ("temperature > 5; rm", "unexpected character ';'"),
    ] {
        assert_eq!(Condition::parse(text).map_err(|error| error.to_string()).err().as_deref(), Some(why), "{text}");
    }
    let long = vec!["temperature > 5"; 17].join(" and ");
    assert!(Condition::parse(&long).is_err() && Condition::parse(&"x".repeat(2000)).is_err());
}

#[test]
fn conditions_have_a_meaning_in_promql() {
    for (text, expected) in [
        ("temperature >= 0.95 * temperature_limit", "ttmon_device_temperature_celsius >= (0.95 * ttmon_device_temperature_limit_celsius)"),
        ("aiclk_mhz < 500", "ttmon_device_aiclk_hertz < 500000000"),
        ("state == \"gone\"", "ttmon_device_state{state=\"gone\"} == 1"),
        ("heartbeat_alive == false", "ttmon_device_heartbeat_alive == 0"),
        (
            "memory.kinds.dram.used > 2G and memory.used > memory.total",
            "ttmon_memory_used_bytes{kind=\"dram\"} > 2147483648 and on (instance, device) \
             ttmon_device_memory_used_bytes > (ttmon_device_memory_total_bytes)",
        ),
        ("increase(memory.refusals, 5m) > 0", "increase(ttmon_device_memory_refusals_total[5m]) > 0"),
        (
            "growth(memory.used, 30m) > 2% * memory.total",
            "(min_over_time(ttmon_device_memory_used_bytes[30m]) - max_over_time(ttmon_device_memory_used_bytes[30m] offset 30m)) > \
             (0.02 * ttmon_device_memory_total_bytes)",
        ),
    ] {
        assert_eq!(Condition::parse(text).expect("a condition").promql().as_deref(), Ok(expected), "{text}");
    }
    let promql = |text| Condition::parse(text).expect("a condition").promql();
    assert_eq!(promql("board == \"n300\""), Err(PromqlError::Text("board".to_owned())));
    assert_eq!(promql("heartbeat > 5"), Err(PromqlError::NoMetric("heartbeat".to_owned())));
}

/// The alert belongs to the gateway.
#[test]
fn a_remote_chip_does_not_repeat_the_state_of_its_gateway() {
    let condition = Condition::parse("state == \"gone\"").expect("a condition");
    let mut chip = vanished(DeviceId(5));
    assert_eq!(condition.evaluate(AT, &chip, &mut []), Some(true));
    chip.via = Ok(DeviceId(0));
    assert_eq!(condition.evaluate(AT, &chip, &mut []), None);
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,60}", near in "(temperature|state|and|or|increase|growth|[ ()>=<!*,\"0-9a-z.%]){0,20}") {
        for text in [text, near] {
            if let Ok(condition) = Condition::parse(&text) {
                let _ = condition.evaluate(AT, &device(), &mut condition.windows());
                let _ = condition.promql();
                prop_assert_eq!(Condition::parse(&condition.to_string()).map(|again| again.to_string()), Ok(condition.to_string()));
            }
        }
    }
}
