//! The whole machine: what is read in which order.

mod driver;
mod numbers;
mod remembered;
mod slots;
mod tracking;

pub use tracking::{Departed, End};

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use ttmon_model::cluster::Cluster;
use ttmon_model::identity::ProcessKey;
use ttmon_model::limits::ATTRIBUTE_BYTES_MAX;
use ttmon_model::sample::{DeviceSample, Origin, Problem, ProcessSample, RegionSample, Users};
use ttmon_model::units::{UnixTime, Version};
use ttmon_model::{Missing, Reading, Sample, Source};

use crate::device::{self, Known, Part, Retry};
use crate::isolate::Reader;
use crate::ledgers::{self, Detail, Found, Lead};
use crate::process::{self, Program, Scale};
use crate::read::{Lane, LaneReply, Pace, Pool, Reply, Request, boot_time, read_small};
use crate::regions;
use crate::root::Root;
use crate::served::{self, Named};
use crate::users::{self, OpenFile};
use driver::{driver_request, driver_version};
use numbers::Numbers;
use remembered::{Refreshed, Remembered, Standing};

/// No driver up to this one prints memory in `fdinfo`, so there is no use in looking for it.
const FDINFO_NOT_BEFORE: Version = Version::new(2, 11, 0);
/// Since this driver the list of users has the numbers that this namespace knows.
const PIDS_OF_THIS_NAMESPACE: Version = Version::new(2, 7, 0);
/// Longest user database read.
const PASSWD_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How a machine is read.
#[derive(Clone, Debug)]
pub struct Options {
    /// Longest wait for one file.
    pub read_timeout: Duration,
    /// Whether there will be many samples.
    pub pace: Pace,
    /// Where reads that may hang happen.
    pub isolation: Isolation,
    /// Real or simulated.
    pub origin: Origin,
    /// The user's cluster descriptor.
    pub cluster: Option<Cluster>,
    /// Whether processes and memory are looked at.
    pub processes: bool,
    /// Whose ledgers are looked for, and how much of them is read.
    pub ledgers: Ledgers,
    /// The file that the numbers of devices are kept in, for those who start while one is missing; the service has one.
    pub slots: Option<PathBuf>,
}

/// Whose ledgers are looked for, and how much of them is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ledgers {
    /// How much.
    pub detail: Detail,
    /// Whose.
    pub reach: Reach,
    /// The machine they belong to: 0, or the mark of a simulated one.
    pub machine: u64,
}

/// Whose ledgers are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Those of processes that hold a device.
    Holders,
    /// Those of every process, with a device or without; then a machine needs no device either.
    Everybody,
    /// Those of holders and of this process.
    Process(u32),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            read_timeout: Duration::from_millis(200),
            pace: Pace::Once,
            isolation: Isolation::Process,
            origin: Origin::Local,
            cluster: None,
            processes: true,
            ledgers: Ledgers { detail: Detail::Totals, reach: Reach::Holders, machine: 0 },
            slots: None,
        }
    }
}

/// Where reads that may hang happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// In a forked process, so that this one can always exit. Needs a program with a single thread.
    Process,
    /// In threads of this process.
    Threads,
}

/// Why there is no sample at all. One bad device never is a reason.
#[derive(Debug)]
pub enum Error {
    /// No Tenstorrent device on the PCI bus.
    NoDevice,
    /// Devices on the bus, and no driver that made them known.
    DriverNotLoaded {
        /// How many.
        devices: usize,
        /// Whether the driver is loaded and has none of them.
        is_loaded: bool,
    },
    /// The driver's directory cannot be read.
    Class(io::Error),
    /// The reading process could not be started or died.
    Reader(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDevice => f.write_str("no Tenstorrent device found: none is on the PCI bus; try a simulated machine with --sim t3k"),
            Self::DriverNotLoaded { devices, is_loaded: true } => write!(
                f,
                "no Tenstorrent device found: {devices} on the PCI bus, but the kernel driver has none of them; see: sudo dmesg | grep tenstorrent"
            ),
            Self::DriverNotLoaded { devices, is_loaded: false } => write!(
                f,
                "no Tenstorrent device found: {devices} on the PCI bus, but the kernel driver is not loaded; try: sudo modprobe tenstorrent"
            ),
            Self::Class(error) => write!(f, "cannot list devices: /sys/class/tenstorrent: {error}; check the permissions of /sys"),
            Self::Reader(error) => write!(f, "cannot read the machine: the reading process failed: {error}; try again"),
        }
    }
}

