//! The wiring of the chips: one tile per chip in the colour of the selected metric, frames around boards and trays, and links.

use ratatui_core::layout::{Position, Rect};
use ratatui_core::style::{Modifier, Style};
use ttmon_model::mesh::{self, Link, LinkKind, Mesh, Tile};
use ttmon_model::snapshot::{Location, Severity};
use ttmon_model::{Device, DeviceId, Snapshot};
use ttmon_print::quantity::{ABSENT, percent, size};
use ttmon_print::{link_text, temperature_text};

use super::devices::{in_unit_of_limit, last_minute};
use crate::canvas::{Canvas, folded, spark, width};
use crate::metric::METRICS;
use crate::state::TopState;
use crate::theme::Role;

/// Largest tile. A larger one would have empty space.
const TILE_MAX: (u16, u16) = (40, 11);
const TILE_MIN: (u16, u16) = (8, 2);
/// Space between tiles for links: columns and rows.
const LINK_GAP: (u16, u16) = (3, 1);
const SPARK_COLUMNS_MAX: u16 = 30;
const BAR_MIN: u16 = 12;

pub(super) fn draw(state: &TopState, snapshot: &Snapshot, canvas: &mut Canvas<'_>, body: Rect) {
    let metric = &METRICS[state.settings.metric];
    let mesh = mesh::of(snapshot, state.cluster.as_ref());
    let head = format!("Mesh: {}, {}", mesh.origin, metric.title);
    canvas.rule(Rect { height: 1, ..body }, 0, &head, Role::Title);
    let area = Rect { y: body.y + 1, height: body.height - 1, ..body };
    let Some((grid, is_wired)) = MeshGrid::fitting(&mesh, area) else {
        return super::paragraph(canvas, area, 1, "the mesh does not fit this screen; the main view (1) lists every chip");
    };
    grid.frames(&mesh, canvas, area);
    let chosen = state.chosen_device(snapshot).map(|device| device.id);
    for tile in &mesh.tiles {
        let Some(device) = snapshot.device(tile.device) else { continue };
        draw_tile(state, device, canvas, grid.place(&mesh, tile).intersection(area), Some(device.id) == chosen);
    }
    if is_wired {
        mesh.links.iter().for_each(|link| draw_link(&mesh, link, &grid, canvas, area));
    }
    legend(state, snapshot, &mesh, is_wired, canvas, area);
}

pub(crate) fn device_at(state: &TopState, snapshot: &Snapshot, body: Rect, at: Position) -> Option<DeviceId> {
    let mesh = mesh::of(snapshot, state.cluster.as_ref());
    let area = Rect { y: body.y + 1, height: body.height - 1, ..body };
    let (grid, _) = MeshGrid::fitting(&mesh, area)?;
    mesh.tiles.iter().find(|tile| grid.place(&mesh, tile).contains(at)).map(|tile| tile.device)
}

#[derive(Clone)]
struct MeshGrid {
    area: Rect,
    width: u16,
    height: u16,
    gap: (u16, u16),
    /// Columns and rows that a frame takes on each side.
    border: u16,
    rows: u16,
}

impl MeshGrid {
    /// Returns the first layout that fits: with room for links and frames, with frames, or only tiles. The second value is whether links
    /// fit.
    fn fitting(mesh: &Mesh, area: Rect) -> Option<(Self, bool)> {
        let wired = (!mesh.links.is_empty()).then(|| Self::new(mesh, area, LINK_GAP, true)).flatten();
        if let Some(grid) = wired {
            return Some((grid, true));
        }
        let forms = [((1, 1), true), ((1, 0), true), ((1, 0), false)];
        forms.into_iter().find_map(|(gap, is_framed)| Self::new(mesh, area, gap, is_framed)).map(|grid| (grid, false))
    }

