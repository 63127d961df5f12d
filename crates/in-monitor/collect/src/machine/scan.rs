//! The scan: which processes use the devices, and for what. Other users decide how much there is to read.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ttmon_model::identity::{DeviceId, ProcessKey};
use ttmon_model::ledger::LedgerSample;
use ttmon_model::problems::Problems;
use ttmon_model::region::SLOTS;
use ttmon_model::sample::{Problem, ProcessSample, RegionSample, Users};
use ttmon_model::units::{UnixTime, Version};
use ttmon_model::{Missing, Reading, Sample, Source};

use super::devices::{DeviceList, Listed};
use super::granted::{self, Granted, ProcessReads};
use super::readers::Readers;
use super::remembered::{LedgerSearch, Refreshed, Remembered};
use super::tracking::Departed;
use super::{Error, LANE_OF_LISTS, LANE_OF_REGIONS, LANE_OF_STATS, LANE_OF_USERS, LedgerScope, Now, Options, unread};
use crate::budget::{Budget, ProcessCharge, Resource};
use crate::examined::Examined;
use crate::ledgers::{self, FreeBlocks, LedgerHint, OpenLedger};
use crate::naming::NameResolver;
use crate::process::{self, Program, Scale};
use crate::reads::{Failure, Lane, LaneReply, Reply, Request, Sampling, Want};
use crate::regions;
use crate::root::Root;
use crate::served;
use crate::users::{self, OpenFile};

/// Drivers before this version print no memory in `fdinfo`, so it is not read.
const FDINFO_NOT_BEFORE: Version = Version::new(2, 11, 0);
/// Since this version, the driver's list of users has the pids of this namespace.
const PIDS_OF_THIS_NAMESPACE: Version = Version::new(2, 7, 0);
const PASSWD_BYTES_MAX: usize = 4 * 1024 * 1024;

/// All state that other users can influence, from one scan to the next.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) root: Root,
    pub(super) options: Options,
    pub(super) passwd: Option<String>,
    names: NameResolver,
    pub(super) ledgers: Vec<Arc<OpenLedger>>,
    pub(super) free_blocks: FreeBlocks,
    /// Ledgers of processes that ended or became other programs since the last sample.
    pub(super) departed: Vec<Arc<Departed>>,
    /// Where to search for the ledgers of the processes of this sample.
    pub(super) hints: Vec<(ProcessKey, LedgerHint)>,
    /// Processes that were checked, so that a later sample checks only new ones. Processes without a ledger have their program.
    pub(super) swept: BTreeMap<u32, Option<Program>>,
    /// The pid at which the next repeated check continues.
    pub(super) next_again: u32,
    /// The processes that this user may not read.
    pub(super) denied: BTreeSet<u32>,
    pub(super) remembered: Remembered,
    /// Pids of the last sample that still have the same mappings, in order.
    pub(super) unchanged: Vec<u32>,
    /// Files of services that may be ledgers of processes.
    pub(super) served: Vec<served::ServedLedger>,
    pub(super) budget: Budget,
    pub(super) examined: Examined,
    /// Processes that were not examined because their user is at a limit.
    pub(super) unexamined: BTreeMap<u32, (u32, Resource)>,
    /// The regions of this machine, and the requests for them.
    regions: (Vec<regions::RegionFile>, Arc<[Request]>),
    /// Why the regions of this machine could not be listed.
    unlisted: Option<Failure>,
}

/// The results that are read before the processes.
struct First<'a> {
    users: &'a [Reading<Users>],
    open_files: &'a [OpenFile],
    /// The replies with the `stat` of known processes.
    stats: &'a [Reply],
    named: &'a BTreeSet<u32>,
}

pub(super) fn note_cut(unexamined: &mut BTreeMap<u32, (u32, Resource)>, pid: u32, hint: &LedgerHint) {
    if let LedgerHint::Cut(uid, resource) = hint {
        unexamined.insert(pid, (*uid, *resource));
    } else {
        unexamined.remove(&pid);
    }
}

fn is_listed(processes: &[ProcessSample], pid: u32) -> bool {
    processes.binary_search_by_key(&pid, |process| process.key.pid).is_ok()
}

/// Removes the processes that read chips for a ttmon (`--deep`). They do not use the device, and they start and end all the time.
fn drop_deep_readers(root: &Root, users: &mut [Reading<Users>], processes: &mut Vec<ProcessSample>) {
    processes.retain(|process| {
        let pid = process.key.pid;
        let may_be = process.facts.as_ref().is_ok_and(|facts| facts.name == ttmon_deep::READER_NAME);
        let is_reader = may_be && ttmon_deep::is_reader(&root.proc, pid);
        if is_reader {
            users.iter_mut().flatten().for_each(|users| users.pids.retain(|user| *user != pid));
        }
        !is_reader
    });
}

