//! Devices of the main view: a row each, or a cell each if there are many, with rows for the most important ones.

mod columns;

use ratatui_core::layout::Rect;
use ratatui_core::style::{Modifier, Style};
use ttmon_model::memory::Bar;
use ttmon_model::snapshot::{DeviceSums, Severity, State as DeviceState};
use ttmon_model::units::{Unit, size_in_unit_of, size_unit};
use ttmon_model::{Device, DeviceId, Missing, Reading, Snapshot};
use ttmon_print::quantity::{ABSENT, percent, size};
use ttmon_print::{KERNELS, link_text, lower_bound, memory_parts, or_absent, power_text, size_or_untracked, temperature_text};

pub(super) use self::columns::{CommonValues, head};
use self::columns::{DeviceColumn, SPARK_COLUMNS, chip};
use crate::canvas::{Canvas, Field, spark, width};
use crate::columns::launch_rate;
use crate::host::Host;
use crate::layout::{DeviceList, Main};
use crate::metric::{self, METRICS, Metric};
use crate::state::{Focus, TopState};
use crate::theme::Role;

/// Width from which the board column also names the chip through which a remote chip is reached.
const GATEWAY_MIN: u16 = 14;
const REASON_COLUMNS_MIN: u16 = 24;
const SPARK_SECONDS: u16 = 60;
/// Narrower cells show a percentage.
const CELL_WIDE_MIN: u16 = 13;
const CELL_TEXT_MAX: u16 = 20;
/// Devices whose load is in the same of these steps are listed in the order of their ids.
const LOAD_STEPS: f64 = 20.0;
/// Number of devices that are listed below the grid.
pub(crate) const WORST_MAX: u16 = 5;

/// Draws the device list with its heading, and with sums if there are many devices.
pub(super) fn draw(state: &TopState, snapshot: &Snapshot, canvas: &mut Canvas<'_>, layout: &Main) {
    let area = layout.devices;
    let devices = state.devices(snapshot);
    let chosen = state.device_row(snapshot, &devices);
    let Some(list) = DeviceList::new(layout, chosen, devices.len()) else { return };
    let common = CommonValues::of(snapshot, &devices, state.is_deep());
    let hidden = super::more(canvas, list.first, devices.len().saturating_sub(list.first + list.page()));
    let mut is_board_named = false;
    if list.is_grid {
        let place = Rect { height: 1, width: area.width.saturating_sub(width(&hidden) + 2), ..area };
        is_board_named = grid_head(state, &common, &devices, canvas, place);
    } else {
        for column in 0..list.columns {
            head(&common, canvas, Rect { x: list.left(column), y: area.y, width: list.width, height: 1 });
        }
    }
    for (index, (number, device)) in (0u16..).zip(devices.iter().enumerate().skip(list.first).take(list.page())) {
        let is_chosen = number == chosen && devices.len() > 1;
        if list.is_grid {
            grid_cell(state, device, canvas, list.place(index), is_chosen);
        } else {
            device_row(state.host(), &common, device, canvas, list.place(index), is_chosen.then_some(state.focus));
        }
    }
    let sums_row = Rect { y: list.area.bottom(), height: 1, ..area };
    if layout.has_sums {
        let (parts, unhealthy) = sums(&devices, canvas);
        canvas.text(sums_row, 0, 0, &parts.join("  "), if unhealthy > 0 { Role::Warning } else { Role::Strong });
    }
    super::at_the_end(canvas, if layout.has_sums { sums_row } else { Rect { height: 1, ..area } }, &hidden);
    if let Some(area) = layout.worst {
        draw_worst(state, &common.below_grid(is_board_named), devices, canvas, area);
    }
}

