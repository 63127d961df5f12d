//! The memory breakdown: DRAM and L1 of the devices in use.

use std::io::{self, Write};

use ttmon_model::memory::Bar;
use ttmon_model::snapshot::Severity;
use ttmon_model::{Device, KernelType, KernelTypes, KernelUse, Kind, Missing, Reading, Snapshot};

use crate::devices::lower_bound;
use crate::quantity::{ABSENT, exact_percent, size, size_or_absent};
use crate::style::Style;
use crate::table::bar;

/// With more devices than this, no device gets a block of lines.
const BLOCKS_MAX: usize = 4;
const BAR_COLUMNS: usize = 26;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Block,
    Split,
    Line,
}

/// Formats the section in the most detailed form that fits the room. Returns an empty text if no device has memory in use, or if nothing
/// fits.
pub(crate) fn text(snapshot: &Snapshot, room: Option<usize>, style: &Style<'_>) -> io::Result<Vec<u8>> {
    let is_used = |bar: Bar| bar.used.is_ok_and(|used| used > 0);
    let in_use: Vec<&Device> = snapshot.devices.iter().filter(|device| is_used(device.memory.dram) || is_used(device.memory.l1)).collect();
    if in_use.is_empty() {
        return Ok(Vec::new());
    }
    let forms = [Form::Block, Form::Split, Form::Line];
    for form in forms.into_iter().filter(|form| *form != Form::Block || in_use.len() <= BLOCKS_MAX) {
        let mut text = b"\nMemory Breakdown:\n".to_vec();
        for device in &in_use {
            print(device, form, style, &mut text)?;
        }
        if room.is_none_or(|room| lines(&text) <= room) {
            return Ok(text);
        }
    }
    Ok(Vec::new())
}

pub(crate) fn lines(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte == b'\n').count()
}

type Parts = Vec<(&'static str, Reading<u64>)>;

/// The part of L1 that is not in its bar: code is not occupied L1.
pub const KERNELS: &str = "Kernels";

/// The parts of L1, and those of DRAM. Few programs capture traces or use the small region, so empty parts are left out.
pub fn memory_parts(device: &Device) -> (Parts, Parts) {
    let used = |kind: Kind| device.memory.kinds[kind].figure.used;
    let is_some = |kind: Kind| used(kind).is_ok_and(|bytes| bytes > 0);
    let mut l1 = vec![("Buffers", used(Kind::L1))];
    l1.extend(is_some(Kind::L1Small).then(|| ("Small", used(Kind::L1Small))));
    l1.extend([("CBs", used(Kind::Cb)), (KERNELS, used(Kind::Kernel))]);
    let mut dram = vec![("Buffers", used(Kind::Dram))];
    dram.extend(is_some(Kind::Trace).then(|| ("Traces", used(Kind::Trace))));
    (l1, dram)
}

/// Returns both in one list, with a prefix before the first title of each: `L1: Buffers`.
fn memory_parts_in_line(device: &Device) -> Vec<(String, Reading<u64>)> {
    let (l1, mut dram) = memory_parts(device);
    // If buffers are the only part, they are all of DRAM.
    if dram.len() == 1 {
        dram.clear();
    }
    let named = |name: &'static str, parts: Parts| {
        parts.into_iter().enumerate().map(move |(index, (title, used))| {
            let title = if index == 0 { format!("{name}: {title}") } else { title.to_owned() };
            (title, used)
        })
    };
    named("L1", l1).chain(named("DRAM", dram)).collect()
}

fn print(device: &Device, form: Form, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    if form != Form::Block {
        print_line(device, style, out)?;
        return if form == Form::Split { print_parts(&memory_parts_in_line(device), style, out) } else { Ok(()) };
    }
    let (l1_parts, dram_parts) = memory_parts(device);
    let chip = device.arch.map_or("unknown chip", |arch| arch.chip_name());
    writeln!(out, "Device {} ({chip}, {}):", device.id, style.clean(&device.label()))?;
    let peak = device.memory.kinds[Kind::Dram].figure.peak.map_or_else(|_| String::new(), |peak| format!("  peak {}", size(peak)));
    let [dram, l1] = bar_lines(device, style);
    writeln!(out, "{dram}{peak}")?;
    if dram_parts.len() > 1 {
        print_parts(&dram_parts, style, out)?;
    }
    writeln!(out, "{l1}")?;
    print_parts(&l1_parts, style, out)?;
    match &device.memory.kinds[Kind::Kernel].figure.kernel_types {
        Some(types) => print_kernel_types("Kernels: ", types, style, out),
        None => Ok(()),
    }
}

