//! Columns of the process table. Drawing, sorting, the column menu and the configuration file use this list.

use std::cmp::Ordering;

use ttmon_model::units::UnixTime;
use ttmon_model::{Kind, Missing, Process, Reading};
use ttmon_print::quantity::{age, size};
use ttmon_print::ranges;

use crate::state::ProcessRow;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SortKey {
    Number(f64),
    Text(String),
}

pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// Width on the screen. Columns with `grows` also get the remaining width.
    pub(crate) width: u16,
    pub(crate) grows: bool,
    pub(crate) is_number: bool,
    /// Order in which columns are dropped on a narrow screen: the highest rank first; rank 0 is never dropped.
    pub(crate) rank: u8,
    pub(crate) help: &'static str,
    pub(crate) text: fn(&ProcessRow<'_>, UnixTime) -> Reading<String>,
    pub(crate) key: fn(&ProcessRow<'_>) -> Reading<SortKey>,
}

fn number(reading: Reading<u64>) -> Reading<SortKey> {
    reading.map(|value| SortKey::Number(value as f64))
}

fn words(reading: Reading<String>) -> Reading<SortKey> {
    reading.map(|text| SortKey::Text(text.to_lowercase()))
}

/// Sorts earlier times as larger values.
fn since(reading: Reading<UnixTime>) -> Reading<SortKey> {
    reading.map(|time| SortKey::Number(-(time.0 as f64)))
}

fn devices(process: &Process) -> String {
    ranges(process.devices.iter().map(|use_of| use_of.device))
}

fn source(process: &Process) -> Reading<String> {
    process.source().map(|source| source.name().to_owned())
}

fn share(process: &Process) -> Reading<String> {
    process.cpu.map(|cpu| format!("{:.0}%", cpu * 100.0))
}

fn rate(process: &Process) -> Reading<String> {
    process.launches_per_s.map(|rate| match rate {
        _ if rate <= 0.0 => "idle".to_owned(),
        _ if rate < 10.0 => format!("{rate:.1}"),
        _ => format!("{rate:.0}"),
    })
}

/// The column that exists only with several machines.
pub(crate) const HOST: &str = "host";

#[rustfmt::skip] // one row per line
pub(crate) const COLUMNS: &[Column] = &[
    Column { name: "pid", title: "PID", width: 7, grows: false, is_number: true, rank: 0, help: "process id", text: |p, _| Ok(p.key.pid.to_string()), key: |p| Ok(SortKey::Number(f64::from(p.key.pid))) },
    Column { name: "user", title: "USER", width: 8, grows: false, is_number: false, rank: 1, help: "owner", text: |p, _| p.user.clone(), key: |p| words(p.user.clone()) },
    Column { name: "name", title: "NAME", width: 16, grows: true, is_number: false, rank: 0, help: "what it runs", text: |p, _| p.title(), key: |p| words(p.title()) },
    Column { name: "dev", title: "DEV", width: 6, grows: false, is_number: false, rank: 1, help: "its devices", text: |p, _| Ok(devices(p)), key: |p| p.devices.first().map(|use_of| SortKey::Number(f64::from(use_of.device.0))).ok_or(Missing::NoSource) },
    Column { name: "dram", title: "DRAM", width: 8, grows: false, is_number: true, rank: 0, help: "DRAM and traces it uses, all its chips together", text: |p, _| p.total_of(&Kind::DRAM_BAR).map(size), key: |p| number(p.total_of(&Kind::DRAM_BAR)) },
    Column { name: "l1", title: "L1", width: 8, grows: false, is_number: true, rank: 1, help: "L1 and circular buffers", text: |p, _| p.total_of(&Kind::L1_BAR).map(size), key: |p| number(p.total_of(&Kind::L1_BAR)) },
    Column { name: "cb", title: "CB", width: 8, grows: false, is_number: true, rank: 6, help: "circular buffers", text: |p, _| p.total(Kind::Cb).map(size), key: |p| number(p.total(Kind::Cb)) },
    Column { name: "peak", title: "PEAK", width: 8, grows: false, is_number: true, rank: 4, help: "highest DRAM since tracking began", text: |p, _| p.dram_peak().map(size), key: |p| number(p.dram_peak()) },
    Column { name: "source", title: "SRC", width: 6, grows: false, is_number: false, rank: 2, help: "where its figures come from", text: |p, _| source(p), key: |p| words(source(p)) },
    Column { name: "launches", title: "LNCH/S", width: 6, grows: false, is_number: true, rank: 4, help: "programs it starts each second; idle if none", text: |p, _| rate(p), key: |p| p.launches_per_s.map(SortKey::Number) },
    Column { name: "last", title: "LAST", width: 6, grows: false, is_number: true, rank: 9, help: "time since it last started a program", text: |p, now| p.last_launch.map(|last| age(last, now)), key: |p| since(p.last_launch) },
    Column { name: "cpu", title: "CPU", width: 5, grows: false, is_number: true, rank: 3, help: "host CPU, 100% is one core", text: |p, _| share(p), key: |p| p.cpu.map(SortKey::Number) },
    Column { name: "mem", title: "MEM", width: 8, grows: false, is_number: true, rank: 5, help: "host memory", text: |p, _| p.rss.map(size), key: |p| number(p.rss) },
    Column { name: "age", title: "AGE", width: 6, grows: false, is_number: true, rank: 10, help: "time since it started", text: |p, now| p.start_time.map(|start| age(start, now)), key: |p| since(p.start_time) },
    Column { name: "status", title: "STATUS", width: 12, grows: false, is_number: false, rank: 11, help: "tracking status of its memory", text: |p, _| Ok(p.status.name().to_owned()), key: |p| Ok(SortKey::Text(p.status.name().to_owned())) },
    Column { name: "container", title: "CONTAINER/JOB", width: 16, grows: false, is_number: false, rank: 7, help: "where it runs", text: |p, _| p.workload(), key: |p| words(p.workload()) },
    Column { name: "command", title: "COMMAND", width: 20, grows: true, is_number: false, rank: 7, help: "its whole command line", text: |p, _| p.command.clone(), key: |p| words(p.command.clone()) },
    Column { name: HOST, title: "HOST", width: 12, grows: false, is_number: false, rank: 0, help: "its machine, where there are several", text: |p, _| Ok(p.host_name.to_owned()), key: |p| Ok(SortKey::Text(p.host_name.to_lowercase())) },
];

pub(crate) const DEFAULT: &[&str] =
    &["pid", "user", "name", "dev", "dram", "l1", "cb", "peak", "source", "launches", "cpu", "mem", "container", "command"];

/// Columns that the user can choose: all but the host, which is the last.
pub(crate) fn choosable() -> &'static [Column] {
    COLUMNS.split_last().map_or(COLUMNS, |(_, others)| others)
}

