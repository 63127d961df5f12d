//! `ttmon mem`: memory of each process on each device, by kind, and by buffer if requested.

use std::io::{self, Write};

use ttmon_model::identity::ranges;
use ttmon_model::ledger::{Buffer, BufferKind, HookFeature};
use ttmon_model::memory::Figure;
use ttmon_model::sample::Origin;
use ttmon_model::snapshot::{Allocator, AllocatorKind, MappedBuffer, Programs};
use ttmon_model::{Kind, Missing, PerKind, Process, Reading, Snapshot};

use crate::breakdown::{bar_lines, print_kernel_types};
use crate::notes::print_problems;
use crate::quantity::{ABSENT, age, size, size_or_absent};
use crate::snapshot::{origin_mark, print_origin};
use crate::style::Style;
use crate::text::{Cut, cut, width};

/// Prints devices with the memory of their processes, then memory on chips without a row. `is_all` adds idle devices.
pub fn memory(snapshot: &Snapshot, is_all: bool, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut is_anything_shown = false;
    for device in &snapshot.devices {
        let users: Vec<_> = snapshot.processes_on(device.id).collect();
        if users.is_empty() && !is_all {
            continue;
        }
        is_anything_shown = true;
        writeln!(out, "{}", line(&format!("Device {}  {}  {}", device.id, device.label(), origin_mark(snapshot)), style))?;
        for bar in bar_lines(device, style) {
            writeln!(out, "{bar}")?;
        }
        for (process, use_of) in users {
            let allocators = of_process(snapshot, process, |allocator| allocator.devices.contains(&device.id));
            print_process(snapshot, process, &allocators, &use_of.kinds, style, out)?;
        }
    }
    for process in &snapshot.processes {
        for unmapped in &process.unmapped {
            is_anything_shown = true;
            writeln!(out, "{}", line(&format!("Chip {} (on no device here)  {}", unmapped.id, origin_mark(snapshot)), style))?;
            let allocators = of_process(snapshot, process, |allocator| allocator.unmapped.contains(&unmapped.id));
            print_process(snapshot, process, &allocators, &unmapped.kinds, style, out)?;
        }
    }
    if !is_anything_shown {
        writeln!(out, "{}", line(&format!("No process has memory on a device. {}", origin_mark(snapshot)), style))?;
    }
    Ok(())
}

/// Prints the notes below the devices: processes that were not examined, and files that could not be read. A simulated machine
/// hides nothing from its user.
pub fn memory_end(snapshot: &Snapshot, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    match snapshot.denied_processes {
        _ if snapshot.origin == Origin::Sim => {}
        0 => {}
        1 => writeln!(out, "1 process may have a ledger that this user may not read; try as root")?,
        count => writeln!(out, "{count} processes may have ledgers that this user may not read; try as root")?,
    }
    print_problems(snapshot, style, out)
}

fn of_process<'a>(snapshot: &'a Snapshot, process: &Process, is_wanted: impl Fn(&Allocator) -> bool) -> Vec<&'a Allocator> {
    snapshot.allocators.iter().filter(|allocator| allocator.process == process.key && is_wanted(allocator)).collect()
}

