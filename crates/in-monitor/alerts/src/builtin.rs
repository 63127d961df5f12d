//! The built-in rules. Their file has the format of users' own rules, so one parser reads both.

use crate::config::Config;
use crate::rule::Rule;

/// Returns the built-in rules.
pub fn builtin() -> Vec<Rule> {
    rules(include_str!("builtin.toml"))
}

/// Panics if a rule cannot be parsed, because nobody would notice its absence.
fn rules(text: &str) -> Vec<Rule> {
    let mut config = Config { rules: Vec::new(), receivers: Vec::new() };
    config.read(text).unwrap_or_else(|error| panic!("built-in rules: {error}"));
    config.rules.iter_mut().for_each(|rule| rule.is_builtin = true);
    config.rules
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
    #[should_panic(expected = "alerts.rule hot: when: expected")]
    fn a_condition_that_cannot_be_parsed_is_not_left_out() {
        rules("[[alerts.rule]]\nname = \"hot\"\nwhen = \"temperature >> 1\"");
    }

    #[test]
    #[should_panic(expected = "alerts.rule hot: for takes a duration")]
    fn a_duration_that_cannot_be_parsed_is_not_left_out() {
        rules("[[alerts.rule]]\nname = \"hot\"\nwhen = \"temperature > 1\"\nfor = \"1 minute\"");
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