/// Draws a row for each of the most important devices: unhealthy ones first, then those closest to a limit.
fn draw_worst(state: &TopState, common: &CommonValues, mut devices: Vec<&Device>, canvas: &mut Canvas<'_>, area: Rect) {
    let load = |device: &Device| {
        let shares = [device.memory.dram.ratio(), device.memory.l1.ratio(), device.warmth()];
        shares.into_iter().flatten().fold(0.0f64, f64::max)
    };
    // Devices with a similar load keep their order, so that rows do not change places all the time.
    let step = |device: &Device| (load(device) * LOAD_STEPS).floor();
    devices.sort_by(|one, other| other.severity().cmp(&one.severity()).then(step(other).total_cmp(&step(one))).then(one.id.cmp(&other.id)));
    head(common, canvas, Rect { height: 1, ..area });
    for (row, device) in (1..area.height).zip(devices) {
        device_row(state.host(), common, device, canvas, Rect { y: area.y + row, height: 1, ..area }, None);
    }
}

/// Draws the row of a device. `focus` is the focused list if the device is the selected one.
pub(super) fn device_row(host: &Host, common: &CommonValues, device: &Device, canvas: &mut Canvas<'_>, area: Rect, focus: Option<Focus>) {
    let columns = common.columns(area.width);
    let is_one = common.board().is_some();
    let is_gateway_named = is_one || columns.iter().any(|(column, _, field)| *column == DeviceColumn::Board && field.width >= GATEWAY_MIN);
    for (column, _, field) in columns {
        let plain = |(text, severity): (String, Severity)| (text, canvas.style(severity.into()));
        let (text, style) = match column {
            DeviceColumn::Id => (device.id.to_string(), canvas.style(if focus.is_some() { Role::Selected } else { Role::Plain })),
            DeviceColumn::Board if is_one => (chip(device, true), canvas.style(Role::Plain)),
            DeviceColumn::Board => (board(device, field.width), canvas.style(Role::Plain)),
            DeviceColumn::Temperature => celsius(device, canvas),
            DeviceColumn::Power if is_one => plain(or_absent(device.power, |power| format!("{:.0}W", power.0))),
            DeviceColumn::Power => plain(or_absent(power_text(device), |text| text)),
            DeviceColumn::Clock => {
                plain(or_absent(device.aiclk_mhz, |clock| if field.width >= 7 { format!("{}MHz", clock.0) } else { clock.0.to_string() }))
            }
            DeviceColumn::Utilization => colored(device.utilization, canvas, |share| (percent(share), share)),
            DeviceColumn::Activity => plain(activity(host, device)),
            DeviceColumn::Link => plain(or_absent(link_text(device), |text| text)),
            DeviceColumn::TemperatureSpark => line(host, device, "temperature", canvas),
            DeviceColumn::PowerSpark => line(host, device, "power", canvas),
            DeviceColumn::Dram => plain(memory(device, device.memory.dram, is_one, field.width)),
            DeviceColumn::L1 => plain(memory(device, device.memory.l1, true, field.width)),
            DeviceColumn::DramShare => share(device.memory.dram, "", canvas),
            DeviceColumn::L1Share => share(device.memory.l1, lower_bound(device), canvas),
            DeviceColumn::DramBar | DeviceColumn::L1Bar => {
                let bar = if column == DeviceColumn::DramBar { device.memory.dram } else { device.memory.l1 };
                if let Ok(share) = bar.ratio() {
                    canvas.bar(area, field, 0, share);
                }
                continue;
            }
            DeviceColumn::Health => plain(health(device, device.via.ok().filter(|_| !is_gateway_named), canvas, field.width)),
        };
        canvas.field(area, field, 0, &text, style);
    }
    if focus == Some(Focus::Devices) {
        canvas.buffer.set_style(area, canvas.theme.style(Role::Selected));
    }
}

fn colored<T>(reading: Reading<T>, canvas: &Canvas<'_>, show: impl FnOnce(T) -> (String, f64)) -> (String, Style) {
    match reading.map(show) {
        Ok((text, share)) => (text, canvas.theme.load(share)),
        Err(_) => (ABSENT.to_owned(), canvas.style(Role::Dim)),
    }
}