pub(crate) fn by_name(name: &str) -> Option<usize> {
    COLUMNS.iter().position(|column| column.name == name)
}

/// Sorts processes by a column. Missing values come last in both directions.
pub(crate) fn sorted<'a>(column: &Column, is_descending: bool, rows: impl Iterator<Item = ProcessRow<'a>>) -> Vec<ProcessRow<'a>> {
    // A key may be a text that has to be built, so build it once per row, not for each comparison.
    let mut keyed: Vec<(Reading<SortKey>, ProcessRow<'a>)> = rows.map(|row| ((column.key)(&row), row)).collect();
    keyed.sort_by(|(one_key, one), (other_key, other)| {
        compare(is_descending, one_key, other_key).then(one.host.cmp(&other.host)).then(one.key.cmp(&other.key))
    });
    keyed.into_iter().map(|(_, row)| row).collect()
}

fn compare(is_descending: bool, one: &Reading<SortKey>, other: &Reading<SortKey>) -> Ordering {
    match (one, other) {
        (Ok(one), Ok(other)) => {
            let order = match (one, other) {
                (SortKey::Number(one), SortKey::Number(other)) => one.total_cmp(other),
                (SortKey::Text(one), SortKey::Text(other)) => one.cmp(other),
                // The keys of a column are of one kind.
                _ => Ordering::Equal,
            };
            if is_descending { order.reverse() } else { order }
        }
        _ => one.is_err().cmp(&other.is_err()),
    }
}

