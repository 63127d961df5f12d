//! The device table: one row per chip. Wider terminals show more columns, always in the same order. `-L` lists the devices instead.

use std::io::{self, Write};
use std::ops::RangeInclusive;

use ttmon_model::memory::Bar;
use ttmon_model::snapshot::Severity;
use ttmon_model::{Device, Reading, Snapshot};

use crate::quantity::{ABSENT, percent, size, size_or_absent};
use crate::snapshot::origin_mark;
use crate::style::Style;
use crate::table::{Cell, Column, Table};

/// Level of detail: 0 fits 80 columns; higher levels add the DRAM bar, the PCI address, the link and the L1 bar.
type Level = usize;
const LEVEL_MAX: Level = 4;
const BAR_COLUMNS_MIN: usize = 10;
/// Fits the longest board name (`galaxy-blackhole`), and `n300 R  via 12`.
const BOARD_COLUMNS: usize = 16;

/// Shown if the chips were read directly. In 80 columns it replaces the clock.
const UTILIZATION: &str = "Util";
const CLOCK: &str = "AICLK";

struct DeviceColumn {
    levels: RangeInclusive<Level>,
    column: Column,
    cell: fn(&Device, &Style<'_>) -> Cell,
}

const fn column(levels: RangeInclusive<Level>, column: Column, cell: fn(&Device, &Style<'_>) -> Cell) -> DeviceColumn {
    DeviceColumn { levels, column, cell }
}

/// Widths fit the largest valid values (`300/300W`, `1023.9MB/12.0GB`); invalid values widen them.
const COLUMNS: &[DeviceColumn] = &[
    column(0..=LEVEL_MAX, Column::number("ID", 2), |device, _| Cell::plain(device.id.to_string())),
    column(0..=0, Column::flexible("Board", 2), board),
    column(1..=LEVEL_MAX, Column::text("Board", BOARD_COLUMNS, BOARD_COLUMNS), board),
    column(2..=LEVEL_MAX, Column::text("PCI address", 12, 16).gap(2), |device, _| cell(device.bdf, |bdf| bdf.to_string())),
    column(3..=LEVEL_MAX, Column::text("PCIe", 8, 8).gap(2), |device, _| cell(link_text(device), |text| text)),
    column(0..=LEVEL_MAX, Column::number("Temp", 5), |device, style| cell(temperature_text(device, style.glyphs().celsius), |text| text)),
    column(0..=LEVEL_MAX, Column::number("Power", 8), |device, _| cell(power_text(device), |text| text)),
    column(0..=LEVEL_MAX, Column::number(CLOCK, 7).gap(2), |device, _| cell(device.aiclk_mhz, |clock| format!("{}MHz", clock.0))),
    column(0..=LEVEL_MAX, Column::number(UTILIZATION, 4), |device, _| share(device.utilization, "")),
    column(0..=LEVEL_MAX, Column::number("DRAM", 15), |device, _| used_of_total(device, device.memory.dram)),
    column(1..=LEVEL_MAX, Column::flexible("", BAR_COLUMNS_MIN).gap(2), |device, _| bar(device.memory.dram)),
    column(0..=LEVEL_MAX, Column::number("", 4), |device, _| share(device.memory.dram.ratio(), "")),
    column(4..=LEVEL_MAX, Column::flexible("", BAR_COLUMNS_MIN).gap(2), |device, _| bar(device.memory.l1)),
    column(0..=LEVEL_MAX, Column::number("L1", 4), |device, _| share(device.memory.l1.ratio(), lower_bound(device))),
    column(0..=LEVEL_MAX, Column::text("Health", 6, 8).gap(2), |device, _| health(device)),
];

pub(crate) fn table(snapshot: &Snapshot, style: &Style<'_>) -> Table {
    let rich = (1..=LEVEL_MAX).rev().map(|level| table_at(level, snapshot, style)).find(|table| table.fits(style));
    rich.unwrap_or_else(|| table_at(0, snapshot, style))
}

fn table_at(level: Level, snapshot: &Snapshot, style: &Style<'_>) -> Table {
    let is_deep = snapshot.is_deep();
    let has_room = |title: &str| match title {
        UTILIZATION => is_deep,
        CLOCK => !(is_deep && level == 0),
        _ => true,
    };
    let is_shown = |column: &&DeviceColumn| column.levels.contains(&level) && has_room(column.column.title);
    let columns: Vec<&DeviceColumn> = COLUMNS.iter().filter(is_shown).collect();
    let row = |device: &Device| columns.iter().map(|column| (column.cell)(device, style)).collect();
    Table { columns: columns.iter().map(|column| column.column).collect(), rows: snapshot.devices.iter().map(row).collect() }
}

/// Returns `>` if a holder does not report its memory, because the figure is then a lower bound.
pub fn lower_bound(device: &Device) -> &'static str {
    if device.is_lower_bound() { ">" } else { "" }
}

fn board(device: &Device, style: &Style<'_>) -> Cell {
    let label = style.clean(&device.label());
    match device.via {
        Ok(via) => Cell::plain(format!("{label}  via {via}")),
        Err(_) => Cell::plain(label),
    }
}

/// Returns the text of a value, or `N/A` with the severity of an unknown value.
pub fn or_absent<T>(reading: Reading<T>, show: impl FnOnce(T) -> String) -> (String, Severity) {
    reading.map_or_else(|_| (ABSENT.to_owned(), Severity::Unknown), |value| (show(value), Severity::Fine))
}

fn cell<T>(reading: Reading<T>, show: impl FnOnce(T) -> String) -> Cell {
    let (text, severity) = or_absent(reading, show);
    Cell::new(text, severity)
}

/// Formats `Gen4 x16`.
pub fn link_text(device: &Device) -> Reading<String> {
    device.link().map(|(generation, width)| format!("Gen{generation} x{width}"))
}

/// Formats `54°C`, with the unit of the terminal.
pub fn temperature_text(device: &Device, unit: &str) -> Reading<String> {
    device.temperature.map(|value| format!("{:.0}{unit}", value.0))
}

/// Formats `38/100W`, or without a limit `38W`.
pub fn power_text(device: &Device) -> Reading<String> {
    let limit = device.power_limit.map_or_else(|_| String::new(), |limit| format!("/{:.0}", limit.0));
    device.power.map(|power| format!("{:.0}{limit}W", power.0))
}

fn used_of_total(device: &Device, bar: Bar) -> Cell {
    match (bar.used, bar.total) {
        (Ok(used), total) => Cell::plain(format!("{}{}/{}", lower_bound(device), size(used), size_or_absent(total))),
        (Err(_), Ok(total)) => Cell::new(format!("{ABSENT}/{}", size(total)), Severity::Unknown),
        (Err(_), Err(_)) => Cell::absent(),
    }
}

fn share(ratio: Reading<f64>, sign: &str) -> Cell {
    cell(ratio, |ratio| match percent(ratio) {
        share if sign.is_empty() || share.starts_with('>') => share,
        share if share.starts_with('<') => format!("{sign}0%"),
        share => format!("{sign}{share}"),
    })
}

fn bar(bar: Bar) -> Cell {
    bar.ratio().map_or_else(|_| Cell::blank(), Cell::bar)
}

fn health(device: &Device) -> Cell {
    let (word, severity) = device.health_word();
    Cell::new(word, severity)
}

/// Prints each device with its ids.
pub fn list(snapshot: &Snapshot, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    for device in &snapshot.devices {
        let line = format!("Device {}: {} {}", device.id, ids(device), origin_mark(snapshot));
        writeln!(out, "{}", style.clean(&line).trim_end())?;
    }
    Ok(())
}

fn ids(device: &Device) -> String {
    let chip = device.arch.map_or("unknown chip", |arch| arch.chip_name());
    let place = match device.via {
        Ok(via) => format!("via {via}"),
        Err(_) => format!("bdf {}", device.bdf.map_or_else(|_| ABSENT.to_owned(), |bdf| bdf.to_string())),
    };
    let or_absent = |id: &Reading<String>| id.clone().unwrap_or_else(|_| ABSENT.to_owned());
    format!("{} ({chip}) {place} asic_id {} serial {}", device.label(), or_absent(&device.asic_id), or_absent(&device.serial))
}
