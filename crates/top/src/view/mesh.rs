//! Chips as they are wired: a tile each, coloured by the chosen metric.

use ratatui_core::layout::Rect;
use ttmon_model::snapshot::Location;
use ttmon_model::{Device, Snapshot};
use ttmon_print::health_word;

use super::devices::severity_role;
use crate::canvas::{Canvas, Field};
use crate::mesh::{self, Mesh};
use crate::metric::METRICS;
use crate::state::State;
use crate::theme::Role;

/// The most a tile takes; more would only be empty.
const TILE_MAX: (u16, u16) = (24, 5);
/// The least in which it says something.
const TILE_MIN: (u16, u16) = (9, 3);
/// Narrower ones have no bar.
const BAR_MIN: u16 = 12;

pub(super) fn draw(state: &State, snapshot: &Snapshot, canvas: &mut Canvas<'_>, body: Rect) {
    let metric = &METRICS[state.settings.metric];
    let mesh = mesh::of(snapshot);
    let head = format!("Mesh: {}, {}  m metric  [ ] device", mesh.origin, metric.title);
    canvas.rule(Rect { height: 1, ..body }, 0, &head, Role::Strong);
    let area = Rect { y: body.y + 1, height: body.height - 1, ..body };
    let Some((width, height)) = tile_size(&mesh, area) else {
        canvas.say(area, 1, 1, "the mesh does not fit this screen; the main view lists every chip", Role::Dim);
        return;
    };
    let chosen = state.chosen_device(snapshot).map(|device| device.id);
    for tile in &mesh.tiles {
        let Some(device) = snapshot.device(tile.device) else { continue };
        let gap = tile.tray.map_or(0, |tray| tray * mesh.tray_gap);
        let place = Rect { x: area.x + 1 + tile.column * width + gap, y: area.y + 1 + tile.row * height, width: width - 1, height };
        draw_tile(state, device, canvas, place.intersection(area), Some(device.id) == chosen);
    }
    legend(state, snapshot, canvas, area);
}

/// The largest tiles that fit, between the most and the least.
fn tile_size(mesh: &Mesh, area: Rect) -> Option<(u16, u16)> {
    let gaps = mesh.tray_gap * mesh.trays();
    let width = (area.width.checked_sub(2 + gaps)? / mesh.columns.max(1)).min(TILE_MAX.0);
    let height = (area.height.checked_sub(3)? / mesh.rows.max(1)).min(TILE_MAX.1);
    (width >= TILE_MIN.0 && height >= TILE_MIN.1).then_some((width, height))
}

fn draw_tile(state: &State, device: &Device, canvas: &mut Canvas<'_>, area: Rect, is_chosen: bool) {
    if area.width < 4 || area.height < 2 {
        return;
    }
    let metric = &METRICS[state.settings.metric];
    let value = (metric.get)(device);
    let share = value.ok().zip((metric.limit)(device).ok()).map(|(value, limit)| value / limit);
    let (word, severity) = health_word(device);
    let id = if is_chosen { Role::Selected } else { Role::Strong };
    let rule = if device.location == Location::Remote { canvas.glyphs().dashed } else { canvas.glyphs().horizontal };
    canvas.say(area, 0, 0, &rule.repeat(usize::from(area.width)), Role::Dim);
    let at = canvas.say(area, 0, 0, &device.id.to_string(), id) + 1;
    let label = canvas.clean(&device.label());
    canvas.field(area, Field::left(at, area.width - at.min(area.width)), 0, &label, canvas.style(Role::Plain));
    let inside = Rect { y: area.y + 1, height: area.height - 1, ..area };
    if let Some(share) = share {
        canvas.buffer.set_style(inside.intersection(canvas.buffer.area), canvas.theme.heat(share));
    }
    let heat = share.map_or_else(Default::default, |share| canvas.theme.heat(share));
    let text = value.map_or_else(|reason| format!("N/A {reason}"), |value| metric.unit.show(value));
    let text = canvas.clean(&text);
    let role = if value.is_err() { canvas.style(Role::Dim) } else { heat };
    canvas.put(inside, 0, 0, &text, role);
    if let Some(share) = share.filter(|_| inside.height > 1 && area.width >= BAR_MIN) {
        canvas.bar(inside, Field::left(0, area.width.saturating_sub(7)), 1, share, heat);
        let health = if severity > ttmon_print::Severity::Unknown { canvas.style(severity_role(severity)) } else { heat };
        canvas.put(inside, area.width.saturating_sub(6), 1, word, health);
    } else if inside.height > 1 {
        let is_judged = severity > ttmon_print::Severity::Unknown || share.is_none();
        canvas.put(inside, 0, 1, word, if is_judged { canvas.style(severity_role(severity)) } else { heat });
    }
}

fn legend(state: &State, snapshot: &Snapshot, canvas: &mut Canvas<'_>, area: Rect) {
    let metric = &METRICS[state.settings.metric];
    let limit = snapshot.devices.iter().filter_map(|device| (metric.limit)(device).ok()).reduce(f64::max);
    let remote = snapshot.devices.iter().filter(|device| device.location == Location::Remote).count();
    let mut text =
        limit.map_or_else(|| "no limit to measure against".to_owned(), |limit| format!("scale 0 to {}", metric.unit.show(limit)));
    if remote > 0 {
        text += &format!(" {} {remote} chips over Ethernet are dashed", canvas.glyphs().between);
    }
    let text = canvas.clean(&text);
    canvas.say(area, 1, area.height.saturating_sub(1), &text, Role::Dim);
}
