//! Where the files are: the only place that knows paths outside a device's own directory.

use std::ffi::OsString;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ttmon_model::DeviceId;
use ttmon_reads::directory;
use ttmon_reads::faults::{Fault, Faults};

/// The directories a machine is read from.
#[derive(Clone, Debug)]
pub struct Root {
    /// `/sys`
    pub sys: PathBuf,
    /// `/proc/driver/tenstorrent`
    pub driver: PathBuf,
    /// `/proc`
    pub proc: PathBuf,
    /// `/dev/shm`
    pub dev_shm: PathBuf,
    /// `/dev/tenstorrent`. Nothing below it is opened without `--deep`.
    pub devices: PathBuf,
    /// `/etc/passwd`
    pub passwd: PathBuf,
    /// The socket of systemd's user database: `/run/systemd/userdb/io.systemd.Multiplexer`
    pub userdb: PathBuf,
    /// `/usr/bin/getent`, of this machine alone: a program below another directory is not run.
    pub getent: Option<PathBuf>,
    /// Where a node of Kubernetes keeps the logs of pods: `/var/log/pods`
    pub pod_logs: PathBuf,
    /// `/var/log/containers`
    pub container_logs: PathBuf,
    /// Where Docker keeps its containers: `/var/lib/docker/containers`
    pub docker: PathBuf,
    /// Podman's lists of containers.
    pub podman: Vec<PathBuf>,
    /// Where services keep what they heard on their allocation sockets: `/run/ttmon/state`, and others.
    pub served: Vec<PathBuf>,
    /// Where a cluster descriptor may have been saved: `/etc/ttmon/cluster_descriptor.yaml`, and others.
    pub saved_clusters: Vec<PathBuf>,
    /// Where UMD leaves cluster descriptors behind: `/tmp`.
    pub temporary: PathBuf,
    /// The directory that stands for `/`, where it is not `/` itself: errors may be injected below it.
    pub(crate) base: Option<PathBuf>,
}

impl Root {
    /// This machine.
    pub fn real() -> Self {
        Self { getent: Some(PathBuf::from("/usr/bin/getent")), ..Self::below(Path::new("/"), None) }
    }

    /// The same with other directories where services keep what they heard.
    pub fn with_served(self, served: Vec<PathBuf>) -> Self {
        Self { served, ..self }
    }

    /// The same with a user's own directory in which a cluster descriptor may have been saved.
    pub fn with_saved_cluster(mut self, directory: Option<PathBuf>) -> Self {
        self.saved_clusters.extend(directory.map(|directory| directory.join("cluster_descriptor.yaml")));
        self
    }

    /// A whole machine below a directory; nothing outside is read.
    pub fn at(directory: &Path) -> Self {
        Self::below(directory, Some(directory.to_owned()))
    }

    /// Simulated devices below a directory, with the real machine's processes and users.
    pub fn simulated(directory: &Path) -> Self {
        let Self { proc, passwd, userdb, getent, pod_logs, container_logs, docker, podman, .. } = Self::real();
        Self { proc, passwd, userdb, getent, pod_logs, container_logs, docker, podman, ..Self::at(directory) }
    }

    /// Whether the devices are simulated and the processes are real.
    pub(crate) fn is_simulated(&self) -> bool {
        self.base.as_ref().is_some_and(|base| !self.proc.starts_with(base))
    }

    /// Where the chips themselves are: device nodes, or images of simulated chips. The second is whether they are simulated.
    pub(crate) fn chips(&self) -> (PathBuf, bool) {
        match &self.base {
            Some(base) if self.is_simulated() => (base.join(".ttmon-chips"), true),
            _ => (self.devices.clone(), false),
        }
    }

    fn below(directory: &Path, base: Option<PathBuf>) -> Self {
        Self {
            sys: directory.join("sys"),
            driver: directory.join("proc/driver/tenstorrent"),
            proc: directory.join("proc"),
            dev_shm: directory.join("dev/shm"),
            devices: directory.join("dev/tenstorrent"),
            passwd: directory.join("etc/passwd"),
            userdb: directory.join("run/systemd/userdb/io.systemd.Multiplexer"),
            getent: None,
            pod_logs: directory.join("var/log/pods"),
            container_logs: directory.join("var/log/containers"),
            docker: directory.join("var/lib/docker/containers"),
            podman: [
                "var/lib/containers/storage/overlay-containers/containers.json",
                "var/lib/containers/storage/overlay-containers/volatile-containers.json",
                "run/containers/storage/overlay-containers/volatile-containers.json",
            ]
            .map(|path| directory.join(path))
            .into(),
            served: vec![directory.join("run/ttmon/state")],
            saved_clusters: vec![directory.join("etc/ttmon/cluster_descriptor.yaml")],
            temporary: directory.join("tmp"),
            base,
        }
    }

    /// The devices that the driver lists now; none where it lists nothing.
    pub fn device_ids(&self) -> Vec<DeviceId> {
        crate::device::list(self).unwrap_or_default()
    }

    /// The driver's class directory.
    pub(crate) fn class(&self) -> PathBuf {
        self.sys.join("class/tenstorrent")
    }

    /// The devices on the PCI bus.
    pub(crate) fn pci(&self) -> PathBuf {
        self.sys.join("bus/pci/devices")
    }

    /// Names in a directory, sorted; an injected error counts as the directory's own.
    pub(crate) fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        if let Some(Fault::Errno(errno)) = self.faults().find(directory) {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let mut names = Vec::new();
        directory::names(directory, |name| {
            names.push(name.to_owned());
            ControlFlow::Continue(())
        })?;
        names.sort_unstable();
        Ok(names)
    }

    /// The numbers of all processes, in order, read without a piece of memory for each name.
    pub(crate) fn pids(&self) -> io::Result<Vec<u32>> {
        if let Some(Fault::Errno(errno)) = self.faults().find(&self.proc) {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let mut pids: Vec<u32> = Vec::new();
        directory::names(&self.proc, |name| {
            pids.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
            ControlFlow::Continue(())
        })?;
        pids.sort_unstable();
        Ok(pids)
    }

    /// The injected errors as they are now.
    pub(crate) fn faults(&self) -> Faults {
        self.base.as_deref().map(Faults::load).unwrap_or_default()
    }
}
