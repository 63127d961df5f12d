//! Memory of one device: kinds, address maps of its banks, the largest buffers, circular buffers of programs, and events.

mod cores;
mod list;
mod map;

use std::collections::VecDeque;

use ratatui_core::layout::{Position, Rect};
use ttmon_model::event::{BufferEvent, Op};
use ttmon_model::snapshot::MappedBuffer;
use ttmon_model::units::Unit;
use ttmon_model::{Device, Kind, Snapshot};
use ttmon_print::or_absent;
use ttmon_print::quantity::{percent, size};

use self::list::items;
pub(crate) use self::list::{buffer_at, groups_by, names};
use super::chart::{Chart, ChartLine};
use super::charts::{duration, frame as time_frame};
use crate::canvas::{Canvas, Field, spark};
use crate::history::History;
use crate::host::Host;
use crate::layout::{frame, scrolled};
use crate::settings::ZOOMS;
use crate::state::TopState;
use crate::theme::Role;

/// Screen width from which circular buffers are shown beside the buffer list.
const CORES_MIN: u16 = 118;
const CORES_COLUMNS: u16 = 40;

/// Minimum rows between the map and the events for a chart, and for a line. The list gets the rest.
const FRAGMENTATION_CHART_MIN: u16 = 14;
const FRAGMENTATION_ROWS: u16 = 6;
const FRAGMENTATION_LINE_MIN: u16 = 6;
const SPARK_COLUMNS: u8 = 12;

const KIND_COLUMNS: [(&str, u16); 7] =
    [("KIND", 9), ("USED", 9), ("ALLOCATED", 9), ("FREE", 9), ("BUFFERS", 8), ("PEAK", 9), ("SOURCE", 7)];

struct Areas {
    kinds: Rect,
    map: Rect,
    fragmentation: Rect,
    buffers: Rect,
    cores: Option<Rect>,
    events: Rect,
}

/// Divides the view. The map has one row per kind and allocator, and events have a few rows. The buffer list gets the rest, with the cores
/// beside it.
fn areas(state: &TopState, snapshot: &Snapshot, device: &Device, body: Rect) -> Areas {
    let kind_rows = if body.height < 14 { 3 } else { 7 };
    let kinds = Rect { y: body.y + 1, height: kind_rows, ..body };
    let below = body.height.saturating_sub(kind_rows + 1);
    let wanted = u16::try_from(map::rows(snapshot, device).len()).unwrap_or(u16::MAX);
    let map_rows = if wanted == 0 || below < 8 { 0 } else { wanted.min(below.div_ceil(4)) + 1 };
    // A small screen shows only the figures and the list.
    let event_rows = if below < 12 { 0 } else { (below / 4).clamp(3, 9) };
    let map = Rect { y: kinds.bottom(), height: map_rows, ..body };
    let events = Rect { y: body.bottom() - event_rows, height: event_rows, ..body };
    let between = events.y.saturating_sub(map.bottom());
    let fragmentation_rows = match between {
        _ if !has_fragmentation(state, device) => 0,
        FRAGMENTATION_CHART_MIN.. => FRAGMENTATION_ROWS,
        FRAGMENTATION_LINE_MIN.. => 1,
        _ => 0,
    };
    let fragmentation = Rect { y: map.bottom(), height: fragmentation_rows, ..body };
    let rest = Rect { y: fragmentation.bottom(), height: between - fragmentation_rows, ..body };
    let has_cores = body.width >= CORES_MIN && cores::on(snapshot, device).next().is_some();
    let (buffers, cores) = if has_cores {
        let width = rest.width - CORES_COLUMNS;
        (Rect { width, ..rest }, Some(Rect { x: rest.x + width, width: CORES_COLUMNS, ..rest }))
    } else {
        (rest, None)
    };
    Areas { kinds, map, fragmentation, buffers, cores, events }
}

pub(super) fn draw(state: &TopState, snapshot: &Snapshot, canvas: &mut Canvas<'_>, body: Rect) {
    let Some(device) = state.chosen_device(snapshot) else { return };
    let mut head = format!("Memory of device {} {}", device.id, device.label());
    if snapshot.lists_time != snapshot.time {
        let [figures, lists] = [snapshot.time, snapshot.lists_time].map(|time| state.clock.second(time));
        head += &format!("  figures at {figures}, lists at {lists}");
    }
    canvas.rule(Rect { height: 1, ..body }, 0, &head, Role::Title);
    let areas = areas(state, snapshot, device, body);
    draw_kinds(snapshot, device, canvas, areas.kinds);
    map::draw(state, snapshot, device, canvas, areas.map);
    draw_fragmentation(state, snapshot, device, canvas, areas.fragmentation);
    list::draw(state, snapshot, device, canvas, areas.buffers);
    if let Some(area) = areas.cores {
        cores::draw(snapshot, device, canvas, area);
    }
    draw_events(state, snapshot, device, canvas, areas.events);
}

