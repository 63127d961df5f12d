//! Converts Rust values to the C API: the numbers and names of enums, and the structs.

use std::ffi::{CStr, c_char};

use ttmon_model::memory::{Figure, KindMemory};
use ttmon_model::snapshot::{Allocator, Banks, Health, State, Status};
use ttmon_model::{Kind, Missing, PerKind, Reading, Source};

use crate::exports::*;
use crate::gate::copied;
use crate::stats::{self, ProcessStats, SystemStats};

/// Returns the C number of a reason, and its name in JSON. Numbers never change. A new reason gets the next number.
pub(crate) fn missing(reason: Missing) -> (i32, &'static CStr) {
    match reason {
        Missing::NotOnThisArch => (TTMON_MISSING_NOT_ON_THIS_ARCH, c"not_on_this_arch"),
        Missing::NotExposed => (TTMON_MISSING_NOT_EXPOSED, c"not_exposed"),
        Missing::RemoteChip => (TTMON_MISSING_REMOTE_CHIP, c"remote_chip"),
        Missing::NoPermission => (TTMON_MISSING_NO_PERMISSION, c"no_permission"),
        Missing::Resetting => (TTMON_MISSING_RESETTING, c"resetting"),
        Missing::Gone => (TTMON_MISSING_GONE, c"gone"),
        Missing::OutOfRange => (TTMON_MISSING_OUT_OF_RANGE, c"out_of_range"),
        Missing::Unparsable => (TTMON_MISSING_UNPARSABLE, c"unparsable"),
        Missing::Timeout => (TTMON_MISSING_TIMEOUT, c"timeout"),
        Missing::IoError => (TTMON_MISSING_IO_ERROR, c"io_error"),
        Missing::FirstSample => (TTMON_MISSING_FIRST_SAMPLE, c"first_sample"),
        Missing::NotTracked => (TTMON_MISSING_NOT_TRACKED, c"not_tracked"),
        Missing::NeedsDeep => (TTMON_MISSING_NEEDS_DEEP, c"needs_deep"),
        Missing::SlowDispatch => (TTMON_MISSING_SLOW_DISPATCH, c"slow_dispatch"),
        Missing::Stale => (TTMON_MISSING_STALE, c"stale"),
        Missing::NotHeld => (TTMON_MISSING_NOT_HELD, c"not_held"),
        Missing::Busy => (TTMON_MISSING_BUSY, c"busy"),
        Missing::IdleWait => (TTMON_MISSING_IDLE_WAIT, c"idle_wait"),
        Missing::NoSource => (TTMON_MISSING_NO_SOURCE, c"no_source"),
    }
}

pub(crate) fn status(status: Status) -> (u32, &'static CStr) {
    match status {
        Status::Tracked => (TTMON_STATUS_TRACKED, c"tracked"),
        Status::Connected => (TTMON_STATUS_CONNECTED, c"connected"),
        Status::Reported => (TTMON_STATUS_REPORTED, c"reported"),
        Status::Open => (TTMON_STATUS_OPEN, c"open"),
        Status::NoPermission => (TTMON_STATUS_NO_PERMISSION, c"no_permission"),
        Status::Dead => (TTMON_STATUS_DEAD, c"dead"),
    }
}

pub(crate) fn source(source: Source) -> (u64, &'static CStr) {
    match source {
        Source::Ledger => (TTMON_SOURCE_LEDGER, c"ledger"),
        Source::Server => (TTMON_SOURCE_SERVER, c"server"),
        Source::Shm => (TTMON_SOURCE_SHM, c"shm"),
        Source::Fdinfo => (TTMON_SOURCE_FDINFO, c"fdinfo"),
    }
}

pub(crate) fn state(state: State) -> (u32, &'static CStr) {
    match state {
        State::Ok => (TTMON_STATE_OK, c"ok"),
        State::Resetting => (TTMON_STATE_RESETTING, c"resetting"),
        State::Gone => (TTMON_STATE_GONE, c"gone"),
        State::Unreadable => (TTMON_STATE_UNREADABLE, c"unreadable"),
        State::Unknown => (TTMON_STATE_UNKNOWN, c"unknown"),
        State::Starting => (TTMON_STATE_STARTING, c"starting"),
    }
}

