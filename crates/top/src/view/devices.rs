//! Devices of the main view: a row each while there is room, small cells on a small screen with many.

use ratatui_core::layout::Rect;
use ttmon_model::memory::Bar;
use ttmon_model::snapshot::{DeviceSums, Severity, State as DeviceState};
use ttmon_model::units::size_in_unit_of;
use ttmon_model::{Device, DeviceId, Reading, Snapshot};
use ttmon_print::quantity::{ABSENT, percent, size};
use ttmon_print::text::Cut;
use ttmon_print::{link_text, lower_bound, memory_parts_in_line, power_text, size_or_untracked, temperature_text};

use super::fullness;
use crate::canvas::{Canvas, Field, spark, width};
use crate::host::Host;
use crate::layout::{DeviceList, Main};
use crate::metric;
use crate::state::{Focus, State};
use crate::theme::Role;

/// Columns of a row from which on memory has a bar.
const BARS_MIN: u16 = 78;
/// From here on the last minute is drawn, and a board's name is written out.
const SPARKS_MIN: u16 = 96;
/// In so many columns a board's name has room for the chip it is reached through.
const GATEWAY_MIN: u16 = 14;
/// Less than this and a reason is only half a word.
const REASON_COLUMNS_MIN: u16 = 24;
/// What a cell of a sparkline stands for.
const SPARK_SECONDS: u64 = 12;
/// Cells of a sparkline: a minute together.
const SPARK_COLUMNS: u16 = 5;

/// Columns of a device row from left to right, with the width of the screen from which on each is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Id,
    Board,
    Temperature,
    TemperatureSpark,
    Power,
    PowerSpark,
    Clock,
    Utilization,
    Link,
    DramBar,
    Dram,
    L1Bar,
    L1,
    Health,
}

/// Each part that fits, where it begins and how wide it is.
/// Utilization takes the place of a sparkline, or of the clock.
fn parts(width: u16, is_deep: bool) -> Vec<(Part, Field)> {
    let from = |least: u16, columns: u16| if width >= least { columns } else { 0 };
    let mut widths = vec![
        (Part::Id, 3),
        (Part::Board, if width >= SPARKS_MIN { 15 } else { from(BARS_MIN, 8).max(6) }),
        (Part::Temperature, 5),
        (Part::TemperatureSpark, from(SPARKS_MIN, SPARK_COLUMNS)),
        (Part::Power, 8),
        (Part::PowerSpark, if is_deep { 0 } else { from(SPARKS_MIN, SPARK_COLUMNS) }),
        (Part::Clock, if width >= BARS_MIN { 7 } else { 4 }),
        (Part::Utilization, if is_deep { 5 } else { 0 }),
        (Part::Link, from(150, 8)),
        (Part::DramBar, from(BARS_MIN, 9)),
        (Part::Dram, if width >= BARS_MIN { 13 } else { 12 }),
        (Part::L1Bar, from(110, 8)),
        (Part::L1, 5),
        (Part::Health, if width >= BARS_MIN { 10 } else { 6 }),
    ];
    widths.retain(|(part, columns)| *columns > 0 && !(is_deep && *part == Part::Clock && width < SPARKS_MIN));
    let used: u16 = widths.iter().map(|(_, columns)| columns + 1).sum();
    let left = width.saturating_sub(used);
    // What is left makes bars longer and leaves room for the reasons of health.
    for (part, columns) in &mut widths {
        *columns += match part {
            // Without bars the board's name has what it lacks first.
            Part::Board if width < BARS_MIN => left.min(9),
            Part::Health if width < BARS_MIN => left - left.min(9),
            Part::DramBar => (left / 3).min(24),
            Part::L1Bar => (left / 8).min(8),
            Part::Health => left - (left / 3).min(24) - (left / 8).min(8),
            _ => 0,
        };
    }
    let mut at = 0;
    let place = |(part, columns): (Part, u16)| {
        let is_left = matches!(part, Part::Board | Part::Health | Part::Link);
        let field = if is_left { Field { cut: Cut::End, ..Field::left(at, columns) } } else { Field::right(at, columns) };
        at += columns + 1;
        (part, field)
    };
    widths.into_iter().map(place).collect()
}

