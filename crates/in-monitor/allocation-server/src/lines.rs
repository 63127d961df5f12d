//! Formats output lines: one per event in the format of allocation_server_poc, or one JSON object. Pure.

use std::io::{self, Write as _};

use ttmon_model::ledger::BufferKind;
use ttmon_model::units::UnixTime;
use ttmon_model::{KernelType, Kind};

/// The format of output lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Text.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// The result of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// A new entry, or an additional reference to one.
    Allocated,
    /// An allocation with another size at a live address: its free was missed.
    Replaced,
    /// One reference fewer. The last one removes the entry.
    Freed,
    /// No entry was known at the address.
    Unknown,
    Twice,
    /// All entries of one kind were freed together.
    FreedAll,
    /// An allocation of the program failed.
    Refused,
}

/// One printed event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventLine {
    pub(crate) done: Done,
    pub(crate) pid: u32,
    pub(crate) device: i32,
    pub(crate) kind: BufferKind,
    pub(crate) kernel_type: KernelType,
    pub(crate) size: u64,
    pub(crate) address: u64,
    /// References left.
    pub(crate) refs: u32,
    /// Bytes of the kind on the device afterwards, of all processes. Printed only for circular buffers and kernels.
    pub(crate) total: u64,
    pub(crate) unix_ns: u64,
}

/// Returns the protocol's name of a kind.
pub(crate) fn kind_name(kind: BufferKind) -> &'static str {
    match kind {
        BufferKind::Of(Kind::Dram) => "DRAM",
        BufferKind::Of(Kind::L1) => "L1",
        BufferKind::Of(Kind::L1Small) => "L1_SMALL",
        BufferKind::Of(Kind::Trace) => "TRACE",
        BufferKind::Of(Kind::Cb) => "CB",
        BufferKind::Of(Kind::Kernel) => "KERNEL",
        BufferKind::Host => "SYSTEM_MEMORY",
        BufferKind::Other => "OTHER",
    }
}

/// Circular buffers and kernels, whose lines have the sum of the kind.
pub(crate) const CB: BufferKind = BufferKind::Of(Kind::Cb);
pub(crate) const KERNEL: BufferKind = BufferKind::Of(Kind::Kernel);

/// Appends the line of an event.
pub(crate) fn event(out: &mut Vec<u8>, format: Format, line: &EventLine) {
    // Writing into memory does not fail.
    let _ = match (format, line.kind) {
        (Format::Json, _) => json(out, line),
        (Format::Text, CB | KERNEL) => summed(out, line),
        (Format::Text, _) => buffer(out, line),
    };
}

fn buffer(out: &mut Vec<u8>, line: &EventLine) -> io::Result<()> {
    let EventLine { pid, device, size, address, refs, .. } = *line;
    let kind = kind_name(line.kind);
    match line.done {
        Done::Allocated | Done::Replaced => {
            write!(out, "✓ [PID {pid}] Allocated {size} bytes of {kind} on device {device} (buffer_id={address:#x}")?;
            match (line.done, refs) {
                (Done::Replaced, _) => writeln!(out, ", replaced one of another size)"),
                (_, 2..) => writeln!(out, ", ref_count={refs})"),
                _ => writeln!(out, ")"),
            }
        }
        Done::Freed => {
            write!(out, "✗ [PID {pid}] Freed buffer {address:#x} on device {device} ({size} bytes, ")?;
            if refs > 0 { writeln!(out, "ref_count={refs} remaining)") } else { writeln!(out, "FINAL)") }
        }
        Done::FreedAll => writeln!(out, "✗ [PID {pid}] Freed all {size} bytes of {kind} on device {device}"),
        Done::Refused => writeln!(out, "⚠ [PID {pid}] Out of memory: {size} bytes of {kind} on device {device}"),
        Done::Unknown | Done::Twice => {
            let why = if line.done == Done::Twice { "freed before" } else { "allocated before tracking started" };
            writeln!(out, "⚠ [PID {pid}] Deallocation for unknown buffer {address:#x} on device {device} ({why})")
        }
    }
}

