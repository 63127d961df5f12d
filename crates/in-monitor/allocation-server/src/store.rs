//! The state directory. It has one ledger per process, so that a killed server loses nothing.
//!
//! The server owns the files. The owner of a file may truncate it, and truncating a mapped file kills the process that writes to it. So a
//! peer does not own its ledger; an access control list lets it read the file.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, XattrFlags, flock, openat, renameat, unlinkat};
use rustix::process::geteuid;

use ttmon_collect::served::{self, Storage};
use ttmon_ledger::layout::WriterKind;
use ttmon_ledger::writer::{ClockChoice, Config, Hosted, Owner, VisibleDevicesVariable};
use ttmon_model::identity::ProcessKey;
use ttmon_model::ledger::VisibleDevices;
use ttmon_os::bound_socket::of_pid;
use ttmon_os::locks;

use crate::limits::{MEMORY_BYTES_OF_USER_MAX, STATE_PART_OF_USER};
use crate::owner::ProcessView;
use crate::peer::{self, HeldProcess};

/// Maximum number of files of an earlier server that are read.
const FILES_MAX: usize = 16_384;

/// The state directory, locked for this process while this value exists.
#[derive(Debug)]
pub struct Store {
    directory: OwnedFd,
    path: PathBuf,
    config: Config,
    storage: Storage,
}

/// The ledgers that an earlier server left.
#[derive(Debug, Default)]
pub(crate) struct AdoptedState {
    pub(crate) adopted: Vec<(HeldProcess, Hosted)>,
    /// Number of ledgers of ended processes.
    pub(crate) removed: usize,
    /// Number of ledgers of live processes that cannot be used.
    pub(crate) unreadable: usize,
    /// Why the directory could not be read to its end.
    pub(crate) error: Option<io::Error>,
}

/// A ledger that an earlier server left.
enum StoredLedger {
    Whole(HeldProcess, Box<Hosted>),
    Unreadable,
    Ended,
}

/// Whether a directory, or its nearest existing ancestor, is known to be in memory.
pub fn is_in_memory(path: &Path) -> bool {
    let there = path.ancestors().find(|ancestor| ancestor.exists());
    let directory = there.and_then(|there| rustix::fs::open(there, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok());
    directory.is_some_and(|directory| served::storage(directory).is_ok_and(|storage| storage == Storage::Memory))
}

/// Why a state directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the texts document the causes")]
pub enum StateError {
    #[error("{0}: {1}; use another --state-dir")]
    Io(PathBuf, io::Error),
    #[error("{0}: neither in memory nor on a disk of this host; use another --state-dir, such as one below /dev/shm")]
    Foreign(PathBuf),
    #[error("{0}: other users may write there, or own it; have it removed, or use a --state-dir of this user alone")]
    Writable(PathBuf),
    #[error("{}: another server keeps its state there{}; stop it, or use another --state-dir", .0.display(), of_pid(*.1))]
    Taken(PathBuf, Option<u32>),
}

/// Creates a directory that other users may list, and its ancestors, independent of the umask.
pub fn make_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        make_directory(parent)?;
    }
    match fs::create_dir(path) {
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(0o755)),
        // Another process created it first.
        Err(_) if path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the nearest ancestor in which other users can replace a directory. The owner of a tmpfs mount point, such as /dev/shm, does not
/// matter: in a container it may be `nobody`.
fn open_above(directory: &OwnedFd) -> io::Result<Option<PathBuf>> {
    let path = fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd()))?;
    let device = rustix::fs::fstat(directory)?.st_dev;
    for above in path.ancestors().skip(1) {
        let metadata = fs::symlink_metadata(above)?;
        if metadata.dev() != device {
            break;
        }
        let is_mounted = above.parent().is_none_or(|parent| fs::symlink_metadata(parent).is_ok_and(|parent| parent.dev() != device));
        let is_trusted = is_mounted || metadata.uid() == 0 || metadata.uid() == geteuid().as_raw();
        // In a sticky directory, users can only replace their own files.
        let is_closed = metadata.mode() & 0o022 == 0 || metadata.mode() & 0o1000 != 0;
        if !is_trusted || !is_closed {
            return Ok(Some(above.to_owned()));
        }
    }
    Ok(None)
}

