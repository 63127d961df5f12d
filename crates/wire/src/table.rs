//! Serializes a field table: values as members of an object, and the reasons of missing values.

use serde::ser::{Serialize, SerializeMap, Serializer};
use ttmon_model::fields::Field;
use ttmon_model::memory::{Figure, KindMemory};
use ttmon_model::{KernelTypes, Missing, PerKind};

use crate::value::ReadingJson;

/// The reasons of the nulls in one object, by dotted path.
#[derive(Default)]
pub(crate) struct Reasons(Vec<(String, Missing)>);

impl Reasons {
    /// Records the reason of a missing value. Does nothing if the value is present.
    pub(crate) fn note(&mut self, path: impl Into<String>, reason: Option<Missing>) {
        self.0.extend(reason.map(|reason| (path.into(), reason)));
    }

    /// Records the missing values of a table.
    pub(crate) fn note_rows<T>(&mut self, table: &[Field<T>], item: &T) {
        for field in table {
            self.note(field.name, (field.get)(item).err());
        }
    }

    /// Records the missing values of `kinds` below a path.
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

/// One object per kind of memory.
pub(crate) struct Kinds<'a, T> {
    pub(crate) table: &'a [Field<T>],
    pub(crate) items: &'a PerKind<T>,
}

impl<T: HasFigure> Serialize for Kinds<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = |item| KindRows { rows: Rows { table: self.table, item }, kernel_types: item.figure().kernel_types.as_deref() };
        serializer.collect_map(self.items.iter().map(|(kind, item)| (kind.name(), rows(item))))
    }
}

/// Figures of one kind of memory, of a process or of a chip.
pub(crate) trait HasFigure {
    fn figure(&self) -> &Figure;
}

impl HasFigure for Figure {
    fn figure(&self) -> &Figure {
        self
    }
}

impl HasFigure for KindMemory {
    fn figure(&self) -> &Figure {
        &self.figure
    }
}

/// The rows of one kind, and the types of kernels if known.
struct KindRows<'a, T> {
    rows: Rows<'a, T>,
    kernel_types: Option<&'a KernelTypes>,
}

impl<T> Serialize for KindRows<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.rows.entries(&mut map)?;
        kernel_types_entry(&mut map, self.kernel_types)?;
        map.end()
    }
}

/// Adds the types of kernels to the object of their kind.
pub(crate) fn kernel_types_entry<M: SerializeMap>(map: &mut M, types: Option<&KernelTypes>) -> Result<(), M::Error> {
    types.map_or(Ok(()), |types| map.serialize_entry("types", &TypesJson(types)))
}

struct TypesJson<'a>(&'a KernelTypes);

impl Serialize for TypesJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let types = self.0.iter().map(|(kernel_type, kernels)| (kernel_type.name(), [("used", kernels.used), ("count", kernels.count)]));
        serializer.collect_map(types.map(|(name, values)| (name, Pairs(values))))
    }
}

struct Pairs([(&'static str, u64); 2]);

impl Serialize for Pairs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0)
    }
}

/// The rows of a table as an object.
pub(crate) struct Rows<'a, T> {
    pub(crate) table: &'a [Field<T>],
    pub(crate) item: &'a T,
}

impl<T> Rows<'_, T> {
    /// Writes the rows as members of an object that also has other members.
    pub(crate) fn entries<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        for field in self.table {
            map.serialize_entry(field.name, &ReadingJson::of(field, self.item))?;
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
