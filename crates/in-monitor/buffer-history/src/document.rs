//! Creates traces from documents of ttmon: run reports and recordings.

use std::collections::HashMap;
use std::io::{self, Read, Seek};
use std::sync::Arc;

use serde_json::Value;
use ttmon_json::recording::Reader;
use ttmon_json::{Document, ReadError};
use ttmon_model::ledger::BufferKind;
use ttmon_model::limits::DOCUMENT_ENTRIES_MAX;
use ttmon_model::snapshot::{Allocator, MappedBuffer, Snapshot};
use ttmon_model::stack::SourceLine;
use ttmon_model::units::UnixTime;
use ttmon_model::{DeviceId, Kind};

use crate::chips::Chip;
use crate::trace::{Buffer, DrawnMemory, Owner, Trace};

/// The note on a trace from a run report.
pub const OF_REPORT: &str = "from a run report: only buffers that were never freed, and refused requests";
/// The note on a trace from a recording.
pub const OF_RECORDING: &str = "from a recording: buffers that were freed between two samples are missing";

/// Adds the document of `ttmon run --report`.
pub fn add_report(trace: &mut Trace, text: &str) -> io::Result<()> {
    let not_ours = || io::Error::other("neither a report of `ttmon run --report` nor a recording of `ttmon record`");
    let document = Document::read(text, None).map_err(|_| not_ours())?;
    if !["command", "devices", "leaks", "oom"].iter().all(|list| document.has_list(list)) {
        return Err(not_ours());
    }
    let start = document.head["start_time"].as_str().and_then(UnixTime::parse_rfc3339).map_or(0, |time| time.0);
    let end = start.saturating_add(nanoseconds(&document.head["duration_s"]));
    trace.about.title = command(&document).map_err(io::Error::other)?;
    let mut events: Vec<(u64, Value, Event)> = Vec::new();
    for (list, event) in [("leaks", Event::Alloc), ("cache", Event::Alloc), ("oom", Event::OutOfMemory), ("clashes", Event::Clash)] {
        if !document.has_list(list) {
            continue;
        }
        let read = document.each(list, DOCUMENT_ENTRIES_MAX, |item| {
            let time = match event {
                Event::Alloc => end.saturating_sub(nanoseconds(&item["age_s"])),
                Event::OutOfMemory | Event::Clash => start.saturating_add(nanoseconds(&item["time_s"])),
            };
            events.push((time, item.clone(), event));
            Ok(())
        });
        read.map_err(io::Error::other)?;
    }
    events.sort_by_key(|(time, ..)| *time);
    let mut owners = HashMap::new();
    for (time, item, event) in events {
        add_item(trace, &mut owners, time, &item, event).map_err(|error| not_stored(&error))?;
    }
    Ok(())
}

fn not_stored(error: &io::Error) -> io::Error {
    io::Error::other(format!("cannot keep its events: {error}"))
}

#[derive(Clone, Copy)]
enum Event {
    Alloc,
    OutOfMemory,
    Clash,
}

fn command(document: &Document<'_>) -> Result<String, ReadError> {
    let mut words: Vec<String> = Vec::new();
    document.each("command", DOCUMENT_ENTRIES_MAX, |word| {
        words.extend(word.as_str().map(str::to_owned));
        Ok(())
    })?;
    Ok(words.join(" "))
}

fn add_item(trace: &mut Trace, owners: &mut HashMap<u64, Owner>, time: u64, item: &Value, event: Event) -> io::Result<()> {
    let pid = item["pid"].as_u64().unwrap_or(0);
    let owner = *owners.entry(pid).or_insert_with(|| trace.process(u32::try_from(pid).unwrap_or(0), ""));
    // Documents of other versions may lack members. A trace needs only the kind and the chips.
    let banks = item["banks"].as_u64().and_then(|banks| u32::try_from(banks).ok()).filter(|banks| *banks > 0);
    let Some(kind) = item["kind"].as_str().and_then(kind) else { return Ok(()) };
    let address = item["address"].as_str().and_then(hexadecimal).unwrap_or(0);
    let per_bank = item["per_bank"].as_u64().unwrap_or(0);
    // The document does not have the range of the bank. The range of its buffers is used instead.
    let Some(memory) = trace.memory(&chips(item), kind, banks.map(|banks| (banks, address, 0))) else { return Ok(()) };
    let stack = line(&item["line"]).map_or(0, |line| trace.stack(&[line]));
    let buffer = Buffer {
        address,
        size: item["size"].as_u64().or_else(|| item["asked"].as_u64()).unwrap_or(0),
        per_bank,
        tag: item["tag"].as_str(),
        operation: item["op"].as_str().or_else(|| item["operation"].as_str()),
        stack,
    };
    let free = item["largest_free_per_bank"].as_u64().unwrap_or(0);
    match event {
        Event::Alloc => trace.alloc(time, owner, memory, &buffer),
        Event::OutOfMemory => trace.refused(time, owner, memory, &buffer, free, false),
        Event::Clash => trace.refused(time, owner, memory, &buffer, free, true),
    }
}

/// Returns the chips: first the devices of this host, then the chips that only the program's ids identify.
fn chips(item: &Value) -> Vec<Chip> {
    let devices = item["devices"].as_array().into_iter().flatten().filter_map(Value::as_u64).map(Chip::device);
    let unmapped = item["unmapped"].as_array().into_iter().flatten().filter_map(|id| id.as_str()?.parse::<u64>().ok()).map(Chip::unmapped);
    devices.chain(unmapped).collect()
}

