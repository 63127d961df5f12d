//! JSON of the kinds of memory of a process or a chip, written and read.

use serde::ser::{Serialize, SerializeMap, Serializer};
use ttmon_model::fields::{Field, PROCESS_KIND};
use ttmon_model::memory::Figure;
use ttmon_model::{KernelType, KernelTypes, KernelUse, Missing, PerKind};

use crate::item::Item;
use crate::object::Pairs;
use crate::value::ReadingJson;

/// One object per kind of memory.
pub(crate) struct Kinds<'a, T> {
    pub(crate) table: &'a [Field<T>],
    pub(crate) items: &'a PerKind<T>,
    /// Returns the types of kernels of an item, if known.
    pub(crate) types: fn(&T) -> Option<&KernelTypes>,
}

impl<T> Serialize for Kinds<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = |item| KindRows { table: self.table, item, types: (self.types)(item) };
        serializer.collect_map(self.items.iter().map(|(kind, item)| (kind.name(), rows(item))))
    }
}

/// The rows of one kind, and its types of kernels.
struct KindRows<'a, T> {
    table: &'a [Field<T>],
    item: &'a T,
    types: Option<&'a KernelTypes>,
}

impl<T> Serialize for KindRows<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for field in self.table {
            map.serialize_entry(field.name, &ReadingJson::of(field, self.item))?;
        }
        kernel_types_entry(&mut map, self.types)?;
        map.end()
    }
}

/// Adds the types of kernels to the object of their kind.
pub(crate) fn kernel_types_entry<M: SerializeMap>(map: &mut M, types: Option<&KernelTypes>) -> Result<(), M::Error> {
    let Some(types) = types else { return Ok(()) };
    let of_type =
        |(kernel_type, KernelUse { used, count }): (KernelType, _)| (kernel_type.name(), Pairs(vec![("used", used), ("count", count)]));
    map.serialize_entry("types", &Pairs(types.iter().map(of_type).collect()))
}

/// Reads the kinds of memory of a process on a device.
pub(crate) fn figures(item: &Item<'_>) -> PerKind<Figure> {
    let kinds = item.part("kinds");
    PerKind::from_fn(|kind| figure(kinds.as_ref().and_then(|kinds| kinds.part(kind.name())).as_ref()))
}

/// Reads the figures of one kind of memory.
pub(crate) fn figure(kind: Option<&Item<'_>>) -> Figure {
    let mut figure = Figure::missing(Missing::NotExposed);
    if let Some(kind) = kind {
        kind.fields(PROCESS_KIND, &mut figure);
        figure.kernel_types = kernel_types(kind);
    }
    figure
}

pub(crate) fn kernel_types(kind: &Item<'_>) -> Option<Box<KernelTypes>> {
    let item = kind.part("types")?;
    let mut types = KernelTypes::default();
    for kernel_type in KernelType::ALL {
        if let Some(one) = item.part(kernel_type.name()) {
            types.add(kernel_type, KernelUse { used: one.whole("used").unwrap_or(0), count: one.whole("count").unwrap_or(0) });
        }
    }
    Some(Box::new(types))
}
