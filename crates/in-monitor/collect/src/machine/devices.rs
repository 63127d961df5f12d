//! The devices, read from the driver's files. Other users cannot change these files, so they cannot make them slow to read.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{io, iter, mem};

use ttmon_model::identity::DeviceId;
use ttmon_model::limits::ATTRIBUTE_BYTES_MAX;
use ttmon_model::sample::{DeviceSample, Origin, Problem};
use ttmon_model::units::Version;
use ttmon_model::{Missing, Reading, Sample};

use super::deep::Deep;
use super::numbers::Numbers;
use super::readers::Readers;
use super::slots::{self, Slots};
use super::{
    Error, LANE_OF_BUS, LANE_OF_COUNTERS, LANE_OF_DRIVER, LANE_OF_ENTRY, LANE_OF_LISTS, LANE_OF_SLOW, LedgerScope, Now, Options, unread,
};
use crate::device::entry::Entry;
use crate::device::{self, FileGroup, KnownDevice};
use crate::reads::{Failure, Lane, LaneReply, Reply, Request, Sampling, Want, read_small};
use crate::root::Root;

#[derive(Debug)]
pub(super) struct Devices {
    root: Root,
    options: Options,
    /// Whether a machine without devices is an error.
    pub(super) is_device_needed: bool,
    known: Vec<KnownDevice>,
    /// The device numbers recorded earlier.
    slots: Slots,
    /// The known TT-Metal chip numbers.
    numbers: Numbers,
    /// The request for the list of devices.
    list: Arc<[Request]>,
    /// The problems of the last search for devices.
    problems: Vec<Problem>,
    driver: Arc<[Request]>,
    version: Option<Reading<String>>,
    /// The readers of the chips themselves, if enabled.
    deep: Option<Deep>,
}

/// What a scan needs to know about the devices.
#[derive(Clone, Debug)]
pub struct DeviceList {
    pub(super) devices: Vec<Listed>,
    pub(super) driver: Reading<String>,
}

/// A device whose users a scan reads.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    pub(super) id: DeviceId,
    pub(super) has_left: bool,
    pub(super) users: Arc<[Request]>,
}

/// The replies of one device.
struct Taken {
    lanes: Vec<(FileGroup, LaneReply)>,
    /// The problems of the telemetry.
    found: Vec<Problem>,
    /// Whether no file answered.
    is_silent: bool,
    /// Whether no file answered in time, so that nothing more is asked.
    is_stuck: bool,
    /// The class entry, if it was read after the files.
    entry: Option<Entry>,
}

impl Taken {
    fn is_gone(&self) -> bool {
        self.is_silent && self.entry.as_ref().is_some_and(|entry| entry.is_gone)
    }
}

impl Devices {
    pub(super) fn new(root: &Root, options: &Options) -> Self {
        Self {
            root: root.clone(),
            options: options.clone(),
            is_device_needed: options.ledgers.scope == LedgerScope::Holders,
            known: Vec::new(),
            slots: Slots::default(),
            numbers: Numbers::default(),
            list: [device::list_request(root, options.sampling)].into(),
            problems: Vec::new(),
            driver: [driver_request(root, options.sampling)].into(),
            version: None,
            deep: options.deep.as_ref().map(|program| Deep::new(program, options.read_timeout)),
        }
    }

    /// Starts or stops direct reads of the chips.
    pub(super) fn set_deep(&mut self, program: Option<&Path>) {
        self.deep = program.map(|program| Deep::new(program, self.options.read_timeout));
    }

    /// Returns whether the known devices are certainly those that the driver lists, if the list has the same ids.
    pub(super) fn is_settled(&self) -> bool {
        !self.known.is_empty() && self.known.iter().all(|known| !known.has_left && known.is_certain(self.options.sampling))
    }

    pub(super) fn list_lane(&self) -> Lane {
        Lane { key: LANE_OF_LISTS, requests: Arc::clone(&self.list) }
    }

