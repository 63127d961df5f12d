//! Health: compares a device with the limits that it publishes itself.
//!
//! Power alone is never critical: a p150c publishes a limit of 500 W, more than its board may draw.
//!
//! A chip is throttling if three conditions hold. A process has it open. Its AI clock is at most 95 % of the nominal limit. Its temperature
//! or its power is at least 95 % of the limit that the chip publishes. A low clock alone means nothing, because an idle chip has one.
//!
//! A PCIe link is checked for its width only: firmware may lower the speed of a link on purpose.

use crate::Arch;
use crate::limits::{AT_LIMIT_RATIO, CLOCK_HELD_RATIO, WARNING_RATIO};
use crate::missing::{Missing, Reading};
use crate::product::Product;
use crate::snapshot::{Device, Health, Location, State};

/// Computes the health of a device and the reasons. The other fields of the device must be complete.
pub(crate) fn assess(device: &Device, slot_width_max: Reading<u64>) -> (Health, Vec<String>) {
    if device.state != State::Ok {
        return (Health::Unknown, state_reason(device).into_iter().collect());
    }
    let mut health = Health::Unknown;
    let mut reasons = Vec::new();
    let mut note = |found: Health, reason: String| {
        health = health.max(found);
        if found > Health::Ok {
            reasons.push(reason);
        }
    };

    let measured = [
        ("temperature", device.temperature.map(|now| now.0), device.temperature_limit.map(|limit| limit.0), "°C"),
        ("current", device.current.map(|now| now.0), device.current_limit.map(|limit| limit.0), "A"),
    ];
    for (name, now, limit, unit) in measured {
        if let (Ok(now), Ok(limit)) = (now, limit) {
            let found = match Severity::of_share(now / limit, 1.0) {
                Severity::Critical => Health::Critical,
                Severity::Warning => Health::Warning,
                Severity::Fine | Severity::Unknown => Health::Ok,
            };
            note(found, format!("{name} {now:.0} of {limit:.0} {unit}"));
        }
    }
    if let (Some(limit), Ok(clock), Ok(nominal)) = (device.throttled_by(), device.aiclk_mhz, device.aiclk_limit_mhz) {
        note(Health::Warning, format!("throttling: AI clock {} of {} MHz at the {limit} limit", clock.0, nominal.0));
    }
    if device.heartbeat_alive == Ok(false) {
        note(Health::Warning, "the firmware's heartbeat has stopped".to_owned());
    }
    if let (Ok(true), Ok((width, possible)), true) = (device.pcie_degraded, lanes(device, slot_width_max), device.is_in_use()) {
        note(Health::Warning, format!("PCIe link x{width} of x{possible}"));
    }
    if let Ok(trips @ 1..) = device.therm_trip_count {
        note(Health::Warning, format!("{trips} thermal shutdowns since power-on"));
    }
    let is_blind = [device.temperature.err(), device.temperature_limit.err()].into_iter().flatten().any(Missing::is_problem);
    if health == Health::Ok && is_blind {
        health = Health::Unknown;
    }
    (health, reasons)
}

impl Device {
    /// Returns the reasons of the health in one line, if any.
    pub fn reasons(&self) -> Option<String> {
        (!self.health_reasons.is_empty()).then(|| self.health_reasons.join(", "))
    }

    /// Returns whether a process is known to have the device open.
    pub fn is_in_use(&self) -> bool {
        self.memory.holders.is_ok_and(|holders| holders > 0)
    }

    /// Returns the limit that reduces the AI clock, `temperature` or `power`, if the chip is known to be throttling.
    pub fn throttled_by(&self) -> Option<&'static str> {
        let is_held = self.aiclk_mhz.ok()?.0 as f64 <= self.aiclk_limit_mhz.ok()?.0 as f64 * CLOCK_HELD_RATIO;
        let is_at = |now: Reading<f64>, limit: Reading<f64>| now.is_ok_and(|now| limit.is_ok_and(|limit| now >= limit * AT_LIMIT_RATIO));
        match () {
            () if !self.is_in_use() || !is_held => None,
            () if is_at(self.temperature.map(|now| now.0), self.temperature_limit.map(|limit| limit.0)) => Some("temperature"),
            () if is_at(self.power.map(|now| now.0), self.power_limit.map(|limit| limit.0)) => Some("power"),
            () => None,
        }
    }

    /// Returns whether the chip is throttling, or the reason why that is unknown.
    pub fn throttling(&self) -> Reading<bool> {
        self.aiclk_mhz?;
        self.aiclk_limit_mhz?;
        let temperature = self.temperature.and(self.temperature_limit);
        let power = self.power.and(self.power_limit);
        temperature.map(drop).or(power.map(drop))?;
        self.memory.holders?;
        Ok(self.throttled_by().is_some())
    }
}

