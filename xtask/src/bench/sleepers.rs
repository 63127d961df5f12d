//! Idle processes. They are killed when the value is dropped.

use std::process::{Child, Command, Stdio};

/// If this program is killed, they end after this time.
const LIFE_SECONDS: &str = "3600";

pub(super) struct Sleepers(Vec<Child>);

impl Sleepers {
    pub(super) fn start(count: usize) -> Result<Self, String> {
        let mut started = Self(Vec::with_capacity(count));
        for _ in 0..count {
            let mut sleep = Command::new("sleep");
            sleep.arg(LIFE_SECONDS).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            started.0.push(sleep.spawn().map_err(|error| format!("sleep: {error}"))?);
        }
        Ok(started)
    }

    pub(super) fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().map(Child::id)
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        // Errors are ignored, because the process may already have ended.
        for child in &mut self.0 {
            let _ = child.kill();
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}
