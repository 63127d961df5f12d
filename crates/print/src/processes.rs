//! The process table: one row per process, and one more for memory on a chip without a row in the device table.

use std::io::{self, Write};

use ttmon_model::identity::ranges;
use ttmon_model::snapshot::{Location, Unmapped};
use ttmon_model::{Kind, Process, Reading, Snapshot};

use crate::quantity::size;
use crate::style::Style;
use crate::table::{Cell, Column, Table};

struct ProcessColumn {
    column: Column,
    cell: fn(&Process, &Style<'_>) -> Cell,
    unmapped: fn(&Unmapped) -> Cell,
}

impl ProcessColumn {
    fn new(column: Column, cell: fn(&Process, &Style<'_>) -> Cell) -> Self {
        Self { column, cell, unmapped: |_| Cell::blank() }
    }

    fn unmapped(self, unmapped: fn(&Unmapped) -> Cell) -> Self {
        Self { unmapped, ..self }
    }
}

/// Level of detail: the columns that fit 80, then full words for the status, then the workload, then the full command.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Narrow,
    Roomy,
    Workload,
    Command,
}

/// Prints the section: the table, or a message that it is empty.
pub(crate) fn print(snapshot: &Snapshot, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out)?;
    if snapshot.processes.is_empty() {
        return writeln!(out, "{}", nobody(snapshot));
    }
    writeln!(out, "Processes:")?;
    table(snapshot, style).print(None, style, out)
}

/// Returns the message that there is no process, if this is certain.
fn nobody(snapshot: &Snapshot) -> String {
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
    let mut rich = [Level::Command, Level::Workload, Level::Roomy].into_iter().map(|level| table_at(level, snapshot, style));
    rich.find(|table| table.fits(style)).unwrap_or_else(|| table_at(Level::Narrow, snapshot, style))
}

fn table_at(level: Level, snapshot: &Snapshot, style: &Style<'_>) -> Table {
    let has_workloads = snapshot.processes.iter().any(|process| process.workload().is_ok());
    let columns = columns(level, has_workloads);
    let mut rows = Vec::new();
    for process in &snapshot.processes {
        rows.push(columns.iter().map(|column| (column.cell)(process, style)).collect());
        rows.extend(process.unmapped.iter().map(|unmapped| unmapped_row(&columns, unmapped)));
    }
    Table { columns: columns.iter().map(|column| column.column).collect(), rows }
}

fn columns(level: Level, has_workloads: bool) -> Vec<ProcessColumn> {
    let name = match level {
        Level::Narrow => ProcessColumn::new(Column::flexible("Name", 5), name_with_workload),
        Level::Roomy => ProcessColumn::new(Column::flexible("Name", 16), name_with_workload),
        Level::Workload => ProcessColumn::new(Column::flexible("Name", 16), name),
        Level::Command => ProcessColumn::new(Column::text("Name", 16, 24), name),
    };
    let (user_columns_max, status_columns) = if level == Level::Narrow { (7, 21) } else { (12, 25) };
    let user = |process: &Process, style: &Style<'_>| text_or_absent(process.user.as_deref(), style);
    let mut columns = vec![
        ProcessColumn::new(Column::number("PID", 5), |process, _| Cell::plain(process.key.pid.to_string())),
        ProcessColumn::new(Column::text("User", 7, user_columns_max), user).unmapped(unmapped_label),
        name,
    ];
    if level >= Level::Workload && has_workloads {
        columns.push(ProcessColumn::new(Column::text("Container/job", 13, 22).gap(2), |process, style| {
            process.workload().map_or_else(|_| Cell::blank(), |text| Cell::plain(style.clean(&text)))
        }));
    }
    columns.extend([
        ProcessColumn::new(Column::text("Dev", 3, 9).gap(2), devices),
        ProcessColumn::new(Column::number("DRAM", 8), |process, _| size_cell(process.total_of(&Kind::DRAM_BAR)))
            .unmapped(|unmapped| size_cell(unmapped.kinds.dram())),
        ProcessColumn::new(Column::number("L1", 8), |process, _| size_cell(process.total_of(&Kind::L1_BAR)))
            .unmapped(|unmapped| size_cell(unmapped.kinds.l1())),
        ProcessColumn::new(Column::text("Status", status_columns, status_columns).gap(2), status),
    ]);
    if level == Level::Command {
        let command = |process: &Process, style: &Style<'_>| text_or_absent(process.command.as_deref(), style);
        columns.push(ProcessColumn::new(Column::flexible("Command", 20).gap(2), command));
    }
    columns
}

/// Returns the row below its process. Its label covers the columns of user and name.
fn unmapped_row(columns: &[ProcessColumn], unmapped: &Unmapped) -> Vec<Cell> {
    let is_covered = |index: usize| index == 2;
    columns.iter().enumerate().filter(|(index, _)| !is_covered(*index)).map(|(_, column)| (column.unmapped)(unmapped)).collect()
}

fn unmapped_label(unmapped: &Unmapped) -> Cell {
    Cell::plain(format!("unmapped chip {}", unmapped.id)).cut_at_end().over(2)
}

fn size_cell(bytes: Reading<u64>) -> Cell {
    bytes.map_or_else(|_| Cell::absent(), |bytes| Cell::plain(size(bytes)))
}

fn text_or_absent<E>(text: Result<&str, E>, style: &Style<'_>) -> Cell {
    text.map_or_else(|_| Cell::absent(), |text| Cell::plain(style.clean(text)))
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

fn devices(process: &Process, _: &Style<'_>) -> Cell {
    Cell::plain(ranges(process.devices.iter().map(|use_of| use_of.device)))
}

fn status(process: &Process, _: &Style<'_>) -> Cell {
    Cell::plain(process.status_title()).cut_at_end()
}