pub(crate) fn health(health: Health) -> (u32, &'static CStr) {
    match health {
        Health::Unknown => (TTMON_HEALTH_UNKNOWN, c"unknown"),
        Health::Ok => (TTMON_HEALTH_OK, c"ok"),
        Health::Warning => (TTMON_HEALTH_WARNING, c"warning"),
        Health::Critical => (TTMON_HEALTH_CRITICAL, c"critical"),
    }
}

pub(crate) fn kind(kind: Kind) -> (u8, &'static CStr) {
    match kind {
        Kind::Dram => (TTMON_KIND_DRAM, c"dram"),
        Kind::L1 => (TTMON_KIND_L1, c"l1"),
        Kind::L1Small => (TTMON_KIND_L1_SMALL, c"l1_small"),
        Kind::Trace => (TTMON_KIND_TRACE, c"trace"),
        Kind::Cb => (TTMON_KIND_CB, c"cb"),
        Kind::Kernel => (TTMON_KIND_KERNEL, c"kernel"),
    }
}

pub(crate) fn kind_of(number: u8) -> Option<Kind> {
    Kind::ALL.into_iter().find(|one| kind(*one).0 == number)
}

fn figure(reading: Reading<u64>) -> CFigure {
    match reading {
        Ok(value) => CFigure { value, missing: TTMON_PRESENT },
        Err(reason) => CFigure { value: 0, missing: missing(reason).0 },
    }
}

fn real(reading: Reading<f64>) -> CReal {
    match reading {
        Ok(value) => CReal { value, missing: TTMON_PRESENT },
        Err(reason) => CReal { value: 0.0, missing: missing(reason).0 },
    }
}

fn source_figure(reading: Reading<Source>) -> CFigure {
    figure(reading.map(|one| source(one).0))
}

fn c_text(text: &str) -> [c_char; TTMON_NAME_BYTES] {
    copied::<TTMON_NAME_BYTES>(text).map(|byte| c_char::from_ne_bytes([byte]))
}

/// Converts a length to `u32`. Lengths that do not fit become `u32::MAX`.
pub(crate) fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

pub(crate) fn system_stats(stats: &SystemStats) -> CSystemStats {
    CSystemStats {
        struct_size: 0,
        device: stats.device,
        time_ns: stats.time.0,
        state: state(stats.state).0,
        health: health(stats.health).0,
        dram_total: figure(stats.dram_total),
        dram_used: figure(stats.dram_used),
        dram_free: figure(stats.dram_free),
        l1_total: figure(stats.l1_total),
        l1_used: figure(stats.l1_used),
        l1_free: figure(stats.l1_free),
        processes: stats.processes,
        untracked_processes: stats.untracked_processes,
        hidden_processes: stats.hidden_processes,
        temperature: real(stats.temperature.map(|celsius| celsius.0)),
        power: real(stats.power.map(|watts| watts.0)),
        aiclk_mhz: figure(stats.aiclk.map(|clock| clock.0)),
    }
}

/// Converts the figures of a process. `kinds` has the figures on the requested device, or the totals over all devices.
pub(crate) fn process_stats(stats: &ProcessStats, pid: i32, device: u32, kinds: &PerKind<Figure>) -> CProcessStats {
    CProcessStats {
        struct_size: 0,
        pid,
        device,
        status: status(stats.status).0,
        devices: count(stats.devices.len()),
        name_missing: stats.name.as_ref().map_or_else(|reason| missing(*reason).0, |_| TTMON_PRESENT),
        // `name_missing` has the reason.
        name: c_text(stats.name.as_deref().unwrap_or_default()),
        kinds: Kind::ALL.map(|kind| process_kind(&kinds[kind])),
    }
}

fn process_kind(known: &Figure) -> CProcessKind {
    CProcessKind {
        used: figure(known.used),
        allocated: figure(known.allocated),
        peak: figure(known.peak),
        peak_time_ns: figure(known.peak_time.map(|time| time.0)),
        count: figure(known.count),
        source: source_figure(known.source),
    }
}

pub(crate) fn kind_stats(memory: &KindMemory, device: u32, kind: u8, processes: usize) -> CKindStats {
    CKindStats {
        struct_size: 0,
        device,
        kind: u32::from(kind),
        processes: count(processes),
        total: figure(memory.total),
        capacity: figure(memory.capacity),
        used: figure(memory.figure.used),
        allocated: figure(memory.figure.allocated),
        free: figure(memory.free),
        peak: figure(memory.figure.peak),
        count: figure(memory.figure.count),
        source: source_figure(memory.figure.source),
    }
}