fn heading(part: Part) -> &'static str {
    match part {
        Part::Id => "ID",
        Part::Board => "BOARD",
        Part::Temperature => "TEMP",
        Part::Power => "POWER",
        Part::Clock => "AICLK",
        Part::Utilization => "UTIL",
        Part::Link => "PCIE",
        Part::Dram => "DRAM",
        Part::L1 => "L1",
        Part::Health => "HEALTH",
        Part::TemperatureSpark | Part::PowerSpark | Part::DramBar | Part::L1Bar => "",
    }
}

/// The list with its heading, and sums where there are many.
pub(super) fn draw(state: &State, snapshot: &Snapshot, canvas: &mut Canvas<'_>, layout: &Main) {
    let area = layout.devices;
    let devices = state.devices(snapshot);
    let chosen = state.device_row(snapshot, &devices);
    let Some(list) = DeviceList::new(layout, chosen, devices.len()) else { return };
    for column in 0..list.columns {
        let area = Rect { x: list.left(column), y: area.y, width: list.width, height: 1 };
        if list.is_grid { canvas.heading(area, "ID TEMP  PWR DRAM") } else { head(state, canvas, area) }
    }
    for (index, (number, device)) in (0u16..).zip(devices.iter().enumerate().skip(list.first).take(list.page())) {
        let is_chosen = number == chosen && devices.len() > 1;
        if list.is_grid {
            grid_cell(state, device, canvas, list.place(index), is_chosen);
        } else {
            device_row(state, state.here(), device, canvas, list.place(index), is_chosen);
        }
    }
    let hidden = super::more(canvas, list.first, devices.len().saturating_sub(list.first + list.page()));
    if layout.has_sums {
        sums_row(&devices, canvas, Rect { y: list.area.bottom(), height: 1, ..area }, &hidden);
    } else {
        super::at_the_end(canvas, Rect { height: 1, ..area }, &hidden);
    }
}

/// The headings of a row's parts.
pub(super) fn head(state: &State, canvas: &mut Canvas<'_>, area: Rect) {
    canvas.heading(area, "");
    for (part, field) in parts(area.width, state.is_deep()) {
        // Where a clock has no room for its unit, the heading has it.
        let text = if part == Part::Clock && field.width < 5 { "MHz" } else { heading(part) };
        canvas.field(area, field, 0, text, canvas.style(Role::Heading));
    }
}

pub(super) fn device_row(state: &State, host: &Host, device: &Device, canvas: &mut Canvas<'_>, area: Rect, is_chosen: bool) {
    let parts = parts(area.width, state.is_deep());
    let is_gateway_named = parts.iter().any(|(part, field)| *part == Part::Board && field.width >= GATEWAY_MIN);
    for (part, field) in parts {
        let (text, role) = match part {
            Part::Id => (device.id.to_string(), if is_chosen { Role::Selected } else { Role::Plain }),
            Part::Board => (board(device, canvas, field.width), Role::Plain),
            Part::Temperature => celsius(device, canvas),
            Part::Power => or_absent(power_text(device), |text| text),
            Part::Clock => {
                or_absent(device.aiclk_mhz, |clock| if field.width >= 7 { format!("{}MHz", clock.0) } else { clock.0.to_string() })
            }
            Part::Utilization => or_absent(device.utilization, percent),
            Part::Link => or_absent(link_text(device), |text| text),
            Part::TemperatureSpark => (line(host, device, "temperature", canvas), Role::Dim),
            Part::PowerSpark => (line(host, device, "power", canvas), Role::Dim),
            Part::Dram => memory(device, device.memory.dram, field.width),
            Part::L1 => or_absent(device.memory.l1.ratio(), |ratio| format!("{}{}", lower_bound(device), percent(ratio))),
            Part::DramBar | Part::L1Bar => {
                let bar = if part == Part::DramBar { device.memory.dram } else { device.memory.l1 };
                if let Ok(share) = bar.ratio() {
                    canvas.bar(area, field, 0, share, canvas.style(fullness(share)));
                }
                continue;
            }
            Part::Health => {
                let gateway = device.via.ok().filter(|_| !is_gateway_named);
                health(device, gateway, canvas, field.width)
            }
        };
        let style = canvas.style(role);
        canvas.field(area, field, 0, &text, style);
    }
    if is_chosen && state.focus == Focus::Devices {
        canvas.buffer.set_style(area, canvas.theme.style(Role::Selected));
    }
}

