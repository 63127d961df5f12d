//! Alerts as JSON: for the API, for webhooks and commands, and for Alertmanager.

use std::time::Duration;

use serde_json::{Map, Value, json};
use ttmon_model::duration;
use ttmon_model::units::UnixTime;

use crate::engine::{Alert, Listing, Phase};
use crate::rule::Rule;
use crate::silence::Silence;

/// Version of the document for webhooks and commands. It increases with an incompatible change.
const SCHEMA: u64 = 1;

/// The sender of a message.
#[derive(Clone, Copy, Debug)]
pub struct Sender<'a> {
    /// Version of the program.
    pub version: &'a str,
    /// Name of the machine.
    pub host: &'a str,
    /// `local`, or `sim` for a simulated machine.
    pub origin: &'a str,
    /// Whether the message is only a test.
    pub is_test: bool,
}

/// Returns one alert as a document.
fn alert_document(alert: &Alert) -> Value {
    let time = |time: Option<UnixTime>| time.map(UnixTime::rfc3339);
    let chip = |name: &str| alert.chip.iter().find(|(known, _)| *known == name).map(|(_, value)| value);
    json!({
        "rule": alert.rule.name,
        "severity": alert.rule.severity.name(),
        "state": alert.phase.name(),
        "device": alert.device.0,
        "board": chip("board"),
        "bdf": chip("bdf"),
        "asic_id": chip("asic_id"),
        "since": alert.since.rfc3339(),
        "fired": time(alert.fired),
        "resolved": time(alert.resolved),
        "summary": alert.summary,
    })
}

/// Returns a rule as a document, with its PromQL.
fn rule_document(rule: &Rule) -> Value {
    json!({
        "name": rule.name,
        "severity": rule.severity.name(),
        "when": rule.when.to_string(),
        "for": duration::format(rule.for_),
        "clear": rule.clear.as_ref().map(ToString::to_string),
        "clear_for": duration::format(rule.clear_for),
        "summary": rule.summary,
        "builtin": rule.is_builtin,
        "alert_name": rule.alert_name(),
        // `null` if PromQL cannot express the condition.
        "promql": rule.when.promql().ok(),
    })
}

/// Returns the answer of the API: alerts, rules, silences.
pub fn listing_document<'a>(
    sender: Sender<'_>,
    now: UnixTime,
    rules: impl Iterator<Item = &'a Rule>,
    listing: &Listing,
    silences: &[Silence],
) -> Value {
    let alert = |alert: &Alert| {
        let mut document = alert_document(alert);
        let until = silences.iter().filter(|silence| silence.covers(alert, now)).map(|silence| silence.until).max();
        document["silenced_until"] = json!(until.map(UnixTime::rfc3339));
        document
    };
    json!({
        "schema": SCHEMA,
        "version": sender.version,
        "host": sender.host,
        "time": now.rfc3339(),
        "origin": sender.origin,
        "alerts": listing.alerts.iter().map(alert).collect::<Vec<_>>(),
        "rules": rules.map(rule_document).collect::<Vec<_>>(),
        "silences": silences.iter().filter(|silence| now < silence.until).map(Silence::document).collect::<Vec<_>>(),
    })
}

/// Returns the body of a message for a webhook or a command: alerts that fired or ended.
pub fn message_body(sender: Sender<'_>, now: UnixTime, alerts: &[Alert]) -> String {
    let message = json!({
        "schema": SCHEMA,
        "source": "ttmon",
        "version": sender.version,
        "host": sender.host,
        "time": now.rfc3339(),
        "origin": sender.origin,
        "test": sender.is_test,
        "alerts": alerts.iter().map(alert_document).collect::<Vec<_>>(),
    });
    format!("{message}\n")
}

/// Returns the body for Alertmanager's `POST /api/v2/alerts`. A firing alert ends after four times `resend`, unless it is sent again.
pub fn alertmanager_body<'a>(sender: Sender<'_>, now: UnixTime, alerts: impl Iterator<Item = &'a Alert>, resend: Duration) -> String {
    let later = now.0.saturating_add(u64::try_from(resend.as_nanos()).unwrap_or(u64::MAX).saturating_mul(4));
    let posted = |alert: &Alert| {
        let mut labels = Map::new();
        let mut add = |name: &str, value: &str| {
            labels.insert(name.to_owned(), json!(value));
        };
        add("alertname", &alert.rule.alert_name());
        add("severity", alert.rule.severity.name());
        add("source", "ttmon");
        add("instance", sender.host);
        add("device", &alert.device.to_string());
        alert.chip.iter().for_each(|(name, value)| add(name, value));
        if sender.origin != "local" {
            add("origin", sender.origin);
        }
        if sender.is_test {
            add("test", "true");
        }
        let ends = alert.resolved.filter(|_| alert.phase == Phase::Resolved).unwrap_or(UnixTime(later));
        json!({
            "labels": labels,
            "annotations": {
                "summary": format!("{} device {}: {}", sender.host, alert.device, alert.rule.name),
                "description": alert.summary,
            },
            "startsAt": alert.fired.unwrap_or(alert.since).rfc3339(),
            "endsAt": ends.rfc3339(),
        })
    };
    Value::Array(alerts.map(posted).collect()).to_string()
}
