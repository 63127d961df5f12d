//! `ttmon mem --banks` and `--blocks`: the use of each allocator's banks, seen from outside the process.

use std::io::{self, Write};

use ttmon_model::identity::ranges;
use ttmon_model::snapshot::{Allocator, AllocatorKind, Banks, Block};
use ttmon_model::{Kind, Reading, Snapshot, Source};

use crate::memory::{line, not_tracked, programs_line};
use crate::quantity::{ABSENT, percent, size, size_or_absent};
use crate::snapshot::origin_mark;
use crate::style::Style;

const WIDE: usize = 110;

/// Returns the text that replaces a table: why an allocator has no banks. It is unknown how its program was started, so there is no advice.
fn no_banks(allocator: &Allocator) -> &'static str {
    let is_served = allocator.kinds.iter().any(|(_, item)| item.as_ref().is_some_and(|item| item.figure.source == Ok(Source::Server)));
    match () {
        () if allocator.coverage.is_ok() => "    N/A (the hook has not seen the banks of this allocator)",
        () if is_served => "    N/A (the allocation socket carries no banks; `ttmon run` reports them)",
        () => "    N/A (the program reports buffers without banks; `ttmon run` reports both)",
    }
}

/// Prints a table per open allocator: the banks of each kind, and their free memory.
pub fn banks(snapshot: &Snapshot, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    let open = open(snapshot, style, out)?;
    for allocator in &open {
        writeln!(out, "{}", line(&heading(snapshot, allocator), style))?;
        print_kinds(allocator, style, out)?;
    }
    if open.iter().any(|allocator| with_banks(allocator).next().is_some()) {
        writeln!(out, "Sizes are of each bank{}.", if is_wide(style) { "; what is used is of all" } else { "" })?;
    }
    Ok(())
}

/// Prints every block of each open allocator, used and free, in the order of their addresses.
pub fn blocks(snapshot: &Snapshot, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    for allocator in open(snapshot, style, out)? {
        writeln!(out, "{}", line(&heading(snapshot, allocator), style))?;
        if with_banks(allocator).next().is_none() {
            writeln!(out, "{}", line(no_banks(allocator), style))?;
            continue;
        }
        writeln!(out, "{}", block_row(&["kind", "address", "size", "bytes", ""].map(str::to_owned)))?;
        for (kind, _, banks) in with_banks(allocator) {
            for block in &banks.table {
                writeln!(out, "{}", block_row(&block_cells(kind, block)))?;
            }
            print_no_blocks(kind, banks, style, out)?;
        }
    }
    Ok(())
}

fn open<'a>(snapshot: &'a Snapshot, style: &Style<'_>, out: &mut dyn Write) -> io::Result<Vec<&'a Allocator>> {
    let open: Vec<&Allocator> = snapshot.allocators.iter().filter(|allocator| allocator.is_open).collect();
    if open.is_empty() {
        let text = format!("No tracked process has an allocator. {}", origin_mark(snapshot));
        writeln!(out, "{}", line(&text, style))?;
    }
    Ok(open)
}

fn heading(snapshot: &Snapshot, allocator: &Allocator) -> String {
    let process = snapshot.processes.iter().find(|process| process.key == allocator.process);
    let name = process.and_then(|process| process.title().ok()).unwrap_or_else(|| ABSENT.to_owned());
    let mesh = allocator.mesh.map_or(String::new(), |(rows, columns)| format!("  mesh {rows}x{columns}"));
    let place = match (allocator.devices.as_slice(), allocator.unmapped.as_slice()) {
        ([only], []) => format!("device {only}"),
        ([], [only]) => format!("chip {only} (unmapped)"),
        ([], chips) => format!("{} chips (unmapped)", chips.len()),
        (devices, []) => format!("devices {}", ranges(devices.iter().copied())),
        (devices, chips) => format!("devices {} and {} chips (unmapped)", ranges(devices.iter().copied()), chips.len()),
    };
    format!("Allocator {}  {name}{mesh}  {place}  {}", allocator.id, origin_mark(snapshot))
}

fn is_wide(style: &Style<'_>) -> bool {
    style.columns() >= WIDE
}

fn with_banks(allocator: &Allocator) -> impl Iterator<Item = (Kind, &AllocatorKind, &Banks)> {
    allocator.kinds.iter().filter_map(|(kind, item)| {
        let item = item.as_ref()?;
        Some((kind, item, item.banks.as_ref().ok()?))
    })
}

fn print_kinds(allocator: &Allocator, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    let is_wide = is_wide(style);
    if with_banks(allocator).next().is_none() {
        return writeln!(out, "{}", line(no_banks(allocator), style));
    }
    let head = ["kind", "used", "count", "banks", "per bank", "allocated", "free", "largest", "frag", "blocks"];
    writeln!(out, "{}", row(&head.map(str::to_owned), is_wide))?;
    for (kind, item, banks) in with_banks(allocator) {
        writeln!(out, "{}", row(&cells(kind, item, banks), is_wide))?;
    }
    if let Some(item) = &allocator.kinds[Kind::Cb]
        && let Some(text) = programs_line(item)
    {
        writeln!(out, "    {text}")?;
    }
    for (kind, _, banks) in with_banks(allocator) {
        print_no_blocks(kind, banks, style, out)?;
    }
    if allocator.self_check.is_inexact {
        let check = &allocator.self_check;
        let text = format!("    inexact: differs from TT-Metal's own statistics in {} of {} comparisons", check.differences, check.checks);
        writeln!(out, "{}", line(&text, style))?;
    }
    if let Some(text) = not_tracked(allocator, |_| false) {
        writeln!(out, "{}", line(&format!("    {text}"), style))?;
    }
    Ok(())
}

fn print_no_blocks(kind: Kind, banks: &Banks, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    match banks.no_blocks {
        Some(reason) => writeln!(out, "{}", line(&format!("    {}: no block table: {}", kind.name(), reason.name()), style)),
        None => Ok(()),
    }
}

fn cells(kind: Kind, item: &AllocatorKind, banks: &Banks) -> [String; 10] {
    let number = |value: Reading<u64>| value.map_or_else(|_| ABSENT.to_owned(), |value| value.to_string());
    [
        kind.name().to_owned(),
        size_or_absent(item.figure.used),
        number(item.figure.count),
        banks.banks.to_string(),
        size(banks.bank_bytes),
        size_or_absent(banks.allocated_per_bank),
        size_or_absent(banks.free_per_bank),
        size_or_absent(banks.largest_free_per_bank),
        banks.fragmentation.map_or_else(|_| ABSENT.to_owned(), percent),
        number(banks.blocks),
    ]
}

fn row(cells: &[String; 10], is_wide: bool) -> String {
    let [kind, used, count, banks, per_bank, allocated, free, largest, frag, blocks] = cells;
    let more = if is_wide { format!("{used:>9} {count:>9} ") } else { String::new() };
    format!("    {kind:<8} {more}{banks:>5} {per_bank:>9} {allocated:>9} {free:>9} {largest:>9} {frag:>5} {blocks:>8}")
}

fn block_cells(kind: Kind, block: &Block) -> [String; 5] {
    [
        kind.name().to_owned(),
        format!("{:#x}", block.address),
        size(block.size),
        block.size.to_string(),
        if block.is_free { "free" } else { "used" }.to_owned(),
    ]
}

fn block_row(cells: &[String; 5]) -> String {
    let [kind, address, size, bytes, free] = cells;
    format!("    {kind:<8} {address:>14} {size:>10} {bytes:>12}  {free}").trim_end().to_owned()
}