fn share(bar: Bar, sign: &str, canvas: &Canvas<'_>) -> (String, Style) {
    colored(bar.ratio(), canvas, |share| (format!("{sign}{}", percent(share)), share))
}

fn activity(host: &Host, device: &Device) -> (String, Severity) {
    let Some(snapshot) = host.shown() else { return (String::new(), Severity::Unknown) };
    let rates = snapshot.processes_on(device.id).filter_map(|(process, _)| process.launches_per_s.ok());
    let rate = rates.reduce(|sum, rate| sum + rate).ok_or(Missing::NoSource);
    let (text, severity) = or_absent(rate, launch_rate);
    (text, if rate.is_ok_and(|rate| rate <= 0.0) { Severity::Unknown } else { severity })
}

fn board(device: &Device, width: u16) -> String {
    let label = device.label();
    match device.via {
        Ok(via) if width >= GATEWAY_MIN => format!("{label} via {via}"),
        _ => label,
    }
}

/// Formats the temperature. A warm device is also visible by its colour.
fn celsius(device: &Device, canvas: &Canvas<'_>) -> (String, Style) {
    let (text, severity) = or_absent(temperature_text(device, canvas.glyphs().celsius), |text| text);
    let style = match device.warmth() {
        Ok(share) if super::graded(share, 1.0) == Role::Plain => canvas.theme.load(share),
        Ok(share) => canvas.style(super::graded(share, 1.0)),
        Err(_) => canvas.style(severity.into()),
    };
    (text, style)
}

/// A sparkline spans at least this share of the limit, so that noise is drawn flat.
const SPARK_SPAN_MIN: f64 = 0.2;
/// Headroom above the highest value, so that sparklines of adjacent rows stay apart.
const SPARK_HEIGHT: f64 = 1.4;

/// Formats a sparkline of the last minute between its lowest and highest value, in the colour of the newest value.
fn line(host: &Host, device: &Device, name: &str, canvas: &Canvas<'_>) -> (String, Style) {
    let Some(index) = metric::by_name(name) else { return (String::new(), Style::new()) };
    let values = last_minute(host, device, index, SPARK_COLUMNS);
    let limit = METRICS[index].limit(device).unwrap_or(100.0);
    let newest = values.iter().flatten().last().map_or(0.0, |value| f64::from(*value));
    let bound = |choose: fn(f64, f64) -> f64| values.iter().flatten().map(|value| f64::from(*value)).reduce(choose).unwrap_or(0.0);
    let (lowest, highest) = (bound(f64::min), bound(f64::max));
    let span = (highest - lowest).max(limit * SPARK_SPAN_MIN);
    let low = f64::midpoint(lowest, highest) - span / 2.0;
    (spark(&values, (low, low + span * SPARK_HEIGHT), canvas.glyphs().spark), canvas.theme.load(newest / limit))
}

/// The means of a metric over the last minute, in at most this many cells of whole seconds.
pub(super) fn last_minute(host: &Host, device: &Device, metric: usize, cells_max: u16) -> Vec<Option<f32>> {
    let cells = (1..=cells_max).rev().find(|cells| SPARK_SECONDS.is_multiple_of(*cells)).unwrap_or(1);
    host.history.means(device.id, metric, usize::from(cells), u64::from(SPARK_SECONDS / cells), host.back())
}

/// Formats `2.4/12.0GB` in the unit of the total. The total is left out if the heading has it.
fn memory(device: &Device, bar: Bar, is_total_named: bool, width: u16) -> (String, Severity) {
    let sign = lower_bound(device);
    match (bar.used, bar.total) {
        (Ok(used), Ok(total)) if width >= 11 && !is_total_named => {
            (format!("{sign}{}/{}", size_in_unit_of(used, total), size(total)), Severity::Fine)
        }
        (Ok(used), _) => (format!("{sign}{}", size(used)), Severity::Fine),
        (Err(_), Ok(total)) if width >= 11 && !is_total_named => (format!("{ABSENT}/{}", size(total)), Severity::Unknown),
        (Err(_), _) => (ABSENT.to_owned(), Severity::Unknown),
    }
}

