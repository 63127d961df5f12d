//! One device's files: where they are, and what their texts say.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ttmon_model::attributes::{self, ATTRIBUTES, Attribute, AttributeFolder, Attributes};
use ttmon_model::identity::{Bdf, DeviceId};
use ttmon_model::limits::{ATTRIBUTE_BYTES_MAX, DEVICES_MAX};
use ttmon_model::sample::{Beat, Counted, Problem};
use ttmon_model::{Arch, Attr, Missing, Raw, Reading};

use crate::root::Root;
use crate::users;
use ttmon_reads::{Failure, LaneReply, Pace, Reply, Request, Want, read_small};

/// With more broken files of one device than this, they are reported in one line.
const PROBLEMS_PER_DEVICE_MAX: usize = 4;

/// Everything about a device is read again after so many samples, or up to twice as many.
const STATIC_EVERY: u32 = 64;

/// Files that hardly ever change are read every so many samples.
const SLOW_EVERY: u32 = 8;

/// Traffic counters are read at most this often, after the first two times. There are twelve of them, more than everything else that
/// changes.
const COUNTERS_EVERY: Duration = Duration::from_millis(1900);

/// A device that was found, and what does not change about it.
#[derive(Clone, Debug)]
pub(crate) struct KnownDevice {
    pub(crate) id: DeviceId,
    pub(crate) bdf: Reading<Bdf>,
    pub(crate) attributes: Attributes,
    directory: PathBuf,
    hwmon: Reading<PathBuf>,
    /// What is read once must be read again: the device is new, was reset, or was not ready.
    needs_static: bool,
    /// Samples until then.
    static_in: u32,
    /// Files that change and were not there when everything was read.
    absent: Vec<Attr>,
    /// It was listed before and is not now.
    has_left: bool,
    /// Whether it was ever listed.
    pub(crate) was_listed: bool,
    /// Of one that never was: whether its PCI device was there.
    is_on_bus: bool,
    /// The PCI address that its number had before, where that was another.
    pub(crate) former: Option<Bdf>,
    /// The list of its files by [`Part`], while that stays the same.
    plans: [Option<Arc<Plan>>; 3],
    /// Samples until the files that hardly ever change are read again.
    slow_in: u32,
    /// Which of its parts this sample reads, by [`Part`].
    due: [bool; 3],
    /// The list of its users.
    users: Option<Arc<[Request]>>,
    /// When its counters were read last, and the reading before that.
    counters: Option<(Duration, Option<Counted>)>,
    heart: Option<Heart>,
}

/// A heartbeat as it went so far.
#[derive(Clone, Copy, Debug)]
struct Heart {
    count: u64,
    changed_at: Duration,
    has_changed: bool,
    beat: Option<Beat>,
}

/// Files that are read together. The counters are apart: a rate needs to know when they were read, and they have no
/// lock that a reset could hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Telemetry,
    Counters,
    /// What hardly ever changes.
    Slow,
}

impl Part {
    pub(crate) const ALL: [Self; 3] = [Self::Telemetry, Self::Counters, Self::Slow];

    fn of(attribute: &Attribute) -> Self {
        match (attribute.place, attribute.pace) {
            (AttributeFolder::Counters, _) => Self::Counters,
            (_, attributes::ReadInterval::Slow) => Self::Slow,
            _ => Self::Telemetry,
        }
    }
}

/// The files of a part, and what each of them is.
#[derive(Debug)]
struct Plan {
    attributes: Vec<&'static Attribute>,
    requests: Arc<[Request]>,
}

/// Ids of the devices in the class directory: entries `tenstorrent!N`.
pub(crate) fn list(root: &Root) -> io::Result<Vec<DeviceId>> {
    let mut ids: Vec<DeviceId> = root
        .list(&root.class())?
        .iter()
        .filter_map(|name| name.to_str()?.strip_prefix("tenstorrent!")?.parse().ok().map(DeviceId))
        .take(DEVICES_MAX)
        .collect();
    ids.sort_unstable();
    Ok(ids)
}

impl KnownDevice {
    /// A device just listed.
    pub(crate) fn new(root: &Root, id: DeviceId) -> Self {
        let directory = root.class().join(format!("tenstorrent!{id}"));
        let mut known = Self {
            id,
            was_listed: true,
            is_on_bus: true,
            former: None,
            bdf: bdf(&directory),
            attributes: Attributes::all_missing(Missing::NotExposed),
            hwmon: Err(Missing::NotExposed),
            directory,
            needs_static: true,
            static_in: 0,
            absent: Vec::new(),
            has_left: false,
            plans: Default::default(),
            slow_in: 0,
            due: [true; 3],
            users: None,
            counters: None,
            heart: None,
        };
        known.set_hwmon(known.find_hwmon(root, None));
        known
    }