    /// Uses the largest tiles that fit, between `TILE_MIN` and `TILE_MAX`.
    fn new(mesh: &Mesh, area: Rect, gap: (u16, u16), is_framed: bool) -> Option<Self> {
        let border = u16::from(is_framed && !mesh.frames.is_empty());
        let frames = 2 * border * u16::try_from(mesh.frames.len()).ok()?;
        let width = (area.width.checked_sub(1 + frames)? / mesh.columns.max(1)).min(TILE_MAX.0 + gap.0).checked_sub(gap.0)?;
        let height = (area.height.checked_sub(2 + 2 * border)? / mesh.rows.max(1)).min(TILE_MAX.1 + gap.1).checked_sub(gap.1)?;
        let is_enough = width >= TILE_MIN.0 && height >= TILE_MIN.1;
        is_enough.then_some(Self { area, width, height, gap, border, rows: mesh.rows })
    }

    fn left(&self, mesh: &Mesh, column: u16) -> u16 {
        let frames = mesh.frame_at(column).map_or(0, |frame| u16::try_from(frame).unwrap_or(0) * 2 + 1) * self.border;
        self.area.x + 1 + column * (self.width + self.gap.0) + frames
    }

    fn place(&self, mesh: &Mesh, tile: &Tile) -> Rect {
        let y = self.area.y + self.border + tile.row * (self.height + self.gap.1);
        Rect { x: self.left(mesh, tile.column), y, width: self.width, height: self.height }
    }

    fn frames(&self, mesh: &Mesh, canvas: &mut Canvas<'_>, area: Rect) {
        for frame in mesh.frames.iter().filter(|_| self.border > 0) {
            let left = self.left(mesh, frame.columns.start) - 1;
            let right = self.left(mesh, frame.columns.end - 1) + self.width;
            let height = self.rows * (self.height + self.gap.1) - self.gap.1 + 2;
            canvas.frame(Rect { x: left, y: self.area.y, width: right + 1 - left, height }.intersection(area), &frame.name);
        }
    }
}

/// Draws a link between two tiles, with the number of links: `═2═` side by side, `║2` one below the other.
fn draw_link(mesh: &Mesh, link: &Link, grid: &MeshGrid, canvas: &mut Canvas<'_>, area: Rect) {
    let Some((first, second)) = mesh.neighbours(link) else { return };
    let (from, to) = (grid.place(mesh, first), grid.place(mesh, second));
    let kind = mesh.kind(link);
    let glyphs = canvas.glyphs();
    let [across, down] = if kind == LinkKind::Internal { glyphs.links } else { glyphs.cables };
    let number = link.count.map_or_else(String::new, |count| count.to_string());
    let (x, y, text) = if first.row == second.row {
        let room = to.x.saturating_sub(from.right());
        let count = format!("{across}{number}");
        let rest = across.repeat(usize::from(room.saturating_sub(width(&count))));
        (from.right(), from.y + from.height / 2, format!("{count}{rest}"))
    } else {
        let name = if number.is_empty() && kind == LinkKind::Internal { " internal".to_owned() } else { number };
        (from.x + from.width / 3, from.bottom(), format!("{down}{name}"))
    };
    let style = canvas.theme.hue(if kind == LinkKind::Internal { 2 } else { 1 });
    canvas.put(area, x.saturating_sub(area.x), y.saturating_sub(area.y), &text, style);
}

