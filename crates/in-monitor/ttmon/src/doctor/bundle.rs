//! Packs the files for a bug report: the driver's files as a tree that `ttmon --root` reads, and texts beside it.
//!
//! The files are those of the attribute table and a fixed list, so no file that accesses the hardware is read. No command line, user name
//! or environment is packed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tar::{Builder, EntryType, Header};
use ttmon_collect::Root;
use ttmon_collect::reads::isolate::Reader;
use ttmon_collect::reads::{Lane, Request, Sampling, Want};
use ttmon_model::attributes::{ATTRIBUTES, AttributeFolder};
use ttmon_model::limits::ATTRIBUTE_BYTES_MAX;

/// Top directory of a bundle.
const TOP: &str = "ttmon-bundle";
/// Its subdirectory for the tree.
const TREE: &str = "root";
/// Files of a PCI device that are not in the attribute table.
const PCI_FILES: [&str; 4] = ["vendor", "subsystem_vendor", "class", "revision"];
/// Files of the machine.
const MACHINE_FILES: [&str; 5] = [
    "sys/module/tenstorrent/version",
    "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages",
    "proc/sys/kernel/osrelease",
    "proc/sys/kernel/yama/ptrace_scope",
    "proc/driver/tenstorrent/version",
];
/// Compression level of zstd.
const LEVEL: i32 = 9;
/// Bits of a serial number or an id that identify the board type; they are kept.
const KIND_BITS: u64 = !0 << 36;

/// An entry of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Path below the top directory.
    pub(crate) path: PathBuf,
    /// Its content.
    pub(crate) content: Content,
}

/// The content of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A file.
    File(Vec<u8>),
    /// A symbolic link.
    Link(PathBuf),
}

/// Replaces serial numbers and ids. Equal numbers have equal replacements.
#[derive(Debug, Default)]
pub(crate) struct Pseudonyms(BTreeMap<u64, u64>);

impl Pseudonyms {
    /// Returns the replacement of a number.
    pub(crate) fn number(&mut self, number: u64) -> u64 {
        let next = self.0.len() as u64 + 1;
        *self.0.entry(number).or_insert(number & KIND_BITS | next)
    }

    /// Replaces all known numbers in a text, in the spellings that ttmon prints.
    pub(crate) fn text(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (from, to)| {
            let spellings = [format!("{from:016X}"), format!("{from:016x}"), format!("{from:#x}"), from.to_string()];
            let replaced = [format!("{to:016X}"), format!("{to:016x}"), format!("{to:#x}"), to.to_string()];
            // Short numbers are not replaced, because they occur in many texts by chance.
            spellings.iter().zip(&replaced).filter(|(from, _)| from.len() >= 10).fold(text, |text, (from, to)| text.replace(from, to))
        })
    }
}

