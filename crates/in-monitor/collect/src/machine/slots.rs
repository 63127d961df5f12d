//! Finds devices that belong to this machine but that the driver does not list at the first sample. A device id is the number of a slot,
//! and the ids of remote chips depend on all of them.
//!
//! These devices are on the PCI bus, or in a list that a service stores in its state directory while the machine runs. The first line of
//! the list is `ttmon-devices 1 BOOT MACHINE`, the others are `ID BDF BOARD`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use ttmon_model::identity::{Bdf, DeviceId};
use ttmon_model::limits::DEVICES_MAX;
use ttmon_model::sample::Problem;
use ttmon_model::{Attr, Missing};

use super::readers::Readers;
use super::{Error, LANE_OF_BUS, unread};
use crate::device::KnownDevice;
use crate::device::entry::{self, BusEntry};
use crate::reads::{Failure, Lane, Reply, Request, Sampling, Want, entries, is_there, read_small};
use crate::root::Root;
use crate::served;

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
        // In a tree without a boot id, no list is of this boot.
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
        // A list that cannot be read is missing like that of a service which never ran.
        let texts = own.map(Path::to_owned).into_iter().chain(others).filter_map(|file| read_list(&file).ok());
        let devices = texts.filter_map(|text| text.strip_prefix(&format!("{head}\n")).map(parse)).next().unwrap_or_default();
        Self { head, devices }
    }

    /// Adds the missing devices, and sets `former` if a number now belongs to another device. `bus` are the addresses of unlisted PCI
    /// devices. Returns the problems.
    pub(super) fn complete(
        &self,
        root: &Root,
        readers: &mut Readers,
        bus: &[Bdf],
        known: &mut Vec<KnownDevice>,
    ) -> Result<Vec<Problem>, Error> {
        let recorded = self.devices.iter().map(|(_, bdf, _)| *bdf);
        let unlisted: BTreeSet<Bdf> = recorded.chain(bus.iter().copied()).filter(|bdf| !is_known(known, *bdf)).collect();
        let entries = bus_entries(root, readers, unlisted)?;
        for (id, bdf, board) in &self.devices {
            if let Some(listed) = known.iter_mut().find(|known| known.id == *id) {
                listed.former = Some(*bdf).filter(|bdf| listed.bdf != Ok(*bdf));
            } else if let (false, Some(entry)) = (is_known(known, *bdf), entries.get(bdf)) {
                known.push(KnownDevice::remembered(root, *id, *bdf, entry, board));
            }
        }
        let mut problems = Vec::new();
        let mut unbound = Vec::new();
        for (bdf, entry) in entries.iter().filter(|(bdf, _)| !is_known(known, **bdf) && bus.contains(bdf)) {
            match entry.is_unbound() {
                Ok(is_unbound) => unbound.extend(is_unbound.then_some((*bdf, entry))),
                Err(file) => problems.push(unread(&root.pci().join(bdf.to_string()).join(file), Failure::Timeout)),
            }
        }
        // They get the lowest free numbers in the order of their addresses.
        let is_free = |id: &DeviceId| known.iter().all(|known| known.id != *id);
        let free: Vec<DeviceId> = (0..).map(DeviceId).filter(is_free).take(unbound.len()).collect();
        known.extend(unbound.into_iter().zip(free).map(|((bdf, entry), id)| KnownDevice::absent(root, id, bdf, entry)));
        Ok(problems)
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
        if ttmon_os::write_public(file, text.as_bytes()).is_ok() {
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

fn is_known(known: &[KnownDevice], bdf: Bdf) -> bool {
    known.iter().any(|known| known.bdf == Ok(bdf))
}

/// Returns the request for the list that shows whether devices may be without a driver: for the real machine, the kernel's list of all
/// devices and their drivers, which is far smaller than the bus directory.
pub(super) fn list_request(root: &Root) -> Request {
    match root.base {
        None => Request { path: root.proc.join("bus/pci/devices"), want: Want::Whole, bytes_max: LIST_BYTES_MAX, sampling: Sampling::Once },
        Some(_) => bus_request(root),
    }
}

/// Returns the addresses of PCI devices of which some may be Tenstorrent devices without a driver, from the reply to [`list_request`].
pub(super) fn candidates(root: &Root, readers: &mut Readers, list: &Reply) -> Result<Result<Vec<Bdf>, Failure>, Error> {
    match list {
        list if root.base.is_some() => Ok(addresses(list)),
        Ok(list) if !has_unbound(list) => Ok(Ok(Vec::new())),
        Ok(_) | Err(_) => Ok(addresses(&readers.read_lane(LANE_OF_BUS, vec![bus_request(root)])?[0])),
    }
}

fn bus_request(root: &Root) -> Request {
    Request { path: root.pci(), want: Want::Entries, bytes_max: LIST_BYTES_MAX, sampling: Sampling::Once }
}

/// Parses the names in the bus directory. A machine without PCI has no such directory.
fn addresses(list: &Reply) -> Result<Vec<Bdf>, Failure> {
    match list {
        Ok(names) => Ok(entries(names).filter_map(|name| name.to_str()?.parse().ok()).collect()),
        Err(failure) if Missing::from(*failure) == Missing::NotExposed => Ok(Vec::new()),
        Err(failure) => Err(*failure),
    }
}

/// Reads the directories of these devices on the bus. Each may block independently.
fn bus_entries(root: &Root, readers: &mut Readers, bdfs: BTreeSet<Bdf>) -> Result<BTreeMap<Bdf, BusEntry>, Error> {
    let lane = |bdf: &Bdf| Lane { key: LANE_OF_BUS + 1 + bdf.number(), requests: BusEntry::requests(root, *bdf).into() };
    let replies = readers.read(bdfs.iter().map(lane).collect())?;
    Ok(bdfs.into_iter().zip(replies).map(|(bdf, lane)| (bdf, BusEntry::take(&lane.replies))).collect())
}

/// Returns why no device is listed.
pub(super) fn why_none(root: &Root, readers: &mut Readers) -> Result<Error, Error> {
    let module = root.sys.join("module/tenstorrent");
    let replies = readers.read_lane(LANE_OF_BUS, vec![bus_request(root), entry::request(&module, Want::Link)])?;
    let bdfs = match addresses(&replies[0]) {
        Ok(bdfs) => bdfs,
        Err(failure) => return Ok(Error::Unreadable { file: root.pci(), reason: failure.into() }),
    };
    let mut devices = 0;
    for (bdf, entry) in bus_entries(root, readers, bdfs.into_iter().collect())? {
        match entry.is_ours() {
            Ok(is_ours) => devices += usize::from(is_ours),
            Err(file) => {
                return Ok(Error::Unreadable { file: root.pci().join(bdf.to_string()).join(file), reason: Missing::Timeout });
            }
        }
    }
    Ok(if devices == 0 { Error::NoDevice } else { Error::DriverNotLoaded { devices, is_loaded: is_there(&replies[1]) } })
}

/// Returns whether a Tenstorrent device may have no driver. The lines of the kernel's list are `BUSDEVFN VENDORDEVICE ... DRIVER`,
/// separated by tabs.
fn has_unbound(list: &[u8]) -> bool {
    let is_ours = |line: &&str| line.split('\t').nth(1).is_some_and(|ids| ids.starts_with("1e52"));
    String::from_utf8_lossy(list).lines().filter(is_ours).any(|line| line.ends_with('\t'))
}
