//! Derives the fields of a device from a direct sample of the chip.

use std::time::Duration;

use crate::deep::{Counters, DeepSample, Dispatch, Queue, tag};
use crate::fields::DEVICE;
use crate::missing::{Missing, Reading};
use crate::product::Arch;
use crate::snapshot::Device;
use crate::units::{Amperes, Celsius, Rpm, Version, Watts};

/// Maximum clock of any chip, in hertz. Counters that seem to run faster were read during an update.
const CLOCK_MAX: f64 = 4e9;
/// If the chip's clock does not advance for this long, no dispatch firmware is running.
const STALE_AFTER: Duration = Duration::from_secs(2);
/// Since this firmware bundle, the Ethernet tag has one bit for each link that is up.
const LINK_BITS_SINCE: Version = Version::new(19, 9, 0);
/// GDDR temperatures above this are invalid.
const GDDR_CELSIUS_MAX: u32 = 150;

impl Device {
    /// Returns whether a later sample will have more values. Utilization needs two samples, and an idle chip is read later.
    pub fn is_deep_pending(&self) -> bool {
        matches!(self.utilization, Err(Missing::FirstSample | Missing::IdleWait))
    }

    /// Returns whether the chip is read only after its pending power-down.
    pub fn waits_for_power_down(&self) -> bool {
        self.utilization == Err(Missing::IdleWait)
    }
}

/// Sets every field that is read directly from the chip to a reason.
pub(super) fn set_missing(device: &mut Device, reason: Missing) {
    for field in DEVICE.iter().filter(|field| field.is_deep) {
        (field.set)(device, Err(reason));
    }
}

/// Sets the fields that are read directly from the chip.
pub(super) fn take(device: &mut Device, deep: &Reading<DeepSample>) {
    let deep = match deep {
        Ok(deep) => deep,
        Err(reason) => return set_missing(device, *reason),
    };
    device.deep_age_s = Ok(deep.age.as_secs_f64());
    take_power(device, deep);
    take_gddr(device, deep);
    take_links(device, deep);
    device.throttle_reasons = throttle_reasons(deep);
    device.tensix_cores = tensix_cores(device.arch, deep);
    take_dispatch(device, deep);
}

fn take_power(device: &mut Device, deep: &DeepSample) {
    let positive = |tag| deep.tag(tag).and_then(|value| if value > 0 { Ok(f64::from(value)) } else { Err(Missing::NoSource) });
    device.board_power = positive(tag::INPUT_POWER).map(Watts);
    device.board_power_limit = positive(tag::BOARD_POWER_LIMIT).map(Watts);
    device.input_current = positive(tag::INPUT_CURRENT).map(Amperes);
    device.board_temperature = deep.tag(tag::BOARD_TEMPERATURE).and_then(board_temperature);
    if device.fan_rpm == Err(Missing::NotOnThisArch) {
        // Wormhole firmware packs two fans into the value. All ones mean no fan.
        device.fan_rpm = deep.tag(tag::FAN_RPM).and_then(|fans| match fans & 0xFFFF {
            0 | 0xFFFF => Err(Missing::NoSource),
            rpm => Ok(Rpm(u64::from(rpm))),
        });
    }
}

/// Converts 16.16 fixed point. The value is 0 if the firmware does not measure it.
fn board_temperature(raw: u32) -> Reading<Celsius> {
    match f64::from(raw) / 65_536.0 {
        _ if raw == 0 => Err(Missing::NoSource),
        celsius if celsius <= f64::from(GDDR_CELSIUS_MAX) => Ok(Celsius(celsius)),
        _ => Err(Missing::OutOfRange),
    }
}

/// Returns the number of GDDR channels and a mask of those that are not harvested.
fn gddr_channels(device: &Device, deep: &DeepSample) -> (u32, u32) {
    let count = if device.arch == Ok(Arch::Blackhole) { 8 } else { 6 };
    let all = (1 << count) - 1;
    (count, deep.tag(tag::ENABLED_GDDR).map_or(all, |mask| mask & all))
}

