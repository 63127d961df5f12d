//! A rule: when an alert begins, when it ends, how bad it is.

use std::time::Duration;

use ttmon_model::Device;
use ttmon_model::fields::{DeviceField, Value};
use ttmon_model::units::{Unit, size};

use crate::condition::Condition;
use crate::limits::{NAME_BYTES_MAX, SUMMARY_BYTES_MAX};

/// How bad an alert is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Deserves attention.
    Warning,
    /// Requires action.
    Critical,
}

impl Severity {
    /// Every one of them.
    pub const ALL: [Self; 3] = [Self::Info, Self::Warning, Self::Critical];

    /// The severity a word names.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|severity| severity.name() == name)
    }

    /// The word in files, messages and labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// One rule. It is judged for each device by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its name, unique among rules: `hot`.
    pub name: String,
    /// The condition that begins it.
    pub when: Condition,
    /// For how long that must hold.
    pub for_: Duration,
    /// The condition that ends it; without one, that `when` does not hold.
    pub clear: Option<Condition>,
    /// For how long that must hold.
    pub clear_for: Duration,
    /// How bad it is.
    pub severity: Severity,
    /// The message: text with `{FIELD}` for values.
    pub summary: String,
    /// Whether it comes with the program.
    pub is_builtin: bool,
}

/// Whether a text may name a rule or a receiver: lower-case letters, digits, `-` and `_`.
pub fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_plain) && text.as_bytes()[0].is_ascii_lowercase()
}

impl Rule {
    /// Its name as alert rules of Prometheus are named: `TtmonHeartbeatStopped`.
    pub fn alert_name(&self) -> String {
        let mut name = "Ttmon".to_owned();
        for word in self.name.split(['-', '_']) {
            let mut letters = word.chars();
            name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
            name.push_str(letters.as_str());
        }
        name
    }

    /// The summary with a device's present values, never empty. A missing value is replaced by its reason.
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
        // A list without entries, such as the reasons of a device that is readable again.
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
    match field.get(device) {
        Err(reason) => reason.name().to_owned(),
        Ok(Value::Text(text)) => text,
        Ok(Value::List(texts)) => texts.join(", "),
        Ok(Value::Bool(truth)) => truth.to_string(),
        Ok(Value::Time(time)) => time.rfc3339(),
        Ok(Value::Integer(bytes)) if field.unit == Unit::Bytes => size(bytes),
        Ok(value) => {
            let number = value.number().unwrap_or_default();
            match field.unit {
                Unit::Celsius => format!("{number:.0} °C"),
                Unit::Count | Unit::None => format!("{number}"),
                unit => format!("{} {}", (number * 100.0).round() / 100.0, unit.symbol()),
            }
        }
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
        rule.summary = "ä".repeat(1000);
        assert_eq!(rule.summary_of(&device).len(), SUMMARY_BYTES_MAX);
        rule.summary = "{health_reasons} ".to_owned();
        assert_eq!(rule.summary_of(&device), "temperature >= temperature_limit");
        rule.name = "heartbeat-stopped".to_owned();
        assert_eq!(rule.alert_name(), "TtmonHeartbeatStopped");
    }
}
