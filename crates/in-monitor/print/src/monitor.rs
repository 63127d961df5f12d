//! `ttmon dmon` and `ttmon pmon`: one line per device or process, columns from the field tables. A line that begins with `#` is a
//! heading.

use std::cell::OnceCell;
use std::io::{self, Write};

use ttmon_model::fields::{DEVICE, Field, Section, Value};
use ttmon_model::snapshot::DeviceUse;
use ttmon_model::units::Unit;
use ttmon_model::{Device, Missing, Process, Reading, Snapshot};

use crate::style::Style;
use crate::text::{Align, pad, width};

const NONE: &str = "-";
const NUMBER_COLUMNS: usize = 5;
const USER_COLUMNS: usize = 10;
const STATUS_COLUMNS: usize = 13;

/// Letters of `dmon -s`, as in nvidia-smi, and their sections.
const GROUPS: [(char, &[Section]); 6] = [
    ('p', &[Section::Temperature, Section::Power]),
    ('u', &[Section::Utilization]),
    ('c', &[Section::Clock]),
    ('v', &[Section::Performance]),
    ('m', &[Section::Memory]),
    ('t', &[Section::Pcie]),
];

/// The date and time at the start of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineStamp {
    /// The date.
    pub date: bool,
    /// The time of day.
    pub time: bool,
}

impl LineStamp {
    /// Formats its headings, or its cells from `2026-11-15 08:12:45`.
    fn cells(self, local_time: &str, is_heading: bool) -> String {
        let (date, time) = local_time.split_once(' ').unwrap_or((NONE, NONE));
        let (date, time) = if is_heading { ("Date", "Time") } else { (date, time) };
        let parts = [(self.date, date, 10), (self.time, time, 8)];
        parts.into_iter().filter(|(is_shown, ..)| *is_shown).map(|(_, part, columns)| pad(part, columns, Align::Left) + " ").collect()
    }
}

/// A letter without columns.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} stands for no columns; letters are {letters}", letters = GROUPS.map(|(letter, _)| letter.to_string()).join(", "))]
pub struct UnknownGroup(char);

/// The columns of `dmon`.
pub struct DeviceColumns {
    requested: Vec<&'static Field<Device>>,
    /// The columns with an expected value, chosen by the first snapshot. Without `--deep`, its fields would fill the screen with missing
    /// values.
    shown: OnceCell<Vec<&'static Field<Device>>>,
}

impl DeviceColumns {
    /// Finds the columns of letters such as `pucm`: the numeric, changing fields of their sections.
    pub fn parse(letters: &str) -> Result<Self, UnknownGroup> {
        let mut columns = Vec::new();
        for letter in letters.chars() {
            let (_, sections) = GROUPS.iter().find(|(known, _)| *known == letter).ok_or(UnknownGroup(letter))?;
            let is_new = |field: &&Field<Device>| !columns.iter().any(|known: &&Field<Device>| known.name == field.name);
            let is_shown = |field: &&Field<Device>| sections.contains(&field.section) && changes(field);
            let new: Vec<_> = DEVICE.iter().filter(is_shown).filter(is_new).collect();
            columns.extend(new);
        }
        Ok(Self { requested: columns, shown: OnceCell::new() })
    }

    /// Whether a column comes from the processes.
    pub fn needs_processes(&self) -> bool {
        self.requested.iter().any(|field| matches!(field.section, Section::Memory | Section::Performance))
    }

    /// Prints a line per device, below a header if requested. Returns the number of device lines.
    pub fn print(&self, snapshot: &Snapshot, stamp: LineStamp, header: bool, style: &Style<'_>, out: &mut dyn Write) -> io::Result<usize> {
        let shown = self.shown.get_or_init(|| self.requested.iter().copied().filter(|field| is_expected(field, snapshot)).collect());
        let columns = |field: &Field<Device>| field.heading().len().max(unit(field.unit).len()).max(NUMBER_COLUMNS);
        let line = |cell: &dyn Fn(&Field<Device>) -> String| -> String {
            shown.iter().map(|field| format!(" {}", pad(&cell(field), columns(field), Align::Right))).collect()
        };
        if header {
            writeln!(out, "# {}dev{}", stamp.cells("", true), line(&|field| field.heading().to_owned()))?;
            writeln!(out, "# {}Idx{}", " ".repeat(stamp.cells("", true).len()), line(&|field| unit(field.unit).to_owned()))?;
        }
        for device in &snapshot.devices {
            let cells = line(&|field| number((field.get)(device), field.unit));
            writeln!(out, "  {}{:>3}{cells}", stamp.cells(&style.local_time, false), device.id.to_string())?;
        }
        Ok(snapshot.devices.len())
    }
}

fn changes(field: &Field<Device>) -> bool {
    let is_state = matches!(field.section, Section::Performance | Section::Utilization) && field.metric.is_some();
    field.is_kept || is_state
}

/// Whether the field is read on this machine. Utilization is always shown: users of `-s u` expect it.
fn is_expected(field: &Field<Device>, snapshot: &Snapshot) -> bool {
    let is_read = |device: &Device| {
        matches!((field.get)(device), Ok(_) | Err(Missing::FirstSample | Missing::NotHeld | Missing::SlowDispatch | Missing::Stale))
    };
    !field.is_deep || field.name == "utilization" || snapshot.devices.iter().any(is_read)
}

