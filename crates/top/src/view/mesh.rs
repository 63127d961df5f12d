//! Chips as they are wired: a tile each, coloured by the chosen metric.

use ratatui_core::layout::Rect;
use ttmon_model::mesh::{self, Link, Mesh, Tile};
use ttmon_model::snapshot::{Location, Severity};
use ttmon_model::{Device, Snapshot};
use ttmon_print::text::Cut;

use super::devices::severity_role;
use crate::canvas::{Canvas, Field, width};
use crate::metric::METRICS;
use crate::state::State;
use crate::theme::Role;

/// The most a tile takes; more would only be empty.
const TILE_MAX: (u16, u16) = (24, 5);
/// The least in which it says something.
const TILE_MIN: (u16, u16) = (9, 3);
/// Between tiles, where wires are drawn: columns and rows.
const LINK_GAP: (u16, u16) = (3, 1);
/// Narrower ones have no bar.
const BAR_MIN: u16 = 12;

pub(super) fn draw(state: &State, snapshot: &Snapshot, canvas: &mut Canvas<'_>, body: Rect) {
    let metric = &METRICS[state.settings.metric];
    let mesh = mesh::of(snapshot, state.cluster.as_ref());
    let head = format!("Mesh: {}, {}  m metric  [ ] device", mesh.origin, metric.title);
    canvas.rule(Rect { height: 1, ..body }, 0, &head, Role::Strong);
    let area = Rect { y: body.y + 1, height: body.height - 1, ..body };
    let wired = (!mesh.links.is_empty()).then(|| Grid::new(&mesh, area, LINK_GAP)).flatten();
    let Some(grid) = wired.clone().or_else(|| Grid::new(&mesh, area, (1, 0))) else {
        canvas.say(area, 1, 1, "the mesh does not fit this screen; the main view lists every chip", Role::Dim);
        return;
    };
    let chosen = state.chosen_device(snapshot).map(|device| device.id);
    for tile in &mesh.tiles {
        let Some(device) = snapshot.device(tile.device) else { continue };
        draw_tile(state, device, canvas, grid.place(tile).intersection(area), Some(device.id) == chosen);
    }
    if let Some(grid) = &wired {
        mesh.links.iter().for_each(|link| draw_link(&mesh, link, grid, canvas, area));
    }
    legend(state, snapshot, &mesh, wired.is_some(), canvas, area);
}

/// Where tiles are on the screen.
#[derive(Clone)]
struct Grid {
    area: Rect,
    /// Of a tile.
    width: u16,
    height: u16,
    /// Between tiles: columns and rows.
    gap: (u16, u16),
    tray_gap: u16,
}

impl Grid {
    /// The largest tiles that fit, between the most and the least.
    fn new(mesh: &Mesh, area: Rect, gap: (u16, u16)) -> Option<Self> {
        let trays = u16::from(mesh.trays() > 0) * mesh.trays();
        let width = (area.width.checked_sub(2 + trays)? / mesh.columns.max(1)).min(TILE_MAX.0).checked_sub(gap.0)?;
        let height = (area.height.checked_sub(3)? / mesh.rows.max(1)).min(TILE_MAX.1).checked_sub(gap.1)?;
        let is_enough = width + 1 >= TILE_MIN.0 && height >= TILE_MIN.1;
        is_enough.then_some(Self { area, width, height, gap, tray_gap: u16::from(mesh.trays() > 0) })
    }

    fn place(&self, tile: &Tile) -> Rect {
        let tray = tile.tray.map_or(0, |tray| tray * self.tray_gap);
        Rect {
            x: self.area.x + 1 + tile.column * (self.width + self.gap.0) + tray,
            y: self.area.y + 1 + tile.row * (self.height + self.gap.1),
            width: self.width,
            height: self.height,
        }
    }
}

/// Between two tiles, with how many wires there are: `═2═` beside each other, `║2` below each other.
fn draw_link(mesh: &Mesh, link: &Link, grid: &Grid, canvas: &mut Canvas<'_>, area: Rect) {
    let Some((first, second)) = mesh.neighbours(link) else { return };
    let (from, to) = (grid.place(first), grid.place(second));
    let [across, down] = canvas.glyphs().links;
    let (x, y, text) = if first.row == second.row {
        let room = to.x.saturating_sub(from.right());
        let count = format!("{across}{}", link.count);
        let rest = across.repeat(usize::from(room.saturating_sub(width(&count))));
        (from.right(), from.y + from.height / 2, format!("{count}{rest}"))
    } else {
        (from.x + from.width / 2, from.bottom(), format!("{down}{}", link.count))
    };
    canvas.say(area, x.saturating_sub(area.x), y.saturating_sub(area.y), &text, Role::Plain);
}

