//! Columns of the process table. Drawing, sorting, the column menu and the configuration file use this list.

use ttmon_model::units::UnixTime;
use ttmon_model::{DeviceId, Kind, Missing, Reading};
use ttmon_print::quantity::{age, size};
use ttmon_print::ranges;

use crate::state::ProcessRow;

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
    pub(crate) value: fn(&ProcessRow<'_>) -> Reading<CellValue>,
}

/// The value of a cell, from which its text and its place in the order follow.
#[derive(Clone, Debug)]
pub(crate) enum CellValue {
    Text(String),
    Pid(u32),
    Bytes(u64),
    /// Cores of the host.
    Cpu(f64),
    LaunchesPerSecond(f64),
    /// Shown as an age. Earlier times are larger ages.
    Since(UnixTime),
    Devices(Vec<DeviceId>),
}

use CellValue::{Bytes, Cpu, Devices, LaunchesPerSecond, Pid, Since, Text};

impl CellValue {
    pub(crate) fn text(self, now: UnixTime) -> String {
        match self {
            Text(text) => text,
            Pid(pid) => pid.to_string(),
            Bytes(bytes) => size(bytes),
            Cpu(cores) => format!("{:.0}%", cores * 100.0),
            LaunchesPerSecond(rate) => launch_rate(rate),
            Since(time) => age(time, now),
            Devices(ids) => ranges(ids),
        }
    }

    /// Returns what rows are sorted by: a number, or a text in lower case.
    fn sort_key(self) -> Reading<(f64, String)> {
        let number = match self {
            Text(text) => return Ok((0.0, text.to_lowercase())),
            Pid(pid) => f64::from(pid),
            Bytes(bytes) => bytes as f64,
            Cpu(number) | LaunchesPerSecond(number) => number,
            Since(time) => -(time.0 as f64),
            Devices(ids) => f64::from(ids.first().ok_or(Missing::NoSource)?.0),
        };
        Ok((number, String::new()))
    }
}

/// Formats the number of programs that are started each second.
pub(crate) fn launch_rate(rate: f64) -> String {
    match rate {
        _ if rate <= 0.0 => "idle".to_owned(),
        _ if rate < 10.0 => format!("{rate:.1}"),
        _ => format!("{rate:.0}"),
    }
}

/// Creates a column of text that is never dropped.
const fn column(
    name: &'static str,
    title: &'static str,
    width: u16,
    help: &'static str,
    value: fn(&ProcessRow<'_>) -> Reading<CellValue>,
) -> Column {
    Column { name, title, width, grows: false, is_number: false, rank: 0, help, value }
}

impl Column {
    const fn number(self) -> Self {
        Self { is_number: true, ..self }
    }

    const fn grows(self) -> Self {
        Self { grows: true, ..self }
    }

    const fn rank(self, rank: u8) -> Self {
        Self { rank, ..self }
    }
}

/// The column that exists only with several machines.
pub(crate) const HOST: &str = "host";

pub(crate) const COLUMNS: &[Column] = &[
    column("pid", "PID", 7, "process id", |row| Ok(Pid(row.key.pid))).number(),
    column("user", "USER", 8, "owner", |row| row.user.clone().map(Text)).rank(1),
    column("name", "NAME", 16, "what it runs", |row| row.title().map(Text)).grows(),
    column("dev", "DEV", 6, "its devices", |row| Ok(Devices(row.devices.iter().map(|use_of| use_of.device).collect()))).rank(1),
    column("dram", "DRAM", 8, "DRAM and traces it uses, all its chips together", |row| row.total_of(&Kind::DRAM_BAR).map(Bytes)).number(),
    column("l1", "L1", 8, "L1 and circular buffers", |row| row.total_of(&Kind::L1_BAR).map(Bytes)).number().rank(1),
    column("cb", "CB", 8, "circular buffers", |row| row.total(Kind::Cb).map(Bytes)).number().rank(6),
    column("peak", "PEAK", 8, "highest DRAM since tracking began", |row| row.dram_peak().map(Bytes)).number().rank(4),
    column("source", "SRC", 6, "where its figures come from", |row| row.source().map(|source| Text(source.name().to_owned()))).rank(2),
    column("launches", "LNCH/S", 6, "programs it starts each second; idle if none", |row| row.launches_per_s.map(LaunchesPerSecond))
        .number()
        .rank(4),
    column("last", "LAST", 6, "time since it last started a program", |row| row.last_launch.map(Since)).number().rank(9),
    column("cpu", "CPU", 5, "host CPU, 100% is one core", |row| row.cpu.map(Cpu)).number().rank(3),
    column("mem", "MEM", 8, "host memory", |row| row.rss.map(Bytes)).number().rank(5),
    column("age", "AGE", 6, "time since it started", |row| row.start_time.map(Since)).number().rank(10),
    column("status", "STATUS", 12, "tracking status of its memory", |row| Ok(Text(row.status.name().to_owned()))).rank(11),
    column("container", "CONTAINER/JOB", 16, "where it runs", |row| row.workload().map(Text)).rank(7),
    column("command", "COMMAND", 20, "its whole command line", |row| row.command.clone().map(Text)).grows().rank(7),
    column(HOST, "HOST", 12, "its machine, where there are several", |row| Ok(Text(row.host_name.to_owned()))),
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
    let compare = |one: &(f64, String), other: &(f64, String)| one.0.total_cmp(&other.0).then_with(|| one.1.cmp(&other.1));
    let with_key = |row: ProcessRow<'a>| ((column.value)(&row).and_then(CellValue::sort_key), row);
    let mut keyed: Vec<(Reading<(f64, String)>, ProcessRow<'a>)> = rows.map(with_key).collect();
    keyed.sort_by(|(one_key, one), (other_key, other)| {
        let order = match (one_key, other_key) {
            (Ok(one), Ok(other)) if is_descending => compare(other, one),
            (Ok(one), Ok(other)) => compare(one, other),
            _ => one_key.is_err().cmp(&other_key.is_err()),
        };
        order.then(one.host.cmp(&other.host)).then(one.key.cmp(&other.key))
    });
    keyed.into_iter().map(|(_, row)| row).collect()
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
            let ages: Vec<String> = processes.iter().map(|row| (column.value)(row).unwrap().text(now)).collect();
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
