//! Bounded reads. All access to a region's bytes goes through this module.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::ReadError;
use ttmon_ledger::layout::{Table, header};

/// Maximum bytes per read. Larger reads were no faster in measurements.
const CHUNK_BYTES: u64 = 256 * 1024;

/// A source of a ledger's bytes.
pub trait ReadAt: Send + Sync {
    /// Fills `buffer` from `offset` on, or fails with `UnexpectedEof` if the bytes end before.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

impl ReadAt for File {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buffer, offset)
    }
}

/// A region's bytes, from its own offset 0 to its length.
pub(super) struct Source {
    bytes: Box<dyn ReadAt>,
    base: u64,
    length: u64,
}

impl Source {
    pub(super) fn new(bytes: Box<dyn ReadAt>, base: u64, length: u64) -> Self {
        Self { bytes, base, length }
    }

    /// Number of bytes when the source was opened.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> Result<(), ReadError> {
        let end = offset.checked_add(buffer.len() as u64).ok_or(ReadError::TooShort)?;
        let at = self.base.checked_add(offset).ok_or(ReadError::TooShort)?;
        // `pread` has a signed offset.
        if end > self.length || self.base.checked_add(end).is_none_or(|end| i64::try_from(end).is_err()) {
            return Err(ReadError::TooShort);
        }
        self.bytes.read_exact_at(buffer, at).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => ReadError::TooShort,
            kind => ReadError::Io(kind),
        })
    }

    /// The sequence word: twice the number of completed events, odd during an event.
    pub(super) fn seq(&self) -> Result<u64, ReadError> {
        let mut word = [0; 8];
        self.read(&mut word, header::SEQ)?;
        Ok(u64::from_le_bytes(word))
    }

    /// Copies the first `count` records of a checked small table.
    pub(super) fn records(&self, table: Table, count: u32, into: &mut Vec<u8>) -> Result<(), ReadError> {
        into.resize(position(u64::from(count.min(table.records)) * u64::from(table.stride)), 0);
        if into.is_empty() { Ok(()) } else { self.read(into, table.offset) }
    }

    /// Decodes the first `count` records of a checked table.
    pub(super) fn decoded<T>(&self, table: Table, count: u32, decode: impl Fn(&[u8]) -> Option<T>) -> Result<Vec<T>, ReadError> {
        let mut found = Vec::new();
        self.each(table, 0, count, |_, record| {
            found.extend(decode(record));
            Ok(())
        })?;
        Ok(found)
    }

    /// Passes the records `first .. first + count` of a checked table to `each` with their index, until the first error.
    pub(super) fn each(
        &self,
        table: Table,
        first: u32,
        count: u32,
        mut each: impl FnMut(u32, &[u8]) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let stride = u64::from(table.stride);
        let end = first.saturating_add(count).min(table.records);
        let at_once = u32::try_from(CHUNK_BYTES / stride.max(1)).unwrap_or(1).max(1);
        let mut chunk = Vec::new();
        let mut next = first;
        while next < end {
            let records = at_once.min(end - next);
            chunk.resize(position(u64::from(records) * stride), 0);
            self.read(&mut chunk, table.offset + u64::from(next) * stride)?;
            for (index, record) in (next..).zip(chunk.chunks_exact(table.stride as usize)) {
                each(index, record)?;
            }
            next += records;
        }
        Ok(())
    }
}

/// An offset within data in memory.
#[allow(clippy::cast_possible_truncation, reason = "offsets in records and chunks, which are below 2^20")]
pub(super) const fn position(offset: u64) -> usize {
    offset as usize
}

/// Defines a function that reads a number from a record. It returns 0 beyond the end, which cannot happen because strides are checked.
macro_rules! number {
    ($name:ident, $type:ty) => {
        #[inline(always)]
        pub(super) fn $name(record: &[u8], offset: u64) -> $type {
            record.get(position(offset)..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| <$type>::from_le_bytes(*bytes))
        }
    };
}
number!(u8_at, u8);
number!(u16_at, u16);
number!(u32_at, u32);
number!(u64_at, u64);

/// Reads a text field up to its NUL, with invalid UTF-8 replaced. It is empty beyond the end, which cannot happen because strides are
/// checked.
pub(super) fn text_at(record: &[u8], offset: u64, length: usize) -> String {
    let field = record.get(position(offset)..).unwrap_or_default();
    let field = &field[..length.min(field.len())];
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}
