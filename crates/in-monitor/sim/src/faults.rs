//! Faults: when they occur, and how they appear in values, in files, or as a line of injected errors for the reader.
//!
//! A line is `path<TAB>fault`, for example `sys/class/tenstorrent/tenstorrent!3/tt_aiclk<TAB>EIO`. The path leads through the class
//! directory, like the paths of a reader. A directory covers everything below it.

use ttmon_model::Attr;
use ttmon_model::attributes::AttributeFolder;
use ttmon_model::units::Version;

use crate::chip::{Chip, Pci};
use crate::files::published;
use crate::spec::{Fault, FaultKind};
use crate::telemetry::Strain;

/// The name of the list of injected errors, at the root of a tree.
pub(crate) const FILE: &str = ".ttmon-faults";

/// Since this driver, reads fail with an error during a reset.
const GUARDED_SINCE: Version = Version::new(2, 9, 0);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Active<'a> {
    pub(crate) faults: &'a [Fault],
    pub(crate) device: u32,
    pub(crate) tick: u64,
}

impl Active<'_> {
    pub(crate) fn has(&self, kind: FaultKind) -> bool {
        self.kinds().any(|active| active == kind)
    }

    fn kinds(&self) -> impl Iterator<Item = FaultKind> {
        self.of_device().filter(|fault| fault.is_active(self.tick)).map(|fault| fault.kind)
    }

    fn of_device(&self) -> impl Iterator<Item = &Fault> {
        self.faults.iter().filter(|fault| fault.device == self.device)
    }

    /// Returns whether this device has a fault at any time. More of its files then change.
    pub(crate) fn is_possible(&self) -> bool {
        self.of_device().next().is_some()
    }

    pub(crate) fn is_plugged(&self) -> bool {
        !self.has(FaultKind::Unplug)
    }

    /// Returns whether the device is bound to the driver, if the driver is loaded.
    pub(crate) fn is_bound(&self) -> bool {
        self.is_plugged() && !self.has(FaultKind::Gone)
    }

    /// Returns whether the class link stays while the device is gone: from second 0, because a never listed device is not detected.
    pub(crate) fn keeps_link(&self) -> bool {
        let mut gone = self.of_device().filter(|fault| matches!(fault.kind, FaultKind::Gone | FaultKind::Unplug));
        gone.any(|fault| fault.is_active(self.tick) && fault.from_tick == 0)
    }

    pub(crate) fn is_ready(&self) -> bool {
        !self.has(FaultKind::Starting)
    }

    pub(crate) fn strain(&self) -> Strain {
        match () {
            () if self.has(FaultKind::Hot) => Strain::Limit,
            () if self.has(FaultKind::Throttle) => Strain::Throttle,
            () => Strain::None,
        }
    }

    /// Returns whether these files read as all ones. During a reset, the driver does not check counters, and up to 2.8 no file.
    pub(crate) fn is_garbage(&self, place: AttributeFolder, driver: Version) -> bool {
        let is_unguarded = place == AttributeFolder::Counters || driver < GUARDED_SINCE;
        self.has(FaultKind::Garbage) || (is_unguarded && self.has(FaultKind::Reset))
    }

    /// Returns the lines of injected errors for this chip.
    pub(crate) fn lines(&self, chip: &Chip, pci: &Pci, driver: Version) -> String {
        let class = format!("sys/class/tenstorrent/tenstorrent!{}", chip.id);
        let mut lines = String::new();
        if !self.is_bound() {
            return lines;
        }
        for kind in self.kinds() {
            let what = match kind {
                FaultKind::Hang => "hang",
                FaultKind::Reset if driver >= GUARDED_SINCE => "ENODATA",
                FaultKind::Eacces => "EACCES",
                FaultKind::Eio => "EIO",
                _ => continue,
            };
            let hwmon = format!("{class}/device/hwmon/hwmon{}", pci.hwmon);
            let mut add = |path: &str| lines.extend([path, "\t", what, "\n"]);
            for row in published(chip.product.arch, driver).filter(|_| self.is_ready()) {
                match row.folder {
                    AttributeFolder::Class => add(&format!("{class}/{}", row.file)),
                    // During a reset, `name` and the labels can still be read, because the driver itself provides them.
                    AttributeFolder::Hwmon if kind == FaultKind::Reset && row.attr != Attr::HwmonName => {
                        add(&format!("{hwmon}/{}", row.file));
                    }
                    _ => {}
                }
            }
            if kind != FaultKind::Reset && self.is_ready() {
                add(&hwmon);
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::{Layout, Location};
    use crate::spec::Spec;

    fn lines(spec: &str, device: u32, tick: u64) -> String {
        let spec = Spec::parse(spec).unwrap();
        let layout = Layout::new(&spec, 1);
        let chip = &layout.chips[device as usize];
        let Location::Local(pci) = &chip.location else { panic!("a local chip") };
        Active { faults: &spec.faults, device, tick }.lines(chip, pci, Version::new(2, 10, 0))
    }

    #[test]
    fn errors_of_telemetry_name_hwmon_and_each_file() {
        let lines = lines("p150x2,fault=eio:1", 1, 0);
        assert!(lines.contains("sys/class/tenstorrent/tenstorrent!1/device/hwmon/hwmon0\tEIO\n"), "{lines}");
        assert!(lines.contains("sys/class/tenstorrent/tenstorrent!1/tt_aiclk\tEIO\n"), "{lines}");
        assert!(lines.contains("tt_therm_trip_count\tEIO\n") && !lines.contains("tt_eth_fw_ver"), "{lines}");
        assert!(!lines.contains("pcie_perf_counters") && !lines.contains("/dev\t"), "{lines}");
    }

    #[test]
    fn each_kind_has_its_error_and_its_time() {
        for (kind, word) in [("hang", "hang"), ("reset", "ENODATA"), ("eacces", "EACCES"), ("eio", "EIO")] {
            let lines = lines(&format!("n150,fault={kind}:0"), 0, 0);
            assert!(!lines.is_empty() && lines.lines().all(|line| line.split('\t').nth(1) == Some(word)), "{lines}");
        }
        let reset = lines("n150,fault=reset:0@2-3", 0, 8);
        assert!(reset.contains("hwmon0/temp1_input\tENODATA\n") && !reset.contains("name") && !reset.contains("label"), "{reset}");
        assert_eq!((lines("n150,fault=reset:0@2-3", 0, 7), lines("n150,fault=reset:0@2-3", 0, 12)), (String::new(), String::new()));
        for kind in ["garbage", "hot", "throttle", "stale", "gone", "unplug", "unload", "starting", "link"] {
            assert_eq!(lines(&format!("n150,fault={kind}:0"), 0, 0), "", "{kind}");
        }
    }
}