fn take_gddr(device: &mut Device, deep: &DeepSample) {
    let (count, enabled) = gddr_channels(device, deep);
    let channels = || (0..count).filter(|channel| enabled >> channel & 1 == 1);
    let pair = |tags: [u16; 4], channel: u32| deep.tag(tags[channel as usize / 2]).map(|word| (word >> (16 * (channel % 2))) & 0xFFFF);
    let pairs: Reading<Vec<u32>> = channels().map(|channel| pair(tag::GDDR_TEMPERATURES, channel)).collect();
    let temperatures: Reading<Vec<u32>> = pairs.map(|pairs| pairs.iter().flat_map(|pair| [pair & 0xFF, pair >> 8]).collect());
    let hottest = temperatures.as_ref().map_err(|reason| *reason).and_then(|all| all.iter().copied().max().ok_or(Missing::NoSource));
    device.gddr_temperature = deep.tag(tag::MAX_GDDR_TEMPERATURE).or(hottest).and_then(|celsius| match celsius {
        0 => Err(Missing::NoSource),
        1..=GDDR_CELSIUS_MAX => Ok(Celsius(f64::from(celsius))),
        _ => Err(Missing::OutOfRange),
    });
    device.gddr_temperatures = temperatures.map(|all| all.into_iter().map(f64::from).collect());
    device.gddr_speed_mts = deep.tag(tag::GDDR_SPEED).map(u64::from);
    device.gddr_trained = deep.tag(tag::GDDR_STATUS).map(|status| channels().all(|channel| status >> (2 * channel) & 3 == 1));
    let errors: Reading<Vec<u32>> = channels().map(|channel| pair(tag::GDDR_CORRECTED_ERRORS, channel)).collect();
    device.gddr_corrected_errors = errors.map(|errors| errors.iter().map(|pair| u64::from((pair & 0xFF) + (pair >> 8))).sum());
    device.gddr_uncorrected_errors = deep.tag(tag::GDDR_UNCORRECTED_ERRORS).map(|bits| u64::from(bits.count_ones()));
    device.gddr_fw = deep.tag(tag::GDDR_FW_VERSION).and_then(|version| match version {
        0 => Err(Missing::NoSource),
        version => Ok(format!("{}.{}", version >> 16, version & 0xFFFF)),
    });
}

fn take_links(device: &mut Device, deep: &DeepSample) {
    let count = if device.arch == Ok(Arch::Blackhole) { 14 } else { 16 };
    let links = deep.tag(tag::ETH_LIVE_STATUS).and_then(|live| {
        if bundle(deep)?.is_none_or(|bundle| bundle < LINK_BITS_SINCE) {
            return Err(Missing::NotExposed);
        }
        let enabled = deep.tag(tag::ENABLED_ETH).unwrap_or(u32::MAX);
        let state = |channel: u32| if live >> (16 + channel) & 1 == 1 { "up" } else { "down" };
        Ok((0..count).filter(|channel| enabled >> channel & 1 == 1).map(|channel| format!("{channel}:{}", state(channel))).collect())
    });
    device.eth_links_up =
        links.as_ref().map_err(|reason| *reason).map(|links: &Vec<String>| links.iter().filter(|link| link.ends_with("up")).count() as u64);
    device.eth_links = links;
}

/// Returns the firmware bundle. Bundles numbered 80.x are older than all others, and the result is `None` for them.
fn bundle(deep: &DeepSample) -> Reading<Option<Version>> {
    let [patch, minor, major] = [8, 16, 24].map(|shift| deep.tag(tag::FLASH_BUNDLE_VERSION).map(|version| version >> shift & 0xFF));
    let version = Version::new(major?, minor?, patch?);
    Ok((version.major < 80).then_some(version))
}

/// Returns the reasons why the AI clock is below its maximum, according to the firmware's arbiters.
fn throttle_reasons(deep: &DeepSample) -> Reading<Vec<String>> {
    const BY_MAX_ARBITER: u32 = 1;
    const ARBITERS: [&str; 10] = [
        "none",
        "power",
        "fast_current",
        "current",
        "temperature",
        "board_power",
        "voltage",
        "gddr_temperature",
        "doppler_slow",
        "doppler_critical",
    ];
    let reason = deep.tag(tag::AICLK_REASON)?;
    let arbiter = match reason >> 16 {
        BY_MAX_ARBITER => reason & 0xFFFF,
        _ => 0,
    };
    match ARBITERS.get(arbiter as usize) {
        Some(_) if arbiter == 0 => Ok(Vec::new()),
        Some(name) => Ok(vec![(*name).to_owned()]),
        None => Ok(vec![format!("arbiter_{arbiter}")]),
    }
}

/// Returns the number of Tensix cores. Blackhole chips are harvested by columns of 10 cores, Wormhole chips by rows of 8.
fn tensix_cores(arch: Reading<Arch>, deep: &DeepSample) -> Reading<u64> {
    let (tag, mask, cores) = match arch? {
        Arch::Blackhole => (tag::ENABLED_TENSIX_COL, 0x3FFF, 10),
        Arch::Wormhole => (tag::ENABLED_TENSIX_ROW, 0x3FF, 8),
        Arch::Grayskull => return Err(Missing::NotOnThisArch),
    };
    match (deep.tag(tag)? & mask).count_ones() {
        0 => Err(Missing::OutOfRange),
        enabled => Ok(u64::from(enabled) * cores),
    }
}

