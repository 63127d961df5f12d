//! Which process holds a lock, as the kernel reports it.

use std::fs;
use std::os::fd::AsFd;

use rustix::fs::{fstat, major, minor};

/// Returns the pid of the process that holds a flock on a file or directory, from the kernel's table of locks. Returns `None` if it
/// is not in the table, or if the table cannot be read: the holder is only named in a message.
pub fn holder(file: impl AsFd) -> Option<u32> {
    let stat = fstat(file).ok()?;
    let inode = format!("{:02x}:{:02x}:{}", major(stat.st_dev), minor(stat.st_dev), stat.st_ino);
    holder_in(&fs::read_to_string("/proc/locks").ok()?, &inode)
}

/// Parses lines such as `3: FLOCK  ADVISORY  WRITE 4242 00:1a:5678 0 EOF`. A process that waits for the lock has `->` before FLOCK.
fn holder_in(locks: &str, inode: &str) -> Option<u32> {
    let holder = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let is_held = words.next() == Some("FLOCK");
        let pid = words.nth(2)?.parse().ok()?;
        (is_held && words.next() == Some(inode) && pid != 0).then_some(pid)
    };
    locks.lines().find_map(holder)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use rustix::fs::{FlockOperation, flock};

    use super::*;

    #[test]
    fn holder_of_a_lock_is_named() {
        let directory = tempfile::tempdir().expect("directory");
        let locked = File::open(directory.path()).expect("directory");
        assert_eq!(holder(&locked), None);
        flock(&locked, FlockOperation::LockExclusive).expect("free");
        assert_eq!(holder(&locked), Some(std::process::id()));
    }

    #[test]
    fn waiters_and_other_files_are_no_holders() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 00:1a:5 0 EOF\n2: FLOCK  ADVISORY  WRITE 8 00:1a:6 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 9 00:1a:5 0 EOF\n4: FLOCK  ADVISORY  READ 10 00:1a:5 0 EOF\n";
        assert_eq!(holder_in(locks, "00:1a:5"), Some(10));
        assert_eq!(holder_in(locks, "00:1a:7"), None);
    }
}