/// Formats the symbol and the word of the health, and if there is room the reason, or the chip through which the device is reached.
fn health(device: &Device, gateway: Option<DeviceId>, canvas: &Canvas<'_>, columns: u16) -> (String, Severity) {
    let (word, severity) = device.health_word();
    let signed = format!("{} {word}", canvas.glyphs().sign(severity));
    let word = if severity > Severity::Unknown && width(&signed) <= columns { signed } else { word.to_owned() };
    let more = match (device.reasons(), gateway) {
        (Some(reasons), _) => Some(reasons).filter(|_| columns >= REASON_COLUMNS_MIN),
        (None, Some(via)) => Some(format!("via {via}")).filter(|via| width(&word) + 1 + width(via) <= columns),
        (None, None) => None,
    };
    (more.map_or_else(|| word.clone(), |more| format!("{word} {more}")), severity)
}

/// Draws `12 54°C  7.6GB`: the selected metric on a background for its share of the limit. An unhealthy device has a symbol or a word.
fn grid_cell(state: &TopState, device: &Device, canvas: &mut Canvas<'_>, area: Rect, is_chosen: bool) {
    let (word, severity) = device.health_word();
    let metric = &METRICS[state.settings.metric];
    let value = metric.get(device);
    let share = metric.share(device);
    let cell = Rect { width: area.width.saturating_sub(1), ..area };
    let heat = share.map_or_else(Style::new, |share| canvas.theme.heat(share));
    canvas.put(cell, 0, 0, &" ".repeat(usize::from(cell.width)), heat);
    let id = if is_chosen { heat.add_modifier(Modifier::REVERSED) } else { heat.add_modifier(Modifier::BOLD) };
    canvas.field(cell, Field::right(0, 3), 0, &device.id.to_string(), id);
    // A narrow cell has room for a percentage, but not for a number with its unit.
    let text = match (value, share) {
        (Ok(_), Some(share)) if cell.width < CELL_WIDE_MIN => percent(share),
        (Ok(value), _) => canvas.clean(&in_unit_of_limit(metric, value, metric.limit(device).ok())),
        (Err(_), _) => "--".to_owned(),
    };
    // Without colours, a value at the far end of a wide cell would seem to belong to the next cell.
    let end = cell.width.min(CELL_TEXT_MAX);
    let columns = width(&text).min(end.saturating_sub(5));
    let is_gone = matches!(device.state, DeviceState::Starting | DeviceState::Resetting | DeviceState::Gone | DeviceState::Unreadable);
    let room = if is_gone { cell.width.saturating_sub(4) } else { end.saturating_sub(6 + columns) };
    if severity > Severity::Unknown || is_gone {
        // A device that is gone has a sign too, even if its health is not known.
        let text = if width(word) <= room { word } else { canvas.glyphs().sign(severity.max(Severity::Warning)) };
        canvas.text(cell, 4, 0, text, severity.into());
        if is_gone {
            return;
        }
    } else if let Some(text) = temperature_text(device, canvas.glyphs().degree).ok().filter(|text| width(text) <= room) {
        canvas.put(cell, 4, 0, &text, heat);
    }
    canvas.field(cell, Field::right(end.saturating_sub(columns + 1), columns), 0, &text, heat);
    if is_chosen && state.focus == Focus::Devices {
        canvas.buffer.set_style(cell, canvas.theme.style(Role::Selected));
    }
}

