//! The private directory of a simulation's tree. It is locked while in use, and removed after a crash.
//!
//! The name is `ttmon-sim-<pid of its owner>-<random>`. The directory is on a memory file system if possible.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock, statvfs};
use rustix::io::Errno;
use rustix::process::{Pid, geteuid, test_kill_process};

const PREFIX: &str = "ttmon-sim-";
const IN_MEMORY: &str = "/dev/shm";
/// Space for the files of a device: about 120 pages, and a region of three pages.
const BYTES_PER_DEVICE: u64 = 512 * 1024;

/// Creates a directory for the files of `devices` devices. No other user can read it.
pub(crate) fn create(devices: usize) -> io::Result<PathBuf> {
    let random = RandomState::new().hash_one(std::process::id());
    let name = format!("{PREFIX}{}-{random:016x}", std::process::id());
    let make = |parent: PathBuf| {
        let path = parent.join(&name);
        DirBuilder::new().mode(0o700).create(&path).map(|()| path)
    };
    if has_room(Path::new(IN_MEMORY), BYTES_PER_DEVICE.saturating_mul(devices as u64)) {
        make(PathBuf::from(IN_MEMORY)).or_else(|_| make(std::env::temp_dir()))
    } else {
        make(std::env::temp_dir())
    }
}

fn has_room(parent: &Path, bytes: u64) -> bool {
    statvfs(parent).is_ok_and(|filesystem| filesystem.f_bavail.saturating_mul(filesystem.f_frsize) >= bytes)
}

/// Locks the directory. It is not removed by [`sweep`] while the returned file is open. A check of pids is not enough, because processes of
/// different pid namespaces may share a directory for temporary files.
pub(crate) fn lock(path: &Path) -> io::Result<File> {
    let directory = File::open(path)?;
    flock(&directory, FlockOperation::NonBlockingLockExclusive)?;
    Ok(directory)
}

/// Removes a simulation's tree. Does nothing for any other path.
pub(crate) fn remove(path: &Path) {
    if is_ours(path) {
        // Owner and engine both call this function, in either order.
        let _ = fs::remove_dir_all(path);
    }
}

/// Returns whether this path can only be a directory that [`create`] made for this user.
pub(crate) fn is_ours(path: &Path) -> bool {
    let is_private = fs::symlink_metadata(path)
        .is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == geteuid().as_raw() && metadata.mode() & 0o777 == 0o700);
    is_private && path.file_name().and_then(owner).is_some()
}

/// Removes the trees of owners and engines that were killed.
pub(crate) fn sweep() {
    for parent in [PathBuf::from(IN_MEMORY), std::env::temp_dir()] {
        sweep_in(&parent);
    }
}

fn sweep_in(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_left = owner(&entry.file_name()).is_some_and(|pid| !is_alive(pid)) && is_ours(&path);
        if is_left && lock(&path).is_ok() {
            remove(&path);
        }
    }
}

fn owner(name: &OsStr) -> Option<Pid> {
    let (pid, random) = name.to_str()?.strip_prefix(PREFIX)?.split_once('-')?;
    let is_random = random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
    Pid::from_raw(pid.parse().ok().filter(|pid| is_random && *pid > 0)?)
}

fn is_alive(pid: Pid) -> bool {
    test_kill_process(pid) != Err(Errno::SRCH)
}

/// Returns a number for a machine's directory: FNV-1a over its path. It is never 0.
pub(crate) fn mark(root: &Path) -> u64 {
    let hash = root
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    hash.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Higher than any pid of Linux.
    const DEAD: u32 = 1 << 22;

    fn make(parent: &Path, name: &str) -> PathBuf {
        let path = parent.join(name);
        DirBuilder::new().mode(0o700).create(&path).unwrap();
        fs::write(path.join("file"), "").unwrap();
        path
    }

    #[test]
    fn only_trees_of_ended_processes_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let left = make(parent.path(), &format!("ttmon-sim-{DEAD}-0123456789abcdef"));
        let held = make(parent.path(), &format!("ttmon-sim-{DEAD}-1123456789abcdef"));
        let _lock = lock(&held).unwrap();
        let open = make(parent.path(), &format!("ttmon-sim-{DEAD}-2123456789abcdef"));
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        let living = make(parent.path(), &format!("ttmon-sim-{}-0123456789abcdef", std::process::id()));
        let others = ["ttmon-sim-", "ttmon-sim-0-0123456789abcdef", "ttmon-sim-x-0123456789abcdef", "home"];
        let others = others.map(|name| make(parent.path(), name));
        sweep_in(parent.path());
        assert!(!left.exists());
        for path in [&held, &open, &living].into_iter().chain(&others) {
            assert!(path.join("file").exists(), "{}", path.display());
        }
    }

    #[test]
    fn foreign_directories_and_links_are_never_removed() {
        let parent = tempfile::tempdir().unwrap();
        let precious = make(parent.path(), "precious");
        let link = parent.path().join("ttmon-sim-1-0123456789abcdef");
        std::os::unix::fs::symlink(&precious, &link).unwrap();
        remove(&precious);
        remove(&link);
        assert!(precious.join("file").exists());
    }

    #[test]
    fn directories_are_private() {
        let path = create(1).unwrap();
        assert!(is_ours(&path), "{}", path.display());
        remove(&path);
        assert!(!path.exists());
    }

    /// The files of the largest machine fill most of a container's memory file system.
    #[test]
    fn memory_is_used_only_if_the_files_fit() {
        let free = statvfs(IN_MEMORY).unwrap();
        let free = free.f_bavail * free.f_frsize;
        assert!(has_room(Path::new(IN_MEMORY), free / 2) && !has_room(Path::new(IN_MEMORY), free * 2));
    }
}
