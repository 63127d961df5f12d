//! Dumps list everything that is still allocated, from all sources, in the format of allocation_server_poc.
//!
//! Ledgers are added to the sums one after another, so a dump needs no more memory than its largest ledger. A user gets its own buffers in
//! full and those of others as totals. Root, the service's user and the service's own output get everything.

mod ledgers;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ttmon_ledger::report::BUFFER_KINDS;
use ttmon_ledger_reader::buffer_kind;
use ttmon_model::ledger::{BufferKind, Ledger, LedgerAllocator, LedgerCircular};
use ttmon_model::{DeviceId, KernelType, KernelTypes, KernelUse, Sample, Snapshot, Source};

pub(crate) use ledgers::{DumpWork, ToDump, dumps};

use crate::limits::DUMP_BUFFERS_MAX;
use crate::lines::{CB, KERNEL, kilobytes, kind_name, megabytes};
use crate::owner::add;

/// The content of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// Buffers: the message DUMP_REMAINING, on stdout.
    Buffers,
    /// Kernels: DUMP_KERNELS, on stdout.
    Kernels,
    /// The whole dump, for a peer that sent an empty line.
    Everything,
}

impl About {
    /// In the order of the discriminants.
    pub(crate) const ALL: [Self; 3] = [Self::Buffers, Self::Kernels, Self::Everything];
}

/// Connections that wait for a dump of one sort. One dump is in progress; requests made meanwhile share the next one.
#[derive(Debug, Default)]
pub(crate) struct DumpQueue {
    pub(crate) is_under_way: bool,
    /// The dump waits for a sample of the other sources.
    pub(crate) is_waiting: bool,
    pub(crate) is_wanted_again: bool,
    /// Root or the service's own user requested a printed dump.
    pub(crate) is_whole: bool,
    /// Connections that wait for the dump in progress.
    pub(crate) requesters: Vec<(u64, Viewer)>,
    /// Connections that wait for the next dump.
    pub(crate) later: Vec<(u64, Viewer)>,
}

/// What the reader of a dump may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Viewer {
    Whole,
    /// The buffers of this user in full, those of others as totals.
    User(u32),
}

impl Viewer {
    /// Returns what a peer of this user may see, by the rules of the API.
    pub(crate) fn of(uid: u32) -> Self {
        if uid == 0 || uid == rustix::process::geteuid().as_raw() { Self::Whole } else { Self::User(uid) }
    }

    fn has(self, uid: u32) -> bool {
        self == Self::Whole || self == Self::User(uid)
    }
}

#[derive(Debug)]
struct Item {
    size: u64,
    refs: u32,
    time: u64,
    tag: Option<String>,
    kernel_type: Option<KernelType>,
}

/// One kind of memory of one device.
#[derive(Debug, Default)]
struct Sums {
    count: u64,
    bytes: u64,
    /// Count and bytes of users whose buffers the reader may not see.
    of_others: (u64, u64),
    /// The reader's first buffers, by address and pid.
    listed: BTreeMap<(u64, u32), Item>,
    /// Types of kernels in listed ledgers.
    kernel_types: KernelTypes,
    /// Bytes that a source reports without a list of buffers: the pid, the bytes and the source.
    reported: Vec<(u32, u64, Source)>,
}

/// A device: the number that the process uses, or its id if no number is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ChipNumber {
    Number(u64),
    Device(DeviceId),
}

#[derive(Debug)]
pub(crate) struct Dump {
    viewer: Viewer,
    chips: BTreeMap<ChipNumber, BTreeMap<BufferKind, Sums>>,
    /// Processes whose ledgers could not be read.
    unreadable: Vec<u32>,
    /// Number of processes whose buffers are included in the sums but not listed.
    unlisted: u64,
}

impl Dump {
    pub(crate) fn new(viewer: Viewer) -> Self {
        Self { viewer, chips: BTreeMap::new(), unreadable: Vec::new(), unlisted: 0 }
    }

    pub(crate) fn add_unreadable(&mut self, pid: u32) {
        self.unreadable.push(pid);
    }