/// A value in the unit of its limit: all cells of a grid have one unit, so that they can be compared, and none is longer than the others.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes that were an integer")]
pub(super) fn in_unit_of_limit(metric: &Metric, value: f64, limit: Option<f64>) -> String {
    match limit.map(|limit| limit as u64) {
        Some(limit) if metric.field.unit == Unit::Bytes && value > 0.0 => {
            format!("{}{}", size_in_unit_of(value as u64, limit), size_unit(limit))
        }
        _ => metric.show(value),
    }
}

/// Draws the heading of a grid: the metric of its cells, the board, and the sums of all devices as far as there is room. Returns whether
/// it names the board.
fn grid_head(state: &TopState, common: &CommonValues, devices: &[&Device], canvas: &mut Canvas<'_>, area: Rect) -> bool {
    let metric = METRICS[state.settings.metric].title;
    let (mut sums, unhealthy) = sums(devices, canvas);
    if let Some(board) = common.board() {
        sums[0] = format!("{} {}", devices.len(), canvas.clean(board));
    }
    let room = area.width.saturating_sub(1 + width(metric));
    let columns = |parts: &[String]| parts.iter().map(|part| width(part) + 2).sum::<u16>();
    let key = ["  m: another metric", ""].into_iter().find(|key| width(key) + columns(&sums) <= room);
    // The title of the screen has the number of devices too, but not the board.
    if key.is_none() {
        sums.remove(0);
        common.board().into_iter().for_each(|board| sums.insert(1, canvas.clean(board)));
    }
    while columns(&sums) > room && sums.pop().is_some() {}
    let at = canvas.text(area, 1, 0, metric, Role::Title);
    let at = canvas.text(area, at, 0, key.unwrap_or(""), Role::Dim);
    canvas.text(area, at + 2, 0, &sums.join("  "), if unhealthy > 0 { Role::Warning } else { Role::Strong });
    common.board().is_some() && (key.is_some() || sums.len() > 1)
}

/// Formats the number of devices and of unhealthy ones, the hottest device, and the sums of power and memory.
pub(super) fn sums(devices: &[&Device], canvas: &Canvas<'_>) -> (Vec<String>, usize) {
    let sums = DeviceSums::of(devices);
    let dram = match (sums.dram.used, sums.dram.total) {
        (Ok(used), Ok(total)) => format!("{}{}/{}", if sums.is_lower_bound { ">" } else { "" }, size(used), size(total)),
        _ => ABSENT.to_owned(),
    };
    // The most important parts come first, because a small screen shows only those.
    let mut parts = vec![
        format!("{} device{}", devices.len(), if devices.len() == 1 { "" } else { "s" }),
        if sums.unhealthy == 0 { "none unhealthy".to_owned() } else { format!("{} unhealthy", sums.unhealthy) },
    ];
    parts.extend(sums.hottest.map(|(value, id)| format!("hottest {:.0}{} ({id})", value.0, canvas.glyphs().celsius)));
    parts.extend(sums.power.map(|power| format!("{:.0}W", power.0)));
    parts.push(format!("DRAM {dram}"));
    (parts, sums.unhealthy)
}

/// Screen width from which a bar of the selected device has its figures beside it, because its row may not be visible.
const FIGURES_MIN: u16 = 110;
const PARTS_COLUMNS: u16 = 62;

