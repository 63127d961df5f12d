//! The files of one device: their paths, and how their contents are parsed.

pub(crate) mod entry;

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ttmon_model::attributes::{self, ATTRIBUTES, Attribute, AttributeFolder, Attributes};
use ttmon_model::identity::{Bdf, DeviceId};
use ttmon_model::limits::{ATTRIBUTE_BYTES_MAX, DEVICES_MAX};
use ttmon_model::sample::{Beat, Counted, Problem};
use ttmon_model::{Arch, Attr, Missing, Raw, Reading};

use crate::reads::{Failure, LaneReply, Reply, Request, Sampling, Want, entries};
use crate::root::Root;
use crate::users;
use entry::{BusEntry, Entry};

/// Maximum length of the names in the class directory: those of [`DEVICES_MAX`] devices, and of a few other files.
const CLASS_BYTES_MAX: usize = 64 * DEVICES_MAX;

/// If a device has more broken files than this, they are reported in one line.
const PROBLEMS_PER_DEVICE_MAX: usize = 4;

/// All files of a device are read again after this many samples, or up to twice as many.
const STATIC_EVERY: u32 = 64;

/// Files that rarely change are read once in this many samples.
const SLOW_EVERY: u32 = 8;

/// Minimum time between two reads of the traffic counters after the first two. They are more than all other changing files together.
const COUNTERS_EVERY: Duration = Duration::from_millis(1900);

/// A device that was found, with its constant properties.
#[derive(Clone, Debug)]
pub(crate) struct KnownDevice {
    pub(crate) id: DeviceId,
    pub(crate) bdf: Reading<Bdf>,
    pub(crate) attributes: Attributes,
    directory: PathBuf,
    hwmon: Reading<PathBuf>,
    /// Whether the constant files must be read again, because the device is new, was reset, or was not ready.
    needs_static: bool,
    /// Samples until the constant files are read again.
    static_in: u32,
    /// Changing files that were missing when all files were read.
    absent: Vec<Attr>,
    /// Whether the device was listed before and is not listed now.
    pub(crate) has_left: bool,
    /// Whether the device was ever listed.
    pub(crate) was_listed: bool,
    /// For a device that was never listed: whether its PCI device was on the bus.
    is_on_bus: bool,
    /// The PCI address that this device number had before, if it was a different one.
    pub(crate) former: Option<Bdf>,
    /// The files to read, by [`FileGroup`]. `None` if the list must be built again.
    plans: [Option<Arc<Plan>>; 3],
    /// Samples until the files that rarely change are read again.
    slow_in: u32,
    /// Whether this sample reads each group, by [`FileGroup`].
    due: [bool; 3],
    /// The request for the driver's list of processes that use this device.
    users: Option<Arc<[Request]>>,
    /// When the counters were read last, and how they changed since the read before.
    counters: Option<(Duration, Option<Counted>)>,
    heartbeat: Option<HeartbeatState>,
}

#[derive(Clone, Copy, Debug)]
struct HeartbeatState {
    count: u64,
    changed_at: Duration,
    has_changed: bool,
    beat: Option<Beat>,
}

/// Files that are read together. The counters are a separate group for two reasons: a rate needs the time at which they were read, and no
/// lock that a reset could hold protects them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileGroup {
    EverySample,
    Counters,
    /// Files that rarely change.
    Slow,
}

impl FileGroup {
    pub(crate) const ALL: [Self; 3] = [Self::EverySample, Self::Counters, Self::Slow];

    fn of(attribute: &Attribute) -> Self {
        match (attribute.folder, attribute.interval) {
            (AttributeFolder::Counters, _) => Self::Counters,
            (_, attributes::ReadInterval::Slow) => Self::Slow,
            _ => Self::EverySample,
        }
    }
}

/// The files of a group, with the attribute that each file contains.
#[derive(Debug)]
struct Plan {
    attributes: Vec<&'static Attribute>,
    requests: Arc<[Request]>,
}

/// Returns the request for the class directory, which has entries `tenstorrent!N`.
pub(crate) fn list_request(root: &Root, sampling: Sampling) -> Request {
    Request { path: root.class(), want: Want::Entries, bytes_max: CLASS_BYTES_MAX, sampling }
}