impl std::error::Error for Error {}

/// A machine that is read again and again.
#[derive(Debug)]
pub struct Machine {
    root: Root,
    options: Options,
    files: Files,
    /// What is read of the driver itself.
    driver: Arc<[Request]>,
    known: Vec<Known>,
    /// Their numbers, as they were.
    slots: slots::Slots,
    passwd: Option<String>,
    /// Ledgers found so far.
    ledgers: Vec<Arc<Found>>,
    /// Those whose processes ended or became other programs since the last sample.
    departed: Vec<Arc<Departed>>,
    /// Where to look for those of the processes at hand.
    leads: Vec<(ProcessKey, Lead)>,
    /// Processes that were looked at, so that a later sample looks at new ones only; the program, where it had no ledger.
    swept: BTreeMap<u32, Option<Program>>,
    /// Where the second look at them goes on.
    next_again: u32,
    /// Those of them that this user may not look at.
    denied: BTreeSet<u32>,
    /// Processes of earlier samples.
    remembered: Remembered,
    /// Those of the last sample that go on with the same mappings, in order.
    unchanged: Vec<u32>,
    /// Files of services that may be ledgers of processes.
    served: Vec<Named>,
    /// Regions of this machine, and what is read of them.
    regions: (Vec<regions::Found>, Arc<[Request]>),
    /// What is known of TT-Metal's numbers.
    numbers: Numbers,
}

#[derive(Debug)]
enum Files {
    Threads(Pool),
    Process(Reader),
}

impl Files {
    fn read(&mut self, lanes: Vec<Lane>) -> Result<Vec<LaneReply>, Error> {
        if lanes.is_empty() {
            return Ok(Vec::new());
        }
        match self {
            Self::Threads(pool) => Ok(pool.read(lanes)),
            Self::Process(reader) => reader.read(lanes).map_err(Error::Reader),
        }
    }
}

/// Lanes are told apart by these: devices by their id, processes by their pid, and the rest.
const LANE_OF_DRIVER: u64 = 1 << 40;
const LANE_OF_REGIONS: u64 = 2 << 40;
const LANE_OF_PROCESS: u64 = 3 << 40;
const LANE_OF_COUNTERS: u64 = 4 << 40;
const LANE_OF_USERS: u64 = 5 << 40;
const LANE_OF_STATS: u64 = 6 << 40;
const LANE_OF_SWEEP: u64 = 7 << 40;

impl Machine {
    /// Prepares to read.
    pub fn new(root: Root, options: Options) -> Result<Self, Error> {
        let base = root.base.clone();
        if options.pace == Pace::Repeated {
            keep_memory();
        }
        let files = match options.isolation {
            Isolation::Threads => Files::Threads(Pool::new(options.read_timeout, base)),
            Isolation::Process => Files::Process(Reader::fork(options.read_timeout, base).map_err(Error::Reader)?),
        };
        Ok(Self {
            driver: [driver_request(&root, options.pace)].into(),
            root,
            options,
            files,
            known: Vec::new(),
            slots: slots::Slots::default(),
            passwd: None,
            ledgers: Vec::new(),
            departed: Vec::new(),
            leads: Vec::new(),
            swept: BTreeMap::new(),
            next_again: 0,
            denied: BTreeSet::new(),
            remembered: Remembered::default(),
            unchanged: Vec::new(),
            served: Vec::new(),
            regions: (Vec::new(), Arc::default()),
            numbers: Numbers::default(),
        })
    }

    /// Reads everything once. A reading process that died or is too slow, as on a machine under heavy load, costs no sample: threads
    /// of this process read instead.
    pub fn sample(&mut self) -> Result<Sample, Error> {
        match self.try_sample() {
            Err(Error::Reader(_)) => self.try_sample(),
            sample => sample,
        }
    }

