//! One chip: its state, and each value with its reason.

use super::location;
use super::rows::Row;
use crate::attributes::{ATTRIBUTES, Attr, Attributes, FROM_DEVICE, Pace, Place, TO_DEVICE};
use crate::limits::{HEARTBEAT_WINDOW_MIN, NONSENSE_READINGS_MIN};
use crate::memory::{Bar, Figure, KindMemory, Memory, PerKind};
use crate::missing::{Missing, Reading};
use crate::sample::{Beat, Counted, DeviceSample, Problem};
use crate::snapshot::{Device, Firmware, Health, Pcie, State};
use crate::units::{Amperes, BytesPerSecond, Celsius, Megahertz, Rpm, Volts, Watts, WordsPerSecond};

pub(super) fn local(device: &DeviceSample, row: &Row<'_>, problems: &mut Vec<Problem>) -> Device {
    let (state, is_nonsense) = judge_state(&device.attributes);
    if is_nonsense {
        problems.push(Problem {
            part: format!("device {}", device.id),
            reason: Missing::OutOfRange,
            detail: "several readings of this device cannot be true, so none of this sample is shown".to_owned(),
        });
    }
    let values = Values { attributes: &device.attributes, row, state, is_nonsense };
    let number = |attr| values.number(attr);
    let scaled = |attr, unit: f64| number(attr).map(|raw| raw as f64 / unit);
    let text = |attr| values.text(attr);
    Device {
        id: device.id,
        metal_id: row.metal_id,
        arch: row.arch,
        board: row.board.clone(),
        chip: row.position.ok_or(Missing::NoSource),
        location: location(row.local),
        via: row.via,
        bdf: device.bdf,
        asic_id: number(Attr::AsicId).map(hex16),
        unique_id: Err(Missing::NoSource),
        serial: number(Attr::Serial).map(hex16),
        numa_node: number(Attr::NumaNode),
        state,
        health: Health::Unknown,
        health_reasons: Vec::new(),
        temperature: scaled(Attr::Temperature, 1e3).map(Celsius),
        temperature_limit: scaled(Attr::TemperatureMax, 1e3).map(Celsius),
        power: scaled(Attr::Power, 1e6).map(Watts),
        power_limit: scaled(Attr::PowerMax, 1e6).map(Watts),
        voltage: scaled(Attr::Voltage, 1e3).map(Volts),
        voltage_limit: scaled(Attr::VoltageMax, 1e3).map(Volts),
        current: scaled(Attr::Current, 1e3).map(Amperes),
        current_limit: scaled(Attr::CurrentMax, 1e3).map(Amperes),
        fan: number(Attr::Fan).and_then(fan_speed),
        aiclk: number(Attr::Aiclk).map(Megahertz),
        axiclk: number(Attr::Axiclk).map(Megahertz),
        arcclk: number(Attr::Arcclk).map(Megahertz),
        aiclk_limit: row.product.map(|product| Megahertz(product.aiclk_limit_mhz())).ok_or(Missing::NoSource),
        heartbeat: number(Attr::Heartbeat),
        heartbeat_alive: heartbeat_alive(&values, device.beat),
        therm_trip_count: number(Attr::ThermTrips),
        pcie: pcie(&values, device.counted.as_ref()),
        firmware: Firmware {
            bundle: text(Attr::FirmwareBundle),
            m3_app: text(Attr::FirmwareM3App),
            m3_boot: text(Attr::FirmwareM3Boot),
            arc: text(Attr::FirmwareArc),
            eth: text(Attr::FirmwareEth),
            tt_flash: text(Attr::TtFlash),
        },
        memory: unknown_memory(),
    }
}