pub(crate) fn bank_stats(allocator: &Allocator, device: u32, which: Kind) -> CBankStats {
    let banks = stats::banks(allocator, which);
    let of = |get: fn(&Banks) -> Reading<u64>| figure(banks.and_then(get));
    CBankStats {
        struct_size: 0,
        device,
        kind: u32::from(kind(which).0),
        pid: i32::try_from(allocator.process.pid).unwrap_or(0),
        allocator: c_text(&allocator.id),
        banks: of(|banks| Ok(banks.banks)),
        bank_bytes: of(|banks| Ok(banks.bank_bytes)),
        allocated_per_bank: of(|banks| banks.allocated_per_bank),
        free_per_bank: of(|banks| banks.free_per_bank),
        largest_free_per_bank: of(|banks| banks.largest_free_per_bank),
        fragmentation: real(banks.and_then(|banks| banks.fragmentation)),
        blocks: of(|banks| banks.blocks),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn numbers_are_unique_and_words_are_the_contracts() {
        let check = |numbers: Vec<u64>, words: Vec<(&CStr, &str)>| {
            let mut sorted = numbers.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), numbers.len(), "{numbers:?}");
            words.iter().for_each(|(word, name)| assert_eq!(word.to_str(), Ok(*name)));
        };
        let missings = Missing::ALL.map(missing);
        assert!(missings.iter().all(|(number, _)| *number != TTMON_PRESENT));
        check(
            missings.iter().map(|(number, _)| u64::try_from(*number).unwrap()).collect(),
            Missing::ALL.iter().map(|one| (missing(*one).1, one.name())).collect(),
        );
        check(Status::ALL.map(|one| u64::from(status(one).0)).to_vec(), Status::ALL.map(|one| (status(one).1, one.name())).to_vec());
        check(Source::ALL.map(|one| source(one).0).to_vec(), Source::ALL.map(|one| (source(one).1, one.name())).to_vec());
        check(State::ALL.map(|one| u64::from(state(one).0)).to_vec(), State::ALL.map(|one| (state(one).1, one.name())).to_vec());
        check(Health::ALL.map(|one| u64::from(health(one).0)).to_vec(), Health::ALL.map(|one| (health(one).1, one.name())).to_vec());
        check(Kind::ALL.map(|one| u64::from(kind(one).0)).to_vec(), Kind::ALL.map(|one| (kind(one).1, one.name())).to_vec());
        assert_eq!(Kind::ALL.map(|one| usize::from(kind(one).0)), [0, 1, 2, 3, 4, 5], "places in kinds");
        assert_eq!((kind_of(4), kind_of(6)), (Some(Kind::Cb), None));
    }

    /// cbindgen writes the header. This test compares all numbers even if cbindgen is not installed.
    #[test]
    fn the_header_has_the_numbers_of_the_tables() {
        let number = |name: &str, text: &str| Some((name.to_owned(), text.parse::<u64>().ok()?));
        let defined = |line: &str| {
            let (name, value) = line.strip_prefix("#define ")?.split_once(' ')?;
            number(name, value)
        };
        let declared = |line: &str| {
            let (name, value) = line.strip_prefix("pub const ")?.split_once(':')?;
            number(name, value.split_once("= ")?.1.strip_suffix(';')?)
        };
        let header: BTreeMap<String, u64> = include_str!("../include/ttmon_monitor.h").lines().filter_map(defined).collect();
        let source: BTreeMap<String, u64> = include_str!("shapes.rs").lines().filter_map(declared).collect();
        assert!(source.len() > 30, "{source:?}");
        for (name, value) in &source {
            assert_eq!(header.get(name), Some(value), "{name}");
        }
        let check = |group: &str, word: &CStr, value: u64| {
            let name = format!("TTMON_{group}_{}", word.to_str().unwrap().to_uppercase());
            assert_eq!(header.get(&name), Some(&value), "{name}");
        };
        Missing::ALL.map(missing).iter().for_each(|(value, word)| check("MISSING", word, u64::try_from(*value).unwrap()));
        Status::ALL.map(status).iter().for_each(|(value, word)| check("STATUS", word, u64::from(*value)));
        Source::ALL.map(super::source).iter().for_each(|(value, word)| check("SOURCE", word, *value));
        State::ALL.map(state).iter().for_each(|(value, word)| check("STATE", word, u64::from(*value)));
        Kind::ALL.map(kind).iter().for_each(|(value, word)| check("KIND", word, u64::from(*value)));
    }
}
