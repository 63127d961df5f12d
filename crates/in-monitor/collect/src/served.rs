//! Ledgers that the service writes for the peers of its allocation socket: files in its state directory, one for each process.
//!
//! A file is called `PID-START.ledger`, after the process's pid and start time. The services of root and of this user are trusted for all
//! processes. The service of another user is trusted only for processes of that user.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::process::geteuid;

use ttmon_ledger_reader::Region;
use ttmon_model::identity::ProcessKey;
use ttmon_model::ledger::LedgerWriter;
use ttmon_model::sample::ProcessSample;
use ttmon_model::{Missing, Reading, Source};

use crate::ledgers::{OpenLedger, open_file};
use crate::reads::directory;

/// Maximum number of files that are read in one directory. A service has fewer peers.
const FILES_MAX: usize = 4096;
const SUFFIX: &str = ".ledger";

/// Returns the name of a process's file.
pub fn file_name(owner: ProcessKey) -> String {
    format!("{}-{}{SUFFIX}", owner.pid, owner.start_ticks)
}

/// Parses the process from the name of a file.
pub fn owner_of(name: &str) -> Option<ProcessKey> {
    let (pid, start_ticks) = name.strip_suffix(SUFFIX)?.split_once('-')?;
    Some(ProcessKey { pid: pid.parse().ok()?, start_ticks: start_ticks.parse().ok()? })
}

/// A file that may be the ledger of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServedLedger {
    pub(crate) owner: ProcessKey,
    pub(crate) path: PathBuf,
    /// The only user whose processes are accepted from this file, if its writer is not trusted for all.
    only: Option<u32>,
}

/// Lists the files in these directories. Missing directories and other files are skipped.
pub(crate) fn list(directories: &[PathBuf]) -> Vec<ServedLedger> {
    let with_user = |directory: &PathBuf| fs::symlink_metadata(directory).ok().filter(fs::Metadata::is_dir).map(|metadata| metadata.uid());
    let mut trusted: Vec<(Option<u32>, &PathBuf)> = directories
        .iter()
        .filter_map(|directory| Some((with_user(directory)?, directory)))
        .map(|(uid, directory)| (Some(uid).filter(|uid| *uid != 0 && *uid != geteuid().as_raw()), directory))
        .collect();
    // Services that are trusted for all users come first, so no other user can hide their files by a file of the same name.
    trusted.sort_by_key(|(only, _)| *only);
    let mut found: Vec<ServedLedger> = Vec::new();
    for (only, directory) in trusted {
        let is_new =
            |named: &ServedLedger| !found.iter().any(|other| other.owner == named.owner && other.only.is_none_or(|of| Some(of) == only));
        let more: Vec<ServedLedger> = list_one(directory, only).into_iter().filter(is_new).collect();
        found.extend(more);
    }
    found
}

fn list_one(directory: &Path, only: Option<u32>) -> Vec<ServedLedger> {
    let mut found = Vec::new();
    // If the directory cannot be read to the end, the names read so far are used.
    let _ = directory::first_names(directory, FILES_MAX, |name| {
        let owner = name.to_str().and_then(owner_of);
        found.extend(owner.map(|owner| ServedLedger { owner, path: directory.join(name), only }));
    });
    found
}

impl ServedLedger {
    /// Opens the ledger if it belongs to the process.
    pub(crate) fn open(&self, process: &ProcessSample, machine: u64) -> Reading<OpenLedger> {
        let uid = process.facts.as_ref().map_err(|reason| *reason)?.uid;
        if self.only.is_some_and(|only| only != uid) {
            return Err(Missing::NoSource);
        }
        let file = open(&self.path).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => Missing::NoPermission,
            _ => Missing::NoSource,
        })?;
        let metadata = file.metadata().map_err(|_| Missing::NoSource)?;
        let region = Region::open(file).map_err(|_| Missing::NoSource)?;
        let identity = region.identity();
        let says = ProcessKey { pid: identity.owner_pid, start_ticks: identity.owner_start_ticks };
        if identity.writer != LedgerWriter::Service || says != self.owner || identity.machine != machine {
            return Err(Missing::NoSource);
        }
        Ok(OpenLedger::new(process, Source::Server, region, self.path.clone(), &metadata))
    }
}

/// The kind of file system of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// tmpfs, where the service usually stores its files.
    Memory,
    /// A disk of this host.
    Disk,
    /// A file system that may never answer: of another host, or implemented by a user's program.
    Foreign,
}

/// Returns the kind of file system of a file or directory.
pub fn storage(place: impl AsFd) -> io::Result<Storage> {
    const TMPFS: u64 = 0x0102_1994;
    // ext2 to ext4, XFS, Btrfs, overlayfs, ZFS, F2FS, ramfs: statfs(2).
    const DISKS: [u64; 7] = [0xEF53, 0x5846_5342, 0x9123_683E, 0x794C_7630, 0x2FC1_2FC1, 0xF2F5_2010, 0x8584_58F6];
    // The number has 32 bits. The width and sign of the field depend on the target.
    let magic = rustix::fs::fstatfs(place)?.f_type.cast_unsigned() & 0xFFFF_FFFF;
    Ok(match magic {
        TMPFS => Storage::Memory,
        magic if DISKS.contains(&magic) => Storage::Disk,
        _ => Storage::Foreign,
    })
}

/// Opens a regular file of this host. The file system is checked first, because a foreign one may not answer.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let place = rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    if storage(&place)? == Storage::Foreign || !FileType::from_raw_mode(rustix::fs::fstat(&place)?.st_mode).is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    open_file(&PathBuf::from(format!("/proc/self/fd/{}", place.as_raw_fd())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        let owner = ProcessKey { pid: 4242, start_ticks: 99 };
        assert_eq!(file_name(owner), "4242-99.ledger");
        assert_eq!(owner_of("4242-99.ledger"), Some(owner));
        assert_eq!(["4242.ledger", "4242-99", "a-1.ledger", "1--1.ledger", ""].map(owner_of), [None; 5]);
    }

    #[test]
    fn only_directories_are_looked_into() {
        let directory = tempfile::tempdir().expect("directory");
        let real = directory.path().join("state");
        fs::create_dir(&real).expect("directory");
        fs::write(real.join("7-8.ledger"), "").expect("file");
        fs::write(real.join("7-8.new"), "").expect("file");
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&real, &link).expect("link");
        let found = list(&[link, real.clone(), real.clone(), directory.path().join("none")]);
        assert_eq!(found, [ServedLedger { owner: ProcessKey { pid: 7, start_ticks: 8 }, path: real.join("7-8.ledger"), only: None }]);
    }

    /// Only root can give a directory to another user.
    #[test]
    fn an_untrusted_directory_hides_no_trusted_entry() {
        if !geteuid().is_root() {
            return;
        }
        let directory = tempfile::tempdir().expect("directory");
        let [stranger, other, own] = ["stranger", "other", "own"].map(|name| directory.path().join(name));
        for (place, uid) in [(&stranger, 65_534), (&other, 4711), (&own, 0)] {
            fs::create_dir(place).expect("directory");
            fs::write(place.join("7-8.ledger"), "").expect("file");
            std::os::unix::fs::chown(place, Some(uid), None).expect("root");
        }
        let users = |places: &[PathBuf]| list(places).iter().map(|named| named.only).collect::<Vec<_>>();
        assert_eq!(users(&[stranger.clone(), own]), [None]);
        assert_eq!(users(&[stranger.clone(), other, stranger]), [Some(4711), Some(65_534)], "each may speak of his own");
    }
}
