//! Output besides events: warnings, statistics, shutdown.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ttmon_ledger::layout::{KINDS, kind};
use ttmon_ledger::report::BUFFER_KINDS;
use ttmon_os::time::unix_nanos;

use super::Server;
use crate::connection::Connection;
use crate::counters::ROWS;
use crate::limits::WARNINGS_PER_CONNECTION_MAX;
use crate::lines::{self, Format, kilobytes};
use crate::owner::{Tracked, add};

/// Maximum time to write the last lines at shutdown.
const LAST_LINES: Duration = Duration::from_secs(1);

impl Server {
    /// Prints a message on stdout.
    pub fn print_line(&mut self, message: &str) {
        let format = self.log.format();
        for line in message.split('\n').filter(|line| format == Format::Text || !line.is_empty()) {
            lines::note(self.log.out(), format, unix_nanos(), "info", line);
        }
    }

    /// Prints a warning on stderr.
    pub fn warn(&mut self, message: &str) {
        let format = self.log.format();
        lines::note(self.log.errors(), format, unix_nanos(), "warning", message);
    }

    /// Counts a warning about a connection and its user. Returns whether it may be printed.
    pub(super) fn may_warn(&mut self, connection: &mut Connection) -> bool {
        connection.warnings = connection.warnings.saturating_add(1);
        let is_new = connection.warnings <= WARNINGS_PER_CONNECTION_MAX;
        let may_print = is_new && self.warning_limit.may_print(connection.uid, Instant::now());
        self.counters.complaints_left_out += u64::from(!may_print);
        may_print
    }

    /// Reports the number of suppressed warnings of the minutes that have ended.
    pub(super) fn report_suppressed_warnings(&mut self, now: Instant) {
        for (uid, count) in self.warning_limit.end_minutes(now) {
            self.warn(&format!("⚠️  [user {uid}] {count} more complaints within a minute were not printed"));
        }
    }

    pub(super) fn malformed(&mut self, connection: &mut Connection, why: &str) {
        self.counters.malformed += 1;
        if self.may_warn(connection) {
            self.warn(&format!("⚠️  [PID {}] connection closed: not the allocation protocol: {why}", connection.peer_pid));
        }
    }

    pub(super) fn drop_reader(&mut self, connection: &mut Connection) {
        self.counters.peers_dropped += 1;
        let (pid, bytes) = (connection.peer_pid, connection.unread.len());
        if self.may_warn(connection) {
            self.warn(&format!("⚠️  [PID {pid}] dropped: it does not read its replies ({bytes} bytes)"));
        }
    }

    /// Prints the current totals and the counters.
    pub fn statistics(&mut self) {
        match self.log.format() {
            Format::Text => self.statistics_text(),
            Format::Json => {
                let counters: Vec<String> = ROWS.iter().map(|(name, _, get)| format!("\"{name}\":{}", get(&self.counters))).collect();
                let text = format!(
                    "{{\"time\":\"{}\",\"op\":\"statistics\",\"owners\":{},\"open_connections\":{},\"entries\":{},\"lines_dropped\":{},\
                     \"handed\":{},\"counters\":{{{}}}}}\n",
                    ttmon_model::units::UnixTime(unix_nanos()).rfc3339(),
                    self.owners,
                    self.connections.len(),
                    self.entries(),
                    self.log.dropped(),
                    self.handed.len(),
                    counters.join(",")
                );
                self.log.out().extend_from_slice(text.as_bytes());
            }
        }
    }

    /// The ledgers of all tracked processes.
    pub(super) fn tracked(&self) -> impl Iterator<Item = &Tracked> {
        self.processes.values().filter_map(|process| process.tracked.as_ref())
    }

    fn entries(&self) -> u64 {
        self.tracked().map(|tracked| tracked.hosted.live_entries()).sum()
    }

    fn statistics_text(&mut self) {
        self.print_line("\n📊 Current Statistics:");
        for (device, figures) in self.figures() {
            let of = |kinds: &[u8]| kinds.iter().filter_map(|kind| figures.get(usize::from(*kind)).copied()).fold((0, 0), add);
            if figures.iter().all(|(_, count)| *count == 0) {
                continue;
            }
            self.print_line(&format!("  Device {device}:\n    Buffers: {}", of(&BUFFER_KINDS).1));
            let named = [
                ("DRAM", kind::DRAM),
                ("L1", kind::L1),
                ("L1_SMALL", kind::L1_SMALL),
                ("TRACE", kind::TRACE),
                ("CB", kind::CB),
                ("Kernels", kind::KERNEL),
            ];
            for (name, kind) in named {
                let (bytes, _) = of(&[kind]);
                if bytes > 0 || matches!(kind, kind::DRAM | kind::L1) {
                    self.print_line(&format!("    {name}: {bytes} bytes ({} KB)", kilobytes(bytes)));
                }
            }
            self.print_line(&format!("    Total: {} bytes", of(&[kind::DRAM, kind::L1, kind::L1_SMALL, kind::TRACE]).0));
        }
        self.print_line(&format!("  Active allocations: {}", self.entries()));
        self.print_line(&format!("  Processes: {}, open connections: {}", self.owners, self.connections.len()));
        for (_, words, get) in ROWS {
            let count = get(&self.counters);
            if count > 0 {
                self.print_line(&format!("  {words}: {count}"));
            }
        }
        let dropped = self.log.dropped();
        if dropped > 0 {
            self.print_line(&format!("  lines dropped that nobody read: {dropped}"));
        }
        for line in self.handed.lines() {
            self.print_line(&line);
        }
    }

    /// Bytes and entries of each device, by the kind's number in the ledger. One pass, because there may be many processes and devices.
    fn figures(&self) -> BTreeMap<i32, [(u64, u64); KINDS as usize]> {
        let mut figures: BTreeMap<i32, [(u64, u64); KINDS as usize]> = BTreeMap::new();
        for tracked in self.tracked() {
            for (device, id) in tracked.devices() {
                let sums = figures.entry(*device).or_default();
                for (sum, kind) in sums.iter_mut().zip(0..) {
                    *sum = add(*sum, tracked.hosted.live_of(*id, kind));
                }
            }
        }
        figures
    }

    /// Prints the last lines. The ledgers stay for the next server.
    pub(super) fn shutdown(&mut self) {
        if !self.is_quiet {
            self.statistics();
            self.print_line("\n🛑 Allocation Server stopped");
        }
        self.listeners.clear();
        self.log.finish(LAST_LINES);
    }
}
