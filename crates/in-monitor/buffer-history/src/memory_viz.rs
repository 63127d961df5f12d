//! Writes the snapshot format of PyTorch's memory_viz page and `_memory_viz.py`. docs/run.md has the mapping.

use std::collections::HashMap;
use std::io::{self, Write};

use ttmon_model::units::UnixTime;

use crate::pickle::{Memo, Pickle};
use crate::spool::{Action, Record};
use crate::trace::{Trace, kind_name};

/// If all chips have different numbers below this, the number of a chip is its index in the list.
const NUMBERS_MAX: u64 = 1024;
/// Maximum number of categories. Each has a colour and a line in the legend, and more do not fit on the page.
const CATEGORIES_MAX: usize = 20;
/// The page fails if there are categories and none has this name.
const NO_CATEGORY: &str = "unknown";

/// Writes a trace as a pickle.
pub fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let devices = devices(trace);
    let has_categories = has_categories(trace)?;
    let mut file = File { trace, pickle: Pickle::new(out)?, texts: HashMap::new(), stacks: HashMap::new(), has_categories };
    file.write(&devices)?;
    file.pickle.finish()
}

/// Returns the chip for each device number, or `None` if a number has no chip.
fn devices(trace: &Trace) -> Vec<Option<u32>> {
    let mut chips: Vec<(u64, u32)> = (0..).zip(&trace.chips).map(|(index, chip)| (chip.chip.number, index)).collect();
    chips.sort_unstable();
    let is_clear = chips.windows(2).all(|pair| pair[0].0 != pair[1].0) && chips.iter().all(|(number, _)| *number < NUMBERS_MAX);
    if !is_clear {
        return chips.into_iter().map(|(_, index)| Some(index)).collect();
    }
    let mut devices = Vec::new();
    for (number, index) in chips {
        devices.resize(usize::try_from(number).unwrap_or(0), None);
        devices.push(Some(index));
    }
    devices
}

/// Returns whether tags or operations are used as categories. This is so only if there are few.
fn has_categories(trace: &Trace) -> io::Result<bool> {
    let mut names: Vec<u32> = Vec::new();
    trace.spool.each(|record| {
        let name = category(record);
        if name != 0 && names.len() <= CATEGORIES_MAX && !names.contains(&name) {
            names.push(name);
        }
        Ok(())
    })?;
    Ok((1..=CATEGORIES_MAX).contains(&names.len()))
}

fn category(record: &Record) -> u32 {
    if record.tag != 0 { record.tag } else { record.operation }
}

struct File<'t, 'w> {
    trace: &'t Trace,
    pickle: Pickle<'w>,
    /// Keys and short texts that may be repeated.
    texts: HashMap<String, Memo>,
    /// Stacks that may be repeated, by stack and operation.
    stacks: HashMap<(u32, u32), Memo>,
    has_categories: bool,
}

impl File<'_, '_> {
    fn write(&mut self, devices: &[Option<u32>]) -> io::Result<()> {
        self.pickle.open_dictionary()?;
        self.text("segments")?;
        self.pickle.open_list()?;
        for (number, chip) in (0..).zip(devices).filter_map(|(number, chip)| Some((number, (*chip)?))) {
            self.segments(number, chip)?;
        }
        self.pickle.close_list()?;
        self.text("device_traces")?;
        self.list(devices, |file, chip| file.events(*chip))?;
        self.text("ttmon")?;
        self.about(devices)?;
        self.pickle.close_dictionary()
    }

    /// Writes a text, or a reference if it was written before.
    fn text(&mut self, text: &str) -> io::Result<()> {
        if let Some(memo) = self.texts.get(text) {
            return self.pickle.repeat(*memo);
        }
        self.pickle.text(text)?;
        let memo = self.pickle.remember()?;
        self.texts.insert(text.to_owned(), memo);
        Ok(())
    }

    fn list<T>(&mut self, items: impl IntoIterator<Item = T>, mut write: impl FnMut(&mut Self, T) -> io::Result<()>) -> io::Result<()> {
        self.pickle.open_list()?;
        for item in items {
            write(self, item)?;
            self.pickle.end_item()?;
        }
        self.pickle.close_list()
    }

