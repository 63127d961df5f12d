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

/// Why a text is not a silence that this version can read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the texts document the causes")]
pub enum SilenceError {
    #[error("no JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("{0} is missing or wrong")]
    Member(&'static str),
}

impl Silence {
    /// Parses the text of a file.
    pub fn parse(text: &[u8]) -> Result<Self, SilenceError> {
        let document: Value = serde_json::from_slice(text)?;
        let rule = match &document["rule"] {
            Value::Null => None,
            rule => Some(rule.as_str().filter(|name| is_name(name)).ok_or(SilenceError::Member("rule"))?.to_owned()),
        };
        let device = match &document["device"] {
            Value::Null => None,
            device => Some(device.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or(SilenceError::Member("device"))?),
        };
        let until = document["until"].as_str().and_then(UnixTime::parse_rfc3339).ok_or(SilenceError::Member("until"))?;
        // A comment that is no text is no reason to send the alert.
        let comment = document["comment"].as_str().unwrap_or_default().to_owned();
        Ok(Self { rule, device, until, comment })
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
            assert_eq!(Silence::parse(silence.document().to_string().as_bytes()).expect("a silence"), silence);
            assert_eq!(silence.file_name(), name);
        }
        let plain = Silence::parse(br#"{"until": "2023-11-14T22:13:20Z"}"#).expect("a silence");
        assert_eq!(plain, Silence { rule: None, device: None, until, comment: String::new() });
        let other = br#"{"until": "2026-11-16T10:00:00Z", "comment": 5}"#;
        assert_eq!(Silence::parse(other).unwrap().comment, "");
        for (text, why) in [
            ("", "no JSON: EOF while parsing a value at line 1 column 0"),
            ("[]", "until is missing or wrong"),
            ("{}", "until is missing or wrong"),
            (r#"{"until": "tomorrow"}"#, "until is missing or wrong"),
            (r#"{"rule": "../x", "until": "2026-01-01T00:00:00Z"}"#, "rule is missing or wrong"),
            (r#"{"device": -1, "until": "2026-01-01T00:00:00Z"}"#, "device is missing or wrong"),
        ] {
            assert_eq!(Silence::parse(text.as_bytes()).expect_err(text).to_string(), why, "{text}");
        }
    }
}