impl Store {
    /// Opens the directory and creates it if it is missing. `machine` is 0, or the mark of a simulated machine.
    pub fn open(path: &Path, machine: u64, version: &'static str) -> Result<Self, StateError> {
        let io = |error: io::Error| StateError::Io(path.to_owned(), error);
        // Other users may list the directory: the processes in it are no secret, the content of the files is.
        make_directory(path).map_err(io)?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| io(error.into()))?;
        let storage = served::storage(&directory).map_err(io)?;
        if storage == Storage::Foreign {
            // A network or user-space file system may never respond, so readers do not open files there.
            return Err(StateError::Foreign(path.to_owned()));
        }
        let metadata = rustix::fs::fstat(&directory).map_err(|error| io(error.into()))?;
        if metadata.st_uid != geteuid().as_raw() || metadata.st_mode & 0o022 != 0 {
            return Err(StateError::Writable(path.to_owned()));
        }
        if let Some(above) = open_above(&directory).map_err(io)? {
            return Err(StateError::Writable(above));
        }
        flock(&directory, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| StateError::Taken(path.to_owned(), locks::holder(&directory)))?;
        let config = Config { kind: WriterKind::Service, version, clock: ClockChoice::Auto, machine, on_created: None };
        let store = Self { directory, path: path.to_owned(), config, storage };
        if storage == Storage::Disk {
            store.forget_earlier_boots().map_err(io)?;
        }
        Ok(store)
    }

    /// The machine of the processes: 0, or the mark of a simulated machine.
    pub(crate) fn machine(&self) -> u64 {
        self.config.machine
    }

    /// Whether the directory is in memory. On a disk every event is slower; nothing else changes.
    pub fn is_in_memory(&self) -> bool {
        self.storage == Storage::Memory
    }

    /// Removes files from before the last boot. A disk keeps them, and their pids and start times may belong to other processes now.
    fn forget_earlier_boots(&self) -> io::Result<()> {
        const MARK: &str = "boot-id";
        let boot = fs::read("/proc/sys/kernel/random/boot_id")?;
        let mark = self.path.join(MARK);
        if fs::read(&mark).is_ok_and(|known| known == boot) {
            return Ok(());
        }
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry.file_name().as_encoded_bytes().ends_with(b".ledger") {
                fs::remove_file(entry.path())?;
            }
        }
        fs::write(&mark, boot)
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes that one user may use: a fixed limit, and at most a part of the file system.
    pub(crate) fn bytes_of_user(&self) -> u64 {
        let whole = rustix::fs::fstatvfs(&self.directory).map_or(0, |room| room.f_blocks.saturating_mul(room.f_frsize));
        // A file system without a size cannot be filled.
        let part = if whole == 0 { u64::MAX } else { whole / STATE_PART_OF_USER };
        part.min(MEMORY_BYTES_OF_USER_MAX)
    }

    /// Creates an empty ledger for a process. It becomes visible to others when it is complete.
    pub(crate) fn create(&self, held: &HeldProcess, view: &ProcessView) -> io::Result<Hosted> {
        let name = served::file_name(held.key);
        let draft = format!("{name}.new");
        // Usually there is no draft. One that stays is the error of `openat`.
        let _ = unlinkat(&self.directory, &draft, AtFlags::empty());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(&self.directory, &draft, flags, Mode::from_raw_mode(0o600))?);
        if held.uid() != geteuid().as_raw() {
            let_read(&file, held.uid());
        }
        let owner = Owner {
            pid: held.key.pid,
            start_ticks: held.key.start_ticks,
            program: held.name.as_bytes(),
            seen: match &view.visible {
                VisibleDevices::All => VisibleDevicesVariable::All,
                VisibleDevices::Only(text) if text.len() < ttmon_ledger::layout::header::VISIBLE_BYTES => {
                    VisibleDevicesVariable::Only(text.as_bytes())
                }
                VisibleDevices::Only(_) | VisibleDevices::Cut => VisibleDevicesVariable::Unknown,
            },
            is_mock: view.is_mock,
        };
        let made = Hosted::create(file, &self.config, &owner);
        let made = made.and_then(|hosted| Ok(renameat(&self.directory, &draft, &self.directory, &name).map(|()| hosted)?));
        if made.is_err() {
            // The next attempt removes the draft, too.
            let _ = unlinkat(&self.directory, &draft, AtFlags::empty());
        }
        made
    }

    /// Opens the ledgers that an earlier server left for processes that still live. Ledgers of ended processes are removed. Ledgers that
    /// cannot be read, or that belong to another machine, are left unchanged.
    pub(crate) fn adopt(&self) -> AdoptedState {
        let mut left = AdoptedState::default();
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) => return AdoptedState { error: Some(error), ..left },
        };
        for entry in entries.take(FILES_MAX) {
            let name = match entry {
                Ok(entry) => entry.file_name(),
                Err(error) => return AdoptedState { error: Some(error), ..left },
            };
            let Some(name) = name.to_str().filter(|name| name.ends_with(".ledger") || name.ends_with(".ledger.new")) else { continue };
            match self.adopt_one(name) {
                StoredLedger::Whole(held, hosted) => left.adopted.push((held, *hosted)),
                StoredLedger::Unreadable => left.unreadable += 1,
                StoredLedger::Ended => {
                    left.removed += 1;
                    // A file that stays is found again at the next start.
                    let _ = unlinkat(&self.directory, name, AtFlags::empty());
                }
            }
        }
        left
    }

    fn adopt_one(&self, name: &str) -> StoredLedger {
        // A draft was never in use.
        let Some(owner) = served::owner_of(name) else { return StoredLedger::Ended };
        let pidfd = match peer::open(owner.pid) {
            Ok(Some(pidfd)) => pidfd,
            Ok(None) => return StoredLedger::Ended,
            Err(_) => return StoredLedger::Unreadable,
        };
        let is_alive = peer::is_alive(pidfd.as_fd());
        let held = match peer::read_process(owner.pid, pidfd) {
            Ok(Some(held)) if held.key == owner => held,
            Err(_) => return StoredLedger::Unreadable,
            Ok(None) if is_alive => return StoredLedger::Unreadable,
            Ok(_) => return StoredLedger::Ended,
        };
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let hosted = openat(&self.directory, name, flags, Mode::empty()).ok().map(File::from).and_then(|file| {
            let metadata = file.metadata().ok()?;
            let is_ours = metadata.is_file() && metadata.uid() == geteuid().as_raw();
            Hosted::adopt(file, &self.config).ok().filter(|hosted| is_ours && hosted.owner() == (owner.pid, owner.start_ticks))
        });
        hosted.map_or(StoredLedger::Unreadable, |hosted| StoredLedger::Whole(held, Box::new(hosted)))
    }

    pub(crate) fn remove(&self, owner: ProcessKey) {
        // A file that stays is removed at the next start, because its process has ended.
        let _ = unlinkat(&self.directory, served::file_name(owner), AtFlags::empty());
    }
}

