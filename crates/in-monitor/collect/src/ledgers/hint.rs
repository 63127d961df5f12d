//! Where the ledger of a process may be: among its open files, or among its mappings.

use std::io;
use std::path::{Path, PathBuf};

use ttmon_ledger::layout::NAME;
use ttmon_model::Missing;
use ttmon_model::sample::ProcessSample;

use super::{OpenLedger, found, is_own, open_memfd, open_memory};
use crate::budget::Resource;
use crate::examined::{ListEnd, OpenFiles};
use crate::reads::{Failure, Reply, Request, Sampling, Want};
use crate::root::Root;

/// Maximum length of a list of mappings. TT-Metal under Python has about 1,500 lines of 100 bytes.
pub(crate) const MAPS_BYTES_MAX: usize = 1024 * 1024;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LedgerHint {
    /// Open files with the right name. One of them may be the process's own ledger.
    Files(Vec<PathBuf>),
    /// A mapping with the right name: start and end address. The program closed its files.
    Mapping(u64, u64),
    /// No open file has the right name. The mappings have not been read.
    NoFile,
    /// The process has no ledger.
    Nothing,
    /// The ledger is already open.
    Known,
    /// This user may not read the process.
    Denied,
    /// The process was not searched, because its user is at a limit.
    Cut(u32, Resource),
}

/// Returns the request for the mappings of a process. The read may block on that process, so it is done together with its other files.
pub(crate) fn maps_request(root: &Root, pid: u32) -> Request {
    let path = root.proc.join(pid.to_string()).join("maps");
    Request { path, want: Want::LedgerMapping, bytes_max: MAPS_BYTES_MAX, sampling: Sampling::Once }
}

impl LedgerHint {
    pub(crate) fn among(files: &OpenFiles) -> Self {
        match files.end {
            _ if !files.ledgers.is_empty() => Self::Files(files.ledgers.clone()),
            ListEnd::Whole => Self::NoFile,
            ListEnd::Cut(uid, resource) => Self::Cut(uid, resource),
            ListEnd::Unreadable(Missing::NoPermission) => Self::Denied,
            ListEnd::Unreadable(_) => Self::Nothing,
        }
    }

    /// Parses the reply to [`maps_request`].
    pub(crate) fn in_mappings(reply: Option<&Reply>) -> Self {
        match reply {
            Some(Ok(text)) => {
                let mapping = String::from_utf8_lossy(text).lines().nth(1).and_then(parse_mapping);
                mapping.map_or(Self::Nothing, |(start, end)| Self::Mapping(start, end))
            }
            // The mappings are searched again later.
            Some(Err(Failure::Timeout)) => Self::NoFile,
            Some(Err(failure)) if Missing::from(*failure) == Missing::NoPermission => Self::Denied,
            // The process has ended.
            Some(Err(_)) | None => Self::Nothing,
        }
    }

    pub(crate) fn is_promising(&self) -> bool {
        matches!(self, Self::Files(_) | Self::Mapping(..))
    }

    /// Opens the ledger if this process created it.
    pub(crate) fn open(&self, root: &Root, process: &ProcessSample, machine: u64) -> Option<OpenLedger> {
        match self {
            // A file that cannot be opened was closed meanwhile, or is not a memfd and so no ledger.
            Self::Files(paths) => paths.iter().find_map(|path| found(open_memfd(path).ok()?, path, process, machine)),
            Self::Mapping(start, end) => {
                let directory = root.proc.join(process.key.pid.to_string());
                let path = directory.join(format!("map_files/{start:x}-{end:x}"));
                match open_memfd(&path) {
                    // Reading memory may block on a file system that never answers. So only memory of this user's own processes is read. A
                    // user who may follow the link opens the mapped file instead.
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

/// Returns whether a link target is a ledger. Only a memfd of that name is shown as deleted and without a directory.
pub(crate) fn names_ledger(target: &Path) -> bool {
    target.to_str().and_then(|text| text.strip_prefix("/memfd:")?.strip_suffix(" (deleted)")) == Some(NAME)
}

/// Parses a line of `/proc/PID/maps`: `7f00-7f40 rw-s 00000000 00:01 1234  /memfd:ttmon-ledger (deleted)`.
pub(super) fn parse_mapping(line: &str) -> Option<(u64, u64)> {
    let (range, rest) = line.split_once(' ')?;
    names_ledger(Path::new(&rest[rest.find('/')?..])).then_some(())?;
    let (start, end) = range.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    (start < end).then_some((start, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_that_come_too_late_do_not_show_that_there_is_no_ledger() {
        let hint = |reply: Reply| LedgerHint::in_mappings(Some(&reply));
        assert_eq!(hint(Err(Failure::Timeout)), LedgerHint::NoFile);
        assert_eq!(hint(Err(Failure::Errno(13))), LedgerHint::Denied);
        assert_eq!([hint(Err(Failure::Errno(3))), hint(Ok(b"0\n".to_vec()))], [LedgerHint::Nothing, LedgerHint::Nothing]);
    }
}
