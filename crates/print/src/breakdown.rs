//! The memory breakdown: what lies in DRAM and L1 of the devices in use.

use std::io::{self, Write};

use ttmon_model::memory::Bar;
use ttmon_model::{Device, Kind, Missing, Reading, Snapshot};

use crate::bar::bar;
use crate::devices::lower_bound;
use crate::quantity::{ABSENT, exact_percent, size, size_or_absent};
use crate::style::{Style, Tone};

/// More devices than this get one line each.
const DETAILED_DEVICES_MAX: usize = 4;
const BAR_COLUMNS: usize = 26;

/// Prints the section, if any device has memory in use.
pub(crate) fn print(snapshot: &Snapshot, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    let is_used = |bar: Bar| bar.used.is_ok_and(|used| used > 0);
    let in_use: Vec<&Device> = snapshot.devices.iter().filter(|device| is_used(device.memory.dram) || is_used(device.memory.l1)).collect();
    if in_use.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nMemory Breakdown:")?;
    for device in &in_use {
        if in_use.len() > DETAILED_DEVICES_MAX { print_line(device, style, out)? } else { print_block(device, style, out)? }
    }
    Ok(())
}

fn print_block(device: &Device, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    let chip = device.arch.map_or("unknown chip", |arch| arch.chip_name());
    writeln!(out, "Device {} ({chip}, {}):", device.id, style.clean(&device.label()))?;
    let memory = &device.memory;
    let peak = memory.kinds[Kind::Dram].figure.peak.map_or_else(|_| String::new(), |peak| format!("  peak {}", size(peak)));
    writeln!(out, "{}{peak}", bar_line("DRAM", device, memory.dram, style))?;
    let used = |kind: Kind| memory.kinds[kind].figure.used;
    // Few programs capture traces, so the line stands only where one has.
    if used(Kind::Trace).is_ok_and(|bytes| bytes > 0) {
        print_parts(&[("Buffers", used(Kind::Dram)), ("Traces", used(Kind::Trace))], style, out)?;
    }
    writeln!(out, "{}", bar_line("L1", device, memory.l1, style))?;
    let mut parts = vec![("Buffers", used(Kind::L1))];
    if used(Kind::L1Small).is_ok_and(|bytes| bytes > 0) {
        parts.push(("Small", used(Kind::L1Small)));
    }
    parts.extend([("CBs", used(Kind::Cb)), ("Kernels", used(Kind::Kernel))]);
    print_parts(&parts, style, out)
}

/// `  DRAM        2.4GB / 12.0GB   [████▌░░░░░░░░░░░░░░░░░░░]  20.0%`
fn bar_line(title: &str, device: &Device, memory: Bar, style: &Style<'_>) -> String {
    let Ok(used) = memory.used else {
        return format!("  {title:<6}  {}", style.paint(Tone::Absent, ABSENT));
    };
    let used = format!("{}{}", lower_bound(device), size(used));
    let figures = format!("  {title:<6} {used:>10} / {:<8}", size_or_absent(memory.total));
    match memory.ratio() {
        Ok(ratio) => format!("{figures} {} {:>6}", bar(ratio, BAR_COLUMNS, style.glyphs()), exact_percent(ratio)),
        Err(_) => figures.trim_end().to_owned(),
    }
}

/// `    Buffers 21.4MB   CBs 12.7MB   Kernels not tracked`
fn print_parts(parts: &[(&str, Reading<u64>)], style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    let show = |(title, used): &(&str, Reading<u64>)| match used {
        Ok(bytes) => format!("{title} {}", size(*bytes)),
        Err(Missing::NotTracked) => format!("{title} {}", style.paint(Tone::Absent, "not tracked")),
        Err(_) => format!("{title} {}", style.paint(Tone::Absent, ABSENT)),
    };
    writeln!(out, "    {}", parts.iter().map(show).collect::<Vec<_>>().join("   "))
}

/// One device in one line, the bar as wide as the rest allows.
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