fn draw_tile(state: &State, device: &Device, canvas: &mut Canvas<'_>, area: Rect, is_chosen: bool) {
    if area.width < 4 || area.height < 2 {
        return;
    }
    let metric = &METRICS[state.settings.metric];
    let value = metric.get(device);
    let share = value.ok().zip(metric.limit(device).ok()).map(|(value, limit)| value / limit);
    let (word, severity) = device.health_word();
    let id = if is_chosen { Role::Selected } else { Role::Strong };
    let rule = if device.location == Location::Remote { canvas.glyphs().dashed } else { canvas.glyphs().horizontal };
    canvas.say(area, 0, 0, &rule.repeat(usize::from(area.width)), Role::Dim);
    let at = canvas.say(area, 0, 0, &device.id.to_string(), id) + 1;
    let label = canvas.clean(&device.label());
    let field = Field { cut: Cut::End, ..Field::left(at, area.width.saturating_sub(at)) };
    canvas.field(area, field, 0, &label, canvas.style(Role::Plain));
    let inside = Rect { y: area.y + 1, height: area.height - 1, ..area };
    if let Some(share) = share {
        canvas.buffer.set_style(inside.intersection(canvas.buffer.area), canvas.theme.heat(share));
    }
    let heat = share.map_or_else(Default::default, |share| canvas.theme.heat(share));
    let text = value.map_or_else(|reason| format!("N/A {reason}"), |value| metric.show(value));
    let text = canvas.clean(&text);
    let role = if value.is_err() { canvas.style(Role::Dim) } else { heat };
    canvas.put(inside, 0, 0, &text, role);
    if let Some(share) = share.filter(|_| inside.height > 1 && area.width >= BAR_MIN) {
        canvas.bar(inside, Field::left(0, area.width.saturating_sub(7)), 1, share, heat);
        let health = if severity > Severity::Unknown { canvas.style(severity_role(severity)) } else { heat };
        canvas.put(inside, area.width.saturating_sub(6), 1, word, health);
    } else if inside.height > 1 {
        let is_judged = severity > Severity::Unknown || share.is_none();
        canvas.put(inside, 0, 1, word, if is_judged { canvas.style(severity_role(severity)) } else { heat });
    }
}

fn legend(state: &State, snapshot: &Snapshot, mesh: &Mesh, is_wired: bool, canvas: &mut Canvas<'_>, area: Rect) {
    let metric = &METRICS[state.settings.metric];
    let limits: Vec<f64> = snapshot.devices.iter().filter_map(|device| metric.limit(device).ok()).collect();
    let mut parts = vec![match limits.split_first() {
        None => "no limit to measure against".to_owned(),
        Some((limit, others)) if others.iter().all(|other| other == limit) => format!("scale 0 to {}", metric.show(*limit)),
        Some(_) => "scale 0 to each chip's own limit".to_owned(),
    }];
    match snapshot.devices.iter().filter(|device| device.location == Location::Remote).count() {
        0 => {}
        1 => parts.push("the chip over Ethernet is dashed".to_owned()),
        remote => parts.push(format!("{remote} chips over Ethernet are dashed")),
    }
    match mesh.links.iter().filter(|link| mesh.neighbours(link).is_none()).count() {
        _ if !mesh.links.is_empty() && !is_wired => parts.push("wires need a larger screen".to_owned()),
        0 => {}
        1 => parts.push("1 pair is wired further across".to_owned()),
        far => parts.push(format!("{far} pairs are wired further across")),
    }
    let text = canvas.clean(&parts.join(&format!(" {} ", canvas.glyphs().between)));
    canvas.say(area, 1, area.height.saturating_sub(1), &text, Role::Dim);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{blank, machine};
    use crate::theme::Theme;
    use ratatui_core::buffer::Buffer;
    use ttmon_model::DeviceId;
    use ttmon_model::units::Celsius;

    fn legend_of(snapshot: &Snapshot, ascii: bool) -> String {
        let state = blank((80, 24), Theme { ascii, ..Theme::default() });
        let area = Rect { x: 0, y: 0, width: 80, height: 1 };
        let mut buffer = Buffer::empty(area);
        let canvas = &mut Canvas { buffer: &mut buffer, theme: state.theme };
        legend(&state, snapshot, &mesh::of(snapshot, None), false, canvas, area);
        crate::tests::text(&buffer).trim().to_owned()
    }

    #[test]
    fn the_legend_says_what_is_drawn() {
        let mut snapshot = machine::n300();
        assert_eq!(legend_of(&snapshot, false), "scale 0 to 75°C · the chip over Ethernet is dashed");
        snapshot.devices[1].temperature_limit = Ok(Celsius(90.0));
        assert_eq!(legend_of(&snapshot, true), "scale 0 to each chip's own limit - the chip over Ethernet is dashed");
        let glyphs = Theme { ascii: true, ..Theme::default() }.glyphs();
        assert_ne!(glyphs.dashed, glyphs.horizontal);
    }

    #[test]
    fn wires_stay_between_their_tiles() {
        let mut snapshot = machine::galaxy();
        snapshot.devices.truncate(2);
        let link = Link { ends: (DeviceId(0), DeviceId(1)), count: 12 };
        let mesh = Mesh { links: vec![link], ..mesh::of(&snapshot, None) };
        let area = Rect { x: 0, y: 0, width: 80, height: 10 };
        let grid = Grid::new(&mesh, area, LINK_GAP).unwrap();
        let mut buffer = Buffer::empty(area);
        draw_link(&mesh, &link, &grid, &mut Canvas { buffer: &mut buffer, theme: Theme::default() }, area);
        assert_eq!(crate::tests::text(&buffer).trim(), "═12");
    }
}