    /// Returns whether the reply to [`Self::list_lane`] differs from the known devices.
    pub(super) fn has_changed(&self, list: Option<LaneReply>) -> bool {
        first(list).map_or(true, |names| !device::listed(&names).into_iter().eq(self.known.iter().map(|known| known.id)))
    }

    /// Updates the list of devices. A device that left stays on the list as gone until its PCI address is listed again.
    pub(super) fn find(&mut self, readers: &mut Readers) -> Result<(), Error> {
        self.problems.clear();
        let is_doubtful = |known: &&KnownDevice| !known.has_left && !known.is_certain(self.options.sampling);
        let doubtful: Vec<DeviceId> = self.known.iter().filter(is_doubtful).map(|known| known.id).collect();
        let mut replies = readers.read(iter::once(self.list_lane()).chain(self.entry_lanes(&doubtful)).collect())?.into_iter();
        let ids = match first(replies.next()) {
            Ok(names) => device::listed(&names),
            Err(Failure::Timeout) if !self.known.is_empty() => {
                // The devices are probably still there, and their own files show whether they are.
                self.problems.push(unread(&self.root.class(), Failure::Timeout));
                return Ok(());
            }
            Err(Failure::Errno(errno)) => match io::Error::from_raw_os_error(errno) {
                error if error.kind() == io::ErrorKind::NotFound => Vec::new(),
                error => return Err(Error::Class(error)),
            },
            Err(failure) => return Err(Error::Unreadable { file: self.root.class(), reason: failure.into() }),
        };
        if ids.is_empty() && self.known.is_empty() && self.is_device_needed {
            return Err(slots::why_none(&self.root, readers)?);
        }
        let mut entries: BTreeMap<DeviceId, Entry> = doubtful.into_iter().zip(replies.map(|lane| Entry::take(&lane.replies))).collect();
        let is_new = |id: &DeviceId| {
            let known = self.known.iter().find(|known| known.id == *id);
            !entries.contains_key(id) && known.is_none_or(|known| !known.is_certain(self.options.sampling))
        };
        let new: Vec<DeviceId> = ids.iter().copied().filter(is_new).collect();
        let is_first = self.known.is_empty();
        let mut bus = None;
        if !new.is_empty() {
            let mut lanes = self.entry_lanes(&new).collect::<Vec<_>>();
            if is_first {
                lanes.push(Lane { key: LANE_OF_BUS, requests: [slots::list_request(&self.root)].into() });
                lanes.push(self.driver_lane());
            }
            let mut replies = readers.read(lanes)?.into_iter();
            entries.extend(new.into_iter().zip(replies.by_ref().map(|lane| Entry::take(&lane.replies))));
            if is_first {
                bus = Some(first(replies.next()));
                self.take_version(replies.next());
            }
        }
        for known in &mut self.known {
            known.set_listed(ids.contains(&known.id));
        }
        for (id, entry) in entries.iter().filter(|(id, _)| ids.contains(id)) {
            match self.known.iter_mut().find(|known| known.id == *id) {
                Some(known) if known.is_another(entry) => *known = KnownDevice::in_place_of(&self.root, known, entry),
                Some(_) => {}
                None => self.known.push(KnownDevice::new(&self.root, *id, entry)),
            }
        }
        if let Some(bus) = bus {
            self.add_unlisted(readers, &bus)?;
        }
        let present: Vec<_> = self.known.iter().filter(|known| !known.has_left).map(|known| known.bdf).collect();
        self.known.retain(|known| !known.has_left || !present.contains(&known.bdf));
        self.known.sort_by_key(|known| known.id);
        Ok(())
    }

    fn entry_lanes(&self, ids: &[DeviceId]) -> impl Iterator<Item = Lane> {
        ids.iter().map(|id| Lane { key: LANE_OF_ENTRY + u64::from(id.0), requests: Entry::requests(&self.root, *id).into() })
    }