    /// Adds a ledger, except for devices and kinds that the process's own ledger has already counted. Without buffers, its list exceeded
    /// the limit.
    pub(crate) fn add(&mut self, pid: u32, uid: u32, ledger: &Ledger, is_counted: impl Fn(u32, BufferKind) -> bool) {
        let is_seen = self.viewer.has(uid);
        let devices: Vec<Vec<u32>> = ledger.allocators.iter().map(devices).collect();
        for (allocator, devices) in ledger.allocators.iter().zip(&devices) {
            for (device, row) in devices.iter().flat_map(|device| allocator.rows.iter().map(move |row| (*device, row))) {
                if row.count > 0 && !is_counted(device, row.kind) {
                    self.sums(device, row.kind).count(row.count, row.used, is_seen);
                }
            }
        }
        // The rows do not include a program's circular buffers. Those inside an L1 buffer are counted with that buffer.
        for circular in ledger.circulars.iter().filter(|circular| !circular.is_global) {
            for device in devices_of_circular(ledger, circular).into_iter().filter(|device| !is_counted(*device, CB)) {
                let sums = self.sums(device, CB);
                sums.count(1, circular.size, is_seen);
                if is_seen {
                    sums.list((circular.address, pid), || Item { size: circular.size, refs: 1, time: 0, tag: None, kernel_type: None });
                }
            }
        }
        for buffer in ledger.buffers.iter().filter(|buffer| is_seen || buffer.kind == KERNEL) {
            let devices = devices.get(usize::from(buffer.allocator)).into_iter().flatten();
            for device in devices.copied().filter(|device| !is_counted(*device, buffer.kind)) {
                let sums = self.sums(device, buffer.kind);
                if let Some(kernel_type) = buffer.kernel_type {
                    sums.kernel_types.add(kernel_type, KernelUse { used: buffer.size, count: 1 });
                }
                if is_seen {
                    let tag = || buffer.tag.as_ref().map(ToString::to_string);
                    let (size, refs, time, kernel_type) = (buffer.size, buffer.refs, buffer.time.0, buffer.kernel_type);
                    sums.list((buffer.address, pid), || Item { size, refs, time, tag: tag(), kernel_type });
                }
            }
        }
        self.unlisted += u64::from(is_seen && ledger.buffers.is_empty() && ledger.live_entries() > 0);
    }

    fn sums(&mut self, device: u32, kind: BufferKind) -> &mut Sums {
        self.chips.entry(ChipNumber::Number(u64::from(device))).or_default().entry(kind).or_default()
    }

    /// Adds memory from sources that report no buffers.
    pub(crate) fn add_reported(&mut self, sample: &Sample) {
        let snapshot = Snapshot::derive(sample, None);
        for process in &snapshot.processes {
            // A device without a number is listed by its id.
            let number = |id: DeviceId| snapshot.devices.iter().find(|device| device.id == id).and_then(|device| device.metal_id.ok());
            let on_devices =
                process.devices.iter().map(|on| (number(on.device).map_or(ChipNumber::Device(on.device), ChipNumber::Number), &on.kinds));
            let unmapped = process.unmapped.iter().map(|on| (ChipNumber::Number(on.id), &on.kinds));
            for (chip, kinds) in on_devices.chain(unmapped) {
                for (kind, figure) in kinds.iter() {
                    let (Ok(source @ (Source::Shm | Source::Fdinfo)), Ok(used @ 1..)) = (figure.source, figure.used) else { continue };
                    let sums = self.chips.entry(chip).or_default().entry(BufferKind::Of(kind)).or_default();
                    sums.reported.push((process.key.pid, used, source));
                }
            }
        }
    }

    pub(crate) fn text(&self, about: About, now_unix_ns: u64) -> String {
        let mut text = String::new();
        for pid in &self.unreadable {
            let _ = writeln!(text, "⚠ [PID {pid}] its ledger could not be read: what it has is not in this list");
        }
        if self.unlisted > 0 {
            let _ = writeln!(text, "⚠ Buffers of {} processes are only in the sums: there are too many to list", self.unlisted);
        }
        match about {
            About::Buffers => {
                text.push_str("📋 Received DUMP_REMAINING request...\n");
                self.buffers(&mut text);
                text.push_str("📋 DUMP_REMAINING complete.\n");
            }
            About::Kernels => {
                self.kernels(&mut text, now_unix_ns);
                text.push_str("📋 DUMP_KERNELS complete.\n");
            }
            About::Everything => {
                self.buffers(&mut text);
                for (chip, sums) in self.of_kind(CB) {
                    let _ = writeln!(text, "{chip}:\n  CB: {} circular buffers, {} MB total", sums.count, megabytes(sums.total()));
                    sums.write(&mut text, "CB");
                    text.push('\n');
                }
                if self.of_kind(KERNEL).next().is_some() {
                    self.kernels(&mut text, now_unix_ns);
                }
            }
        }
        text
    }

    fn of_kind(&self, kind: BufferKind) -> impl Iterator<Item = (&ChipNumber, &Sums)> {
        self.chips.iter().filter_map(move |(chip, kinds)| Some((chip, kinds.get(&kind)?)))
    }

    fn buffers(&self, text: &mut String) {
        let listed = BUFFER_KINDS.map(buffer_kind);
        let kinds = || self.chips.values().flatten().filter(|(kind, _)| listed.contains(kind));
        let all = kinds().map(|(_, sums)| sums.count).fold(0, u64::saturating_add);
        title(text, "REMAINING ALLOCATED BUFFERS");
        let _ = writeln!(text, "Total tracked allocations: {all}\n");
        if kinds().next().is_none() && self.unreadable.is_empty() {
            text.push_str("✓ No buffers remaining - perfect cleanup!\n");
            return;
        }
        for (chip, kinds) in self.chips.iter().filter(|(_, kinds)| kinds.keys().any(|kind| listed.contains(kind))) {
            let _ = writeln!(text, "{chip}:");
            for (kind, sums) in listed.into_iter().filter_map(|kind| Some((kind, kinds.get(&kind)?))) {
                let name = kind_name(kind);
                let _ = writeln!(text, "  {name}: {} buffers, {} MB total", sums.count, megabytes(sums.total()));
                sums.write(text, "Buffer");
            }
            text.push('\n');
        }
        let _ = writeln!(text, "Total remaining buffers: {all}\n");
    }

