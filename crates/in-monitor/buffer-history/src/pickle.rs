//! Writes pickles of protocol 2, with the few opcodes that every reader supports.

use std::io::{self, Write};

/// Maximum number of items that are appended at once. The page of memory_viz passes them as arguments of one call.
const BATCH: usize = 1000;

pub(crate) struct Pickle<'w> {
    out: &'w mut dyn Write,
    memo: u32,
    /// The number of items of each open list.
    items: Vec<usize>,
}

/// A value that was written and can be referenced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memo(u32);

impl<'w> Pickle<'w> {
    pub(crate) fn new(out: &'w mut dyn Write) -> io::Result<Self> {
        out.write_all(&[0x80, 2])?;
        Ok(Self { out, memo: 0, items: Vec::new() })
    }

    pub(crate) fn finish(self) -> io::Result<()> {
        self.out.write_all(b".")
    }

    pub(crate) fn number(&mut self, number: u64) -> io::Result<()> {
        match (u8::try_from(number), i32::try_from(number)) {
            (Ok(byte), _) => self.out.write_all(&[b'K', byte]),
            (_, Ok(word)) => {
                self.out.write_all(b"J")?;
                self.out.write_all(&word.to_le_bytes())
            }
            _ => {
                // The number is signed, so a number with its highest bit set needs one more byte.
                let bytes = u128::from(number).to_le_bytes();
                let length = (64 - number.leading_zeros()) / 8 + 1;
                self.out.write_all(&[0x8a, u8::try_from(length).unwrap_or(9)])?;
                self.out.write_all(&bytes[..length as usize])
            }
        }
    }

    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        let length = u32::try_from(text.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        self.out.write_all(b"X")?;
        self.out.write_all(&length.to_le_bytes())?;
        self.out.write_all(text.as_bytes())
    }

    /// Stores the last written value in the memo.
    pub(crate) fn remember(&mut self) -> io::Result<Memo> {
        let memo = Memo(self.memo);
        self.memo_code(b'q', b'r', memo)?;
        self.memo += 1;
        Ok(memo)
    }

    pub(crate) fn repeat(&mut self, memo: Memo) -> io::Result<()> {
        self.memo_code(b'h', b'j', memo)
    }

    /// Writes the opcode with a short number, or the one with a long number.
    fn memo_code(&mut self, short: u8, long: u8, Memo(number): Memo) -> io::Result<()> {
        match u8::try_from(number) {
            Ok(byte) => self.out.write_all(&[short, byte]),
            Err(_) => {
                self.out.write_all(&[long])?;
                self.out.write_all(&number.to_le_bytes())
            }
        }
    }

    /// Starts a dictionary. Keys and values must follow in turn, fewer than a batch.
    pub(crate) fn open_dictionary(&mut self) -> io::Result<()> {
        self.out.write_all(b"}(")
    }

    pub(crate) fn close_dictionary(&mut self) -> io::Result<()> {
        self.out.write_all(b"u")
    }

    /// Starts a list. The caller must call [`Pickle::end_item`] after each item.
    pub(crate) fn open_list(&mut self) -> io::Result<()> {
        self.items.push(0);
        self.out.write_all(b"](")
    }

    /// Counts an item of the innermost list that was written. Ends the batch if it is full.
    pub(crate) fn end_item(&mut self) -> io::Result<()> {
        let count = self.items.last_mut().expect("an item is part of an open list");
        *count += 1;
        if count.is_multiple_of(BATCH) { self.out.write_all(b"e(") } else { Ok(()) }
    }

    pub(crate) fn close_list(&mut self) -> io::Result<()> {
        self.items.pop();
        self.out.write_all(b"e")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_bytes_of_python() {
        for (number, expected) in [
            (0, &b"K\x00"[..]),
            (255, b"K\xff"),
            (256, b"J\x00\x01\x00\x00"),
            (0x7fff_ffff, b"J\xff\xff\xff\x7f"),
            (0x8000_0000, b"\x8a\x05\x00\x00\x00\x80\x00"),
            (1 << 40, b"\x8a\x06\x00\x00\x00\x00\x00\x01"),
            (u64::MAX, b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00"),
        ] {
            let mut bytes = Vec::new();
            Pickle::new(&mut bytes).unwrap().number(number).unwrap();
            assert_eq!(&bytes[2..], expected, "{number}");
        }
    }

    #[test]
    fn a_long_list_is_cut_into_batches() {
        let mut bytes = Vec::new();
        let mut pickle = Pickle::new(&mut bytes).unwrap();
        pickle.open_list().unwrap();
        for _ in 0..2500 {
            pickle.number(7).unwrap();
            pickle.end_item().unwrap();
        }
        pickle.close_list().unwrap();
        pickle.finish().unwrap();
        let batches: Vec<usize> = bytes.split(|byte| *byte == b'e').map(|part| part.iter().filter(|byte| **byte == b'K').count()).collect();
        assert_eq!(batches, [1000, 1000, 500, 0]);
    }
}