fn passwd_request(root: &Root) -> Request {
    Request { path: root.passwd.clone(), want: Want::Whole, bytes_max: PASSWD_BYTES_MAX, sampling: Sampling::Once }
}

/// The results of one scan.
#[derive(Debug, Default)]
pub struct Scanned {
    at: Duration,
    users: Vec<(DeviceId, Reading<Users>)>,
    processes: Vec<ProcessSample>,
    regions: Vec<RegionSample>,
    ledgers: Vec<LedgerSample>,
    denied_processes: u64,
    cuts: u64,
    problems: Vec<Problem>,
}

impl Scanned {
    /// Returns the scan of an earlier sample again, with problems for the parts that could not be read.
    pub fn again(sample: &Sample, problems: Vec<Problem>) -> Self {
        Self {
            at: sample.scanned_at(),
            users: sample.devices.iter().map(|device| (device.id, device.users.clone())).collect(),
            processes: sample.processes.clone(),
            regions: sample.regions.clone(),
            ledgers: sample.ledgers.clone(),
            denied_processes: sample.denied_processes,
            cuts: 0,
            problems,
        }
    }

    /// Returns how many processes, ledgers and lists were not read because a user is at a limit.
    pub fn cuts(&self) -> u64 {
        self.cuts
    }

    /// Returns the problems of this scan.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Adds the results to a sample of the devices.
    pub fn complete(self, sample: &mut Sample) {
        for device in &mut sample.devices {
            // A device that appeared after the start of the scan has no users yet.
            let users = self.users.iter().find(|(id, _)| *id == device.id);
            device.users = users.map_or(Err(Missing::Timeout), |(_, users)| users.clone());
        }
        sample.scan_age = sample.at.saturating_sub(self.at);
        sample.processes = self.processes;
        sample.regions = self.regions;
        sample.ledgers = self.ledgers;
        sample.denied_processes = self.denied_processes;
        sample.problems.extend(self.problems);
    }
}

impl Scan {
    pub(super) fn new(root: Root, options: Options) -> Self {
        Self {
            root,
            options,
            passwd: None,
            names: NameResolver::default(),
            ledgers: Vec::new(),
            free_blocks: FreeBlocks::default(),
            departed: Vec::new(),
            hints: Vec::new(),
            swept: BTreeMap::new(),
            next_again: 0,
            denied: BTreeSet::new(),
            remembered: Remembered::default(),
            unchanged: Vec::new(),
            served: Vec::new(),
            budget: Budget::default(),
            examined: Examined::default(),
            unexamined: BTreeMap::new(),
            regions: (Vec::new(), Arc::default()),
            unlisted: None,
        }
    }

    /// Restricts the calling, scanning thread to reading, like [`crate::reads::restrict_scan`].
    pub(super) fn restrict_thread(&mut self) -> bool {
        ledgers::memfd_device();
        // Without the thread for names, this thread needs connections to resolve them.
        self.names.start(&self.root).is_ok() && crate::reads::restrict_scan()
    }

    /// Returns the lanes that are read first: the driver's lists of users, the regions, and the known processes.
    pub(super) fn lanes(&mut self, devices: &[Listed]) -> Vec<Lane> {
        self.budget = Budget::default();
        if !self.options.processes {
            return Vec::new();
        }
        let (found, unlisted) = match regions::list(&self.root, &mut self.budget) {
            Ok(found) => (found, None),
            Err(error) => (Vec::new(), Some(Failure::from(error))),
        };
        self.unlisted = unlisted;
        if found != self.regions.0 {
            let requests = found.iter().map(|found| found.request(self.options.sampling)).collect();
            self.regions = (found, requests);
        }
        let users = |device: &Listed| Lane { key: LANE_OF_USERS + u64::from(device.id.0), requests: Arc::clone(&device.users) };
        let mut lanes: Vec<Lane> = devices.iter().map(users).collect();
        lanes.push(Lane { key: LANE_OF_REGIONS, requests: Arc::clone(&self.regions.1) });
        lanes.push(Lane { key: LANE_OF_STATS, requests: self.remembered.stats(&self.root.proc) });
        let is_unread = self.passwd.is_none();
        lanes.extend(is_unread.then(|| Lane { key: LANE_OF_LISTS + 1, requests: [passwd_request(&self.root)].into() }));
        lanes
    }

