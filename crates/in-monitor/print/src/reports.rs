//! `ttmon mem --csv`: the files that TT-Metal's MemoryReporter writes, in its formats, and a table of all blocks.
//!
//! MemoryReporter has no column for the device: TT-Metal writes one set of files per device, with a prefix in their names. The number of a
//! block is internal to TT-Metal, so blocks are numbered in the order of their addresses here.

use std::collections::BTreeSet;
use std::fmt::Write;

use ttmon_model::identity::ProcessKey;
use ttmon_model::snapshot::{Allocator, Banks, Block};
use ttmon_model::{Kind, Reading, Snapshot};

use crate::quantity::ABSENT;

/// A file of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportFile {
    /// Its name.
    pub name: String,
    /// The whole content, or the part to append to the file.
    pub text: String,
}

const REPORTED: [(Kind, &str); 3] = [(Kind::Dram, "DRAM"), (Kind::L1, "L1"), (Kind::L1Small, "L1_SMALL")];
const MEMORY_HEADING: &str = ", Total Allocatable Size (B), Total Allocated (B), Total Free (B), Largest Free Block (B)\n";
const L1_TITLE: &str = "This report indicates available space for interleaving L1 buffers\n";
const L1_HEADING: &str = ", Largest Contiguous Free Block (B), Total Free L1 Space (B)\n";

/// Returns the files for all open allocators with known banks; empty if there are none.
pub fn reports(snapshot: &Snapshot) -> Vec<ReportFile> {
    let known: Vec<&Allocator> = snapshot.allocators.iter().filter(|allocator| allocator.is_open && has_banks(allocator)).collect();
    let prefix = |allocator: &Allocator| if known.len() > 1 { format!("{}_", allocator.id) } else { String::new() };
    let mut files: Vec<ReportFile> = known
        .iter()
        .flat_map(|allocator| {
            let parts = [
                ("memory_usage_summary", format!("{MEMORY_HEADING}{}", memory_rows(allocator))),
                ("l1_usage_summary", format!("{L1_TITLE}{L1_HEADING}{}", l1_row(allocator))),
                ("detailed_memory_usage", detailed(allocator)),
            ];
            let prefix = prefix(allocator);
            parts.map(|(name, text)| ReportFile { name: format!("{prefix}{name}.csv"), text })
        })
        .collect();
    if !known.is_empty() {
        files.push(ReportFile { name: "memory_blocks.csv".to_owned(), text: memory_blocks(&known) });
    }
    files
}

/// The files to which MemoryReporter appends each program: the memory of its allocator when the program was first seen.
#[derive(Debug, Default)]
pub struct ProgramReports {
    seen: BTreeSet<(ProcessKey, u32)>,
    begun: BTreeSet<u32>,
}

impl ProgramReports {
    /// Returns the additions to each file, for programs that earlier snapshots did not have.
    pub fn next(&mut self, snapshot: &Snapshot) -> Vec<ReportFile> {
        let mut files = Vec::new();
        for circular in &snapshot.circulars {
            let (process, program) = (circular.process, circular.entry.program);
            let is_its = |allocator: &&Allocator| allocator.process == process && allocator.slot == circular.slot;
            let Some(allocator) = snapshot.allocators.iter().find(is_its).filter(|allocator| has_banks(allocator)) else { continue };
            if !self.seen.insert((process, program)) {
                continue;
            }
            let is_first = self.begun.insert(process.pid);
            let heading = |text: &str| if is_first { text.to_owned() } else { String::new() };
            let parts = [
                ("memory_usage_summary", heading(&format!("Program ID{MEMORY_HEADING}")), memory_rows(allocator)),
                ("l1_usage_summary", heading(&format!("{L1_TITLE}Program ID{L1_HEADING}")), l1_row(allocator)),
                ("detailed_memory_usage", String::new(), detailed(allocator)),
            ];
            files.extend(parts.map(|(name, heading, rows)| ReportFile {
                name: format!("{}_program_{name}.csv", process.pid),
                text: format!("{heading}{program}{rows}"),
            }));
        }
        files
    }
}

fn has_banks(allocator: &Allocator) -> bool {
    Kind::ALL.into_iter().any(|kind| banks(allocator, kind).is_some())
}

fn banks(allocator: &Allocator, kind: Kind) -> Option<&Banks> {
    allocator.kinds[kind].as_ref()?.banks.as_ref().ok()
}

fn number(value: Option<Reading<u64>>) -> String {
    value.and_then(Result::ok).map_or_else(|| ABSENT.to_owned(), |value| value.to_string())
}

/// Formats figures per bank. The rows are not labelled.
fn memory_rows(allocator: &Allocator) -> String {
    let mut text = String::new();
    for (kind, _) in REPORTED {
        let banks = banks(allocator, kind);
        let figures: [fn(&Banks) -> Reading<u64>; 4] =
            [|one| Ok(one.bank_bytes), |one| one.allocated_per_bank, |one| one.free_per_bank, |one| one.largest_free_per_bank];
        let _ = writeln!(text, ",{}", figures.map(|get| number(banks.map(get))).join(","));
    }
    text
}