fn kind(name: &str) -> Option<BufferKind> {
    Kind::ALL.into_iter().find(|kind| kind.name() == name).map(BufferKind::Of)
}

fn line(value: &Value) -> Option<Arc<SourceLine>> {
    // A line may lack its number or function, but not its file.
    let number = value["line"].as_u64().and_then(|line| u32::try_from(line).ok()).unwrap_or(0);
    let function = value["function"].as_str().unwrap_or_default();
    Some(Arc::new(SourceLine { file: value["file"].as_str()?.into(), line: number, function: function.into() }))
}

/// Parses `0x2000`.
fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Converts seconds to nanoseconds. Returns 0 if there is no number.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn nanoseconds(seconds: &Value) -> u64 {
    (seconds.as_f64().unwrap_or(0.0) * 1e9) as u64
}

type BufferKey = (u32, String, BufferKind, u64, u64);

/// The buffers of the previous frame, with the values that are needed to free each.
type Present = HashMap<BufferKey, (Owner, DrawnMemory)>;

/// Adds a recording, frame by frame.
pub fn add_recording(trace: &mut Trace, reader: &mut Reader<impl Read + Seek>) -> io::Result<()> {
    let mut owners: HashMap<u32, Owner> = HashMap::new();
    let mut present: Present = HashMap::new();
    let (mut stacks, mut read) = (HashMap::new(), 0_usize);
    for number in 0..reader.len() {
        // A frame that cannot be read is counted as lost.
        let frame = reader.line(number).ok().and_then(|line| ttmon_json::read_frame(line).ok());
        let Some((snapshot, _)) = frame else {
            trace.record_loss(1, 0);
            continue;
        };
        read += 1;
        add_frame(trace, &snapshot, &mut owners, &mut present, &mut stacks).map_err(|error| not_stored(&error))?;
    }
    if reader.is_cut() {
        trace.record_loss(1, 0);
    }
    if read == 0 { Err(io::Error::other("no frame can be read")) } else { Ok(()) }
}

/// A process, the number of its stack, and the line. The number may be unknown.
type StackKey = (u32, u32, Arc<SourceLine>);

fn add_frame(
    trace: &mut Trace,
    snapshot: &Snapshot,
    owners: &mut HashMap<u32, Owner>,
    present: &mut Present,
    stacks: &mut HashMap<StackKey, u32>,
) -> io::Result<()> {
    let time = snapshot.time.0;
    let allocators: HashMap<&str, &Allocator> = snapshot.allocators.iter().map(|allocator| (allocator.id.as_str(), allocator)).collect();
    let mut before = std::mem::take(present);
    let mut new: Vec<(BufferKey, &MappedBuffer)> = Vec::new();
    for buffer in &snapshot.buffers {
        let key = key_of(buffer);
        match before.remove(&key) {
            Some(known) => drop(present.insert(key, known)),
            None => new.push((key, buffer)),
        }
    }
    // Frees come first, because an address may be used again. The same recording is always the same file.
    let mut freed: Vec<(BufferKey, (Owner, DrawnMemory))> = before.into_iter().collect();
    freed.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    for ((_, _, _, address, _), (owner, memory)) in freed {
        trace.free(time, owner, memory, &Buffer { address, ..Buffer::default() })?;
    }
    for (key, buffer) in new {
        let Some(allocator) = allocators.get(buffer.allocator.id.as_str()) else { continue };
        let Some(memory) = memory(trace, allocator, buffer.buffer.kind) else { continue };
        let owner = *owners.entry(key.0).or_insert_with(|| trace.process(key.0, &name_of(snapshot, key.0)));
        let entry = &buffer.buffer;
        let stack = entry
            .stack
            .as_ref()
            .map_or(0, |stack| *stacks.entry((key.0, stack.number, stack.line.clone())).or_insert_with(|| trace.stack(&stack.frames)));
        let made = Buffer {
            address: entry.address,
            size: entry.size,
            per_bank: entry.per_bank.map_or(0, |bytes| bytes.get().into()),
            tag: entry.tag.as_deref().map(String::as_str),
            operation: entry.operation.as_deref().map(String::as_str),
            stack,
        };
        trace.alloc(time, owner, memory, &made)?;
        present.insert(key, (owner, memory));
    }
    Ok(())
}

fn key_of(buffer: &MappedBuffer) -> BufferKey {
    let entry = &buffer.buffer;
    (buffer.process().pid, buffer.allocator.id.clone(), entry.kind, entry.address, entry.time.0 / 1_000_000_000)
}

fn name_of(snapshot: &Snapshot, pid: u32) -> String {
    let process = snapshot.processes.iter().find(|process| process.key.pid == pid);
    process.and_then(|process| process.name.as_ref().ok()).map_or_else(String::new, ToString::to_string)
}

fn memory(trace: &mut Trace, allocator: &Allocator, kind: BufferKind) -> Option<DrawnMemory> {
    let BufferKind::Of(known) = kind else { return None };
    let banks = allocator.kinds[known].as_ref().and_then(|kind| kind.banks.as_ref().ok());
    let banks = banks.and_then(|banks| {
        let first = banks.table.first().map_or((0, 0), |block| (block.address, banks.bank_bytes));
        Some((u32::try_from(banks.banks).ok().filter(|count| *count > 0)?, first.0, first.1))
    });
    let devices = allocator.devices.iter().map(|DeviceId(id)| Chip::device((*id).into()));
    let chips: Vec<Chip> = devices.chain(allocator.unmapped.iter().map(|id| Chip::unmapped(*id))).collect();
    trace.memory(&chips, kind, banks)
}