    /// Processes the replies to [`Self::lanes`], and reads the rest.
    pub(super) fn take(
        &mut self,
        readers: &mut Readers,
        device_list: &DeviceList,
        replies: &mut impl Iterator<Item = LaneReply>,
        now: Now,
    ) -> Result<Scanned, Error> {
        let mut problems = Problems::default();
        self.examined = Examined::default();
        if !self.options.processes {
            let ledgers = self.read_ledgers(&[], now);
            let users = device_list.devices.iter().map(|device| (device.id, Err(Missing::NotTracked))).collect();
            return Ok(Scanned { at: now.at, users, ledgers, ..Scanned::default() });
        }
        let mut users = self.take_users(device_list, replies, &mut problems.list);
        let region_replies = replies.next().map_or(Vec::new(), |lane| lane.replies);
        let stats = replies.next().map_or(Vec::new(), |lane| lane.replies);
        self.take_passwd(replies.next(), &mut problems);
        // A machine without shared memory has no regions.
        let unlisted = self.unlisted.filter(|failure| Missing::from(*failure) != Missing::NotExposed);
        problems.list.extend(unlisted.map(|failure| unread(&self.root.dev_shm, failure)));
        let mut regions = Vec::with_capacity(region_replies.len());
        // Pids named in regions, within the limits of the users who own the files.
        let mut named = BTreeSet::new();
        for (found, reply) in self.regions.0.iter().zip(&region_replies) {
            let (region, owner) = found.take(reply, &mut problems);
            for slot in region.content.iter().flat_map(|region| &region.slots) {
                if !named.contains(&slot.pid) && self.budget.take_or_cut(Resource::RegionPids, 1, owner) {
                    named.insert(slot.pid);
                }
            }
            regions.push(region);
        }
        let open_files = self.complete_users(device_list, &mut users);
        let first = First { users: &users, open_files: &open_files, stats: &stats, named: &named };
        let mut processes = self.read_processes(readers, &first, &mut regions, now.boot, &mut problems)?;
        drop_deep_readers(&self.root, &mut users, &mut processes);
        let ledgers = self.read_ledgers(&processes, now);
        let Self { names, root, options, .. } = self;
        names.complete(root, readers, &mut processes, now.at, options.sampling, &mut problems.list)?;
        let users = device_list.devices.iter().map(|device| device.id).zip(users).collect();
        self.unexamined.retain(|pid, _| self.swept.contains_key(pid) || is_listed(&processes, *pid));
        let Self { unexamined, examined, budget, .. } = self;
        let earlier = unexamined.iter().map(|(pid, cut)| (*pid, *cut));
        for (uid, resource) in examined.cuts().chain(earlier).collect::<BTreeMap<_, _>>().into_values() {
            budget.cut(uid, resource, 1);
        }
        let mut problems = problems.into_list();
        // Users without a known name are shown by number.
        problems.extend(self.budget.problems(|uid| process::user_name(self.passwd.as_deref().unwrap_or_default(), uid)));
        let (denied_processes, cuts) = (self.denied.len() as u64, self.budget.cuts());
        Ok(Scanned { at: now.at, users, processes, regions, ledgers, denied_processes, cuts, problems })
    }

    /// Stores the list of users, if it was read. A missing list is empty.
    fn take_passwd(&mut self, lane: Option<LaneReply>, problems: &mut Problems) {
        match lane.and_then(|lane| lane.replies.into_iter().next()) {
            None => {}
            Some(Ok(text)) => self.passwd = Some(String::from_utf8_lossy(&text).into_owned()),
            Some(Err(failure)) if Missing::from(failure) == Missing::NotExposed => self.passwd = Some(String::new()),
            Some(Err(failure)) => problems.list.push(unread(&self.root.passwd, failure)),
        }
    }

    fn take_users(
        &self,
        device_list: &DeviceList,
        lanes: &mut impl Iterator<Item = LaneReply>,
        problems: &mut Vec<Problem>,
    ) -> Vec<Reading<Users>> {
        let taken = device_list.devices.iter().zip(lanes).map(|(device, lane)| match lane.replies.into_iter().next() {
            // The list is gone with the device. The driver's lists of other devices are still valid.
            Some(_) if device.has_left => Err(Missing::Gone),
            Some(reply) => users::take(&self.root, device.id, &reply, problems),
            None => Err(Missing::NotTracked),
        });
        taken.collect()
    }