/// Severity of a health.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Healthy.
    Fine,
    /// Unknown.
    Unknown,
    /// A warning.
    Warning,
    /// At a limit, or missing.
    Critical,
}

impl Severity {
    /// Returns the severity of a share of a limit: critical from the share `critical` on, a warning slightly below.
    pub fn of_share(share: f64, critical: f64) -> Self {
        match share {
            share if share >= critical => Self::Critical,
            share if share >= WARNING_RATIO => Self::Warning,
            _ => Self::Fine,
        }
    }
}

impl Device {
    /// Returns a name for the health, so that colour is never the only sign.
    pub fn health_word(&self) -> (&'static str, Severity) {
        match (self.state, self.health) {
            (State::Resetting, _) => ("RESET", Severity::Warning),
            (State::Starting, _) => ("START", Severity::Warning),
            (State::Gone, _) => ("GONE", Severity::Critical),
            (State::Unreadable, _) => ("UNREAD", Severity::Critical),
            (_, Health::Critical) => ("CRIT", Severity::Critical),
            (_, Health::Warning) if self.throttled_by().is_some() => ("THROTTLE", Severity::Warning),
            (_, Health::Warning) if self.warmth().is_ok_and(|warmth| warmth >= WARNING_RATIO) => ("WARM", Severity::Warning),
            (_, Health::Warning) => ("WARN", Severity::Warning),
            (_, Health::Ok) => ("ok", Severity::Fine),
            (_, Health::Unknown) => ("?", Severity::Unknown),
        }
    }

    /// Returns the severity for a comparison with other devices. Unknown is not worse than healthy.
    pub fn severity(&self) -> Severity {
        match self.health_word().1 {
            Severity::Unknown => Severity::Fine,
            severity => severity,
        }
    }

    /// Returns the temperature as a share of its limit.
    pub fn warmth(&self) -> Reading<f64> {
        Ok(self.temperature?.0 / self.temperature_limit?.0)
    }

    /// Returns whether no value could be read in time. A missing device and a device that is being reset have their own states.
    pub fn is_silent(&self) -> bool {
        let (temperature, power) = (self.temperature.map(drop), self.power.map(drop));
        let readings = [temperature, power, self.aiclk_mhz.map(drop), self.heartbeat.map(drop)];
        self.location == Location::Local && readings.iter().all(Result::is_err) && readings.contains(&Err(Missing::Timeout))
    }
}

/// Returns why a device cannot be read.
fn state_reason(device: &Device) -> Option<String> {
    if let (Ok(via), State::Resetting | State::Gone) = (device.via, device.state) {
        return Some(format!("reached through device {via}, which is {}", device.state.name()));
    }
    match device.state {
        State::Ok | State::Unknown => None,
        State::Resetting => Some("the chip is being reset".to_owned()),
        State::Gone => Some("unplugged, unbound, or the driver was unloaded".to_owned()),
        State::Unreadable => Some(format!("cannot be read: {}", device.temperature.err().unwrap_or(Missing::IoError).explanation())),
        State::Starting if device.arch == Ok(Arch::Blackhole) => {
            Some("the firmware does not answer yet; a Blackhole needs the driver loaded again once it does".to_owned())
        }
        State::Starting => Some("the firmware does not answer yet; the driver waits up to 120 s for it".to_owned()),
    }
}

/// Returns the lanes in use and the possible lanes.
fn lanes(device: &Device, slot_width_max: Reading<u64>) -> Reading<(u64, u64)> {
    Ok((device.pcie_width?, device.pcie_width_max?.min(slot_width_max.unwrap_or(u64::MAX))))
}

/// Returns whether the link has fewer lanes than chip and slot allow. Some products have fewer by design.
pub(crate) fn is_link_degraded(device: &Device, product: Option<&Product>, slot_width_max: Reading<u64>) -> Reading<bool> {
    let (width, possible) = lanes(device, slot_width_max)?;
    Ok(width < possible && !product.is_some_and(|product| product.narrow_link_is_normal))
}