    fn kernels(&self, text: &mut String, now_unix_ns: u64) {
        title(text, "DETAILED KERNEL ALLOCATIONS");
        let all = self.of_kind(KERNEL).map(|(_, sums)| sums.count).fold(0, u64::saturating_add);
        let _ = writeln!(text, "Total kernel allocations: {all}");
        let bar = "─".repeat(57);
        for (chip, sums) in self.of_kind(KERNEL) {
            let _ = writeln!(text, "\n📊 {chip} - Total: {} MB ({} kernels)", megabytes(sums.total()), sums.count);
            for (kernel_type, kernels) in sums.kernel_types.iter() {
                let _ = writeln!(text, "   {}: {} MB ({} kernels)", kernel_type.title(), megabytes(kernels.used), kernels.count);
            }
            let _ = writeln!(text, "  ┌{bar}┐");
            for ((address, pid), item) in &sums.listed {
                let age = now_unix_ns.saturating_sub(item.time) / 1_000_000_000;
                let _ = writeln!(text, "  │ Kernel ID: {address:#x}");
                let _ = writeln!(text, "  │   Size:      {} KB", kilobytes(item.size));
                if let Some(kernel_type) = item.kernel_type {
                    let _ = writeln!(text, "  │   Type:      {}", kernel_type.title());
                }
                let _ = writeln!(text, "  │   Owner PID: {pid}");
                let _ = writeln!(text, "  │   Age:       {age} seconds\n  │");
            }
            sums.rest(text, "  │ ", "\n  │");
            let _ = writeln!(text, "  └{bar}┘");
        }
        text.push('\n');
    }
}

impl Sums {
    fn count(&mut self, count: u64, bytes: u64, is_seen: bool) {
        (self.count, self.bytes) = add((self.count, self.bytes), (count, bytes));
        if !is_seen {
            self.of_others = add(self.of_others, (count, bytes));
        }
    }

    fn list(&mut self, key: (u64, u32), item: impl FnOnce() -> Item) {
        if self.listed.len() < DUMP_BUFFERS_MAX || self.listed.last_key_value().is_some_and(|(last, _)| key < *last) {
            self.listed.insert(key, item());
            if self.listed.len() > DUMP_BUFFERS_MAX {
                self.listed.pop_last();
            }
        }
    }

    fn total(&self) -> u64 {
        self.reported.iter().fold(self.bytes, |sum, (_, bytes, _)| sum.saturating_add(*bytes))
    }

    fn write(&self, text: &mut String, word: &str) {
        for ((address, pid), Item { size, refs, tag, .. }) in &self.listed {
            let _ = write!(text, "    - {word} {address:#x}: {} KB (PID {pid}, ref_count={refs}", kilobytes(*size));
            match tag {
                Some(tag) => {
                    let _ = writeln!(text, ", says {tag})");
                }
                None => text.push_str(")\n"),
            }
        }
        self.rest(text, "    ", "");
    }

    /// Writes how many buffers are not listed.
    fn rest(&self, text: &mut String, before: &str, after: &str) {
        let more = self.count - self.of_others.0 - (self.listed.len() as u64).min(self.count - self.of_others.0);
        if more > 0 {
            let _ = writeln!(text, "{before}... and {more} more{after}");
        }
        if self.of_others.0 > 0 {
            let (count, bytes) = self.of_others;
            let _ = writeln!(text, "{before}- {count} of other users: {} KB{after}", kilobytes(bytes));
        }
        for (pid, bytes, source) in self.reported.iter().take(DUMP_BUFFERS_MAX) {
            let who = if *source == Source::Shm { "TT-Metal" } else { "the driver" };
            let _ = writeln!(text, "{before}- {} KB reported by {who} without a list (PID {pid}){after}", kilobytes(*bytes));
        }
    }
}

impl std::fmt::Display for ChipNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "Device {number}"),
            Self::Device(id) => write!(f, "Device ? (id {id})"),
        }
    }
}

/// Returns the chips of a circular buffer: one, or all of its allocator.
pub(crate) fn devices_of_circular(ledger: &Ledger, circular: &LedgerCircular) -> Vec<u32> {
    let all = ledger.allocators.get(circular.allocator).map(devices).unwrap_or_default();
    match circular.chip {
        Some(chip) => all.get(chip).copied().into_iter().collect(),
        None => all,
    }
}

/// Returns the chip numbers of an allocator, as used by its process.
pub(crate) fn devices(allocator: &LedgerAllocator) -> Vec<u32> {
    let chips: Vec<u32> = allocator.chips.iter().filter_map(|chip| chip.metal_id).collect();
    if chips.is_empty() { vec![allocator.given_id] } else { chips }
}

fn title(text: &mut String, title: &str) {
    let bar = "═".repeat(62);
    let _ = write!(text, "\n╔{bar}╗\n║           {title:<50}║\n╚{bar}╝\n");
}
