//! Reads memory that may be unmapped. The kernel copies it and reports an error where a plain read would crash the program.

use std::ffi::c_void;

/// Copies memory of this process from an address, completely or not at all. Preserves `errno`.
pub fn read(at: usize, into: &mut [u8]) -> Option<()> {
    let here = libc::iovec { iov_base: into.as_mut_ptr().cast::<c_void>(), iov_len: into.len() };
    let there = libc::iovec { iov_base: at as *mut c_void, iov_len: into.len() };
    // SAFETY: the kernel writes at most the slice's length into the slice, and checks the other address itself. The cell of errno belongs
    // to this thread.
    let read = unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let read = libc::process_vm_readv(libc::getpid(), &raw const here, 1, &raw const there, 1, 0);
        *errno = before;
        read
    };
    (usize::try_from(read) == Ok(into.len())).then_some(())
}

pub(crate) fn word(at: usize) -> Option<usize> {
    let mut bytes = [0; size_of::<usize>()];
    read(at, &mut bytes)?;
    Some(usize::from_ne_bytes(bytes))
}

pub(crate) fn half(at: usize) -> Option<u32> {
    let mut bytes = [0; 4];
    read(at, &mut bytes)?;
    Some(u32::from_ne_bytes(bytes))
}

/// An iterator over bytes from an address on, read in pieces. It ends early if the memory does.
pub(crate) struct Bytes {
    at: usize,
    left: usize,
    piece: [u8; 256],
    next: usize,
    end: usize,
}

impl Bytes {
    pub(crate) fn new(at: usize, count: usize) -> Self {
        Self { at, left: count, piece: [0; 256], next: 0, end: 0 }
    }
}

impl Iterator for Bytes {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        if self.next == self.end {
            let count = self.left.min(self.piece.len());
            if count == 0 {
                return None;
            }
            read(self.at, self.piece.get_mut(..count)?)?;
            (self.at, self.left) = (self.at.checked_add(count)?, self.left - count);
            (self.next, self.end) = (0, count);
        }
        let byte = self.piece.get(self.next).copied();
        self.next += 1;
        byte
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmapped_memory_is_not_read() {
        let known: Vec<u8> = (0..=255).cycle().take(700).collect();
        let at = known.as_ptr() as usize;
        assert_eq!(Bytes::new(at, 700).collect::<Vec<_>>(), known);
        assert_eq!(word(at), Some(usize::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7])));
        for nowhere in [0, 8, 0x1000, usize::MAX - 7, 0x8000_0000_0000_0000] {
            assert_eq!((word(nowhere), Bytes::new(nowhere, 9).next()), (None, None), "{nowhere:#x}");
        }
    }
}