    /// Adds the devices that the driver does not list. `list` is the reply to [`slots::list_request`].
    fn add_unlisted(&mut self, readers: &mut Readers, list: &Reply) -> Result<(), Error> {
        self.slots = Slots::read(&self.root, self.options.slots.as_deref(), self.options.ledgers.machine);
        let bus = slots::candidates(&self.root, readers, list)?.unwrap_or_else(|failure| {
            self.problems.push(unread(&self.root.pci(), failure));
            Vec::new()
        });
        self.problems.extend(self.slots.complete(&self.root, readers, &bus, &mut self.known)?);
        Ok(())
    }

    /// Returns the lanes for telemetry and counters of each device and for the driver's version. Each may block independently.
    pub(super) fn lanes(&mut self, now: Duration) -> Vec<Lane> {
        let mut lanes = Vec::with_capacity(self.known.len() * 3 + 3);
        for known in &mut self.known {
            let id = u64::from(known.id.0);
            known.begin_sample(now);
            lanes.extend(
                known.groups().map(|group| Lane { key: lane_of(group) + id, requests: known.requests(group, self.options.sampling) }),
            );
        }
        lanes.push(self.driver_lane());
        lanes
    }

    fn driver_lane(&self) -> Lane {
        Lane { key: LANE_OF_DRIVER, requests: Arc::clone(&self.driver) }
    }

    /// Stores the replies to [`Self::lanes`].
    pub(super) fn take(
        &mut self,
        readers: &mut Readers,
        lanes: &mut impl Iterator<Item = LaneReply>,
        problems: &mut Vec<Problem>,
    ) -> Result<(), Error> {
        problems.append(&mut self.problems);
        let take_one = |known: &mut KnownDevice| {
            let lanes: Vec<(FileGroup, LaneReply)> = known.groups().zip(&mut *lanes).collect();
            let telemetry = lanes.iter().find(|(group, _)| *group == FileGroup::EverySample);
            let found = telemetry.map_or_else(Vec::new, |(_, lane)| known.take_telemetry(lane));
            let replies = || lanes.iter().flat_map(|(_, lane)| &lane.replies);
            let has_answer = replies().any(Result::is_ok);
            // A device that left may still answer through an open file.
            let is_silent = known.has_left || !has_answer;
            let is_stuck = !has_answer && replies().any(|reply| *reply == Err(Failure::Timeout));
            Taken { lanes, found, is_silent, is_stuck, entry: None }
        };
        let mut taken: Vec<Taken> = self.known.iter_mut().map(take_one).collect();
        self.take_version(lanes.next());
        self.read_surroundings(readers, &mut taken)?;
        let mut again = Vec::new();
        for (index, (known, taken)) in self.known.iter_mut().zip(&mut taken).enumerate() {
            let is_gone = taken.is_gone();
            for (group, lane) in &taken.lanes {
                match group {
                    FileGroup::EverySample => {
                        let found = mem::take(&mut taken.found);
                        again.extend(known.complete(lane, found, taken.entry.as_ref(), is_gone, problems).then_some(index));
                    }
                    FileGroup::Counters => known.take_counters(lane, is_gone, problems),
                    FileGroup::Slow => known.take_slow(*group, lane, is_gone, problems),
                }
            }
            problems.extend(known.problem());
        }
        let lane = |index: &usize| {
            let known = &mut self.known[*index];
            Lane { key: u64::from(known.id.0), requests: known.requests(FileGroup::EverySample, self.options.sampling) }
        };
        let replies = readers.read(again.iter().map(lane).collect())?;
        for (index, lane) in again.into_iter().zip(replies) {
            let (known, taken) = (&mut self.known[index], &taken[index]);
            let found = known.take_telemetry(&lane);
            known.complete(&lane, found, taken.entry.as_ref(), taken.is_gone(), problems);
        }
        if let Some(file) = &self.options.slots {
            self.slots.keep(file, &self.known);
        }
        if let Some(deep) = &mut self.deep {
            deep.sample(&self.root, &self.known);
        }
        Ok(())
    }

