//! Conditions of rules: comparisons of a device's fields, joined by `and` and `or`.
//!
//! ```text
//! condition  = all { "or" all }          all = comparison { "and" comparison }
//! comparison = value op operand          op  = > | >= | < | <= | == | !=
//! value      = FIELD | increase(FIELD, 5m) | growth(FIELD, 30m)
//! operand    = [NUMBER *] FIELD | NUMBER | SIZE | PERCENT | "text" | true | false
//! ```
//!
//! Each part can be translated to PromQL, so that Prometheus can evaluate the same rule.

#[cfg(test)]
mod example;
mod parse;
mod promql;

use std::fmt;
use std::time::Duration;

use ttmon_model::fields::{DeviceField, Value};
use ttmon_model::{Device, DeviceId};

use crate::window::Window;

pub use parse::ConditionError;
pub use promql::PromqlError;

/// A condition over the fields of one device.
#[derive(Clone, Debug)]
pub struct Condition {
    /// The original text.
    text: String,
    /// The condition is true if all comparisons of one of these lists are true.
    any: Vec<Vec<Comparison>>,
}

#[derive(Clone, Debug)]
struct Comparison {
    left: Measured,
    op: Op,
    right: Operand,
}

/// The left side of a comparison.
#[derive(Clone, Debug)]
struct Measured {
    field: DeviceField,
    over: Option<(Function, Duration)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Increase,
    Growth,
}

#[derive(Clone, Debug)]
enum Operand {
    Number(f64),
    Text(String),
    Bool(bool),
    Field(f64, DeviceField),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Above,
    AtLeast,
    Below,
    AtMost,
    Equal,
    Unequal,
}

impl Op {
    const ALL: [Self; 6] = [Self::AtLeast, Self::AtMost, Self::Equal, Self::Unequal, Self::Above, Self::Below];

    fn name(self) -> &'static str {
        match self {
            Self::Above => ">",
            Self::AtLeast => ">=",
            Self::Below => "<",
            Self::AtMost => "<=",
            Self::Equal => "==",
            Self::Unequal => "!=",
        }
    }

    fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Above => left > right,
            Self::AtLeast => left >= right,
            Self::Below => left < right,
            Self::AtMost => left <= right,
            Self::Equal => left == right,
            Self::Unequal => left != right,
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Condition {
    /// Parses a condition.
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        Ok(Self { text: text.split_whitespace().collect::<Vec<_>>().join(" "), any: parse::condition(text)? })
    }

    /// Returns the condition as PromQL over the service's metrics. The error names a field that has no metric.
    pub fn promql(&self) -> Result<String, PromqlError> {
        promql::condition(&self.any)
    }

    /// Returns the names of the compared fields.
    pub fn fields(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for comparison in self.comparisons() {
            let right = if let Operand::Field(_, field) = &comparison.right { Some(field.name()) } else { None };
            for name in [Some(comparison.left.field.name()), right].into_iter().flatten() {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        names
    }

    fn comparisons(&self) -> impl Iterator<Item = &Comparison> {
        self.any.iter().flatten()
    }

    /// Returns the windows of earlier values that [`Condition::evaluate`] needs for a device.
    pub(crate) fn windows(&self) -> Vec<Window> {
        self.comparisons().filter_map(|comparison| comparison.left.over).map(|(_, span)| Window::new(span)).collect()
    }

    /// Evaluates the condition. Returns `None` if a missing value decides the result. Adds the current values to `windows`, which belong to
    /// the device.
    pub(crate) fn evaluate(&self, at: Duration, device: &Device, windows: &mut [Window]) -> Option<bool> {
        let mut windows = windows.iter_mut();
        let mut result = Some(false);
        for all in &self.any {
            let mut holds = Some(true);
            for comparison in all {
                // Every window gets its value, independent of the other comparisons.
                holds = and(holds, comparison.evaluate(at, device, &mut windows));
            }
            result = or(result, holds);
        }
        result
    }
}

fn and(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    match (one, other) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn or(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    and(one.map(|one| !one), other.map(|other| !other)).map(|neither| !neither)
}

impl Comparison {
    fn evaluate<'w>(&self, at: Duration, device: &Device, windows: &mut impl Iterator<Item = &'w mut Window>) -> Option<bool> {
        // A remote chip has the state of its gateway. One alert is enough.
        let is_echo = self.left.field.name == "state" && device.via.is_ok();
        // Without a value it is unknown whether the comparison is true.
        let value = self.left.field.get(device).ok().filter(|_| !is_echo);
        let number = match (self.left.over, value.as_ref().and_then(Value::number)) {
            (Some((function, _)), number) => {
                let window = windows.next()?;
                window.add(at, number);
                match function {
                    Function::Increase => window.increase(at),
                    Function::Growth => window.growth(at),
                }
            }
            (None, number) => number,
        };
        let right = match &self.right {
            Operand::Text(text) => {
                let Some(Value::Text(value)) = value else { return None };
                return Some((value == *text) == (self.op == Op::Equal));
            }
            Operand::Number(number) => *number,
            Operand::Bool(truth) => f64::from(u8::from(*truth)),
            Operand::Field(factor, field) => factor * field.number(device).ok()?,
        };
        Some(self.op.holds(number?, right))
    }
}

/// Returns a device that is no longer listed, for evaluating conditions.
pub(crate) fn vanished(id: DeviceId) -> Device {
    Device { id, state: ttmon_model::snapshot::State::Gone, ..Device::absent() }
}

#[cfg(test)]
mod tests;