fn buffer_rows(area: Rect) -> usize {
    usize::from(area.height.saturating_sub(2))
}

pub(crate) fn list_rows(state: &TopState) -> usize {
    let shown = state.shown_device().zip(frame(state.size));
    shown.map_or(0, |((snapshot, device), frame)| buffer_rows(areas(state, snapshot, device, frame.body).buffers))
}

/// The index of the buffer-list row at a position on the screen.
pub(crate) fn row_at(state: &TopState, body: Rect, at: Position) -> Option<usize> {
    let (snapshot, device) = state.shown_device()?;
    let area = areas(state, snapshot, device, body).buffers;
    let row = at.y.checked_sub(area.y + 2).filter(|_| area.contains(at))?;
    let count = items(state, snapshot, device).len();
    Some(scrolled(state.scroll, state.memory.at, buffer_rows(area), count) + usize::from(row))
}

pub(crate) fn map_rows(state: &TopState) -> usize {
    state.shown_device().map_or(0, |(snapshot, device)| map::rows(snapshot, device).len())
}

fn draw_kinds(snapshot: &Snapshot, device: &Device, canvas: &mut Canvas<'_>, area: Rect) {
    canvas.buffer.set_style(Rect { height: 1, ..area }, canvas.theme.style(Role::Heading));
    let mut at = 1;
    let fields = KIND_COLUMNS.map(|(title, columns)| {
        let field = if title == "KIND" { Field::left(at, columns) } else { Field::right(at, columns) };
        canvas.field(area, field, 0, title, canvas.style(Role::Heading));
        at += columns + 1;
        field
    });
    for (row, kind) in (1..).zip(Kind::ALL) {
        let memory = &device.memory.kinds[kind];
        let peak = memory.figure.peak.or_else(|reason| only_peak(snapshot, device, kind).ok_or(reason));
        let texts = [
            Ok(kind.name().to_owned()),
            memory.figure.used.map(size),
            memory.figure.allocated.map(size),
            memory.free.map(size),
            memory.figure.count.map(|count| count.to_string()),
            peak.map(size),
            memory.figure.source.map(|source| source.name().to_owned()),
        ];
        for (field, text) in fields.into_iter().zip(texts) {
            let (text, severity) = or_absent(text, |text| text);
            canvas.field(area, field, row, &text, canvas.style(severity.into()));
        }
        let share = memory.figure.used.and_then(|used| memory.total.map(|total| used as f64 / total.max(1) as f64));
        if let (Ok(share), true) = (share, area.width >= at + 20) {
            let bar = Field::left(at + 1, area.width - at - 8);
            canvas.bar(area, bar, row, share);
            canvas.field(area, Field::right(area.width - 6, 5), row, &percent(share), canvas.theme.load(share));
        }
    }
}

/// The peak of a device is known only if one process uses it, because peaks of several processes are at different times.
fn only_peak(snapshot: &Snapshot, device: &Device, kind: Kind) -> Option<u64> {
    let mut peaks = snapshot.processes_on(device.id).filter_map(|(_, use_of)| use_of.kinds[kind].peak.ok());
    peaks.next().filter(|_| peaks.next().is_none())
}

fn has_fragmentation(state: &TopState, device: &Device) -> bool {
    History::fragmented().any(|(metric, _)| state.host().history.column(device.id, metric).is_some())
}