/// Draws the memory of the selected device: bars in the colours of their parts, and the names of the parts.
pub(super) fn kinds(state: &TopState, snapshot: &Snapshot, canvas: &mut Canvas<'_>, area: Rect) {
    let Some(device) = state.chosen_device(snapshot) else { return };
    let name = |bar: &str| if snapshot.devices.len() == 1 { bar.to_owned() } else { format!("{} {bar}", device.id) };
    let (l1, dram) = memory_parts(device);
    let rows = [("DRAM", device.memory.dram, dram), ("L1", device.memory.l1, l1)];
    for (row, (title, Bar { used, total }, parts)) in (0..).zip(rows) {
        canvas.field(area, Field::left(1, 8), row, &name(title), canvas.style(Role::Dim));
        let figures = if area.width >= FIGURES_MIN { 24 } else { 0 };
        let columns = area.width.saturating_sub(12 + figures + PARTS_COLUMNS).clamp(10, 60);
        let bar = Rect { x: area.x + 10, y: area.y + row, width: columns, height: 1 };
        let mut at = 10 + columns + 1;
        if let (Ok(used), Ok(total)) = (used, total) {
            let in_bar = parts.iter().filter(|(title, _)| *title != KERNELS);
            let shares: Vec<f64> = in_bar.map(|(_, used)| used.unwrap_or(0) as f64 / total.max(1) as f64).collect();
            if shares.iter().all(|share| *share == 0.0) {
                canvas.bar(bar, Field::left(0, bar.width), 0, used as f64 / total.max(1) as f64);
            } else {
                stack(canvas, bar, &shares);
            }
        }
        if figures > 0 {
            let text = match (used, total) {
                (Ok(used), Ok(total)) => format!("{}{} of {}", lower_bound(device), size(used), size(total)),
                (Ok(used), Err(_)) => size(used),
                (Err(reason), _) => format!("N/A: {reason}"),
            };
            canvas.field(area, Field::left(at, figures - 2), row, &text, canvas.style(if used.is_ok() { Role::Plain } else { Role::Dim }));
            at += figures - 1;
        }
        for (hue, (title, used)) in parts.iter().enumerate() {
            let text = format!("{title} {}", size_or_untracked(*used));
            if at + 1 + width(&text) > area.width {
                break;
            }
            if used.is_ok() && *title != KERNELS {
                at = canvas.put(area, at, row, canvas.glyphs().full(), canvas.theme.hue(hue));
            }
            at = canvas.text(area, at, row, &text, if used.is_ok() { Role::Plain } else { Role::Dim }) + 2;
        }
    }
}

