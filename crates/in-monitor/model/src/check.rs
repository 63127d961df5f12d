//! Checks a snapshot for a monitoring system: `ttmon check`.

use crate::identity::DeviceId;
use crate::snapshot::{Device, Health, Location, Snapshot, State, Status};
use crate::units::size;

/// What to check. An empty request checks nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// Every device is readable and within its own limits.
    pub is_healthy: bool,
    /// No process holds a device.
    pub is_idle: bool,
    /// Highest temperature allowed, in degrees Celsius.
    pub temperature_max: Option<f64>,
    /// Minimum free DRAM of each device, in bytes.
    pub free_dram_min: Option<u64>,
    /// Minimum number of readable devices.
    pub count_min: Option<usize>,
    /// No ended process left memory or an open device behind.
    pub has_no_stale: bool,
}

crate::named! {
    /// Result of a check, from the least to the most severe, with the name that monitoring plugins print.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Verdict {
        /// The condition is met.
        Ok = "OK",
        /// The condition cannot be evaluated.
        Unknown = "UNKNOWN",
        /// The condition is met in part.
        Warning = "WARNING",
        /// The condition is not met.
        Critical = "CRITICAL",
    }
}

impl Verdict {
    /// Returns the exit code of a monitoring plugin.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Warning => 1,
            Self::Critical => 2,
            Self::Unknown => 3,
        }
    }
}

/// One failed check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The flag that requested the check, without dashes: `healthy`, `max-temp` ...
    pub check: &'static str,
    /// The device, if the finding concerns one.
    pub device: Option<DeviceId>,
    /// The severity.
    pub verdict: Verdict,
    /// The reason, without the device.
    pub reason: String,
}

/// Returns the failed checks, most severe first. An empty list means that every check passed.
pub fn judge(snapshot: &Snapshot, request: &Request) -> Vec<Finding> {
    let mut findings = Vec::new();
    for device in &snapshot.devices {
        let found = [
            ("healthy", health(device).filter(|_| request.is_healthy)),
            ("idle", holders(device).filter(|_| request.is_idle)),
            ("max-temp", request.temperature_max.and_then(|limit| temperature(device, limit))),
            ("min-free-dram", request.free_dram_min.and_then(|least| free_dram(device, least))),
            ("no-stale", stale(snapshot, device).filter(|_| request.has_no_stale)),
        ];
        for (check, (verdict, reason)) in found.into_iter().filter_map(|(check, found)| Some((check, found?))) {
            findings.push(Finding { check, device: Some(device.id), verdict, reason });
        }
    }
    let is_readable = |device: &&Device| device.state == State::Ok || has_state_of_gateway(device);
    let readable = snapshot.devices.iter().filter(is_readable).count();
    if let Some(least) = request.count_min.filter(|least| readable < *least) {
        let reason = format!("{readable} of {least} devices can be read");
        findings.push(Finding { check: "count", device: None, verdict: Verdict::Critical, reason });
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.verdict));
    findings
}

/// Returns the most severe verdict of all findings.
pub fn overall(findings: &[Finding]) -> Verdict {
    findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Ok)
}

/// Returns whether only the gateway shows the health of a device. The driver publishes no telemetry of a remote chip.
fn has_state_of_gateway(device: &Device) -> bool {
    device.location == Location::Remote && device.state == State::Unknown
}

fn health(device: &Device) -> Option<(Verdict, String)> {
    let verdict = match (device.state, device.health) {
        (State::Ok, Health::Ok) => return None,
        _ if has_state_of_gateway(device) => return None,
        (State::Ok, Health::Warning) | (State::Starting, _) => Verdict::Warning,
        (State::Ok, Health::Unknown) | (State::Unknown, _) => Verdict::Unknown,
        (State::Ok, Health::Critical) | (State::Resetting | State::Gone | State::Unreadable, _) => Verdict::Critical,
    };
    let word = if device.state == State::Ok { device.health.name() } else { device.state.name() };
    Some((verdict, if device.health_reasons.is_empty() { format!("health {word}") } else { device.health_reasons.join(", ") }))
}

fn holders(device: &Device) -> Option<(Verdict, String)> {
    match device.memory.holders {
        Ok(0) => None,
        Ok(1) => Some((Verdict::Critical, "held by 1 process".to_owned())),
        Ok(count) => Some((Verdict::Critical, format!("held by {count} processes"))),
        Err(reason) => Some((Verdict::Unknown, format!("holders unknown: {}", reason.explanation()))),
    }
}

fn temperature(device: &Device, limit: f64) -> Option<(Verdict, String)> {
    match device.temperature {
        Ok(now) if now.0 <= limit => None,
        Ok(now) => Some((Verdict::Critical, format!("{:.0} °C, above {limit} °C", now.0))),
        Err(_) if device.location == Location::Remote => None,
        Err(reason) => Some((Verdict::Unknown, format!("temperature unknown: {}", reason.explanation()))),
    }
}

fn free_dram(device: &Device, least: u64) -> Option<(Verdict, String)> {
    match device.memory.dram.free() {
        Ok(free) if free < least => Some((Verdict::Critical, format!("{} of DRAM free, below {}", size(free), size(least)))),
        // Memory of untracked processes does not count as free.
        Ok(_) if device.memory.untracked_processes > 0 => {
            Some((Verdict::Unknown, "free DRAM unknown: a process holds the device and is not tracked".to_owned()))
        }
        Ok(_) => None,
        Err(reason) => Some((Verdict::Unknown, format!("free DRAM unknown: {}", reason.explanation()))),
    }
}

fn stale(snapshot: &Snapshot, device: &Device) -> Option<(Verdict, String)> {
    let dead = snapshot.processes_on(device.id).find(|(process, _)| process.status == Status::Dead);
    match (dead, device.memory.stale_bytes) {
        (Some((process, _)), _) => {
            Some((Verdict::Warning, format!("process {} has exited and its device file is still open", process.key.pid)))
        }
        (None, 0) => None,
        (None, bytes) => Some((Verdict::Warning, format!("{} reported for processes that have ended", size(bytes)))),
    }
}
