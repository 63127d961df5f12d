//! Translates conditions to PromQL over the metrics of the service.

use std::fmt;

use ttmon_model::duration;
use ttmon_model::fields::DeviceField;

use super::{Comparison, Function, Measured, Op, Operand};

/// Joins series of the same device, independent of their other labels.
const DEVICE: &str = "on (instance, device)";

/// Why a condition cannot be translated to PromQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromqlError {
    /// A text is compared with a number.
    Text,
    /// A text field without a metric.
    TextField(String),
    /// A field without a metric.
    NoMetric(String),
}

impl fmt::Display for PromqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("a text has no number"),
            Self::TextField(name) => write!(f, "{name} is text, and no metric"),
            Self::NoMetric(name) => write!(f, "{name} has no metric"),
        }
    }
}

impl std::error::Error for PromqlError {}

pub(super) fn condition(any: &[Vec<Comparison>]) -> Result<String, PromqlError> {
    let all = |all: &Vec<Comparison>| {
        let parts: Result<Vec<String>, PromqlError> = all.iter().map(comparison).collect();
        parts.map(|parts| parts.join(&format!(" and {DEVICE} ")))
    };
    let parts: Result<Vec<String>, PromqlError> = any.iter().map(all).collect();
    parts.map(|parts| parts.join(" or "))
}

fn comparison(comparison: &Comparison) -> Result<String, PromqlError> {
    let Comparison { left: Measured { field, over }, op, right } = comparison;
    if let Operand::Text(text) = right {
        return words(field, *op, text);
    }
    let factor = field.unit.base().factor;
    let left = match over {
        None => series(field)?,
        Some((Function::Increase, span)) => format!("increase({}[{}])", series(field)?, duration::format(*span)),
        Some((Function::Growth, span)) => {
            let (series, span) = (series(field)?, duration::format(*span));
            format!("(min_over_time({series}[{span}]) - max_over_time({series}[{span}] offset {span}))")
        }
    };
    let right = match right {
        Operand::Number(number) => shown(number * factor),
        Operand::Bool(truth) => u8::from(*truth).to_string(),
        Operand::Field(times, other) => {
            // Series of one kind of memory have an additional label.
            let joined = if kind(field) == kind(other) { "" } else { "on (instance, device) " };
            let times = times * factor / other.unit.base().factor;
            let times = if times == 1.0 { String::new() } else { format!("{} * ", shown(times)) };
            format!("{joined}({times}{})", series(other)?)
        }
        Operand::Text(_) => return Err(PromqlError::Text),
    };
    Ok(format!("{left} {} {right}", op.name()))
}

/// Translates a comparison of a state or a health. Each value has a separate series, which is 1 for the current value.
fn words(field: &DeviceField, op: Op, text: &str) -> Result<String, PromqlError> {
    let name = field.name();
    if name != "state" && name != "health" {
        return Err(PromqlError::TextField(name));
    }
    // Lean metrics have only the series of the current state.
    let is = if op == Op::Equal { "=" } else { "!=" };
    Ok(format!("ttmon_device_{name}{{{name}{is}\"{text}\"}} == 1"))
}

fn series(field: &DeviceField) -> Result<String, PromqlError> {
    let metric = field.metric.ok_or_else(|| PromqlError::NoMetric(field.name()))?;
    Ok(kind(field).map_or_else(|| metric.name.to_owned(), |kind| format!("{}{{kind=\"{kind}\"}}", metric.name)))
}

/// Returns a field's series with labels, and the additional label of that field.
pub(super) fn labelled(field: &DeviceField, labels: &str) -> (String, Option<(String, String)>) {
    let name = field.metric.map_or("", |metric| metric.name);
    match kind(field) {
        Some(kind) => (format!("{name}{{{labels},kind=\"{kind}\"}}"), Some(("kind".to_owned(), kind.to_owned()))),
        None => (format!("{name}{{{labels}}}"), None),
    }
}

fn kind(field: &DeviceField) -> Option<&'static str> {
    if let DeviceField::OfKind(kind, _) = field { Some(kind.name()) } else { None }
}

/// Formats a number without an exponent, to be readable.
fn shown(number: f64) -> String {
    format!("{number}")
}