fn print_process(
    snapshot: &Snapshot,
    process: &Process,
    allocators: &[&Allocator],
    kinds: &PerKind<Figure>,
    style: &Style<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let name = process.title().unwrap_or_else(|_| ABSENT.to_owned());
    let user = process.user.clone().unwrap_or_else(|_| ABSENT.to_owned());
    let meshes: Vec<String> = allocators
        .iter()
        .filter(|allocator| allocator.is_open)
        .filter_map(|allocator| allocator.mesh)
        .map(|(rows, columns)| format!("mesh {rows}x{columns}"))
        .collect();
    let known = Kind::ALL.into_iter().filter(|kind| kinds[*kind].used.is_ok()).map(|kind| (BufferKind::Of(kind), kinds[kind].clone()));
    let known: Vec<(BufferKind, Figure)> = known.chain(others(allocators)).collect();
    let status = if known.is_empty() { process.status_title() } else { "" };
    let parts = [format!("pid {}", process.key.pid), user, name, meshes.join(", "), status.to_owned()];
    let heading: String = parts.iter().filter(|part| !part.is_empty()).map(|part| format!("  {part}")).collect();
    writeln!(out, "{}", line(&heading, style))?;
    if known.is_empty() {
        let reason = kinds[Kind::Dram].used.err().unwrap_or(Missing::NotTracked);
        return writeln!(out, "{}", line(&format!("    {ABSENT} ({reason}: {})", reason.explanation()), style));
    }
    writeln!(out, "{}", row(&["kind", "used", "allocated", "count", "peak", "", "source"].map(str::to_owned)))?;
    for (kind, figure) in &known {
        let when = figure.peak_time.map_or(String::new(), |time| format!("{} ago", age(time, snapshot.time)));
        let count = figure.count.map_or(ABSENT.to_owned(), |count| count.to_string());
        let [used, allocated, peak] = [figure.used, figure.allocated, figure.peak].map(size_or_absent);
        let source = figure.source.map_or(ABSENT, |source| source.name());
        writeln!(out, "{}", row(&[kind.name().to_owned(), used, allocated, count, peak, when, source.to_owned()]))?;
    }
    for (name, count, bytes) in unlisted(allocators) {
        writeln!(out, "    {name}: {count} more not listed ({})", size(bytes))?;
    }
    if let Some(types) = &kinds[Kind::Kernel].kernel_types {
        print_kernel_types("kernel: ", types, style, out)?;
    }
    let open = allocators.iter().filter(|allocator| allocator.is_open);
    let mut lines: Vec<String> = open
        .clone()
        .filter_map(|allocator| programs_line(allocator.kinds[Kind::Cb].as_ref()?))
        .chain(launches_line(snapshot, process))
        .collect();
    // A kind with a figure from another source is not listed as untracked.
    let is_known = |kind: Kind| kinds[kind].used.is_ok();
    lines.extend(open.filter_map(|allocator| not_tracked(allocator, is_known)));
    lines.dedup();
    for text in lines {
        writeln!(out, "{}", line(&format!("    {text}"), style))?;
    }
    Ok(())
}

/// Formats the bytes that circular buffers take of the fullest core.
pub(crate) fn programs_line(item: &AllocatorKind) -> Option<String> {
    let Programs { count, per_core } = item.programs.filter(|programs| programs.count > 0)?;
    let programs = if count == 1 { "1 program".to_owned() } else { format!("{count} programs") };
    Some(format!("cb: {programs}, at most {} on a core", size(per_core)))
}

fn launches_line(snapshot: &Snapshot, process: &Process) -> Option<String> {
    let launches = process.launches.ok()?;
    let chips = match process.devices.len() + process.unmapped.len() {
        1 => String::new(),
        chips => format!(" on its {chips} chips"),
    };
    let rate = process.launches_per_s.map_or(String::new(), |rate| format!(" ({rate:.1}/s)"));
    let last = process.last_launch.map_or(String::new(), |last| format!(", the last {} ago", age(last, snapshot.time)));
    Some(format!("launches: {launches}{chips}{rate}{last}"))
}

/// Lists kinds of an allocator that the hook does not record. They may not be empty. Kinds with a figure from another source are left out.
pub(crate) fn not_tracked(allocator: &Allocator, is_known: impl Fn(Kind) -> bool) -> Option<String> {
    let coverage = allocator.coverage.as_ref().ok()?;
    let absent = Kind::ALL.into_iter().filter(|kind| allocator.kinds[*kind].is_none() && !is_known(*kind));
    let absent = absent.map(|kind| kind.name().to_owned());
    let aside = coverage.iter().filter_map(HookFeature::not_followed);
    let parts: Vec<String> = absent.chain(aside).collect();
    (!parts.is_empty()).then(|| format!("not tracked: {}", parts.join(", ")))
}

/// Returns kinds that are not in a bar, each summed over all allocators. Peaks may be from different times, so the highest one is shown.
fn others(allocators: &[&Allocator]) -> Vec<(BufferKind, Figure)> {
    let mut sums: Vec<(BufferKind, Figure)> = Vec::new();
    let plus = |sum: Reading<u64>, more: Reading<u64>| sum.and_then(|sum| more.map(|more| sum.saturating_add(more)));
    for (kind, item) in allocators.iter().flat_map(|allocator| &allocator.others) {
        let more = &item.figure;
        let Some((_, sum)) = sums.iter_mut().find(|(known, _)| known == kind) else {
            sums.push((*kind, more.clone()));
            continue;
        };
        sum.used = plus(sum.used, more.used);
        sum.allocated = plus(sum.allocated, more.allocated);
        sum.count = plus(sum.count, more.count);
        if more.peak.ok() > sum.peak.ok() {
            (sum.peak, sum.peak_time) = (more.peak, more.peak_time);
        }
    }
    sums
}