fn board(device: &Device, canvas: &Canvas<'_>, width: u16) -> String {
    let label = canvas.clean(&device.label());
    match device.via {
        Ok(via) if width >= GATEWAY_MIN => format!("{label} via {via}"),
        _ => label,
    }
}

pub(super) fn or_absent<T>(reading: Reading<T>, show: impl FnOnce(T) -> String) -> (String, Role) {
    reading.map_or_else(|_| (ABSENT.to_owned(), Role::Dim), |value| (show(value), Role::Plain))
}

/// Warm is told by the temperature itself, too.
fn celsius(device: &Device, canvas: &Canvas<'_>) -> (String, Role) {
    let (text, role) = or_absent(temperature_text(device, canvas.glyphs().celsius), |text| text);
    (text, device.warmth().map_or(role, |share| super::graded(share, 1.0)))
}

fn line(host: &Host, device: &Device, name: &str, canvas: &Canvas<'_>) -> String {
    let Some(index) = metric::by_name(name) else { return String::new() };
    let values = host.history.means(device.id, index, usize::from(SPARK_COLUMNS), SPARK_SECONDS, host.back());
    let limit = metric::METRICS[index].limit(device).unwrap_or(100.0);
    spark(&values, (0.0, limit), canvas.glyphs().spark)
}

/// `2.4/12.0GB`: the unit once, that of the total.
fn memory(device: &Device, bar: Bar, width: u16) -> (String, Role) {
    let sign = lower_bound(device);
    match (bar.used, bar.total) {
        (Ok(used), Ok(total)) if width >= 11 => (format!("{sign}{}/{}", size_in_unit_of(used, total), size(total)), Role::Plain),
        (Ok(used), _) => (format!("{sign}{}", size(used)), Role::Plain),
        (Err(_), Ok(total)) if width >= 11 => (format!("{ABSENT}/{}", size(total)), Role::Dim),
        (Err(_), _) => (ABSENT.to_owned(), Role::Dim),
    }
}

pub(super) fn severity_role(severity: Severity) -> Role {
    match severity {
        Severity::Fine => Role::Plain,
        Severity::Unknown => Role::Dim,
        Severity::Warning => Role::Warning,
        Severity::Critical => Role::Critical,
    }
}

/// The word, and where there is room why, or through which chip it is reached.
fn health(device: &Device, gateway: Option<DeviceId>, canvas: &Canvas<'_>, columns: u16) -> (String, Role) {
    let (word, severity) = device.health_word();
    let more = match (device.reasons(), gateway) {
        (Some(reasons), _) => Some(reasons).filter(|_| columns >= REASON_COLUMNS_MIN),
        (None, Some(via)) => Some(format!("via {via}")).filter(|via| width(word) + 1 + width(via) <= columns),
        (None, None) => None,
    };
    (more.map_or_else(|| word.to_owned(), |more| canvas.clean(&format!("{word} {more}"))), severity_role(severity))
}

