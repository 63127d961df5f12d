//! Messages between a process and its reading processes: a length, and numbers and texts behind it.

use std::io::{self, Read, Write};

const LENGTH_BYTES: usize = 4;
const BYTES_USUAL: usize = 16 * 1024;

/// A message to be written, or the memory for one that is read. It is reused.
#[derive(Debug, Default)]
pub struct FrameBuffer(Vec<u8>);

impl FrameBuffer {
    /// Begins a message with space for its length.
    pub fn begin(&mut self) {
        self.0.clear();
        self.0.extend([0; LENGTH_BYTES]);
    }

    /// Adds a byte.
    pub fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    /// Adds a number.
    pub fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    /// Adds the length of something that follows.
    pub fn length(&mut self, length: usize) {
        self.0.extend(u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    }

    /// Adds bytes after their length.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.0.extend(bytes);
    }

    /// Returns what was added since [`FrameBuffer::begin`].
    pub fn body(&self) -> FrameInput<'_> {
        FrameInput(self.0.get(LENGTH_BYTES..).unwrap_or_default())
    }

    /// Writes the message in one piece, because each write wakes the other side.
    pub fn write_to(&mut self, stream: &mut impl Write) -> io::Result<()> {
        let length = u32::try_from(self.0.len() - LENGTH_BYTES).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.0[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
        stream.write_all(&self.0)
    }

    /// Reads a message of at most `bytes_max` bytes. At most one is in flight, so all bytes belong to it.
    pub fn read_from(&mut self, stream: &mut impl Read, bytes_max: usize) -> io::Result<FrameInput<'_>> {
        let Self(bytes) = self;
        bytes.resize(bytes.len().max(BYTES_USUAL), 0);
        let mut filled = 0;
        let mut end = LENGTH_BYTES;
        while filled < end {
            match stream.read(&mut bytes[filled..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => filled += count,
                // The kernel never restarts a read of a socket with a timeout, even with SA_RESTART.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            if let Some(length) = bytes[..filled].first_chunk().map(|length| u32::from_le_bytes(*length) as usize) {
                if length > bytes_max {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                end = LENGTH_BYTES + length;
                bytes.resize(bytes.len().max(end), 0);
            }
        }
        if filled == end { Ok(FrameInput(&bytes[LENGTH_BYTES..end])) } else { Err(io::ErrorKind::InvalidData.into()) }
    }
}

/// The bytes of a message that remain to be decoded. Every length is checked against them.
#[derive(Clone, Copy, Debug)]
pub struct FrameInput<'a>(pub &'a [u8]);

impl<'a> FrameInput<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// Reads a byte.
    pub fn byte(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    /// Reads a number.
    pub fn number(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a length.
    pub fn length(&mut self) -> Option<usize> {
        self.array().map(|bytes| u32::from_le_bytes(bytes) as usize)
    }

    /// Reads bytes after their length.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }
}
