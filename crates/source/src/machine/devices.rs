//! The devices, read from the driver's files. Other users cannot change these files, so they cannot make them slow to read.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ttmon_model::cluster::Cluster;
use ttmon_model::identity::DeviceId;
use ttmon_model::limits::ATTRIBUTE_BYTES_MAX;
use ttmon_model::sample::{DeviceSample, Origin, Problem};
use ttmon_model::units::Version;
use ttmon_model::{Missing, Reading, Sample};

use super::deep::Deep;
use super::files::Files;
use super::numbers::Numbers;
use super::slots::{self, Slots};
use super::{Error, LANE_OF_COUNTERS, LANE_OF_DRIVER, LANE_OF_SLOW, Now, Options, Reach};
use crate::device::{self, KnownDevice, Part};
use crate::root::Root;
use ttmon_reads::{Lane, LaneReply, Pace, Reply, Request, Want, read_small};

#[derive(Debug)]
pub(super) struct Devices {
    root: Root,
    pace: Pace,
    read_timeout: Duration,
    origin: Origin,
    cluster: Option<Cluster>,
    /// Whether a machine without devices is an error.
    pub(super) is_device_needed: bool,
    known: Vec<KnownDevice>,
    /// The device numbers recorded earlier.
    slots: Slots,
    slots_file: Option<PathBuf>,
    machine: u64,
    /// The known TT-Metal chip numbers.
    numbers: Numbers,
    driver: Arc<[Request]>,
    version: Option<Reading<String>>,
    /// The readers of the chips themselves, if enabled.
    deep: Option<Deep>,
}

/// What a scan needs to know about the devices.
#[derive(Clone, Debug)]
pub struct Scope {
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

impl Devices {
    pub(super) fn new(root: &Root, options: &Options) -> Self {
        Self {
            root: root.clone(),
            pace: options.pace,
            read_timeout: options.read_timeout,
            origin: options.origin,
            cluster: options.cluster.clone(),
            is_device_needed: options.ledgers.reach == Reach::Holders,
            known: Vec::new(),
            slots: Slots::default(),
            slots_file: options.slots.clone(),
            machine: options.ledgers.machine,
            numbers: Numbers::default(),
            driver: [driver_request(root, options.pace)].into(),
            version: None,
            deep: options.deep.as_ref().map(|program| Deep::new(program, options.read_timeout)),
        }
    }

    /// Starts or stops direct reads of the chips.
    pub(super) fn set_deep(&mut self, program: Option<&Path>) {
        self.deep = program.map(|program| Deep::new(program, self.read_timeout));
    }

