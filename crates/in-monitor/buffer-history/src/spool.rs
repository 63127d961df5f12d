//! Stores the events of a trace: the newest [`RECORDS_MAX`], in memory first, then in a file that is used as a ring.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::trace::Owner;

/// Creates the file of a spool. It is called when the file is needed.
pub type SpoolFile = Box<dyn FnMut() -> io::Result<File>>;

/// Maximum number of records in memory. The event ring of a process has fewer.
const MEMORY_MAX: usize = 128 * 1024;
/// Maximum number of records in the file, 1 GiB. A viewer cannot open more.
const RECORDS_MAX: u64 = 16 * 1024 * 1024;
/// Number of records that are read at once.
const CHUNK: usize = 4096;
const RECORD_BYTES: usize = 64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Action {
    Alloc = 1,
    Free = 2,
    OutOfMemory = 3,
    Clash = 4,
    #[default]
    Mark = 5,
}

impl Action {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Alloc, Self::Free, Self::OutOfMemory, Self::Clash, Self::Mark].into_iter().find(|action| *action as u8 == byte)
    }
}

/// One event. The numbers of texts, stacks, chips and owners are indices in the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) action: Action,
    /// Index in [`crate::trace::KINDS`].
    pub(crate) kind: u8,
    /// Time in nanoseconds since 1970.
    pub(crate) time: u64,
    /// The address at which the buffer is drawn.
    pub(crate) address: u64,
    /// Allocated bytes.
    pub(crate) size: u64,
    /// Requested bytes.
    pub(crate) requested: u64,
    /// For a refused request: the largest free block, times the number of banks.
    pub(crate) free: u64,
    pub(crate) chips: u32,
    pub(crate) owner: u32,
    pub(crate) stack: u32,
    pub(crate) tag: u32,
    pub(crate) operation: u32,
}

impl Record {
    /// Returns an event that concerns no memory and no chip.
    pub(crate) fn new(action: Action, time: u64, owner: Owner) -> Self {
        Self { action, time, owner: owner.0, chips: u32::MAX, ..Self::default() }
    }

    fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[0] = self.action as u8;
        bytes[1] = self.kind;
        let words = [self.chips, self.owner, self.stack, self.tag, self.operation];
        for (place, word) in bytes[4..24].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let longs = [self.time, self.address, self.size, self.requested, self.free];
        for (place, long) in bytes[24..64].chunks_exact_mut(8).zip(longs) {
            place.copy_from_slice(&long.to_le_bytes());
        }
        bytes
    }

    /// Decodes a record. Returns `None` if the bytes are not a record, because the disk lost data.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let long = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        Some(Self {
            action: Action::from_byte(*bytes.first()?)?,
            kind: *bytes.get(1)?,
            chips: word(4)?,
            owner: word(8)?,
            stack: word(12)?,
            tag: word(16)?,
            operation: word(20)?,
            time: long(24)?,
            address: long(32)?,
            size: long(40)?,
            requested: long(48)?,
            free: long(56)?,
        })
    }
}

/// The events of a trace, oldest first.
pub struct Spool {
    create: SpoolFile,
    file: Option<File>,
    /// Number of records that were written to the file so far.
    written: u64,
    memory: Vec<Record>,
    memory_max: usize,
    records_max: u64,
}

impl std::fmt::Debug for Spool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spool").field("written", &self.written).field("memory", &self.memory.len()).finish_non_exhaustive()
    }
}

impl Spool {
    /// Creates an empty spool. `create` is called once, if the events exceed the memory limit of the spool.
    pub fn new(create: SpoolFile) -> Self {
        Self { create, file: None, written: 0, memory: Vec::new(), memory_max: MEMORY_MAX, records_max: RECORDS_MAX }
    }

    pub(crate) fn push(&mut self, record: Record) -> io::Result<()> {
        if self.memory.len() >= self.memory_max {
            self.flush()?;
        }
        self.memory.push(record);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert((self.create)()?),
        };
        for chunk in self.memory.chunks(CHUNK) {
            // A chunk may cross the end of the ring.
            let start = self.written % self.records_max;
            let fits = usize::try_from(self.records_max - start).unwrap_or(usize::MAX).min(chunk.len());
            let (before, after) = chunk.split_at(fits);
            for (part, at) in [(before, start), (after, 0)] {
                let bytes: Vec<u8> = part.iter().flat_map(Record::encode).collect();
                file.write_all_at(&bytes, at * RECORD_BYTES as u64)?;
            }
            self.written += chunk.len() as u64;
        }
        self.memory.clear();
        Ok(())
    }

    /// Returns how many of the oldest records were overwritten.
    pub(crate) fn dropped(&self) -> u64 {
        self.written.saturating_sub(self.records_max)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.written == 0 && self.memory.is_empty()
    }

    /// Calls `visit` for each record, oldest first.
    pub(crate) fn each(&self, mut visit: impl FnMut(&Record) -> io::Result<()>) -> io::Result<()> {
        if let Some(file) = &self.file {
            let mut bytes = vec![0; CHUNK * RECORD_BYTES];
            let mut next = self.dropped();
            while next < self.written {
                let start = next % self.records_max;
                let count = (self.written - next).min(self.records_max - start).min(CHUNK as u64);
                let part = &mut bytes[..usize::try_from(count).map_err(io::Error::other)? * RECORD_BYTES];
                file.read_exact_at(part, start * RECORD_BYTES as u64)?;
                for record in part.chunks_exact(RECORD_BYTES).filter_map(Record::decode) {
                    visit(&record)?;
                }
                next += count;
            }
        }
        self.memory.iter().try_for_each(visit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64) -> Record {
        Record {
            action: Action::Free,
            kind: 2,
            time: number,
            address: u64::MAX - number,
            size: 1,
            requested: 2,
            free: 3,
            chips: 4,
            owner: 5,
            stack: 6,
            tag: 7,
            operation: u32::MAX,
        }
    }

    fn times(spool: &Spool) -> Vec<u64> {
        let mut times = Vec::new();
        spool
            .each(|found| {
                assert_eq!(*found, record(found.time));
                times.push(found.time);
                Ok(())
            })
            .unwrap();
        times
    }

    #[test]
    fn the_newest_records_come_back_in_order() {
        for count in [0_u64, 1, 4, 5, 9, 10, 11, 23, 100] {
            let mut spool = Spool { memory_max: 4, records_max: 10, ..Spool::new(Box::new(tempfile::tempfile)) };
            (0..count).for_each(|number| spool.push(record(number)).unwrap());
            let dropped = spool.dropped();
            assert_eq!(times(&spool), (dropped..count).collect::<Vec<_>>(), "{count}");
            assert!(count - dropped >= count.min(10) && dropped <= count.saturating_sub(10), "{count}: {dropped}");
        }
    }

    #[test]
    fn a_full_disk_is_an_error_and_the_memory_stays() {
        let full = || std::fs::OpenOptions::new().read(true).write(true).open("/dev/full");
        let mut spool = Spool { memory_max: 2, records_max: 10, ..Spool::new(Box::new(full)) };
        spool.push(record(0)).unwrap();
        spool.push(record(1)).unwrap();
        assert_eq!(spool.push(record(2)).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(spool.memory.len(), 2);
    }
}
