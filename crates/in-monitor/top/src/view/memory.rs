//! Memory of one device: kinds, address maps of its banks, the largest buffers, circular buffers of programs, and events.

mod cores;
mod events;
mod fragmentation;
mod list;
mod map;

use ratatui_core::layout::{Position, Rect};
use ttmon_model::snapshot::MappedBuffer;
use ttmon_model::{Device, Kind, Snapshot};
use ttmon_print::quantity::{percent, size};

use self::list::items;
pub(crate) use self::list::{buffer_at, groups_by, names};
use super::devices::or_absent;
use crate::canvas::{Canvas, Field};
use crate::host::Host;
use crate::layout::{frame, scrolled};
use crate::state::State;
use crate::theme::Role;

/// Screen width from which circular buffers are shown beside the buffer list.
const CORES_MIN: u16 = 118;
const CORES_COLUMNS: u16 = 40;

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
fn areas(state: &State, snapshot: &Snapshot, device: &Device, body: Rect) -> Areas {
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
        _ if !fragmentation::is_known(state, device) => 0,
        fragmentation::ROOM_FOR_CHART.. => fragmentation::CHART_ROWS,
        fragmentation::ROOM_FOR_LINE.. => 1,
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

pub(super) fn draw(state: &State, snapshot: &Snapshot, canvas: &mut Canvas<'_>, body: Rect) {
    let Some(device) = state.chosen_device(snapshot) else { return };
    let mut head = format!("Memory of device {} {}", device.id, device.label());
    if snapshot.lists_time != snapshot.time {
        let [figures, lists] = [snapshot.time, snapshot.lists_time].map(|time| state.clock.second(time));
        head += &format!("  figures at {figures}, lists at {lists}");
    }
    let head = canvas.clean(&head);
    canvas.rule(Rect { height: 1, ..body }, 0, &head, Role::Title);
    let areas = areas(state, snapshot, device, body);
    draw_kinds(snapshot, device, canvas, areas.kinds);
    map::draw(state, snapshot, device, canvas, areas.map);
    fragmentation::draw(state, snapshot, device, canvas, areas.fragmentation);
    list::draw(state, snapshot, device, canvas, areas.buffers);
    if let Some(area) = areas.cores {
        cores::draw(snapshot, device, canvas, area);
    }
    events::draw(state, snapshot, device, canvas, areas.events);
}

fn buffer_rows(area: Rect) -> usize {
    usize::from(area.height.saturating_sub(2))
}

pub(crate) fn list_rows(state: &State) -> usize {
    let shown = state.shown_device().zip(frame(state.size));
    shown.map_or(0, |((snapshot, device), frame)| buffer_rows(areas(state, snapshot, device, frame.body).buffers))
}

/// The index of the buffer-list row at a position on the screen.
pub(crate) fn row_at(state: &State, body: Rect, at: Position) -> Option<usize> {
    let (snapshot, device) = state.shown_device()?;
    let area = areas(state, snapshot, device, body).buffers;
    let row = at.y.checked_sub(area.y + 2).filter(|_| area.contains(at))?;
    let count = items(state, snapshot, device).len();
    Some(scrolled(state.scroll, state.memory.at, buffer_rows(area), count) + usize::from(row))
}

pub(crate) fn map_rows(state: &State) -> usize {
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
            let (text, role) = or_absent(text, |text| text);
            canvas.field(area, field, row, &text, canvas.style(role));
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

fn on<'a>(snapshot: &'a Snapshot, device: &Device) -> impl Iterator<Item = &'a MappedBuffer> + use<'a> {
    let id = device.id;
    snapshot.buffers.iter().filter(move |buffer| buffer.devices().contains(&id))
}

/// Why the live buffers of a machine are counted, but not listed.
pub(super) fn why_unlisted(state: &State, host: &Host) -> &'static str {
    match (host.frozen.is_some(), state.replay.is_some(), &host.address) {
        (true, ..) => "they were not read at this time: they were not shown",
        (false, true, _) => "none of them was recorded: only the largest of each process are",
        (false, false, Some(_)) => "the service sends them only to clients with its token (--token-file)",
        (false, false, None) => "they are being read; those of other users only root may read",
    }
}
