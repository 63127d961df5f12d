//! Layout: pure functions of the screen size and the amount of data. Drawing and the mouse use the same functions, so that a click always
//! hits the visible item.

use ratatui_core::layout::{Position, Rect};

use crate::columns;
use crate::keys::{KEYS, KeyBinding};
use crate::state::{DeviceLine, TopState, View};
use crate::view::WORST_MAX;

/// The smallest supported screen: columns and rows.
pub(crate) const SIZE_MIN: (u16, u16) = (40, 10);
/// Width of the narrowest cell of the grid, and the number of cells per row if they fit.
const CELL_COLUMNS_MIN: u16 = 10;
const CELLS_IN_A_ROW: u16 = 8;
/// With more devices than this, rows have as many cells as fit.
const CELLS_WIDE_MAX: u16 = 64;
/// Screen width needed for two columns of device rows.
const TWO_COLUMNS_MIN: u16 = 118;
/// Up to this many devices have a row each, if necessary in two columns. More devices are shown as a grid.
const ROWS_IN_A_COLUMN: u16 = 16;
/// Screen width from which a single device has its details beside it.
pub(crate) const SIDE_MIN: u16 = 190;
const SIDE_COLUMNS: u16 = 60;
/// This many rows of devices or more have a line with their sums. The heading of a grid has them.
const SUMS_MIN: usize = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScreenLayout {
    pub(crate) title: Rect,
    pub(crate) body: Rect,
    pub(crate) status: Rect,
    pub(crate) footer: Rect,
}