/// Draws a bar of several parts, each in its own colour. A part that is not empty has at least one cell, as long as there is room.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a screen's width")]
fn stack(canvas: &mut Canvas<'_>, bar: Rect, shares: &[f64]) {
    let empty = canvas.glyphs().fill[0].repeat(usize::from(bar.width));
    canvas.text(bar, 0, 0, &empty, Role::Frame);
    let mut at = 0;
    for (hue, share) in shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
        let cells = ((share * f64::from(bar.width)).round() as u16).max(1);
        at = canvas.put(bar, at, 0, &canvas.glyphs().full().repeat(usize::from(cells)), canvas.theme.hue(hue));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{drawn, eight, machine, text, watched};
    use crate::theme::Theme;
    use ratatui_core::buffer::Buffer;
    use ttmon_model::{Kind, Missing};

    /// The gateway is shown if there is room, and the health word is never cut for it.
    #[test]
    fn the_gateway_is_named_once_or_not_at_all() {
        let snapshot = machine::n300();
        let state = watched(&snapshot, (80, 24), Theme::default(), 1);
        for width in 57..240 {
            let area = Rect { x: 0, y: 0, width, height: 1 };
            let mut buffer = Buffer::empty(area);
            let canvas = &mut Canvas { buffer: &mut buffer, theme: state.theme };
            let common = CommonValues::of(&snapshot, &snapshot.devices.iter().collect::<Vec<_>>(), false);
            device_row(state.host(), &common, &snapshot.devices[1], canvas, area, None);
            let row = text(&buffer);
            assert!(row.matches("via").count() <= 1 && !row.contains('…') && row.contains('?'), "{width}: {row}");
        }
    }

    /// The cells of a sparkline cover exactly a minute.
    #[test]
    fn a_sparkline_is_a_minute() {
        let snapshot = machine::n300();
        let state = watched(&snapshot, (80, 24), Theme::default(), 70);
        let cells = |most| last_minute(state.host(), &snapshot.devices[0], 0, most).len();
        assert_eq!([5, 21, 29, 30].map(cells), [5, 20, 20, 30]);
    }

    /// The board of a grid is named in its heading or above the rows below it.
    #[test]
    fn the_board_of_a_grid_is_named() {
        for width in 40..200 {
            let screen = text(&drawn(&watched(&machine::galaxy(), (width, 24), Theme::default(), 1)));
            assert!(screen.contains("galax"), "{width}: {screen}");
        }
    }

    #[test]
    fn a_sum_with_unknown_parts_is_a_lower_bound() {
        let mut buffer = Buffer::empty(Rect::ZERO);
        let canvas = &Canvas { buffer: &mut buffer, theme: Theme::default() };
        let sums_text = |snapshot: &Snapshot| sums(&snapshot.devices.iter().collect::<Vec<_>>(), canvas).0.join(" ");
        assert!(sums_text(&machine::galaxy()).contains("DRAM 154.7GB/384.0GB"), "{}", sums_text(&machine::galaxy()));
        assert!(sums_text(&eight()).contains("DRAM >5.3GB/96.0GB"), "{}", sums_text(&eight()));
    }

    /// The main view shows the memory of the selected device by kind if rows are left.
    #[test]
    fn the_main_view_has_the_breakdown() {
        for (snapshot, size) in [(eight(), (120, 40)), (eight(), (80, 24)), (machine::n300(), (80, 24))] {
            let state = watched(&snapshot, size, Theme::default(), 1);
            let screen = text(&drawn(&state));
            assert!(screen.contains("Buffers ") && screen.contains("CBs ") && screen.contains("Kernels "), "{screen}");
            assert!(screen.contains("0 DRAM") && screen.contains("0 L1"), "{screen}");
        }
    }

    /// On the smallest screen, parts that do not fit are left out completely.
    #[test]
    fn the_breakdown_is_not_cut_in_a_part() {
        let mut snapshot = machine::n300();
        for (kind, used) in [(Kind::L1, Ok(16 << 20)), (Kind::L1Small, Ok(2 << 20)), (Kind::Cb, Ok(20 << 20)), (Kind::Trace, Ok(44 << 20))]
        {
            snapshot.devices[0].memory.kinds[kind].figure.used = used;
        }
        snapshot.devices[0].memory.kinds[Kind::Kernel].figure.used = Err(Missing::NotTracked);
        let parts = |width| {
            let screen = text(&drawn(&watched(&snapshot, (width, 24), Theme::default(), 1)));
            let of = |name: &str| screen.lines().find(|line| line.contains(name)).unwrap_or_default().trim().to_owned();
            [of("0 DRAM  "), of("0 L1  ")]
        };
        assert_eq!(parts(80)[1], "0 L1     ━━━━━───── ━Buffers 16.0MB  ━Small 2.0MB  ━CBs 20.0MB");
        let [dram, l1] = parts(120);
        assert!(dram.ends_with("2.4GB of 12.0GB        ━Buffers 2.4GB  ━Traces 44.0MB"), "{dram}");
        assert!(l1.ends_with("━Buffers 16.0MB  ━Small 2.0MB  ━CBs 20.0MB  Kernels not tracked"), "{l1}");
    }

    /// There are more devices than fit the smallest screen. Hidden rows above and below are counted.
    #[test]
    fn hidden_devices_are_counted_on_both_sides() {
        let mut snapshot = machine::galaxy();
        let first = snapshot.devices[0].clone();
        snapshot.devices = (0..128).map(|id| Device { id: DeviceId(id), ..first.clone() }).collect();
        let mut state = watched(&snapshot, (80, 24), Theme::default(), 1);
        assert!(text(&drawn(&state)).contains("+8 ↓"), "{}", text(&drawn(&state)));
        state.host_mut().device = Some(DeviceId(127));
        let screen = text(&drawn(&state));
        assert!(screen.contains("+8 ↑") && screen.contains("127"), "{screen}");
    }
}
