//! Files of the kernel and the driver that ttmon does not read. A simulated tree has them for completeness.

use ttmon_model::units::Version;

use crate::chip::{Chip, Pci};

/// Major number of the driver's devices. The kernel assigns dynamic numbers downwards from 254.
pub(crate) const MAJOR: u32 = 245;

/// A file with its text and its mode.
pub(crate) type Extra = (&'static str, &'static str, u32);

pub(crate) const READ_ONLY: u32 = 0o444;
/// Mode of a switch of the kernel.
pub(crate) const SWITCH: u32 = 0o644;

/// The files in `power/` of the class device and of a hwmon directory.
pub(crate) const POWER_IDLE: &[Extra] = &[
    ("async", "disabled", SWITCH),
    // The real file fails with EIO, which a regular file cannot do.
    ("autosuspend_delay_ms", "", SWITCH),
    ("control", "auto", SWITCH),
    ("runtime_active_kids", "0", READ_ONLY),
    ("runtime_active_time", "0", READ_ONLY),
    ("runtime_enabled", "disabled", READ_ONLY),
    ("runtime_status", "unsupported", READ_ONLY),
    ("runtime_suspended_time", "0", READ_ONLY),
    ("runtime_usage", "0", READ_ONLY),
];

/// The files in `power/` of the PCI device.
pub(crate) const POWER_PCI: &[Extra] = &[
    ("async", "enabled", SWITCH),
    ("autosuspend_delay_ms", "", SWITCH),
    ("control", "on", SWITCH),
    ("runtime_active_kids", "0", READ_ONLY),
    ("runtime_active_time", "22738", READ_ONLY),
    ("runtime_enabled", "forbidden", READ_ONLY),
    ("runtime_status", "active", READ_ONLY),
    ("runtime_suspended_time", "0", READ_ONLY),
    ("runtime_usage", "2", READ_ONLY),
    ("wakeup", "disabled", SWITCH),
    ("wakeup_abort_count", "", READ_ONLY),
    ("wakeup_active", "", READ_ONLY),
    ("wakeup_active_count", "", READ_ONLY),
    ("wakeup_count", "", READ_ONLY),
    ("wakeup_expire_count", "", READ_ONLY),
    ("wakeup_last_time_ms", "", READ_ONLY),
    ("wakeup_max_time_ms", "", READ_ONLY),
    ("wakeup_total_time_ms", "", READ_ONLY),
];

/// The files of the PCI device that are not in the model's table.
pub(crate) const PCI: &[Extra] = &[
    ("ari_enabled", "0", READ_ONLY),
    ("class", "0x120000", READ_ONLY),
    ("consistent_dma_mask_bits", "32", READ_ONLY),
    ("dma_mask_bits", "64", READ_ONLY),
    ("enable", "1", SWITCH),
    ("irq", "0", READ_ONLY),
    ("link/l0s_aspm", "0", SWITCH),
    ("local_cpulist", "0-1", READ_ONLY),
    ("local_cpus", "3", READ_ONLY),
    ("msi_bus", "1", SWITCH),
    ("power_state", "D0", READ_ONLY),
    ("reset_method", "bus", SWITCH),
    ("revision", "0x01", READ_ONLY),
    ("subsystem_vendor", "0x1e52", READ_ONLY),
    ("vendor", "0x1e52", READ_ONLY),
];

/// The files of the bridge above the device that are not in the model's table.
pub(crate) const BRIDGE: &[Extra] = &[("class", "0x060400", READ_ONLY), ("vendor", "0x1b36", READ_ONLY), ("device", "0x000c", READ_ONLY)];

/// Parameters of the driver's module, with the first driver that has each.
const PARAMETERS: &[(Extra, Version)] = &[
    (("auto_reset_timeout", "10", READ_ONLY), Version::new(2, 0, 0)),
    (("dma_address_bits", "0", READ_ONLY), Version::new(2, 0, 0)),
    (("idle_power_down_grace_ms", "5000", SWITCH), Version::new(2, 9, 0)),
    (("max_devices", "32", READ_ONLY), Version::new(2, 0, 0)),
    (("power_policy", "Y", READ_ONLY), Version::new(2, 7, 0)),
    (("reset_limit", "10", READ_ONLY), Version::new(2, 0, 0)),
];

pub(crate) fn parameters(driver: Version) -> impl Iterator<Item = Extra> {
    PARAMETERS.iter().filter(move |(_, since)| *since <= driver).map(|(extra, _)| *extra)
}

pub(crate) fn modalias(chip: &Chip) -> String {
    format!("pci:v00001E52d{:08X}sv00001E52sd{:08X}bc12sc00i00", chip.board.silicon.pci_device, chip.product.upi)
}

/// Returns the `uevent` of the PCI device. It has a line for the driver while the device is bound.
pub(crate) fn uevent(chip: &Chip, pci: &Pci, is_bound: bool) -> String {
    let (device, upi) = (chip.board.silicon.pci_device, chip.product.upi);
    let driver = if is_bound { "DRIVER=tenstorrent\n" } else { "" };
    format!(
        "{driver}PCI_CLASS=120000\nPCI_ID=1E52:{device:04X}\nPCI_SUBSYS_ID=1E52:{upi:04X}\nPCI_SLOT_NAME={}\nMODALIAS={}",
        pci.bdf(),
        modalias(chip)
    )
}

/// Returns the `resource` file, with only BARs 0, 2 and 4 of a device.
pub(crate) fn resource(chip: &Chip) -> String {
    let base = 0x1_0000_0000 + u64::from(chip.id) * 0x4000_0000;
    let bars = [
        (base, 0x2000_0000, 0x14_220c),
        (0, 0, 0),
        (0xfe80_0000 + u64::from(chip.id) * 0x10_0000, 0x10_0000, 0x14_0204),
        (0, 0, 0),
        (base + 0x2000_0000, 0x200_0000, 0x14_220c),
    ];
    let line = |(start, bytes, flags): (u64, u64, u64)| format!("{start:#018x} {:#018x} {flags:#018x}", (start + bytes).saturating_sub(1));
    let lines: Vec<String> = bars.into_iter().chain([(0, 0, 0); 8]).map(line).collect();
    lines.join("\n")
}

/// Returns the `mappings` file in debugfs: a header, and a line per open file.
pub(crate) fn mappings(open: &[(u32, &str)]) -> String {
    const HEAD: &str = "WARNING: This file is for diagnostic purposes only.
Its format is not stable and may change in future driver versions.
Do not write scripts that parse this file.

PID      Comm             Type           Mapping Details
----     ----             ----           ---------------
";
    let lines: String = open.iter().map(|(pid, name)| format!("{pid:<8} {name:<16} OPEN_FD       \n")).collect();
    format!("{HEAD}{lines}")
}