/// A chip without telemetry of its own. It shares its gateway's fate where that one is away.
pub(super) fn remote(row: &Row<'_>, gateway: Option<&Device>) -> Device {
    const ABSENT: Missing = Missing::RemoteChip;
    let state = match gateway.map(|gateway| gateway.state) {
        Some(state @ (State::Resetting | State::Gone)) => state,
        _ => State::Unknown,
    };
    Device {
        id: row.id,
        metal_id: row.metal_id,
        arch: row.arch,
        board: row.board.clone(),
        chip: row.position.ok_or(Missing::NoSource),
        location: location(row.local),
        via: row.via,
        bdf: Err(ABSENT),
        asic_id: Err(ABSENT),
        unique_id: Err(Missing::NoSource),
        serial: row.serial.map(hex16),
        numa_node: Err(ABSENT),
        state,
        health: Health::Unknown,
        health_reasons: Vec::new(),
        temperature: Err(ABSENT),
        temperature_limit: Err(ABSENT),
        power: Err(ABSENT),
        power_limit: Err(ABSENT),
        voltage: Err(ABSENT),
        voltage_limit: Err(ABSENT),
        current: Err(ABSENT),
        current_limit: Err(ABSENT),
        fan: Err(ABSENT),
        aiclk: Err(ABSENT),
        axiclk: Err(ABSENT),
        arcclk: Err(ABSENT),
        aiclk_limit: row.product.map(|product| Megahertz(product.aiclk_limit_mhz())).ok_or(Missing::NoSource),
        heartbeat: Err(ABSENT),
        heartbeat_alive: Err(ABSENT),
        therm_trip_count: Err(ABSENT),
        pcie: Pcie {
            gen_now: Err(ABSENT),
            width: Err(ABSENT),
            gen_max: Err(ABSENT),
            width_max: Err(ABSENT),
            slot_width_max: Err(ABSENT),
            to_device: Err(ABSENT),
            from_device: Err(ABSENT),
            to_device_words: Err(ABSENT),
            from_device_words: Err(ABSENT),
        },
        firmware: Firmware {
            bundle: Err(ABSENT),
            m3_app: Err(ABSENT),
            m3_boot: Err(ABSENT),
            arc: Err(ABSENT),
            eth: Err(ABSENT),
            tt_flash: Err(ABSENT),
        },
        memory: unknown_memory(),
    }
}

/// Stands until the processes are known.
fn unknown_memory() -> Memory {
    const REASON: Missing = Missing::NotTracked;
    let kind = |_| KindMemory { total: Err(REASON), capacity: Err(REASON), free: Err(REASON), figure: Figure::missing(REASON) };
    let bar = Bar::new(Err(REASON), Err(REASON));
    Memory {
        kinds: PerKind::from_fn(kind),
        dram: bar,
        l1: bar,
        untracked_processes: 0,
        holders: Err(REASON),
        hidden_processes: 0,
        stale_bytes: 0,
    }
}

/// The state, and whether the sample as a whole is nonsense.
fn judge_state(attributes: &Attributes) -> (State, bool) {
    let mut believable = 0;
    let mut reasons = Vec::new();
    for row in ATTRIBUTES.iter().filter(|row| row.is_telemetry) {
        match attributes.number(row.attr) {
            Ok(_) => believable += 1,
            Err(Missing::NotExposed | Missing::NotOnThisArch) => {}
            Err(reason) => reasons.push(reason),
        }
    }
    let nonsense = reasons.iter().filter(|reason| **reason == Missing::OutOfRange).count();
    if nonsense >= NONSENSE_READINGS_MIN {
        return (State::Unreadable, true);
    }
    let state = match () {
        () if believable > 0 => State::Ok,
        () if reasons.is_empty() && has_counters(attributes) => State::Starting,
        () if reasons.is_empty() => State::Unknown,
        () if reasons.contains(&Missing::Gone) => State::Gone,
        () if reasons.contains(&Missing::Resetting) => State::Resetting,
        () => State::Unreadable,
    };
    (state, false)
}

/// Whether the driver publishes the PCIe counters, which need no firmware. A driver without them is too old to wait for firmware.
fn has_counters(attributes: &Attributes) -> bool {
    TO_DEVICE.iter().chain(FROM_DEVICE).any(|attr| attributes.get(*attr).is_ok())
}

/// A device's files, with what its state and architecture say about them.
struct Values<'a> {
    attributes: &'a Attributes,
    row: &'a Row<'a>,
    state: State,
    is_nonsense: bool,
}

