//! Searches for a cluster descriptor of this machine: a saved file, or a file that UMD left behind.
//!
//! A file is read if it is a regular file, belongs to root or to this user, and no other user may write to it. The file is used if it names
//! exactly the chips of this machine.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxFlags, statx};
use rustix::process::geteuid;

use ttmon_model::Sample;
use ttmon_model::cluster::Cluster;
use ttmon_model::limits::CLUSTER_BYTES_MAX;

use crate::cluster::parse_cluster;
use crate::reads::directory;
use crate::root::Root;

/// The file name that UMD uses.
const NAME: &str = "cluster_descriptor.yaml";
/// UMD writes the file into a new directory with this prefix, below the directory for temporary files.
const PREFIX: &[u8] = b"umd_";
/// Maximum number of directories with this prefix that are inspected. Any user may create any number.
const MATCHES_MAX: usize = 65_536;
/// Maximum number of files that are tried, newest first.
const FILES_MAX: usize = 16;

/// Returns the first descriptor that matches the devices in a sample.
pub(crate) fn search(root: &Root, sample: &Sample) -> Option<Cluster> {
    let files = root.saved_clusters.iter().cloned().chain(left_behind(&root.temporary));
    files.filter_map(|path| read(&path)).find(|cluster| ttmon_model::describes(cluster, sample))
}

/// Returns the descriptor in a file. Most of the places have none, and anything may be in the file of another program.
fn read(path: &Path) -> Option<Cluster> {
    let bytes = ttmon_os::read_trusted(path, CLUSTER_BYTES_MAX).ok()?;
    parse_cluster(&String::from_utf8_lossy(&bytes)).ok()
}

/// Returns UMD's files in directories of root and this user, newest first. Another file system is skipped: it may never answer.
fn left_behind(temporary: &Path) -> Vec<PathBuf> {
    let Some(place) = inspect(temporary) else { return Vec::new() };
    let file_system = |stat: &Statx| (stat.stx_dev_major, stat.stx_dev_minor);
    let is_trusted = |stat: &Statx| {
        let is_directory = FileType::from_raw_mode(stat.stx_mode.into()).is_dir();
        is_directory && (stat.stx_uid == 0 || stat.stx_uid == geteuid().as_raw()) && file_system(stat) == file_system(&place)
    };
    let (mut found, mut matches): (Vec<(i64, PathBuf)>, usize) = (Vec::new(), 0);
    // If the directory cannot be read to the end, the names read so far are used.
    let _ = directory::names(temporary, |name| {
        if name.as_encoded_bytes().starts_with(PREFIX) {
            let path = temporary.join(name);
            let trusted = inspect(&path).filter(is_trusted);
            found.extend(trusted.map(|stat| (stat.stx_mtime.tv_sec, path.join(NAME))));
            matches += 1;
        }
        if matches < MATCHES_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    found.sort_unstable_by(|one, other| other.cmp(one));
    found.into_iter().take(FILES_MAX).map(|(_, path)| path).collect()
}

/// Returns the metadata that the kernel has cached, without a request to the file system.
fn inspect(path: &Path) -> Option<Statx> {
    statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC, StatxFlags::BASIC_STATS).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    #[test]
    fn only_own_directories_are_searched() {
        let directory = tempfile::tempdir().expect("directory");
        let at = |name: &str| directory.path().join(name);
        for name in ["umd_a", "other"] {
            fs::create_dir(at(name)).expect("directory");
        }
        symlink(at("other"), at("umd_link")).expect("link");
        fs::write(at("umd_file"), "").expect("file");
        assert_eq!(left_behind(directory.path()), [at("umd_a").join(NAME)]);
        // Entries with other names are not counted.
        for number in 0..5000 {
            fs::hard_link(at("umd_file"), at(&format!("other_{number}"))).expect("link");
        }
        assert_eq!(left_behind(directory.path()), [at("umd_a").join(NAME)]);
        // Only root can give a directory to another user.
        if geteuid().is_root() {
            chown(at("umd_a"), Some(65_534), None).expect("root");
            assert!(left_behind(directory.path()).is_empty());
        }
    }
}