    fn try_sample(&mut self) -> Result<Sample, Error> {
        self.find_devices()?;
        let (at, time, boot) = now();
        let mut problems = Vec::new();
        let found = if self.options.processes { regions::list(&self.root) } else { Vec::new() };
        let mut lanes: Vec<Lane> = Vec::with_capacity(self.known.len() * 3 + 2);
        for index in 0..self.known.len() {
            lanes.extend(self.device_lanes(index));
        }
        lanes.push(Lane { key: LANE_OF_DRIVER, requests: Arc::clone(&self.driver) });
        if found != self.regions.0 {
            let requests = found.iter().map(|found| found.request(self.options.pace)).collect();
            self.regions = (found.clone(), requests);
        }
        lanes.push(Lane { key: LANE_OF_REGIONS, requests: Arc::clone(&self.regions.1) });
        lanes.push(Lane { key: LANE_OF_STATS, requests: self.remembered.stats(&self.root.proc) });
        let mut replies = self.read(lanes)?.into_iter();
        let mut users = self.take_devices(&mut replies, &mut problems)?;
        let driver = replies.next().and_then(|lane| lane.replies.first().map(driver_version)).unwrap_or(Err(Missing::NoSource));
        let region_replies = replies.next().map_or(Vec::new(), |lane| lane.replies);
        let stats = replies.next().map_or(Vec::new(), |lane| lane.replies);
        let mut regions: Vec<RegionSample> =
            found.iter().zip(&region_replies).map(|(found, reply)| found.take(reply, &mut problems)).collect();
        let processes = if self.options.processes {
            let files = self.complete_users(&mut users, &driver);
            self.read_processes(&users, &files, &stats, &mut regions, boot, &mut problems)?
        } else {
            Vec::new()
        };
        let ledgers = self.read_ledgers(&processes, time);
        if let Some(file) = &self.options.slots {
            self.slots.keep(file, &self.known);
        }
        let devices = self.known.iter().zip(users).map(|(known, users)| DeviceSample {
            id: known.id,
            bdf: known.bdf,
            was_listed: known.was_listed,
            attributes: known.attributes.clone(),
            counted_at: known.counted_at,
            beat: known.beat(),
            users,
        });
        let mut sample = Sample {
            at,
            time,
            host: self.host_name(),
            origin: self.options.origin,
            driver,
            cluster: self.options.cluster.clone(),
            proven: Vec::new(),
            devices: devices.collect(),
            processes,
            regions,
            ledgers,
            denied_processes: self.denied.len() as u64,
            problems,
        };
        self.numbers.complete(&mut sample, &self.root, self.options.pace);
        Ok(sample)
    }

    /// Reads, and from the first failure of the reading process on without it: it may have died, or it answers when it is asked
    /// the next time. This program may have threads by now, so that no other can be forked.
    fn read(&mut self, lanes: Vec<Lane>) -> Result<Vec<LaneReply>, Error> {
        let read = self.files.read(lanes);
        if read.is_err() {
            self.files = Files::Threads(Pool::new(self.options.read_timeout, self.root.base.clone()));
        }
        read
    }

