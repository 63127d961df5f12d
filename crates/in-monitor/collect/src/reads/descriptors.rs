//! The limit of open files, and the kernel's table of descriptors.

use std::os::fd::AsFd;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open files as far as this process may, up to `most`.
pub fn allow(most: u64) {
    let limit = getrlimit(Resource::Nofile);
    let possible = limit.maximum.map_or(most, |maximum| maximum.min(most));
    if limit.current.is_some_and(|current| current < possible) {
        // With the lower limit, fewer files stay open, and a lack of descriptors is reported where it occurs.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(possible), ..limit });
    }
}

/// Makes the kernel allocate its descriptor table for `count` files, by duplicating `file` to a high number.
///
/// This is fast in a process with one thread. In a process with threads, each growth of the table (at 64 files, at 128, ...) blocks all
/// opens for about 10 ms.
pub fn expect(count: u64, file: impl AsFd) {
    let possible = getrlimit(Resource::Nofile).current.map_or(count, |limit| limit.min(count));
    // No descriptor has a higher number.
    let highest = i32::try_from(possible.saturating_sub(1)).unwrap_or(i32::MAX);
    // Without it, the table grows later. Only speed depends on it.
    let _given_back = rustix::io::fcntl_dupfd_cloexec(file, highest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_made_at_once() {
        let size = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            status.lines().find_map(|line| line.strip_prefix("FDSize:")?.trim().parse::<u64>().ok()).unwrap()
        };
        let limit = getrlimit(Resource::Nofile);
        allow(4096);
        let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        assert!(allowed >= limit.maximum.unwrap_or(4096).min(4096), "{allowed}");
        expect(700, std::io::stdin());
        assert!(size() >= allowed.min(700), "{}", size());
        // The count is limited to the maximum of the process.
        expect(u64::MAX, std::io::stdin());
    }
}