    /// A device that is not listed, as its PCI device says what it is.
    pub(crate) fn absent(root: &Root, id: DeviceId, bdf: Bdf) -> Self {
        let is_on_bus = fs::symlink_metadata(root.pci().join(bdf.to_string())).is_ok();
        let mut known = Self { bdf: Ok(bdf), was_listed: false, is_on_bus, has_left: true, ..Self::new(root, id) };
        known.read_bus(root);
        known
    }

    /// The same of one whose board is known from before.
    pub(crate) fn remembered(root: &Root, id: DeviceId, bdf: Bdf, board: &str) -> Self {
        let mut known = Self::absent(root, id, bdf);
        known.attributes.set(Attr::CardType, Attr::CardType.attribute().parse(board));
        known
    }

    /// The device that has the number of another now.
    pub(crate) fn in_place_of(root: &Root, other: &Self) -> Self {
        let new = Self::new(root, other.id);
        let former = other.former.or(other.bdf.ok()).filter(|former| new.bdf != Ok(*former));
        Self { former, ..new }
    }

    /// Takes from the PCI bus what kind of board it is, where the driver's directory does not answer.
    pub(crate) fn read_bus(&mut self, root: &Root) {
        let Ok(bdf) = self.bdf else { return };
        for attr in [Attr::PciDevice, Attr::SubsystemDevice] {
            let attribute = attr.attribute();
            let file = root.pci().join(bdf.to_string()).join(attribute.file);
            if let Ok(text) = read_small(&file, ATTRIBUTE_BYTES_MAX)
                && self.attributes.get(attr).is_err()
            {
                self.attributes.set(attr, attribute.parse(&String::from_utf8_lossy(&text)));
            }
        }
    }

    /// Whether nothing says what kind of board it is.
    pub(crate) fn lacks_board(&self) -> bool {
        self.attributes.get(Attr::CardType).is_err() && self.attributes.get(Attr::SubsystemDevice).is_err()
    }

    /// What is to be said of its number: nobody listed it, or it was another's before.
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

    /// Whether the class entry still leads to the same device. One that answers through files that were opened before does.
    pub(crate) fn is_same(&self, pace: Pace) -> bool {
        let is_open = pace == Pace::Repeated && !self.needs_static;
        is_open || bdf(&self.directory) == self.bdf
    }

    /// Whether it is among the devices that are listed now.
    pub(crate) fn set_listed(&mut self, is_listed: bool) {
        if self.has_left == is_listed {
            self.has_left = !is_listed;
            self.was_listed |= is_listed;
            self.plans = Default::default();
            self.users = None;
        }
    }

    /// Whether it was listed before and is not now.
    pub(crate) fn has_left(&self) -> bool {
        self.has_left
    }

    /// Chooses the parts that are read in a sample at this time.
    pub(crate) fn begin_sample(&mut self, now: Duration) {
        // If a device is not settled, the counters show whether its firmware is starting.
        let is_spaced = !self.needs_static && matches!(self.counters, Some((at, Some(_))) if now.saturating_sub(at) < COUNTERS_EVERY);
        let is_slow_due = self.slow_in == 0 || self.needs_static;
        self.slow_in = if is_slow_due { SLOW_EVERY } else { self.slow_in } - 1;
        self.due = [true, !is_spaced, is_slow_due];
    }

