//! The memory of some chips over time: the events, and the live buffers at the end.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;

use ttmon_model::Kind;
use ttmon_model::ledger::BufferKind;
use ttmon_model::stack::SourceLine;

use crate::addresses::{AddressGenerator, drawn_at};
use crate::chips::Chip;
use crate::spool::{Action, Record, Spool};

/// Kinds of memory in a trace. The index is the stream number on the memory_viz page.
pub(crate) const KINDS: [Kind; 4] = Kind::BANKED;
/// Maximum number of stored stacks and texts over all processes. Later ones are dropped.
const STACKS_MAX: usize = 1 << 20;
const TEXTS_MAX: usize = 1 << 20;

/// A process, by its number in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner(pub(crate) u32);

/// One kind of memory of an allocator: the chips, and the banks if known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DrawnMemory {
    pub(crate) chips: u32,
    pub(crate) kind: u8,
    /// The number of banks, or 0 if unknown. If it is unknown, an address is only an identifier.
    pub(crate) banks: u32,
}

/// A buffer.
#[derive(Clone, Debug, Default)]
pub struct Buffer<'a> {
    /// The address in each bank.
    pub address: u64,
    /// Requested bytes, per chip.
    pub size: u64,
    /// Bytes in each bank, or 0 if unknown.
    pub per_bank: u64,
    /// The tag.
    pub tag: Option<&'a str>,
    /// The operation that created it.
    pub operation: Option<&'a str>,
    /// The stack that requested it: a number from [`Trace::stack`].
    pub stack: u32,
}

/// The description of a trace, which is written into the file.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Version of ttmon.
    pub version: String,
    /// The command, or the name of the input.
    pub title: String,
    /// How the events were collected, if not every event was read.
    pub note: Option<&'static str>,
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) name: String,
    has_ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct LiveKey {
    owner: u32,
    chips: u32,
    kind: u8,
    address: u64,
}

#[derive(Debug)]
pub(crate) struct TracedChip {
    pub(crate) chip: Chip,
    /// First and last address of each kind.
    pub(crate) ranges: [Option<(u64, u64)>; KINDS.len()],
    /// The process that used the chip last.
    user: Option<u32>,
}

/// A memory trace: events over time.
#[derive(Debug)]
pub struct Trace {
    pub(crate) about: About,
    pub(crate) chips: Vec<TracedChip>,
    by_id: HashMap<u64, u32>,
    pub(crate) sets: Vec<Vec<u32>>,
    by_set: HashMap<Vec<u32>, u32>,
    pub(crate) processes: Vec<Process>,
    texts: Vec<String>,
    by_text: HashMap<String, u32>,
    pub(crate) stacks: Vec<Vec<Arc<SourceLine>>>,
    generators: [AddressGenerator; KINDS.len()],
    live: HashMap<LiveKey, Record>,
    pub(crate) spool: Spool,
    first_time: Option<u64>,
    last_time: u64,
    /// The number of missing events, and the time until which events are missing.
    lost: u64,
    lost_until: u64,
}

impl Trace {
    /// Creates an empty trace.
    pub fn new(about: About, spool: Spool) -> Self {
        Self {
            about,
            chips: Vec::new(),
            by_id: HashMap::new(),
            sets: Vec::new(),
            by_set: HashMap::new(),
            processes: Vec::new(),
            texts: vec![String::new()],
            by_text: HashMap::new(),
            stacks: vec![Vec::new()],
            generators: Default::default(),
            live: HashMap::new(),
            spool,
            first_time: None,
            last_time: 0,
            lost: 0,
            lost_until: 0,
        }
    }

    /// Sets how the events were collected.
    pub fn set_note(&mut self, note: &'static str) {
        self.about.note = Some(note);
    }

    /// Adds a process.
    pub fn process(&mut self, pid: u32, name: &str) -> Owner {
        self.processes.push(Process { pid, name: name.to_owned(), has_ended: false });
        Owner(number(self.processes.len() - 1))
    }

    /// Adds a kind of memory on some chips, if it is drawn. `banks`: their number, the first address of a bank and its bytes.
    pub fn memory(&mut self, chips: &[Chip], kind: BufferKind, banks: Option<(u32, u64, u64)>) -> Option<DrawnMemory> {
        let BufferKind::Of(kind) = kind else { return None };
        let kind = u8::try_from(KINDS.iter().position(|known| *known == kind)?).ok()?;
        if chips.is_empty() {
            return None;
        }
        let chips = self.set(chips);
        let memory = DrawnMemory { chips, kind, banks: banks.map_or(0, |(count, ..)| count) };
        if let Some((count, base, bytes)) = banks {
            let start = drawn_at(kind, base.saturating_mul(count.into()));
            self.cover(memory, start, bytes.saturating_mul(count.into()));
        }
        Some(memory)
    }

