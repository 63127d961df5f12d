//! Tests `ttmon serve --deep` and `ttmon top --deep`, with and without another user of the chip.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::super::monitors::READ_TIMEOUT;
use super::super::top::Top;
use super::{Deep, SIGNATURE, readers};
use crate::service::{Service, until};

/// Cycles and busy cycles that are added each time: 37 %.
const STEP: (u64, u64) = (100_000_000, 37_000_000);

impl Deep<'_> {
    /// The service and its clients use one reader. Only the holder is counted as a user.
    pub(super) fn serves(&self) -> Result<String, String> {
        let service = Service::start(self.ttmon, &[&READ_TIMEOUT[..], &["--deep"]].concat())?;
        let device = || service.json("/api/v1/snapshot").map(|document| self.device(&document).clone());
        let held = self.hold()?;
        self.plant_block(SIGNATURE, 0, self.core)?;
        self.while_busy(|| Ok(device()?["utilization"] == 0.37)).map_err(|error| format!("utilization in the API: {error}"))?;
        let metrics = service.get("/metrics")?.body;
        for name in ["ttmon_device_utilization_ratio", "ttmon_device_board_power_watts", "ttmon_device_queues_waiting"] {
            if !metrics.lines().any(|line| line.starts_with(name)) {
                return Err(format!("expected {name} in the metrics"));
            }
        }
        // The service scans for holders at its own interval.
        until("one holder", || device().is_ok_and(|device| device["memory"]["holders"] == 1))?;
        // On a busy host, the service may answer too late, and then the client reads the chip itself.
        until("answered by the service", || self.ask(&service).is_ok_and(|asked| asked["origin"] == "server"))?;
        until("read by one process per chip", || readers().len() == self.chips.count)?;
        drop(held);
        until("idle in the API", || device().is_ok_and(|device| device["utilization"] == 0.0))?;
        let idle = Command::new(self.ttmon).args(["wait", "--idle", "--timeout", "20", "--no-server"]).stdin(Stdio::null()).output();
        let idle = idle.map_err(|error| format!("ttmon wait: {error}"))?;
        if !idle.status.success() {
            return Err(format!("expected ttmon wait --idle to end, found {}: {}", idle.status, String::from_utf8_lossy(&idle.stderr)));
        }
        self.plant_block(0, 0, self.core)?;
        Ok("37 % with a holder, 0 without; one reader per chip, for a client too; no reader is a holder".to_owned())
    }

    fn while_busy(&self, is_so: impl Fn() -> Result<bool, String>) -> Result<(), String> {
        let (mut cycles, mut busy) = (0_u64, 0_u64);
        let mut last = Ok(false);
        until("37 %", || {
            (cycles, busy) = (cycles + STEP.0, busy + STEP.1);
            last = self.plant_counters(cycles, busy, busy, 1).and_then(|()| is_so());
            !matches!(last, Ok(false))
        })?;
        last.map(|_| ())
    }

    fn ask(&self, service: &Service) -> Result<Value, String> {
        let mut command = Command::new(self.ttmon);
        command.args(["--deep", "--json"]).env("TTMON_API", format!("http://127.0.0.1:{}", service.port));
        command.env("TTMON_TOKEN", crate::service::TOKEN).stdin(Stdio::null());
        let output = command.output().map_err(|error| format!("ttmon --deep: {error}"))?;
        serde_json::from_slice(&output.stdout).map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
    }

    /// Checks the title, a column, and the key that switches deep reading.
    pub(super) fn shows_on_a_screen(&self) -> Result<String, String> {
        let mut top = Top::start(self.ttmon, &["--deep"])?;
        let shows = |top: &Top, wanted: &[&str], unwanted: &[&str]| {
            let text = top.text();
            wanted.iter().all(|word| text.contains(word)) && !unwanted.iter().any(|word| text.contains(word))
        };
        let held = self.hold()?;
        self.plant_block(SIGNATURE, 0, self.core)?;
        self.while_busy(|| Ok(shows(&top, &["[DEEP]", "UTIL", " 37%"], &[])))
            .map_err(|error| format!("{error}; the screen:\n{}", top.text()))?;
        top.terminal.press("d")?;
        until("without deep", || shows(&top, &[], &["[DEEP]", "UTIL"]) && readers().is_empty())?;
        top.terminal.press("d")?;
        self.while_busy(|| Ok(shows(&top, &["[DEEP]", " 37%"], &[])))?;
        drop(held);
        until("idle on the screen", || shows(&top, &["[DEEP]", " 0%"], &[" 37%"]))?;
        self.plant_block(0, 0, self.core)?;
        top.quit()?;
        Ok("37 % with a holder, 0 without; d ends the reader and starts it again".to_owned())
    }
}