    /// The parts that are read in this sample.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part> + use<> {
        let due = self.due;
        Part::ALL.into_iter().filter(move |part| due[*part as usize])
    }

    /// What to read now.
    pub(crate) fn requests(&mut self, part: Part, pace: Pace) -> Arc<[Request]> {
        if let Some(plan) = &self.plans[part as usize] {
            return Arc::clone(&plan.requests);
        }
        let (mut attributes, mut requests) = (Vec::new(), Vec::new());
        for (attribute, path) in self.planned(part, pace) {
            // What is read once need not stay open, and the open files of a device that left may still answer.
            let pace = if attribute.pace == attributes::ReadInterval::Static || self.has_left { Pace::Once } else { pace };
            requests.push(Request { path, want: Want::Whole, bytes_max: ATTRIBUTE_BYTES_MAX, pace });
            attributes.push(attribute);
        }
        let plan = Plan { attributes, requests: requests.into() };
        let requests = Arc::clone(&plan.requests);
        self.plans[part as usize] = Some(Arc::new(plan));
        requests
    }

    /// The driver's list of its users.
    pub(crate) fn users_request(&mut self, root: &Root, pace: Pace) -> Arc<[Request]> {
        let pace = if self.has_left { Pace::Once } else { pace };
        Arc::clone(self.users.get_or_insert_with(|| [users::request(root, self.id, pace)].into()))
    }

    /// Takes in the counters.
    pub(crate) fn take_counters(&mut self, lane: &LaneReply, problems: &mut Vec<Problem>) {
        let before = self.counters.take().map(|(at, _)| Counted { elapsed: lane.at.saturating_sub(at), before: self.counts() });
        self.take_slow(Part::Counters, lane, problems);
        self.counters = Some((lane.at, before));
    }

    /// Takes in a part that says nothing of the device's state.
    pub(crate) fn take_slow(&mut self, part: Part, lane: &LaneReply, problems: &mut Vec<Problem>) {
        let found = self.take_readings(part, &lane.replies);
        report(&self.directory, found, problems);
        self.mark_gone(lane);
    }

    fn counts(&self) -> Vec<(Attr, u64)> {
        let counters = ATTRIBUTES.iter().filter(|attribute| attribute.place == AttributeFolder::Counters);
        counters.filter_map(|attribute| Some((attribute.attr, self.attributes.number(attribute.attr).ok()?))).collect()
    }

    /// The counters over time.
    pub(crate) fn counted(&self) -> Option<Counted> {
        self.counters.as_ref()?.1.clone()
    }

    /// Stores the telemetry. Returns whether the sensors must be searched again and read again.
    pub(crate) fn take(&mut self, root: &Root, lane: &LaneReply, problems: &mut Vec<Problem>) -> Retry {
        let found = self.take_readings(Part::Telemetry, &lane.replies);
        self.drop_foreign_sensors();
        let retry = self.rediscover_hwmon(root);
        self.mark_gone(lane);
        if retry == Retry::No {
            report(&self.directory, found, problems);
        }
        let was_reset = self.feel_pulse(lane.at);
        if was_reset {
            // A reset clears the counters too.
            self.counters = None;
        }
        if self.needs_static {
            let is_absent = |attribute: &&Attribute| self.attributes.get(attribute.attr) == Err(Missing::NotExposed);
            let is_changing = |attribute: &&Attribute| {
                attribute.pace == attributes::ReadInterval::Dynamic && attribute.place != AttributeFolder::Counters
            };
            self.absent = ATTRIBUTES.iter().filter(is_changing).filter(is_absent).map(|attribute| attribute.attr).collect();
            // Not all devices in the same sample.
            self.static_in = STATIC_EVERY + self.id.0 % STATIC_EVERY;
        }
        self.static_in = self.static_in.saturating_sub(1);
        let needs_static = was_reset || self.is_unsettled() || self.static_in == 0;
        if needs_static != self.needs_static || retry == Retry::Yes {
            self.plans[Part::Telemetry as usize] = None;
        }
        self.needs_static = needs_static;
        retry
    }

    fn take_readings(&mut self, part: Part, replies: &[Reply]) -> Vec<Problem> {
        let Some(plan) = self.plans[part as usize].clone() else { return Vec::new() };
        let mut found = Vec::new();
        let is_absent = |reply: &Reply| reply.as_ref().is_err_and(|failure| Missing::from(*failure) == Missing::NotExposed);
        let is_starting = plan.attributes.iter().zip(replies).all(|(attribute, reply)| !attribute.is_telemetry || is_absent(reply));
        for ((attribute, request), reply) in plan.attributes.iter().zip(&*plan.requests).zip(replies) {
            let reading = reading(attribute, reply);
            let judged = judged(attribute, &reading);
            if let Err(reason) = judged
                && reason.is_problem()
            {
                found.push(Problem { part: request.path.display().to_string(), reason, detail: detail(reply) });
            }
            // What a chip is does not change while it does not answer.
            let is_known = attribute.pace == attributes::ReadInterval::Static && self.attributes.get(attribute.attr).is_ok();
            let is_silent = match judged {
                Err(Missing::Timeout | Missing::Resetting | Missing::Gone | Missing::IoError) => true,
                Err(Missing::NotExposed) => is_starting,
                // All ones. Limits are readings rather than identity, so they are not kept.
                Err(Missing::NoSource | Missing::OutOfRange) => attribute.place == AttributeFolder::Class,
                _ => false,
            };
            if !(is_known && is_silent) {
                self.attributes.set(attribute.attr, reading);
            }
        }
        found
    }

    /// Notes the heartbeat. True when it fell back: the chip was reset since the last look.
    fn feel_pulse(&mut self, at: Duration) -> bool {
        let Ok(count) = self.attributes.number(Attr::Heartbeat) else {
            self.heart = None;
            return false;
        };
        let Some(before) = self.heart else {
            self.heart = Some(Heart { count, changed_at: at, has_changed: false, beat: None });
            return false;
        };
        let is_changed = count != before.count;
        let changed_at = if is_changed { at } else { before.changed_at };
        let has_changed = is_changed || before.has_changed;
        let beat = Some(Beat { unchanged_for: at.saturating_sub(changed_at), has_changed });
        self.heart = Some(Heart { count, changed_at, has_changed, beat });
        count < before.count
    }

    /// The heartbeat over time.
    pub(crate) fn beat(&self) -> Option<Beat> {
        self.heart.and_then(|heart| heart.beat)
    }

    /// What is not there is not there because the whole device is not. One that is listed and answers is there.
    fn mark_gone(&mut self, lane: &LaneReply) {
        let answers = !self.has_left && lane.replies.iter().any(Result::is_ok);
        if answers || fs::metadata(&self.directory).is_ok() {
            return;
        }
        for attribute in ATTRIBUTES {
            if self.attributes.get(attribute.attr) == Err(Missing::NotExposed) {
                self.attributes.set(attribute.attr, Err(Missing::Gone));
            }
        }
    }

    fn planned(&self, part: Part, pace: Pace) -> impl Iterator<Item = (&'static Attribute, PathBuf)> {
        // A single sample has no rate: of the counters it only matters whether there are any.
        let count = if part == Part::Counters && pace == Pace::Once { 1 } else { ATTRIBUTES.len() };
        ATTRIBUTES
            .iter()
            .filter(move |attribute| Part::of(attribute) == part)
            .filter(|attribute| match attribute.pace {
                // What it was is all that can be known of one that left.
                attributes::ReadInterval::Static => self.needs_static && !self.has_left,
                attributes::ReadInterval::Dynamic | attributes::ReadInterval::Slow => {
                    self.needs_static || !self.absent.contains(&attribute.attr)
                }
            })
            .filter_map(|attribute| Some((attribute, self.path(attribute)?)))
            .take(count)
    }

    fn path(&self, attribute: &Attribute) -> Option<PathBuf> {
        let directory = match attribute.place {
            AttributeFolder::Class => self.directory.clone(),
            AttributeFolder::Hwmon => self.hwmon.clone().ok()?,
            AttributeFolder::Pci => self.directory.join("device"),
            AttributeFolder::Bridge => self.directory.join("device/.."),
            AttributeFolder::Counters => self.directory.join("pcie_perf_counters"),
        };
        Some(directory.join(attribute.file))
    }

    /// The newest hwmon directory below the device, older than `below` if given. The number changes with every driver
    /// load, and after a reset two have been seen.
    fn find_hwmon(&self, root: &Root, below: Option<u32>) -> Reading<PathBuf> {
        let parent = self.directory.join("device/hwmon");
        let newest = match root.list(&parent) {
            Ok(names) => names
                .iter()
                .filter_map(|name| name.to_str()?.strip_prefix("hwmon")?.parse::<u32>().ok())
                .filter(|number| below.is_none_or(|below| *number < below))
                .max()
                .ok_or(Missing::NotExposed),
            Err(error) => Err(Failure::from(error).into()),
        };
        newest.map(|number| parent.join(format!("hwmon{number}")))
    }

    /// Sets where the sensors are. Where there are none, they all have the reason.
    fn set_hwmon(&mut self, hwmon: Reading<PathBuf>) {
        if let Err(reason) = hwmon {
            self.set_sensors_missing(reason);
        }
        self.hwmon = hwmon;
    }

    fn set_sensors_missing(&mut self, reason: Missing) {
        for attribute in ATTRIBUTES.iter().filter(|attribute| attribute.place == AttributeFolder::Hwmon) {
            self.attributes.set(attribute.attr, Err(reason));
        }
    }

    /// Drops readings of a hwmon directory that belongs to another driver.
    fn drop_foreign_sensors(&mut self) {
        if self.attributes.text(Attr::HwmonName).is_ok_and(|name| Arch::from_name(name).is_none()) {
            self.set_sensors_missing(Missing::NotExposed);
        }
    }

    /// Looks for another hwmon directory if the current one has no reading.
    fn rediscover_hwmon(&mut self, root: &Root) -> Retry {
        let Ok(current) = self.hwmon.clone() else {
            self.set_hwmon(self.find_hwmon(root, None));
            return if self.hwmon.is_ok() { Retry::Yes } else { Retry::No };
        };
        let is_dead = ATTRIBUTES
            .iter()
            .filter(|attribute| attribute.place == AttributeFolder::Hwmon && attribute.pace == attributes::ReadInterval::Dynamic)
            .all(|attribute| matches!(self.attributes.get(attribute.attr), Err(Missing::NotExposed | Missing::Gone)));
        if !is_dead {
            return Retry::No;
        }
        let number = current.file_name().and_then(|name| name.to_str()?.strip_prefix("hwmon")?.parse::<u32>().ok());
        let newest = self.find_hwmon(root, None);
        let other = if newest.as_ref() == Ok(&current) { self.find_hwmon(root, number) } else { newest };
        match other {
            Ok(path) if path != current => {
                self.hwmon = Ok(path);
                Retry::Yes
            }
            _ => Retry::No,
        }
    }

    /// True when the device has something to say that it did not yet: after a reset, or while its firmware starts.
    fn is_unsettled(&self) -> bool {
        let is_broken = |reason| !matches!(reason, Missing::NotExposed | Missing::NotOnThisArch | Missing::NoSource);
        let broken = ATTRIBUTES
            .iter()
            .filter(|attribute| attribute.is_telemetry)
            .any(|attribute| self.attributes.get(attribute.attr).is_err_and(is_broken));
        broken || self.attributes.get(Attr::Temperature).is_err() || self.attributes.get(Attr::CardType).is_err()
    }
}