fn take_dispatch(device: &mut Device, deep: &DeepSample) {
    let dispatch = match &deep.dispatch {
        Ok(dispatch) => dispatch,
        Err(reason) => {
            // Without a holder, nothing runs on the chip.
            let idle = |reason| if reason == Missing::NotHeld { Ok(0.0) } else { Err(reason) };
            (device.utilization, device.core_efficiency, device.programs_per_s) = (idle(*reason), idle(*reason), idle(*reason));
            (device.queue_utilization, device.queues_waiting) = (Err(*reason), Err(*reason));
            return;
        }
    };
    let waiting = dispatch.queues.iter().filter(|queue| queue.now.blocked != queue.now.unblocked).count() as u64;
    device.queues_waiting = Ok(waiting);
    let shares: Reading<Vec<f64>> = match elapsed(dispatch) {
        Ok(elapsed) => dispatch.queues.iter().map(|queue| utilization(queue, elapsed)).collect(),
        Err(reason) => Err(reason),
    };
    let most = |shares: &Vec<f64>| shares.iter().copied().fold(0.0, f64::max);
    device.utilization = shares.as_ref().map(most).map_err(|reason| *reason);
    device.queue_utilization = shares;
    let cores = dispatch.worker_cores.map(u64::from).filter(|cores| *cores > 0);
    device.core_efficiency = cores.map_or(device.tensix_cores, Ok).and_then(|cores| core_efficiency(dispatch, cores));
    device.programs_per_s = programs_per_second(dispatch);
}

/// Returns the time between two samples. Fails if there is only one sample, or if the chip's clock did not advance.
fn elapsed(dispatch: &Dispatch) -> Reading<Duration> {
    let elapsed = dispatch.elapsed.filter(|elapsed| !elapsed.is_zero()).ok_or(Missing::FirstSample)?;
    let stands_still = |queue: &Queue| queue.before.as_ref().is_some_and(|before| before.timestamp == queue.now.timestamp);
    match dispatch.queues.iter().all(stands_still) && elapsed >= STALE_AFTER {
        true => Err(Missing::Stale),
        false => Ok(elapsed),
    }
}

/// Returns the cycles between two readings of a queue. After a restart of the program, the clock begins at 0.
fn cycles(queue: &Queue, elapsed: Duration) -> Reading<(&Counters, u64)> {
    let before = queue.before.as_ref().ok_or(Missing::FirstSample)?;
    let cycles = queue.now.timestamp.wrapping_sub(before.timestamp);
    match cycles as f64 <= CLOCK_MAX * (elapsed.as_secs_f64() + 0.1) {
        true => Ok((before, cycles)),
        false => Err(Missing::FirstSample),
    }
}

/// Returns the share of time in which the queue had work, completed or still running.
fn utilization(queue: &Queue, elapsed: Duration) -> Reading<f64> {
    let (before, cycles) = cycles(queue, elapsed)?;
    let worked = busy(&queue.now).wrapping_sub(busy(before));
    Ok(share(worked, cycles))
}

fn busy(counters: &Counters) -> u64 {
    let is_at_work = counters.busy_since != 0 && counters.sub_devices.iter().any(|part| part.in_flight() > 0);
    let in_flight = if is_at_work { counters.timestamp.saturating_sub(counters.busy_since) } else { 0 };
    counters.busy.wrapping_add(in_flight)
}

/// Returns the share of cycles with work. A counter that decreased was read during an update.
#[allow(clippy::cast_possible_wrap, reason = "the sign of a difference of counters that wrap")]
fn share(worked: u64, cycles: u64) -> f64 {
    if cycles == 0 || (worked as i64) < 0 { 0.0 } else { (worked as f64 / cycles as f64).min(1.0) }
}

/// Returns the work of all cores as a share of the maximum.
fn core_efficiency(dispatch: &Dispatch, cores: u64) -> Reading<f64> {
    let elapsed = elapsed(dispatch)?;
    let (mut worked, mut longest) = (0_u64, 0);
    for queue in &dispatch.queues {
        let (before, cycles) = cycles(queue, elapsed)?;
        longest = longest.max(cycles);
        worked = worked.wrapping_add(core_cycles(&queue.now, cores).wrapping_sub(core_cycles(before, cores)));
    }
    Ok(share(worked, longest.saturating_mul(cores)))
}

fn core_cycles(counters: &Counters, cores: u64) -> u64 {
    let of_part = |part: &crate::deep::SubDevice| {
        let running = counters.timestamp.saturating_sub(part.launched).wrapping_mul(u64::from(part.in_flight()));
        part.runtime.wrapping_add(running)
    };
    let parts = counters.sub_devices.iter().map(of_part).fold(0, u64::wrapping_add);
    counters.average_runtime.wrapping_mul(cores).wrapping_add(parts)
}

fn programs_per_second(dispatch: &Dispatch) -> Reading<f64> {
    let elapsed = elapsed(dispatch)?;
    let mut programs = 0_u64;
    for queue in &dispatch.queues {
        let (before, _) = cycles(queue, elapsed)?;
        programs += u64::from(queue.now.programs.wrapping_sub(before.programs));
    }
    Ok(programs as f64 / elapsed.as_secs_f64())
}

#[cfg(test)]
mod tests;