    fn number(&mut self, key: &str, number: u64) -> io::Result<()> {
        self.text(key)?;
        self.pickle.number(number)
    }

    fn word(&mut self, key: &str, word: &str) -> io::Result<()> {
        self.text(key)?;
        self.text(word)
    }

    /// Writes the live buffers of a chip at the end, by kind. Kinds with overlapping addresses share one segment.
    fn segments(&mut self, device: u64, chip: u32) -> io::Result<()> {
        let Some(traced) = self.trace.chips.get(chip as usize) else { return Ok(()) };
        let mut ranges: Vec<(u64, u64, u64)> = Vec::new();
        let mut known: Vec<(u64, u64, u64)> =
            (0..).zip(&traced.ranges).filter_map(|(kind, range)| range.map(|(start, end)| (start, end, kind))).collect();
        known.sort_unstable();
        for (start, end, kind) in known {
            match ranges.last_mut() {
                Some((_, last, _)) if start < *last => *last = end.max(*last),
                _ => ranges.push((start, end, kind)),
            }
        }
        let live = self.trace.live_on(chip);
        for (start, end, kind) in ranges.into_iter().filter(|(start, end, _)| start < end) {
            let blocks: Vec<Record> = live.range(start..end).map(|(_, record)| *record).collect();
            self.segment(device, (start, end, kind), &blocks)?;
            self.pickle.end_item()?;
        }
        Ok(())
    }

    fn segment(&mut self, device: u64, (start, end, kind): (u64, u64, u64), live: &[Record]) -> io::Result<()> {
        // Each block ends at the start of the next one at the latest, because two processes may report the same bytes.
        let ends = live.iter().skip(1).map(|next| next.address).chain([end]);
        let blocks: Vec<(Record, u64)> =
            live.iter().zip(ends).map(|(record, next)| (*record, record.size.min(next - record.address))).collect();
        let active: u64 = blocks.iter().map(|(_, size)| size).sum();
        self.pickle.open_dictionary()?;
        self.number("device", device)?;
        self.number("address", start)?;
        self.number("total_size", end - start)?;
        self.number("allocated_size", active)?;
        self.number("active_size", active)?;
        self.number("stream", kind)?;
        self.word("segment_type", "large")?;
        self.frames(0, 0)?;
        self.text("blocks")?;
        self.pickle.open_list()?;
        let mut at = start;
        for (record, size) in blocks {
            if record.address > at {
                self.block(at, record.address - at, None)?;
                self.pickle.end_item()?;
            }
            self.block(record.address, size, Some(&record))?;
            self.pickle.end_item()?;
            at = record.address + size;
        }
        if at < end {
            self.block(at, end - at, None)?;
        }
        self.pickle.close_list()?;
        self.pickle.close_dictionary()
    }

    fn block(&mut self, address: u64, size: u64, live: Option<&Record>) -> io::Result<()> {
        self.pickle.open_dictionary()?;
        self.number("address", address)?;
        self.number("size", size)?;
        self.number("requested_size", live.map_or(0, |record| record.requested.min(size)))?;
        self.word("state", if live.is_some() { "active_allocated" } else { "inactive" })?;
        let (stack, operation) = live.map_or((0, 0), |record| (record.stack, record.operation));
        self.frames(stack, operation)?;
        self.pickle.close_dictionary()
    }

    /// Writes the frames, innermost first: the operation, then the lines of the program.
    fn frames(&mut self, stack: u32, operation: u32) -> io::Result<()> {
        self.text("frames")?;
        if let Some(memo) = self.stacks.get(&(stack, operation)) {
            return self.pickle.repeat(*memo);
        }
        let trace = self.trace;
        let operation_frame = trace.text_of(operation).map(|name| ("ttnn", 0, name));
        let lines = trace.stacks.get(stack as usize).into_iter().flatten();
        let frames = operation_frame.into_iter().chain(lines.map(|line| (&*line.file, line.line, &*line.function)));
        self.list(frames, |file, (path, line, function)| file.frame(path, line, function))?;
        let memo = self.pickle.remember()?;
        self.stacks.insert((stack, operation), memo);
        Ok(())
    }

