//! Devices that the driver does not list when the first sample is taken, and that belong here: an id is that of a slot, and the
//! ids of remote chips follow from all of them.

use std::fs;

use ttmon_model::Arch;
use ttmon_model::identity::{Bdf, DeviceId};

use crate::device::Known;
use crate::read::read_small;
use crate::root::Root;

/// Longest list of PCI devices read.
const LIST_BYTES_MAX: usize = 4 * 1024 * 1024;

/// PCI addresses of our devices, in order.
pub(super) fn on_bus(root: &Root) -> impl Iterator<Item = Bdf> + use<> {
    let directory = root.pci();
    let mut bdfs: Vec<Bdf> = root
        .list(&directory)
        .unwrap_or_default()
        .iter()
        .filter(|name| read_small(&directory.join(name).join("vendor"), 64).is_ok_and(|vendor| vendor.trim_ascii() == b"0x1e52"))
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect();
    bdfs.sort_unstable();
    bdfs.into_iter()
}

/// Devices on the bus that the driver supports and does not list. It gives them the lowest free numbers, in the order of their
/// addresses. One that another driver has, for a virtual machine say, is none of them.
pub(super) fn absent(root: &Root, listed: &[Known]) -> Vec<Known> {
    if !may_be_unbound(root) {
        return Vec::new();
    }
    let has_driver = |bdf: &Bdf| fs::symlink_metadata(root.pci().join(bdf.to_string()).join("driver")).is_ok();
    let unbound =
        on_bus(root).filter(|bdf| listed.iter().all(|known| known.bdf != Ok(*bdf)) && !has_driver(bdf) && is_supported(root, *bdf));
    let free = (0..).map(DeviceId).filter(|id| listed.iter().all(|known| known.id != *id));
    unbound.zip(free).map(|(bdf, id)| Known::absent(root, id, bdf)).collect()
}

fn is_supported(root: &Root, bdf: Bdf) -> bool {
    let text = read_small(&root.pci().join(bdf.to_string()).join("device"), 64).unwrap_or_default();
    let number = String::from_utf8_lossy(&text).trim().strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    matches!(number.and_then(Arch::from_pci_device), Some(Arch::Wormhole | Arch::Blackhole))
}

/// Whether one of our devices may have no driver. The kernel has a list of all devices with their drivers, which is far less to read
/// than the bus: lines `BUSDEVFN VENDORDEVICE ... DRIVER`, between tabs.
fn may_be_unbound(root: &Root) -> bool {
    let list = read_small(&root.proc.join("bus/pci/devices"), LIST_BYTES_MAX).ok().filter(|_| root.base.is_none());
    list.is_none_or(|list| {
        let is_ours = |line: &&str| line.split('\t').nth(1).is_some_and(|ids| ids.starts_with("1e52"));
        String::from_utf8_lossy(&list).lines().filter(is_ours).any(|line| line.ends_with('\t'))
    })
}
