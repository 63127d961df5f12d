//! The table `[alerts]` of the configuration file.
//!
//! ```toml
//! [[alerts.rule]]
//! name = "too-warm"
//! when = "temperature >= 85"
//! for = "1m"
//! clear = "temperature < 80"
//! severity = "warning"
//!
//! [[alerts.webhook]]
//! url_file = "/etc/ttmon/webhook.url"
//! ```

use std::path::PathBuf;
use std::time::Duration;

use toml::{Table, Value};
use ttmon_model::duration;

use crate::builtin::builtin;
use crate::condition::{Condition, ConditionError};
use crate::limits::{
    ARGUMENTS_MAX, CLEAR_FOR_DEFAULT, CLEAR_FOR_MIN, COMMAND_TIMEOUT_DEFAULT, COMMAND_TIMEOUT_MAX, DURATION_MAX, RECEIVERS_MAX,
    RESEND_DEFAULT, RESEND_RANGE, RULES_MAX,
};
use crate::rule::{Rule, Severity, is_name};

/// Rules and receivers.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Built-in rules and rules of files.
    pub rules: Vec<Rule>,
    /// The receivers.
    pub receivers: Vec<Receiver>,
}

/// A receiver of alerts.
#[derive(Clone, Debug, PartialEq)]
pub struct Receiver {
    /// Its name in metrics and messages.
    pub name: String,
    /// Minimum severity of its alerts.
    pub severity: Severity,
    /// How alerts are delivered.
    pub how: Delivery,
}

/// How alerts are delivered to a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Starts a program, which reads the message.
    Command {
        /// Path of the program and its arguments.
        argv: Vec<String>,
        /// Time limit of the program.
        timeout: Duration,
    },
    /// Posts the message.
    Webhook(PostTarget),
    /// Posts alerts to an Alertmanager repeatedly. The address has no path of the API.
    Alertmanager {
        /// The Alertmanager.
        target: PostTarget,
        /// Interval between two posts.
        resend: Duration,
    },
}

/// An address to which messages are posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostTarget {
    /// The address.
    pub url: UrlFrom,
    /// File with a token for the header `Authorization: Bearer`.
    pub bearer_file: Option<PathBuf>,
    /// Certificates to trust instead of the system's.
    pub ca: Option<PathBuf>,
}

/// The source of an address. Some addresses are secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UrlFrom {
    /// The configuration has the address.
    Text(String),
    /// A file that only its owner can read has the address.
    File(PathBuf),
}