/// Returns kinds with live buffers beyond the list, with their number and bytes.
fn unlisted(allocators: &[&Allocator]) -> Vec<(&'static str, u64, u64)> {
    let mut sums: Vec<(&'static str, u64, u64)> = Vec::new();
    for (name, (count, bytes)) in allocators.iter().flat_map(|allocator| kinds_of(allocator)).map(|(name, kind)| (name, kind.unlisted)) {
        match sums.iter_mut().find(|sum| sum.0 == name) {
            _ if count == 0 => {}
            Some(sum) => (sum.1, sum.2) = (sum.1.saturating_add(count), sum.2.saturating_add(bytes)),
            None => sums.push((name, count, bytes)),
        }
    }
    sums
}

fn kinds_of(allocator: &Allocator) -> impl Iterator<Item = (&'static str, &AllocatorKind)> {
    let of_bars = allocator.kinds.iter().filter_map(|(kind, item)| Some((kind.name(), item.as_ref()?)));
    of_bars.chain(allocator.others.iter().map(|(kind, item)| (kind.name(), item)))
}

fn row([kind, used, allocated, count, peak, when, source]: &[String; 7]) -> String {
    format!("    {kind:<9}  {used:>10}  {allocated:>11}  {count:>8}  {peak:>10}  {when:>10}  {source}").trim_end().to_owned()
}

pub(crate) fn line(text: &str, style: &Style<'_>) -> String {
    cut(style.clean(text).trim_end(), style.columns(), Cut::Middle, style.glyphs().ellipsis)
}

/// Prints one line per buffer, in the given order, then the number of omitted buffers, and of buffers that are in no list.
pub fn buffers<'a>(
    snapshot: &Snapshot,
    buffers: impl Iterator<Item = &'a MappedBuffer>,
    left_out: usize,
    style: &Style<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    print_origin(snapshot, out)?;
    let has_lines = snapshot.buffers.iter().any(|buffer| buffer.buffer.stack.is_some());
    let last = if has_lines { "line and tag" } else { "tag" };
    // A source line that is cut after its folder is useless, so some figures are left out to make room.
    let is_short = has_lines && style.columns() < SHORT_BELOW;
    let heading = ["PID", "dev", "kind", "address", "size", "per bank", "refs", "age", last].map(str::to_owned);
    writeln!(out, "{}", buffer_row(&heading, is_short, style))?;
    for buffer in buffers {
        writeln!(out, "{}", buffer_row(&cells(snapshot, buffer, is_short), is_short, style))?;
    }
    if left_out > 0 {
        writeln!(out, "and {left_out} more, left out by --top")?;
    }
    print_unlisted(snapshot, out)
}

pub(crate) fn print_unlisted(snapshot: &Snapshot, out: &mut dyn Write) -> io::Result<()> {
    for process in &snapshot.processes {
        for (name, count, bytes) in unlisted(&of_process(snapshot, process, |_| true)) {
            writeln!(out, "{:>7} {name}: {count} more not listed ({})", process.key.pid, size(bytes))?;
        }
    }
    Ok(())
}

/// On narrower terminals, the list of buffers omits bytes per bank and references if it has source lines.
const SHORT_BELOW: usize = 100;

fn cells(snapshot: &Snapshot, buffer: &MappedBuffer, is_short: bool) -> [String; 9] {
    let entry = &buffer.buffer;
    let devices = if buffer.devices().is_empty() { "-".to_owned() } else { ranges(buffer.devices().iter().copied()) };
    [
        buffer.process().pid.to_string(),
        devices,
        entry.kind.name().to_owned(),
        format!("{:#x}", entry.address),
        size(entry.size),
        entry.per_bank.map_or(String::new(), |bytes| size(bytes.get().into())),
        entry.refs.to_string(),
        if entry.time.0 > 0 { age(entry.time, snapshot.time) } else { ABSENT.to_owned() },
        described(entry, is_short),
    ]
}

/// Returns its line (without the folder if there is little room), its tag, and the type of a kernel.
fn described(entry: &Buffer, is_short: bool) -> String {
    let kernel_type = entry.kernel_type.map(|kernel_type| format!("({})", kernel_type.name()));
    let line = entry.line().map(|line| {
        let text = line.to_string();
        let file = if is_short { line.short_file().rfind('/').map_or(0, |at| at + 1) } else { 0 };
        text.get(file..).unwrap_or(&text).to_owned()
    });
    let tag = entry.tag.as_deref().map(|tag| if line.is_some() { format!("\"{tag}\"") } else { tag.to_owned() });
    line.into_iter().chain(tag).chain(kernel_type).collect::<Vec<_>>().join(" ")
}