    /// Reads what surrounds the devices whose own files leave a question.
    fn read_surroundings(&mut self, readers: &mut Readers, taken: &mut [Taken]) -> Result<(), Error> {
        let devices = self.known.iter_mut().zip(taken);
        let mut asked: Vec<_> =
            devices.filter(|(known, taken)| !taken.is_stuck && (taken.is_silent || known.needs_surroundings())).collect();
        let lane = |(known, _): &(&mut KnownDevice, &mut Taken)| Lane {
            key: LANE_OF_ENTRY + u64::from(known.id.0),
            requests: known.surroundings(&self.root).into(),
        };
        let replies = readers.read(asked.iter().map(lane).collect())?;
        for ((known, taken), lane) in asked.iter_mut().zip(replies) {
            taken.entry = Some(known.take_surroundings(&lane.replies));
        }
        Ok(())
    }

    fn take_version(&mut self, lane: Option<LaneReply>) {
        self.version = Some(lane.and_then(|lane| lane.replies.first().map(driver_version)).unwrap_or(Err(Missing::NoSource)));
    }

    /// Returns what a scan needs to know. Reads the version of the driver if it is not known yet.
    pub(super) fn list(&mut self, readers: &mut Readers) -> Result<DeviceList, Error> {
        if self.version.is_none() {
            let lane = readers.read(vec![self.driver_lane()])?.into_iter().next();
            self.take_version(lane);
        }
        Ok(DeviceList { devices: self.listed(), driver: self.version() })
    }

    pub(super) fn listed(&mut self) -> Vec<Listed> {
        let listed = |known: &mut KnownDevice| {
            let users = known.users_request(&self.root, self.options.sampling);
            Listed { id: known.id, has_left: known.has_left, users }
        };
        self.known.iter_mut().map(listed).collect()
    }

    fn version(&self) -> Reading<String> {
        self.version.clone().unwrap_or(Err(Missing::NoSource))
    }

    pub(super) fn number_chips(&mut self, sample: &mut Sample) {
        self.numbers.complete(sample, &self.root, self.options.sampling, self.options.read_timeout);
    }

    /// Returns a sample of the devices, without the results of a scan.
    pub(super) fn sample(&self, now: Now, problems: Vec<Problem>) -> Sample {
        let devices = self.known.iter().map(|known| DeviceSample {
            id: known.id,
            bdf: known.bdf,
            was_listed: known.was_listed,
            attributes: known.attributes.clone(),
            counted: known.counted(),
            beat: known.beat(),
            users: Err(Missing::NotTracked),
            deep: self.deep.as_ref().map_or(Err(Missing::NeedsDeep), |deep| deep.of(known.id)),
        });
        Sample {
            at: now.at,
            time: now.time,
            scan_age: Duration::ZERO,
            host: self.host_name(),
            origin: self.options.origin,
            driver: self.version(),
            cluster: self.options.cluster.clone(),
            proven: Vec::new(),
            devices: devices.collect(),
            processes: Vec::new(),
            regions: Vec::new(),
            ledgers: Vec::new(),
            denied_processes: 0,
            problems,
        }
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

/// Returns the reply of a lane with one request.
fn first(lane: Option<LaneReply>) -> Reply {
    lane.and_then(|lane| lane.replies.into_iter().next()).expect("each request has a reply")
}

fn driver_request(root: &Root, sampling: Sampling) -> Request {
    Request { path: root.sys.join("module/tenstorrent/version"), want: Want::Whole, bytes_max: ATTRIBUTE_BYTES_MAX, sampling }
}

fn driver_version(reply: &Reply) -> Reading<String> {
    // A driver that is not loaded has no version.
    let no_version = |failure: &Failure| if *failure == Failure::Timeout { Missing::Timeout } else { Missing::NoSource };
    let bytes = reply.as_ref().map_err(no_version)?;
    let text = String::from_utf8_lossy(bytes.trim_ascii()).into_owned();
    if Version::parse(&text).is_some() && text.len() <= 32 { Ok(text) } else { Err(Missing::Unparsable) }
}

fn lane_of(group: FileGroup) -> u64 {
    match group {
        FileGroup::EverySample => 0,
        FileGroup::Counters => LANE_OF_COUNTERS,
        FileGroup::Slow => LANE_OF_SLOW,
    }
}
