//! `ttmon mem --csv`: the two summaries that TT-Metal's MemoryReporter writes, in its formats, and a table of all blocks.
//!
//! Its summaries have no column for the device: TT-Metal writes one set for each, told apart by a prefix of the file names.

use std::fmt::Write;

use ttmon_model::snapshot::{Allocator, Banks};
use ttmon_model::{Kind, Reading, Snapshot};

use crate::quantity::ABSENT;

/// A file of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportFile {
    /// Its name.
    pub name: String,
    /// All of it.
    pub text: String,
}

/// The files for all open allocators whose banks are known; none where there is no such allocator.
pub fn reports(snapshot: &Snapshot) -> Vec<ReportFile> {
    let known: Vec<&Allocator> = snapshot.allocators.iter().filter(|allocator| allocator.is_open && has_banks(allocator)).collect();
    let prefix = |allocator: &Allocator| if known.len() > 1 { format!("{}_", allocator.id) } else { String::new() };
    let mut files: Vec<ReportFile> = known
        .iter()
        .flat_map(|allocator| {
            let prefix = prefix(allocator);
            [
                ReportFile { name: format!("{prefix}memory_usage_summary.csv"), text: memory_usage_summary(allocator) },
                ReportFile { name: format!("{prefix}l1_usage_summary.csv"), text: l1_usage_summary(allocator) },
            ]
        })
        .collect();
    if !known.is_empty() {
        files.push(ReportFile { name: "memory_blocks.csv".to_owned(), text: memory_blocks(&known) });
    }
    files
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

/// Per bank; the rows are DRAM, L1 and L1_SMALL, and are not labelled.
fn memory_usage_summary(allocator: &Allocator) -> String {
    let mut text = ", Total Allocatable Size (B), Total Allocated (B), Total Free (B), Largest Free Block (B)\n".to_owned();
    for kind in [Kind::Dram, Kind::L1, Kind::L1Small] {
        let banks = banks(allocator, kind);
        let cells = [
            number(banks.map(|banks| Ok(banks.bank_bytes))),
            number(banks.map(|banks| banks.allocated_per_bank)),
            number(banks.map(|banks| banks.free_per_bank)),
            number(banks.map(|banks| banks.largest_free_per_bank)),
        ];
        let _ = writeln!(text, ",{}", cells.join(","));
    }
    text
}

/// The largest block of a bank, and as much of all banks: what an interleaved buffer may have.
fn l1_usage_summary(allocator: &Allocator) -> String {
    let banks = banks(allocator, Kind::L1);
    let largest = banks.map(|banks| banks.largest_free_per_bank);
    let of_all = banks.map(|banks| banks.largest_free_per_bank.map(|largest| largest.saturating_mul(banks.banks)));
    format!(
        "This report indicates available space for interleaving L1 buffers\n\
         , Largest Contiguous Free Block (B), Total Free L1 Space (B)\n\
         ,{},{}\n",
        number(largest),
        number(of_all)
    )
}

/// Of our own: every block, in the words of `ttmon mem --json --blocks`.
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