/// Whether to read a device's files again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    Yes,
    No,
}

/// The PCI address is the last part of the target of the `device` link: `../../../0000:c1:00.0`. Of a device that just left, the class link
/// still has it: `../../devices/pci0000:00/0000:00:01.0/0000:c1:00.0/tenstorrent/tenstorrent!0`.
fn bdf(directory: &Path) -> Reading<Bdf> {
    let link = directory.join("device");
    let name_in = |path: &Path| path.file_name().and_then(|name| name.to_str()?.parse().ok());
    match fs::read_link(&link) {
        Ok(target) => name_in(&target).or_else(|| name_in(&fs::canonicalize(&link).ok()?)).ok_or(Missing::Unparsable),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(Missing::NoPermission),
        Err(_) => fs::read_link(directory).ok().and_then(|target| name_in(target.parent()?.parent()?)).ok_or(Missing::Gone),
    }
}

fn reading(attribute: &Attribute, reply: &Reply) -> Reading<Raw> {
    attribute.parse(&String::from_utf8_lossy(reply.as_ref().map_err(|failure| *failure)?))
}

/// What was answered, in words.
fn detail(reply: &Reply) -> String {
    match reply {
        Ok(bytes) => format!("it says {}", excerpt(&String::from_utf8_lossy(bytes))),
        Err(Failure::Timeout) => "the read did not come back in time".to_owned(),
        Err(Failure::TooLong) => "it is far longer than it should be".to_owned(),
        Err(Failure::Errno(errno)) => io::Error::from_raw_os_error(*errno).to_string(),
    }
}

fn judged(attribute: &Attribute, reading: &Reading<Raw>) -> Reading<()> {
    attribute.judge(reading.as_ref().map_err(|reason| *reason)?)
}

/// The beginning of a foreign text, fit for a message.
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

/// `Permission denied` for `Permission denied (os error 13)`.
fn without_number(detail: &str) -> &str {
    detail.split_once(" (os error ").map_or(detail, |(words, _)| words)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counters are spaced, except for a device that is not settled: they show whether its firmware is starting.
    #[test]
    fn counters_are_read_when_due_or_needed() {
        let mut known = KnownDevice::new(&Root::at(Path::new("/nonexistent")), DeviceId(0));
        let at = Duration::from_secs(100);
        let mut reads = |is_settled: bool, counters: Option<(Duration, Option<Counted>)>, now: Duration| {
            (known.needs_static, known.counters) = (!is_settled, counters);
            known.begin_sample(now);
            known.parts().any(|part| part == Part::Counters)
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