/// Writes the line of a circular buffer or a kernel.
fn summed(out: &mut Vec<u8>, line: &EventLine) -> io::Result<()> {
    let is_kernel = line.kind == KERNEL;
    let [begin, end] = if is_kernel { ["KERNEL_LOAD", "KERNEL_UNLOAD"] } else { ["CB_ALLOC", "CB_FREE"] };
    let (sign, name, change) = match line.done {
        Done::Allocated | Done::Replaced => ("✓", begin, "+"),
        Done::Freed | Done::FreedAll => ("✗", end, "-"),
        Done::Unknown | Done::Twice | Done::Refused => ("⚠", end, "unknown "),
    };
    write!(out, "{sign} [{name}] ")?;
    if is_kernel {
        write!(out, "{} kernel on ", line.kernel_type.title())?;
    }
    let (device, size, total) = (line.device, megabytes(line.size), megabytes(line.total));
    writeln!(out, "Device {device}: {change}{size} MB (Total: {total} MB)")
}

fn json(out: &mut Vec<u8>, line: &EventLine) -> io::Result<()> {
    let EventLine { pid, device, size, address, refs, .. } = *line;
    let op = match (line.done, refs) {
        (Done::Allocated, 0 | 1) => "alloc",
        (Done::Allocated, _) => "ref",
        (Done::Replaced, _) => "replace",
        (Done::Freed, 0) => "free",
        (Done::Freed, _) => "unref",
        (Done::Unknown, _) => "unknown_free",
        (Done::Twice, _) => "double_free",
        (Done::FreedAll, _) => "free_all",
        (Done::Refused, _) => "oom",
    };
    let (time, kind) = (UnixTime(line.unix_ns).rfc3339(), line.kind.name());
    write!(out, r#"{{"time":"{time}","op":"{op}","pid":{pid},"device":{device},"kind":"{kind}","#)?;
    write!(out, r#""address":"{address:#x}","size":{size},"refs":{refs}"#)?;
    if line.kind == KERNEL {
        write!(out, r#","kernel_type":"{}""#, line.kernel_type.name())?;
    }
    writeln!(out, "}}")
}

/// Returns the lines about a process that ended with live buffers, circular buffers and kernels: bytes and count of each.
pub(crate) fn end_of_process(pid: u32, live: [(u64, u64); 3]) -> Vec<String> {
    let [buffers, circulars, kernels] = live;
    if live.iter().all(|(_, count)| *count == 0) {
        return Vec::new();
    }
    let mut lines = vec![
        String::new(),
        "⚠️  Detected dead processes, cleaning up orphaned buffers...".to_owned(),
        format!("   PID {pid} is dead, removing its buffers..."),
    ];
    for ((bytes, count), what, is_always) in [(buffers, "buffers", true), (circulars, "CBs", false), (kernels, "kernels", false)] {
        if count > 0 || is_always {
            lines.push(format!("   ✓ Removed {count} {what} ({} MB) from PID {pid}", megabytes(bytes)));
        }
    }
    lines.push(String::new());
    lines
}

/// Appends a line that is not about an event.
pub(crate) fn note(out: &mut Vec<u8>, format: Format, unix_ns: u64, level: &str, message: &str) {
    // As in [`event`].
    let _ = match format {
        Format::Text => writeln!(out, "{message}"),
        Format::Json => {
            let (time, message) = (UnixTime(unix_ns).rfc3339(), quoted(message));
            writeln!(out, r#"{{"time":"{time}","level":"{level}","message":{message}}}"#)
        }
    };
}

/// Returns a JSON string. Control characters are replaced.
fn quoted(message: &str) -> String {
    let mut quoted = String::from("\"");
    for character in message.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            _ if character.is_control() => quoted += &format!("\\u{:04x}", u32::from(character)),
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// Formats mebibytes as C++ streams do.
pub(crate) fn megabytes(bytes: u64) -> String {
    general(bytes as f64 / 1_048_576.0)
}

/// Formats kibibytes as C++ streams do.
pub(crate) fn kilobytes(bytes: u64) -> String {
    general(bytes as f64 / 1024.0)
}

/// Formats like `%g`: six significant digits, without trailing zeros.
pub(crate) fn general(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{value:.5e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |digits: &str| {
        if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.').to_owned() } else { digits.to_owned() }
    };
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).unwrap_or(0);
        return trim(&format!("{value:.decimals$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim(digits), exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT_LINE: EventLine = EventLine {
        done: Done::Allocated,
        pid: 12345,
        device: 0,
        kind: BufferKind::Of(Kind::Dram),
        kernel_type: KernelType::Application,
        size: 4_194_304,
        address: 0x7f8a_2c00_0000,
        refs: 1,
        total: 4_194_304,
        unix_ns: 1_763_000_000_123_456_789,
    };

    fn text_of(line: EventLine) -> String {
        let mut out = Vec::new();
        event(&mut out, Format::Text, &line);
        String::from_utf8(out).expect("text")
    }

    /// Lines shown by the recorded reference output, and lines as the reference server prints them otherwise.
    #[test]
    fn lines_are_those_of_the_reference_server() {
        let free = EventLine { done: Done::Freed, refs: 0, ..EVENT_LINE };
        let kernel = EventLine { kind: KERNEL, size: 2_621_440, total: 400_765_747, ..EVENT_LINE };
        let cases = [
            (EVENT_LINE, "✓ [PID 12345] Allocated 4194304 bytes of DRAM on device 0 (buffer_id=0x7f8a2c000000)\n"),
            (
                EventLine { refs: 2, ..EVENT_LINE },
                "✓ [PID 12345] Allocated 4194304 bytes of DRAM on device 0 (buffer_id=0x7f8a2c000000, ref_count=2)\n",
            ),
            (free, "✗ [PID 12345] Freed buffer 0x7f8a2c000000 on device 0 (4194304 bytes, FINAL)\n"),
            (
                EventLine { refs: 1, ..free },
                "✗ [PID 12345] Freed buffer 0x7f8a2c000000 on device 0 (4194304 bytes, ref_count=1 remaining)\n",
            ),
            (
                EventLine { done: Done::Unknown, ..free },
                "⚠ [PID 12345] Deallocation for unknown buffer 0x7f8a2c000000 on device 0 (allocated before tracking started)\n",
            ),
            (kernel, "✓ [KERNEL_LOAD] Application kernel on Device 0: +2.5 MB (Total: 382.2 MB)\n"),
            (
                EventLine { done: Done::Freed, kernel_type: KernelType::Dispatch, size: 47104, total: 0, ..kernel },
                "✗ [KERNEL_UNLOAD] Dispatch kernel on Device 0: -0.0449219 MB (Total: 0 MB)\n",
            ),
            (
                EventLine { kind: CB, device: 3, size: 65536, total: 65536, ..EVENT_LINE },
                "✓ [CB_ALLOC] Device 3: +0.0625 MB (Total: 0.0625 MB)\n",
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(text_of(line), expected);
        }
    }

    #[test]
    fn json_is_one_object_a_line() {
        let mut out = Vec::new();
        event(&mut out, Format::Json, &EventLine { kind: BufferKind::Host, address: 0, ..EVENT_LINE });
        note(&mut out, Format::Json, EVENT_LINE.unix_ns, "warning", "a \"b\"\n\u{1b}[31m");
        let text = String::from_utf8(out).expect("text");
        let mut lines = text.lines();
        assert_eq!(
            lines.next(),
            Some(
                "{\"time\":\"2025-11-13T02:13:20.123Z\",\"op\":\"alloc\",\"pid\":12345,\"device\":0,\"kind\":\"host\",\
                 \"address\":\"0x0\",\"size\":4194304,\"refs\":1}"
            )
        );
        assert_eq!(
            lines.next(),
            Some("{\"time\":\"2025-11-13T02:13:20.123Z\",\"level\":\"warning\",\"message\":\"a \\\"b\\\"\\u000a\\u001b[31m\"}")
        );
    }

    #[test]
    fn numbers_are_formatted_as_in_c_plus_plus() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (0.5, "0.5"),
            (1_048_576.0, "1.04858e+06"),
            (382.2, "382.2"),
            (0.000_012_34, "1.234e-05"),
            (999_999.5, "1e+06"),
            (123_456.0, "123456"),
            (100.0, "100"),
        ];
        for (value, expected) in cases {
            assert_eq!(general(value), expected);
        }
    }
}
