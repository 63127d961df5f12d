//! Measures a program in a pseudo-terminal: its output is counted, and its cost is read from the kernel.

use std::fs;
use std::time::{Duration, Instant};

use crate::terminal::Terminal;

impl Terminal {
    /// Returns the time from the start until this text is written for the first time.
    pub(super) fn until(&self, text: &str) -> Result<Duration, String> {
        const PATIENCE: Duration = Duration::from_secs(20);
        let mut seen = Vec::new();
        while let Ok((at, bytes)) = self.output.recv_timeout(PATIENCE) {
            seen.extend(bytes);
            if String::from_utf8_lossy(&seen).contains(text) {
                return Ok(at - self.started);
            }
        }
        Err(format!("{text:?} was never written; there was {:?}", String::from_utf8_lossy(&seen)))
    }

    pub(super) fn bytes_for(&self, time: Duration) -> usize {
        let deadline = Instant::now() + time;
        let mut bytes = 0;
        while let Ok((_, piece)) = self.output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            bytes += piece.len();
        }
        bytes
    }

    /// Returns the time from pressing a key to the first byte of output, or `None` if there is no output.
    pub(super) fn answer(&mut self, key: &str) -> Option<Duration> {
        while self.output.try_recv().is_ok() {}
        let pressed = Instant::now();
        self.press(key).ok()?;
        let (at, _) = self.output.recv_timeout(Duration::from_secs(5)).ok()?;
        Some(at - pressed)
    }

    fn pids(&self) -> Vec<u32> {
        let Some(own) = self.child.process_id() else { return Vec::new() };
        let children = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            let parent: u32 = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()?;
            (parent == own).then_some(pid)
        });
        [own].into_iter().chain(children).collect()
    }

    /// Returns the processor time of all threads so far, by the scheduler's accounting in nanoseconds.
    pub(super) fn cpu(&self) -> Duration {
        let of_task = |path: std::path::PathBuf| -> Option<u64> {
            fs::read_to_string(path.join("schedstat")).ok()?.split_ascii_whitespace().next()?.parse().ok()
        };
        let tasks = self.pids().into_iter().flat_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten());
        Duration::from_nanos(tasks.filter_map(|task| of_task(task.path())).sum())
    }

    /// Returns the resident memory of the program itself, and the memory of all its processes with shared pages counted once, in kB.
    pub(super) fn memory(&self) -> (u64, u64) {
        let line = |path: String, key: &str| -> u64 {
            let text = fs::read_to_string(path).unwrap_or_default();
            let value = text.lines().find_map(|line| line.strip_prefix(key)?.split_ascii_whitespace().next()?.parse().ok());
            value.unwrap_or(0)
        };
        let pids = self.pids();
        let own = pids.first().map_or(0, |pid| line(format!("/proc/{pid}/status"), "VmRSS:"));
        (own, pids.iter().map(|pid| line(format!("/proc/{pid}/smaps_rollup"), "Pss:")).sum())
    }
}
