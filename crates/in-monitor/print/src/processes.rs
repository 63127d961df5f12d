//! The process table: one row per process, and one more for memory on a chip without a row in the device table.

use std::io::{self, Write};
use std::ops::RangeInclusive;

use ttmon_model::identity::ranges;
use ttmon_model::snapshot::{Location, Unmapped};
use ttmon_model::{Kind, Process, Reading, Snapshot};

use crate::quantity::size;
use crate::style::Style;
use crate::table::{Cell, Column, Table};

/// Level of detail: the columns that fit 80, then full words for the status, then the workload, then the full command.
type Level = usize;
type Levels = RangeInclusive<Level>;
const LEVEL_MAX: Level = 3;
const WORKLOAD: &str = "Container/job";

type ProcessCell = fn(&Process, &Style<'_>) -> Cell;
type UnmappedCell = fn(&Unmapped) -> Cell;
const BLANK: UnmappedCell = |_| Cell::blank();

struct ProcessColumn {
    levels: Levels,
    column: Column,
    cell: ProcessCell,
    unmapped: UnmappedCell,
}

const fn column(levels: Levels, column: Column, cell: ProcessCell, unmapped: UnmappedCell) -> ProcessColumn {
    ProcessColumn { levels, column, cell, unmapped }
}

const COLUMNS: &[ProcessColumn] = &[
    column(0..=LEVEL_MAX, Column::number("PID", 5), |process, _| Cell::plain(process.key.pid.to_string()), BLANK),
    column(0..=0, Column::text("User", 7, 7), user, unmapped_label),
    column(1..=LEVEL_MAX, Column::text("User", 7, 12), user, unmapped_label),
    column(0..=0, Column::flexible("Name", 5), name_with_workload, BLANK),
    column(1..=1, Column::flexible("Name", 16), name_with_workload, BLANK),
    column(2..=2, Column::flexible("Name", 16), name, BLANK),
    column(3..=LEVEL_MAX, Column::text("Name", 16, 24), name, BLANK),
    column(2..=LEVEL_MAX, Column::text(WORKLOAD, 13, 22).gap(2), workload, BLANK),
    column(0..=LEVEL_MAX, Column::text("Dev", 3, 9).gap(2), devices, BLANK),
    column(0..=LEVEL_MAX, Column::number("DRAM", 8), |one, _| size_cell(one.total_of(&Kind::DRAM_BAR)), |one| size_cell(one.kinds.dram())),
    column(0..=LEVEL_MAX, Column::number("L1", 8), |one, _| size_cell(one.total_of(&Kind::L1_BAR)), |one| size_cell(one.kinds.l1())),
    column(0..=0, Column::text("Status", 21, 21).gap(2), status, BLANK),
    column(1..=LEVEL_MAX, Column::text("Status", 25, 25).gap(2), status, BLANK),
    column(3..=LEVEL_MAX, Column::flexible("Command", 20).gap(2), |one, style| text_or_absent(one.command.as_deref(), style), BLANK),
];

pub(crate) fn print(snapshot: &Snapshot, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out)?;
    if snapshot.processes.is_empty() {
        return writeln!(out, "{}", no_processes(snapshot));
    }
    writeln!(out, "Processes:")?;
    table(snapshot, style).print(None, style, out)
}

fn no_processes(snapshot: &Snapshot) -> String {
    let gateways = ranges(snapshot.devices.iter().filter_map(|device| device.via.ok()));
    let is_remote_alone = snapshot.devices.iter().all(|device| device.location == Location::Remote);
    // If the holders of a device are unknown, so is its memory.
    let is_certain = snapshot.devices.iter().all(|device| device.memory.dram.used.is_ok());
    match (is_certain, is_remote_alone) {
        (true, _) => "No process holds a device.".to_owned(),
        (false, true) if !gateways.is_empty() => {
            format!("Users of a remote chip hold its gateway: see device {gateways}.")
        }
        (false, _) => "No process is seen to hold a device.".to_owned(),
    }
}

fn table(snapshot: &Snapshot, style: &Style<'_>) -> Table {
    let mut rich = (1..=LEVEL_MAX).rev().map(|level| table_at(level, snapshot, style));
    rich.find(|table| table.fits(style)).unwrap_or_else(|| table_at(0, snapshot, style))
}

fn table_at(level: Level, snapshot: &Snapshot, style: &Style<'_>) -> Table {
    let has_workloads = snapshot.processes.iter().any(|process| process.workload().is_ok());
    let is_shown = |column: &&ProcessColumn| column.levels.contains(&level) && (has_workloads || column.column.title != WORKLOAD);
    let columns: Vec<&ProcessColumn> = COLUMNS.iter().filter(is_shown).collect();
    let mut rows = Vec::new();
    for process in &snapshot.processes {
        rows.push(columns.iter().map(|column| (column.cell)(process, style)).collect());
        let unmapped_row = |unmapped| columns.iter().map(|column| (column.unmapped)(unmapped)).collect();
        rows.extend(process.unmapped.iter().map(unmapped_row));
    }
    Table { columns: columns.iter().map(|column| column.column).collect(), rows }
}

/// The label of a row below its process covers the columns of user and name.
fn unmapped_label(unmapped: &Unmapped) -> Cell {
    Cell::plain(format!("unmapped chip {}", unmapped.id)).cut_at_end().double()
}

fn size_cell(bytes: Reading<u64>) -> Cell {
    bytes.map_or_else(|_| Cell::absent(), |bytes| Cell::plain(size(bytes)))
}

fn text_or_absent<E>(text: Result<&str, E>, style: &Style<'_>) -> Cell {
    text.map_or_else(|_| Cell::absent(), |text| Cell::plain(style.clean(text)))
}

fn user(process: &Process, style: &Style<'_>) -> Cell {
    text_or_absent(process.user.as_deref(), style)
}

fn name(process: &Process, style: &Style<'_>) -> Cell {
    text_or_absent(process.title().as_deref(), style)
}

fn name_with_workload(process: &Process, style: &Style<'_>) -> Cell {
    match (process.title(), process.workload()) {
        (Ok(name), Ok(workload)) => Cell::named(style.clean(&name), style.clean(&workload)),
        _ => name(process, style),
    }
}

fn workload(process: &Process, style: &Style<'_>) -> Cell {
    process.workload().map_or_else(|_| Cell::blank(), |text| Cell::plain(style.clean(&text)))
}

fn devices(process: &Process, _: &Style<'_>) -> Cell {
    Cell::plain(ranges(process.devices.iter().map(|use_of| use_of.device)))
}

fn status(process: &Process, _: &Style<'_>) -> Cell {
    Cell::plain(process.status_title()).cut_at_end()
}
