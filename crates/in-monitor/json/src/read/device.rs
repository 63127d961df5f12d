//! Reads a device of the document, and figures of kinds of memory.

use ttmon_model::fields::{DEVICE, DEVICE_KIND, PROCESS_KIND};
use ttmon_model::memory::Figure;
use ttmon_model::{Device, DeviceId, KernelType, KernelTypes, KernelUse, Kind, Missing, PerKind};

use super::item::Item;

pub(super) fn read(item: &Item<'_>) -> Option<Device> {
    id(item)?;
    let mut device = Device::absent();
    item.fields(DEVICE, &mut device);
    let kinds = item.part("memory").and_then(|memory| memory.part("kinds"));
    for kind in Kind::ALL {
        let memory = &mut device.memory.kinds[kind];
        match kinds.as_ref().and_then(|kinds| kinds.part(kind.name())) {
            Some(kind) => {
                kind.fields(DEVICE_KIND, memory);
                memory.figure.kernel_types = kernel_types(&kind);
            }
            None => DEVICE_KIND.iter().for_each(|field| (field.set)(memory, Err(Missing::NotExposed))),
        }
    }
    Some(device)
}

pub(super) fn id(item: &Item<'_>) -> Option<DeviceId> {
    item.small("id").map(DeviceId)
}

/// Reads the kinds of memory of a process on a device.
pub(super) fn figures(item: &Item<'_>) -> PerKind<Figure> {
    let kinds = item.part("kinds");
    PerKind::from_fn(|kind| figure(kinds.as_ref().and_then(|kinds| kinds.part(kind.name())).as_ref()))
}

/// Reads the figures of one kind of memory.
pub(super) fn figure(kind: Option<&Item<'_>>) -> Figure {
    let mut figure = Figure::missing(Missing::NotExposed);
    if let Some(kind) = kind {
        kind.fields(PROCESS_KIND, &mut figure);
        figure.kernel_types = kernel_types(kind);
    }
    figure
}

fn kernel_types(kind: &Item<'_>) -> Option<Box<KernelTypes>> {
    let item = kind.part("types")?;
    let mut types = KernelTypes::default();
    for kernel_type in KernelType::ALL {
        if let Some(one) = item.part(kernel_type.name()) {
            types.add(kernel_type, KernelUse { used: one.whole("used").unwrap_or(0), count: one.whole("count").unwrap_or(0) });
        }
    }
    Some(Box::new(types))
}