pub(crate) fn bar_lines(device: &Device, style: &Style<'_>) -> [String; 2] {
    [("DRAM", device.memory.dram), ("L1", device.memory.l1)].map(|(title, memory)| bar_line(title, device, memory, style))
}

/// `  DRAM        2.4GB / 12.0GB   [████▌░░░░░░░░░░░░░░░░░░░]  20.0%`
fn bar_line(title: &str, device: &Device, memory: Bar, style: &Style<'_>) -> String {
    let Ok(used) = memory.used else {
        return format!("  {title:<6}  {}", style.paint(Severity::Unknown, ABSENT));
    };
    let used = format!("{}{}", lower_bound(device), size(used));
    let figures = format!("  {title:<6} {used:>10} / {:<8}", size_or_absent(memory.total));
    match memory.ratio() {
        Ok(ratio) => format!("{figures} {} {:>6}", bar(ratio, BAR_COLUMNS, style.glyphs()), exact_percent(ratio)),
        Err(_) => figures.trim_end().to_owned(),
    }
}

/// `    Kernels: application 1.0MB   dispatch 92.0KB`
pub(crate) fn print_kernel_types(head: &str, types: &KernelTypes, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    let part = |(index, (kernel_type, kernels)): (usize, (KernelType, KernelUse))| {
        (format!("{}{}", if index == 0 { head } else { "" }, kernel_type.name()), Ok(kernels.used))
    };
    print_parts(&types.iter().enumerate().map(part).collect::<Vec<_>>(), style, out)
}

/// `    Buffers 21.4MB   CBs 12.7MB   Kernels not tracked`, on as many lines as needed.
fn print_parts(parts: &[(impl AsRef<str>, Reading<u64>)], style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut columns = 0;
    for (title, used) in parts {
        let (severity, value) = (if used.is_ok() { Severity::Fine } else { Severity::Unknown }, size_or_untracked(*used));
        let title = title.as_ref();
        let wide = title.len() + 1 + value.len();
        let before = match columns {
            0 => "    ",
            columns if columns + 3 + wide > style.columns() => "\n    ",
            _ => "   ",
        };
        columns = if before == "   " { columns + 3 + wide } else { 4 + wide };
        write!(out, "{before}{title} {}", style.paint(severity, &value))?;
    }
    writeln!(out)
}

/// Formats a size, or a short reason why it is missing.
pub fn size_or_untracked(used: Reading<u64>) -> String {
    match used {
        Ok(bytes) => size(bytes),
        Err(Missing::NotTracked) => "not tracked".to_owned(),
        Err(_) => ABSENT.to_owned(),
    }
}

fn print_line(device: &Device, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    let figures = |memory: Bar| {
        let used = memory.used.map_or_else(|_| ABSENT.to_owned(), |used| format!("{}{}", lower_bound(device), size(used)));
        format!("{used}/{}", size_or_absent(memory.total))
    };
    let share = |memory: Bar| memory.ratio().map_or_else(|_| ABSENT.to_owned(), exact_percent);
    let (dram, l1) = (device.memory.dram, device.memory.l1);
    let head = format!("Device {:>2}  DRAM {:>16}", device.id, figures(dram));
    let tail = format!("{:>6}  L1 {:>17} {:>6}", share(dram), figures(l1), share(l1));
    let left = style.columns().saturating_sub(head.len() + tail.len() + 2).min(BAR_COLUMNS);
    let drawn = dram.ratio().map_or_else(|_| " ".repeat(left), |ratio| bar(ratio, left, style.glyphs()));
    writeln!(out, "{head} {drawn} {tail}")
}