/// Lets one additional user read a file, through an access control list in the kernel's format: acl(5) and posix_acl_xattr.h.
fn let_read(file: impl AsFd, uid: u32) {
    const VERSION: u32 = 2;
    const NOBODY: u32 = u32::MAX;
    const READ: u16 = 4;
    // The file's owner, the user, the file's group, the mask, and all other users.
    let entries: [(u16, u16, u32); 5] =
        [(0x01, READ | 2, NOBODY), (0x02, READ, uid), (0x04, 0, NOBODY), (0x10, READ, NOBODY), (0x20, 0, NOBODY)];
    let mut list = VERSION.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend_from_slice(&tag.to_le_bytes());
        list.extend_from_slice(&permissions.to_le_bytes());
        list.extend_from_slice(&id.to_le_bytes());
    }
    // If the file system has no access control lists, the peer's own ttmon reports no_permission. Nothing else changes.
    let _ = rustix::fs::fsetxattr(file, "system.posix_acl_access", &list, XattrFlags::empty());
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A directory that only this user can write to. Other tests of this process change the umask, so the mode is set explicitly.
    pub(crate) fn in_memory() -> tempfile::TempDir {
        tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir_in("/dev/shm").expect("directory")
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
    }

    /// Simulates a reboot.
    #[test]
    fn ledgers_of_an_earlier_boot_are_removed_from_a_disk() {
        let directory = in_memory();
        let store = Store::open(&directory.path().join("state"), 0, "0.0.0").expect("in memory");
        let ledger = store.path().join("7-8.ledger");
        store.forget_earlier_boots().expect("ours");
        fs::write(&ledger, "").expect("ours");
        store.forget_earlier_boots().expect("ours");
        assert!(ledger.exists(), "the same boot");
        fs::write(store.path().join("boot-id"), "another").expect("ours");
        store.forget_earlier_boots().expect("ours");
        assert!(!ledger.exists());
    }

    #[test]
    fn no_other_user_may_replace_the_directory() {
        let directory = in_memory();
        let (above, state) = (directory.path().join("above"), directory.path().join("above/between/state"));
        let refused = || match Store::open(&state, 0, "0.0.0").err()? {
            StateError::Writable(path) => Some(path),
            other => panic!("{other}"),
        };
        assert_eq!(refused(), None, "made where it was not");
        mode(&above, 0o777);
        assert_eq!(refused(), Some(above.clone()));
        mode(&above, 0o1777);
        assert_eq!(refused(), None, "everybody has their own there");
        mode(&above.join("between"), 0o775);
        assert_eq!(refused(), Some(above.join("between")), "the nearest one");
        mode(&above.join("between"), 0o755);
        mode(&state, 0o777);
        assert_eq!(refused(), Some(state.clone()));
        mode(&state, 0o755);
        // Only root can give a directory to another user.
        if geteuid().is_root() {
            std::os::unix::fs::chown(&above, Some(4711), None).expect("root");
            assert_eq!(refused(), Some(above), "its owner may do as he likes, sticky or not");
        }
    }
}
