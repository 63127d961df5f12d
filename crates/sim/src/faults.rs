//! What goes wrong, when, and how it is told: in the values, in the files, or as a line of injected errors for the reader.
//!
//! A line is `path<TAB>what`, for example `sys/class/tenstorrent/tenstorrent!3/tt_aiclk<TAB>EIO`. The path is the one a
//! reader builds, through the class directory; a directory stands for all below it.

use ttmon_model::attributes::Place;
use ttmon_model::units::Version;

use crate::chip::{Chip, Pci};
use crate::files::published;
use crate::spec::{Fault, FaultKind};
use crate::telemetry::Strain;

/// Name of the list of injected errors at the root of a tree.
pub(crate) const FILE: &str = ".ttmon-faults";

/// The faults of one device that have begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Active<'a> {
    faults: &'a [Fault],
    device: u32,
    tick: u64,
}

impl<'a> Active<'a> {
    pub(crate) fn new(faults: &'a [Fault], device: u32, tick: u64) -> Self {
        Self { faults, device, tick }
    }

    pub(crate) fn has(&self, kind: FaultKind) -> bool {
        self.kinds().any(|active| active == kind)
    }

    fn kinds(&self) -> impl Iterator<Item = FaultKind> {
        let begun = self.faults.iter().filter(|fault| fault.device == self.device && fault.from_tick <= self.tick);
        begun.map(|fault| fault.kind)
    }

    pub(crate) fn strain(&self) -> Strain {
        match () {
            () if self.has(FaultKind::Hot) => Strain::Limit,
            () if self.has(FaultKind::Throttle) => Strain::Throttle,
            () => Strain::None,
        }
    }

    /// Whether files of this place hold what a dead bus answers. Counters have no guard in the driver: they say so
    /// during a reset as well.
    pub(crate) fn is_garbage(&self, place: Place) -> bool {
        self.has(FaultKind::Garbage) || (place == Place::Counters && self.has(FaultKind::Reset))
    }

    /// The lines that inject this chip's errors.
    pub(crate) fn lines(&self, chip: &Chip, pci: &Pci, driver: Version) -> String {
        let class = format!("sys/class/tenstorrent/tenstorrent!{}", chip.id);
        let mut lines = String::new();
        for kind in self.kinds() {
            let what = match kind {
                FaultKind::Hang => "hang",
                FaultKind::Gone => "ENODEV",
                FaultKind::Reset => "ENODATA",
                FaultKind::Eacces => "EACCES",
                FaultKind::Eio => "EIO",
                FaultKind::Garbage | FaultKind::Hot | FaultKind::Throttle | FaultKind::Stale => continue,
            };
            let mut add = |path: &str| lines.extend([path, "\t", what, "\n"]);
            if kind == FaultKind::Gone {
                add(&class);
                continue;
            }
            add(&format!("{class}/device/hwmon/hwmon{}", pci.hwmon));
            for row in published(chip.product.arch, driver).filter(|row| row.place == Place::Class) {
                add(&format!("{class}/{}", row.file));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::{Layout, Seat};
    use crate::spec::Spec;

    fn lines(spec: &str, device: u32, tick: u64) -> String {
        let spec = Spec::parse(spec).unwrap();
        let layout = Layout::new(&spec, 1);
        let chip = &layout.chips[device as usize];
        let Seat::Local(pci) = &chip.seat else { panic!("a local chip") };
        Active::new(&spec.faults, device, tick).lines(chip, pci, Version::new(2, 10, 0))
    }

    #[test]
    fn errors_of_telemetry_name_hwmon_and_each_file() {
        let lines = lines("p150x2,fault=eio:1", 1, 0);
        assert!(lines.starts_with("sys/class/tenstorrent/tenstorrent!1/device/hwmon/hwmon3\tEIO\n"), "{lines}");
        assert!(lines.contains("sys/class/tenstorrent/tenstorrent!1/tt_aiclk\tEIO\n"), "{lines}");
        assert!(lines.contains("tt_therm_trip_count\tEIO\n") && !lines.contains("tt_eth_fw_ver"), "{lines}");
        assert!(!lines.contains("pcie_perf_counters") && !lines.contains("/dev\t"), "{lines}");
    }

    #[test]
    fn each_kind_has_its_word_and_its_time() {
        assert_eq!(lines("n150,fault=gone:0@2", 0, 7), "");
        assert_eq!(lines("n150,fault=gone:0@2", 0, 8), "sys/class/tenstorrent/tenstorrent!0\tENODEV\n");
        for (kind, word) in [("hang", "hang"), ("reset", "ENODATA"), ("eacces", "EACCES"), ("eio", "EIO")] {
            let lines = lines(&format!("n150,fault={kind}:0"), 0, 0);
            assert!(!lines.is_empty() && lines.lines().all(|line| line.split('\t').nth(1) == Some(word)), "{lines}");
        }
        for kind in ["garbage", "hot", "throttle", "stale"] {
            assert_eq!(lines(&format!("n150,fault={kind}:0"), 0, 0), "", "{kind}");
        }
    }
}