    /// Reads the regions of containers. Each directory is read once: several mount namespaces may share one, and one may be the host's.
    fn read_container_regions(
        &mut self,
        readers: &mut Readers,
        places: &[regions::SharedMemoryDirectory],
        problems: &mut Problems,
    ) -> Result<Vec<RegionSample>, Error> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let Self { root, budget, .. } = self;
        let key = |place: &regions::SharedMemoryDirectory| LANE_OF_REGIONS + u64::from(place.pid());
        let wanted = |place: &regions::SharedMemoryDirectory| ProcessReads {
            pid: place.pid(),
            key: key(place),
            requests: Vec::new(),
            long: Some(place.request()),
        };
        let listed = granted::read(readers, root, budget, Resource::Names, places.iter().map(wanted).collect())?;
        let mut seen: BTreeSet<String> = regions::identity(root).into_iter().collect();
        let mut lanes = Vec::new();
        let mut found = Vec::new();
        for (place, Granted { lane, refused }) in places.iter().zip(&listed) {
            if let Some(uid) = refused {
                budget.cut(*uid, Resource::Names, 1);
            }
            let Some((identity, mut regions)) = lane.replies.first().and_then(|reply| place.take(reply, problems)) else { continue };
            if seen.insert(identity) {
                let mut charge = ProcessCharge::new(&root.proc, place.pid(), budget);
                regions.retain(|_| charge.take_or_cut(Resource::Regions, 1) && charge.take_or_cut(Resource::RegionPids, SLOTS as u64));
                lanes.push(Lane { key: key(place), requests: regions.iter().map(|found| found.request(Sampling::Once)).collect() });
                found.extend(regions);
            }
        }
        let replies = readers.read(lanes)?;
        let replies = replies.iter().flat_map(|lane| &lane.replies);
        Ok(found.iter().zip(replies).map(|(found, reply)| found.take(reply, problems).0).collect())
    }

    /// Searches the open files of processes if the driver does not list the users of a device, or may not list all of them.
    fn complete_users(&mut self, device_list: &DeviceList, users: &mut [Reading<Users>]) -> Vec<OpenFile> {
        let is_silent = |users: &Reading<Users>| *users == Err(Missing::NotExposed);
        let Self { root, examined, budget, .. } = self;
        if users.iter().any(is_silent) {
            let (readers, is_complete) = users::scan(root, examined, budget);
            let mut found = users::by_device(&readers, is_complete);
            for (known, users) in device_list.devices.iter().zip(users.iter_mut()).filter(|(_, users)| is_silent(users)) {
                *users = Ok(found.remove(&known.id).unwrap_or(Users { is_complete, ..Users::default() }));
            }
            return readers;
        }
        let version = device_list.driver.as_deref().ok().and_then(Version::parse);
        // Simulated processes cannot have a device open.
        if !root.is_simulated() && version.is_some_and(|version| version < PIDS_OF_THIS_NAMESPACE) {
            for (known, users) in device_list.devices.iter().zip(users.iter_mut()) {
                if let Ok(users) = users {
                    users::verify(root, known.id, users, examined, budget);
                }
            }
        }
        if version.is_some_and(|version| version >= FDINFO_NOT_BEFORE) {
            // Each process is examined once, even if it holds several devices.
            let pids: BTreeSet<u32> = users.iter().flatten().flat_map(|users| users.pids.iter().copied()).collect();
            return pids.into_iter().flat_map(|pid| examined.open_files(root, pid, budget).devices.clone()).collect();
        }
        Vec::new()
    }

    fn read_processes(
        &mut self,
        readers: &mut Readers,
        first: &First<'_>,
        regions: &mut Vec<RegionSample>,
        boot: UnixTime,
        problems: &mut Problems,
    ) -> Result<Vec<ProcessSample>, Error> {
        let First { users, open_files: listed, stats, named } = first;
        // A failed sample may have left some hints.
        self.hints.clear();
        let holders: Vec<u32> = users.iter().flatten().flat_map(|users| users.pids.iter().copied()).collect();
        self.served = served::list(&self.root.served);
        let mut pids: Vec<u32> = holders.iter().copied().chain(self.alive(named)).collect();
        if self.options.ledgers.scope != LedgerScope::Holders {
            pids.extend(self.sweep(readers, problems)?);
        }
        pids.extend(self.served.iter().map(|named| named.owner.pid));
        pids.sort_unstable();
        pids.dedup();
        let Self { root, examined, budget, .. } = self;
        pids.retain(|pid| examined.admit(root, *pid, budget));
        let open_files = |pid: u32| -> Vec<OpenFile> { listed.iter().filter(|file| file.pid == pid).copied().collect() };
        let scale =
            Scale { boot, ticks_per_second: rustix::param::clock_ticks_per_second(), page_bytes: rustix::param::page_size() as u64 };
        let mut refreshed = self.remembered.begin(&pids, stats, scale);
        // A process whose open files are needed is read in full anyway.
        refreshed.retain(|process| listed.iter().all(|file| file.pid != process.sample.key.pid));
        pids.retain(|pid| refreshed.binary_search_by_key(pid, |process| process.sample.key.pid).is_err());
        let mut hints = self.find_hints(&pids);
        let proc = self.root.proc.clone();
        let requests = |pid: u32| process::requests(&proc, pid, &open_files(pid));
        let replies = self.read_with_mappings(readers, &pids, &mut hints, requests)?;
        // If the list could not be read, a problem says so, and users are shown by number.
        let passwd = self.passwd.as_deref().unwrap_or_default();
        let mut processes: Vec<ProcessSample> = Vec::with_capacity(pids.len() + refreshed.len());
        let mut containers = Vec::new();
        let ours = if pids.is_empty() { None } else { regions::mounts(&self.root, "self") };
        for ((pid, hint), lane) in pids.iter().zip(hints).zip(&replies) {
            let (mut process, shape) = process::take(*pid, &open_files(*pid), &lane.replies, scale, |uid| process::user_name(passwd, uid));
            if process.facts == Err(Missing::Gone) && self.hides_processes() {
                process.facts = Err(Missing::NoPermission);
            }
            let mounts = ours.and_then(|ours| regions::mounts(&self.root, &pid.to_string()).filter(|theirs| *theirs != ours));
            let ledger_search = LedgerSearch { is_denied: hint == LedgerHint::Denied, has_no_ledger: hint == LedgerHint::Nothing, mounts };
            if self.options.sampling == Sampling::Repeated {
                self.remembered.keep(&process, shape, ledger_search);
            }
            containers.extend(mounts.map(|mounts| (mounts, process.key)));
            note_cut(&mut self.unexamined, *pid, &hint);
            if process.facts.is_ok() && !matches!(hint, LedgerHint::Nothing | LedgerHint::Known | LedgerHint::Cut(..)) {
                self.hints.push((process.key, hint));
            }
            // A dead process is shown only while a file that it opened is still open.
            if process.facts != Err(Missing::Gone) || holders.contains(pid) {
                processes.push(process);
            }
        }
        self.unchanged = refreshed.iter().filter(|process| process.is_same).map(|process| process.sample.key.pid).collect();
        for Refreshed { sample, ledger_search, .. } in refreshed {
            // A process stays denied in samples that do not read it in full.
            self.hints.extend(ledger_search.is_denied.then_some((sample.key, LedgerHint::Denied)));
            containers.extend(ledger_search.mounts.map(|mounts| (mounts, sample.key)));
            processes.push(sample);
        }
        processes.sort_by_key(|process| process.key.pid);
        // Keep the first process of each mount namespace.
        containers.sort_unstable();
        containers.dedup_by_key(|(mounts, _)| *mounts);
        let mut places: Vec<regions::SharedMemoryDirectory> =
            containers.iter().map(|(_, process)| regions::of_container(&self.root, *process)).collect();
        places.sort_by_key(regions::SharedMemoryDirectory::pid);
        regions.extend(self.read_container_regions(readers, &places, problems)?);
        Ok(processes)
    }

    /// Searches the open files of these processes for ledgers.
    fn find_hints(&mut self, pids: &[u32]) -> Vec<LedgerHint> {
        let Self { root, budget, examined, remembered, ledgers: open, .. } = self;
        let is_own = |found: &OpenLedger| found.source == Source::Ledger;
        let known = |pid: u32| open.iter().any(|found| found.owner.pid == pid && is_own(found) && found.is_still_there());
        let hints = pids.iter().map(|pid| match *pid {
            pid if remembered.is_without_ledger(pid) => LedgerHint::Nothing,
            pid if known(pid) => LedgerHint::Known,
            pid => LedgerHint::among(examined.open_files(root, pid, budget)),
        });
        hints.collect()
    }

    /// Returns the pids in statistics that belong to a process. A file may also name any number of other pids.
    fn alive(&self, named: &BTreeSet<u32>) -> Vec<u32> {
        let hides_processes = LazyCell::new(|| self.hides_processes());
        let is_there = |pid: u32| self.remembered.contains(pid) || self.root.proc.join(pid.to_string()).exists() || *hides_processes;
        named.iter().copied().filter(|pid| is_there(*pid)).collect()
    }

    /// Returns whether `/proc` hides processes. With `hidepid`, processes of other users seem not to exist, including pid 1.
    fn hides_processes(&self) -> bool {
        self.root.proc == Root::real().proc && !self.root.proc.join("1").exists()
    }
}