/// `12  65°  38W ███▌░ W`: colour and a letter for health.
fn grid_cell(state: &State, device: &Device, canvas: &mut Canvas<'_>, area: Rect, is_chosen: bool) {
    let (word, severity) = device.health_word();
    let role = severity_role(severity);
    let (id, id_role) = (device.id.to_string(), if is_chosen { Role::Selected } else { Role::Plain });
    canvas.field(area, Field::right(0, width(&id).max(2)), 0, &id, canvas.style(id_role));
    if matches!(device.state, DeviceState::Starting | DeviceState::Resetting | DeviceState::Gone | DeviceState::Unreadable) {
        canvas.say(area, 3, 0, word, role);
        return;
    }
    let temperature = temperature_text(device, canvas.glyphs().degree);
    let power = device.power.map(|value| format!("{:.0}W", value.0));
    for (column, reading) in [(3, temperature), (8, power)] {
        let (text, role) = reading.map_or_else(|_| ("--".to_owned(), Role::Dim), |text| (text, Role::Plain));
        canvas.field(area, Field::right(column, 4), 0, &text, canvas.style(role));
    }
    match device.memory.dram.ratio() {
        Ok(share) => canvas.bar(area, Field::left(13, 4), 0, share, canvas.style(fullness(share))),
        Err(_) => _ = canvas.say(area, 13, 0, ABSENT, Role::Dim),
    }
    let sign = match severity {
        Severity::Fine => " ",
        _ => word.get(..1).unwrap_or("?"),
    };
    canvas.say(area, 18, 0, sign, role);
    if is_chosen && state.focus == Focus::Devices {
        canvas.buffer.set_style(Rect { width: 19, ..area }, canvas.theme.style(Role::Selected));
    }
}

fn sums_row(devices: &[&Device], canvas: &mut Canvas<'_>, area: Rect, hidden: &str) {
    let (parts, unhealthy) = sums(devices, canvas);
    canvas.say(area, 0, 0, &parts.join("  "), if unhealthy > 0 { Role::Warning } else { Role::Strong });
    super::at_the_end(canvas, area, hidden);
}

/// How many there are, how many are unhealthy, the hottest, their power and memory together.
pub(super) fn sums(devices: &[&Device], canvas: &Canvas<'_>) -> (Vec<String>, usize) {
    let sums = DeviceSums::of(devices);
    let dram = match (sums.dram.used, sums.dram.total) {
        (Ok(used), Ok(total)) => format!("{}{}/{}", if sums.is_lower_bound { ">" } else { "" }, size(used), size(total)),
        _ => ABSENT.to_owned(),
    };
    // First what a small screen must not cut.
    let mut parts = vec![
        format!("{} device{}", devices.len(), if devices.len() == 1 { "" } else { "s" }),
        if sums.unhealthy == 0 { "none unhealthy".to_owned() } else { format!("{} unhealthy", sums.unhealthy) },
    ];
    parts.extend(sums.hottest.map(|(value, id)| format!("hottest {:.0}{} ({id})", value.0, canvas.glyphs().celsius)));
    parts.extend(sums.power.map(|power| format!("{:.0}W", power.0)));
    parts.push(format!("DRAM {dram}"));
    (parts, sums.unhealthy)
}

