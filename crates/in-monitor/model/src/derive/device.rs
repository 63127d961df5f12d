//! Derives one chip: its state, and each value or the reason why it is missing.

use super::deep;
use super::device_rows::DeviceRow;
use crate::attributes::{ATTRIBUTES, Attr, Attributes, FROM_DEVICE, ReadInterval, TO_DEVICE};
use crate::fields::{DEVICE, FieldSource, Value, hex16};
use crate::limits::{HEARTBEAT_WINDOW_MIN, NONSENSE_READINGS_MIN};
use crate::missing::{Missing, Reading};
use crate::sample::{Beat, Counted, DeviceSample, Problem};
use crate::snapshot::{Device, Location, State};
use crate::units::{BytesPerSecond, Megahertz, WordsPerSecond};

/// Derives a chip on PCIe. Also returns the maximum number of lanes of its slot.
pub(super) fn local(sample: &DeviceSample, row: &DeviceRow<'_>, problems: &mut Vec<Problem>) -> (Device, Reading<u64>) {
    let (state, is_implausible) = state_of(&sample.attributes);
    if is_implausible {
        let detail = "several readings of this device cannot be true, so none of this sample is shown";
        problems.push(Problem::new(format!("device {}", sample.id), Missing::OutOfRange, detail));
    }
    let values = Values { attributes: &sample.attributes, row, state, is_implausible };
    let mut device = identified(row);
    for field in DEVICE {
        if let FieldSource::File(attr) = field.source {
            let reading = values.checked(attr, values.attributes.in_bounds(attr));
            (field.set)(&mut device, reading.and_then(|raw| Value::of_file(raw, attr.attribute().format, field.unit)));
        }
    }
    (device.bdf, device.state) = (sample.bdf, state);
    device.heartbeat_alive = heartbeat_alive(&device, sample.beat);
    device.pcie_to_device_words_per_s = words_per_second(&values, sample.counted.as_ref(), TO_DEVICE);
    device.pcie_from_device_words_per_s = words_per_second(&values, sample.counted.as_ref(), FROM_DEVICE);
    device.pcie_to_device_bytes_per_s = bytes_per_second(row, device.pcie_to_device_words_per_s);
    device.pcie_from_device_bytes_per_s = bytes_per_second(row, device.pcie_from_device_words_per_s);
    deep::take(&mut device, &sample.deep);
    let slot_width_max = values.number(Attr::BridgeWidthMax);
    (device, slot_width_max)
}

/// Derives a remote chip, which has no telemetry. If its gateway is being reset or gone, it has the gateway's state.
pub(super) fn remote(row: &DeviceRow<'_>, gateway: Option<&Device>) -> Device {
    let mut device = identified(row);
    deep::set_missing(&mut device, Missing::RemoteChip);
    device.serial = row.serial.map(hex16);
    if let Some(state @ (State::Resetting | State::Gone)) = gateway.map(|gateway| gateway.state) {
        device.state = state;
    }
    device
}

/// Returns a chip of which only the position in the machine is known.
fn identified(row: &DeviceRow<'_>) -> Device {
    Device {
        id: row.id,
        metal_id: row.metal_id,
        name: row.arch.map(|arch| arch.chip_name().to_owned()),
        arch: row.arch,
        board: row.board.clone(),
        chip: row.position.ok_or(Missing::NoSource),
        location: if row.local.is_some() { Location::Local } else { Location::Remote },
        via: row.via,
        aiclk_limit_mhz: row.product.map(|product| Megahertz(product.arch.aiclk_limit_mhz())).ok_or(Missing::NoSource),
        ..Device::absent()
    }
}

/// Returns the state, and whether the whole sample is invalid.
pub(super) fn state_of(attributes: &Attributes) -> (State, bool) {
    let mut plausible = 0;
    let mut reasons = Vec::new();
    for row in ATTRIBUTES.iter().filter(|row| row.shows_state) {
        match attributes.number(row.attr) {
            Ok(_) => plausible += 1,
            Err(Missing::NotExposed | Missing::NotOnThisArch) => {}
            Err(reason) => reasons.push(reason),
        }
    }
    let nonsense = reasons.iter().filter(|reason| **reason == Missing::OutOfRange).count();
    if nonsense >= NONSENSE_READINGS_MIN {
        return (State::Unreadable, true);
    }
    let state = match () {
        () if plausible > 0 => State::Ok,
        () if reasons.is_empty() && has_counters(attributes) => State::Starting,
        () if reasons.is_empty() => State::Unknown,
        () if reasons.contains(&Missing::Gone) => State::Gone,
        () if reasons.contains(&Missing::Resetting) => State::Resetting,
        () => State::Unreadable,
    };
    (state, false)
}

