//! Generates series for which a condition is true, for tests of its PromQL.

use ttmon_model::fields::DeviceField;

use super::promql::kind;
use super::{Comparison, Condition, Function, Measured, Op, Operand};

/// Value of a field on the right side of a comparison.
const LIMIT: f64 = 1000.0;
/// Length of the series in minutes.
const MINUTES: usize = 80;

/// A series with its labels, and its values in the format of `promtool`, one per minute.
type Series = (String, String);

impl Condition {
    /// Returns series with these labels for which the condition is soon true. Also returns the additional labels of the first series, as
    /// YAML.
    pub(crate) fn example(&self, labels: &str) -> (Vec<Series>, String) {
        let mut series: Vec<Series> = Vec::new();
        let mut more = String::new();
        for (index, comparison) in self.any.first().into_iter().flatten().enumerate() {
            let (found, label) = comparison.example(labels);
            // A field that occurs twice has only one series, the first.
            series.extend(found.into_iter().filter(|(name, _)| series.iter().all(|(known, _)| known != name)).collect::<Vec<_>>());
            if index == 0 {
                more = label.map_or_else(String::new, |(name, value)| format!(", {name}: {value}"));
            }
        }
        (series, more)
    }
}

impl Comparison {
    fn example(&self, labels: &str) -> (Vec<Series>, Option<(String, String)>) {
        let Self { left: Measured { field, over }, op, right } = self;
        let (name, mut label) = labelled(field, labels);
        if let Operand::Text(text) = right {
            let word = field.name();
            let value = if *op == Op::Equal { text.as_str() } else { "another" };
            label = Some((word.clone(), value.to_owned()));
            return (vec![(format!("ttmon_device_{word}{{{labels},{word}=\"{value}\"}}"), format!("1x{MINUTES}"))], label);
        }
        let mut series = Vec::new();
        let limit = match right {
            Operand::Number(number) => number * field.unit.base().factor,
            Operand::Bool(truth) => f64::from(u8::from(*truth)),
            Operand::Field(times, other) => {
                series.push((labelled(other, labels).0, format!("{LIMIT}x{MINUTES}")));
                times * LIMIT
            }
            Operand::Text(_) => 0.0,
        };
        let value = match op {
            Op::Above | Op::Unequal => limit + 1.0,
            Op::Below => limit - 1.0,
            Op::AtLeast | Op::AtMost | Op::Equal => limit,
        };
        let values = match over {
            None => format!("{value}x{MINUTES}"),
            Some((Function::Increase, _)) => format!("0+{value}x{MINUTES}"),
            // The value increases every 25 minutes and never falls, so that each span has higher values than the one before.
            Some((Function::Growth, _)) => (0..4).map(|step| format!("{} _x24", f64::from(step) * value)).collect::<Vec<_>>().join(" "),
        };
        series.insert(0, (name, values));
        (series, label)
    }
}

/// Returns a field's series with labels, and the additional label of that field.
fn labelled(field: &DeviceField, labels: &str) -> (String, Option<(String, String)>) {
    let name = field.metric.map_or("", |metric| metric.name);
    match kind(field) {
        Some(kind) => (format!("{name}{{{labels},kind=\"{kind}\"}}"), Some(("kind".to_owned(), kind.to_owned()))),
        None => (format!("{name}{{{labels}}}"), None),
    }
}
