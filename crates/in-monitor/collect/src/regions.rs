//! TT-Metal's statistics, found in `/dev/shm` and in the `/dev/shm` of containers.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use ttmon_model::Missing;
use ttmon_model::identity::ProcessKey;
use ttmon_model::problems::Problems;
use ttmon_model::region::{self, Region};
use ttmon_model::sample::{Problem, RegionSample};

use crate::budget::{Budget, Resource};
use crate::machine::unread;
use crate::reads::{Failure, Owner, Reply, Request, Sampling, Want, directory};
use crate::root::Root;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RegionFile {
    unique_id: u64,
    through: Option<ProcessKey>,
    path: PathBuf,
}

impl RegionFile {
    /// Returns the request for the file. The directory also has files of other users, so only a regular file of limited size is read. A
    /// newer version may have appended fields to the region.
    pub(crate) fn request(&self, sampling: Sampling) -> Request {
        Request { path: self.path.clone(), want: Want::PlainFile, bytes_max: REGION_FILE_BYTES_MAX, sampling }
    }

    /// Parses the file. Returns the region and the owner of the file.
    pub(crate) fn take(&self, reply: &Reply, problems: &mut Problems) -> (RegionSample, u32) {
        let (owner, writer, content) = match reply {
            Ok(bytes) => {
                let (owner, content) = Owner::split(bytes);
                (owner.map_or(0, |owner| owner.uid), owner.and_then(Owner::only_writer), Region::parse(content))
            }
            Err(failure) => {
                let reason = Missing::from(*failure);
                // The file existed when the directory was listed.
                (0, None, Err(if reason == Missing::NotExposed { Missing::Gone } else { reason }))
            }
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

    /// Returns the owner of a file that could not be read. Returns `None` for a file in a container, whose file system may never answer.
    fn owner(&self) -> Option<u32> {
        // A file that was removed meanwhile has no owner.
        let of_host = self.through.is_none().then(|| fs::symlink_metadata(&self.path).ok()).flatten();
        of_host.map(|metadata| metadata.uid())
    }
}

/// Larger than a region: a file that has grown is still read, and a file of another kind is not.
const REGION_FILE_BYTES_MAX: usize = 4 * region::BYTES;

/// Maximum length of the list of names in `/dev/shm`, in bytes.
const NAMES_BYTES_MAX: usize = 256 * 1024;

/// Lists the regions of this machine, within the limits of the users who own the files. The host's `/dev/shm` is a kernel file system that
/// does not hang. In a container it may be any file system.
pub(crate) fn list(root: &Root, budget: &mut Budget) -> io::Result<Vec<RegionFile>> {
    let mut regions: Vec<RegionFile> = Vec::new();
    directory::first_names(&root.dev_shm, usize::MAX, |name| {
        if let Some(unique_id) = name.to_str().and_then(region::unique_id_of) {
            let path = root.dev_shm.join(name);
            let owner = || fs::symlink_metadata(&path).map_or(0, |metadata| metadata.uid());
            if budget.take(Resource::Regions, 1, owner).is_some() {
                regions.push(RegionFile { unique_id, through: None, path });
            } else {
                budget.cut(owner(), Resource::Regions, 1);
            }
        }
    })?;
    regions.sort_by_key(|region| region.unique_id);
    Ok(regions)
}

/// Returns `DEVICE:INODE` of this machine's `/dev/shm`, to recognize a container that shares it.
pub(crate) fn identity(root: &Root) -> Option<String> {
    fs::metadata(&root.dev_shm).ok().map(|metadata| format!("{}:{}", metadata.dev(), metadata.ino()))
}

/// The `/dev/shm` of a process in another mount namespace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SharedMemoryDirectory {
    through: ProcessKey,
    directory: PathBuf,
}

/// Returns the number of the mount namespace of a process or `self`. Root may read all, other users only those of their processes.
pub(crate) fn mounts(root: &Root, process: &str) -> Option<u64> {
    let link = fs::read_link(root.proc.join(process).join("ns/mnt")).ok()?;
    link.to_str()?.strip_prefix("mnt:[")?.strip_suffix(']')?.parse().ok()
}

/// Returns the directory with the regions of a process in another mount namespace.
pub(crate) fn of_container(root: &Root, process: ProcessKey) -> SharedMemoryDirectory {
    SharedMemoryDirectory { through: process, directory: root.proc.join(process.pid.to_string()).join("root/dev/shm") }
}

impl SharedMemoryDirectory {
    /// Returns the request to list the directory.
    pub(crate) fn request(&self) -> Request {
        Request { path: self.directory.clone(), want: Want::Names, bytes_max: NAMES_BYTES_MAX, sampling: Sampling::Once }
    }

    /// Returns the identity of the directory (see [`identity`]) and its regions. Returns `None` for a container without shared memory, and
    /// if the directory cannot be read. A directory that does not answer is a problem.
    pub(crate) fn take(&self, reply: &Reply, problems: &mut Problems) -> Option<(String, Vec<RegionFile>)> {
        if *reply == Err(Failure::Timeout) {
            problems.list.push(unread(&self.directory, Failure::Timeout));
        }
        let text = String::from_utf8_lossy(reply.as_ref().ok()?);
        let mut lines = text.lines();
        let (identity, _) = lines.next()?.split_once(' ')?;
        let found = |name: &str| {
            let unique_id = region::unique_id_of(name)?;
            Some(RegionFile { unique_id, through: Some(self.through), path: self.directory.join(name) })
        };
        let mut regions: Vec<RegionFile> = lines.filter_map(found).collect();
        regions.sort_by_key(|region| region.unique_id);
        Some((identity.to_owned(), regions))
    }

    /// Returns the pid of the process through which the directory was found.
    pub(crate) fn pid(&self) -> u32 {
        self.through.pid
    }
}
