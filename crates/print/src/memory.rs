//! `ttmon mem`: what each process has on each device, kind by kind, and buffer by buffer where asked for.

use std::io::{self, Write};

use ttmon_model::memory::Figure;
use ttmon_model::snapshot::{Allocator, Buffer};
use ttmon_model::{Kind, Missing, PerKind, Process, Reading, Snapshot};

use crate::names::{process_name, ranges};
use crate::quantity::{ABSENT, age, size, size_or_absent};
use crate::snapshot::origin_mark;
use crate::style::Style;
use crate::text::{Align, Cut, cut, pad};

/// Prints devices with the memory of their processes, then memory on chips that no row matches.
pub fn memory(snapshot: &Snapshot, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut is_anything_shown = false;
    for device in &snapshot.devices {
        let users: Vec<_> = snapshot.processes_on(device.id).collect();
        if users.is_empty() {
            continue;
        }
        is_anything_shown = true;
        let used = format!("DRAM {} of {}", size_or_absent(device.memory.dram.used), size_or_absent(device.memory.dram.total));
        writeln!(out, "{}", line(&format!("Device {}  {}  {used}  {}", device.id, device.label(), origin_mark(snapshot)), style))?;
        for (process, use_of) in users {
            let allocators =
                snapshot.allocators.iter().filter(|allocator| allocator.process == process.key && allocator.devices.contains(&device.id));
            print_process(snapshot, process, allocators, &use_of.kinds, style, out)?;
        }
    }
    for process in &snapshot.processes {
        for unmapped in &process.unmapped {
            is_anything_shown = true;
            writeln!(out, "{}", line(&format!("Chip {} (on no device here)  {}", unmapped.id, origin_mark(snapshot)), style))?;
            let allocators = snapshot
                .allocators
                .iter()
                .filter(|allocator| allocator.process == process.key && allocator.unmapped.contains(&unmapped.id));
            print_process(snapshot, process, allocators, &unmapped.kinds, style, out)?;
        }
    }
    if !is_anything_shown {
        writeln!(out, "{}", line(&format!("No process has memory on a device. {}", origin_mark(snapshot)), style))?;
    }
    Ok(())
}

fn print_process<'a>(
    snapshot: &Snapshot,
    process: &Process,
    allocators: impl Iterator<Item = &'a Allocator>,
    kinds: &PerKind<Figure>,
    style: &Style<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let name = process_name(process).unwrap_or_else(|_| ABSENT.to_owned());
    let user = process.user.clone().unwrap_or_else(|_| ABSENT.to_owned());
    let source = process.source().map_or(process.status.title(), |source| source.name());
    let meshes: Vec<String> = allocators
        .filter(|allocator| allocator.is_open)
        .filter_map(|allocator| allocator.mesh)
        .map(|(rows, columns)| format!(" mesh {rows}x{columns}"))
        .collect();
    writeln!(out, "{}", line(&format!("  pid {}  {user}  {name}{}  source {source}", process.key.pid, meshes.join(",")), style))?;
    let known: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| kinds[*kind].used.is_ok()).collect();
    if known.is_empty() {
        let reason = kinds[Kind::Dram].used.err().unwrap_or(Missing::NotTracked);
        return writeln!(out, "{}", line(&format!("    {ABSENT} ({reason}: {})", reason.explanation()), style));
    }
    writeln!(out, "{}", row(&["kind", "used", "allocated", "count", "peak", ""].map(str::to_owned)))?;
    for kind in known {
        let figure = &kinds[kind];
        let when = figure.peak_time.map_or(String::new(), |time| format!("{} ago", age(time, snapshot.time)));
        let count = figure.count.map_or(ABSENT.to_owned(), |count| count.to_string());
        writeln!(
            out,
            "{}",
            row(&[
                kind.name().to_owned(),
                size_or_absent(figure.used),
                size_or_absent(figure.allocated),
                count,
                size_or_absent(figure.peak),
                when
            ])
        )?;
    }
    Ok(())
}

