//! Writes objects: values as members, and the reasons of missing values. [`crate::item`] reads them.

use serde::ser::{Serialize, SerializeMap, Serializer};
use ttmon_model::fields::Field;
use ttmon_model::memory::Figure;
use ttmon_model::{Missing, PerKind, Reading};

use crate::figure::Kinds;
use crate::value::ReadingJson;

/// An object of the document. Its last member has the reasons of its nulls, by dotted path.
pub(crate) struct Object<M> {
    map: M,
    reasons: Vec<(String, Missing)>,
}

impl<M: SerializeMap> Object<M> {
    pub(crate) fn new<S: Serializer<SerializeMap = M, Error = M::Error>>(serializer: S) -> Result<Self, M::Error> {
        Ok(Self { map: serializer.serialize_map(None)?, reasons: Vec::new() })
    }

    pub(crate) fn entry(&mut self, name: &str, value: &(impl Serialize + ?Sized)) -> Result<(), M::Error> {
        self.map.serialize_entry(name, value)
    }

    /// Writes a value, or null and its reason.
    pub(crate) fn reading(&mut self, name: &str, reading: &Reading<impl Serialize>) -> Result<(), M::Error> {
        self.note(name, reading.as_ref().err());
        self.entry(name, &reading.as_ref().ok())
    }

    /// Writes a field of a table.
    pub(crate) fn field<T>(&mut self, field: &Field<T>, item: &T) -> Result<(), M::Error> {
        let value = ReadingJson::of(field, item);
        self.note(field.name, value.reading.as_ref().err());
        self.entry(field.name, &value)
    }

    /// Writes `kinds`, the figures of each kind of memory.
    pub(crate) fn kinds(&mut self, table: &[Field<Figure>], items: &PerKind<Figure>) -> Result<(), M::Error> {
        self.note_kinds("kinds", table, items);
        self.entry("kinds", &Kinds { table, items, types: |figure| figure.kernel_types.as_deref() })
    }

    /// Records the reason of a missing value. Does nothing if the value is present.
    pub(crate) fn note(&mut self, path: impl Into<String>, reason: Option<&Missing>) {
        self.reasons.extend(reason.map(|reason| (path.into(), *reason)));
    }

    /// Records the missing values of `kinds` below a path.
    pub(crate) fn note_kinds<T>(&mut self, path: &str, table: &[Field<T>], items: &PerKind<T>) {
        for (kind, item) in items.iter() {
            for field in table {
                self.note(format!("{path}.{}.{}", kind.name(), field.name), (field.get)(item).as_ref().err());
            }
        }
    }

    pub(crate) fn end(mut self) -> Result<M::Ok, M::Error> {
        let reasons = self.reasons.iter().map(|(path, reason)| (path, reason.name()));
        self.map.serialize_entry("missing", &Pairs(reasons.collect()))?;
        self.map.end()
    }
}

/// An object with these members, in this order.
pub(crate) struct Pairs<K, V>(pub(crate) Vec<(K, V)>);

impl<K: Serialize, V: Serialize> Serialize for Pairs<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// A list whose elements are made while they are written, because there may be a million.
pub(crate) struct Lazy<F>(pub(crate) F);

impl<I: Iterator<Item: Serialize>, F: Fn() -> I> Serialize for Lazy<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}
