//! The columns of a device row: which of them fit a width, and the values that all devices share, which are only in the heading.

use ttmon_model::memory::Bar;
use ttmon_model::{Device, Reading, Snapshot};
use ttmon_print::quantity::size;
use ttmon_print::text::Align;

use crate::canvas::{Canvas, Field, width};
use crate::theme::Role;

/// Minimum columns of a row with memory bars.
const BARS_MIN: u16 = 78;
/// Maximum columns of a row with only temperature, DRAM and health.
const SMALL_MAX: u16 = 57;
/// Minimum columns of a row with sparklines of the last minute and full board names.
const SPARKS_MIN: u16 = 96;
/// Cells of a sparkline. Together they cover a minute.
pub(super) const SPARK_COLUMNS: u16 = 5;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DeviceColumn {
    Id,
    Board,
    Temperature,
    TemperatureSpark,
    Power,
    PowerSpark,
    Clock,
    Utilization,
    Activity,
    Link,
    DramBar,
    DramShare,
    Dram,
    L1Bar,
    L1Share,
    L1,
    Health,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(in super::super) struct CommonValues {
    /// The board of all devices, or `None` if boards or limits differ. Then each row has its own.
    board: Option<String>,
    temperature_limit: Option<f64>,
    power_limit: Option<f64>,
    dram: Option<u64>,
    l1: Option<u64>,
    /// Whether the board is named above the rows already.
    is_board_named: bool,
    chip_columns: u16,
    is_deep: bool,
    has_activity: bool,
}

impl CommonValues {
    pub(in super::super) fn of(snapshot: &Snapshot, devices: &[&Device], is_deep: bool) -> Self {
        let has_activity = snapshot.processes.iter().any(|process| process.launches_per_s.is_ok());
        let own = Self { is_deep, has_activity, ..Self::default() };
        let Some(first) = devices.first() else { return own };
        let Ok(board) = &first.board else { return own };
        let total = |bar: Bar| bar.total.ok();
        let temperature_limit = shared_value(devices.iter().map(|device| device.temperature_limit.map(|limit| limit.0)));
        let power_limit = shared_value(devices.iter().map(|device| device.power_limit.map(|limit| limit.0)));
        let is_alike = |device: &&Device| {
            device.board.as_ref() == Ok(board)
                && total(device.memory.dram) == total(first.memory.dram)
                && total(device.memory.l1) == total(first.memory.l1)
        };
        let (Some(temperature_limit), Some(power_limit), true) = (temperature_limit, power_limit, devices.iter().all(is_alike)) else {
            return own;
        };
        Self {
            board: Some(board.clone()),
            temperature_limit,
            power_limit,
            dram: total(first.memory.dram),
            l1: total(first.memory.l1),
            chip_columns: devices.iter().map(|device| width(&chip(device, true))).max().unwrap_or(0),
            ..own
        }
    }

    /// Creates the common values of devices of several machines.
    pub(in super::super) fn mixed(is_deep: bool) -> Self {
        Self { is_deep, ..Self::default() }
    }

    /// Creates the common values of rows below a grid, whose heading may name the board.
    pub(super) fn below_grid(&self, is_board_named: bool) -> Self {
        Self { is_board_named, ..self.clone() }
    }

    pub(super) fn board(&self) -> Option<&str> {
        self.board.as_deref()
    }

    /// Returns the heading of a column. It includes the limit if all rows have the same limit.
    pub(super) fn heading(&self, (column, title, field): (DeviceColumn, &str, Field), canvas: &Canvas<'_>) -> String {
        let of = |text: Option<String>| text.map_or_else(String::new, |text| format!("/{text}"));
        match column {
            DeviceColumn::Board if self.is_board_named => String::new(),
            DeviceColumn::Board => self.board.clone().unwrap_or_else(|| title.to_owned()),
            DeviceColumn::TemperatureSpark => of(self.temperature_limit.map(|limit| format!("{limit:.0}{}", canvas.glyphs().degree))),
            DeviceColumn::PowerSpark => of(self.power_limit.map(|limit| format!("{limit:.0}W"))),
            // If the column has no room for the unit, the heading has it.
            DeviceColumn::Clock if field.width < 5 => "MHz".to_owned(),
            DeviceColumn::Dram if self.dram.is_some() => of(self.dram.map(size)),
            DeviceColumn::Dram if field.width >= 11 => "USED/TOTAL".to_owned(),
            DeviceColumn::L1 => of(self.l1.map(size)),
            _ => title.to_owned(),
        }
    }

    /// Returns the columns that fit, with title, position and width. Utilization replaces a sparkline or the clock.
    pub(super) fn columns(&self, width: u16) -> Vec<(DeviceColumn, &'static str, Field)> {
        let from = |least: u16, columns: u16| if width >= least { columns } else { 0 };
        let (is_one, is_small) = (self.board.is_some(), width < SMALL_MAX);
        let board = match () {
            () if self.is_board_named => self.chip_columns,
            () if is_small => 6,
            () if is_one => {
                let name = self.board.as_deref().map_or(0, crate::canvas::width);
                self.chip_columns.max(if width >= SPARKS_MIN { name.min(15) } else { name.min(6) })
            }
            () if width >= SPARKS_MIN => 15,
            () => from(BARS_MIN, 8).max(6),
        };
        let mut widths = vec![
            (DeviceColumn::Id, "ID", Align::Right, 3),
            (DeviceColumn::Board, "BOARD", Align::Left, board),
            (DeviceColumn::Temperature, "TEMP", Align::Right, 5),
            (DeviceColumn::TemperatureSpark, "", Align::Left, from(SPARKS_MIN, SPARK_COLUMNS)),
            (DeviceColumn::Power, "POWER", Align::Right, from(SMALL_MAX, if is_one { 5 } else { 8 })),
            (DeviceColumn::PowerSpark, "", Align::Left, if self.is_deep { 0 } else { from(SPARKS_MIN, SPARK_COLUMNS) }),
            (DeviceColumn::Clock, "AICLK", Align::Right, from(SMALL_MAX, if width >= BARS_MIN { 7 } else { 4 })),
            (DeviceColumn::Utilization, "UTIL", Align::Right, if self.is_deep { 5 } else { 0 }),
            (DeviceColumn::Activity, "LNCH/S", Align::Right, if self.has_activity { from(112, 6) } else { 0 }),
            (DeviceColumn::Link, "PCIE", Align::Left, from(150, 8)),
            (DeviceColumn::DramBar, "DRAM", Align::Left, from(BARS_MIN, if is_one { 9 } else { 6 })),
            (DeviceColumn::DramShare, "", Align::Right, if is_small { 4 } else { from(BARS_MIN, 4) }),
            (DeviceColumn::Dram, "DRAM", Align::Right, if is_one || is_small { 8 } else { 12 + from(BARS_MIN, 1) }),
            (DeviceColumn::L1Bar, "", Align::Left, from(if is_one { SPARKS_MIN } else { 118 }, 8)),
            (DeviceColumn::L1Share, "L1", Align::Right, from(SMALL_MAX, 5)),
            (DeviceColumn::L1, "", Align::Right, from(if is_one { 104 } else { 140 }, if is_one { 8 } else { 9 })),
            (DeviceColumn::Health, "HEALTH", Align::Left, if is_small { 8 } else { 6 + from(BARS_MIN, 4) }),
        ];
        widths.retain(|(column, .., cells)| *cells > 0 && !(self.is_deep && *column == DeviceColumn::Clock && width < SPARKS_MIN));
        let used: u16 = widths.iter().map(|(.., cells)| cells + 1).sum();
        let left = width.saturating_sub(used);
        let bars = ((left / 2).min(40), (left / 5).min(16));
        // The remaining width makes bars longer and leaves room for the reasons of health.
        for (column, .., cells) in &mut widths {
            *cells += match column {
                // Without bars, the board's name first gets the width that it needs.
                DeviceColumn::Board if width < BARS_MIN && !is_one => left.min(9),
                DeviceColumn::Health if width < BARS_MIN && !is_one => left - left.min(9),
                DeviceColumn::DramBar => bars.0,
                DeviceColumn::L1Bar => bars.1,
                DeviceColumn::Health => left - bars.0 - bars.1,
                _ => 0,
            };
        }
        let mut at = 0;
        let place = |(column, title, align, cells): (DeviceColumn, &'static str, Align, u16)| {
            let field = if align == Align::Left { Field::start(at, cells) } else { Field::right(at, cells) };
            at += cells + 1;
            (column, title, field)
        };
        widths.into_iter().map(place).collect()
    }
}

/// Returns the value that all available values share, or `None` if two differ.
fn shared_value(values: impl Iterator<Item = Reading<f64>>) -> Option<Option<f64>> {
    let mut found = None;
    for value in values.flatten() {
        if *found.get_or_insert(value) != value {
            return None;
        }
    }
    Some(found)
}

/// Formats the position of a device on its board, and the chip through which it is reached if there is room.
pub(super) fn chip(device: &Device, has_room: bool) -> String {
    let letter = device.chip.map_or_else(|_| String::new(), |chip| chip.name().to_string());
    match device.via {
        Ok(via) if has_room => format!("{letter} via {via}"),
        _ => letter,
    }
}

pub(in super::super) fn head(common: &CommonValues, canvas: &mut Canvas<'_>, area: ratatui_core::layout::Rect) {
    canvas.field(area, Field::left(0, area.width), 0, "", canvas.style(Role::Heading));
    for column in common.columns(area.width) {
        canvas.field(area, column.2, 0, &common.heading(column, canvas), canvas.style(Role::Heading));
    }
}
