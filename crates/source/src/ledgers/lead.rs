//! Where the ledger of a process may be: among its open files, or its mappings.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ttmon_ledger::layout::NAME;
use ttmon_model::sample::ProcessSample;

use super::{Found, found, is_own, open_memfd, open_memory};
use crate::budget::{Budget, Resource};
use crate::directory;
use crate::purse::Purse;
use crate::read::{Failure, Pace, Reply, Request, Want};
use crate::root::Root;

/// Longest list of mappings read; TT-Metal under Python has some 1,500 lines of 100 bytes.
pub(crate) const MAPS_BYTES_MAX: usize = 1024 * 1024;

/// Open files named like a ledger that are tried: a program may hold others' to read them, or inherit its parent's.
const CANDIDATES_MAX: usize = 64;
/// Threads of a process that are looked at for its files.
const THREADS_MAX: usize = 64;

/// Where a process's ledger may be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Lead {
    /// Open files with the right name; one of them may be its own.
    Files(Vec<PathBuf>),
    /// A mapping with the right name, from one address to another: the program closed its files.
    Mapping(u64, u64),
    /// None among its open files; its mappings have not been looked at.
    NoFile,
    /// Nowhere.
    Nothing,
    /// It is open already.
    Known,
    /// This user may not look.
    Denied,
    /// Not searched: its user is at a limit.
    Cut(u32, Resource),
}

/// Looks among the open files of a process.
pub(crate) fn look(root: &Root, pid: u32, budget: &mut Budget) -> Lead {
    let directory = root.proc.join(pid.to_string());
    let mut purse = Purse::new(&root.proc, pid, budget);
    if purse.take(Resource::Processes, 1).is_none() {
        return Lead::Cut(purse.uid(), Resource::Processes);
    }
    let mut listed = Listed::default();
    match listed.add(&directory.join("fd"), &mut purse) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Lead::Denied,
        Err(_) => return Lead::Nothing,
    }
    if listed.count == 0 {
        listed.add_threads(&directory, &mut purse);
    }
    match listed {
        Listed { files, .. } if !files.is_empty() => Lead::Files(files),
        Listed { is_cut: true, .. } => Lead::Cut(purse.uid(), Resource::Descriptors),
        _ => Lead::NoFile,
    }
}

/// Open files of a process.
#[derive(Default)]
struct Listed {
    /// Those that are named like a ledger.
    files: Vec<PathBuf>,
    /// How many were read.
    count: usize,
    /// Whether there are more than its user may have.
    is_cut: bool,
}

impl Listed {
    fn add(&mut self, directory: &Path, purse: &mut Purse<'_>) -> io::Result<()> {
        directory::names(directory, |name| {
            if purse.take(Resource::Descriptors, 1).is_none() {
                self.is_cut = true;
                return ControlFlow::Break(());
            }
            self.count += 1;
            let path = directory.join(name);
            self.files.extend(fs::read_link(&path).is_ok_and(|target| names_ledger(&target)).then_some(path));
            if self.files.len() < CANDIDATES_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
    }

    /// The files of a process whose first thread has ended: the kernel shows them under its other threads alone.
    fn add_threads(&mut self, directory: &Path, purse: &mut Purse<'_>) {
        for thread in fs::read_dir(directory.join("task")).into_iter().flatten().flatten().take(THREADS_MAX) {
            let _ = self.add(&thread.path().join("fd"), purse);
            if !self.files.is_empty() || self.is_cut {
                return;
            }
        }
    }
}

/// The mappings of a process: reading them may wait for it, so they go with its other files.
pub(crate) fn maps_request(root: &Root, pid: u32) -> Request {
    let path = root.proc.join(pid.to_string()).join("maps");
    Request { path, want: Want::LedgerMapping, bytes_max: MAPS_BYTES_MAX, pace: Pace::Once }
}

/// What reading the list cost. One that took too long cost all that it may.
pub(crate) fn maps_bytes(reply: Option<&Reply>) -> u64 {
    let first = |bytes: &Vec<u8>| std::str::from_utf8(bytes.split(|byte| *byte == b'\n').next()?).ok()?.parse().ok();
    match reply {
        Some(Ok(bytes)) => first(bytes).unwrap_or(0).min(MAPS_BYTES_MAX as u64),
        Some(Err(Failure::Errno(_))) => 0,
        Some(Err(Failure::Timeout | Failure::TooLong)) | None => MAPS_BYTES_MAX as u64,
    }
}

impl Lead {
    /// With the mappings looked at, where they had to be.
    pub(crate) fn with_maps(self, reply: Option<&Reply>) -> Self {
        match (self, reply) {
            (Self::NoFile, Some(Ok(bytes))) => {
                let text = String::from_utf8_lossy(bytes);
                text.lines().nth(1).and_then(parse_mapping).map_or(Self::Nothing, |(start, end)| Self::Mapping(start, end))
            }
            (Self::NoFile, _) => Self::Nothing,
            (lead, _) => lead,
        }
    }

    /// Whether there is something to open.
    pub(crate) fn is_promising(&self) -> bool {
        matches!(self, Self::Files(_) | Self::Mapping(..))
    }

    /// Opens the ledger, if it is this process's own.
    pub(crate) fn open(&self, root: &Root, process: &ProcessSample, machine: u64) -> Option<Found> {
        match self {
            Self::Files(paths) => paths.iter().find_map(|path| found(open_memfd(path).ok()?, path, process, machine)),
            Self::Mapping(start, end) => {
                let directory = root.proc.join(process.key.pid.to_string());
                let path = directory.join(format!("map_files/{start:x}-{end:x}"));
                match open_memfd(&path) {
                    // Memory may have to come from a file system that never answers: it is read of this user's own processes
                    // alone. To whoever may follow the link it says what is mapped.
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied && is_own(process) => {
                        open_memory(&directory, *start, *end, process, machine)
                    }
                    file => found(file.ok()?, &path, process, machine),
                }
            }
            Self::NoFile | Self::Nothing | Self::Known | Self::Denied | Self::Cut(..) => None,
        }
    }
}

/// A memfd has no name in any directory, which the kernel shows as deleted; a file that is really called so has one.
pub(super) fn names_ledger(target: &Path) -> bool {
    target.to_str().and_then(|text| text.strip_prefix("/memfd:")?.strip_suffix(" (deleted)")) == Some(NAME)
}

/// `7f00-7f40 rw-s 00000000 00:01 1234  /memfd:ttmon-ledger (deleted)`
pub(super) fn parse_mapping(line: &str) -> Option<(u64, u64)> {
    let (range, rest) = line.split_once(' ')?;
    names_ledger(Path::new(&rest[rest.find('/')?..])).then_some(())?;
    let (start, end) = range.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    (start < end).then_some((start, end))
}