/// Divides the screen. `None` if the screen is too small.
pub(crate) fn frame(size: (u16, u16)) -> Option<ScreenLayout> {
    let (width, height) = size;
    if width < SIZE_MIN.0 || height < SIZE_MIN.1 {
        return None;
    }
    let row = |y: u16, rows: u16| Rect { x: 0, y, width, height: rows };
    Some(ScreenLayout { title: row(0, 1), body: row(1, height - 3), status: row(height - 2, 1), footer: row(height - 1, 1) })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// One row per device, in this many columns.
    Rows { columns: u16 },
    /// One small cell per device, with this many cells per row.
    Grid { columns: u16 },
    /// One row per device, below the heading of its machine.
    Groups,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Main {
    pub(crate) form: Form,
    /// Includes the heading, and the line of sums if there is one.
    pub(crate) devices: Rect,
    pub(crate) has_sums: bool,
    /// With many devices: the most important ones, with a heading.
    pub(crate) worst: Option<Rect>,
    pub(crate) kinds: Option<Rect>,
    pub(crate) charts: Option<Rect>,
    pub(crate) processes: Rect,
    pub(crate) groups: Option<Rect>,
    pub(crate) events: Option<Rect>,
    /// A single device's details on a wide screen.
    pub(crate) side: Option<Rect>,
}

pub(crate) fn main_of(state: &TopState, body: Rect) -> Main {
    if state.has_groups() {
        return groups(body, state.lines().len(), state.process_count());
    }
    let (devices, processes) = state.shown().map_or((0, 0), |snapshot| (snapshot.devices.len(), snapshot.processes.len()));
    main(body, devices, processes)
}

/// The layout of several machines: one line per machine and device, as far as processes leave room. The remaining rows go to charts of
/// the selected machine, with a heading, and to events.
fn groups(body: Rect, lines: usize, processes: usize) -> Main {
    let wanted = u16::try_from(lines).unwrap_or(u16::MAX).saturating_add(1);
    let rows = wanted.min(body.height.saturating_sub(8)).max(body.height.min(4) / 2 + 1);
    let devices = Rect { height: rows, ..body };
    let needed = u16::try_from(processes).unwrap_or(u16::MAX).saturating_add(PROCESS_HEADINGS).max(PROCESS_ROWS_MIN);
    let spare = (body.height - rows).saturating_sub(needed);
    let panel = if spare > CHART_ROWS_MIN + PANEL_ROWS.0 { (spare / 3).clamp(PANEL_ROWS.0, PANEL_ROWS.1) } else { 0 };
    let chart = if spare > CHART_ROWS_MIN { spare - panel } else { 0 };
    let part = |y: u16, height: u16| (height > 0).then_some(Rect { y, height, ..body });
    let charts = part(devices.bottom(), chart);
    let processes = Rect { y: devices.bottom() + chart, height: body.height - rows - chart - panel, ..body };
    let events = part(processes.bottom(), panel);
    Main { form: Form::Groups, devices, has_sums: false, worst: None, kinds: None, charts, processes, groups: None, events, side: None }
}

pub(crate) fn first_line(state: &TopState, lines: &[DeviceLine], rows: usize) -> usize {
    let chosen = state.chosen_line();
    let at = lines.iter().position(|line| *line == chosen).unwrap_or(0);
    // If possible, the heading of the selected machine stays visible.
    let heading = lines.iter().position(|line| line.host == chosen.host).unwrap_or(at);
    let first = scrolled(0, at, rows, lines.len());
    if at - heading < rows { first.min(heading) } else { first }
}

const KIND_ROWS: u16 = 2;
/// Minimum rows of the process list, headings included, on a normal and on a small screen.
const PROCESS_ROWS_MIN: u16 = 5;
const PROCESS_ROWS_SMALL: u16 = 3;
/// Rows above the minimum that processes get before devices get details.
const PROCESS_ROWS_MORE: u16 = 3;
/// A body of fewer rows is small.
const BODY_ROWS_MIN: u16 = 14;
const PROCESS_HEADINGS: u16 = 2;
/// Minimum rows of charts; rows of events alone; minimum and maximum rows of groups and events.
const CHART_ROWS_MIN: u16 = 5;
const EVENT_ROWS: std::ops::RangeInclusive<u16> = 3..=4;
const PANEL_ROWS: (u16, u16) = (5, 8);
/// Screen width from which groups and events are side by side.
const PANELS_MIN: u16 = 100;

/// Divides the rows of the main view. Devices get one row each, then processes get the rows they need. The remaining rows go to the most
/// important devices, the kinds of memory of the selected device, charts, groups of memory and events, in this order.
pub(crate) fn main(body: Rect, devices: usize, processes: usize) -> Main {
    let (body, side) = if devices == 1 && body.width >= SIDE_MIN {
        let side = Rect { x: body.right() - SIDE_COLUMNS, width: SIDE_COLUMNS, ..body };
        (Rect { width: body.width - SIDE_COLUMNS - 1, ..body }, Some(side))
    } else {
        (body, None)
    };
    let count = u16::try_from(devices).unwrap_or(u16::MAX);
    // Devices get the rows that processes and headings do not need.
    let least = if body.height < BODY_ROWS_MIN { PROCESS_ROWS_SMALL } else { PROCESS_ROWS_MIN };
    let room = |fixed: u16| body.height.saturating_sub(least + fixed).max(1);
    let form = form(body.width, count, room(1 + u16::from(devices >= SUMS_MIN)));
    let has_sums = devices >= SUMS_MIN && matches!(form, Form::Rows { .. });
    let fixed = 1 + u16::from(has_sums);
    let rows = match form {
        Form::Rows { columns } | Form::Grid { columns } => count.div_ceil(columns.max(1)).min(room(fixed)),
        Form::Groups => room(fixed),
    };
    let mut top = body.y;
    let mut take = |rows: u16| {
        let area = Rect { y: top, height: rows, ..body };
        top += rows;
        area
    };
    let list = take(fixed + rows);
    let most = (body.height / 3).max(least + PROCESS_ROWS_MORE);
    let needed = u16::try_from(processes).unwrap_or(u16::MAX).saturating_add(PROCESS_HEADINGS).clamp(PROCESS_ROWS_SMALL, most);
    let mut spare = body.height.saturating_sub(fixed + rows + needed);
    let mut part = |is_wanted: bool, rows: u16| {
        let is_there = is_wanted && spare >= rows;
        spare -= if is_there { rows } else { 0 };
        is_there.then(|| take(rows))
    };
    let worst = part(matches!(form, Form::Grid { .. }), 1 + WORST_MAX);
    let kinds = part(devices > 0, KIND_ROWS);
    let left = spare;
    let panels = if left >= CHART_ROWS_MIN + PANEL_ROWS.0 { (left / 3).clamp(PANEL_ROWS.0, PANEL_ROWS.1) } else { 0 };
    let has_charts = devices > 0 && left >= CHART_ROWS_MIN;
    let charts = has_charts.then(|| take(left - panels));
    let below = if EVENT_ROWS.contains(&left) { left } else { panels };
    let processes = Rect { y: top, height: body.bottom() - top - below, ..body };
    let panel = Rect { y: processes.bottom(), height: below, ..body };
    let (groups, events) = match () {
        () if below == 0 => (None, None),
        () if panels == 0 => (None, Some(panel)),
        () if body.width >= PANELS_MIN => {
            let width = body.width / 2;
            (Some(Rect { width, ..panel }), Some(Rect { x: body.x + width, width: body.width - width, ..panel }))
        }
        () => (Some(panel), None),
    };
    Main { form, devices: list, has_sums, worst, kinds, charts, processes, groups, events, side }
}

/// Chooses the form of the device list: rows in one column, rows in two columns if one is too long, or a grid if there are many.
fn form(width: u16, count: u16, room: u16) -> Form {
    match () {
        () if count <= ROWS_IN_A_COLUMN && count <= room => Form::Rows { columns: 1 },
        () if count <= ROWS_IN_A_COLUMN && width >= TWO_COLUMNS_MIN && count.div_ceil(2) <= room => Form::Rows { columns: 2 },
        () if count <= CELLS_WIDE_MAX => Form::Grid { columns: CELLS_IN_A_ROW.min(width / CELL_COLUMNS_MIN).max(1) },
        () => Form::Grid { columns: (width / CELL_COLUMNS_MIN).max(1) },
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceList {
    /// The area without the heading and the sums.
    pub(crate) area: Rect,
    pub(crate) columns: u16,
    /// Width of a column; `gap` is the space between two columns.
    pub(crate) width: u16,
    gap: u16,
    /// Cells of a grid are in row order. Rows fill a column from top to bottom, so that adjacent devices stay adjacent.
    pub(crate) is_grid: bool,
    /// Index of the first visible device, so that the selected one is visible.
    pub(crate) first: usize,
}

impl DeviceList {
    /// `None` if several machines are listed.
    pub(crate) fn new(layout: &Main, chosen: usize, count: usize) -> Option<Self> {
        let area = layout.devices;
        let rows = area.height.saturating_sub(1 + u16::from(layout.has_sums));
        let list = Rect { y: area.y + 1, height: rows, ..area };
        match layout.form {
            Form::Rows { columns } => {
                let first = scrolled(0, chosen, usize::from(rows) * usize::from(columns), count);
                let width = (area.width - (columns - 1)) / columns.max(1);
                Some(Self { area: list, columns, width, gap: 1, is_grid: false, first })
            }
            Form::Grid { columns } => {
                let beside = usize::from(columns.max(1));
                let first = scrolled(0, chosen / beside, usize::from(rows), count.div_ceil(beside)) * beside;
                Some(Self { area: list, columns, width: area.width / columns.max(1), gap: 0, is_grid: true, first })
            }
            Form::Groups => None,
        }
    }

    pub(crate) fn page(&self) -> usize {
        usize::from(self.area.height) * usize::from(self.columns)
    }

    pub(crate) fn left(&self, column: u16) -> u16 {
        self.area.x + column * (self.width + self.gap)
    }

    /// The area of a visible device; `index` counts from the first visible one.
    pub(crate) fn place(&self, index: u16) -> Rect {
        let (columns, rows) = (self.columns.max(1), self.area.height.max(1));
        let (column, row) = if self.is_grid { (index % columns, index / columns) } else { (index / rows, index % rows) };
        Rect { x: self.left(column), y: self.area.y + row, width: self.width, height: 1 }
    }

    pub(crate) fn at(&self, at: Position) -> Option<usize> {
        let places = (0..u16::try_from(self.page()).unwrap_or(u16::MAX)).map(|index| self.place(index));
        places.zip(self.first..).find(|(place, _)| place.contains(at)).map(|(_, device)| device)
    }
}

/// Divides the rows of an area into a grid of equal panes, with as many columns as fit.
pub(crate) fn panes(area: Rect, count: usize, width_min: u16, height_min: u16) -> Vec<Rect> {
    if count == 0 || area.width == 0 || area.height == 0 {
        return Vec::new();
    }
    let count = u16::try_from(count).unwrap_or(u16::MAX);
    let columns_max = (area.width / width_min).clamp(1, count);
    let rows_max = (area.height / height_min).max(1);
    // Use as few columns as possible for the available rows.
    let columns = (1..=columns_max).find(|columns| count.div_ceil(*columns) <= rows_max).unwrap_or(columns_max);
    let rows = count.div_ceil(columns).min(rows_max);
    let (width, height) = (area.width / columns, area.height / rows);
    let place = |index: u16| {
        let (column, row) = (index % columns, index / columns);
        // The last column and row get the remaining space.
        let wide = if column + 1 == columns { area.width - width * column } else { width };
        let high = if row + 1 == rows { area.height - height * row } else { height };
        Rect { x: area.x + column * width, y: area.y + row * height, width: wide, height: high }
    };
    (0..count.min(rows * columns)).map(place).collect()
}

/// Screen width from which the title names every view, not only the current one.
pub(crate) const TITLE_WIDE_MIN: u16 = 110;

/// Width of the clock and the refresh interval at the end of the title.
pub(crate) const TITLE_END_COLUMNS: u16 = 12;

pub(crate) fn tab(view: View, shown: View, width: u16) -> String {
    if width >= TITLE_WIDE_MIN || view == shown { format!("{} {}", view.number(), view.name()) } else { view.number().to_string() }
}

/// Returns the columns of each of these texts.
pub(crate) fn tabs(width: u16, shown: View) -> Vec<(u16, u16)> {
    let lengths = View::ALL.map(|view| u16::try_from(tab(view, shown, width).len()).unwrap_or(0));
    let total: u16 = lengths.iter().map(|length| length + 1).sum();
    let mut at = width.saturating_sub(total + TITLE_END_COLUMNS + 1);
    let mut place = |length: &u16| {
        let tab = (at, at + length);
        at += length + 1;
        tab
    };
    lengths.iter().map(&mut place).collect()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    pub(crate) key: usize,
    pub(crate) name: String,
    /// Empty if the next key has the same label: then the label follows both keys.
    pub(crate) label: &'static str,
    pub(crate) from: u16,
    pub(crate) to: u16,
}

/// Returns the keys that do something here, as far as there is room. The first and the last key, help and quit, are always included.
pub(crate) fn footer(width: u16, state: &TopState) -> Vec<Hint> {
    let named = |(index, key): (usize, &KeyBinding)| {
        let (name, label) = (key.chords.first()?.name(), key.label(state));
        (!label.is_empty()).then_some(Hint { key: index, name, label, from: 0, to: 0 })
    };
    let mut hints: Vec<Hint> = KEYS.iter().enumerate().filter_map(named).collect();
    // Remove both keys of a pair, or none.
    while place(&mut hints, width) > width && hints.len() > 2 {
        let label = hints[hints.len() - 2].label;
        hints.retain(|hint| hint.label != label);
    }
    for index in 1..hints.len() {
        if hints[index - 1].label == hints[index].label {
            hints[index - 1].label = "";
        }
    }
    hints
}

/// Sets the columns of each hint. Returns the end of the last one.
fn place(hints: &mut [Hint], width: u16) -> u16 {
    let gap = if width >= 100 { 2 } else { 1 };
    let (mut from, mut end) = (1, 0);
    for index in 0..hints.len() {
        let is_pair = hints.get(index + 1).is_some_and(|next| next.label == hints[index].label);
        let hint = &mut hints[index];
        let columns = hint.name.len() + if is_pair { 0 } else { 1 + hint.label.len() };
        end = from + u16::try_from(columns).unwrap_or(0);
        (hint.from, hint.to) = (from, end);
        from = end + if is_pair { 1 } else { gap };
    }
    end
}

/// Returns the columns of the process table from left to right: index, position and width.
pub(crate) fn process_columns(state: &TopState, width: u16) -> Vec<(usize, u16, u16)> {
    // Columns without any value (container or job, launches) are left out, to give the others more room.
    let processes = || state.hosts.iter().filter_map(|host| host.shown()).flat_map(|snapshot| &snapshot.processes);
    let has_workloads = processes().any(|process| process.workload().is_ok());
    let has_launches = processes().any(|process| process.launches_per_s.is_ok());
    let is_shown = |index: &usize| match columns::COLUMNS[*index].name {
        "container" => has_workloads,
        "launches" => has_launches || state.settings.sort == *index,
        _ => true,
    };
    let chosen: Vec<usize> = state.columns().into_iter().filter(is_shown).collect();
    let mut next = 0;
    let mut place = |(index, columns): (usize, u16)| {
        let at = next;
        next += columns + 1;
        (index, at, columns)
    };
    columns::fitting(&chosen, width).into_iter().map(&mut place).collect()
}

pub(crate) fn columns_shown(state: &TopState) -> Vec<usize> {
    let width = frame(state.size).map_or(0, |frame| main_of(state, frame.body).processes.width);
    process_columns(state, width).into_iter().map(|(column, ..)| column).collect()
}

pub(crate) fn window(area: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(area.width), height.min(area.height));
    Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height }
}

const CHOICES_COLUMNS: u16 = 72;

pub(crate) fn choices(body: Rect, count: usize) -> Rect {
    window(body, CHOICES_COLUMNS, u16::try_from(count).unwrap_or(u16::MAX).saturating_add(2))
}

/// Returns the index of the line at a position on the screen. `at` is the line of the cursor.
pub(crate) fn choice_at(body: Rect, count: usize, at: usize, position: Position) -> Option<usize> {
    let area = choices(body, count);
    let rows = area.height.saturating_sub(2);
    let inside = Rect { x: area.x + 1, y: area.y + 1, width: area.width.saturating_sub(2), height: rows };
    let first = scrolled(0, at, usize::from(rows), count);
    inside.contains(position).then(|| first + usize::from(position.y - inside.y)).filter(|line| *line < count)
}

/// Returns the first row to show so that the selected one is visible, with the least movement.
pub(crate) fn scrolled(scroll: usize, chosen: usize, rows: usize, count: usize) -> usize {
    let last = count.saturating_sub(rows);
    let low = (chosen + 1).saturating_sub(rows);
    scroll.clamp(low.min(chosen), chosen).min(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_inside(outer: Rect, inner: Rect) -> bool {
        outer.intersection(inner) == inner
    }

    /// The heading of the grid has the sums, so that the remaining rows show every process of a simulated galaxy.
    #[test]
    fn a_galaxy_and_six_processes_fit_a_small_screen() {
        let body = frame((80, 24)).unwrap().body;
        let main = main(body, 32, 6);
        assert!(!main.has_sums && main.worst.is_some() && main.kinds.is_some(), "{main:?}");
        assert_eq!(main.processes.height - PROCESS_HEADINGS, 6);
    }

    #[test]
    fn parts_of_the_main_view_never_overlap_at_any_size() {
        for width in [40, 60, 80, 100, 117, 118, 120, 189, 190, 200, 400] {
            for height in 10..80 {
                let body = frame((width, height)).unwrap().body;
                for (devices, processes) in [0, 1, 2, 4, 8, 9, 16, 32, 64, 256].into_iter().flat_map(|count| [(count, 0), (count, 50)]) {
                    for main in [main(body, devices, processes), groups(body, devices + 1, processes)] {
                        let parts: Vec<Rect> = [
                            Some(main.devices),
                            main.worst,
                            main.kinds,
                            main.charts,
                            Some(main.processes),
                            main.groups,
                            main.events,
                            main.side,
                        ]
                        .into_iter()
                        .flatten()
                        .collect();
                        for (index, part) in parts.iter().enumerate() {
                            assert!(is_inside(body, *part), "{width}x{height} {devices}: {part:?}");
                            assert!(parts[..index].iter().all(|other| !other.intersects(*part)), "{width}x{height} {devices}");
                        }
                        assert!(main.processes.height >= PROCESS_ROWS_SMALL, "{width}x{height} {devices}: {:?}", main.processes);
                    }
                }
            }
        }
    }

    #[test]
    fn a_click_hits_the_device_that_is_seen() {
        for (width, height) in [(80, 24), (120, 40), (200, 50)] {
            for count in [1, 8, 16, 32, 64, 256] {
                let main = main(frame((width, height)).unwrap().body, count, 3);
                for chosen in [0, count / 2, count - 1] {
                    let list = DeviceList::new(&main, chosen, count).unwrap();
                    let seen = list.first..count.min(list.first + list.page());
                    assert!(seen.contains(&chosen), "{width}x{height} {count}");
                    for (index, device) in (0..).zip(seen) {
                        let place = list.place(index);
                        assert!(is_inside(list.area, place), "{width}x{height} {count}: {place:?}");
                        let corners = [(place.x, place.y), (place.right() - 1, place.y)];
                        assert!(corners.into_iter().all(|corner| list.at(corner.into()) == Some(device)), "{width}x{height} {count}");
                    }
                    assert_eq!(list.at((0, main.devices.y).into()), None, "the heading");
                }
            }
        }
    }

    #[test]
    fn forms_by_size_and_count() {
        let form = |width, height, devices| main(frame((width, height)).unwrap().body, devices, 3).form;
        assert_eq!(form(80, 24, 8), Form::Rows { columns: 1 });
        assert_eq!(form(80, 24, 32), Form::Grid { columns: 8 });
        assert_eq!(form(120, 40, 8), Form::Rows { columns: 1 });
        assert_eq!(form(120, 40, 32), Form::Grid { columns: 8 });
        assert_eq!(form(200, 50, 32), Form::Grid { columns: 8 });
        assert_eq!(form(200, 50, 256), Form::Grid { columns: 20 });
    }

    #[test]
    fn panes_fill_their_area_without_overlap() {
        for count in 1..40 {
            let area = Rect { x: 3, y: 5, width: 117, height: 33 };
            let panes = panes(area, count, 38, 7);
            for (index, pane) in panes.iter().enumerate() {
                assert!(is_inside(area, *pane));
                assert!(panes[..index].iter().all(|other| !other.intersects(*pane)));
            }
        }
    }

    #[test]
    fn scrolling_keeps_the_chosen_row_in_sight() {
        for rows in 1..6 {
            for count in 0..9 {
                for chosen in 0..count {
                    for scroll in 0..9 {
                        let first = scrolled(scroll, chosen, rows, count);
                        assert!(first <= chosen && chosen < first + rows, "{scroll} {chosen} {rows} {count}: {first}");
                    }
                }
            }
        }
    }

    #[test]
    fn too_small_is_reported() {
        assert!(frame((0, 0)).is_none() && frame((39, 24)).is_none() && frame((80, 9)).is_none());
    }
}
