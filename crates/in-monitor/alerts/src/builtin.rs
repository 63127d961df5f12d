//! The built-in rules: limits that the device publishes itself, and memory.

use ttmon_model::duration;

use crate::condition::Condition;
use crate::rule::{Rule, Severity};

/// Columns: name, severity, when, for, clear, clear_for, summary.
type Row = (&'static str, Severity, &'static str, &'static str, &'static str, &'static str, &'static str);

const CRITICAL: Severity = Severity::Critical;
const WARNING: Severity = Severity::Warning;

// Names must not change, because configuration files and silences refer to them. Every field has a metric.
#[rustfmt::skip] // one row per line
const ROWS: &[Row] = &[
    ("hot", CRITICAL, "temperature >= temperature_limit", "0s", "temperature < 95% * temperature_limit", "1m", "temperature {temperature} of {temperature_limit}"),
    ("warm", WARNING, "temperature >= 90% * temperature_limit and temperature < temperature_limit", "1m", "temperature < 85% * temperature_limit", "1m", "temperature {temperature} of {temperature_limit}"),
    ("current-limit", CRITICAL, "current >= current_limit", "10s", "current < 90% * current_limit", "1m", "current {current} of {current_limit}"),
    ("throttling", WARNING, "throttling == true", "30s", "", "1m", "AI clock held at {aiclk_mhz} of {aiclk_limit_mhz}: temperature {temperature}, power {power}"),
    ("thermal-trip", CRITICAL, "increase(therm_trip_count, 10m) > 0", "0s", "", "1m", "thermal shutdown: {therm_trip_count} since power-on"),
    ("gone", CRITICAL, "state == \"gone\"", "0s", "", "10s", "unplugged, unbound, or the driver was unloaded"),
    ("unreadable", CRITICAL, "state == \"unreadable\"", "5s", "", "10s", "{health_reasons}"),
    ("reset", WARNING, "state == \"resetting\"", "0s", "", "10s", "the chip is being reset"),
    ("starting", WARNING, "state == \"starting\"", "2m", "", "10s", "the chip's firmware does not answer"),
    ("heartbeat-stopped", WARNING, "heartbeat_alive == false", "5s", "", "1m", "the firmware's heartbeat has stopped"),
    ("link-degraded", WARNING, "pcie_degraded == true and memory.holders > 0", "1m", "", "1m", "PCIe link has {pcie_width} of {pcie_width_max} lanes"),
    ("dram-full", WARNING, "memory.used >= 95% * memory.total", "0s", "memory.used < 90% * memory.total", "1m", "DRAM nearly full: {memory.used} of {memory.total}"),
    ("largest-free", WARNING, "memory.kinds.dram.largest_free_per_bank < 16M", "1m", "memory.kinds.dram.largest_free_per_bank >= 32M", "1m", "largest free DRAM block is {memory.kinds.dram.largest_free_per_bank} per bank; {memory.kinds.dram.free} free in total"),
    ("refusal", WARNING, "increase(memory.refusals, 5m) > 0", "0s", "", "1m", "an allocation was refused; {memory.refusals} refused in total"),
    ("growth", WARNING, "growth(memory.used, 30m) > 2% * memory.total", "10m", "", "10m", "DRAM in use keeps growing: {memory.used} of {memory.total}"),
    ("stale-holder", WARNING, "memory.stale_processes > 0 or memory.stale_bytes > 0", "1m", "", "1m", "left by ended processes: {memory.stale_processes} open device files, {memory.stale_bytes} reported"),
];

/// Returns the built-in rules. Panics if one cannot be parsed, because nobody would notice its absence.
pub fn builtin() -> Vec<Rule> {
    ROWS.iter().map(rule).collect()
}

fn rule(&(name, severity, when, for_, clear, clear_for, summary): &Row) -> Rule {
    let condition = |text| Condition::parse(text).unwrap_or_else(|error| panic!("built-in rule {name}: {text}: {error}"));
    let duration = |text| duration::parse(text).unwrap_or_else(|| panic!("built-in rule {name}: {text} is no duration"));
    Rule {
        name: name.to_owned(),
        when: condition(when),
        for_: duration(for_),
        clear: (!clear.is_empty()).then(|| condition(clear)),
        clear_for: duration(clear_for),
        severity,
        summary: summary.to_owned(),
        is_builtin: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::CLEAR_FOR_MIN;
    use crate::rule::is_name;
    use ttmon_model::fields::DeviceField;

    /// Configuration files and silences refer to these names.
    const NAMES: [&str; 16] = [
        "hot",
        "warm",
        "current-limit",
        "throttling",
        "thermal-trip",
        "gone",
        "unreadable",
        "reset",
        "starting",
        "heartbeat-stopped",
        "link-degraded",
        "dram-full",
        "largest-free",
        "refusal",
        "growth",
        "stale-holder",
    ];

    #[test]
    #[should_panic(expected = "built-in rule hot: temperature >> 1: expected")]
    fn a_condition_that_cannot_be_parsed_is_not_left_out() {
        rule(&("hot", CRITICAL, "temperature >> 1", "0s", "", "1m", ""));
    }

    #[test]
    #[should_panic(expected = "built-in rule hot: 1 minute is no duration")]
    fn a_duration_that_cannot_be_parsed_is_not_left_out() {
        rule(&("hot", CRITICAL, "temperature > 1", "1 minute", "", "1m", ""));
    }

    #[test]
    fn every_built_in_rule_is_there_and_has_a_metric() {
        let rules = builtin();
        let names: Vec<_> = rules.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(names, NAMES);
        for (index, rule) in rules.iter().enumerate() {
            assert!(is_name(&rule.name) && rule.clear_for >= CLEAR_FOR_MIN, "{}", rule.name);
            assert!(rules[..index].iter().all(|other| other.name != rule.name), "{} twice", rule.name);
            for condition in [Some(&rule.when), rule.clear.as_ref()].into_iter().flatten() {
                assert!(condition.promql().is_ok(), "{}: {:?}", rule.name, condition.promql());
            }
            for part in rule.summary.split('{').skip(1) {
                let name = part.split('}').next().expect("a name");
                assert!(DeviceField::find(name).is_some(), "{}: {name}", rule.name);
            }
        }
    }
}
