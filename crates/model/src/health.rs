//! Health: how a device stands against the limits it publishes itself.
//!
//! Power alone is never critical: a p150c publishes 500 W, more than its board may draw.

use crate::limits::WARNING_RATIO;
use crate::missing::{Missing, Reading};
use crate::product::Product;
use crate::snapshot::{Device, Health, State};

/// Judges a device whose other fields are complete, and says why in words.
pub(crate) fn judge(device: &Device, product: Option<&Product>, is_in_use: bool) -> (Health, Vec<String>) {
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

    let temperature = device.temperature.map(|value| value.0);
    if let Some(found) = against(temperature, device.temperature_limit.map(|limit| limit.0)) {
        note(found, format!("temperature {:.0} of {:.0} °C", value(temperature), value(device.temperature_limit.map(|l| l.0))));
    }
    let current = device.current.map(|value| value.0);
    if let Some(found) = against(current, device.current_limit.map(|limit| limit.0)) {
        note(found, format!("current {:.0} of {:.0} A", value(current), value(device.current_limit.map(|l| l.0))));
    }
    if device.heartbeat_alive == Ok(false) {
        note(Health::Warning, "the firmware's heartbeat has stopped".to_owned());
    }
    if let Some((width, possible)) = narrow_link(device, product).filter(|_| is_in_use) {
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

/// Why a device cannot be read.
fn state_reason(device: &Device) -> Option<String> {
    if let (Ok(via), State::Resetting | State::Gone) = (device.via, device.state) {
        return Some(format!("reached through device {via}, which is {}", device.state.name()));
    }
    match device.state {
        State::Ok | State::Unknown => None,
        State::Resetting => Some("the chip is being reset".to_owned()),
        State::Gone => Some("unplugged, unbound, or the driver was unloaded".to_owned()),
        State::Unreadable => Some(format!("cannot be read: {}", device.temperature.err().unwrap_or(Missing::IoError).explanation())),
        State::Starting => Some("the firmware does not answer yet; the driver waits up to 120 s for it".to_owned()),
    }
}

fn value(reading: Reading<f64>) -> f64 {
    reading.unwrap_or_default()
}

fn against(now: Reading<f64>, limit: Reading<f64>) -> Option<Health> {
    let (now, limit) = (now.ok()?, limit.ok()?);
    Some(match now / limit {
        ratio if ratio >= 1.0 => Health::Critical,
        ratio if ratio >= WARNING_RATIO => Health::Warning,
        _ => Health::Ok,
    })
}

/// Lanes in use and lanes possible, where they differ and should not.
fn narrow_link(device: &Device, product: Option<&Product>) -> Option<(u64, u64)> {
    let width = device.pcie.width.ok()?;
    let possible = device.pcie.width_max.ok()?.min(device.pcie.slot_width_max.unwrap_or(u64::MAX));
    let is_built_so = product.is_some_and(|product| product.narrow_link_is_normal);
    (width < possible && !is_built_so).then_some((width, possible))
}
