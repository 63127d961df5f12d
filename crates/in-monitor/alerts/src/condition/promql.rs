//! Translates conditions to PromQL over the metrics of the service.

use ttmon_model::duration;
use ttmon_model::fields::DeviceField;

use super::{Comparison, Function, Measured, Op, Operand};

/// Why a condition cannot be translated to PromQL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the texts document the causes")]
pub enum PromqlError {
    #[error("{0} is text, and no metric")]
    Text(String),
    #[error("{0} has no metric")]
    NoMetric(String),
}

/// Joins series of the same device, independent of their other labels.
const DEVICE: &str = "on (instance, device)";

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
    let factor = field.unit.base().factor;
    let right = match right {
        Operand::Text(text) => return words(field, *op, text),
        Operand::Number(number) => (number * factor).to_string(),
        Operand::Bool(truth) => u8::from(*truth).to_string(),
        Operand::Field(times, other) => {
            // Series of one kind of memory have an additional label.
            let joined = if kind(field) == kind(other) { "" } else { "on (instance, device) " };
            let times = times * factor / other.unit.base().factor;
            let times = if times == 1.0 { String::new() } else { format!("{times} * ") };
            format!("{joined}({times}{})", series(other)?)
        }
    };
    let series = series(field)?;
    let left = match over.map(|(function, span)| (function, duration::format(span))) {
        None => series,
        Some((Function::Increase, span)) => format!("increase({series}[{span}])"),
        Some((Function::Growth, span)) => format!("(min_over_time({series}[{span}]) - max_over_time({series}[{span}] offset {span}))"),
    };
    Ok(format!("{left} {} {right}", op.name()))
}

/// Translates a comparison of a state or a health. Each value has a separate series, which is 1 for the current value.
fn words(field: &DeviceField, op: Op, text: &str) -> Result<String, PromqlError> {
    let name = field.name();
    if name != "state" && name != "health" {
        return Err(PromqlError::Text(name));
    }
    // Lean metrics have only the series of the current state.
    let is = if op == Op::Equal { "=" } else { "!=" };
    Ok(format!("ttmon_device_{name}{{{name}{is}\"{text}\"}} == 1"))
}

fn series(field: &DeviceField) -> Result<String, PromqlError> {
    let metric = field.metric.ok_or_else(|| PromqlError::NoMetric(field.name()))?;
    Ok(kind(field).map_or_else(|| metric.name.to_owned(), |kind| format!("{}{{kind=\"{kind}\"}}", metric.name)))
}

pub(super) fn kind(field: &DeviceField) -> Option<&'static str> {
    if let DeviceField::OfKind(kind, _) = field { Some(kind.name()) } else { None }
}