/// Returns the ids of the devices in the class directory.
pub(crate) fn listed(names: &[u8]) -> Vec<DeviceId> {
    let id = |name: &OsStr| name.to_str()?.strip_prefix("tenstorrent!")?.parse().ok().map(DeviceId);
    let mut ids: Vec<DeviceId> = entries(names).filter_map(id).take(DEVICES_MAX).collect();
    ids.sort_unstable();
    ids
}

impl KnownDevice {
    pub(crate) fn new(root: &Root, id: DeviceId, entry: &Entry) -> Self {
        let mut known = Self {
            id,
            was_listed: true,
            is_on_bus: true,
            former: None,
            bdf: entry.bdf,
            attributes: Attributes::all_missing(Missing::NotExposed),
            hwmon: Err(Missing::NotExposed),
            directory: root.class_entry(id),
            needs_static: true,
            static_in: 0,
            absent: Vec::new(),
            has_left: false,
            plans: Default::default(),
            slow_in: 0,
            due: [true; 3],
            users: None,
            counters: None,
            heartbeat: None,
        };
        known.set_hwmon(known.newest_hwmon(entry, None));
        known
    }

    /// Creates a device that is not listed. Its properties are read from the PCI bus.
    pub(crate) fn absent(root: &Root, id: DeviceId, bdf: Bdf, bus: &BusEntry) -> Self {
        let known = Self::new(root, id, &Entry::unlisted(bdf));
        let mut known = Self { was_listed: false, is_on_bus: bus.is_on_bus, has_left: true, ..known };
        known.take_bus(bus);
        known
    }

    /// Creates a device that is not listed, with a board type that was recorded before.
    pub(crate) fn remembered(root: &Root, id: DeviceId, bdf: Bdf, bus: &BusEntry, board: &str) -> Self {
        let mut known = Self::absent(root, id, bdf, bus);
        known.attributes.set(Attr::CardType, Attr::CardType.attribute().parse(board));
        known
    }

    /// Creates the device that now has the number of another device.
    pub(crate) fn in_place_of(root: &Root, other: &Self, entry: &Entry) -> Self {
        let new = Self::new(root, other.id, entry);
        let former = other.former.or(other.bdf.ok()).filter(|former| new.bdf != Ok(*former));
        Self { former, ..new }
    }

    /// Takes the board type from the PCI bus if the driver's directory does not provide it.
    fn take_bus(&mut self, bus: &BusEntry) {
        for (attr, reading) in bus.attributes() {
            let is_better = reading.is_ok() || reading == Err(Missing::Timeout);
            if self.attributes.get(attr).is_err() && is_better {
                self.attributes.set(attr, reading);
            }
        }
    }

    fn lacks_board(&self) -> bool {
        self.attributes.get(Attr::CardType).is_err() && self.attributes.get(Attr::SubsystemDevice).is_err()
    }

    /// Returns the problem with this device's number: the driver does not list the device, or the number belonged to another device.
    pub(crate) fn problem(&self) -> Option<Problem> {
        let bdf = self.bdf.ok()?;
        let detail = match self.former {
            _ if !self.was_listed && !self.is_on_bus => format!("PCI device {bdf} was here before, and is not on the bus"),
            _ if !self.was_listed => format!("PCI device {bdf} is on the bus, and the driver does not list it"),
            Some(former) => format!("it is PCI device {bdf}, and was {former} before: the driver has numbered its devices anew"),
            None => return None,
        };
        Some(Problem { part: format!("device {}", self.id), reason: Missing::Gone, detail })
    }

    /// Returns whether the class entry certainly still leads to the same device, because files that were opened before answer.
    pub(crate) fn is_certain(&self, sampling: Sampling) -> bool {
        sampling == Sampling::Repeated && !self.needs_static
    }

    /// Returns whether the class entry now leads to another device. A link that does not answer shows nothing.
    pub(crate) fn is_another(&self, entry: &Entry) -> bool {
        entry.bdf.is_ok() && entry.bdf != self.bdf
    }

    pub(crate) fn set_listed(&mut self, is_listed: bool) {
        if self.has_left == is_listed {
            self.has_left = !is_listed;
            self.was_listed |= is_listed;
            self.plans = Default::default();
            self.users = None;
        }
    }

