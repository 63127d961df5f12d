//! Answers to queries, for all sources and all processes, merged by the same rules as every other output.
//!
//! Other sources are read by a periodic [sample](Sample). Reports over the socket are read from the ledgers at the time of the query. A
//! [`Plan`] defines which of the two applies for each process, chip and kind. It is derived from a snapshot, so that these decisions are
//! made in one place.

use std::collections::HashMap;
use std::sync::Arc;

use crate::protocol::{DeviceInfo, Usage};
use ttmon_ledger::layout::kind;
use ttmon_ledger::writer::AllocatorId;
use ttmon_model::identity::{DeviceId, ProcessKey};
use ttmon_model::ledger::{BufferKind, Ledger, LedgerAllocator, LedgerChip, LedgerRow, LedgerSample, LedgerWriter, VisibleDevices};
use ttmon_model::memory::Figure;
use ttmon_model::sample::{ProcessSample, Workload};
use ttmon_model::snapshot::{Device, State};
use ttmon_model::units::UnixTime;
use ttmon_model::{Arch, Kind, Missing, PerKind, Sample, Snapshot, Source, numbering};

use crate::owner::{ProcessView, Tracked};
use crate::work::Sources;

/// A process that reported something over the socket.
pub(crate) struct ReportingProcess<'a> {
    pub(crate) number: u64,
    pub(crate) key: ProcessKey,
    pub(crate) view: &'a ProcessView,
    pub(crate) tracked: &'a Tracked,
}

/// The ledger rows that hold a process's bytes of one kind.
#[derive(Clone, Copy, Debug)]
struct Live {
    process: u64,
    allocator: AllocatorId,
    kind: Kind,
}

/// The memory of a device, or of a device number without a device.
#[derive(Clone, Debug, Default)]
struct MemoryTarget {
    /// Bytes reported by other sources, per kind.
    base: [u64; 6],
    live: Vec<Live>,
}

/// The view of a querying process about which nothing is known: all devices.
pub(crate) const EVERYTHING: ProcessView = ProcessView { visible: VisibleDevices::All, is_mock: false };

pub(crate) struct Querier {
    /// `None` if the process is not visible from here.
    pub(crate) process: Option<ProcessKey>,
    pub(crate) view: ProcessView,
}

/// Device numbers of TT-Metal, and their devices.
type Numbers = Vec<(u64, DeviceId)>;

/// Which source applies for which memory.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    devices: Vec<(DeviceId, DeviceInfo)>,
    targets: HashMap<DeviceId, MemoryTarget>,
    /// Memory with a device number that matches no device, with the process that reported it.
    unmapped: HashMap<u64, Vec<(ProcessKey, ProcessView, MemoryTarget)>>,
    /// Device numbers, by the set of visible devices.
    numbers: Vec<(VisibleDevices, Option<Numbers>)>,
    sources: Option<Arc<Sources>>,
}

/// Maximum number of views whose device numbers are cached.
const VIEWS_MAX: usize = 64;

