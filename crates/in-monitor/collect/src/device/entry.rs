//! What surrounds the files of a device: its entry in the class directory, and its directory on the PCI bus.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::reads::{Failure, Reply, Request, Sampling, Want, entries, is_there};
use ttmon_model::identity::{Bdf, DeviceId};
use ttmon_model::limits::ATTRIBUTE_BYTES_MAX;
use ttmon_model::{Arch, Attr, Missing, Raw, Reading};

use super::reading;
use crate::root::Root;

/// Maximum length of the target of a link, which is the longest path of Linux.
const LINK_BYTES_MAX: usize = 4096;
/// Maximum length of the names in `device/hwmon`. There are one or two.
const SENSORS_BYTES_MAX: usize = 64 * 1024;
const VENDOR: &[u8] = b"0x1e52";

pub(crate) fn request(path: &Path, want: Want) -> Request {
    let bytes_max = match want {
        Want::Link => LINK_BYTES_MAX,
        Want::Entries => SENSORS_BYTES_MAX,
        _ => ATTRIBUTE_BYTES_MAX,
    };
    Request { path: path.to_owned(), want, bytes_max, sampling: Sampling::Once }
}

/// The links and the sensors of a device that the driver lists.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) bdf: Reading<Bdf>,
    /// Whether the entry leads nowhere any more.
    pub(crate) is_gone: bool,
    /// The numbers of its hwmon directories.
    pub(crate) sensors: Reading<Vec<u32>>,
}

impl Entry {
    /// The number of [`Self::requests`].
    pub(crate) const FILES: usize = 3;

    pub(crate) fn requests(root: &Root, id: DeviceId) -> Vec<Request> {
        let directory = root.class_entry(id);
        let device = directory.join("device");
        vec![request(&device, Want::Link), request(&directory, Want::Link), request(&device.join("hwmon"), Want::Entries)]
    }

    /// Parses the replies to [`Self::requests`].
    pub(crate) fn take(replies: &[Reply]) -> Self {
        let is_gone = replies[0].as_ref().is_err_and(|failure| matches!(Missing::from(*failure), Missing::NotExposed | Missing::Gone));
        Self { bdf: bdf(&replies[0], &replies[1]), is_gone, sensors: sensors(&replies[2]) }
    }

    /// Returns the entry of a device that the driver does not list.
    pub(crate) fn unlisted(bdf: Bdf) -> Self {
        Self { bdf: Ok(bdf), is_gone: true, sensors: Err(Missing::NotExposed) }
    }
}

/// Returns the PCI address, which is the last part of the target of the `device` link: `../../../0000:c1:00.0`. For a device that just
/// left, the class link still has the address: `../../devices/pci0000:00/0000:00:01.0/0000:c1:00.0/tenstorrent/tenstorrent!0`.
fn bdf(link: &Reply, class_link: &Reply) -> Reading<Bdf> {
    let name_in = |path: &Path| path.file_name().and_then(|name| name.to_str()?.parse().ok());
    let path = |target: &Vec<u8>| PathBuf::from(OsStr::from_bytes(target));
    let reason = match link {
        Ok(target) => return name_in(&path(target)).ok_or(Missing::Unparsable),
        Err(failure) => match Missing::from(*failure) {
            Missing::NoPermission => return Err(Missing::NoPermission),
            Missing::Timeout => Missing::Timeout,
            _ => Missing::Gone,
        },
    };
    match class_link {
        Ok(target) => path(target).parent().and_then(Path::parent).and_then(name_in).ok_or(reason),
        Err(Failure::Timeout) => Err(Missing::Timeout),
        Err(_) => Err(reason),
    }
}

fn sensors(list: &Reply) -> Reading<Vec<u32>> {
    let number = |name: &OsStr| name.to_str()?.strip_prefix("hwmon")?.parse().ok();
    Ok(entries(list.as_ref().map_err(|failure| *failure)?).filter_map(number).collect())
}

/// The directory of a device on the PCI bus.
#[derive(Debug)]
pub(crate) struct BusEntry {
    /// Whether the device is on the bus. A directory that does not answer is there.
    pub(crate) is_on_bus: bool,
    vendor: Reply,
    driver: Reply,
    device: Reply,
    subsystem_device: Reply,
}

/// The name of the file that did not answer.
type Silent = &'static str;

impl BusEntry {
    pub(crate) fn requests(root: &Root, bdf: Bdf) -> Vec<Request> {
        let directory = root.pci().join(bdf.to_string());
        let file = |name: &str| request(&directory.join(name), Want::Whole);
        vec![
            request(&directory, Want::Link),
            file("vendor"),
            request(&directory.join("driver"), Want::Link),
            file(Attr::PciDevice.attribute().file),
            file(Attr::SubsystemDevice.attribute().file),
        ]
    }

    /// Takes the replies to [`Self::requests`].
    pub(crate) fn take(replies: &[Reply]) -> Self {
        let is_on_bus = is_there(&replies[0]) || replies[0] == Err(Failure::Timeout);
        let [vendor, driver, device, subsystem_device] = std::array::from_fn(|index| replies[index + 1].clone());
        Self { is_on_bus, vendor, driver, device, subsystem_device }
    }

    /// Returns whether this is a device of Tenstorrent.
    pub(crate) fn is_ours(&self) -> Result<bool, Silent> {
        Ok(answer(&self.vendor, "vendor")?.as_ref().is_ok_and(|vendor| vendor.trim_ascii() == VENDOR))
    }

    /// Returns whether this is a supported device without any driver.
    pub(crate) fn is_unbound(&self) -> Result<bool, Silent> {
        Ok(self.is_ours()? && !is_there(answer(&self.driver, "driver")?) && is_supported(answer(&self.device, "device")?))
    }

    /// Returns the attributes that show the board type.
    pub(crate) fn attributes(&self) -> [(Attr, Reading<Raw>); 2] {
        [(Attr::PciDevice, &self.device), (Attr::SubsystemDevice, &self.subsystem_device)]
            .map(|(attr, reply)| (attr, reading(attr.attribute(), reply)))
    }
}

fn answer(reply: &Reply, name: Silent) -> Result<&Reply, Silent> {
    if *reply == Err(Failure::Timeout) { Err(name) } else { Ok(reply) }
}

fn is_supported(device: &Reply) -> bool {
    let number = reading(Attr::PciDevice.attribute(), device).ok().and_then(|raw| raw.number());
    matches!(number.and_then(Arch::from_pci_device), Some(Arch::Wormhole | Arch::Blackhole))
}
