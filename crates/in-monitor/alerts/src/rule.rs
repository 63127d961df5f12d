//! A rule: when an alert begins, when it ends, and its severity.

use std::time::Duration;

use ttmon_model::Device;
use ttmon_model::fields::{DeviceField, Value};
use ttmon_model::units::{Unit, size};

use crate::condition::Condition;
use crate::limits::{NAME_BYTES_MAX, SUMMARY_BYTES_MAX};

ttmon_model::named! {
    /// Severity of an alert.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Severity {
        /// For information.
        Info = "info",
        /// Deserves attention.
        Warning = "warning",
        /// Requires action.
        Critical = "critical",
    }
}

/// A rule. It is evaluated separately for each device.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Unique name: `hot`.
    pub name: String,
    /// The condition of an alert.
    pub when: Condition,
    /// How long `when` must be true before the alert fires.
    pub for_: Duration,
    /// The condition that ends an alert. If `None`, the alert ends when `when` is not true.
    pub clear: Option<Condition>,
    /// How long the end condition must be true.
    pub clear_for: Duration,
    /// Severity.
    pub severity: Severity,
    /// The message: text with `{FIELD}` for values.
    pub summary: String,
    /// Whether the rule is built in.
    pub is_builtin: bool,
}

/// Whether a text is a valid name of a rule or a receiver: lower-case letters, digits, `-` and `_`.
pub fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_plain) && text.as_bytes()[0].is_ascii_lowercase()
}

impl Rule {
    /// Returns the name in the format of Prometheus's alert rules: `TtmonHeartbeatStopped`.
    pub fn alert_name(&self) -> String {
        let mut name = "Ttmon".to_owned();
        for word in self.name.split(['-', '_']) {
            let mut letters = word.chars();
            name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
            name.push_str(letters.as_str());
        }
        name
    }

    /// Returns the summary with the current values of a device; never empty. A missing value is replaced by its reason.
    pub fn summary_of(&self, device: &Device) -> String {
        let mut text = String::new();
        let mut rest = self.summary.as_str();
        while let Some((before, behind)) = rest.split_once('{')
            && let Some((name, after)) = behind.split_once('}')
        {
            text.push_str(before);
            match DeviceField::find(name) {
                Some(field) => text.push_str(&shown(&field, device)),
                None => text.push_str(name),
            }
            rest = after;
        }
        text.push_str(rest);
        // The value is an empty list, such as the reasons of a device that is readable again.
        if text.trim().is_empty() {
            text = self.when.to_string();
        }
        let mut end = text.len().min(SUMMARY_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text
    }
}

fn shown(field: &DeviceField, device: &Device) -> String {
    let number = |number: f64| match field.unit {
        Unit::Celsius => format!("{number:.0} °C"),
        Unit::Count | Unit::None => format!("{number}"),
        unit => format!("{} {}", (number * 100.0).round() / 100.0, unit.symbol()),
    };
    match field.get(device) {
        Err(reason) => reason.name().to_owned(),
        Ok(Value::Text(text)) => text,
        Ok(Value::List(texts)) => texts.join(", "),
        Ok(Value::Bool(truth)) => truth.to_string(),
        Ok(Value::Time(time)) => time.rfc3339(),
        Ok(Value::Integer(bytes)) if field.unit == Unit::Bytes => size(bytes),
        Ok(Value::Integer(value)) => number(value as f64),
        Ok(Value::Float(value)) => number(value),
        Ok(Value::Numbers(values)) => values.into_iter().map(number).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmon_model::units::Celsius;

    #[test]
    fn names_are_plain() {
        for (name, is_good) in [("hot", true), ("my-rule_2", true), ("", false), ("Hot", false), ("2hot", false), ("a b", false)] {
            assert_eq!(is_name(name), is_good, "{name}");
        }
        assert!(!is_name(&"a".repeat(65)) && !is_name("../x"));
    }

    #[test]
    fn summaries_have_values_and_an_end() {
        let mut rule = crate::builtin().swap_remove(0);
        let mut device = Device::absent();
        device.temperature = Ok(Celsius(104.6));
        device.memory.dram.used = Ok(3 << 30);
        rule.summary = "at {temperature}, limit {temperature_limit}, {memory.used} used, {nonsense} {".to_owned();
        assert_eq!(rule.summary_of(&device), format!("at 105 °C, limit remote_chip, {} used, nonsense {{", size(3 << 30)));
        device.gddr_temperatures = Ok(vec![50.0, 61.4]);
        rule.summary = "GDDR {gddr_temperatures}".to_owned();
        assert_eq!(rule.summary_of(&device), "GDDR 50, 61.4");
        rule.summary = "ä".repeat(1000);
        assert_eq!(rule.summary_of(&device).len(), SUMMARY_BYTES_MAX);
        rule.summary = "{health_reasons} ".to_owned();
        assert_eq!(rule.summary_of(&device), "temperature >= temperature_limit");
        rule.name = "heartbeat-stopped".to_owned();
        assert_eq!(rule.alert_name(), "TtmonHeartbeatStopped");
    }
}
