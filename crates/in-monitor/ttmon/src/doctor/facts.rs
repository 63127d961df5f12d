//! Input of the rules.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::{getegid, geteuid, getgroups};
use ttmon_collect::Root;
use ttmon_model::Snapshot;
use ttmon_model::identity::{Bdf, DeviceId};
use ttmon_model::units::{UnixTime, Version};

/// The PCI vendor of Tenstorrent.
const VENDOR: &str = "0x1e52";

/// Input of the rules. `None` means unknown; the rule then prints nothing.
#[derive(Debug)]
pub(crate) struct Facts {
    /// The devices and their processes, or the reason why there is no snapshot.
    pub(crate) snapshot: Result<Snapshot, ttmon_collect::Error>,
    /// Whether the driver's module is loaded.
    pub(crate) is_driver_loaded: bool,
    /// Tenstorrent's devices on the PCI bus.
    pub(crate) bus: Vec<PciDevice>,
    /// The device files.
    pub(crate) nodes: Vec<Node>,
    /// Reserved 1 GB pages of the kernel.
    pub(crate) huge_pages: Option<u64>,
    /// Version of the kernel.
    pub(crate) kernel: Option<Version>,
    /// Yama's `ptrace_scope`.
    pub(crate) ptrace_scope: Option<u64>,
    /// Wall-clock time.
    pub(crate) time: UnixTime,
    /// Room in /dev/shm.
    pub(crate) shared_memory: Option<Space>,
    /// Whether anonymous shared memory can be created; if not, why.
    pub(crate) memfd: Option<Result<(), rustix::io::Errno>>,
    /// The library that `ttmon run` preloads, or the reason why it is missing, with a remedy.
    pub(crate) library: Option<Result<PathBuf, String>>,
    /// The Python of this user.
    pub(crate) python: Option<Python>,
    /// The service of this host.
    pub(crate) service: Option<Service>,
}

/// A device on the PCI bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PciDevice {
    /// Its address.
    pub(crate) bdf: Bdf,
    /// The driver that it is bound to.
    pub(crate) driver: Option<String>,
    /// The type of its IOMMU group: `DMA`, `DMA-FQ`, `identity`. `None`: the IOMMU is off.
    pub(crate) iommu: Option<String>,
}

/// A device file. It is never opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// The device.
    pub(crate) id: DeviceId,
    /// Whether this user may open it.
    pub(crate) is_accessible: bool,
    /// Its file mode.
    pub(crate) mode: u32,
}

/// Capacity of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    /// Total bytes.
    pub(crate) total: u64,
    /// Free bytes.
    pub(crate) free: u64,
}

/// A Python installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Python {
    /// Its version.
    pub(crate) version: String,
    /// The version of its ttnn package.
    pub(crate) ttnn: Option<String>,
}

/// The service of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// Not running.
    None,
    /// The service answers.
    Answers {
        /// Address of the service.
        place: String,
    },
    /// The socket exists, but the service does not answer.
    Silent {
        /// Address of the service.
        place: String,
        /// Reason.
        reason: String,
    },
}

impl Facts {
    /// Reads files below `root`. Facts that only the running program can determine stay `None`.
    pub(crate) fn read(root: &Root, snapshot: Result<Snapshot, ttmon_collect::Error>, time: UnixTime) -> Self {
        let number = |path: PathBuf| line(&path).and_then(|text| text.parse().ok());
        Self {
            snapshot,
            is_driver_loaded: root.sys.join("module/tenstorrent").exists(),
            bus: bus(&root.sys.join("bus/pci/devices")),
            nodes: nodes(&root.devices),
            huge_pages: number(root.sys.join("kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages")),
            kernel: line(&root.proc.join("sys/kernel/osrelease")).as_deref().and_then(Version::parse),
            ptrace_scope: number(root.proc.join("sys/kernel/yama/ptrace_scope")),
            time,
            shared_memory: None,
            memfd: None,
            library: None,
            python: None,
            service: None,
        }
    }

    /// Adds facts that system calls of this process provide.
    pub(crate) fn with_kernel(mut self, root: &Root) -> Self {
        self.shared_memory = rustix::fs::statvfs(&root.dev_shm)
            .ok()
            .map(|found| Space { total: found.f_blocks * found.f_frsize, free: found.f_bavail * found.f_frsize });
        let created = rustix::fs::memfd_create("ttmon-doctor", rustix::fs::MemfdFlags::CLOEXEC);
        self.memfd = Some(created.map(drop));
        self
    }
}

/// Reads the first line of a small file.
fn line(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()?.lines().next().map(|line| line.trim().to_owned())
}

fn bus(directory: &Path) -> Vec<PciDevice> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| line(&entry.path().join("vendor")).as_deref() == Some(VENDOR));
    let device = |path: PathBuf| {
        let bdf = path.file_name()?.to_str()?.parse().ok()?;
        let driver = fs::read_link(path.join("driver")).ok().and_then(|link| Some(link.file_name()?.to_str()?.to_owned()));
        Some(PciDevice { bdf, driver, iommu: line(&path.join("iommu_group/type")) })
    };
    let mut found: Vec<PciDevice> = ours.filter_map(|entry| device(entry.path())).collect();
    found.sort_by_key(|device| device.bdf);
    found
}

fn nodes(directory: &Path) -> Vec<Node> {
    let user = geteuid().as_raw();
    let groups: Vec<u32> = getgroups().unwrap_or_default().into_iter().chain([getegid()]).map(|group| group.as_raw()).collect();
    let node = |entry: fs::DirEntry| {
        let id = DeviceId(entry.file_name().to_str()?.parse().ok()?);
        let found = fs::symlink_metadata(entry.path()).ok()?;
        let mode = found.mode() & 0o777;
        let bits = match () {
            () if found.uid() == user => mode >> 6,
            () if groups.contains(&found.gid()) => mode >> 3,
            () => mode,
        };
        Some(Node { id, is_accessible: user == 0 || bits & 0o6 == 0o6, mode })
    };
    let mut found: Vec<Node> = fs::read_dir(directory).into_iter().flatten().flatten().filter_map(node).collect();
    found.sort_by_key(|node| node.id);
    found
}
