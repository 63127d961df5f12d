//! The document of an account.

use std::num::NonZeroU32;

use ttmon_json::run::{RunBuffer, RunChip, RunDevice, RunKind, RunProcess, RunRefusal, RunReport, RunTightest};
use ttmon_model::ledger::{BufferKind, LedgerRefusal};
use ttmon_model::phase::Tightest;
use ttmon_model::units::UnixTime;

use crate::account::{Account, ChipPlace, CommandEnd, Leftover, OfKind};
use crate::digest::Digest;

impl Account {
    /// Returns the document. `name_of_signal` returns the name of a signal.
    pub fn report<'a>(&'a self, version: &'a str, name_of_signal: impl Fn(i32) -> Option<&'static str>) -> RunReport<'a> {
        let (exit, signal) = match self.end {
            CommandEnd::Exit(code) => (Some(code), None),
            CommandEnd::Signal(signal) => (None, Some(signal)),
        };
        let left = |is_cached| self.left(is_cached).iter().map(|leftover| self.buffer(leftover)).collect();
        RunReport {
            version,
            command: &self.command,
            start: UnixTime(self.span.0),
            exit,
            signal,
            signal_name: signal.and_then(name_of_signal),
            duration_s: self.seconds(self.span.1),
            allocations: self.allocations(),
            is_exact: self.why_inexact().is_none(),
            unread_processes: self.unread,
            overhead: self.overhead(),
            coverage: self.digests.iter().flat_map(|digest| &digest.ledger.coverage).collect(),
            processes: self.digests.iter().map(process).collect(),
            devices: self.devices(),
            leaks: left(false),
            leaked: self.leaked(),
            cache: left(true),
            growth_bytes: self.growth(),
            growth_by_line: self.growth_by_line(),
            refusals: self.refusals().into_iter().map(|(refused, places)| self.refusal(refused, places)).collect(),
            tightest: self.tightest().into_iter().map(|(kind, tightest, places)| self.tight(kind, tightest, places)).collect(),
            phases: self.digests.iter().flat_map(|digest| digest.phases.iter().map(|phase| (digest.pid, phase))).collect(),
            unsafe_traces: self.digests.iter().flat_map(|digest| digest.unsafe_traces.iter().map(|trace| (digest.pid, trace))).collect(),
            host_rss: self.host_rss(),
            missed_events: self.digests.iter().map(|digest| digest.missed).fold(0, u64::saturating_add),
        }
    }

    fn devices(&self) -> Vec<RunDevice> {
        let kind = |(kind, of_kind): (&BufferKind, &OfKind)| RunKind {
            kind: *kind,
            peak: of_kind.peak,
            peak_allocated: of_kind.peak_allocated,
            peak_time_s: self.seconds(of_kind.peak_time),
            is_at_least: of_kind.is_at_least,
            capacity: of_kind.limit(),
            at_end: of_kind.at_end,
            groups: of_kind.groups.clone(),
        };
        let device = |(place, chip): (&ChipPlace, &crate::OnChip)| RunDevice {
            chip: self.chip(place),
            kinds: chip.kinds.iter().map(kind).collect(),
            leaked: chip.leaked,
            cached: chip.cached,
        };
        self.chips.iter().map(device).collect()
    }

    fn chip(&self, place: &ChipPlace) -> RunChip {
        match place {
            ChipPlace::Device(id) => RunChip::Device(*id),
            ChipPlace::Unmapped(id) => RunChip::Unmapped(self.given(*id)),
        }
    }

    fn chips(&self, places: &[ChipPlace]) -> Vec<RunChip> {
        places.iter().map(|place| self.chip(place)).collect()
    }

    fn buffer(&self, Leftover { digest, left, places }: &Leftover<'_>) -> RunBuffer {
        let allocator = digest.ledger.allocators.get(usize::from(left.allocator));
        let banks = allocator.and_then(|allocator| allocator.geometry_of(left.kind)).map(|geometry| geometry.banks);
        RunBuffer {
            pid: digest.pid,
            allocator: allocator.map(|allocator| format!("{}.{}.{}", digest.pid, allocator.slot, allocator.generation)),
            kind: left.kind,
            address: left.address,
            size: left.size,
            per_bank: left.per_bank,
            banks: banks.and_then(|banks| NonZeroU32::new(u32::try_from(banks).ok()?)),
            page_size: left.page_size,
            layout: left.layout,
            cores: left.cores,
            chips: self.chips(places),
            refs: left.refs,
            age_s: seconds_between(left.time.0, self.span.1),
            tag: left.tag.as_ref().map(ToString::to_string),
            operation: left.operation.as_ref().map(ToString::to_string),
            line: left.line().cloned(),
        }
    }

    fn refusal(&self, refused: &LedgerRefusal, places: &[ChipPlace]) -> RunRefusal {
        RunRefusal {
            refusal: refused.refusal.clone(),
            place: self.names(places),
            chips: self.chips(places),
            time_s: self.seconds(refused.time.0),
            tag: refused.tag.clone(),
        }
    }

    fn tight(&self, kind: BufferKind, tightest: &Tightest, places: &[ChipPlace]) -> RunTightest {
        RunTightest { chips: self.chips(places), kind, tightest: tightest.clone(), time_s: self.seconds(tightest.time) }
    }

    /// Returns the seconds since the start of the command.
    fn seconds(&self, time: u64) -> f64 {
        seconds_between(self.span.0, time)
    }
}

fn process(digest: &Digest) -> RunProcess<'_> {
    RunProcess {
        pid: digest.pid,
        name: &digest.program,
        is_running: digest.is_running,
        is_exact: digest.is_exact(),
        is_mock: digest.ledger.is_mock,
        events: digest.ledger.events,
        host_rss: digest.host_rss,
        lost: digest.ledger.lost,
    }
}

/// Returns the seconds between two times, to the millisecond. Returns 0 if the second time is earlier.
fn seconds_between(first: u64, second: u64) -> f64 {
    let millis = second.saturating_sub(first) / 1_000_000;
    millis as f64 / 1000.0
}
