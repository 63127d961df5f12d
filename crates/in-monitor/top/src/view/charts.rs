//! Charts: every metric of one device, or one metric of every device, in a grid or in one chart.

use std::slice::from_ref;

use ratatui_core::layout::Rect;
use ttmon_model::snapshot::Location;
use ttmon_model::units::{Unit, UnixTime};
use ttmon_model::{Device, Snapshot};

use super::Extent;
use super::chart::{Chart, ChartLine};
use crate::canvas::{Canvas, width};
use crate::layout::panes;
use crate::metric::METRICS;
use crate::settings::ZOOMS;
use crate::state::{TopState, View};
use crate::theme::Role;

const HIDDEN_COLUMNS: u16 = 16;
const PANE: (u16, u16) = (38, 7);
/// Maximum number of charts side by side in the main view, and the minimum width of each.
const MAIN_PANES_MAX: usize = 4;
const MAIN_PANE_COLUMNS: u16 = 40;
/// Minimum size of a pane with one metric of many devices.
const PANE_SMALL: (u16, u16) = (26, 5);

pub(super) fn draw(state: &TopState, snapshot: &Snapshot, canvas: &mut Canvas<'_>, body: Rect) {
    let head = Rect { height: 1, ..body };
    let area = Rect { y: body.y + 1, height: body.height - 1, ..body };
    let metric = &METRICS[state.settings.metric];
    let what = match state.chosen_device(snapshot).filter(|_| state.settings.by_device) {
        Some(device) => format!("Device {} {}", device.id, canvas.clean(&device.label())),
        None => format!("{} of {} devices", metric.title, snapshot.devices.len()),
    };
    let left = format!("{what}, the last {}", duration(ZOOMS[state.settings.zoom]));
    // The end of the row has the number of hidden charts.
    let text = if width(&left) + HIDDEN_COLUMNS <= head.width { left } else { what };
    canvas.text(head, 1, 0, &text, Role::Title);
    if is_overlay(state) {
        return all(state, snapshot, state.settings.metric).draw(canvas, inner(area));
    }
    let (charts, places) = charts(state, snapshot, body);
    if charts.is_empty() {
        let text = match state.chosen_device(snapshot).filter(|_| state.settings.by_device).map(|device| device.location) {
            Some(Location::Local) => "nothing was measured of this device since this was started; 3 shows why",
            Some(Location::Remote) => "a chip reached over Ethernet shows only its memory, while a process uses it",
            None => "no device has it",
        };
        canvas.text(area, 1, 1, text, Role::Dim);
    }
    let first = first(state, charts.len(), &places);
    for ((metric, device), place) in charts.iter().skip(first).zip(&places) {
        let chart = if state.settings.by_device {
            one(state, snapshot, device, *metric, METRICS[*metric].title)
        } else {
            // A small pane has no room for the whole title, but the number must be visible.
            let chart = one(state, snapshot, device, *metric, &device.id.to_string());
            Chart { title: format!("{}  {}", chart.title, device.label()), ..chart }
        };
        chart.draw(canvas, inner(*place));
    }
    let hidden = super::more(canvas, first, charts.len().saturating_sub(first + places.len()));
    super::at_the_end(canvas, head, &hidden);
}

fn is_overlay(state: &TopState) -> bool {
    state.settings.overlay && !state.settings.by_device
}

