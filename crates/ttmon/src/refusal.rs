//! What a program was refused, as its ledger has it, in words and figures.

use serde_json::{Map, Value};
use ttmon_ledger::reader::Failure;
use ttmon_source::recorder;

/// The figures as JSON, the same in the report of a run and among events.
pub(crate) fn figures(failure: &Failure, place: &str) -> Map<String, Value> {
    ttmon_wire::refusal_json(&recorder::refusal(failure), place)
}

/// A text that is there.
pub(crate) fn text(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// One line for people; `place` is where it was asked for.
pub(crate) fn words(failure: &Failure, place: &str) -> String {
    recorder::refusal(failure).words(place)
}