    fn set(&mut self, chips: &[Chip]) -> u32 {
        let mut set: Vec<u32> = Vec::with_capacity(chips.len());
        for chip in chips {
            let next = number(self.chips.len());
            let index = *self.by_id.entry(chip.id).or_insert(next);
            if index == next {
                self.chips.push(TracedChip { chip: chip.clone(), ranges: [None; KINDS.len()], user: None });
            }
            if !set.contains(&index) {
                set.push(index);
            }
        }
        if let Some(known) = self.by_set.get(&set) {
            return *known;
        }
        self.sets.push(set.clone());
        *self.by_set.entry(set).or_insert(number(self.sets.len() - 1))
    }

    /// Extends the range of a kind so that it includes these addresses. A viewer fails if the address of an event is outside of all ranges.
    fn cover(&mut self, memory: DrawnMemory, start: u64, bytes: u64) {
        let end = start.saturating_add(bytes);
        for chip in self.sets.get(memory.chips as usize).into_iter().flatten() {
            let range = self.chips.get_mut(*chip as usize).and_then(|chip| chip.ranges.get_mut(usize::from(memory.kind)));
            if let Some(range) = range {
                *range = Some(range.map_or((start, end), |(first, last)| (first.min(start), last.max(end))));
            }
        }
    }

    /// Adds a stack, innermost frame first. Returns its number.
    pub fn stack(&mut self, frames: &[Arc<SourceLine>]) -> u32 {
        if frames.is_empty() || self.stacks.len() >= STACKS_MAX {
            return 0;
        }
        self.stacks.push(frames.to_vec());
        number(self.stacks.len() - 1)
    }

    fn text(&mut self, text: Option<&str>) -> u32 {
        let Some(text) = text.filter(|text| !text.is_empty()) else { return 0 };
        if let Some(known) = self.by_text.get(text) {
            return *known;
        }
        if self.texts.len() >= TEXTS_MAX {
            return 0;
        }
        self.texts.push(text.to_owned());
        *self.by_text.entry(text.to_owned()).or_insert(number(self.texts.len() - 1))
    }

    /// Records a new buffer.
    pub fn alloc(&mut self, time: u64, owner: Owner, memory: DrawnMemory, buffer: &Buffer<'_>) -> io::Result<()> {
        self.release_ended(time, owner, memory)?;
        let key = key_of(owner, memory, buffer.address);
        if self.live.contains_key(&key) {
            // The free of the previous buffer was lost.
            self.free(time, owner, memory, buffer)?;
        }
        let record = self.record(Action::Alloc, time, owner, memory, buffer);
        self.live.insert(key, record);
        self.push(record)
    }

    /// Records that a buffer was freed. An unknown buffer was allocated before the trace.
    pub fn free(&mut self, time: u64, owner: Owner, memory: DrawnMemory, buffer: &Buffer<'_>) -> io::Result<()> {
        let record = match self.live.remove(&key_of(owner, memory, buffer.address)) {
            Some(record) => record,
            None => self.record(Action::Free, time, owner, memory, buffer),
        };
        self.push_free(time, record)
    }

    fn push_free(&mut self, time: u64, record: Record) -> io::Result<()> {
        if let Some(generator) = self.generators.get_mut(usize::from(record.kind)) {
            generator.free(record.address, record.size);
        }
        self.push(Record { action: Action::Free, time, ..record })
    }

    /// Records that all buffers of a process in one memory were freed.
    pub fn free_all(&mut self, time: u64, owner: Owner, memory: DrawnMemory) -> io::Result<()> {
        self.free_where(time, |key| (key.owner, key.chips, key.kind) == (owner.0, memory.chips, memory.kind))
    }

    fn free_where(&mut self, time: u64, is_meant: impl Fn(&LiveKey) -> bool) -> io::Result<()> {
        let mut gone: Vec<LiveKey> = self.live.keys().filter(|key| is_meant(key)).copied().collect();
        gone.sort_unstable();
        for key in gone {
            if let Some(record) = self.live.remove(&key) {
                self.push_free(time, record)?;
            }
        }
        Ok(())
    }

    /// Records a refused request. `free` is the largest free block of a bank.
    pub fn refused(
        &mut self,
        time: u64,
        owner: Owner,
        memory: DrawnMemory,
        buffer: &Buffer<'_>,
        free: u64,
        is_clash: bool,
    ) -> io::Result<()> {
        let action = if is_clash { Action::Clash } else { Action::OutOfMemory };
        let (tag, operation) = (self.text(buffer.tag), self.text(buffer.operation));
        let banks = u64::from(memory.banks.max(1));
        let size = if buffer.per_bank > 0 { buffer.per_bank.saturating_mul(banks) } else { buffer.size };
        let (requested, free) = (buffer.size, free.saturating_mul(banks));
        let (kind, chips, stack) = (memory.kind, memory.chips, buffer.stack);
        self.push(Record { kind, size, requested, free, chips, stack, tag, operation, ..Record::new(action, time, owner) })
    }

    /// Records a call of `ttmon.mark()`.
    pub fn mark(&mut self, time: u64, owner: Owner) -> io::Result<()> {
        self.push(Record::new(Action::Mark, time, owner))
    }

    /// Records that events of a process until `time` are missing.
    pub fn record_loss(&mut self, count: u64, time: u64) {
        self.lost = self.lost.saturating_add(count);
        self.lost_until = self.lost_until.max(time);
    }