/// Returns whether the driver publishes the PCIe counters, which do not need firmware. A driver without them is too old to wait for
/// firmware.
fn has_counters(attributes: &Attributes) -> bool {
    TO_DEVICE.iter().chain(FROM_DEVICE).any(|attr| attributes.get(*attr).is_ok())
}

/// The files of a device, with the reasons that its state and architecture imply.
struct Values<'a> {
    attributes: &'a Attributes,
    row: &'a DeviceRow<'a>,
    state: State,
    is_implausible: bool,
}

impl Values<'_> {
    /// Returns a reading, or the better reason.
    fn checked<T>(&self, attr: Attr, reading: Reading<T>) -> Reading<T> {
        let attribute = attr.attribute();
        let is_from_firmware = attribute.is_from_firmware();
        if self.is_implausible && attribute.interval == ReadInterval::Dynamic && is_from_firmware {
            return Err(Missing::OutOfRange);
        }
        match reading {
            Err(_) if self.row.arch.is_ok_and(|arch| attribute.since_on(arch).is_none()) => Err(Missing::NotOnThisArch),
            // If the device answers otherwise, a file without data means that its firmware has no such value.
            Err(Missing::Resetting) if self.state == State::Ok => Err(Missing::NoSource),
            Err(Missing::NotExposed) if self.state == State::Starting && is_from_firmware => Err(Missing::NoSource),
            other => other,
        }
    }

    fn number(&self, attr: Attr) -> Reading<u64> {
        self.checked(attr, self.attributes.number(attr))
    }
}

/// Returns whether the heartbeat is alive: true if it changed within the window, false if it did not change for a whole window.
fn heartbeat_alive(device: &Device, beat: Option<Beat>) -> Reading<bool> {
    device.heartbeat?;
    let beat = beat.ok_or(Missing::FirstSample)?;
    match beat.unchanged_for >= HEARTBEAT_WINDOW_MIN {
        true => Ok(false),
        false if beat.has_changed => Ok(true),
        false => Err(Missing::FirstSample),
    }
}

fn bytes_per_second(row: &DeviceRow<'_>, words: Reading<WordsPerSecond>) -> Reading<BytesPerSecond> {
    let words = words?.0;
    row.arch?.counter_word_bytes().map(|bytes| BytesPerSecond(words * bytes)).ok_or(Missing::NoSource)
}

/// Returns the sum of the counters' increments, per second. The counter of each NoC is 32 bits wide and wraps independently.
fn words_per_second(values: &Values<'_>, counted: Option<&Counted>, counters: &[Attr]) -> Reading<WordsPerSecond> {
    // Counters are all ones during a reset.
    if values.state == State::Resetting {
        return Err(Missing::Resetting);
    }
    // A single sample reads only one of the counters, so one direction has none.
    if counted.is_none() && has_counters(values.attributes) {
        return Err(Missing::FirstSample);
    }
    let mut now: Vec<(Attr, u64)> = Vec::with_capacity(counters.len());
    for attr in counters {
        match values.number(*attr) {
            Ok(value) => now.push((*attr, value)),
            // The driver has fewer counters.
            Err(Missing::NotExposed) => {}
            // The sum of the others would be too low.
            Err(reason) => return Err(reason),
        }
    }
    if now.is_empty() {
        return Err(Missing::NotExposed);
    }
    let Counted { elapsed, before } = counted.filter(|counted| !counted.elapsed.is_zero()).ok_or(Missing::FirstSample)?;
    let mut words = 0;
    for (attr, value) in now {
        let then = before.iter().find(|(counter, _)| *counter == attr).ok_or(Missing::FirstSample)?.1;
        words += increase(then, value);
    }
    Ok(WordsPerSecond(words as f64 / elapsed.as_secs_f64()))
}

/// Returns the increment of a 32-bit counter between two readings.
fn increase(before: u64, now: u64) -> u64 {
    now.wrapping_sub(before) & 0xFFFF_FFFF
}