impl Values<'_> {
    fn number(&self, attr: Attr) -> Reading<u64> {
        self.settle(attr, self.attributes.number(attr))
    }

    fn text(&self, attr: Attr) -> Reading<String> {
        self.settle(attr, self.attributes.text(attr).map(str::to_owned))
    }

    fn settle<T>(&self, attr: Attr, reading: Reading<T>) -> Reading<T> {
        let attribute = attr.attribute();
        let is_from_firmware = matches!(attribute.place, Place::Class | Place::Hwmon | Place::Counters);
        if self.is_nonsense && attribute.pace == Pace::Dynamic && is_from_firmware {
            return Err(Missing::OutOfRange);
        }
        match reading {
            Err(_) if self.row.arch.is_ok_and(|arch| attribute.since(arch).is_none()) => Err(Missing::NotOnThisArch),
            // One file without data on a device that otherwise answers: its firmware has no such value.
            Err(Missing::Resetting) if self.state == State::Ok => Err(Missing::NoSource),
            Err(Missing::NotExposed) if self.state == State::Starting && is_from_firmware => Err(Missing::NoSource),
            other => other,
        }
    }
}

/// 0 is what firmware without fan control says, 65535 and above what newer firmware says.
fn fan_speed(rpm: u64) -> Reading<Rpm> {
    if (1..65_535).contains(&rpm) { Ok(Rpm(rpm)) } else { Err(Missing::NoSource) }
}

/// Alive if it changed within the window; stopped if it did not for as long as that.
fn heartbeat_alive(values: &Values<'_>, beat: Option<Beat>) -> Reading<bool> {
    values.number(Attr::Heartbeat)?;
    let beat = beat.ok_or(Missing::FirstSample)?;
    match beat.unchanged_for >= HEARTBEAT_WINDOW_MIN {
        true => Ok(false),
        false if beat.has_changed => Ok(true),
        false => Err(Missing::FirstSample),
    }
}

fn pcie(values: &Values<'_>, counted: Option<&Counted>) -> Pcie {
    let to_words = words_per_second(values, counted, TO_DEVICE);
    let from_words = words_per_second(values, counted, FROM_DEVICE);
    let bytes = |words: Reading<WordsPerSecond>| {
        let words = words?.0;
        let word_bytes = values.row.arch.ok().and_then(crate::Arch::counter_word_bytes);
        word_bytes.map(|bytes| BytesPerSecond(words * bytes)).ok_or(Missing::NoSource)
    };
    Pcie {
        gen_now: values.number(Attr::LinkSpeed),
        width: values.number(Attr::LinkWidth),
        gen_max: values.number(Attr::LinkSpeedMax),
        width_max: values.number(Attr::LinkWidthMax),
        slot_width_max: values.number(Attr::BridgeWidthMax),
        to_device: bytes(to_words),
        from_device: bytes(from_words),
        to_device_words: to_words,
        from_device_words: from_words,
    }
}

/// The sum of what each counter moved. Each NoC's counter is 32 bits wide and wraps by itself.
fn words_per_second(values: &Values<'_>, counted: Option<&Counted>, counters: &[Attr]) -> Reading<WordsPerSecond> {
    let now: Vec<(Attr, u64)> = counters.iter().filter_map(|attr| Some((*attr, values.number(*attr).ok()?))).collect();
    // A single sample reads one counter, of either direction.
    if counted.is_none() && has_counters(values.attributes) {
        return Err(Missing::FirstSample);
    }
    if now.is_empty() {
        return Err(counters.iter().find_map(|attr| values.number(*attr).err()).unwrap_or(Missing::NoSource));
    }
    let Counted { elapsed, before } = counted.filter(|counted| !counted.elapsed.is_zero()).ok_or(Missing::FirstSample)?;
    let mut words = 0;
    for (attr, value) in now {
        let then = before.iter().find(|(counter, _)| *counter == attr).ok_or(Missing::FirstSample)?.1;
        words += increase(then, value);
    }
    Ok(WordsPerSecond(words as f64 / elapsed.as_secs_f64()))
}

/// What a 32-bit counter counted between two readings.
fn increase(before: u64, now: u64) -> u64 {
    now.wrapping_sub(before) & 0xFFFF_FFFF
}

/// As the driver prints ids.
fn hex16(id: u64) -> String {
    format!("{id:016X}")
}