    /// Selects the groups that are read in a sample at this time.
    pub(crate) fn begin_sample(&mut self, now: Duration) {
        // If a device is not settled, the counters show whether its firmware is starting.
        let is_spaced = !self.needs_static && matches!(self.counters, Some((at, Some(_))) if now.saturating_sub(at) < COUNTERS_EVERY);
        let is_slow_due = self.slow_in == 0 || self.needs_static;
        self.slow_in = if is_slow_due { SLOW_EVERY } else { self.slow_in } - 1;
        self.due = [true, !is_spaced, is_slow_due];
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = FileGroup> + use<> {
        let due = self.due;
        FileGroup::ALL.into_iter().filter(move |group| due[*group as usize])
    }

    pub(crate) fn requests(&mut self, group: FileGroup, sampling: Sampling) -> Arc<[Request]> {
        if let Some(plan) = &self.plans[group as usize] {
            return Arc::clone(&plan.requests);
        }
        let (mut attributes, mut requests) = (Vec::new(), Vec::new());
        for (attribute, path) in self.planned(group, sampling) {
            // A file that is read once need not stay open. The open files of a device that left may still answer.
            let sampling = if attribute.interval == attributes::ReadInterval::Static || self.has_left { Sampling::Once } else { sampling };
            requests.push(Request { path, want: Want::Whole, bytes_max: ATTRIBUTE_BYTES_MAX, sampling });
            attributes.push(attribute);
        }
        let plan = Plan { attributes, requests: requests.into() };
        let requests = Arc::clone(&plan.requests);
        self.plans[group as usize] = Some(Arc::new(plan));
        requests
    }

    /// Returns the request for the driver's list of processes that use this device.
    pub(crate) fn users_request(&mut self, root: &Root, sampling: Sampling) -> Arc<[Request]> {
        let sampling = if self.has_left { Sampling::Once } else { sampling };
        Arc::clone(self.users.get_or_insert_with(|| [users::request(root, self.id, sampling)].into()))
    }

    pub(crate) fn take_counters(&mut self, lane: &LaneReply, is_gone: bool, problems: &mut Vec<Problem>) {
        let before = self.counters.take().map(|(at, _)| Counted { elapsed: lane.at.saturating_sub(at), before: self.counts() });
        self.take_slow(FileGroup::Counters, lane, is_gone, problems);
        self.counters = Some((lane.at, before));
    }

    /// Stores a group that does not show the state of the device.
    pub(crate) fn take_slow(&mut self, group: FileGroup, lane: &LaneReply, is_gone: bool, problems: &mut Vec<Problem>) {
        let found = self.take_readings(group, &lane.replies);
        report(&self.directory, found, problems);
        if is_gone {
            self.mark_gone();
        }
    }

    fn counts(&self) -> Vec<(Attr, u64)> {
        let counters = ATTRIBUTES.iter().filter(|attribute| attribute.folder == AttributeFolder::Counters);
        counters.filter_map(|attribute| Some((attribute.attr, self.attributes.number(attribute.attr).ok()?))).collect()
    }

    /// Returns how the counters changed between the last two reads.
    pub(crate) fn counted(&self) -> Option<Counted> {
        self.counters.as_ref()?.1.clone()
    }

    /// Stores the readings of the telemetry. Returns the problems.
    pub(crate) fn take_telemetry(&mut self, lane: &LaneReply) -> Vec<Problem> {
        let found = self.take_readings(FileGroup::EverySample, &lane.replies);
        self.drop_foreign_sensors();
        found
    }

    /// Returns whether the readings leave a question that only the device's links, its sensors' directory or the bus can answer.
    pub(crate) fn needs_surroundings(&self) -> bool {
        self.lacks_board() || self.hwmon.is_err() || self.has_dead_sensors()
    }

    /// Returns the requests for the class entry of this device and for its directory on the bus.
    pub(crate) fn surroundings(&self, root: &Root) -> Vec<Request> {
        let bus = self.bdf.map_or_else(|_| Vec::new(), |bdf| BusEntry::requests(root, bdf));
        [Entry::requests(root, self.id), bus].concat()
    }

    /// Takes the replies to [`Self::surroundings`].
    pub(crate) fn take_surroundings(&mut self, replies: &[Reply]) -> Entry {
        let (entry, bus) = replies.split_at(Entry::FILES);
        if self.lacks_board() && !bus.is_empty() {
            self.take_bus(&BusEntry::take(bus));
        }
        Entry::take(entry)
    }

    /// Completes the telemetry. Returns whether the sensors must be read again, because they are in another directory.
    pub(crate) fn complete(
        &mut self,
        lane: &LaneReply,
        found: Vec<Problem>,
        entry: Option<&Entry>,
        is_gone: bool,
        problems: &mut Vec<Problem>,
    ) -> bool {
        let has_other_hwmon = entry.is_some_and(|entry| self.rediscover_hwmon(entry));
        if is_gone {
            self.mark_gone();
        }
        if !has_other_hwmon {
            report(&self.directory, found, problems);
        }
        let was_reset = self.update_heartbeat(lane.at);
        if was_reset {
            // A reset clears the counters too.
            self.counters = None;
        }
        if self.needs_static {
            let is_absent = |attribute: &&Attribute| self.attributes.get(attribute.attr) == Err(Missing::NotExposed);
            let is_changing = |attribute: &&Attribute| {
                attribute.interval == attributes::ReadInterval::Dynamic && attribute.folder != AttributeFolder::Counters
            };
            self.absent = ATTRIBUTES.iter().filter(is_changing).filter(is_absent).map(|attribute| attribute.attr).collect();
            // Spread the full reads of the devices over different samples.
            self.static_in = STATIC_EVERY + self.id.0 % STATIC_EVERY;
        }
        self.static_in = self.static_in.saturating_sub(1);
        let needs_static = was_reset || self.is_unsettled() || self.static_in == 0;
        if needs_static != self.needs_static || has_other_hwmon {
            self.plans[FileGroup::EverySample as usize] = None;
        }
        self.needs_static = needs_static;
        has_other_hwmon
    }

    fn take_readings(&mut self, group: FileGroup, replies: &[Reply]) -> Vec<Problem> {
        let Some(plan) = self.plans[group as usize].clone() else { return Vec::new() };
        let mut found = Vec::new();
        let is_absent = |reply: &Reply| reply.as_ref().is_err_and(|failure| Missing::from(*failure) == Missing::NotExposed);
        let is_starting = plan.attributes.iter().zip(replies).all(|(attribute, reply)| !attribute.shows_state || is_absent(reply));
        for ((attribute, request), reply) in plan.attributes.iter().zip(&*plan.requests).zip(replies) {
            let reading = reading(attribute, reply);
            let in_bounds = in_bounds(attribute, &reading);
            if let Err(reason) = in_bounds
                && reason.is_problem()
            {
                found.push(Problem { part: request.path.display().to_string(), reason, detail: detail(reply) });
            }
            // The identity of a chip does not change while the chip does not answer.
            let is_known = attribute.interval == attributes::ReadInterval::Static && self.attributes.get(attribute.attr).is_ok();
            let is_silent = match in_bounds {
                Err(Missing::Timeout | Missing::Resetting | Missing::Gone | Missing::IoError) => true,
                Err(Missing::NotExposed) => is_starting,
                // All ones. Limits are readings, not identity, so their old values are dropped.
                Err(Missing::NoSource | Missing::OutOfRange) => attribute.folder == AttributeFolder::Class,
                _ => false,
            };
            if !(is_known && is_silent) {
                self.attributes.set(attribute.attr, reading);
            }
        }
        found
    }

    /// Updates the heartbeat. Returns true if it decreased: the chip was reset since the last sample.
    fn update_heartbeat(&mut self, at: Duration) -> bool {
        let Ok(count) = self.attributes.number(Attr::Heartbeat) else {
            self.heartbeat = None;
            return false;
        };
        let Some(before) = self.heartbeat else {
            self.heartbeat = Some(HeartbeatState { count, changed_at: at, has_changed: false, beat: None });
            return false;
        };
        let is_changed = count != before.count;
        let changed_at = if is_changed { at } else { before.changed_at };
        let has_changed = is_changed || before.has_changed;
        let beat = Some(Beat { unchanged_for: at.saturating_sub(changed_at), has_changed });
        self.heartbeat = Some(HeartbeatState { count, changed_at, has_changed, beat });
        count < before.count
    }

    /// Returns how the heartbeat changed over time.
    pub(crate) fn beat(&self) -> Option<Beat> {
        self.heartbeat.and_then(|heartbeat| heartbeat.beat)
    }

    /// Changes the reason of missing attributes to `Gone`, because the whole device is gone.
    fn mark_gone(&mut self) {
        for attribute in ATTRIBUTES {
            if self.attributes.get(attribute.attr) == Err(Missing::NotExposed) {
                self.attributes.set(attribute.attr, Err(Missing::Gone));
            }
        }
    }

    fn planned(&self, group: FileGroup, sampling: Sampling) -> impl Iterator<Item = (&'static Attribute, PathBuf)> {
        // A single sample has no rate. One counter is enough to see whether the device has counters.
        let count = if group == FileGroup::Counters && sampling == Sampling::Once { 1 } else { ATTRIBUTES.len() };
        ATTRIBUTES
            .iter()
            .filter(move |attribute| FileGroup::of(attribute) == group)
            .filter(|attribute| match attribute.interval {
                // Nothing new can be read from a device that left.
                attributes::ReadInterval::Static => self.needs_static && !self.has_left,
                attributes::ReadInterval::Dynamic | attributes::ReadInterval::Slow => {
                    self.needs_static || !self.absent.contains(&attribute.attr)
                }
            })
            .filter_map(|attribute| Some((attribute, self.path(attribute)?)))
            .take(count)
    }

    fn path(&self, attribute: &Attribute) -> Option<PathBuf> {
        let directory = match attribute.folder {
            AttributeFolder::Class => self.directory.clone(),
            AttributeFolder::Hwmon => self.hwmon.clone().ok()?,
            AttributeFolder::Pci => self.directory.join("device"),
            AttributeFolder::Bridge => self.directory.join("device/.."),
            AttributeFolder::Counters => self.directory.join("pcie_perf_counters"),
        };
        Some(directory.join(attribute.file))
    }

    /// Returns the newest hwmon directory, or the newest below number `below`. After a reset there may be two.
    fn newest_hwmon(&self, entry: &Entry, below: Option<u32>) -> Reading<PathBuf> {
        let numbers = entry.sensors.as_ref().map_err(|reason| *reason)?.iter().copied();
        let newest = numbers.filter(|number| below.is_none_or(|below| *number < below)).max().ok_or(Missing::NotExposed)?;
        Ok(self.directory.join(format!("device/hwmon/hwmon{newest}")))
    }

    /// Sets the hwmon directory. If there is none, all sensors get the reason.
    fn set_hwmon(&mut self, hwmon: Reading<PathBuf>) {
        if let Err(reason) = hwmon {
            self.set_sensors_missing(reason);
        }
        self.hwmon = hwmon;
    }

    fn set_sensors_missing(&mut self, reason: Missing) {
        for attribute in ATTRIBUTES.iter().filter(|attribute| attribute.folder == AttributeFolder::Hwmon) {
            self.attributes.set(attribute.attr, Err(reason));
        }
    }

    /// Drops readings of a hwmon directory that belongs to another driver.
    fn drop_foreign_sensors(&mut self) {
        if self.attributes.text(Attr::HwmonName).is_ok_and(|name| Arch::from_name(name).is_none()) {
            self.set_sensors_missing(Missing::NotExposed);
        }
    }

    /// Returns whether the current hwmon directory has no reading.
    fn has_dead_sensors(&self) -> bool {
        ATTRIBUTES
            .iter()
            .filter(|attribute| attribute.folder == AttributeFolder::Hwmon && attribute.interval == attributes::ReadInterval::Dynamic)
            .all(|attribute| matches!(self.attributes.get(attribute.attr), Err(Missing::NotExposed | Missing::Gone)))
    }

    /// Searches for another hwmon directory if the current one has no reading. Returns whether there is one.
    fn rediscover_hwmon(&mut self, entry: &Entry) -> bool {
        let Ok(current) = self.hwmon.clone() else {
            self.set_hwmon(self.newest_hwmon(entry, None));
            return self.hwmon.is_ok();
        };
        if !self.has_dead_sensors() {
            return false;
        }
        let number = current.file_name().and_then(|name| name.to_str()?.strip_prefix("hwmon")?.parse::<u32>().ok());
        let newest = self.newest_hwmon(entry, None);
        let other = if newest.as_ref() == Ok(&current) { self.newest_hwmon(entry, number) } else { newest };
        let other = other.ok().filter(|path| *path != current);
        let has_other = other.is_some();
        self.hwmon = Ok(other.unwrap_or(current));
        has_other
    }

    /// Returns whether the device may soon provide readings that are missing now: after a reset, or while its firmware starts.
    fn is_unsettled(&self) -> bool {
        let is_broken = |reason| !matches!(reason, Missing::NotExposed | Missing::NotOnThisArch | Missing::NoSource);
        let broken = ATTRIBUTES
            .iter()
            .filter(|attribute| attribute.shows_state)
            .any(|attribute| self.attributes.get(attribute.attr).is_err_and(is_broken));
        broken || self.attributes.get(Attr::Temperature).is_err() || self.attributes.get(Attr::CardType).is_err()
    }
}

fn reading(attribute: &Attribute, reply: &Reply) -> Reading<Raw> {
    attribute.parse(&String::from_utf8_lossy(reply.as_ref().map_err(|failure| *failure)?))
}

fn detail(reply: &Reply) -> String {
    match reply {
        Ok(bytes) => format!("it says {}", excerpt(&String::from_utf8_lossy(bytes))),
        Err(Failure::Timeout) => "the read did not come back in time".to_owned(),
        Err(Failure::TooLong) => "it is far longer than it should be".to_owned(),
        Err(Failure::Errno(errno)) => io::Error::from_raw_os_error(*errno).to_string(),
    }
}

fn in_bounds(attribute: &Attribute, reading: &Reading<Raw>) -> Reading<()> {
    attribute.check_bounds(reading.as_ref().map_err(|reason| *reason)?)
}

/// Returns the start of an untrusted text, escaped for a message.
fn excerpt(text: &str) -> String {
    const LENGTH_MAX: usize = 40;
    let text = text.trim_end();
    let short: String = text.chars().take(LENGTH_MAX).collect();
    let more = if text.chars().nth(LENGTH_MAX).is_some() { "…" } else { "" };
    format!("{short:?}{more}")
}

fn report(directory: &Path, found: Vec<Problem>, problems: &mut Vec<Problem>) {
    if found.len() <= PROBLEMS_PER_DEVICE_MAX {
        problems.extend(found);
        return;
    }
    let mut reasons: Vec<Missing> = found.iter().map(|problem| problem.reason).collect();
    reasons.sort_unstable();
    reasons.dedup();
    for reason in reasons {
        let of_kind: Vec<_> = found.iter().filter(|problem| problem.reason == reason).collect();
        let detail = match of_kind.as_slice() {
            [only] => format!("{}: {}", file_name(&only.part), only.detail),
            [first, ..] if matches!(reason, Missing::Unparsable | Missing::OutOfRange) => {
                format!("{} files with unusable values, such as {}: {}", of_kind.len(), file_name(&first.part), first.detail)
            }
            [first, ..] => format!("{} files unreadable: {}", of_kind.len(), without_number(&first.detail)),
            [] => continue,
        };
        problems.push(Problem { part: directory.display().to_string(), reason, detail });
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns `Permission denied` for `Permission denied (os error 13)`.
fn without_number(detail: &str) -> &str {
    detail.split_once(" (os error ").map_or(detail, |(words, _)| words)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counters are read less often, unless the device is not settled: then they show whether its firmware is starting.
    #[test]
    fn counters_are_read_when_due_or_needed() {
        let mut known =
            KnownDevice::new(&Root::at(Path::new("/nonexistent")), DeviceId(0), &Entry::unlisted("0000:01:00.0".parse().unwrap()));
        let at = Duration::from_secs(100);
        let mut reads = |is_settled: bool, counters: Option<(Duration, Option<Counted>)>, now: Duration| {
            (known.needs_static, known.counters) = (!is_settled, counters);
            known.begin_sample(now);
            known.groups().any(|group| group == FileGroup::Counters)
        };
        let counted = Counted { elapsed: Duration::from_secs(1), before: Vec::new() };
        assert!(reads(true, None, at), "the first time");
        assert!(reads(true, Some((at, None)), at), "the second time, for a rate");
        assert!(!reads(true, Some((at, Some(counted.clone()))), at + Duration::from_secs(1)));
        assert!(reads(true, Some((at, Some(counted.clone()))), at + Duration::from_secs(2)));
        assert!(reads(false, Some((at, Some(counted))), at + Duration::from_secs(1)), "not settled");
    }

    #[test]
    fn excerpts_are_short_and_escaped() {
        assert_eq!(excerpt("a\u{1b}[31m\n"), "\"a\\u{1b}[31m\"");
        assert_eq!(excerpt(&"x".repeat(5000)).chars().count(), 43);
    }
}