/// Prints a line per process and device, and one per device without a process, as nvidia-smi pmon does. Returns the number of lines.
pub fn process_lines(snapshot: &Snapshot, stamp: LineStamp, header: bool, style: &Style<'_>, out: &mut dyn Write) -> io::Result<usize> {
    if header {
        let names = ["dev", "pid", "user", "cpu", "dram", "l1", "launch/s", "status", "command"].map(str::to_owned);
        let units = ["Idx", "#", "", "%", "MiB", "MiB", "", "", ""].map(str::to_owned);
        writeln!(out, "# {}{}", stamp.cells("", true), row(&names))?;
        writeln!(out, "# {}{}", " ".repeat(stamp.cells("", true).len()), row(&units))?;
    }
    let stamp = stamp.cells(&style.local_time, false);
    let mut lines = 0;
    for device in &snapshot.devices {
        let mut of_device: Vec<[String; 9]> =
            snapshot.processes_on(device.id).map(|(process, use_of)| cells(device, process, use_of, style)).collect();
        if of_device.is_empty() {
            let mut cells = [NONE; 9].map(str::to_owned);
            cells[0] = device.id.to_string();
            of_device.push(cells);
        }
        for cells in of_device {
            writeln!(out, "  {stamp}{}", row(&cells))?;
            lines += 1;
        }
    }
    Ok(lines)
}

fn cells(device: &Device, process: &Process, use_of: &DeviceUse, style: &Style<'_>) -> [String; 9] {
    let text = |text: Reading<String>| text.map_or_else(|_| NONE.to_owned(), |text| style.clean(&text));
    let bytes = |bytes: Reading<u64>| number(bytes.map(Value::Integer), Unit::Bytes);
    [
        device.id.to_string(),
        process.key.pid.to_string(),
        // A space would start a new column.
        text(process.user.clone()).replace(' ', "_"),
        number(process.cpu.map(Value::Float), Unit::Ratio),
        bytes(use_of.kinds.dram()),
        bytes(use_of.kinds.l1()),
        process.launches_per_s.map_or_else(|_| NONE.to_owned(), |launches| format!("{launches:.0}")),
        process.status.name().to_owned(),
        text(process.title()),
    ]
}

fn row([device, pid, user, cpu, dram, l1, launches, status, command]: &[String; 9]) -> String {
    let user = pad(user, USER_COLUMNS.max(width(user)), Align::Left);
    format!("{device:>3} {pid:>8} {user} {cpu:>5} {dram:>7} {l1:>7} {launches:>8} {status:<STATUS_COLUMNS$} {command}")
        .trim_end()
        .to_owned()
}

fn number(value: Reading<Value>, unit: Unit) -> String {
    let Some(number) = value.ok().and_then(|value| value.number()) else { return NONE.to_owned() };
    match unit {
        Unit::Bytes => format!("{:.0}", number / f64::from(1 << 20)),
        Unit::BytesPerSecond => format!("{:.1}", number / 1e6),
        Unit::Ratio => format!("{:.0}", number * 100.0),
        Unit::Volts => format!("{number:.3}"),
        Unit::Watts | Unit::Amperes => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Bytes => "MiB",
        Unit::BytesPerSecond => "MB/s",
        Unit::Ratio => "%",
        Unit::Count => "#",
        unit => unit.symbol(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{machine, printed};

    fn style() -> Style<'static> {
        Style { local_time: "2026-11-15 08:12:45".to_owned(), ..Style::plain("0.1.0") }
    }

    /// Every line has as many words as its heading, so that scripts can split it.
    #[test]
    fn lines_have_as_many_words_as_their_heading() {
        let stamp = LineStamp { date: true, time: true };
        for (name, snapshot) in machine::all() {
            let columns = DeviceColumns::parse("pucvmt").unwrap();
            let text = printed(|out| columns.print(&snapshot, stamp, true, &style(), out).map(|_| ()));
            let words: Vec<usize> = text.lines().map(|line| line.trim_start_matches('#').split_whitespace().count()).collect();
            // The second line has units, and no date and time.
            assert!(words[2..].iter().all(|count| *count == words[0]), "{name}: {text}");
            assert_eq!(text.lines().count(), 2 + snapshot.devices.len());
        }
    }

    #[test]
    fn letters_choose_sections() {
        let names = |letters: &str| DeviceColumns::parse(letters).unwrap().requested.iter().map(|field| field.name).collect::<Vec<_>>();
        assert_eq!(names("c"), ["aiclk_mhz"]);
        assert!(names("u").contains(&"utilization"));
        assert_eq!(names("cc"), ["aiclk_mhz"], "a letter given twice");
        assert_eq!(DeviceColumns::parse("px").err().unwrap().to_string(), "'x' stands for no columns; letters are p, u, c, v, m, t");
    }

    /// The default columns fit a terminal of 80 columns.
    #[test]
    fn usual_columns_fit_a_terminal() {
        for (name, snapshot) in machine::all() {
            let columns = DeviceColumns::parse("pucm").unwrap();
            let text = printed(|out| columns.print(&snapshot, LineStamp { date: false, time: false }, true, &style(), out).map(|_| ()));
            assert!(text.lines().all(|line| line.len() <= 80), "{name}: {text}");
            assert!(text.lines().next().is_some_and(|line| line.contains("utilization")), "{name}: {text}");
        }
    }

    #[test]
    fn every_process_of_a_device_has_a_line() {
        for (name, snapshot) in machine::all() {
            let text = printed(|out| process_lines(&snapshot, LineStamp { date: false, time: false }, true, &style(), out).map(|_| ()));
            for device in &snapshot.devices {
                let expected = snapshot.processes_on(device.id).count().max(1);
                let found = text.lines().filter(|line| line.split_whitespace().next() == Some(&device.id.to_string())).count();
                assert_eq!(found, expected, "{name}: {text}");
            }
        }
    }
}