/// Appends a tag. Numbers are never cut; a long tag is cut at its end.
pub(crate) fn with_tag(mut numbers: String, tag: &str, style: &Style<'_>) -> String {
    let room = style.columns().saturating_sub(width(&numbers));
    numbers.push_str(&cut(&style.clean(tag), room, Cut::End, style.glyphs().ellipsis));
    numbers.trim_end().to_owned()
}

fn buffer_row(cells: &[String; 9], is_short: bool, style: &Style<'_>) -> String {
    let [pid, devices, kind, address, size, per_bank, refs, age, tag] = cells;
    let more = if is_short { String::new() } else { format!("{per_bank:>8} {refs:>4} ") };
    with_tag(format!("{pid:>7} {devices:>5} {kind:>8} {address:>12} {size:>8} {more}{age:>7}  "), tag, style)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::sync::Arc;

    use super::*;
    use crate::tests::{machine, printed};
    use insta::assert_snapshot;
    use ttmon_model::ledger::LedgerSelfCheck;
    use ttmon_model::sample::Problem;
    use ttmon_model::snapshot::BufferAllocator;
    use ttmon_model::stack::{SourceLine, Stack};
    use ttmon_model::{DeviceId, Source};

    /// The n300 with a ledger of its first process.
    fn tracked() -> Snapshot {
        let mut snapshot = machine::n300();
        let process = snapshot.processes[0].key;
        let time = snapshot.time;
        let figure = |used| Figure {
            used: Ok(used),
            allocated: Err(Missing::NotTracked),
            peak: Ok(used * 2),
            peak_time: Ok(time),
            count: Ok(3),
            source: Ok(Source::Ledger),
            kernel_types: None,
        };
        let kind = |used, unlisted| AllocatorKind {
            figure: figure(used),
            free: Err(Missing::NotTracked),
            unlisted,
            banks: Err(Missing::NotTracked),
            programs: None,
        };
        let allocator = |slot: u16| Allocator {
            id: format!("{}.{slot}.0", process.pid),
            process,
            slot,
            is_open: true,
            mesh: None,
            devices: vec![DeviceId(0)],
            unmapped: Vec::new(),
            coverage: Err(Missing::NoSource),
            self_check: LedgerSelfCheck::default(),
            kinds: PerKind::from_fn(|of| (of == Kind::Dram).then(|| kind(1 << 20, (7, 4096)))),
            others: vec![(BufferKind::Host, kind(1 << 10, (0, 0))), (BufferKind::Other, kind(100, (1, 50)))],
            buffers_left_out: 0,
            refused: 0,
        };
        snapshot.allocators = vec![allocator(0), allocator(1)];
        let id = snapshot.allocators[0].id.clone();
        let of = Arc::new(BufferAllocator { id, process, devices: vec![DeviceId(0)] });
        let buffer = |address, tag: &str| MappedBuffer {
            allocator: Arc::clone(&of),
            buffer: Buffer {
                allocator: 0,
                kind: BufferKind::Of(Kind::Dram),
                address,
                size: 1 << 20,
                per_bank: NonZeroU32::new(1 << 16),
                page_size: None,
                layout: None,
                cores: None,
                refs: 1,
                time,
                tag: Some(Arc::new(tag.to_owned())),
                operation: None,
                stack: None,
                is_per_core: false,
                is_cached: false,
                kernel_type: None,
            },
        };
        snapshot.buffers = vec![buffer(0x10, "kv"), buffer(0xffff_ffff, "layers.0.attention.weights.and.more"), buffer(0x20, "a\u{9b}b")];
        snapshot.problems =
            vec![Problem { part: "ledger of process 1".to_owned(), reason: Missing::NotTracked, detail: "some were lost".to_owned() }];
        snapshot.denied_processes = 2;
        snapshot
    }

    /// Prints with the notes below.
    fn whole(snapshot: &Snapshot, print: impl FnOnce(&Style<'_>, &mut Vec<u8>) -> io::Result<()>) -> String {
        let style = Style::plain("0");
        printed(|out| {
            print(&style, out)?;
            memory_end(snapshot, &style, out)
        })
    }

    #[test]
    fn kinds_of_no_bar_unlisted_buffers_and_problems() {
        let snapshot = tracked();
        assert_snapshot!(whole(&snapshot, |style, out| memory(&snapshot, false, style, out)), @"
        Device 0  n300 L
          DRAM        2.4GB / 12.0GB   [████▊░░░░░░░░░░░░░░░░░░░]  20.0%
          L1         35.0MB / 91.5MB   [█████████▏░░░░░░░░░░░░░░]  38.3%
          pid 12345  ana  python3 serve.py
            kind             used    allocated     count        peak              source
            dram            2.4GB          N/A       N/A         N/A              shm
            l1             22.0MB          N/A       N/A         N/A              shm
            l1_small           0B          N/A       N/A         N/A              shm
            trace              0B          N/A       N/A         N/A              shm
            cb             13.0MB          N/A       N/A         N/A              shm
            host            2.0KB          N/A         6       2.0KB      0s ago  ledger
            other            200B          N/A         6        200B      0s ago  ledger
            dram: 14 more not listed (8.0KB)
            other: 2 more not listed (100B)
        Device 1  n300 R
          DRAM      800.0MB / 12.0GB   [█▋░░░░░░░░░░░░░░░░░░░░░░]   6.5%
          L1         11.0MB / 91.5MB   [██▉░░░░░░░░░░░░░░░░░░░░░]  12.0%
          pid 12345  ana  python3 serve.py
            kind             used    allocated     count        peak              source
            dram          800.0MB          N/A       N/A         N/A              shm
            l1             10.0MB          N/A       N/A         N/A              shm
            l1_small           0B          N/A       N/A         N/A              shm
            trace              0B          N/A       N/A         N/A              shm
            cb              1.0MB          N/A       N/A         N/A              shm
        2 processes may have ledgers that this user may not read; try as root
        ! ledger of process 1: some were lost
        ");
    }

    /// The hook records DRAM; TT-Metal's statistics have some of the other kinds.
    #[test]
    fn every_row_has_its_source_and_reported_memory_is_not_untracked() {
        let mut snapshot = tracked();
        snapshot.processes[0].devices.truncate(1);
        snapshot.processes[0].devices[0].kinds[Kind::Dram] = snapshot.allocators[0].kinds[Kind::Dram].as_ref().unwrap().figure.clone();
        for kind in [Kind::L1, Kind::Trace, Kind::Kernel] {
            snapshot.processes[0].devices[0].kinds[kind] = Figure::missing(Missing::NotTracked);
        }
        snapshot.allocators.truncate(1);
        (snapshot.allocators[0].coverage, snapshot.allocators[0].others) = (Ok(Vec::new()), Vec::new());
        (snapshot.problems, snapshot.denied_processes) = (Vec::new(), 0);
        assert_snapshot!(whole(&snapshot, |style, out| memory(&snapshot, false, style, out)), @"
        Device 0  n300 L
          DRAM        2.4GB / 12.0GB   [████▊░░░░░░░░░░░░░░░░░░░]  20.0%
          L1         35.0MB / 91.5MB   [█████████▏░░░░░░░░░░░░░░]  38.3%
          pid 12345  ana  python3 serve.py
            kind             used    allocated     count        peak              source
            dram            1.0MB          N/A         3       2.0MB      0s ago  ledger
            l1_small           0B          N/A       N/A         N/A              shm
            cb             13.0MB          N/A       N/A         N/A              shm
            dram: 7 more not listed (4.0KB)
            not tracked: l1, trace, kernel
        ");
    }

    #[test]
    fn only_tags_are_cut() {
        let snapshot = tracked();
        assert_snapshot!(whole(&snapshot, |style, out| buffers(&snapshot, snapshot.buffers.iter(), 3, style, out)), @"
            PID   dev     kind      address     size per bank refs     age  tag
          12345     0     dram         0x10    1.0MB   64.0KB    1      0s  kv
          12345     0     dram   0xffffffff    1.0MB   64.0KB    1      0s  layers.0.at…
          12345     0     dram         0x20    1.0MB   64.0KB    1      0s  a·b
        and 3 more, left out by --top
          12345 dram: 14 more not listed (8.0KB)
          12345 other: 2 more not listed (100B)
        2 processes may have ledgers that this user may not read; try as root
        ! ledger of process 1: some were lost
        ");
    }

    #[test]
    fn lines_have_room_on_a_narrow_terminal() {
        let mut snapshot = tracked();
        let line = SourceLine { file: "/home/ana/models/decoder.py".into(), line: 42, function: "Decoder.forward".into() };
        snapshot.buffers[0].buffer.stack = Some(Arc::new(Stack::of_line(Arc::new(line))));
        let text = whole(&snapshot, |style, out| buffers(&snapshot, snapshot.buffers.iter(), 0, style, out));
        assert!(text.contains("  decoder.py:42 Decoder.f"), "{text}");
        let wide = Style { width: 120, ..Style::plain("1") };
        let mut out = Vec::new();
        buffers(&snapshot, snapshot.buffers.iter(), 0, &wide, &mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().contains("  models/decoder.py:42 Decoder.forward \"kv\""));
    }
}
