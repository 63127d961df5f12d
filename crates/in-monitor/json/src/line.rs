//! JSON of a line of a program's source.

use std::sync::Arc;

use serde_json::{Value, json};
use ttmon_model::stack::SourceLine;

use crate::item::Item;

/// Returns `{"file", "line", "function"}`, or null.
pub fn line_json(line: Option<&SourceLine>) -> Value {
    match line {
        Some(SourceLine { file, line, function }) => json!({"file": **file, "line": line, "function": **function}),
        None => Value::Null,
    }
}

/// Returns the line of an item, if it has one.
pub(crate) fn line(item: &Item<'_>, name: &str) -> Option<Arc<SourceLine>> {
    Some(read(&item.part(name)?))
}

/// Reads a line. What it lacks is empty or 0, as for machine code.
pub(crate) fn read(item: &Item<'_>) -> Arc<SourceLine> {
    let text = |name| item.text(name).unwrap_or_default().as_str().into();
    let line = item.small("line").unwrap_or(0);
    Arc::new(SourceLine { file: text("file"), line, function: text("function") })
}
