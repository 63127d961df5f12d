//! Reads a document of another program within limits. A service or a recording may contain anything.
//!
//! The lists of a document stay text until they are requested. They are then read one element at a time. So memory is needed only for the
//! stored values and one element, independent of the number of elements.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::time::Instant;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use ttmon_model::limits::{DOCUMENT_DEPTH_MAX, DOCUMENT_KEYS_MAX, DOCUMENT_TEXT_BYTES_MAX, ELEMENT_VALUES_MAX};

use crate::ReadError;

/// Number of values between two checks of the deadline.
const VALUES_PER_CHECK: u32 = 1024;

/// An object with unread lists.
#[derive(Debug)]
pub struct Document<'a> {
    /// Everything that is not a list.
    pub head: Value,
    lists: Vec<(String, &'a RawValue)>,
    bounds: Bounds,
}

impl<'a> Document<'a> {
    /// Reads everything except the lists. The deadline also applies to the lists.
    pub fn read(text: &'a str, deadline: Option<Instant>) -> Result<Self, ReadError> {
        let bounds = Bounds::new(deadline);
        let (head, lists) = bounds.run(text, |reader| reader.deserialize_map(Head(&bounds)))?;
        Ok(Self { head: Value::Object(head), lists, bounds })
    }

    /// Returns whether there is a list with this name.
    pub fn has_list(&self, name: &str) -> bool {
        self.lists.iter().any(|(other, _)| other == name)
    }

    /// Reads at most `count_max` elements of a list, one after another. A missing list is empty. The processes of a device are skipped,
    /// because there may be thousands, and the document has a list of all processes. More problems than `count_max` are skipped, so that a
    /// host with many problems can still be shown.
    pub fn each(&self, name: &'static str, count_max: usize, take: impl FnMut(&Value) -> Result<(), ReadError>) -> Result<(), ReadError> {
        let Some((_, list)) = self.lists.iter().rfind(|(other, _)| other == name) else { return Ok(()) };
        let skipped = (name == "devices").then_some("processes");
        self.bounds.run(list.get(), |reader| reader.deserialize_seq(Elements { bounds: &self.bounds, name, skipped, count_max, take }))
    }
}

/// Reads one value with at most [`ELEMENT_VALUES_MAX`] nested values.
pub(crate) fn read_value(text: &str) -> Result<Value, ReadError> {
    let bounds = Bounds::new(None);
    bounds.element(text, 0)
}

type Reader<'t> = serde_json::Deserializer<serde_json::de::StrRead<'t>>;

/// The limits for reading.
#[derive(Debug)]
struct Bounds {
    deadline: Option<Instant>,
    count: Cell<u32>,
    /// Why reading stopped, if the cause is not the syntax of the text.
    cause: RefCell<Option<ReadError>>,
}

impl Bounds {
    fn new(deadline: Option<Instant>) -> Self {
        Self { deadline, count: Cell::new(0), cause: RefCell::new(None) }
    }

    fn run<'t, T>(&self, text: &'t str, read: impl FnOnce(&mut Reader<'t>) -> serde_json::Result<T>) -> Result<T, ReadError> {
        let mut reader = Reader::from_str(text);
        let read = read(&mut reader).and_then(|value| reader.end().map(|()| value));
        read.map_err(|error| self.cause.take().unwrap_or_else(|| ReadError::NotJson(error.to_string())))
    }

    fn element(&self, text: &str, depth: usize) -> Result<Value, ReadError> {
        let element = Element { bounds: self, left: &Cell::new(ELEMENT_VALUES_MAX), depth, skipped: None };
        self.run(text, |reader| element.deserialize(reader))
    }

    fn stop<E: Error>(&self, cause: ReadError) -> E {
        self.cause.replace(Some(cause));
        E::custom("stopped")
    }

    fn check_text<E: Error>(&self, text: &str) -> Result<(), E> {
        if text.len() > DOCUMENT_TEXT_BYTES_MAX { Err(self.stop(ReadError::TooMuch("text"))) } else { Ok(()) }
    }

    fn check_time<E: Error>(&self) -> Result<(), E> {
        let count = self.count.get().wrapping_add(1);
        self.count.set(count);
        let is_late = count.is_multiple_of(VALUES_PER_CHECK) && self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if is_late { Err(self.stop(ReadError::Late)) } else { Ok(()) }
    }
}

/// Reads the document itself.
struct Head<'b>(&'b Bounds);

impl<'t> Visitor<'t> for Head<'_> {
    type Value = (Map<String, Value>, Vec<(String, &'t RawValue)>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut head, mut lists) = (Map::new(), Vec::new());
        while let Some(key) = map.next_key::<String>()? {
            self.0.check_text(&key)?;
            if head.len() + lists.len() >= DOCUMENT_KEYS_MAX {
                return Err(self.0.stop(ReadError::TooMuch("keys")));
            }
            let value: &RawValue = map.next_value()?;
            if value.get().starts_with('[') {
                lists.push((key, value));
            } else {
                head.insert(key, self.0.element(value.get(), 1).map_err(|error| self.0.stop(error))?);
            }
        }
        Ok((head, lists))
    }
}

struct Elements<'b, F> {
    bounds: &'b Bounds,
    name: &'static str,
    /// A key of the elements. Its values are not read.
    skipped: Option<&'static str>,
    count_max: usize,
    take: F,
}