    /// Keeps the list of devices up to date. One that left stays on it, as gone, until it comes back somewhere.
    fn find_devices(&mut self) -> Result<(), Error> {
        let ids = match device::list(&self.root) {
            Ok(ids) => ids,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Error::Class(error)),
        };
        if ids.is_empty() && self.known.is_empty() && self.options.ledgers.reach == Reach::Holders {
            let devices = slots::on_bus(&self.root).count();
            let is_loaded = self.root.sys.join("module/tenstorrent").exists();
            return Err(if devices == 0 { Error::NoDevice } else { Error::DriverNotLoaded { devices, is_loaded } });
        }
        let is_first = self.known.is_empty();
        for known in &mut self.known {
            known.set_listed(ids.contains(&known.id));
        }
        for id in ids {
            match self.known.iter_mut().find(|known| known.id == id) {
                Some(known) if known.is_same(self.options.pace) => {}
                Some(known) => *known = Known::in_place_of(&self.root, known),
                None => self.known.push(Known::new(&self.root, id)),
            }
        }
        if is_first && !self.known.is_empty() {
            self.slots = slots::Slots::read(&self.root, self.options.slots.as_deref(), self.options.ledgers.machine);
            self.slots.complete(&self.root, &mut self.known);
        }
        let present: Vec<_> = self.known.iter().filter(|known| !known.has_left()).map(|known| known.bdf).collect();
        self.known.retain(|known| !known.has_left() || !present.contains(&known.bdf));
        self.known.sort_by_key(|known| known.id);
        Ok(())
    }

    /// Telemetry, counters and, where asked for, users: each may block for reasons of its own.
    fn device_lanes(&mut self, index: usize) -> impl Iterator<Item = Lane> + use<> {
        let (pace, processes) = (self.options.pace, self.options.processes);
        let known = &mut self.known[index];
        let id = u64::from(known.id.0);
        let telemetry = Lane { key: id, requests: known.requests(Part::Telemetry, pace) };
        let counters = Lane { key: LANE_OF_COUNTERS + id, requests: known.requests(Part::Counters, pace) };
        let users = processes.then(|| Lane { key: LANE_OF_USERS + id, requests: known.users_request(&self.root, pace) });
        [telemetry, counters].into_iter().chain(users)
    }

    fn take_devices(
        &mut self,
        lanes: &mut impl Iterator<Item = LaneReply>,
        problems: &mut Vec<Problem>,
    ) -> Result<Vec<Reading<Users>>, Error> {
        const NONE: LaneReply = LaneReply { at: Duration::ZERO, replies: Vec::new() };
        let mut users = Vec::with_capacity(self.known.len());
        let mut again = Vec::new();
        for (index, known) in self.known.iter_mut().enumerate() {
            if known.take(&self.root, &lanes.next().unwrap_or(NONE), problems) == Retry::Yes {
                again.push(index);
            }
            known.take_counters(&lanes.next().unwrap_or(NONE), problems);
            if known.lacks_board() {
                known.read_bus(&self.root);
            }
            problems.extend(known.problem());
            let pids = if self.options.processes { lanes.next() } else { None };
            users.push(match pids.and_then(|lane| lane.replies.into_iter().next()) {
                // Its list went with it: that says nothing of what the driver tells of others.
                Some(_) if known.has_left() => Err(Missing::Gone),
                Some(reply) => users::take(&self.root, known.id, &reply, problems),
                None => Err(Missing::NotTracked),
            });
        }
        if !again.is_empty() {
            let pace = self.options.pace;
            let lanes: Vec<Lane> = again
                .iter()
                .map(|index| {
                    let known = &mut self.known[*index];
                    Lane { key: u64::from(known.id.0), requests: known.requests(Part::Telemetry, pace) }
                })
                .collect();
            let replies = self.read(lanes)?;
            for (index, lane) in again.into_iter().zip(replies) {
                self.known[index].take(&self.root, &lane, problems);
            }
        }
        Ok(users)
    }

    /// Regions of containers, each directory once: several processes may share one, and one may be the host's own.
    fn read_container_regions(&mut self, places: &[regions::Place], problems: &mut Vec<Problem>) -> Result<Vec<RegionSample>, Error> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let key = |place: &regions::Place| LANE_OF_REGIONS + u64::from(place.pid());
        let lanes = places.iter().map(|place| Lane { key: key(place), requests: [place.request()].into() });
        let replies = self.read(lanes.collect())?;
        let mut seen: Vec<String> = regions::identity(&self.root).into_iter().collect();
        let mut lanes = Vec::new();
        let mut found = Vec::new();
        for (place, lane) in places.iter().zip(&replies) {
            let Some((identity, regions)) = lane.replies.first().map(|reply| place.take(reply)) else { continue };
            if !seen.contains(&identity) {
                seen.push(identity);
                lanes.push(Lane { key: key(place), requests: regions.iter().map(|found| found.request(Pace::Once)).collect() });
                found.extend(regions);
            }
        }
        let replies = self.read(lanes)?;
        let replies = replies.iter().flat_map(|lane| &lane.replies);
        Ok(found.iter().zip(replies).map(|(found, reply)| found.take(reply, problems)).collect())
    }

    /// Asks the processes themselves where the driver does not tell who uses a device, or may tell more of them.
    fn complete_users(&self, users: &mut [Reading<Users>], driver: &Reading<String>) -> Vec<OpenFile> {
        let is_silent = |users: &Reading<Users>| *users == Err(Missing::NotExposed);
        if users.iter().any(is_silent) {
            let (files, is_complete) = users::scan(&self.root);
            let mut found = users::by_device(&files, is_complete);
            for (known, users) in self.known.iter().zip(users.iter_mut()).filter(|(_, users)| is_silent(users)) {
                *users = Ok(found.remove(&known.id).unwrap_or(Users { is_complete, ..Users::default() }));
            }
            return files;
        }
        let version = driver.as_deref().ok().and_then(Version::parse);
        if version.is_some_and(|version| version < PIDS_OF_THIS_NAMESPACE) {
            for (known, users) in self.known.iter().zip(users.iter_mut()) {
                if let Ok(users) = users {
                    users::verify(&self.root, known.id, users);
                }
            }
        }
        if version.is_some_and(|version| version >= FDINFO_NOT_BEFORE) {
            // Each once, however many devices it holds.
            let pids: BTreeSet<u32> = users.iter().flatten().flat_map(|users| users.pids.iter().copied()).collect();
            return pids.into_iter().filter_map(|pid| users::scan_process(&self.root, pid).ok()).flatten().collect();
        }
        Vec::new()
    }

    fn read_processes(
        &mut self,
        users: &[Reading<Users>],
        files: &[OpenFile],
        stats: &[Reply],
        regions: &mut Vec<RegionSample>,
        boot: UnixTime,
        problems: &mut Vec<Problem>,
    ) -> Result<Vec<ProcessSample>, Error> {
        // A sample that failed may have left some.
        self.leads.clear();
        let holders: Vec<u32> = users.iter().flatten().flat_map(|users| users.pids.iter().copied()).collect();
        self.served = served::list(&self.root.served);
        let slots = regions.iter().filter_map(|region| region.content.as_ref().ok()).flat_map(|region| &region.slots);
        let mut pids: Vec<u32> = holders.iter().copied().chain(slots.map(|slot| slot.pid)).collect();
        if self.options.ledgers.reach != Reach::Holders {
            pids.extend(self.sweep()?);
        }
        pids.extend(self.served.iter().map(|named| named.owner.pid));
        pids.sort_unstable();
        pids.dedup();
        let open_files = |pid: u32| -> Vec<OpenFile> { files.iter().filter(|file| file.pid == pid).copied().collect() };
        let scale =
            Scale { boot, ticks_per_second: rustix::param::clock_ticks_per_second(), page_bytes: rustix::param::page_size() as u64 };
        let mut refreshed = self.remembered.begin(&pids, stats, scale);
        // One whose open files are looked at is read in full anyway.
        refreshed.retain(|process| files.iter().all(|file| file.pid != process.sample.key.pid));
        pids.retain(|pid| refreshed.binary_search_by_key(pid, |process| process.sample.key.pid).is_err());
        let is_own = |found: &Found| found.source == Source::Ledger;
        let known = |pid: u32| self.ledgers.iter().any(|found| found.owner.pid == pid && is_own(found) && found.is_still_there());
        let look = |pid: &u32| match *pid {
            pid if self.remembered.is_without_ledger(pid) => Lead::Nothing,
            pid if known(pid) => Lead::Known,
            pid => ledgers::look(&self.root, pid),
        };
        let leads: Vec<Lead> = pids.iter().map(look).collect();
        let lanes = pids.iter().zip(&leads).map(|(pid, lead)| {
            let mut requests = process::requests(&self.root.proc, *pid, &open_files(*pid));
            requests.extend((*lead == Lead::NoFile).then(|| ledgers::maps_request(&self.root, *pid)));
            Lane { key: LANE_OF_PROCESS + u64::from(*pid), requests: requests.into() }
        });
        let replies = self.read(lanes.collect())?;
        if self.passwd.is_none() && !pids.is_empty() {
            let text = read_small(&self.root.passwd, PASSWD_BYTES_MAX).unwrap_or_default();
            self.passwd = Some(String::from_utf8_lossy(&text).into_owned());
        }
        let passwd = self.passwd.as_deref().unwrap_or_default();
        let mut processes: Vec<ProcessSample> = Vec::with_capacity(pids.len() + refreshed.len());
        let mut places = Vec::new();
        let ours = if pids.is_empty() { None } else { regions::mounts(&self.root, "self") };
        for ((pid, lead), lane) in pids.iter().zip(leads).zip(&replies) {
            let (mut process, shape) = process::take(*pid, &open_files(*pid), &lane.replies, scale, |uid| process::user_name(passwd, uid));
            if process.facts == Err(Missing::Gone) && self.hides_processes() {
                process.facts = Err(Missing::NoPermission);
            }
            let lead = lead.with_maps(lane.replies.last());
            let is_elsewhere =
                regions::mounts(&self.root, &pid.to_string()).is_some_and(|theirs| ours.as_ref().is_some_and(|ours| *ours != theirs));
            let standing = Standing { is_denied: lead == Lead::Denied, has_no_ledger: lead == Lead::Nothing, is_elsewhere };
            if self.options.pace == Pace::Repeated {
                self.remembered.keep(&process, shape, standing);
            }
            places.extend(standing.is_elsewhere.then(|| regions::of_container(&self.root, process.key)));
            if process.facts.is_ok() && !matches!(lead, Lead::Nothing | Lead::Known) {
                self.leads.push((process.key, lead));
            }
            // A dead process matters only while a file it opened lives on.
            if process.facts != Err(Missing::Gone) || holders.contains(pid) {
                processes.push(process);
            }
        }
        self.unchanged = refreshed.iter().filter(|process| process.is_same).map(|process| process.sample.key.pid).collect();
        for Refreshed { sample, standing, .. } in refreshed {
            // Whoever may not look does not forget it in between.
            self.leads.extend(standing.is_denied.then_some((sample.key, Lead::Denied)));
            places.extend(standing.is_elsewhere.then(|| regions::of_container(&self.root, sample.key)));
            processes.push(sample);
        }
        processes.sort_by_key(|process| process.key.pid);
        places.sort_by_key(regions::Place::pid);
        regions.extend(self.read_container_regions(&places, problems)?);
        Ok(processes)
    }

    /// With `hidepid` other users' processes look as if they did not exist, the first one among them.
    fn hides_processes(&self) -> bool {
        self.root.proc == Root::real().proc && !self.root.proc.join("1").exists()
    }

    fn host_name(&self) -> String {
        let given = self.root.base.as_ref().filter(|_| self.options.origin == Origin::Local);
        let file = given.and_then(|_| read_small(&self.root.proc.join("sys/kernel/hostname"), ATTRIBUTE_BYTES_MAX).ok());
        match file {
            Some(text) => String::from_utf8_lossy(text.trim_ascii()).into_owned(),
            None => rustix::system::uname().nodename().to_string_lossy().into_owned(),
        }
    }
}