/// Returns the charts of the view, each a metric of a device, and their panes as far as there is room: every metric of the selected device,
/// or one metric of every device.
fn charts<'a>(state: &TopState, snapshot: &'a Snapshot, body: Rect) -> (Vec<(usize, &'a Device)>, Vec<Rect>) {
    let area = Rect { y: body.y + 1, height: body.height - 1, ..body };
    let metric = state.settings.metric;
    let one = state.chosen_device(snapshot).filter(|_| state.settings.by_device);
    let charts: Vec<(usize, &Device)> = match one {
        Some(device) => metrics(state, from_ref(device)).map(|metric| (metric, device)).collect(),
        None => snapshot.devices.iter().filter(|device| has_values(state, device, metric)).map(|device| (metric, device)).collect(),
    };
    let pane = if one.is_some() { PANE } else { PANE_SMALL };
    let places = panes(area, charts.len(), pane.0, pane.1);
    (charts, places)
}

/// Returns the metrics that have a value on any of these devices, the selected one first.
fn metrics<'a>(state: &'a TopState, devices: &'a [Device]) -> impl Iterator<Item = usize> + 'a {
    let chosen = state.settings.metric;
    let others = (0..METRICS.len()).filter(move |metric| *metric != chosen);
    std::iter::once(chosen).chain(others).filter(move |metric| devices.iter().any(|device| has_values(state, device, *metric)))
}

fn columns(places: &[Rect]) -> usize {
    places.iter().filter(|place| place.y == places[0].y).count().max(1)
}

/// Returns the index of the first visible chart. Charts scroll by whole rows.
fn first(state: &TopState, count: usize, places: &[Rect]) -> usize {
    state.scroll.min(rows(count, places).last()) * columns(places)
}

fn rows(count: usize, places: &[Rect]) -> Extent {
    let columns = columns(places);
    Extent { lines: count.div_ceil(columns), page: places.len().div_ceil(columns).max(1) }
}

pub(super) fn extent(state: &TopState, snapshot: &Snapshot, body: Rect) -> Extent {
    let (charts, places) = charts(state, snapshot, body);
    if is_overlay(state) { Extent { lines: 1, page: 1 } } else { rows(charts.len(), &places) }
}

fn inner(place: Rect) -> Rect {
    Rect { x: place.x + 1, width: place.width.saturating_sub(2), ..place }
}

/// Draws charts below the device rows: the selected metric and the next metrics with values, as many as fit side by side. Returns whether
/// there is a chart.
pub(super) fn on_main(state: &TopState, snapshot: &Snapshot, canvas: &mut Canvas<'_>, area: Rect) -> bool {
    let most = usize::from(area.width / MAIN_PANE_COLUMNS).clamp(1, MAIN_PANES_MAX);
    let shown: Vec<usize> = metrics(state, &snapshot.devices).take(most).collect();
    let columns = u16::try_from(shown.len()).unwrap_or(1).max(1);
    for (metric, place) in shown.iter().zip(panes(area, shown.len(), area.width / columns, area.height)) {
        let chart = match snapshot.devices.as_slice() {
            [device] => one(state, snapshot, device, *metric, METRICS[*metric].title),
            _ => all(state, snapshot, *metric),
        };
        chart.draw(canvas, inner(place));
    }
    !shown.is_empty()
}

fn has_values(state: &TopState, device: &Device, metric: usize) -> bool {
    // A part of a total that never had a value needs no chart.
    let is_part = METRICS[metric].chart.part.is_some();
    let is_worth_it = |value: &f32| if is_part { *value > 0.0 } else { !value.is_nan() };
    state.host().history.column(device.id, metric).is_some_and(|column| column.iter().any(is_worth_it))
}

fn one<'a>(state: &'a TopState, snapshot: &Snapshot, device: &Device, index: usize, name: &str) -> Chart<'a> {
    let metric = &METRICS[index];
    let now = metric.get(device);
    let limit = metric.limit(device).ok();
    let mut title = now.map_or_else(|reason| format!("{name}  N/A ({reason})"), |value| format!("{name}  {}", metric.show(value)));
    if let Some(limit) = limit {
        title += &format!(" of {}", metric.show(limit));
    }
    let share = now.ok().zip(limit).map_or(0.0, |(now, limit)| now / limit);
    // Power alone is never unhealthy, because boards publish limits that they cannot reach.
    let role = metric.chart.critical.map_or(Role::Plain, |critical| super::graded(share, critical));
    Chart {
        title,
        role: if role == Role::Plain { Role::Title } else { role },
        unit: metric.field.unit,
        lines: line(state, device, index).into_iter().collect(),
        limit,
        ..frame(state, snapshot)
    }
}

fn line<'a>(state: &'a TopState, device: &Device, metric: usize) -> Option<ChartLine<'a>> {
    Some(ChartLine { name: device.id.to_string(), values: state.host().history.column(device.id, metric)? })
}

/// Properties that all charts of a screen share: the time span, its marks, and the selected time.
pub(super) fn frame<'a>(state: &'a TopState, snapshot: &Snapshot) -> Chart<'a> {
    let seconds = ZOOMS[state.settings.zoom];
    let frozen = state.host().frozen.as_ref();
    // The time after the selected time is shown too, a quarter of the chart.
    let until = frozen.map_or(snapshot.time, |frozen| UnixTime((snapshot.time.0 + seconds * 250_000_000).min(frozen.until.0)));
    Chart {
        title: String::new(),
        detail: String::new(),
        role: Role::Title,
        unit: Unit::None,
        times: state.host().history.times(),
        lines: Vec::new(),
        limit: None,
        until,
        seconds,
        clock: (state.view == View::Charts).then_some(&state.clock),
        cursor: frozen.map(|_| snapshot.time),
        marks: state.host().marks.iter().collect(),
        refresh: u64::try_from(state.settings.refresh.as_nanos()).unwrap_or(u64::MAX),
    }
}

/// Returns a chart with the lines of all devices. Its title has the highest value and the median, because there may be too many lines for a
/// legend.
fn all<'a>(state: &'a TopState, snapshot: &Snapshot, index: usize) -> Chart<'a> {
    let metric = &METRICS[index];
    let mut values: Vec<(f64, u32)> = snapshot.devices.iter().filter_map(|device| Some((metric.get(device).ok()?, device.id.0))).collect();
    values.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut detail = String::new();
    if let (Some((highest, id)), Some(median)) = (values.last(), median(&values)) {
        detail = format!("max {} ({id}) median {}", metric.show(*highest), metric.show(median));
    }
    Chart {
        title: metric.title.to_owned(),
        detail,
        unit: metric.field.unit,
        lines: snapshot.devices.iter().filter_map(|device| line(state, device, index)).collect(),
        limit: snapshot.devices.iter().filter_map(|device| metric.limit(device).ok()).reduce(f64::min),
        ..frame(state, snapshot)
    }
}

fn median(values: &[(f64, u32)]) -> Option<f64> {
    let upper = values.get(values.len() / 2)?.0;
    let lower = values.get((values.len() - 1) / 2)?.0;
    Some(f64::midpoint(lower, upper))
}

pub(super) fn duration(seconds: u64) -> String {
    match seconds {
        3600.. => "hour".to_owned(),
        120.. => format!("{} minutes", seconds / 60),
        seconds => format!("{seconds} seconds"),
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_of_an_even_number_is_between_the_two() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[(51.0, 0)]), Some(51.0));
        assert_eq!(median(&[(52.0, 0), (56.0, 1)]), Some(54.0));
        assert_eq!(median(&[(37.0, 0), (38.0, 1), (58.0, 2)]), Some(38.0));
    }
}