/// Formats the largest block of a bank, and the same over all banks, which is the limit of an interleaved buffer.
fn l1_row(allocator: &Allocator) -> String {
    let banks = banks(allocator, Kind::L1);
    let largest = banks.map(|banks| banks.largest_free_per_bank);
    let of_all = banks.map(|banks| banks.largest_free_per_bank.map(|largest| largest.saturating_mul(banks.banks)));
    format!(",{},{}\n", number(largest), number(of_all))
}

/// Formats figures over all banks, then the blocks of one bank.
fn detailed(allocator: &Allocator) -> String {
    let mut text = String::new();
    for (kind, name) in REPORTED {
        let banks = banks(allocator, kind);
        let of_all = |get: fn(&Banks) -> Reading<u64>| number(banks.map(|one| get(one).map(|bytes| bytes.saturating_mul(one.banks))));
        let _ = writeln!(text, ",{name}");
        let _ = writeln!(text, ",Total allocatable (B):,{}", of_all(|banks| Ok(banks.bank_bytes)));
        let _ = writeln!(text, ",Total allocated (B):,{}", of_all(|banks| banks.allocated_per_bank));
        let _ = writeln!(text, ",Total free (B):,{}", of_all(|banks| banks.free_per_bank));
        let _ = match banks.map(|banks| (banks, banks.no_blocks)) {
            Some((banks, None)) => block_table(&mut text, banks),
            Some((_, Some(reason))) => writeln!(text, "Block table: {ABSENT} ({})", reason.name()),
            None => writeln!(text, "Block table: {ABSENT}"),
        };
    }
    text
}

/// Free blocks are grouped by size. Each class begins at twice the size of the previous one, the first at this many bytes.
const CLASS_BYTES: u64 = 1024;
const LARGEST_CLASS_BYTES: u64 = 128 << 20;

/// Formats blocks as TT-Metal's allocator prints them. Addresses are relative to the start of its memory.
fn block_table(text: &mut String, banks: &Banks) -> std::fmt::Result {
    let nothing = [Block { address: 0, size: 0, is_free: true }];
    let blocks = if banks.table.is_empty() { &nothing[..] } else { &banks.table };
    let base = blocks.first().map_or(0, |block| block.address);
    let bits = |bytes: u64| u64::from(u64::BITS - (bytes / CLASS_BYTES).leading_zeros());
    let classes = bits(banks.bank_bytes).clamp(2, bits(LARGEST_CLASS_BYTES));
    let class_of = |size: u64| bits(size).saturating_sub(1).min(classes - 1);
    text.push_str("FreeListOpt allocator info:\nsegregated free blocks by size:\n");
    for class in 0..classes {
        let from = CLASS_BYTES << class;
        let to = if class + 1 == classes { "inf".to_owned() } else { (from * 2).to_string() };
        write!(text, "  Size class {class}: ({from} - {to}) blocks: ")?;
        for (id, _) in blocks.iter().enumerate().filter(|(_, block)| block.is_free && class_of(block.size) == class) {
            write!(text, "{id} ")?;
        }
        text.push('\n');
    }
    text.push_str("Free slots in block table: \nBlock table:\n");
    for heading in ["Block", "Address", "Size", "PrevID", "NextID", "Allocated"] {
        write!(text, "{heading:>12} ")?;
    }
    text.push('\n');
    for (id, block) in blocks.iter().enumerate() {
        let previous = id.checked_sub(1).map_or_else(|| "none".to_owned(), |id| id.to_string());
        let next = if id + 1 < blocks.len() { (id + 1).to_string() } else { "none".to_owned() };
        let (address, size) = (block.address.saturating_sub(base), block.size);
        let is_allocated = if block.is_free { "no" } else { "yes" };
        writeln!(text, "{id:>12} {address:>12} {size:>12} {previous:>12} {next:>12} {is_allocated:>12}")?;
    }
    Ok(())
}

/// Formats ttmon's own file: every block, with the names of `ttmon mem --json --blocks`.
fn memory_blocks(allocators: &[&Allocator]) -> String {
    let mut text = "allocator,pid,kind,address,size,free\n".to_owned();
    for allocator in allocators {
        for (kind, banks) in allocator.kinds.iter().filter_map(|(kind, _)| Some((kind, banks(allocator, kind)?))) {
            for block in &banks.table {
                let (id, pid, kind) = (&allocator.id, allocator.process.pid, kind.name());
                let _ = writeln!(text, "{id},{pid},{kind},{:#x},{},{}", block.address, block.size, block.is_free);
            }
        }
    }
    text
}