    /// Updates the list of devices. A device that left stays on the list as gone until its PCI address is listed again.
    pub(super) fn find(&mut self) -> Result<(), Error> {
        let ids = match device::list(&self.root) {
            Ok(ids) => ids,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Error::Class(error)),
        };
        if ids.is_empty() && self.known.is_empty() && self.is_device_needed {
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
                Some(known) if known.is_same(self.pace) => {}
                Some(known) => *known = KnownDevice::in_place_of(&self.root, known),
                None => self.known.push(KnownDevice::new(&self.root, id)),
            }
        }
        if is_first && !self.known.is_empty() {
            self.slots = Slots::read(&self.root, self.slots_file.as_deref(), self.machine);
            self.slots.complete(&self.root, &mut self.known);
        }
        let present: Vec<_> = self.known.iter().filter(|known| !known.has_left).map(|known| known.bdf).collect();
        self.known.retain(|known| !known.has_left || !present.contains(&known.bdf));
        self.known.sort_by_key(|known| known.id);
        Ok(())
    }

    /// Returns the lanes for telemetry and counters of each device and for the driver's version. Each may block independently.
    pub(super) fn lanes(&mut self, now: Duration) -> Vec<Lane> {
        let mut lanes = Vec::with_capacity(self.known.len() * 3 + 3);
        for known in &mut self.known {
            let id = u64::from(known.id.0);
            known.begin_sample(now);
            lanes.extend(known.parts().map(|part| Lane { key: lane_of(part) + id, requests: known.requests(part, self.pace) }));
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
        files: &mut Files,
        lanes: &mut impl Iterator<Item = LaneReply>,
        problems: &mut Vec<Problem>,
    ) -> Result<(), Error> {
        const NONE: LaneReply = LaneReply { at: Duration::ZERO, replies: Vec::new() };
        let mut again = Vec::new();
        for (index, known) in self.known.iter_mut().enumerate() {
            for part in known.parts() {
                let lane = lanes.next().unwrap_or(NONE);
                match part {
                    Part::Telemetry => again.extend(known.take(&self.root, &lane, problems).then_some(index)),
                    Part::Counters => known.take_counters(&lane, problems),
                    Part::Slow => known.take_slow(part, &lane, problems),
                }
            }
            if known.lacks_board() {
                known.read_bus(&self.root);
            }
            problems.extend(known.problem());
        }
        self.take_version(lanes.next());
        let lane = |index: &usize| {
            let known = &mut self.known[*index];
            Lane { key: u64::from(known.id.0), requests: known.requests(Part::Telemetry, self.pace) }
        };
        let replies = files.read(again.iter().map(lane).collect())?;
        for (index, lane) in again.into_iter().zip(replies) {
            self.known[index].take(&self.root, &lane, problems);
        }
        if let Some(file) = &self.slots_file {
            self.slots.keep(file, &self.known);
        }
        if let Some(deep) = &mut self.deep {
            deep.sample(&self.root, &self.known);
        }
        Ok(())
    }

    fn take_version(&mut self, lane: Option<LaneReply>) {
        self.version = Some(lane.and_then(|lane| lane.replies.first().map(driver_version)).unwrap_or(Err(Missing::NoSource)));
    }

    /// Returns what a scan needs to know. Reads the version of the driver if it is not known yet.
    pub(super) fn scope(&mut self, files: &mut Files) -> Result<Scope, Error> {
        if self.version.is_none() {
            let lane = files.read(vec![self.driver_lane()])?.into_iter().next();
            self.take_version(lane);
        }
        Ok(Scope { devices: self.listed(), driver: self.version() })
    }

    pub(super) fn listed(&mut self) -> Vec<Listed> {
        let listed = |known: &mut KnownDevice| {
            let users = known.users_request(&self.root, self.pace);
            Listed { id: known.id, has_left: known.has_left, users }
        };
        self.known.iter_mut().map(listed).collect()
    }

    fn version(&self) -> Reading<String> {
        self.version.clone().unwrap_or(Err(Missing::NoSource))
    }

    pub(super) fn number_chips(&mut self, sample: &mut Sample) {
        self.numbers.complete(sample, &self.root, self.pace, self.read_timeout);
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
            origin: self.origin,
            driver: self.version(),
            cluster: self.cluster.clone(),
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
        let given = self.root.base.as_ref().filter(|_| self.origin == Origin::Local);
        let file = given.and_then(|_| read_small(&self.root.proc.join("sys/kernel/hostname"), ATTRIBUTE_BYTES_MAX).ok());
        match file {
            Some(text) => String::from_utf8_lossy(text.trim_ascii()).into_owned(),
            None => rustix::system::uname().nodename().to_string_lossy().into_owned(),
        }
    }
}

fn driver_request(root: &Root, pace: Pace) -> Request {
    Request { path: root.sys.join("module/tenstorrent/version"), want: Want::Whole, bytes_max: ATTRIBUTE_BYTES_MAX, pace }
}

fn driver_version(reply: &Reply) -> Reading<String> {
    let bytes = reply.as_ref().map_err(|_| Missing::NoSource)?;
    let text = String::from_utf8_lossy(bytes.trim_ascii()).into_owned();
    if Version::parse(&text).is_some() && text.len() <= 32 { Ok(text) } else { Err(Missing::Unparsable) }
}

fn lane_of(part: Part) -> u64 {
    match part {
        Part::Telemetry => 0,
        Part::Counters => LANE_OF_COUNTERS,
        Part::Slow => LANE_OF_SLOW,
    }
}