    fn frame(&mut self, file: &str, line: u32, function: &str) -> io::Result<()> {
        self.pickle.open_dictionary()?;
        self.word("filename", file)?;
        self.number("line", line.into())?;
        self.word("name", function)?;
        self.pickle.close_dictionary()
    }

    fn events(&mut self, chip: Option<u32>) -> io::Result<()> {
        self.pickle.open_list()?;
        if let Some(chip) = chip {
            self.first(chip)?;
            self.pickle.end_item()?;
            let trace = self.trace;
            trace.spool.each(|record| {
                if !trace.is_on(record, chip) {
                    return Ok(());
                }
                match record.action {
                    Action::Alloc => self.event("alloc", record),
                    Action::Free => {
                        self.event("free_requested", record)?;
                        self.event("free_completed", record)
                    }
                    Action::OutOfMemory => self.event("oom", record),
                    Action::Clash | Action::Mark => Ok(()),
                }
            })?;
        }
        self.pickle.close_list()
    }

    /// Writes an event that changes nothing and states how complete the list is.
    fn first(&mut self, chip: u32) -> io::Result<()> {
        let name = self.trace.chips.get(chip as usize).map_or_else(String::new, |chip| chip.chip.name.clone());
        let complete = match self.trace.complete_since() {
            None => "every event is here".to_owned(),
            Some(since) => {
                format!("every event since {} is here; {} earlier ones are missing", UnixTime(since).rfc3339(), self.trace.lost())
            }
        };
        let note = self.trace.about.note.map_or_else(String::new, |note| format!("; {note}"));
        self.pickle.open_dictionary()?;
        self.word("action", "snapshot")?;
        self.number("addr", 0)?;
        self.number("size", 0)?;
        self.number("stream", 0)?;
        self.number("time_us", self.trace.span().0 / 1000)?;
        self.frames(0, 0)?;
        if self.has_categories {
            self.word("category", NO_CATEGORY)?;
        }
        self.word("user_metadata", &format!("{name}: {complete}{note}"))?;
        self.pickle.close_dictionary()
    }

    fn event(&mut self, action: &str, record: &Record) -> io::Result<()> {
        let trace = self.trace;
        self.pickle.open_dictionary()?;
        self.word("action", action)?;
        let refused = record.action == Action::OutOfMemory;
        self.number(if refused { "device_free" } else { "addr" }, if refused { record.free } else { record.address })?;
        self.number("size", record.size)?;
        self.number("stream", record.kind.into())?;
        self.number("time_us", record.time / 1000)?;
        self.frames(record.stack, record.operation)?;
        if self.has_categories {
            self.word("category", trace.text_of(category(record)).unwrap_or(NO_CATEGORY))?;
        }
        let pid = trace.processes.get(record.owner as usize).map_or(0, |process| process.pid);
        let tag = trace.text_of(record.tag).map_or_else(String::new, |tag| format!(", tag {tag}"));
        self.word("user_metadata", &format!("{}, process {pid}{tag}", kind_name(record.kind)))?;
        self.pickle.close_dictionary()?;
        self.pickle.end_item()
    }

    /// Writes a key that no viewer reads. It describes the file, and since when it is complete.
    fn about(&mut self, devices: &[Option<u32>]) -> io::Result<()> {
        let trace = self.trace;
        self.pickle.open_dictionary()?;
        self.word("version", &trace.about.version)?;
        self.word("title", &trace.about.title)?;
        self.word("complete_since", &trace.complete_since().map_or_else(|| "start".to_owned(), |time| UnixTime(time).rfc3339()))?;
        self.number("lost_events", trace.lost())?;
        if let Some(note) = trace.about.note {
            self.word("note", note)?;
        }
        self.text("devices")?;
        let chips = devices.iter().map(|chip| chip.and_then(|chip| trace.chips.get(chip as usize)));
        self.list(chips, |file, chip| file.text(chip.map_or("", |chip| chip.chip.name.as_str())))?;
        self.text("streams")?;
        self.list(crate::trace::KINDS, |file, kind| file.text(kind.name()))?;
        self.pickle.close_dictionary()
    }
}
