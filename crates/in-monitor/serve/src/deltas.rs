//! Differences between two snapshots, as JSON. A page that is open all day gets these instead of whole documents.
//!
//! A delta is an object with the members that have a new value. An object in the delta is applied to the old object, or by index to the old
//! list; any other value replaces the old one. `"~"` lists the removed members. Objects, and lists of objects with equal length, are
//! compared recursively; everything else is replaced as a whole. (No member is a list in one snapshot and an object in the next.)

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use hyper::body::Bytes;
use serde_json::{Map, Value};
use ttmon_os::lock;

use crate::access::Visibility;
use crate::limits::READY_MAX;

/// The newest document of each visibility, and its difference to the previous one.
#[derive(Debug, Default)]
pub(crate) struct Deltas {
    newest: Mutex<HashMap<Visibility, Newest>>,
    /// Locked by the stream that computes a document. A new snapshot wakes all streams at once; the first one computes the document and the
    /// others reuse it.
    pub(crate) turn: tokio::sync::Mutex<()>,
}

#[derive(Clone, Debug)]
struct Newest {
    number: u64,
    document: Arc<Value>,
    /// The number of the earlier snapshot, and the delta as a server-sent event.
    delta: Option<(u64, Bytes)>,
}

impl Deltas {
    /// Returns the delta between two snapshots if it is already computed.
    pub(crate) fn ready(&self, visibility: Visibility, from: u64, number: u64) -> Option<Bytes> {
        lock(&self.newest).get(&visibility)?.between(from, number)
    }

    /// Returns the event with the delta from snapshot `from` to snapshot `number`; `text` creates the document of `number`. Returns `None`
    /// if the delta cannot be computed; the caller then sends the whole document. All streams of a visibility share the result.
    pub(crate) fn between(&self, visibility: Visibility, from: u64, number: u64, text: impl FnOnce() -> Bytes) -> Option<Bytes> {
        let before = lock(&self.newest).get(&visibility).cloned();
        let newest = match before {
            Some(newest) if newest.number >= number => newest,
            before => {
                // Compute without the lock: the thread that serves all clients must not wait for a large document.
                // A document that cannot be read again is sent whole.
                let document: Arc<Value> = Arc::new(serde_json::from_slice(&text()).ok()?);
                let delta = before.map(|before| {
                    let changes = changes(&before.document, &document).unwrap_or_else(|| Value::Object(Map::new()));
                    (before.number, Bytes::from(format!("event: delta\ndata: {changes}\n\n")))
                });
                let newest = Newest { number, document, delta };
                let mut visibilities = lock(&self.newest);
                if visibilities.len() >= READY_MAX {
                    visibilities.retain(|_, other| other.number + 1 >= number);
                }
                if visibilities.len() < READY_MAX {
                    visibilities.insert(visibility, newest.clone());
                }
                newest
            }
        };
        newest.between(from, number)
    }
}

impl Newest {
    fn between(&self, from: u64, number: u64) -> Option<Bytes> {
        self.delta.as_ref().filter(|(before, _)| *before == from && self.number == number).map(|(_, delta)| delta.clone())
    }
}

/// Returns the delta, or `None` if nothing changed.
fn changes(from: &Value, to: &Value) -> Option<Value> {
    match (from, to) {
        (from, to) if from == to => None,
        (Value::Object(from), Value::Object(to)) => Some(Value::Object(members(from, to))),
        (Value::Array(from), Value::Array(to)) if from.len() == to.len() && from.iter().chain(to).all(Value::is_object) => {
            let elements = from.iter().zip(to).enumerate();
            Some(Value::Object(elements.filter_map(|(index, (from, to))| Some((index.to_string(), changes(from, to)?))).collect()))
        }
        _ => Some(to.clone()),
    }
}

fn members(from: &Map<String, Value>, to: &Map<String, Value>) -> Map<String, Value> {
    let mut changed: Map<String, Value> = to
        .iter()
        .filter_map(|(name, to)| {
            let change = match from.get(name) {
                Some(from) => changes(from, to)?,
                None => to.clone(),
            };
            Some((name.clone(), change))
        })
        .collect();
    let gone: Vec<Value> = from.keys().filter(|name| !to.contains_key(*name)).map(|name| Value::from(name.as_str())).collect();
    if !gone.is_empty() {
        changed.insert("~".to_owned(), Value::from(gone));
    }
    changed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Applies a delta in the same way as `web/src/delta.ts`.
    fn apply(old: Value, delta: Value) -> Value {
        match (old, delta) {
            (Value::Object(mut old), Value::Object(delta)) => {
                for (name, change) in delta {
                    if name == "~" {
                        change.as_array().expect("names").iter().for_each(|name| drop(old.remove(name.as_str().expect("a name"))));
                    } else {
                        let before = old.remove(&name).unwrap_or_default();
                        old.insert(name, apply(before, change));
                    }
                }
                Value::Object(old)
            }
            (Value::Array(mut old), Value::Object(delta)) => {
                for (index, change) in delta {
                    let index: usize = index.parse().expect("an index");
                    old[index] = apply(old[index].take(), change);
                }
                Value::Array(old)
            }
            (_, delta) => delta,
        }
    }

    #[test]
    fn delta_leads_to_the_next_document() {
        let documents = [
            json!({"a": 1, "devices": [{"id": 0, "t": 1.5, "missing": {"x": "no"}}, {"id": 1, "t": null}], "ids": [1, 2]}),
            json!({"a": 1, "devices": [{"id": 0, "t": null, "missing": {}}, {"id": 1, "t": 2}], "ids": [1, 3]}),
            json!({"a": null, "c": {"b": 1}, "devices": [{"id": 1, "t": 2}], "ids": []}),
            json!({"a": [{}], "devices": [], "new": {"x": {"y": []}}}),
            json!({"a": [{"c": 1}], "devices": [{"id": 0}, {"id": 1}]}),
        ];
        for from in &documents {
            for to in &documents {
                let delta = changes(from, to);
                assert_eq!(delta.is_none(), from == to);
                assert_eq!(&apply(from.clone(), delta.unwrap_or_else(|| json!({}))), to);
            }
        }
        assert_eq!(
            changes(&documents[0], &documents[1]),
            Some(json!({
                "devices": {"0": {"t": null, "missing": {"~": ["x"]}}, "1": {"t": 2}},
                "ids": [1, 3],
            }))
        );
    }

    #[test]
    fn a_delta_is_only_for_readers_of_the_previous_document() {
        const CHANGED: &[u8] = b"event: delta\ndata: {\"a\":2}\n\n";
        let deltas = Deltas::default();
        let text = |value: u64| move || Bytes::from(format!("{{\"a\":{value}}}"));
        assert_eq!(deltas.between(Visibility::Public, 0, 1, text(1)), None);
        assert_eq!(deltas.between(Visibility::Public, 1, 2, text(2)).as_deref(), Some(CHANGED));
        let must_not = || -> Bytes { panic!("made twice") };
        assert_eq!(deltas.between(Visibility::Public, 1, 2, must_not).as_deref(), Some(CHANGED));
        assert_eq!(deltas.between(Visibility::Public, 0, 2, must_not), None);
        assert_eq!(deltas.between(Visibility::Public, 0, 1, must_not), None, "one that came late");
        assert_eq!(deltas.between(Visibility::Whole, 1, 2, text(7)), None, "another visibility has another document");
    }
}
