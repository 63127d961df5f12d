//! Another copy of a writer in this process that exports nothing: a client linked into the program, say. Its ledger is
//! found among our own mappings, and then this copy stays off.

use std::ffi::{CStr, c_int, c_void};

use ttmon_ledger::layout::{MAGIC, header};

/// Longer than any line of maps: a path of 4,096 bytes and the columns before it.
const CHUNK_BYTES: usize = 8192;
const MARK: &[u8] = b"/memfd:ttmon-ledger";

/// Whether this process already has a ledger; one that its parent had before a fork is not its own.
pub(crate) fn writes_a_ledger() -> bool {
    let (Some(maps), Some(memory)) = (Descriptor::open(c"/proc/self/maps"), Descriptor::open(c"/proc/self/mem")) else {
        return false;
    };
    let mut chunk = [0; CHUNK_BYTES];
    let mut filled = 0;
    loop {
        let Some(free) = chunk.get_mut(filled..) else { return false };
        let read = maps.read(free);
        filled += read;
        let known = chunk.get(..filled).unwrap_or_default();
        let whole = known.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        let lines = known.get(..whole).unwrap_or_default().split(|byte| *byte == b'\n');
        if lines.filter_map(ledger_start).any(|start| is_of_this_process(&memory, start)) {
            return true;
        }
        if read == 0 {
            return false;
        }
        chunk.copy_within(whole..filled, 0);
        filled -= whole;
    }
}

/// Where a ledger is mapped, from a line such as
/// `7f2c1a000000-7f2c1e491000 rw-s 00000000 00:01 2050   /memfd:ttmon-ledger (deleted)`.
fn ledger_start(line: &[u8]) -> Option<u64> {
    if !line.windows(MARK.len()).any(|window| window == MARK) {
        return None;
    }
    let mut columns = line.split(|byte| *byte == b' ');
    let range = str::from_utf8(columns.next()?).ok()?;
    let offset = columns.nth(1)?;
    if !offset.iter().all(|byte| *byte == b'0') {
        return None;
    }
    u64::from_str_radix(range.split_once('-')?.0, 16).ok()
}

/// Read through the kernel: the mapping may go while we look.
fn is_of_this_process(memory: &Descriptor, start: u64) -> bool {
    let (mut magic, mut pid) = ([0; 8], [0; 4]);
    memory.read_at(&mut magic, start + header::MAGIC);
    memory.read_at(&mut pid, start + header::PID);
    u64::from_le_bytes(magic) == MAGIC && u32::from_le_bytes(pid) == std::process::id()
}

/// Without the heap, unlike `std::fs::File::open` of some paths.
struct Descriptor(c_int);

impl Descriptor {
    fn open(path: &CStr) -> Option<Self> {
        // SAFETY: the path ends with NUL; the result is checked.
        let descriptor = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
        (descriptor >= 0).then_some(Self(descriptor))
    }

    /// How many bytes came; an error is the end.
    fn read(&self, into: &mut [u8]) -> usize {
        // SAFETY: the descriptor is ours and open; the kernel writes at most the slice's length into the slice.
        let read = unsafe { libc::read(self.0, into.as_mut_ptr().cast::<c_void>(), into.len()) };
        usize::try_from(read).unwrap_or(0)
    }

    /// What cannot be read stays as it was.
    fn read_at(&self, into: &mut [u8], offset: u64) {
        let Ok(offset) = i64::try_from(offset) else { return };
        // SAFETY: as in `read`.
        unsafe { libc::pread64(self.0, into.as_mut_ptr().cast::<c_void>(), into.len(), offset) };
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: ours, and not used again.
        unsafe { libc::close(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_is_known_by_its_line() {
        let line = b"7f2c1a000000-7f2c1e491000 rw-s 00000000 00:01 2050   /memfd:ttmon-ledger (deleted)";
        assert_eq!(ledger_start(line), Some(0x7f2c_1a00_0000));
    }

    #[test]
    fn other_lines_are_not() {
        assert_eq!(ledger_start(b""), None);
        assert_eq!(ledger_start(b"7f2c1a000000-7f2c1e491000 rw-s 00001000 00:01 2050 /memfd:ttmon-ledger (deleted)"), None);
        assert_eq!(ledger_start(b"7f2c1a000000-7f2c1e491000 r-xp 00000000 08:01 2050 /usr/lib/libc.so.6"), None);
        assert_eq!(ledger_start(b"nonsense /memfd:ttmon-ledger"), None);
    }
}
