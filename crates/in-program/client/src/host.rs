//! Host memory of this process.

use std::ffi::{c_int, c_long};

/// Resident bytes of this process; 0 if they cannot be read.
///
/// Uses plain system calls, because a thread can be cancelled in functions of the C library.
pub(crate) fn resident_bytes() -> u64 {
    let mut text = [0_u8; 128];
    // SAFETY: the path is NUL-terminated, and the kernel writes at most as many bytes as the array has. The descriptor is used and closed
    // only here.
    let length = unsafe {
        let flags = c_long::from(libc::O_RDONLY | libc::O_CLOEXEC);
        let file = libc::syscall(libc::SYS_openat, c_long::from(libc::AT_FDCWD), c"/proc/self/statm".as_ptr(), flags);
        if file < 0 {
            return 0;
        }
        let length = libc::syscall(libc::SYS_read, file, text.as_mut_ptr(), text.len());
        libc::syscall(libc::SYS_close, file);
        length
    };
    let read = usize::try_from(length).ok().and_then(|length| text.get(..length)).unwrap_or_default();
    pages(read).map_or(0, |pages| pages.saturating_mul(page_bytes()))
}

/// The second number of `statm`.
fn pages(text: &[u8]) -> Option<u64> {
    str::from_utf8(text).ok()?.split(' ').nth(1)?.parse().ok()
}

fn page_bytes() -> u64 {
    const PAGE: c_int = libc::_SC_PAGESIZE;
    // SAFETY: no preconditions.
    u64::try_from(unsafe { libc::sysconf(PAGE) }).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_some_memory() {
        let bytes = resident_bytes();
        assert!((100_000..1 << 40).contains(&bytes), "{bytes}");
        assert_eq!(pages(b"10 4 3 1 0 2 0\n"), Some(4));
        assert_eq!((pages(b""), pages(b"10"), pages(b"10 x"), pages(&[0xFF])), (None, None, None, None));
    }
}
