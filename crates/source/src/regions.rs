//! TT-Metal's statistics: found in `/dev/shm`, and in the `/dev/shm` of containers.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ttmon_model::identity::ProcessKey;
use ttmon_model::limits::REGIONS_MAX;
use ttmon_model::region::{self, Region};
use ttmon_model::sample::{Problem, ProcessSample, RegionSample};
use ttmon_model::{Missing, Reading};

use crate::device::from_errno;
use crate::read::{Failure, Pace, Reply, Request};
use crate::root::Root;

/// A region's file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    unique_id: u64,
    through: Option<ProcessKey>,
    path: PathBuf,
}

impl Found {
    /// Exactly the bytes of a region: a longer file is read as far as we know it.
    pub(crate) fn request(&self) -> Request {
        Request { path: self.path.clone(), bytes_max: REGION_FILE_BYTES_MAX, pace: Pace::Once }
    }

    /// What the file says.
    pub(crate) fn take(&self, reply: &Reply, problems: &mut Vec<Problem>) -> RegionSample {
        let content = match reply {
            Ok(bytes) => Region::parse(bytes),
            Err(Failure::Timeout) => Err(Missing::Timeout),
            Err(Failure::TooLong) => Err(Missing::Unparsable),
            // It was there a moment ago.
            Err(Failure::Errno(errno)) => Err(match from_errno(*errno) {
                Missing::NotExposed => Missing::Gone,
                reason => reason,
            }),
        };
        if let Err(reason) = &content
            && reason.is_problem()
        {
            let detail = match reason {
                Missing::NoPermission => "memory statistics of another user's programs; root may read them",
                Missing::Unparsable => "these are not TT-Metal's memory statistics in a version we know (2, 3 or 4)",
                _ => reason.explanation(),
            };
            problems.push(Problem { part: self.path.display().to_string(), reason: *reason, detail: detail.to_owned() });
        }
        RegionSample { unique_id: self.unique_id, through: self.through, content }
    }
}

/// A little more than a region, so that a file which has grown is still read and one that is something else is not.
const REGION_FILE_BYTES_MAX: usize = 4 * region::BYTES;

/// Regions of this machine.
pub(crate) fn list(root: &Root) -> Vec<Found> {
    list_in(&root.dev_shm, None)
}

fn list_in(directory: &Path, through: Option<ProcessKey>) -> Vec<Found> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut found: Vec<Found> = entries
        .flatten()
        .filter_map(|entry| {
            let unique_id = region::unique_id_of(entry.file_name().to_str()?)?;
            Some(Found { unique_id, through, path: entry.path() })
        })
        .take(REGIONS_MAX)
        .collect();
    found.sort_by_key(|found| found.unique_id);
    found
}

/// Regions that only processes in other mount namespaces see. Root may look; for others there is nothing to list.
pub(crate) fn list_in_containers(root: &Root, processes: &[ProcessSample]) -> Vec<Found> {
    let mounts_of = |name: &str| fs::read_link(root.proc.join(name).join("ns/mnt")).ok();
    let Some(ours) = mounts_of("self") else { return Vec::new() };
    let mut seen: BTreeSet<(u64, u64)> = identity(&root.dev_shm).into_iter().collect();
    let mut found = Vec::new();
    for process in processes {
        let pid = process.key.pid.to_string();
        if mounts_of(&pid).is_none_or(|theirs| theirs == ours) {
            continue;
        }
        let directory = root.proc.join(pid).join("root/dev/shm");
        if identity(&directory).is_ok_and(|identity| seen.insert(identity)) {
            found.extend(list_in(&directory, Some(process.key)));
        }
    }
    found
}

fn identity(directory: &Path) -> Reading<(u64, u64)> {
    let metadata = fs::metadata(directory).map_err(|_| Missing::NoPermission)?;
    Ok((metadata.dev(), metadata.ino()))
}