/// A program that looks again and again needs the same memory again and again, and glibc would give it back to the kernel after
/// every sample and fetch it for the next. Blocks that were freed once are its measure of what is worth giving back.
fn keep_memory() {
    const SAMPLE_BYTES: usize = 4 * 1024 * 1024;
    drop(std::hint::black_box(Vec::<u8>::with_capacity(SAMPLE_BYTES)));
}

/// Now on a clock that does not jump, now for people, and when the machine started.
fn now() -> (Duration, UnixTime, UnixTime) {
    let time = clock_gettime(ClockId::Realtime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let real = seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or_default());
    let at = boot_time();
    (at, UnixTime(real), UnixTime(real.saturating_sub(u64::try_from(at.as_nanos()).unwrap_or_default())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_dead_reading_process_costs_no_sample() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("sys/class/tenstorrent/tenstorrent!0")).unwrap();
        let options = Options { isolation: Isolation::Threads, ..Options::default() };
        let mut machine = Machine::new(Root::at(directory.path()), options).unwrap();
        let (ours, _) = UnixStream::pair().unwrap();
        machine.files = Files::Process(Reader::new(ours, 0));
        assert_eq!(machine.sample().unwrap().devices.len(), 1);
        assert!(matches!(machine.files, Files::Threads(_)));
    }
}
