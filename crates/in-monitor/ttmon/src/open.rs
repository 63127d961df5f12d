//! Opens the machine that a command reads: the real one, a simulated one, or one below a directory.

use std::path::{Path, PathBuf};

use ttmon_buffer_history::Scene;
use ttmon_collect::ledgers::LedgerDetail;
use ttmon_collect::reads::Sampling;
use ttmon_collect::{Isolation, LedgerScope, Ledgers, Machine, Options, ProcessStat, Root, read_cluster};
use ttmon_model::cluster::Cluster;
use ttmon_model::sample::Origin;
use ttmon_model::select::Selection;
use ttmon_model::{DeviceId, Sample, Snapshot};
use ttmon_sim::{Simulation, StartError};

use crate::config;
use crate::failure::Failure;
use crate::invocation::{CliTarget, Context};
use crate::serve::state_directories;

/// The executable that is started to read chips with `--deep`: ttmon itself.
pub(crate) const READER_PROGRAM: &str = "/proc/self/exe";

/// What is read from a machine.
#[derive(Clone, Copy)]
pub(crate) struct MachineRequest {
    pub(crate) sampling: Sampling,
    pub(crate) processes: bool,
    pub(crate) detail: LedgerDetail,
    pub(crate) scope: LedgerScope,
}

impl MachineRequest {
    /// Requests the devices, the processes that hold them, and the totals of their ledgers.
    pub(crate) fn new(sampling: Sampling) -> Self {
        Self { sampling, processes: true, detail: LedgerDetail::Totals, scope: LedgerScope::Holders }
    }

    /// Like `new`, but also requests the ledger of this process, or those of all processes.
    pub(crate) fn with_ledgers_of(sampling: Sampling, pid: Option<u32>) -> Self {
        Self { scope: pid.map_or(LedgerScope::Everybody, LedgerScope::Process), ..Self::new(sampling) }
    }
}

/// A machine that is not opened yet: its root, how to read it, and its simulation if it is simulated.
pub(crate) struct MachineConfig {
    pub(crate) root: Root,
    pub(crate) options: Options,
    pub(crate) simulation: Option<Simulation>,
}

impl MachineConfig {
    /// Starts the simulation if there is one.
    pub(crate) fn new(context: &Context, request: MachineRequest) -> Result<Self, Failure> {
        let MachineRequest { sampling, processes, detail, scope } = request;
        let cluster = context.cluster.as_deref().map(cluster).transpose()?;
        let simulation = match &context.target {
            CliTarget::Simulated(spec, seed) => Some(Simulation::start(spec, *seed).map_err(|error| match error {
                StartError::Spec(error) => Failure::usage(format!("--sim: {error}")),
                error => Failure::new(error),
            })?),
            CliTarget::Real | CliTarget::Below(_) => None,
        };
        let root = match (&context.target, &simulation) {
            (CliTarget::Below(directory), _) => Root::at(directory),
            (_, Some(simulation)) => Root::simulated(simulation.root()),
            (_, None) => Root::real().with_served(state_directories()).with_saved_cluster(config::directory()),
        };
        let origin = if simulation.is_some() { Origin::Sim } else { Origin::Local };
        let read_timeout = context.read_timeout;
        let machine = simulation.as_ref().map_or(0, Simulation::mark);
        let ledgers = Ledgers { detail, scope, machine };
        let deep = context.deep.then(|| PathBuf::from(READER_PROGRAM));
        let options =
            Options { read_timeout, sampling, isolation: Isolation::Process, origin, cluster, processes, ledgers, slots: None, deep };
        Ok(Self { root, options, simulation })
    }
}

pub(crate) fn cluster(path: &Path) -> Result<Cluster, Failure> {
    read_cluster(path).map_err(|error| Failure::new(format!("--cluster {}: {error}", path.display())))
}

/// An open machine, and its simulation if it is simulated.
pub(crate) struct OpenMachine {
    pub(crate) machine: Machine,
    selection: Selection,
    proc: PathBuf,
    previous: Option<Sample>,
    // Dropped last: the simulated tree outlives its reader.
    simulation: Option<Simulation>,
}

impl OpenMachine {
    /// Starts the simulation if there is one, and the reading process.
    pub(crate) fn new(context: &Context, request: MachineRequest) -> Result<Self, Failure> {
        let MachineConfig { root, options, simulation } = MachineConfig::new(context, request)?;
        let proc = root.proc.clone();
        let machine = Machine::new(root, options)?;
        Ok(Self { machine, proc, selection: context.selection.clone(), previous: None, simulation })
    }

    /// Takes a snapshot of the selected devices. Rates are computed from the previous sample.
    pub(crate) fn snapshot(&mut self) -> Result<Snapshot, Failure> {
        let snapshot = self.whole()?;
        choose(&self.selection, snapshot)
    }

    /// Takes a snapshot of all devices. Rates are computed from the previous sample.
    pub(crate) fn whole(&mut self) -> Result<Snapshot, Failure> {
        let sample = self.machine.sample()?;
        // Release freed memory before the snapshot makes a second list of the same length.
        if sample.ledgers.iter().filter_map(|ledger| ledger.content.as_ref().ok()).any(|ledger| ledger.is_listed) {
            ttmon_os::release_freed_memory();
        }
        let snapshot = Snapshot::derive(&sample, self.previous.as_ref());
        self.previous = Some(sample);
        Ok(snapshot)
    }

    /// Calls `read` with the data for buffer events and the selected devices; an empty list means all devices. Returns `None` before the
    /// first sample.
    pub(crate) fn with_scene<T>(
        &self,
        snapshot: &Snapshot,
        pid: Option<u32>,
        read: impl FnOnce(&Scene<'_>, &[DeviceId]) -> T,
    ) -> Option<T> {
        let sample = self.previous.as_ref()?;
        let (present, departed) = (self.machine.ledgers(), self.machine.departed());
        if self.selection.is_empty() {
            return Some(read(&Scene { sample, snapshot, present, departed, pid, most: usize::MAX }, &[]));
        }
        // An event names all devices of its allocator, so this snapshot must have all devices.
        let whole = Snapshot::derive(sample, None);
        let selected: Vec<DeviceId> = snapshot.devices.iter().map(|device| device.id).collect();
        Some(read(&Scene { sample, snapshot: &whole, present, departed, pid, most: usize::MAX }, &selected))
    }

    pub(crate) fn has_process(&self, pid: u32) -> bool {
        ProcessStat::of(&self.proc, pid).is_some_and(|stat| !stat.has_ended)
    }

    /// Returns the parts for a caller that reads the machine in another thread. The simulation must outlive the machine.
    pub(crate) fn into_parts(self) -> (Machine, Selection, PathBuf, Option<Simulation>) {
        (self.machine, self.selection, self.proc, self.simulation)
    }
}

/// Keeps only the selected devices. Fails if one of them does not exist.
pub(crate) fn choose(selection: &Selection, mut snapshot: Snapshot) -> Result<Snapshot, Failure> {
    selection.check(&snapshot).map_err(Failure::no_device)?;
    selection.apply(&mut snapshot);
    Ok(snapshot)
}
