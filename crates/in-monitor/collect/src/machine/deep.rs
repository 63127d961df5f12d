//! Direct reads of the chips, in separate processes.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use ttmon_deep::{ChipFiles, Readers};
use ttmon_model::deep::DeepSample;
use ttmon_model::identity::DeviceId;
use ttmon_model::{Arch, Attr, Missing, Reading};

use crate::device::KnownDevice;
use crate::root::Root;

#[derive(Debug)]
pub(super) struct Deep {
    readers: Readers,
    samples: BTreeMap<DeviceId, Reading<DeepSample>>,
}

impl Deep {
    pub(super) fn new(program: &Path, read_timeout: Duration) -> Self {
        Self { readers: Readers::new(program.to_owned(), read_timeout), samples: BTreeMap::new() }
    }

    /// Samples the present chips. Their files must have been read before: a chip that is being reset is not opened.
    pub(super) fn sample(&mut self, root: &Root, known: &[KnownDevice]) {
        let places: Vec<(DeviceId, Reading<ChipFiles>)> = known.iter().map(|known| (known.id, place(root, known))).collect();
        let asked: Vec<ChipFiles> = places.iter().filter_map(|(_, place)| place.clone().ok()).collect();
        let mut answers = self.readers.sample(&asked).into_iter();
        let sample =
            |(id, place): (DeviceId, Reading<ChipFiles>)| (id, place.and_then(|_| answers.next().unwrap_or(Err(Missing::IoError))));
        self.samples = places.into_iter().map(sample).collect();
    }

    pub(super) fn of(&self, id: DeviceId) -> Reading<DeepSample> {
        self.samples.get(&id).cloned().unwrap_or(Err(Missing::IoError))
    }
}

fn place(root: &Root, known: &KnownDevice) -> Reading<ChipFiles> {
    if known.has_left {
        return Err(Missing::Gone);
    }
    if let Err(reason @ (Missing::Resetting | Missing::Gone)) = known.attributes.number(Attr::Aiclk) {
        return Err(reason);
    }
    let arch = Arch::from_pci_device(known.attributes.number(Attr::PciDevice)?).ok_or(Missing::NotOnThisArch)?;
    if arch == Arch::Grayskull {
        return Err(Missing::NotOnThisArch);
    }
    let (directory, is_simulated) = root.chips();
    Ok(ChipFiles {
        node: directory.join(known.id.to_string()),
        pids: root.driver.join(known.id.to_string()).join("pids"),
        grace: root.sys.join("module/tenstorrent/parameters/idle_power_down_grace_ms"),
        arch,
        is_simulated,
    })
}