fn row(cells: &[String; 6]) -> String {
    let widths = [9, 10, 11, 9, 10, 10];
    let cells = cells
        .iter()
        .zip(widths)
        .enumerate()
        .map(|(index, (cell, width))| pad(cell, width, if index == 0 { Align::Left } else { Align::Right }));
    format!("    {}", cells.collect::<Vec<_>>().join("  ")).trim_end().to_owned()
}

fn line(text: &str, style: &Style<'_>) -> String {
    cut(style.clean(text).trim_end(), style.columns(), Cut::Middle, style.glyphs().ellipsis)
}

/// Prints a line a buffer, in the order given.
pub fn buffers<'a>(
    snapshot: &Snapshot,
    buffers: impl Iterator<Item = &'a Buffer>,
    style: &Style<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(
        out,
        "{}",
        buffer_row(&["PID", "dev", "kind", "address", "size", "per bank", "refs", "age", "tag"].map(str::to_owned), style)
    )?;
    for buffer in buffers {
        writeln!(out, "{}", buffer_row(&cells(snapshot, buffer), style))?;
    }
    Ok(())
}

fn cells(snapshot: &Snapshot, buffer: &Buffer) -> [String; 9] {
    let entry = &buffer.entry;
    let devices = if buffer.devices.is_empty() { "-".to_owned() } else { ranges(buffer.devices.iter().copied()) };
    [
        buffer.process.pid.to_string(),
        devices,
        entry.kind.name().to_owned(),
        format!("{:#x}", entry.address),
        size(entry.size),
        entry.per_bank.map_or(String::new(), size),
        entry.refs.to_string(),
        age(entry.time, snapshot.time),
        entry.tag.clone().unwrap_or_default(),
    ]
}

fn buffer_row(cells: &[String; 9], style: &Style<'_>) -> String {
    let widths = [7, 7, 8, 14, 8, 8, 4, 7];
    let mut text = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        text.push_str(&pad(cell, width, Align::Right));
        text.push(' ');
    }
    text.push(' ');
    text.push_str(&cells[8]);
    line(&text, style)
}

/// One line of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What happened to the buffer.
    pub sign: Sign,
    /// Its process.
    pub pid: u32,
    /// Its kind.
    pub kind: String,
    /// Its address.
    pub address: String,
    /// Bytes then.
    pub before: Reading<u64>,
    /// Bytes now.
    pub now: Reading<u64>,
    /// Its tag.
    pub tag: String,
}

/// What happened to a buffer between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sign {
    /// It is new.
    New,
    /// It is gone.
    Gone,
    /// It has another size.
    Resized,
}

impl Sign {
    /// `+`, `-` or `~`.
    pub fn symbol(self) -> char {
        match self {
            Self::New => '+',
            Self::Gone => '-',
            Self::Resized => '~',
        }
    }
}

/// Prints what is new, gone and changed, with totals.
pub fn changes(changes: &[Change], style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    for change in changes {
        let bytes = match (change.before, change.now) {
            (Ok(before), Ok(now)) => format!("{} -> {}", size(before), size(now)),
            (Ok(only), Err(_)) | (Err(_), Ok(only)) => size(only),
            (Err(_), Err(_)) => ABSENT.to_owned(),
        };
        let text =
            format!("{} {:>7} {:>8} {:>14} {:>10}  {}", change.sign.symbol(), change.pid, change.kind, change.address, bytes, change.tag);
        writeln!(out, "{}", line(&text, style))?;
    }
    for (sign, word) in [(Sign::New, "new"), (Sign::Gone, "gone"), (Sign::Resized, "of another size")] {
        let of_sign: Vec<&Change> = changes.iter().filter(|change| change.sign == sign).collect();
        let bytes: u64 = of_sign.iter().map(|change| change.now.or(change.before).unwrap_or(0)).sum();
        writeln!(out, "{} {} {word}, {}", sign.symbol(), of_sign.len(), size(bytes))?;
    }
    Ok(())
}
