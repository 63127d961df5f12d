//! Charts: every metric of one device, or one metric of every device, in a grid or all in one.

use ratatui_core::layout::Rect;
use ttmon_model::snapshot::Location;
use ttmon_model::{Device, Snapshot};

use super::Extent;
use super::chart::Chart;
use crate::canvas::Canvas;
use crate::layout::{SIDE_MIN, panes};
use crate::metric::METRICS;
use crate::settings::ZOOMS;
use crate::state::{State, View};
use crate::theme::Role;

/// A pane smaller than this shows nothing of use.
const PANE: (u16, u16) = (38, 7);
/// Of one metric, where there are many devices.
const PANE_SMALL: (u16, u16) = (26, 5);

pub(super) fn draw(state: &State, snapshot: &Snapshot, canvas: &mut Canvas<'_>, body: Rect) {
    let head = Rect { height: 1, ..body };
    let area = Rect { y: body.y + 1, height: body.height - 1, ..body };
    let metric = &METRICS[state.settings.metric];
    let what = match state.chosen_device(snapshot).filter(|_| state.settings.by_device) {
        Some(device) => format!("Device {} {}", device.id, canvas.clean(&device.label())),
        None => format!("{} of {} devices", metric.title, snapshot.devices.len()),
    };
    let left = format!("{what}, the last {}", duration(ZOOMS[state.settings.zoom]));
    canvas.say(head, 1, 0, &left, Role::Strong);
    if state.settings.by_device {
        of_device(state, snapshot, canvas, area);
    } else {
        of_metric(state, snapshot, canvas, area);
    }
}

fn of_device(state: &State, snapshot: &Snapshot, canvas: &mut Canvas<'_>, area: Rect) {
    let Some(device) = state.chosen_device(snapshot) else { return };
    let known = metrics(state, device);
    if known.is_empty() {
        let text = match device.location {
            Location::Local => "nothing was measured of this device since this was started; 3 shows why",
            Location::Remote => "a chip reached over Ethernet tells only its memory, once somebody uses it",
        };
        canvas.say(area, 1, 1, text, Role::Dim);
        return;
    }
    let places = panes(area, known.len(), PANE.0, PANE.1);
    let first = first(state, known.len(), &places);
    for (metric, place) in known.iter().skip(first).zip(&places) {
        one(state, snapshot, device, *metric, None).draw(canvas, inner(*place));
    }
    hidden(canvas, area, known.len(), first, places.len());
}

/// Metrics of a device there is a chart for.
fn metrics(state: &State, device: &Device) -> Vec<usize> {
    let chosen = state.settings.metric;
    let others = (0..METRICS.len()).filter(|metric| *metric != chosen);
    std::iter::once(chosen).chain(others).filter(|metric| has_values(state, device, *metric)).collect()
}

/// Panes beside each other.
fn columns(places: &[Rect]) -> usize {
    places.iter().filter(|place| place.y == places[0].y).count().max(1)
}

/// The first chart that is shown: rows of them are scrolled.
fn first(state: &State, count: usize, places: &[Rect]) -> usize {
    let columns = columns(places);
    state.scroll.min(rows(count, columns, places).last()) * columns
}

fn rows(count: usize, columns: usize, places: &[Rect]) -> Extent {
    Extent { lines: count.div_ceil(columns), page: places.len().div_ceil(columns).max(1) }
}

/// Rows of charts, and how many are seen at once.
pub(super) fn extent(state: &State, snapshot: &Snapshot, body: Rect) -> Extent {
    let area = Rect { y: body.y + 1, height: body.height - 1, ..body };
    let metric = state.settings.metric;
    let (count, pane) = match state.chosen_device(snapshot).filter(|_| state.settings.by_device) {
        Some(device) => (metrics(state, device).len(), PANE),
        None if state.settings.overlay => (1, PANE),
        None => (snapshot.devices.iter().filter(|device| has_values(state, device, metric)).count(), PANE_SMALL),
    };
    let places = panes(area, count, pane.0, pane.1);
    rows(count, columns(&places), &places)
}

fn of_metric(state: &State, snapshot: &Snapshot, canvas: &mut Canvas<'_>, area: Rect) {
    let metric = state.settings.metric;
    if state.settings.overlay {
        return all(state, snapshot, metric).draw(canvas, inner(area));
    }
    let known: Vec<&Device> = snapshot.devices.iter().filter(|device| has_values(state, device, metric)).collect();
    if known.is_empty() {
        canvas.say(area, 1, 1, "no device tells it", Role::Dim);
    }
    let places = panes(area, known.len(), PANE_SMALL.0, PANE_SMALL.1);
    let first = first(state, known.len(), &places);
    for (device, place) in known.iter().skip(first).zip(&places) {
        let mut chart = one(state, snapshot, device, metric, Some(device.id.to_string()));
        // A small pane has no room for everything: the number stays.
        chart.title += &format!("  {}", device.label());
        chart.draw(canvas, inner(*place));
    }
    hidden(canvas, area, known.len(), first, places.len());
}

