//! The paths of all files outside a device's own directory. No other module defines them.

use std::io;
use std::path::{Path, PathBuf};

use ttmon_model::DeviceId;

use crate::machine::Options;
use crate::reads::{Lane, Pool, Sampling, directory};

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
    /// `/dev/tenstorrent`. Files below it are opened only with `--deep`.
    pub devices: PathBuf,
    /// `/etc/passwd`
    pub passwd: PathBuf,
    /// The socket of systemd's user database: `/run/systemd/userdb/io.systemd.Multiplexer`
    pub userdb: PathBuf,
    /// `/usr/bin/getent`. It is set only for the real machine: a program below another directory is never run.
    pub getent: Option<PathBuf>,
    /// The directory with the logs of pods on a Kubernetes node: `/var/log/pods`
    pub pod_logs: PathBuf,
    /// `/var/log/containers`
    pub container_logs: PathBuf,
    /// The directory with Docker's containers: `/var/lib/docker/containers`
    pub docker: PathBuf,
    /// Podman's lists of containers.
    pub podman: Vec<PathBuf>,
    /// The state directories of services, with the ledgers from their allocation sockets: `/run/ttmon/state`, and others.
    pub served: Vec<PathBuf>,
    /// Files in which a cluster descriptor may have been saved: `/etc/ttmon/cluster_descriptor.yaml`, and others.
    pub saved_clusters: Vec<PathBuf>,
    /// The directory in which UMD leaves cluster descriptors: `/tmp`.
    pub temporary: PathBuf,
    /// The directory that is used as `/`, if it is not `/` itself. Errors may be injected below it.
    pub(crate) base: Option<PathBuf>,
}

impl Root {
    /// Returns the paths of this machine.
    pub fn real() -> Self {
        Self { getent: Some(PathBuf::from("/usr/bin/getent")), ..Self::below(Path::new("/"), None) }
    }

    /// Replaces the state directories of services.
    pub fn with_served(self, served: Vec<PathBuf>) -> Self {
        Self { served, ..self }
    }

    /// Adds a user's directory in which a cluster descriptor may have been saved.
    pub fn with_saved_cluster(mut self, directory: Option<PathBuf>) -> Self {
        self.saved_clusters.extend(directory.map(|directory| directory.join("cluster_descriptor.yaml")));
        self
    }

    /// Returns the paths of a whole machine below a directory. No file outside is read.
    pub fn at(directory: &Path) -> Self {
        Self::below(directory, Some(directory.to_owned()))
    }

    /// Returns the paths of simulated devices below a directory, with the processes and users of the real machine.
    pub fn simulated(directory: &Path) -> Self {
        let Self { proc, passwd, userdb, getent, pod_logs, container_logs, docker, podman, .. } = Self::real();
        Self { proc, passwd, userdb, getent, pod_logs, container_logs, docker, podman, ..Self::at(directory) }
    }

    /// Returns whether the devices are simulated and the processes are real.
    pub(crate) fn is_simulated(&self) -> bool {
        self.base.as_ref().is_some_and(|base| !self.proc.starts_with(base))
    }

    /// Returns the directory of the device nodes or of the images of simulated chips, and whether the chips are simulated.
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

    /// Returns the devices that the driver lists now. Returns none if the list cannot be read in time.
    pub fn device_ids(&self) -> Vec<DeviceId> {
        let read_timeout = Options::default().read_timeout;
        let lane = Lane { key: 0, requests: [crate::device::list_request(self, Sampling::Once)].into() };
        let replies = Pool::new(read_timeout, self.base.clone()).read(vec![lane]).into_iter().flat_map(|lane| lane.replies);
        replies.flatten().flat_map(|names| crate::device::listed(&names)).collect()
    }

    pub(crate) fn class(&self) -> PathBuf {
        self.sys.join("class/tenstorrent")
    }

    /// Returns the entry of a device in the class directory.
    pub(crate) fn class_entry(&self, id: DeviceId) -> PathBuf {
        self.class().join(format!("tenstorrent!{id}"))
    }

    pub(crate) fn pci(&self) -> PathBuf {
        self.sys.join("bus/pci/devices")
    }

    /// Returns the pids of all processes, in order, without an allocation for each name.
    pub(crate) fn pids(&self) -> io::Result<Vec<u32>> {
        let mut pids: Vec<u32> = Vec::new();
        directory::first_names(&self.proc, usize::MAX, |name| {
            pids.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
        })?;
        pids.sort_unstable();
        Ok(pids)
    }
}