/// Reads the driver's files below `root`. Forks, so the program must have one thread.
pub(crate) fn tree(
    root: &Root,
    directory: &Path,
    read_timeout: Duration,
    mut pseudonyms: Option<&mut Pseudonyms>,
) -> io::Result<Vec<Entry>> {
    let mut wanted: BTreeSet<PathBuf> = MACHINE_FILES.iter().map(|file| directory.join(file)).collect();
    let mut links: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for class in listed(&root.sys.join("class/tenstorrent")) {
        devices_files(&class, &mut wanted, &mut links);
    }
    for device in listed(&root.sys.join("bus/pci/devices")) {
        let is_ours = fs::read_to_string(device.join("vendor")).is_ok_and(|vendor| vendor.trim() == "0x1e52");
        if is_ours {
            follow(&device, &mut links);
        }
    }
    let paths: Vec<PathBuf> = wanted.into_iter().collect();
    let request =
        |path: &PathBuf| Request { path: path.clone(), want: Want::Beginning, bytes_max: ATTRIBUTE_BYTES_MAX, sampling: Sampling::Once };
    // The files of a directory may hang together, so they share a lane.
    let mut lanes: BTreeMap<&Path, Vec<Request>> = BTreeMap::new();
    for path in &paths {
        lanes.entry(path.parent().unwrap_or(path)).or_default().push(request(path));
    }
    let lanes: Vec<Lane> = (0..).zip(lanes.into_values()).map(|(key, requests)| Lane { key, requests: Arc::from(requests) }).collect();
    let read: Vec<PathBuf> = lanes.iter().flat_map(|lane| lane.requests.iter().map(|request| request.path.clone())).collect();
    let replies = Reader::fork(read_timeout, None)?.read(lanes)?;
    let replies = replies.into_iter().flat_map(|lane| lane.replies);
    let below = |path: &Path| Some(Path::new(TREE).join(path.strip_prefix(directory).ok()?));
    let mut entries = Vec::new();
    for (path, reply) in read.into_iter().zip(replies) {
        let (Some(packed), Ok(bytes)) = (below(&path), reply) else { continue };
        let is_secret = ["tt_serial", "tt_asic_id"].iter().any(|name| path.ends_with(name));
        let bytes = match pseudonyms.as_deref_mut().filter(|_| is_secret) {
            Some(pseudonyms) => number(&bytes).map_or_else(Vec::new, |found| format!("{:016X}\n", pseudonyms.number(found)).into_bytes()),
            None => bytes,
        };
        entries.push(Entry { path: packed, content: Content::File(bytes) });
    }
    entries.extend(links.into_iter().filter_map(|(path, target)| Some(Entry { path: below(&path)?, content: Content::Link(target) })));
    Ok(entries)
}

/// Adds the files of one device, and the links that lead to them.
fn devices_files(class: &Path, wanted: &mut BTreeSet<PathBuf>, links: &mut BTreeMap<PathBuf, PathBuf>) {
    let Some(own) = follow(class, links) else { return };
    let Some(pci) = follow(&own.join("device"), links) else { return };
    follow(&pci.join("driver"), links);
    let sensors = listed(&pci.join("hwmon"));
    for row in ATTRIBUTES {
        match row.folder {
            AttributeFolder::Class => _ = wanted.insert(own.join(row.file)),
            AttributeFolder::Counters => _ = wanted.insert(own.join("pcie_perf_counters").join(row.file)),
            AttributeFolder::Pci => _ = wanted.insert(pci.join(row.file)),
            AttributeFolder::Bridge => wanted.extend(pci.parent().map(|bridge| bridge.join(row.file))),
            AttributeFolder::Hwmon => wanted.extend(sensors.iter().map(|sensor| sensor.join(row.file))),
        }
    }
    wanted.extend(PCI_FILES.iter().map(|file| pci.join(file)));
}

/// Returns the target of a link, and records the link. A directory is its own target.
fn follow(path: &Path, links: &mut BTreeMap<PathBuf, PathBuf>) -> Option<PathBuf> {
    if let Ok(target) = fs::read_link(path) {
        links.insert(path.to_owned(), target);
    }
    fs::canonicalize(path).ok()
}

fn listed(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn number(bytes: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(bytes).ok()?.trim(), 16).ok()
}

/// Packs entries as tar, compressed with zstd. Equal entries give equal bytes.
pub(crate) fn pack(entries: &[Entry]) -> io::Result<Vec<u8>> {
    let mut archive = Builder::new(Vec::new());
    for entry in entries {
        let path = Path::new(TOP).join(&entry.path);
        let mut header = Header::new_gnu();
        header.set_mode(0o644);
        match &entry.content {
            Content::File(bytes) => {
                header.set_size(bytes.len() as u64);
                archive.append_data(&mut header, path, bytes.as_slice())?;
            }
            Content::Link(target) => {
                header.set_entry_type(EntryType::Symlink);
                header.set_size(0);
                archive.append_link(&mut header, path, target)?;
            }
        }
    }
    zstd::bulk::compress(&archive.into_inner()?, LEVEL)
}