/// How many charts lie above and below.
fn hidden(canvas: &mut Canvas<'_>, area: Rect, all: usize, first: usize, shown: usize) {
    let text = super::more(canvas, first, all.saturating_sub(first + shown));
    super::at_the_end(canvas, Rect { y: area.y.saturating_sub(1), height: 1, ..area }, &text);
}

/// A column of space between panes.
fn inner(place: Rect) -> Rect {
    Rect { x: place.x + 1, width: place.width.saturating_sub(2), ..place }
}

/// Charts below the device rows, where there is room.
pub(super) fn on_main(state: &State, snapshot: &Snapshot, canvas: &mut Canvas<'_>, area: Rect) {
    let metric = state.settings.metric;
    let [device] = snapshot.devices.as_slice() else {
        let known: Vec<&Device> = snapshot.devices.iter().filter(|device| has_values(state, device, metric)).collect();
        if area.width >= SIDE_MIN && known.len() <= 8 && area.height >= 10 {
            for (device, place) in known.iter().zip(panes(area, known.len(), 45, PANE.1)) {
                let name = format!("{} {} {}", device.id, device.label(), METRICS[metric].title);
                one(state, snapshot, device, metric, Some(name)).draw(canvas, inner(place));
            }
            return;
        }
        return all(state, snapshot, metric).draw(canvas, inner(area));
    };
    let dram = crate::metric::by_name("dram").unwrap_or(0);
    let second = if metric == dram { 0 } else { dram };
    let shown: &[usize] = if area.width >= 100 { &[metric, second] } else { &[metric] };
    for (metric, place) in shown.iter().zip(panes(area, shown.len(), area.width / 2 - 1, area.height)) {
        one(state, snapshot, device, *metric, None).draw(canvas, inner(place));
    }
}

fn has_values(state: &State, device: &Device, metric: usize) -> bool {
    // Parts of a whole that were never there need no chart of their own.
    let is_part = METRICS[metric].chart.part.is_some();
    let is_worth_it = |value: &f32| if is_part { *value > 0.0 } else { !value.is_nan() };
    state.history().column(device.id, metric).is_some_and(|column| column.iter().any(is_worth_it))
}

fn one<'a>(state: &'a State, snapshot: &Snapshot, device: &Device, index: usize, name: Option<String>) -> Chart<'a> {
    let metric = &METRICS[index];
    let now = metric.get(device);
    let limit = metric.limit(device).ok();
    let mut title = name.unwrap_or_else(|| metric.title.to_owned());
    title += &now.map_or_else(|reason| format!("  N/A ({reason})"), |value| format!("  {}", metric.show(value)));
    if let Some(limit) = limit {
        title += &format!(" of {}", metric.show(limit));
    }
    let share = now.ok().zip(limit).map_or(0.0, |(now, limit)| now / limit);
    // Power alone is never unhealthy: boards publish limits they may not draw.
    let role = metric.chart.critical.map_or(Role::Plain, |critical| super::graded(share, critical));
    Chart {
        title,
        role: if role == Role::Plain { Role::Strong } else { role },
        unit: metric.field.unit,
        times: state.history().times(),
        lines: state.history().column(device.id, index).into_iter().collect(),
        limit,
        until: snapshot.time,
        seconds: ZOOMS[state.settings.zoom],
        clock: (state.view == View::Charts).then_some(&state.clock),
    }
}

/// Every device's line in one chart, with the highest and the middle one named.
fn all<'a>(state: &'a State, snapshot: &Snapshot, index: usize) -> Chart<'a> {
    let metric = &METRICS[index];
    let mut values: Vec<(f64, u32)> = snapshot.devices.iter().filter_map(|device| Some((metric.get(device).ok()?, device.id.0))).collect();
    values.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut title = format!("{}, all devices", metric.title);
    if let (Some((highest, id)), Some(median)) = (values.last(), median(&values)) {
        title += &format!("  highest {} ({id})  median {}", metric.show(*highest), metric.show(median));
    }
    let lines = snapshot.devices.iter().filter_map(|device| state.history().column(device.id, index));
    Chart {
        title,
        role: Role::Strong,
        unit: metric.field.unit,
        times: state.history().times(),
        lines: lines.collect(),
        limit: snapshot.devices.iter().filter_map(|device| metric.limit(device).ok()).reduce(f64::min),
        until: snapshot.time,
        seconds: ZOOMS[state.settings.zoom],
        clock: (state.view == View::Charts).then_some(&state.clock),
    }
}

/// The middle of sorted values; of an even number of them the mean of the two.
fn median(values: &[(f64, u32)]) -> Option<f64> {
    let upper = values.get(values.len() / 2)?.0;
    let lower = values.get((values.len() - 1) / 2)?.0;
    Some(f64::midpoint(lower, upper))
}

fn duration(seconds: u64) -> String {
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