impl<'t, F: FnMut(&Value) -> Result<(), ReadError>> Visitor<'t> for Elements<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'t>>(mut self, mut list: A) -> Result<(), A::Error> {
        let (mut count, left) = (0, Cell::new(ELEMENT_VALUES_MAX));
        while let Some(value) = list.next_element_seed(Element { bounds: self.bounds, left: &left, depth: 2, skipped: self.skipped })? {
            count += 1;
            if count > self.count_max && self.name == "problems" {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(());
            }
            if count > self.count_max {
                return Err(self.bounds.stop(ReadError::TooMuch(self.name)));
            }
            (self.take)(&value).map_err(|error| self.bounds.stop(error))?;
            left.set(ELEMENT_VALUES_MAX);
        }
        Ok(())
    }
}

/// Reads one value with its nested values.
struct Element<'b> {
    bounds: &'b Bounds,
    /// The number of values that may still be read.
    left: &'b Cell<usize>,
    depth: usize,
    /// A key of this object. Its value is not read.
    skipped: Option<&'static str>,
}

impl Element<'_> {
    fn inner<E: Error>(&self) -> Result<Self, E> {
        if self.depth >= DOCUMENT_DEPTH_MAX {
            return Err(self.bounds.stop(ReadError::TooMuch("levels")));
        }
        Ok(Self { depth: self.depth + 1, skipped: None, ..*self })
    }

    fn count<E: Error>(&self) -> Result<(), E> {
        let left = self.left.get().checked_sub(1).ok_or_else(|| self.bounds.stop(ReadError::TooMuch("values")))?;
        self.left.set(left);
        self.bounds.check_time()
    }
}

impl<'t> DeserializeSeed<'t> for Element<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'t>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.count()?;
        deserializer.deserialize_any(self)
    }
}

impl<'t> Visitor<'t> for Element<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.bounds.check_text(text)?;
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(self.inner()?)? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            self.bounds.check_text(&key)?;
            if self.skipped == Some(key.as_str()) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = map.next_value_seed(self.inner()?)?;
            values.insert(key, value);
        }
        Ok(values.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn each(text: &str, count_max: usize) -> Result<Vec<Value>, ReadError> {
        let mut values = Vec::new();
        Document::read(text, None)?.each("list", count_max, |value| {
            values.push(value.clone());
            Ok(())
        })?;
        Ok(values)
    }

    #[test]
    fn bounds_are_kept() {
        let text = |list: &str| format!("{{\"list\":[{list}]}}");
        assert_eq!(each(&text("1,2"), 2), Ok(vec![1.into(), 2.into()]));
        assert_eq!(each("{}", 0), Ok(vec![]));
        assert_eq!(each(&text("1,2,3"), 2), Err(ReadError::TooMuch("list")));
        assert_eq!(each(&text(&format!("[{}0]", "0,".repeat(ELEMENT_VALUES_MAX))), 2), Err(ReadError::TooMuch("values")));
        assert!(matches!(each(&text(&"[".repeat(100_000)), 2), Err(ReadError::NotJson(_))));
        assert_eq!(each(&text(&("[".repeat(30) + &"]".repeat(30))), 2), Err(ReadError::TooMuch("levels")));
        assert_eq!(each(&text(&format!("\"{}\"", "x".repeat(DOCUMENT_TEXT_BYTES_MAX + 1))), 2), Err(ReadError::TooMuch("text")));
        let keys: Vec<String> = (0..=DOCUMENT_KEYS_MAX).map(|number| format!("\"{number}\":0")).collect();
        assert_eq!(each(&format!("{{{}}}", keys.join(",")), 2), Err(ReadError::TooMuch("keys")));
        assert_eq!(each(&format!("{{\"a\":{{\"b\":[{}0]}}}}", "0,".repeat(ELEMENT_VALUES_MAX)), 2), Err(ReadError::TooMuch("values")));
    }

    /// `ttmon report` dropped samples with a thousand processes on a device.
    #[test]
    fn processes_of_devices_are_not_read() {
        let text = format!("{{\"devices\":[{{\"id\":0,\"processes\":[{}0]}}]}}", "0,".repeat(ELEMENT_VALUES_MAX));
        let mut devices = Vec::new();
        let read = Document::read(&text, None).and_then(|document| {
            document.each("devices", 1, |device| {
                devices.push(device.clone());
                Ok(())
            })
        });
        assert_eq!((read, devices), (Ok(()), vec![serde_json::json!({"id": 0})]));
    }

    #[test]
    fn problems_beyond_the_limit_are_skipped() {
        let deep = "[".repeat(100) + &"]".repeat(100);
        let text = format!("{{\"problems\":[1,2,3,{deep},[{}0]]}}", "0,".repeat(ELEMENT_VALUES_MAX));
        let mut problems = Vec::new();
        let read = Document::read(&text, None).and_then(|document| {
            document.each("problems", 2, |problem| {
                problems.push(problem.clone());
                Ok(())
            })
        });
        assert_eq!((read, problems), (Ok(()), vec![1.into(), 2.into()]));
    }

    #[test]
    fn a_deadline_ends_reading() {
        let text = format!("{{\"list\":[{}0]}}", "0,".repeat(100_000));
        let read = |deadline| Document::read(&text, Some(deadline)).and_then(|document| document.each("list", usize::MAX, |_| Ok(())));
        assert_eq!(read(Instant::now()), Err(ReadError::Late));
        assert_eq!(read(Instant::now() + Duration::from_secs(3600)), Ok(()));
    }

    proptest! {
        /// Within the limits, the result is the same as that of serde_json.
        #[test]
        fn small_documents_are_read_as_they_are(numbers in proptest::collection::vec(any::<f64>(), 0..9), text in ".*", whole: i64) {
            let value = serde_json::json!({ "numbers": numbers, "text": text, "whole": whole, "inner": { "none": null, "yes": true } });
            prop_assert_eq!(read_value(&value.to_string()), Ok(serde_json::from_str(&value.to_string()).unwrap()));
        }
    }
}
