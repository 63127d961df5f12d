//! The socket on which a program of TT-Metal serves a simulated chip.
//!
//! A frame is its length in bytes (u32), then a FlatBuffers table. The schema is `device/simulation/simulation_server_protocol.fbs` in
//! tt-umd. Only read requests are sent.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::rc::Rc;

use ttmon_deep::contents::Run;
use ttmon_deep::{Tile, Transport, Window};
use ttmon_model::{Missing, Reading};

/// Maximum length of an answer. An answer has only one word.
const FRAME_BYTES_MAX: usize = 4096;
const WORD_BYTES: u32 = 4;

/// A simulated chip. A connection is opened for each sample, like a device is opened for each sample.
#[derive(Debug)]
pub(crate) struct Simulator {
    pub(crate) socket: PathBuf,
    /// Words that are answered locally, because the simulated chip does not have them.
    pub(crate) stand_ins: Vec<Run>,
    /// Number of words that were read.
    pub(crate) words: Rc<Cell<u64>>,
}

/// A connection that is configured for a tile.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: UnixStream,
    stand_ins: Vec<Run>,
    words: Rc<Cell<u64>>,
    target: (Tile, u64),
}

impl Transport for Simulator {
    type Open = Connection;

    fn open(&mut self) -> Reading<Connection> {
        let stream = UnixStream::connect(&self.socket).map_err(|_| Missing::Gone)?;
        let (stand_ins, words) = (self.stand_ins.clone(), Rc::clone(&self.words));
        Ok(Connection { stream, stand_ins, words, target: (Tile { x: 0, y: 0 }, 0) })
    }
}

impl Window for Connection {
    fn configure(&mut self, tile: Tile, address: u64) -> Reading<()> {
        self.target = (tile, address);
        Ok(())
    }

    fn read(&mut self, offset: usize, words: &mut [u32]) -> Reading<()> {
        let (tile, address) = (self.target.0, self.target.1 + offset as u64);
        self.words.set(self.words.get() + words.len() as u64);
        if let Some(known) = self.stand_in(tile, address, words.len()) {
            words.copy_from_slice(known);
            return Ok(());
        }
        // One word is read at a time, like through a window over PCIe. The simulator refuses longer reads of registers.
        for (at, word) in (address..).step_by(4).zip(words) {
            *word = self.ask(tile, at).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Missing::Gone,
                _ => Missing::IoError,
            })?;
        }
        Ok(())
    }
}

impl Connection {
    fn stand_in(&self, tile: Tile, address: u64, count: usize) -> Option<&[u32]> {
        self.stand_ins.iter().find_map(|(known, start, words)| {
            let first = usize::try_from(address.checked_sub(*start)? / 4).ok()?;
            words.get(first..first + count).filter(|_| *known == tile)
        })
    }

    fn ask(&mut self, tile: Tile, address: u64) -> io::Result<u32> {
        self.stream.write_all(&request(tile, address, WORD_BYTES))?;
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        if length > FRAME_BYTES_MAX {
            return Err(io::Error::other("the frame is too long"));
        }
        let mut frame = vec![0; length];
        self.stream.read_exact(&mut frame)?;
        match response(&frame) {
            Some((0, [a, b, c, d])) => Ok(u32::from_le_bytes([*a, *b, *c, *d])),
            Some((status, data)) => Err(io::Error::other(format!("status {status}, {} bytes", data.len()))),
            None => Err(io::Error::other("the frame is not a response")),
        }
    }
}

/// Returns a framed read request: command, x, y, address, size. It has no data.
fn request(tile: Tile, address: u64, size: u32) -> Vec<u8> {
    const TABLE_AT: u32 = 24;
    const VTABLE_AT: u32 = 4;
    // The sizes of vtable and table, then the offset of each field in the table, or 0 if there is none.
    const VTABLE: [u16; 8] = [16, 28, 4, 16, 20, 8, 24, 0];
    let mut bytes = Vec::new();
    bytes.extend(TABLE_AT.to_le_bytes());
    bytes.extend(VTABLE.iter().flat_map(|entry| entry.to_le_bytes()));
    // The table begins at a multiple of 8, because it contains the address.
    bytes.extend([0; 4]);
    bytes.extend((TABLE_AT - VTABLE_AT).to_le_bytes());
    // The read command is 0.
    bytes.extend([0; 4]);
    bytes.extend(address.to_le_bytes());
    for word in [u32::from(tile.x), u32::from(tile.y), size] {
        bytes.extend(word.to_le_bytes());
    }
    let length = u32::try_from(bytes.len()).unwrap_or_default();
    [&length.to_le_bytes()[..], &bytes].concat()
}

/// Returns the status and the data of a response.
fn response(frame: &[u8]) -> Option<(i32, &[u8])> {
    let word = |at: usize| Some(u32::from_le_bytes(frame.get(at..at.checked_add(4)?)?.try_into().ok()?));
    let half = |at: usize| Some(u16::from_le_bytes(frame.get(at..at.checked_add(2)?)?.try_into().ok()?));
    let table = usize::try_from(word(0)?).ok()?;
    let back = i64::from(word(table)?.cast_signed());
    let vtable = usize::try_from(i64::try_from(table).ok()? - back).ok()?;
    let field = |index: usize| {
        let entry = 4 + 2 * index;
        let is_there = entry + 2 <= usize::from(half(vtable)?);
        let at = if is_there { half(vtable + entry)? } else { 0 };
        Some((at > 0).then(|| table + usize::from(at)))
    };
    let status = match field(0)? {
        Some(at) => word(at)?.cast_signed(),
        None => 0,
    };
    let Some(at) = field(1)? else { return Some((status, &[])) };
    let vector = at.checked_add(usize::try_from(word(at)?).ok()?)?;
    let length = usize::try_from(word(vector)?).ok()?;
    Some((status, frame.get(vector + 4..vector.checked_add(4)?.checked_add(length)?)?))
}