/// Why the table is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the texts document the causes")]
pub enum ConfigError {
    #[error(transparent)]
    Toml(#[from] toml::de::Error),
    #[error("alerts is a table: [alerts]")]
    NoTable,
    #[error("alerts.{0}: unknown key (builtin, rule, command, webhook, alertmanager)")]
    UnknownKey(String),
    #[error("alerts.{0} is a list of tables: [[alerts.{0}]]")]
    NoList(String),
    #[error("alerts.{list} {entry}: {why}")]
    Entry { list: String, entry: String, why: Box<Self> },
    #[error("more than {RULES_MAX} rules")]
    ManyRules,
    #[error("more than {RECEIVERS_MAX} receivers")]
    ManyReceivers,
    #[error("name takes lower-case letters, digits, - and _, at most 64")]
    Name,
    #[error("{0}: {1}")]
    Condition(&'static str, ConditionError),
    #[error("when is missing, and no built-in rule has this name")]
    NoCondition,
    #[error("another receiver has this name")]
    SameName,
    #[error("argv takes a list of texts, the first of which is the absolute path of a program; there is no shell")]
    Arguments,
    #[error("unknown key {0} (there are {1})")]
    UnknownKeyOfEntry(String, String),
    #[error("{0} takes {1}")]
    Value(&'static str, String),
    #[error("give either url or url_file")]
    Url,
}

impl Default for Config {
    /// Returns the built-in rules, without receivers.
    fn default() -> Self {
        Self { rules: builtin(), receivers: Vec::new() }
    }
}

impl Config {
    /// Reads a whole configuration file and adds its table `alerts`, if there is one. Rules with the name of an existing rule change or
    /// replace it; receivers are added.
    pub fn read(&mut self, text: &str) -> Result<(), ConfigError> {
        let file: Table = text.parse()?;
        let Some(table) = file.get("alerts") else { return Ok(()) };
        let Some(table) = table.as_table() else { return Err(ConfigError::NoTable) };
        if Keys(table).truth("builtin")? == Some(false) {
            self.rules.retain(|rule| !rule.is_builtin);
        }
        for (key, value) in table.iter().filter(|(key, _)| *key != "builtin") {
            if !["rule", "command", "webhook", "alertmanager"].contains(&key.as_str()) {
                return Err(ConfigError::UnknownKey(key.clone()));
            }
            let entries = value.as_array().and_then(|entries| entries.iter().map(Value::as_table).collect::<Option<Vec<_>>>());
            let Some(entries) = entries else { return Err(ConfigError::NoList(key.clone())) };
            for (number, entry) in (1..).zip(entries) {
                let keys = Keys(entry);
                let named = keys.text("name")?.unwrap_or_else(|| format!("number {number}"));
                let added = if key == "rule" { self.add_rule(&keys) } else { self.add_receiver(key, &keys) };
                added.map_err(|why| ConfigError::Entry { list: key.clone(), entry: named, why: Box::new(why) })?;
            }
        }
        if self.rules.len() > RULES_MAX {
            return Err(ConfigError::ManyRules);
        }
        if self.receivers.len() > RECEIVERS_MAX { Err(ConfigError::ManyReceivers) } else { Ok(()) }
    }

    fn add_rule(&mut self, keys: &Keys<'_>) -> Result<(), ConfigError> {
        keys.only(&["name", "when", "for", "clear", "clear_for", "severity", "summary", "enabled"])?;
        let Some(name) = keys.text("name")?.filter(|name| is_name(name)) else {
            return Err(ConfigError::Name);
        };
        let index = self.rules.iter().position(|rule| rule.name == name);
        if keys.truth("enabled")? == Some(false) {
            index.map(|index| self.rules.remove(index));
            return Ok(());
        }
        let condition = |key| {
            let parsed = keys.text(key)?.map(|text| Condition::parse(&text).map_err(|why| ConfigError::Condition(key, why)));
            parsed.transpose()
        };
        let when = condition("when")?;
        let mut rule = match (index, &when) {
            (Some(index), _) => self.rules[index].clone(),
            (None, Some(when)) => Rule {
                name,
                when: when.clone(),
                for_: Duration::ZERO,
                clear: None,
                clear_for: CLEAR_FOR_DEFAULT,
                severity: Severity::Warning,
                summary: summary(when),
                is_builtin: false,
            },
            (None, None) => return Err(ConfigError::NoCondition),
        };
        if let Some(when) = when.filter(|when| *when != rule.when) {
            // The clear condition and the summary of the old condition may not match the new one.
            (rule.summary, rule.clear, rule.when) = (summary(&when), None, when);
        }
        rule.clear = condition("clear")?.or(rule.clear);
        rule.for_ = keys.duration("for", Duration::ZERO, DURATION_MAX)?.unwrap_or(rule.for_);
        rule.clear_for = keys.duration("clear_for", CLEAR_FOR_MIN, DURATION_MAX)?.unwrap_or(rule.clear_for);
        rule.severity = keys.severity()?.unwrap_or(rule.severity);
        rule.summary = keys.text("summary")?.unwrap_or(rule.summary);
        match index {
            Some(index) => self.rules[index] = rule,
            None => self.rules.push(rule),
        }
        Ok(())
    }

    fn add_receiver(&mut self, sort: &str, keys: &Keys<'_>) -> Result<(), ConfigError> {
        let how = match sort {
            "command" => command(keys),
            "webhook" => webhook(keys),
            _ => alertmanager(keys),
        }?;
        let number = self.receivers.iter().filter(|other| other.how.sort() == sort).count() + 1;
        let name = keys.text("name")?.unwrap_or_else(|| format!("{sort}-{number}"));
        if !is_name(&name) {
            return Err(ConfigError::Name);
        }
        if self.receivers.iter().any(|other| other.name == name) {
            return Err(ConfigError::SameName);
        }
        self.receivers.push(Receiver { name, severity: keys.severity()?.unwrap_or(Severity::Info), how });
        Ok(())
    }
}

impl Delivery {
    /// Returns its key in the configuration.
    pub fn sort(&self) -> &'static str {
        match self {
            Self::Command { .. } => "command",
            Self::Webhook { .. } => "webhook",
            Self::Alertmanager { .. } => "alertmanager",
        }
    }
}

/// Returns a summary with the condition and the values of its fields.
fn summary(when: &Condition) -> String {
    let values: Vec<String> = when.fields().iter().map(|name| format!("{name} {{{name}}}")).collect();
    // A brace in a text of the condition would begin a field.
    format!("{} ({})", when.to_string().replace(['{', '}'], ""), values.join(", "))
}

fn command(keys: &Keys<'_>) -> Result<Delivery, ConfigError> {
    keys.only(&["name", "severity", "argv", "timeout"])?;
    let words = keys.0.get("argv").and_then(Value::as_array).filter(|words| (1..=ARGUMENTS_MAX).contains(&words.len()));
    let argv: Option<Vec<String>> = words.and_then(|words| words.iter().map(|word| word.as_str().map(str::to_owned)).collect());
    let is_plain = |argv: &Vec<String>| argv[0].starts_with('/') && argv.iter().all(|word| !word.contains('\0'));
    let Some(argv) = argv.filter(is_plain) else {
        return Err(ConfigError::Arguments);
    };
    let timeout = keys.duration("timeout", Duration::from_secs(1), COMMAND_TIMEOUT_MAX)?;
    Ok(Delivery::Command { argv, timeout: timeout.unwrap_or(COMMAND_TIMEOUT_DEFAULT) })
}

fn webhook(keys: &Keys<'_>) -> Result<Delivery, ConfigError> {
    keys.only(&["name", "severity", "url", "url_file", "bearer_file", "ca"])?;
    Ok(Delivery::Webhook(keys.post_target()?))
}

fn alertmanager(keys: &Keys<'_>) -> Result<Delivery, ConfigError> {
    keys.only(&["name", "severity", "url", "url_file", "bearer_file", "ca", "resend"])?;
    let resend = keys.duration("resend", RESEND_RANGE.0, RESEND_RANGE.1)?.unwrap_or(RESEND_DEFAULT);
    Ok(Delivery::Alertmanager { target: keys.post_target()?, resend })
}

fn takes(key: &'static str, what: &str) -> ConfigError {
    ConfigError::Value(key, what.to_owned())
}

/// The keys of one entry.
struct Keys<'a>(&'a Table);

impl Keys<'_> {
    fn only(&self, known: &[&str]) -> Result<(), ConfigError> {
        match self.0.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => Err(ConfigError::UnknownKeyOfEntry(key.clone(), known.join(", "))),
            None => Ok(()),
        }
    }

    fn text(&self, key: &'static str) -> Result<Option<String>, ConfigError> {
        let value = self.0.get(key).map(|value| value.as_str().map(str::to_owned).ok_or_else(|| takes(key, "text")));
        value.transpose()
    }

    fn truth(&self, key: &'static str) -> Result<Option<bool>, ConfigError> {
        self.0.get(key).map(|value| value.as_bool().ok_or_else(|| takes(key, "true or false"))).transpose()
    }

    fn duration(&self, key: &'static str, least: Duration, most: Duration) -> Result<Option<Duration>, ConfigError> {
        let parsed = self.text(key)?.map(|text| duration::parse(&text).filter(|value| (least..=most).contains(value)));
        let range = || format!("a duration of {} to {}, such as 30s, 5m, 1h", duration::format(least), duration::format(most));
        parsed.map(|parsed| parsed.ok_or_else(|| takes(key, &range()))).transpose()
    }

    fn severity(&self) -> Result<Option<Severity>, ConfigError> {
        let named = self.text("severity")?.map(|name| Severity::from_name(&name));
        named.map(|named| named.ok_or_else(|| takes("severity", "info, warning or critical"))).transpose()
    }

    fn path(&self, key: &'static str) -> Result<Option<PathBuf>, ConfigError> {
        let path = self.text(key)?.map(PathBuf::from);
        path.map(|path| if path.is_absolute() { Ok(path) } else { Err(takes(key, "an absolute path")) }).transpose()
    }

    fn post_target(&self) -> Result<PostTarget, ConfigError> {
        let url = match (self.text("url")?, self.path("url_file")?) {
            (Some(url), None) => UrlFrom::Text(url),
            (None, Some(path)) => UrlFrom::File(path),
            _ => return Err(ConfigError::Url),
        };
        Ok(PostTarget { url, bearer_file: self.path("bearer_file")?, ca: self.path("ca")? })
    }
}

#[cfg(test)]
mod tests;
