//! The dumps: what is still allocated, in the seeds' look. Pure, over what the ledgers list.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ttmon_ledger::layout::kind;
use ttmon_ledger::reader::Listing;
use ttmon_source::ledgers;

use crate::limits::DUMP_BUFFERS_MAX;
use crate::lines::{KINDS, kilobytes, megabytes};
use crate::owner::BUFFER_KINDS;

/// What a dump is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// Buffers: the message DUMP_REMAINING, on stdout.
    Buffers,
    /// Kernels: DUMP_KERNELS, on stdout.
    Kernels,
    /// All of it, for whoever sent an empty line.
    Everything,
}

impl About {
    /// In the order of their numbers.
    pub(crate) const ALL: [Self; 3] = [Self::Buffers, Self::Kernels, Self::Everything];
}

/// Who wants a dump of one sort: however many they are, one is under way, and one follows it for those who asked meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) is_under_way: bool,
    pub(crate) is_wanted_again: bool,
    /// Connections that wait for the one under way.
    pub(crate) askers: Vec<u64>,
    /// Connections that wait for the next.
    pub(crate) later: Vec<u64>,
}

/// One process's live buffers.
pub(crate) struct Owned {
    pub(crate) pid: u32,
    /// `None` where they could not be read.
    pub(crate) listing: Option<Listing>,
}

struct Item<'a> {
    pid: u32,
    address: u64,
    size: u64,
    refs: u32,
    time: u64,
    tag: Option<&'a str>,
}

/// By device and kind, in a steady order.
type Sorted<'a> = BTreeMap<u32, BTreeMap<u8, Vec<Item<'a>>>>;

/// The text of a dump.
pub(crate) fn text(about: About, owned: &[Owned], now_unix_ns: u64) -> String {
    let sorted = sort(owned);
    let mut text = String::new();
    let is_whole = owned.iter().all(|owned| owned.listing.is_some());
    for Owned { pid, .. } in owned.iter().filter(|owned| owned.listing.is_none()) {
        let _ = writeln!(text, "⚠ [PID {pid}] its ledger could not be read: what it has is not in this list");
    }
    match about {
        About::Buffers => {
            text.push_str("📋 Received DUMP_REMAINING request...\n");
            buffers(&mut text, &sorted, is_whole);
            text.push_str("📋 DUMP_REMAINING complete.\n");
        }
        About::Kernels => {
            kernels(&mut text, &sorted, now_unix_ns);
            text.push_str("📋 DUMP_KERNELS complete.\n");
        }
        About::Everything => {
            buffers(&mut text, &sorted, is_whole);
            circulars(&mut text, &sorted);
            if count(&sorted, &[kind::KERNEL]) > 0 {
                kernels(&mut text, &sorted, now_unix_ns);
            }
        }
    }
    text
}

fn sort(owned: &[Owned]) -> Sorted<'_> {
    let mut sorted = Sorted::new();
    for (pid, listing) in owned.iter().filter_map(|owned| Some((owned.pid, owned.listing.as_ref()?))) {
        let device_of: BTreeMap<u16, u32> = listing.totals.allocators.iter().map(|one| (one.slot, one.given_id)).collect();
        for entry in &listing.entries {
            let Some(device) = device_of.get(&entry.allocator) else { continue };
            let tag = ledgers::tag(&listing.tags, entry.tag).map(String::as_str);
            let item = Item { pid, address: entry.address, size: entry.size, refs: entry.refs, time: entry.time, tag };
            sorted.entry(*device).or_default().entry(entry.kind).or_default().push(item);
        }
    }
    for items in sorted.values_mut().flat_map(BTreeMap::values_mut) {
        items.sort_by_key(|item| (item.address, item.pid));
    }
    sorted
}

fn count(sorted: &Sorted<'_>, kinds: &[u8]) -> usize {
    sorted.values().flatten().filter(|(kind, _)| kinds.contains(kind)).map(|(_, items)| items.len()).sum()
}

