//! Silences: alerts of a rule that are not sent for some time. Each silence is a small file of the service.

use serde_json::{Value, json};
use ttmon_model::units::UnixTime;

use crate::engine::Alert;
use crate::rule::is_name;

/// A silence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silence {
    /// The rule; `None` means all rules.
    pub rule: Option<String>,
    /// The device; `None` means all devices.
    pub device: Option<u32>,
    /// When it ends.
    pub until: UnixTime,
    /// Reason, for other users.
    pub comment: String,
}

impl Silence {
    /// Parses the text of a file, if it is a silence that this version can read.
    pub fn parse(text: &str) -> Option<Self> {
        let document: Value = serde_json::from_str(text).ok()?;
        let rule = match &document["rule"] {
            Value::Null => None,
            rule => Some(rule.as_str().filter(|name| is_name(name))?.to_owned()),
        };
        let device = match &document["device"] {
            Value::Null => None,
            device => Some(u32::try_from(device.as_u64()?).ok()?),
        };
        let until = UnixTime::parse_rfc3339(document["until"].as_str()?)?;
        Some(Self { rule, device, until, comment: document["comment"].as_str().unwrap_or_default().to_owned() })
    }

    /// Returns the document that [`Silence::parse`] reads.
    pub fn document(&self) -> Value {
        json!({"rule": self.rule, "device": self.device, "until": self.until.rfc3339(), "comment": self.comment})
    }

    /// Returns the name of its file. There is one file per rule and device.
    pub fn file_name(&self) -> String {
        let device = self.device.map_or_else(|| "all".to_owned(), |id| id.to_string());
        format!("{}.{device}.json", self.rule.as_deref().unwrap_or("ALL"))
    }

    /// Whether the silence applies to an alert now.
    pub fn covers(&self, alert: &Alert, now: UnixTime) -> bool {
        now < self.until
            && self.rule.as_ref().is_none_or(|rule| *rule == alert.rule.name)
            && self.device.is_none_or(|device| device == alert.device.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silences_are_written_and_read() {
        let until = UnixTime(1_700_000_000_000_000_000);
        for (rule, device, name) in
            [(Some("hot"), Some(3), "hot.3.json"), (None, None, "ALL.all.json"), (Some("hot"), None, "hot.all.json")]
        {
            let silence = Silence { rule: rule.map(str::to_owned), device, until, comment: "fan is \"out\"".to_owned() };
            assert_eq!(Silence::parse(&silence.document().to_string()), Some(silence.clone()));
            assert_eq!(silence.file_name(), name);
        }
        for text in
            ["", "[]", "{}", r#"{"rule": "../x", "until": "2026-01-01T00:00:00Z"}"#, r#"{"device": -1, "until": "2026-01-01T00:00:00Z"}"#]
        {
            assert_eq!(Silence::parse(text), None, "{text}");
        }
    }
}
