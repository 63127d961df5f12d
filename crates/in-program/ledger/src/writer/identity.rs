//! The identity of this process, found without malloc. Also detects another copy of the writer in the process.

use std::ffi::{CStr, c_void};
use std::process;

use crate::layout::header;

use super::memory::{low, pair, position};

/// The name of the executable file, empty if the kernel does not tell it.
pub(super) fn program(path: &mut [u8; 256]) -> &[u8] {
    // SAFETY: the kernel writes at most this many bytes into an array of ours.
    let length = unsafe { libc::readlink(c"/proc/self/exe".as_ptr(), path.as_mut_ptr().cast(), path.len()) };
    let path = path.get(..usize::try_from(length).unwrap_or(0)).unwrap_or_default();
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// The inode of this process's pid namespace.
pub(super) fn pid_namespace() -> u64 {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: a C string, and a local struct that is read only if the kernel filled it.
    unsafe { if libc::stat(c"/proc/self/ns/pid".as_ptr(), stat.as_mut_ptr()) == 0 { stat.assume_init().st_ino } else { 0 } }
}

/// This thread's errno.
pub(super) fn errno() -> libc::c_int {
    // SAFETY: the C library's cell for this thread, valid as long as the thread.
    unsafe { *libc::__errno_location() }
}

/// Runs `work` and restores the program's errno.
pub(super) fn keeping_errno<T>(work: impl FnOnce() -> T) -> T {
    let before = errno();
    let result = work();
    // SAFETY: as in `errno`.
    unsafe { *libc::__errno_location() = before };
    result
}

/// This process and thread as one number, which is never small.
pub(super) fn caller() -> u64 {
    // SAFETY: gettid has no preconditions.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    pair(low(thread.unsigned_abs()), process::id())
}

/// Reads a file of /proc in pieces, with a buffer on the stack. `each` returns whether to continue.
fn read_pieces(path: &CStr, mut each: impl FnMut(&[u8]) -> bool) {
    let mut buffer = [0_u8; 2048];
    // SAFETY: a C string; a local buffer with its length; the descriptor is opened and closed here.
    unsafe {
        let descriptor = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if descriptor < 0 {
            return;
        }
        loop {
            let length = libc::read(descriptor, buffer.as_mut_ptr().cast(), buffer.len());
            match usize::try_from(length) {
                Ok(length) if length > 0 => {
                    // The kernel does not read more than the buffer's length. The user's program must not panic anyway.
                    if !each(buffer.get(..length).unwrap_or_default()) {
                        break;
                    }
                }
                _ => break,
            }
        }
        libc::close(descriptor);
    }
}

/// Field 22 of /proc/self/stat, or 0 if it cannot be read.
pub(super) fn start_ticks() -> u64 {
    let mut ticks = 0;
    read_pieces(c"/proc/self/stat", |text| {
        ticks = start_ticks_in(text).unwrap_or(0);
        false
    });
    ticks
}

/// Parses `1 (a ) b) S 0 ...`. The name may contain any byte, so counting starts after its last parenthesis, at field 3.
fn start_ticks_in(stat: &[u8]) -> Option<u64> {
    let behind = stat.iter().rposition(|byte| *byte == b')')?;
    let field = stat.get(behind + 2..)?.split(|byte| *byte == b' ').nth(22 - 3)?;
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// Whether this process already created a ledger, through another copy of this code in another library.
pub(super) fn has_ledger_already() -> bool {
    let (pid, ticks) = (process::id(), start_ticks());
    let mut parser = MapsParser::default();
    let mut found = false;
    read_pieces(c"/proc/self/maps", |piece| {
        for byte in piece {
            if let Some(start) = parser.take(*byte) {
                found |= is_made_by(start, pid, ticks);
            }
        }
        !found
    });
    found
}

/// Whether a ledger is mapped at `start` with this process in its header. An inherited one has the parent.
fn is_made_by(start: usize, pid: u32, ticks: u64) -> bool {
    let mut words = [0_u64; 2];
    let local = libc::iovec { iov_base: words.as_mut_ptr().cast::<c_void>(), iov_len: 16 };
    let remote = libc::iovec { iov_base: std::ptr::without_provenance_mut(start + position(header::PID)), iov_len: 16 };
    // SAFETY: the kernel copies 16 bytes into a local array, or reports that the address is not readable.
    let copied = unsafe { libc::process_vm_readv(pid.cast_signed(), &raw const local, 1, &raw const remote, 1, 0) };
    copied == 16 && low(words[0]) == pid && words[1] == ticks
}

/// Parses /proc/self/maps byte by byte. Finds lines that map the start of a ledger, and returns the address:
/// `7f1e8a000000-7f1e8e491000 rw-s 00000000 00:01 2058   /memfd:ttmon-ledger (deleted)`.
#[derive(Default)]
struct MapsParser {
    start: usize,
    is_start_over: bool,
    /// Number of bytes of NAME that were just matched.
    matched: usize,
    is_ledger: bool,
}

impl MapsParser {
    /// Processes one byte. Returns the address at the end of a ledger's line.
    fn take(&mut self, byte: u8) -> Option<usize> {
        const NAME: &[u8] = b"/memfd:ttmon-ledger";
        if byte == b'\n' {
            let found = self.is_ledger.then_some(self.start);
            *self = Self::default();
            return found;
        }
        if !self.is_start_over {
            match char::from(byte).to_digit(16) {
                Some(digit) => self.start = self.start << 4 | digit as usize,
                None => self.is_start_over = true,
            }
        }
        self.matched = match NAME.get(self.matched) {
            Some(expected) if *expected == byte => self.matched + 1,
            _ => usize::from(byte == b'/'),
        };
        if self.matched == NAME.len() {
            self.is_ledger = true;
            self.matched = 0;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_counted_behind_the_name() {
        let stat = b"7 (a) b ) S 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 8412 1 2";
        assert_eq!(start_ticks_in(stat), Some(8412));
        assert_eq!(start_ticks_in(b"7 (a"), None);
        assert!(start_ticks() > 0);
    }

    #[test]
    fn a_ledger_is_found_among_the_mappings() {
        let maps = b"55d0-55d1 r--p 00000000 fe:00 12  /memfd/bin\n7f1e8a000000-7f1e8e491000 rw-s 00000000 00:01 2058  \
                     /memfd:ttmon-ledger (deleted)\n7f00-7f01 rw-p 00000000 00:00 0 \n";
        let mut parser = MapsParser::default();
        let found: Vec<usize> = maps.iter().filter_map(|byte| parser.take(*byte)).collect();
        assert_eq!(found, [0x7f1e_8a00_0000]);
    }

    #[test]
    fn errno_is_kept() {
        // SAFETY: the errno of this thread.
        unsafe { *libc::__errno_location() = 4711 };
        keeping_errno(|| read_pieces(c"/does/not/exist", |_| true));
        assert_eq!(errno(), 4711);
    }
}