/// Draws the share of the free memory that is not in the largest free block, over time, of the worst allocator on a device.
fn draw_fragmentation(state: &TopState, snapshot: &Snapshot, device: &Device, canvas: &mut Canvas<'_>, area: Rect) {
    let seconds = ZOOMS[state.settings.zoom];
    let columns = History::fragmented().filter_map(|(metric, kind)| Some((metric, kind, state.host().history.column(device.id, metric)?)));
    let last = |values: &VecDeque<f32>| {
        let value = values.get(values.len().checked_sub(state.host().back() + 1)?).copied()?;
        (!value.is_nan()).then(|| percent(value.into()))
    };
    if area.height < FRAGMENTATION_ROWS {
        let mut at = canvas.text(area, 1, 0, &format!("Fragmentation, {}:", duration(seconds)), Role::Title) + 1;
        for (metric, kind, values) in columns {
            let step = (seconds / u64::from(SPARK_COLUMNS)).max(1);
            let means = state.host().history.means(device.id, metric, SPARK_COLUMNS.into(), step, state.host().back());
            at = canvas.text(area, at, 0, &format!("{} ", kind.name()), Role::Dim);
            at = canvas.put(area, at, 0, &spark(&means, (0.0, 1.0), canvas.glyphs().spark), canvas.theme.hue(0));
            at = canvas.text(area, at, 0, &format!(" {}", last(values).unwrap_or_default()), Role::Plain) + 2;
        }
        return;
    }
    let named = |values| last(values).unwrap_or_else(|| "N/A".to_owned());
    let lines: Vec<ChartLine<'_>> =
        columns.map(|(_, kind, values)| ChartLine { name: format!("{} {}", kind.name(), named(values)), values }).collect();
    // A chart with one line has no legend.
    let only = if let [line] = lines.as_slice() { format!(" {}", line.name) } else { String::new() };
    let title = format!("Fragmentation{only}, the last {}", duration(seconds));
    let chart = Chart { title, unit: Unit::Ratio, lines, ..time_frame(state, snapshot) };
    chart.draw(canvas, Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area });
}

/// Draws events of the buffers of a device, newest at the bottom.
fn draw_events(state: &TopState, snapshot: &Snapshot, device: &Device, canvas: &mut Canvas<'_>, area: Rect) {
    canvas.rule(area, 0, "Recent events", Role::Title);
    let is_on_device = |event: &BufferEvent| {
        let has_device = |pid: u32| snapshot.allocators.iter().any(|one| one.process.pid == pid && one.devices.contains(&device.id));
        // A mark has no allocator. It belongs to all devices of its process.
        event.devices.contains(&device.id) || event.op == Op::Mark && has_device(event.pid)
    };
    let rows = usize::from(area.height.saturating_sub(1));
    // A paused display shows no later events.
    let is_over = |event: &BufferEvent| !state.is_frozen() || event.time.is_none_or(|time| time <= snapshot.lists_time);
    let shown = |event| Some((event, event_label(event).filter(|_| is_over(event) && is_on_device(event))?));
    let events: Vec<(&BufferEvent, &str)> = state.host().buffer_events.iter().rev().filter_map(shown).take(rows).collect();
    if events.is_empty() {
        let why = if state.replay.is_some() { "nothing was recorded so far" } else { "nothing since this view was opened" };
        canvas.text(area, 1, 1, why, Role::Dim);
    }
    for (row, (event, label)) in (1..area.height).zip(events.iter().rev()) {
        let tag = event.tag.as_deref().map(|tag| format!("  {tag}")).unwrap_or_default();
        let text = format!(
            "{} {:>8} {label:<12} {:>9} {:<8} {:#x}{tag}",
            event.time.map(|time| state.clock.second(time)).unwrap_or_default(),
            event.pid,
            size(event.size.unwrap_or(0)),
            event.kind.map_or("", |kind| kind.name()),
            event.address.unwrap_or(0),
        );
        let role = if matches!(event.op, Op::OutOfMemory | Op::Clash) { Role::Critical } else { Role::Plain };
        canvas.text(area, 1, row, &text, role);
    }
}

fn event_label(event: &BufferEvent) -> Option<&'static str> {
    Some(match event.op {
        Op::Alloc if event.program.is_some() => "cb",
        Op::Free if event.program.is_some() => "program gone",
        Op::Alloc => "alloc",
        Op::Free => "free",
        Op::FreeAll => "free all",
        Op::Open => "open",
        Op::Close => "close",
        Op::OutOfMemory => "REFUSED",
        Op::Clash => "CLASH",
        Op::Mark => "mark",
        Op::Ref | Op::Unref | Op::Exit | Op::Exec | Op::Overrun => return None,
    })
}

fn on<'a>(snapshot: &'a Snapshot, device: &Device) -> impl Iterator<Item = &'a MappedBuffer> + use<'a> {
    let id = device.id;
    snapshot.buffers.iter().filter(move |buffer| buffer.devices().contains(&id))
}

/// Why the live buffers of a machine are counted, but not listed.
pub(super) fn why_unlisted(state: &TopState, host: &Host) -> &'static str {
    match (host.frozen.is_some(), state.replay.is_some(), &host.address) {
        (true, ..) => "they were not read at this time: they were not shown",
        (false, true, _) => "none of them was recorded: only the largest of each process are",
        (false, false, Some(_)) => "the service sends them only to clients with its token (--token-file)",
        (false, false, None) => "they are being read; those of other users only root may read",
    }
}