/// The chosen device's memory: its bars, then what they are made of.
pub(super) fn kinds(state: &State, snapshot: &Snapshot, canvas: &mut Canvas<'_>, area: Rect) {
    let Some(device) = state.chosen_device(snapshot) else { return };
    let name = |bar: &str| if snapshot.devices.len() == 1 { bar.to_owned() } else { format!("{} {bar}", device.id) };
    let rows = [("DRAM", device.memory.dram), ("L1", device.memory.l1)];
    for (row, (title, bar)) in (0..).zip(rows) {
        canvas.field(area, Field::left(1, 10), row, &name(title), canvas.style(Role::Dim));
        let (Bar { used, total }, share) = (bar, bar.ratio());
        let bar = Field::left(12, area.width.saturating_sub(44).min(60));
        if let Ok(share) = share {
            canvas.bar(area, bar, row, share, canvas.style(fullness(share)));
        }
        let (text, role) = or_absent(share, percent);
        let at = bar.column + bar.width + 1;
        canvas.field(area, Field::right(at, 5), row, &text, canvas.style(role));
        let text = match (used, total) {
            (Ok(used), Ok(total)) => format!("{}{} of {}", lower_bound(device), size(used), size(total)),
            (Ok(used), Err(_)) => size(used),
            (Err(reason), _) => format!("N/A: {reason}"),
        };
        canvas.say(area, at + 7, row, &text, if used.is_ok() { Role::Plain } else { Role::Dim });
    }
    let mut at = 12;
    for (title, used) in memory_parts_in_line(device) {
        let text = format!("{title} {}", size_or_untracked(used));
        if at + width(&text) > area.width {
            break;
        }
        at = canvas.say(area, at, 2, &text, if used.is_ok() { Role::Plain } else { Role::Dim }) + 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{drawn, eight, machine, text, watched};
    use crate::theme::Theme;
    use ratatui_core::buffer::Buffer;
    use ttmon_model::{Kind, Missing};

    /// At any width, and the word is never cut for it.
    #[test]
    fn the_gateway_is_named_once_or_not_at_all() {
        let snapshot = machine::n300();
        let state = watched(&snapshot, (80, 24), Theme::default(), 1);
        for width in 57..240 {
            let area = Rect { x: 0, y: 0, width, height: 1 };
            let mut buffer = Buffer::empty(area);
            let canvas = &mut Canvas { buffer: &mut buffer, theme: state.theme };
            device_row(&state, state.here(), &snapshot.devices[1], canvas, area, false);
            let row = text(&buffer);
            assert!(row.matches("via").count() <= 1 && !row.contains('…') && row.contains('?'), "{width}: {row}");
        }
    }

    #[test]
    fn a_sum_of_what_is_not_all_known_is_a_lower_bound() {
        let mut buffer = Buffer::empty(Rect::ZERO);
        let canvas = &Canvas { buffer: &mut buffer, theme: Theme::default() };
        let told = |snapshot: &Snapshot| sums(&snapshot.devices.iter().collect::<Vec<_>>(), canvas).0.join(" ");
        assert!(told(&machine::galaxy()).contains("DRAM 154.7GB/384.0GB"), "{}", told(&machine::galaxy()));
        assert!(told(&eight()).contains("DRAM >5.3GB/96.0GB"), "{}", told(&eight()));
    }

    /// The main view has the split of the chosen device's memory wherever rows are left.
    #[test]
    fn the_main_view_has_the_breakdown() {
        for (snapshot, size) in [(eight(), (120, 40)), (eight(), (80, 24)), (machine::n300(), (80, 24))] {
            let state = watched(&snapshot, size, Theme::default(), 1);
            let screen = text(&drawn(&state));
            assert!(screen.contains("Buffers ") && screen.contains("CBs ") && screen.contains("Kernels "), "{screen}");
            assert!(screen.contains("0 DRAM") && screen.contains("0 L1"), "{screen}");
        }
    }

    /// On the smallest screen, parts that do not fit are left out whole.
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
            screen.lines().find(|line| line.contains("CBs")).unwrap_or_default().trim().to_owned()
        };
        assert_eq!(parts(80), "L1: Buffers 16.0MB  Small 2.0MB  CBs 20.0MB  Kernels not tracked");
        assert!(parts(120).contains("Kernels not tracked  DRAM: Buffers 2.4GB  Traces 44.0MB"), "{}", parts(120));
    }

    /// More than fit the smallest screen: what lies above is told as what lies below.
    #[test]
    fn hidden_devices_are_counted_on_both_sides() {
        let mut snapshot = machine::galaxy();
        let first = snapshot.devices[0].clone();
        snapshot.devices = (0..120).map(|id| Device { id: DeviceId(id), ..first.clone() }).collect();
        let mut state = watched(&snapshot, (80, 24), Theme::default(), 1);
        assert!(text(&drawn(&state)).contains("+76 ↓"));
        state.here_mut().device = Some(DeviceId(119));
        let screen = text(&drawn(&state));
        assert!(screen.contains("+76 ↑") && screen.contains("119 54°"), "{screen}");
    }
}