fn draw_tile(state: &TopState, device: &Device, canvas: &mut Canvas<'_>, area: Rect, is_chosen: bool) {
    if area.width < 4 || area.height < 2 {
        return;
    }
    let metric = &METRICS[state.settings.metric];
    let value = metric.get(device);
    let share = metric.share(device);
    let (word, severity) = device.health_word();
    let rule = if device.location == Location::Remote { canvas.glyphs().dashed } else { canvas.glyphs().horizontal };
    canvas.text(area, 0, 0, &rule.repeat(usize::from(area.width)), Role::Frame);
    let at = canvas.text(area, 0, 0, &device.id.to_string(), if is_chosen { Role::Selected } else { Role::Title }) + 1;
    // A name that does not fit is left out: in a galaxy every tile would have the same stump.
    let label = canvas.clean(&device.label());
    if at + width(&label) <= area.width {
        canvas.text(area, at, 0, &label, Role::Plain);
    }
    let inside = Rect { y: area.y + 1, height: area.height - 1, ..area };
    let heat = share.map_or_else(Style::new, |share| canvas.theme.heat(share));
    (0..inside.height).for_each(|row| canvas.repeat(inside, 0..inside.width, row, " ", heat));
    let health = if severity > Severity::Unknown || share.is_none() { canvas.style(severity.into()) } else { heat };
    let shown = |value: f64| in_unit_of_limit(metric, value, metric.limit(device).ok());
    let text = value.map_or_else(|_| ABSENT.to_owned(), shown);
    let value_style = if value.is_err() { canvas.style(Role::Dim) } else { heat.add_modifier(Modifier::BOLD) };
    let end = canvas.put(inside, 0, 0, &text, value_style);
    let right = |text: &str| inside.width.saturating_sub(width(text));
    let sign = canvas.glyphs().sign(severity);
    let mut below: Vec<(String, Style)> = Vec::new();
    // The word is beside the value if there is room, otherwise below it. In a tile of one row, it replaces a missing value, or a sign is
    // shown instead.
    match () {
        () if end < right(word) => _ = canvas.put(inside, right(word), 0, word, health),
        () if inside.height > 1 => below.push((word.to_owned(), health)),
        () if value.is_err() => {
            canvas.repeat(inside, 0..inside.width, 0, " ", Style::new());
            canvas.put(inside, 0, 0, word, health);
        }
        () if severity > Severity::Unknown => _ = canvas.put(inside, right(sign), 0, sign, health),
        () => {}
    }
    let is_wide = area.width >= BAR_MIN;
    below.extend(share.filter(|_| is_wide).map(|share| {
        let bar = ttmon_print::bar_cells(share, usize::from(area.width.saturating_sub(6)), canvas.glyphs().fill);
        (format!("{bar} {:>4}", percent(share)), heat)
    }));
    below.extend(more(device, metric.chart.name, inside.width, canvas).into_iter().map(|text| (text, heat)));
    match value {
        Ok(_) if is_wide => {
            let values = last_minute(state.host(), device, state.settings.metric, inside.width.min(SPARK_COLUMNS_MAX));
            let highest = values.iter().flatten().copied().fold(0.0, f32::max);
            let most = metric.limit(device).unwrap_or(f64::from(highest));
            let style = share.map_or(heat, |share| canvas.theme.heat_spark(share));
            below.push((spark(&values, (0.0, most), canvas.glyphs().spark), style));
        }
        Ok(_) => {}
        Err(reason) => {
            let dim = canvas.style(Role::Dim);
            below.extend(folded(reason.explanation(), inside.width).into_iter().map(|line| (line.to_owned(), dim)));
        }
    }
    for (row, (text, style)) in (1..inside.height).zip(below) {
        canvas.put(inside, 0, row, &text, style);
    }
}

/// The other values that a tile has room for, each in the longest form that fits: a value that is cut would be another value.
fn more(device: &Device, shown: &str, columns: u16, canvas: &Canvas<'_>) -> Vec<String> {
    let temperature = temperature_text(device, canvas.glyphs().celsius).ok();
    let power = device.power.ok().map(|power| format!("{:.0}W", power.0));
    let both = [temperature, power].into_iter().flatten().collect::<Vec<_>>();
    // A narrow tile has the same line as its neighbours, not the one that happens to fit.
    let is_wide = columns >= BAR_MIN;
    let dram = device.memory.dram.used.ok().filter(|_| is_wide && shown != "dram").map(size);
    let l1 = device.memory.l1.used.ok().filter(|_| is_wide && shown != "l1").map(size);
    let link = link_text(device).ok().filter(|_| is_wide);
    let named = |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("{name} {value}"));
    let forms = [
        vec![(!both.is_empty()).then(|| both.join("  ")), (!both.is_empty()).then(|| both.join(" ")), both.first().cloned()],
        vec![named("DRAM", &dram)],
        vec![named("L1", &l1)],
        vec![named("PCIe", &link), link.clone()],
    ];
    forms.into_iter().filter_map(|forms| forms.into_iter().flatten().find(|text| width(text) <= columns)).collect()
}