    /// Records that a process has ended. Its buffers stay until another process uses their chips.
    pub fn end(&mut self, owner: Owner) {
        if let Some(process) = self.processes.get_mut(owner.0 as usize) {
            process.has_ended = true;
        }
    }

    /// Replaces the live buffers of a process by those that its ledger lists.
    pub fn reconcile<'a>(&mut self, owner: Owner, time: u64, listed: impl Iterator<Item = (u64, DrawnMemory, Buffer<'a>)>) {
        let mut before: HashMap<LiveKey, Record> = HashMap::new();
        self.live.retain(|key, record| {
            let is_other = key.owner != owner.0;
            if !is_other {
                before.insert(*key, *record);
            }
            is_other
        });
        for (allocated, memory, buffer) in listed {
            let key = key_of(owner, memory, buffer.address);
            let record = before.get(&key).copied().unwrap_or_else(|| self.record(Action::Alloc, allocated, owner, memory, &buffer));
            self.live.insert(key, record);
        }
        self.last_time = self.last_time.max(time);
    }

    /// Frees the buffers that an ended process left on these chips, when another process uses the chips.
    fn release_ended(&mut self, time: u64, owner: Owner, memory: DrawnMemory) -> io::Result<()> {
        for index in self.sets[memory.chips as usize].clone() {
            let Some(chip) = self.chips.get_mut(index as usize) else { continue };
            let Some(before) = chip.user.replace(owner.0).filter(|before| *before != owner.0) else { continue };
            if self.processes.get(before as usize).is_some_and(|process| process.has_ended) {
                self.free_where(time, |key| key.owner == before)?;
            }
        }
        Ok(())
    }

    fn record(&mut self, action: Action, time: u64, owner: Owner, memory: DrawnMemory, buffer: &Buffer<'_>) -> Record {
        let (tag, operation) = (self.text(buffer.tag), self.text(buffer.operation));
        let banks = u64::from(memory.banks);
        let size = if banks > 0 && buffer.per_bank > 0 { buffer.per_bank.saturating_mul(banks) } else { buffer.size }.max(1);
        let address = if banks > 0 {
            drawn_at(memory.kind, buffer.address.saturating_mul(banks))
        } else {
            self.generators.get_mut(usize::from(memory.kind)).map_or(0, |generator| generator.next_address(memory.kind, size))
        };
        self.cover(memory, address, size);
        let (kind, chips, stack) = (memory.kind, memory.chips, buffer.stack);
        let requested = buffer.size.min(size);
        Record { kind, address, size, requested, chips, stack, tag, operation, ..Record::new(action, time, owner) }
    }

    fn push(&mut self, record: Record) -> io::Result<()> {
        self.first_time.get_or_insert(record.time);
        self.last_time = self.last_time.max(record.time);
        self.spool.push(record)
    }

    /// Returns the live buffers at the end on a chip, by address.
    pub(crate) fn live_on(&self, chip: u32) -> BTreeMap<u64, Record> {
        let is_there = |record: &&Record| self.is_on(record, chip);
        self.live.values().filter(is_there).map(|record| (record.address, *record)).collect()
    }

    /// Returns a text by its number in a record.
    pub(crate) fn text_of(&self, number: u32) -> Option<&str> {
        self.texts.get(number as usize).map(String::as_str).filter(|text| !text.is_empty())
    }

    pub(crate) fn is_on(&self, record: &Record, chip: u32) -> bool {
        self.sets.get(record.chips as usize).is_some_and(|set| set.contains(&chip))
    }

    /// Returns start and end of the trace, in nanoseconds since 1970.
    pub(crate) fn span(&self) -> (u64, u64) {
        (self.first_time.unwrap_or(self.last_time), self.last_time)
    }

    /// Returns the number of missing events.
    pub fn lost(&self) -> u64 {
        self.lost.saturating_add(self.spool.dropped())
    }

    /// Returns the time since which the trace is complete, in nanoseconds since 1970. Returns `None` if it is complete from the start.
    pub fn complete_since(&self) -> Option<u64> {
        let mut first = None;
        if self.spool.dropped() > 0 {
            let stop = |record: &Record| {
                first = Some(record.time);
                Err(io::ErrorKind::Interrupted.into())
            };
            // `stop` returns an error after the first record. If the file cannot be read, the time is that of the lost events.
            let _ = self.spool.each(stop);
        }
        (self.lost() > 0).then(|| self.lost_until.max(first.unwrap_or(0)))
    }

    /// Returns whether the trace is empty.
    pub fn is_empty(&self) -> bool {
        self.spool.is_empty() && self.live.is_empty()
    }
}

fn key_of(owner: Owner, memory: DrawnMemory, address: u64) -> LiveKey {
    LiveKey { owner: owner.0, chips: memory.chips, kind: memory.kind, address }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

pub(crate) fn kind_name(kind: u8) -> &'static str {
    KINDS.get(usize::from(kind)).map_or("other", |kind| kind.name())
}
