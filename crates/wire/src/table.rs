//! Loops over a field table: its values as entries of an object, and the reasons of those that are absent.

use serde::ser::{Serialize, SerializeMap, Serializer};
use ttmon_model::fields::Field;
use ttmon_model::{Missing, PerKind};

use crate::value::ReadingJson;

/// Why the nulls of one object are null, by dotted path.
#[derive(Default)]
pub(crate) struct Reasons(Vec<(String, Missing)>);

impl Reasons {
    /// Notes a value that is absent; one that is there has no reason.
    pub(crate) fn note(&mut self, path: impl Into<String>, reason: Option<Missing>) {
        self.0.extend(reason.map(|reason| (path.into(), reason)));
    }

    /// Notes the absent values of a table.
    pub(crate) fn note_rows<T>(&mut self, table: &[Field<T>], item: &T) {
        for field in table {
            self.note(field.name, (field.get)(item).err());
        }
    }

    /// Notes the absent values of `kinds` below a path.
    pub(crate) fn note_kinds<T>(&mut self, path: &str, kinds: &Kinds<'_, T>) {
        for (kind, item) in kinds.items.iter() {
            for field in kinds.table {
                self.note(format!("{path}.{}.{}", kind.name(), field.name), (field.get)(item).err());
            }
        }
    }
}

impl Serialize for Reasons {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(path, reason)| (path, reason.name())))
    }
}

/// One object a kind of memory.
pub(crate) struct Kinds<'a, T> {
    pub(crate) table: &'a [Field<T>],
    pub(crate) items: &'a PerKind<T>,
}

impl<T> Serialize for Kinds<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.items.iter().map(|(kind, item)| (kind.name(), Rows { table: self.table, item })))
    }
}

/// The rows of a table as an object.
pub(crate) struct Rows<'a, T> {
    pub(crate) table: &'a [Field<T>],
    pub(crate) item: &'a T,
}

impl<T> Rows<'_, T> {
    /// The rows as entries of an object that has others too.
    pub(crate) fn entries<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        for field in self.table {
            map.serialize_entry(field.name, &ReadingJson((field.get)(self.item)))?;
        }
        Ok(())
    }
}

impl<T> Serialize for Rows<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.entries(&mut map)?;
        map.end()
    }
}