fn legend(state: &TopState, snapshot: &Snapshot, mesh: &Mesh, is_wired: bool, canvas: &mut Canvas<'_>, area: Rect) {
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
        _ if !mesh.links.is_empty() && !is_wired => parts.push("links need a larger screen".to_owned()),
        0 => {}
        1 => parts.push("1 pair is linked further across".to_owned()),
        far => parts.push(format!("{far} pairs are linked further across")),
    }
    let [internal, cable] = [canvas.glyphs().links[0], canvas.glyphs().cables[0]];
    for (glyph, name, kind) in [(internal, "internal", LinkKind::Internal), (cable, "cable", LinkKind::Cable)] {
        if is_wired && mesh.links.iter().any(|link| mesh.kind(link) == kind) {
            parts.push(format!("{glyph}{glyph} {name}"));
        }
    }
    let between = format!(" {} ", canvas.glyphs().between);
    while parts.len() > 1 && width(&parts.join(&between)) + 1 > area.width {
        parts.pop();
    }
    canvas.text(area, 1, area.height.saturating_sub(1), &parts.join(&between), Role::Dim);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{blank, machine};
    use crate::theme::Theme;
    use ratatui_core::buffer::Buffer;
    use ttmon_model::units::Celsius;

    fn legend_of(snapshot: &Snapshot, ascii: bool) -> String {
        let mut state = blank((80, 24), Theme { ascii, ..Theme::default() });
        state.settings.metric = crate::metric::by_name("temperature").unwrap();
        let area = Rect { x: 0, y: 0, width: 100, height: 1 };
        let mut buffer = Buffer::empty(area);
        let canvas = &mut Canvas { buffer: &mut buffer, theme: state.theme };
        legend(&state, snapshot, &mesh::of(snapshot, None), true, canvas, area);
        crate::tests::text(&buffer).trim().to_owned()
    }

    #[test]
    fn the_legend_names_scale_dashes_and_links() {
        let mut snapshot = machine::n300();
        assert_eq!(legend_of(&snapshot, false), "scale 0 to 75°C · the chip over Ethernet is dashed · ══ internal");
        snapshot.devices[1].temperature_limit = Ok(Celsius(90.0));
        assert_eq!(legend_of(&snapshot, true), "scale 0 to each chip's own limit - the chip over Ethernet is dashed - == internal");
        let glyphs = Theme { ascii: true, ..Theme::default() }.glyphs();
        assert_ne!(glyphs.dashed, glyphs.horizontal);
    }

    #[test]
    fn wires_stay_between_their_tiles() {
        let mut snapshot = machine::galaxy();
        snapshot.devices.truncate(2);
        let link = Link { ends: (DeviceId(0), DeviceId(1)), count: Some(12) };
        let mesh = Mesh { links: vec![link], ..mesh::of(&snapshot, None) };
        let area = Rect { x: 0, y: 0, width: 80, height: 10 };
        let grid = MeshGrid::new(&mesh, area, LINK_GAP, true).unwrap();
        let mut buffer = Buffer::empty(area);
        draw_link(&mesh, &link, &grid, &mut Canvas { buffer: &mut buffer, theme: Theme::default() }, area);
        assert_eq!(crate::tests::text(&buffer).trim(), "━12");
    }
}
