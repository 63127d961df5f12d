//! Finds devices that belong to this machine but that the driver does not list at the first sample. A device id is the number of a slot,
//! and the ids of remote chips depend on all of them.
//!
//! These devices are on the PCI bus, or in a list that a service stores in its state directory while the machine runs. The first line of
//! the list is `ttmon-devices 1 BOOT MACHINE`, the others are `ID BDF BOARD`.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use ttmon_model::identity::{Bdf, DeviceId};
use ttmon_model::limits::DEVICES_MAX;
use ttmon_model::{Arch, Attr};

use crate::device::KnownDevice;
use crate::root::Root;
use crate::served;
use ttmon_reads::read_small;

const LIST_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The file name of the list in the state directory of a service.
const FILE: &str = "devices";
/// Maximum length of a line of the file. Real lines are far shorter.
const LINE_BYTES_MAX: usize = 128;
const BOARD_UNKNOWN: &str = "-";

type Slot = (DeviceId, Bdf, String);

#[derive(Debug, Default)]
pub(super) struct Slots {
    /// The first line of the file. It is empty if nothing can be stored.
    head: String,
    devices: Vec<Slot>,
}

impl Slots {
    /// Reads the list that was stored since the machine started: from the file `own`, or else from the file of a trusted service.
    pub(super) fn read(root: &Root, own: Option<&Path>, machine: u64) -> Self {
        let boot = read_small(&root.proc.join("sys/kernel/random/boot_id"), 64).unwrap_or_default();
        let boot = String::from_utf8_lossy(boot.trim_ascii()).into_owned();
        if boot.is_empty() {
            return Self::default();
        }
        let head = format!("ttmon-devices 1 {boot} {machine}");
        let is_trusted = |directory: &&PathBuf| {
            fs::symlink_metadata(directory).is_ok_and(|metadata| metadata.is_dir() && [0, geteuid().as_raw()].contains(&metadata.uid()))
        };
        let others = root.served.iter().filter(is_trusted).map(|directory| directory.join(FILE));
        let texts = own.map(Path::to_owned).into_iter().chain(others).filter_map(|file| read_list(&file).ok());
        let devices = texts.filter_map(|text| text.strip_prefix(&format!("{head}\n")).map(parse)).next().unwrap_or_default();
        Self { head, devices }
    }

    /// Adds the missing devices, and sets `former` if a number now belongs to another device.
    pub(super) fn complete(&self, root: &Root, known: &mut Vec<KnownDevice>) {
        for (id, bdf, board) in &self.devices {
            if let Some(listed) = known.iter_mut().find(|known| known.id == *id) {
                listed.former = Some(*bdf).filter(|bdf| listed.bdf != Ok(*bdf));
            } else if known.iter().all(|known| known.bdf != Ok(*bdf)) {
                known.push(KnownDevice::remembered(root, *id, *bdf, board));
            }
        }
        known.extend(absent(root, known));
    }

    /// Writes the devices to the file if they changed. Failures are ignored.
    pub(super) fn keep(&mut self, file: &Path, known: &[KnownDevice]) {
        let board = |known: &KnownDevice| known.attributes.text(Attr::CardType).unwrap_or(BOARD_UNKNOWN).to_owned();
        let devices: Vec<Slot> = known.iter().filter_map(|known| Some((known.id, known.bdf.ok()?, board(known)))).collect();
        if devices == self.devices || self.head.is_empty() {
            return;
        }
        let lines = devices.iter().map(|(id, bdf, board)| format!("{id} {bdf} {board}\n"));
        let text = format!("{}\n{}", self.head, lines.collect::<String>());
        if ttmon_files::write_public(file, text.as_bytes()).is_ok() {
            self.devices = devices;
        }
    }
}

fn read_list(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    served::open(file)?.take((DEVICES_MAX * LINE_BYTES_MAX) as u64).read_to_string(&mut text)?;
    Ok(text)
}

fn parse(lines: &str) -> Vec<Slot> {
    let slot = |line: &str| {
        let mut words = line.split(' ');
        Some((DeviceId(words.next()?.parse().ok()?), words.next()?.parse().ok()?, words.next()?.to_owned()))
    };
    lines.lines().take(DEVICES_MAX).filter_map(slot).collect()
}

/// Returns the PCI addresses of Tenstorrent devices, in order.
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

/// Returns supported devices on the bus without any driver, with the lowest free numbers in the order of their addresses.
fn absent(root: &Root, listed: &[KnownDevice]) -> Vec<KnownDevice> {
    if !may_be_unbound(root) {
        return Vec::new();
    }
    let has_driver = |bdf: &Bdf| fs::symlink_metadata(root.pci().join(bdf.to_string()).join("driver")).is_ok();
    let unbound =
        on_bus(root).filter(|bdf| listed.iter().all(|known| known.bdf != Ok(*bdf)) && !has_driver(bdf) && is_supported(root, *bdf));
    let free = (0..).map(DeviceId).filter(|id| listed.iter().all(|known| known.id != *id));
    unbound.zip(free).map(|(bdf, id)| KnownDevice::absent(root, id, bdf)).collect()
}

fn is_supported(root: &Root, bdf: Bdf) -> bool {
    let text = read_small(&root.pci().join(bdf.to_string()).join("device"), 64).unwrap_or_default();
    let number = String::from_utf8_lossy(&text).trim().strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    matches!(number.and_then(Arch::from_pci_device), Some(Arch::Wormhole | Arch::Blackhole))
}

/// Returns whether a Tenstorrent device may have no driver. The kernel's list of all devices and their drivers is far smaller than the bus
/// directory. Its lines are `BUSDEVFN VENDORDEVICE ... DRIVER`, separated by tabs.
fn may_be_unbound(root: &Root) -> bool {
    let list = read_small(&root.proc.join("bus/pci/devices"), LIST_BYTES_MAX).ok().filter(|_| root.base.is_none());
    list.is_none_or(|list| {
        let is_ours = |line: &&str| line.split('\t').nth(1).is_some_and(|ids| ids.starts_with("1e52"));
        String::from_utf8_lossy(&list).lines().filter(is_ours).any(|line| line.ends_with('\t'))
    })
}
