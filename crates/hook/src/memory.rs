//! Reads memory that may be unmapped, to check whether an object has a known layout. The kernel copies it and reports an error where a
//! plain read would crash the program.

use std::ffi::c_void;

use crate::edge::{errno, set_errno};

/// Reads `N` words at an address; `None` if not all of them are readable.
pub(crate) fn words<const N: usize>(at: usize) -> Option<[usize; N]> {
    let mut words = [0; N];
    let bytes = size_of_val(&words);
    let here = libc::iovec { iov_base: words.as_mut_ptr().cast::<c_void>(), iov_len: bytes };
    let there = libc::iovec { iov_base: at as *mut c_void, iov_len: bytes };
    let before = errno();
    // SAFETY: the kernel writes at most the array's size into the array, for which any bytes are valid. It checks the other address itself.
    // A process may always read its own memory this way.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &raw const here, 1, &raw const there, 1, 0) };
    set_errno(before);
    (usize::try_from(read) == Ok(bytes)).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_not_read() {
        let known = [1_usize, 2, 3];
        assert_eq!(words::<3>(known.as_ptr() as usize), Some(known));
        assert_eq!(words::<0>(0), Some([]));
        set_errno(77);
        for nowhere in [0, 8, 0x1000, usize::MAX - 7, 0x8000_0000_0000_0000] {
            assert_eq!(words::<1>(nowhere), None, "{nowhere:#x}");
        }
        assert_eq!(errno(), 77);
    }
}