fn sum(items: &[Item<'_>]) -> u64 {
    items.iter().fold(0, |sum, item| sum.saturating_add(item.size))
}

fn title(text: &mut String, title: &str) {
    let bar = "═".repeat(62);
    let _ = write!(text, "\n╔{bar}╗\n║           {title:<50}║\n╚{bar}╝\n");
}

fn buffers(text: &mut String, sorted: &Sorted<'_>, is_whole: bool) {
    let all = count(sorted, &BUFFER_KINDS);
    title(text, "REMAINING ALLOCATED BUFFERS");
    let _ = writeln!(text, "Total tracked allocations: {all}\n");
    if all == 0 && is_whole {
        text.push_str("✓ No buffers remaining - perfect cleanup!\n");
        return;
    }
    for (device, kinds) in sorted.iter().filter(|(_, kinds)| kinds.keys().any(|kind| BUFFER_KINDS.contains(kind))) {
        let _ = writeln!(text, "Device {device}:");
        for (kind, items) in BUFFER_KINDS.into_iter().filter_map(|kind| Some((kind, kinds.get(&kind)?))) {
            let name = KINDS[usize::from(kind & 7)];
            let _ = writeln!(text, "  {name}: {} buffers, {} MB total", items.len(), megabytes(sum(items)));
            list(text, items, "Buffer");
        }
        text.push('\n');
    }
    let _ = writeln!(text, "Total remaining buffers: {all}\n");
}

fn list(text: &mut String, items: &[Item<'_>], word: &str) {
    for item in items.iter().take(DUMP_BUFFERS_MAX) {
        let Item { pid, address, size, refs, tag, .. } = item;
        let _ = write!(text, "    - {word} {address:#x}: {} KB (PID {pid}, ref_count={refs}", kilobytes(*size));
        match tag {
            Some(tag) => {
                let _ = writeln!(text, ", says {tag})");
            }
            None => text.push_str(")\n"),
        }
    }
    if items.len() > DUMP_BUFFERS_MAX {
        let _ = writeln!(text, "    ... and {} more", items.len() - DUMP_BUFFERS_MAX);
    }
}

fn circulars(text: &mut String, sorted: &Sorted<'_>) {
    for (device, items) in sorted.iter().filter_map(|(device, kinds)| Some((device, kinds.get(&kind::CB)?))) {
        let _ = writeln!(text, "Device {device}:\n  CB: {} circular buffers, {} MB total", items.len(), megabytes(sum(items)));
        list(text, items, "CB");
        text.push('\n');
    }
}

fn kernels(text: &mut String, sorted: &Sorted<'_>, now_unix_ns: u64) {
    title(text, "DETAILED KERNEL ALLOCATIONS");
    let _ = writeln!(text, "Total kernel allocations: {}", count(sorted, &[kind::KERNEL]));
    let bar = "─".repeat(57);
    for (device, items) in sorted.iter().filter_map(|(device, kinds)| Some((device, kinds.get(&kind::KERNEL)?))) {
        let _ = writeln!(text, "\n📊 Device {device} - Total: {} MB ({} kernels)\n  ┌{bar}┐", megabytes(sum(items)), items.len());
        for item in items.iter().take(DUMP_BUFFERS_MAX) {
            let age = now_unix_ns.saturating_sub(item.time) / 1_000_000_000;
            let _ = writeln!(text, "  │ Kernel ID: {:#x}", item.address);
            let _ = writeln!(text, "  │   Size:      {} KB", kilobytes(item.size));
            let _ = writeln!(text, "  │   Owner PID: {}", item.pid);
            let _ = writeln!(text, "  │   Age:       {age} seconds\n  │");
        }
        if items.len() > DUMP_BUFFERS_MAX {
            let _ = writeln!(text, "  │ ... and {} more\n  │", items.len() - DUMP_BUFFERS_MAX);
        }
        let _ = writeln!(text, "  └{bar}┘");
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_read_is_no_clean_end() {
        let text = |about| text(about, &[Owned { pid: 7, listing: None }], 0);
        for about in About::ALL {
            let said = text(about);
            assert!(said.starts_with("⚠ [PID 7] its ledger could not be read") && !said.contains("perfect cleanup"), "{said}");
        }
        assert!(super::text(About::Buffers, &[], 0).contains("perfect cleanup"));
    }
}