/// Returns the selected columns that fit a width, each with its own width.
pub(crate) fn fitting(chosen: &[usize], width: u16) -> Vec<(usize, u16)> {
    let mut kept: Vec<usize> = chosen.to_vec();
    let needed = |kept: &[usize]| kept.iter().map(|index| COLUMNS[*index].width + 1).sum::<u16>();
    while needed(&kept) > width {
        let Some(worst) = kept.iter().copied().filter(|index| COLUMNS[*index].rank > 0).max_by_key(|index| (COLUMNS[*index].rank, *index))
        else {
            break;
        };
        kept.retain(|index| *index != worst);
    }
    let left = width.saturating_sub(needed(&kept));
    // On the narrowest screen a long name is cut, but never a number.
    let over = needed(&kept).saturating_sub(width);
    // The name gets a few more columns before the command gets the rest.
    let growing: Vec<usize> = kept.iter().copied().filter(|index| COLUMNS[*index].grows).collect();
    let share = |index: usize| match growing.as_slice() {
        [only] if *only == index => left,
        [first, .., _] if *first == index => left / 4,
        [.., last] if *last == index => left - left / 4,
        _ => 0,
    };
    let own = |index: usize| COLUMNS[index].width.saturating_sub(if COLUMNS[index].grows { over } else { 0 });
    kept.iter().map(|index| (*index, own(*index) + share(*index))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::machine;

    #[test]
    fn names_are_unique_and_the_default_ones_exist() {
        for (index, column) in COLUMNS.iter().enumerate() {
            assert_eq!(by_name(column.name), Some(index));
            assert!(!column.help.is_empty() && usize::from(column.width) >= column.title.len().min(13));
        }
        assert!(DEFAULT.iter().all(|name| by_name(name).is_some()));
        assert!(choosable().iter().all(|column| column.name != HOST));
    }

    #[test]
    fn columns_fit_any_width_and_numbers_are_whole() {
        let all: Vec<usize> = (0..COLUMNS.len()).collect();
        for width in 40..400 {
            let fitting = fitting(&all, width);
            assert!(fitting.iter().map(|(_, columns)| columns + 1).sum::<u16>() <= width, "{width}");
            assert!(fitting.iter().all(|(index, columns)| COLUMNS[*index].grows || *columns == COLUMNS[*index].width), "{width}");
            assert!(fitting.len() >= if width < 80 { 4 } else { 5 });
        }
    }

    #[test]
    fn a_peak_is_never_below_what_is_used() {
        let mut snapshot = machine::mixed();
        let process = &mut snapshot.processes[0];
        for use_of in &mut process.devices {
            use_of.kinds[Kind::Dram].peak = use_of.kinds[Kind::Dram].used;
            use_of.kinds[Kind::Trace].used = Ok(1 << 30);
        }
        assert_eq!(process.dram_peak(), process.total_of(&Kind::DRAM_BAR));
        process.devices[0].kinds[Kind::Dram].peak = Ok(1 << 50);
        assert!(process.dram_peak().unwrap() >= 1 << 50);
    }

    /// An earlier start is a higher age, so it comes first in descending order.
    #[test]
    fn ages_are_sorted_as_they_read() {
        let mut snapshot = machine::mixed();
        let now = snapshot.time;
        for (process, seconds) in snapshot.processes.iter_mut().zip([60, 3600]) {
            process.start_time = Ok(UnixTime(now.0 - seconds * 1_000_000_000));
            process.last_launch = Ok(UnixTime(now.0 - seconds * 1_000_000_000));
        }
        for name in ["age", "last"] {
            let row = |process| ProcessRow { host: 0, host_name: "", process, depth: crate::state::Depth::default() };
            let column = &COLUMNS[by_name(name).unwrap()];
            let processes = sorted(column, true, snapshot.processes.iter().map(row));
            let ages: Vec<String> = processes.iter().map(|row| (column.text)(row, now).unwrap()).collect();
            assert_eq!(ages, [age(UnixTime(0), UnixTime(3600 * 1_000_000_000)), age(UnixTime(0), UnixTime(60 * 1_000_000_000))], "{name}");
        }
    }

    #[test]
    fn absent_values_come_last_in_both_orders() {
        let snapshot = machine::mixed();
        for is_descending in [false, true] {
            let row = |process| ProcessRow { host: 0, host_name: "", process, depth: crate::state::Depth::default() };
            let processes = sorted(&COLUMNS[by_name("dram").unwrap()], is_descending, snapshot.processes.iter().map(row));
            assert_eq!(processes.iter().map(|process| process.key.pid).collect::<Vec<_>>(), [200, 201]);
        }
    }
}
