//! TT-Metal's statistics: found in `/dev/shm`, and in the `/dev/shm` of containers.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use ttmon_model::Missing;
use ttmon_model::identity::ProcessKey;
use ttmon_model::problems::Problems;
use ttmon_model::region::{self, Region};
use ttmon_model::sample::{Problem, RegionSample};

use crate::budget::{Budget, Resource};
use crate::root::Root;
use ttmon_reads::directory;
use ttmon_reads::{Owner, Pace, Reply, Request, Want};

/// A region's file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RegionFile {
    unique_id: u64,
    through: Option<ProcessKey>,
    path: PathBuf,
}

impl RegionFile {
    /// A region, and any plain additions of a newer version after it: the directory also has other users' files.
    pub(crate) fn request(&self, pace: Pace) -> Request {
        Request { path: self.path.clone(), want: Want::PlainFile, bytes_max: REGION_FILE_BYTES_MAX, pace }
    }

    /// What the file says, and its owner.
    pub(crate) fn take(&self, reply: &Reply, problems: &mut Problems) -> (RegionSample, u32) {
        let (owner, writer, content) = match reply {
            Ok(bytes) => {
                let (owner, content) = Owner::split(bytes);
                (owner.map_or(0, |owner| owner.uid), owner.and_then(Owner::only_writer), Region::parse(content))
            }
            Err(failure) => (
                0,
                None,
                Err(match Missing::from(*failure) {
                    // It existed just before.
                    Missing::NotExposed => Missing::Gone,
                    reason => reason,
                }),
            ),
        };
        if let Err(reason) = &content
            && reason.is_problem()
        {
            let detail = match reason {
                Missing::NoPermission => "memory statistics of another user's programs; root may read them",
                Missing::IoError => "not a plain file, or not readable",
                Missing::Unparsable => "these are not TT-Metal's memory statistics in a version we know (2, 3 or 4)",
                _ => reason.explanation(),
            };
            let problem = Problem { part: self.path.display().to_string(), reason: *reason, detail: detail.to_owned() };
            problems.push_of(reply.is_ok().then_some(owner).or_else(|| self.owner()), detail, problem);
        }
        (RegionSample { unique_id: self.unique_id, through: self.through, writer, content }, owner)
    }
}

impl RegionFile {
    /// The owner of a file that could not be read. A container's file system may never answer.
    fn owner(&self) -> Option<u32> {
        let of_host = self.through.is_none().then(|| fs::symlink_metadata(&self.path).ok()).flatten();
        of_host.map(|metadata| metadata.uid())
    }
}

/// A little more than a region, so that a file which has grown is still read and one that is something else is not.
const REGION_FILE_BYTES_MAX: usize = 4 * region::BYTES;

/// Longest list of names in `/dev/shm` that is read, in bytes.
const NAMES_BYTES_MAX: usize = 256 * 1024;

/// Regions of this machine, as far as the owners of their files may have them. Its `/dev/shm` is the kernel's own and does not hang; a
/// container's may be anything.
pub(crate) fn list(root: &Root, budget: &mut Budget) -> Vec<RegionFile> {
    let mut regions: Vec<RegionFile> = Vec::new();
    let listed = directory::names(&root.dev_shm, |name| {
        if let Some(unique_id) = name.to_str().and_then(region::unique_id_of) {
            let path = root.dev_shm.join(name);
            let owner = || fs::symlink_metadata(&path).map_or(0, |metadata| metadata.uid());
            if budget.take(Resource::Regions, 1, owner).is_some() {
                regions.push(RegionFile { unique_id, through: None, path });
            } else {
                budget.cut(owner(), Resource::Regions, 1);
            }
        }
        ControlFlow::Continue(())
    });
    if listed.is_err() {
        return Vec::new();
    }
    regions.sort_by_key(|region| region.unique_id);
    regions
}

/// `DEVICE:INODE` of this machine's, to know a container that shares it.
pub(crate) fn identity(root: &Root) -> Option<String> {
    fs::metadata(&root.dev_shm).ok().map(|metadata| format!("{}:{}", metadata.dev(), metadata.ino()))
}

/// The `/dev/shm` of a process in another mount namespace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SharedMemoryDirectory {
    through: ProcessKey,
    directory: PathBuf,
}

/// The number of the mount namespace of a process, or of ourselves: `self`. Root may read it; other users see that of their own
/// processes alone.
pub(crate) fn mounts(root: &Root, process: &str) -> Option<u64> {
    let link = fs::read_link(root.proc.join(process).join("ns/mnt")).ok()?;
    link.to_str()?.strip_prefix("mnt:[")?.strip_suffix(']')?.parse().ok()
}

/// Where a process in another mount namespace has its regions.
pub(crate) fn of_container(root: &Root, process: ProcessKey) -> SharedMemoryDirectory {
    SharedMemoryDirectory { through: process, directory: root.proc.join(process.pid.to_string()).join("root/dev/shm") }
}

impl SharedMemoryDirectory {
    /// Lists it.
    pub(crate) fn request(&self) -> Request {
        Request { path: self.directory.clone(), want: Want::Names, bytes_max: NAMES_BYTES_MAX, pace: Pace::Once }
    }

    /// The regions there, and which directory it really is.
    pub(crate) fn take(&self, reply: &Reply) -> (String, Vec<RegionFile>) {
        let text = reply.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default();
        let mut lines = text.lines();
        let (identity, _) = lines.next().and_then(|line| line.split_once(' ')).unwrap_or_default();
        let found = |name: &str| {
            let unique_id = region::unique_id_of(name)?;
            Some(RegionFile { unique_id, through: Some(self.through), path: self.directory.join(name) })
        };
        let mut regions: Vec<RegionFile> = lines.filter_map(found).collect();
        regions.sort_by_key(|region| region.unique_id);
        (identity.to_owned(), regions)
    }

    /// The process it was found through.
    pub(crate) fn pid(&self) -> u32 {
        self.through.pid
    }
}