impl Plan {
    /// Builds the plan for these processes and the last sample of other sources.
    pub(crate) fn new(sources: Option<&Arc<Sources>>, reporting: &[ReportingProcess<'_>]) -> Self {
        let mut plan = Self { sources: sources.cloned(), ..Self::default() };
        let mut whole = sources.map_or_else(empty, |sources| sources.sample.clone());
        whole.ledgers.retain(|ledger| !ledger.content.as_ref().is_ok_and(|ledger| ledger.writer == LedgerWriter::Service));
        for reporting in reporting {
            if !whole.processes.iter().any(|process| process.key == reporting.key) {
                whole.processes.push(bystander(reporting.key));
            }
            whole.ledgers.push(LedgerSample { owner: reporting.key, content: Ok(outline(reporting)) });
        }
        let snapshot = Snapshot::derive(&whole, None);
        plan.devices = snapshot.devices.iter().map(|device| (device.id, info(device))).collect();
        for process in &snapshot.processes {
            let reporting = reporting.iter().find(|reporting| reporting.key == process.key);
            let on_devices = process.devices.iter().map(|on| (Ok(on.device), &on.kinds));
            let unmapped = process.unmapped.iter().map(|on| (Err(on.id), &on.kinds));
            for (target, kinds) in on_devices.chain(unmapped) {
                let memory = plan.memory_of(reporting, target, kinds);
                match target {
                    Ok(device) => plan.targets.entry(device).or_default().add(&memory),
                    Err(number) => {
                        let view = reporting.map_or_else(|| view_of(&whole, process.key), |reporting| reporting.view.clone());
                        plan.unmapped.entry(number).or_default().push((process.key, view, memory));
                    }
                }
            }
        }
        plan
    }

    /// Returns the memory of a process on a device, or with a number that matches no device.
    fn memory_of(
        &mut self,
        reporting: Option<&ReportingProcess<'_>>,
        target: Result<DeviceId, u64>,
        kinds: &PerKind<Figure>,
    ) -> MemoryTarget {
        let (mut memory, mut reported) = (MemoryTarget::default(), Vec::new());
        if let Some(reporting) = reporting {
            for (device, allocator) in reporting.tracked.devices() {
                let given = u64::from(device.unsigned_abs());
                if self.device(reporting.view, *device).ok_or(given) == target {
                    reported.push((reporting, *allocator));
                }
            }
        }
        for (kind, figure) in kinds.iter() {
            match (figure.source, figure.used) {
                (Ok(Source::Server), _) => {
                    let used = reported.iter().filter(|(reporting, allocator)| reporting.tracked.hosted.is_used(*allocator, kind as u8));
                    memory.live.extend(used.map(|(reporting, allocator)| Live { process: reporting.number, allocator: *allocator, kind }));
                }
                (_, Ok(used)) => memory.base[kind as usize] = used,
                (_, Err(_)) => {}
            }
        }
        memory
    }

    /// Returns the device that a process means by a number. A process on mock chips means no device of this machine.
    fn device(&mut self, view: &ProcessView, number: i32) -> Option<DeviceId> {
        let number = u64::try_from(number).ok().filter(|_| !view.is_mock)?;
        self.seen(&view.visible)?.iter().find(|(metal_id, _)| *metal_id == number).map(|(_, id)| *id)
    }

    fn seen(&mut self, visible: &VisibleDevices) -> Option<&[(u64, DeviceId)]> {
        if !self.numbers.iter().any(|(known, _)| known == visible) {
            self.numbers.truncate(VIEWS_MAX - 1);
            let numbers = self.sources.as_ref().and_then(|sources| numbering(&sources.sample, visible));
            self.numbers.push((visible.clone(), numbers));
        }
        self.numbers.iter().find(|(known, _)| known == visible).and_then(|(_, numbers)| numbers.as_deref())
    }

    /// Returns the memory in use on the device that a querier means by a number; `None` if the device is unknown. For a number without a
    /// device, it is the memory of the querier and of processes that see the same devices.
    pub(crate) fn usage(&mut self, querier: &Querier, number: i32, bytes: impl Fn(u64, AllocatorId, u8) -> u64) -> Option<Usage> {
        let device = self.device(&querier.view, number);
        let mut memory = device.and_then(|device| self.targets.get(&device).cloned()).unwrap_or_default();
        let mut is_known = device.is_some();
        for (key, view, more) in u64::try_from(number).ok().and_then(|number| self.unmapped.get(&number)).into_iter().flatten() {
            let is_own = Some(*key) == querier.process;
            let sees_the_same = device.is_none() && *view == querier.view && !view.is_mock && view.visible != VisibleDevices::Cut;
            if is_own || sees_the_same {
                memory.add(more);
                is_known = true;
            }
        }
        if !is_known {
            return None;
        }
        let mut sums = memory.base;
        for live in &memory.live {
            let sum = &mut sums[live.kind as usize];
            *sum = sum.saturating_add(bytes(live.process, live.allocator, live.kind as u8));
        }
        let [dram, l1, l1_small, trace, cb, kernel] = sums;
        Some(Usage { dram, l1, l1_small, trace, cb, kernel })
    }

    /// Returns the capacity of the memory of a kind, on the device that `view` means by a number; `None` if not known.
    pub(crate) fn capacity(&mut self, view: &ProcessView, number: i32, kind: u8) -> Option<u64> {
        let device = self.device(view, number)?;
        let (_, info) = self.devices.iter().find(|(id, _)| *id == device)?;
        let bytes = match kind {
            kind::DRAM | kind::TRACE => info.dram_bytes,
            kind::L1 | kind::L1_SMALL => info.l1_bytes,
            _ => 0,
        };
        Some(bytes).filter(|bytes| *bytes > 0)
    }

    /// Describes the device that `view` means by a number; `None` if not known. If all devices without a number are alike, an unused number
    /// means one of them.
    pub(crate) fn info(&mut self, view: &ProcessView, number: i32) -> Option<DeviceInfo> {
        if let Some(device) = self.device(view, number) {
            return self.devices.iter().find(|(id, _)| *id == device).map(|(_, info)| *info);
        }
        let number = usize::try_from(number).ok().filter(|_| *view == EVERYTHING)?;
        let numbered: Vec<DeviceId> = self.seen(&view.visible)?.iter().map(|(_, id)| *id).collect();
        let mut others = self.devices.iter().filter(|(id, _)| !numbered.contains(id)).map(|(_, info)| *info);
        let first = others.next().filter(|_| number < self.devices.len())?;
        others.all(|other| other == first).then_some(first)
    }

    /// The number of devices that a peer sees.
    pub(crate) fn count(&mut self, view: &ProcessView) -> DeviceInfo {
        let all = self.devices.len();
        let devices = match &view.visible {
            VisibleDevices::All | VisibleDevices::Cut => all,
            visible @ VisibleDevices::Only(_) => self.seen(visible).map_or(all, <[_]>::len),
        };
        DeviceInfo { devices: u32::try_from(devices).unwrap_or(u32::MAX), is_available: devices > 0, ..DeviceInfo::default() }
    }
}

impl MemoryTarget {
    fn add(&mut self, more: &Self) {
        for (sum, more) in self.base.iter_mut().zip(more.base) {
            *sum = sum.saturating_add(more);
        }
        self.live.extend_from_slice(&more.live);
    }
}

/// How a process with its own ledger sees the machine. Not known if the ledger cannot be read.
fn view_of(sample: &Sample, owner: ProcessKey) -> ProcessView {
    let mut ledgers = sample.ledgers.iter().filter(|ledger| ledger.owner == owner).filter_map(|ledger| ledger.content.as_ref().ok());
    ledgers.next().map_or(ProcessView::UNKNOWN, |ledger| ProcessView { visible: ledger.visible_devices.clone(), is_mock: ledger.is_mock })
}

/// A sample of a machine about which nothing is known.
fn empty() -> Sample {
    Sample {
        at: std::time::Duration::ZERO,
        time: UnixTime(0),
        scan_age: std::time::Duration::ZERO,
        host: String::new(),
        origin: ttmon_model::sample::Origin::Local,
        driver: Err(Missing::NoSource),
        cluster: None,
        proven: Vec::new(),
        devices: Vec::new(),
        processes: Vec::new(),
        regions: Vec::new(),
        ledgers: Vec::new(),
        denied_processes: 0,
        problems: Vec::new(),
    }
}

/// A process that no other source reports. Only its key is used here.
fn bystander(key: ProcessKey) -> ProcessSample {
    ProcessSample {
        key,
        namespace_pid: key.pid,
        facts: Err(Missing::NoSource),
        command: Err(Missing::NoSource),
        workload: Workload::default(),
        fdinfo: Vec::new(),
    }
}

/// The layout of a process's memory without figures, which are read at each query.
fn outline(reporting: &ReportingProcess<'_>) -> Ledger {
    let hosted = &reporting.tracked.hosted;
    let row = |kind: Kind| LedgerRow::empty(BufferKind::Of(kind));
    let allocators = reporting.tracked.devices().iter().zip(0..).map(|((device, id), slot)| LedgerAllocator {
        slot,
        generation: 1,
        given_id: device.unsigned_abs(),
        origin: LedgerWriter::Service,
        chips: vec![LedgerChip { metal_id: Some(device.unsigned_abs()), unique_id: None }],
        rows: Kind::ALL.into_iter().filter(|kind| hosted.is_used(*id, *kind as u8)).map(row).collect(),
        ..LedgerAllocator::default()
    });
    Ledger {
        is_mock: reporting.view.is_mock,
        visible_devices: reporting.view.visible.clone(),
        allocators: allocators.collect(),
        ..Ledger::empty(LedgerWriter::Service)
    }
}

/// Converts a device to the protocol's description. Its channels are TT-Metal's banks.
fn info(device: &Device) -> DeviceInfo {
    let dram_bytes = device.memory.kinds[Kind::Dram].total.unwrap_or(0);
    let channel_bytes = device.arch.map_or(0, Arch::dram_bytes_per_bank);
    let arch = match device.arch {
        Ok(Arch::Grayskull) => 1,
        Ok(Arch::Wormhole) => 2,
        Ok(Arch::Blackhole) => 3,
        Err(_) => 0,
    };
    DeviceInfo {
        dram_bytes,
        l1_bytes: device.memory.kinds[Kind::L1].total.unwrap_or(0),
        arch,
        // The protocol has 0 for a number that is not known.
        dram_channels: dram_bytes.checked_div(channel_bytes).and_then(|channels| u32::try_from(channels).ok()).unwrap_or(0),
        dram_channel_bytes: if dram_bytes == 0 { 0 } else { channel_bytes },
        l1_bytes_per_core: device.arch.map_or(0, Arch::l1_bytes_per_core),
        is_available: device.state != State::Gone,
        devices: 0,
    }
}
