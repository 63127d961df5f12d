//! All fields of one device: each with its value or the reason why it is missing, and the file of its source.

use ratatui_core::layout::Rect;
use ttmon_model::attributes::ReadInterval;
use ttmon_model::fields::{DEVICE, Section, Value};
use ttmon_model::units::Unit;
use ttmon_model::{Device, Kind, Snapshot};
use ttmon_print::quantity::{short, size, size_or_absent, with_unit};

use super::Extent;
use crate::canvas::{Canvas, Field};
use crate::state::TopState;
use crate::theme::Role;

struct DetailLine {
    name: String,
    value: String,
    from: &'static str,
    age: &'static str,
    role: Role,
}

/// Age of values that are read with every sample.
const NOW: &str = "now";
/// Minimum columns of a line with a source, and of a line with a source and an age.
const SOURCE_MIN: u16 = 56;
const AGE_MIN: u16 = 76;

const NAME_COLUMNS: u16 = 23;

/// Minimum width for two columns of lines. Each column has room for everything, and no number is cut.
const TWO_COLUMNS_MIN: u16 = 2 * (AGE_MIN + 1);

pub(super) fn draw(state: &TopState, snapshot: &Snapshot, canvas: &mut Canvas<'_>, body: Rect) {
    let Some(device) = state.chosen_device(snapshot) else { return };
    let mut head = format!("Device {} {}  {}", device.id, device.label(), device.state.name());
    // While there is no new sample, all values have the age of the last one.
    if state.host().is_stale() || state.is_frozen() {
        head += &format!("  as of {}", state.clock.second(snapshot.time));
    }
    canvas.rule(Rect { height: 1, ..body }, 0, &head, Role::Title);
    let area = Rect { y: body.y + 1, height: body.height - 1, ..body };
    let lines = lines(snapshot, device);
    let (columns, per_page) = page(area);
    let first = state.scroll.min(lines.len().saturating_sub(per_page));
    let width = area.width / columns;
    for (place, line) in (0u16..).zip(lines.iter().skip(first).take(per_page)) {
        let (column, row) = (place / area.height, place % area.height);
        draw_line(canvas, Rect { x: area.x + column * width, width: width - 1, ..area }, row, line);
    }
    super::hidden_rows(canvas, body, first..first + per_page, lines.len());
}

fn page(area: Rect) -> (u16, usize) {
    let columns: u16 = if area.width >= TWO_COLUMNS_MIN { 2 } else { 1 };
    (columns, usize::from(area.height) * usize::from(columns))
}

pub(super) fn extent(snapshot: &Snapshot, device: &Device, body: Rect) -> Extent {
    let (_, page) = page(Rect { height: body.height.saturating_sub(1), ..body });
    Extent { lines: lines(snapshot, device).len(), page }
}

fn draw_line(canvas: &mut Canvas<'_>, area: Rect, row: u16, line: &DetailLine) {
    if line.role == Role::Heading {
        canvas.text(area, 1, row, &line.name, Role::Heading);
        return;
    }
    canvas.field(area, Field::left(2, NAME_COLUMNS), row, &line.name, canvas.style(Role::Dim));
    // The reason of a missing value may use the column of the source.
    let is_absent = line.role == Role::Dim;
    let (from, age) = match area.width {
        _ if is_absent || line.from.is_empty() => (0, 0),
        AGE_MIN.. => (20, 6),
        SOURCE_MIN.. => (17, 0),
        _ => (0, 0),
    };
    let field = Field::start(NAME_COLUMNS + 3, area.width.saturating_sub(NAME_COLUMNS + 4 + from + age));
    canvas.field(area, field, row, &line.value, canvas.style(line.role));
    if from > 0 {
        canvas.field(area, Field::left(area.width - from - age, from - 1), row, line.from, canvas.style(Role::Dim));
    }
    if age > 0 {
        canvas.field(area, Field::left(area.width - age, age), row, line.age, canvas.style(Role::Dim));
    }
}

fn lines(snapshot: &Snapshot, device: &Device) -> Vec<DetailLine> {
    let mut lines = Vec::new();
    for section in Section::ALL {
        let fields: Vec<_> = DEVICE.iter().filter(|field| field.section == section).collect();
        if fields.is_empty() {
            continue;
        }
        lines.push(title(section.name()));
        for field in fields {
            let from = field.attr().map_or("", |attr| attr.attribute().file);
            let age = field.attr().map_or("", |attr| match attr.attribute().interval {
                ReadInterval::Dynamic => NOW,
                ReadInterval::Slow => "seldom",
                ReadInterval::Static => "once",
            });
            let (value, role) = match (field.get)(device) {
                Ok(value) => {
                    (Some(shown(&value, field.unit)).filter(|text| !text.is_empty()).unwrap_or_else(|| "none".to_owned()), Role::Plain)
                }
                Err(reason) => (format!("N/A: {}", reason.explanation()), Role::Dim),
            };
            lines.push(DetailLine { name: field.title.to_owned(), value, from, age, role });
        }
    }
    lines.push(title("KINDS OF MEMORY"));
    lines.extend(Kind::ALL.into_iter().map(|kind| kind_line(device, kind)));
    lines.push(title("PROCESSES"));
    for (process, use_of) in snapshot.processes_on(device.id) {
        let name = process.title().unwrap_or_else(|_| "?".to_owned());
        let dram = size_or_absent(use_of.kinds.dram());
        lines.push(DetailLine { from: process.status.name(), ..line(process.key.pid.to_string(), format!("{dram} {name}"), Role::Plain) });
    }
    lines
}

/// Formats a value in the detail view: rates as short as in the charts, everything else exactly.
fn shown(value: &Value, unit: Unit) -> String {
    match (value, unit) {
        (Value::Float(rate), Unit::BytesPerSecond | Unit::WordsPerSecond) => short(*rate, unit),
        _ => with_unit(value, unit),
    }
}

fn line(name: String, value: String, role: Role) -> DetailLine {
    DetailLine { name, value, from: "", age: "", role }
}

fn title(text: &str) -> DetailLine {
    line(text.to_owned(), String::new(), Role::Heading)
}

fn kind_line(device: &Device, kind: Kind) -> DetailLine {
    let memory = &device.memory.kinds[kind];
    let name = kind.name().to_owned();
    match memory.figure.used {
        Ok(used) => {
            let mut value = size(used);
            if let Ok(allocated) = memory.figure.allocated {
                value += &format!(", {} allocated", size(allocated));
            }
            if let Ok(count) = memory.figure.count {
                value += &format!(" in {count} buffers");
            }
            if let Ok(total) = memory.total {
                value += &format!(" of {}", size(total));
            }
            DetailLine { name, value, from: memory.figure.source.map_or("", |source| source.name()), age: NOW, role: Role::Plain }
        }
        Err(reason) => line(name, format!("N/A: {}", reason.explanation()), Role::Dim),
    }
}

/// Draws the available values beside a single device on a wide screen. The last line counts the missing values.
pub(super) fn side(state: &TopState, snapshot: &Snapshot, canvas: &mut Canvas<'_>, area: Rect) {
    let Some(device) = state.chosen_device(snapshot) else { return };
    for row in 0..area.height {
        canvas.text(area, 0, row, canvas.glyphs().vertical, Role::Dim);
    }
    let inner = Rect { x: area.x + 1, width: area.width - 1, ..area };
    let all = lines(snapshot, device);
    let missing = all.iter().filter(|line| line.role == Role::Dim).count();
    let mut shown: Vec<DetailLine> = all.into_iter().filter(|line| line.role != Role::Dim).collect();
    // Leave out a heading without values.
    let is_bare = |index: usize| shown[index].role == Role::Heading && shown.get(index + 1).is_none_or(|next| next.role == Role::Heading);
    let bare: Vec<bool> = (0..shown.len()).map(is_bare).collect();
    let mut bare = bare.into_iter();
    shown.retain(|_| !bare.next().unwrap_or(false));
    let rows = inner.height.saturating_sub(u16::from(missing > 0));
    // The sources are only in the detail view, because the values need the room here.
    for (row, line) in (0..rows).zip(shown) {
        draw_line(canvas, inner, row, &DetailLine { from: "", age: "", ..line });
    }
    if missing > 0 {
        canvas.text(inner, 1, inner.height - 1, &format!("{missing} values are not available; 3 shows why"), Role::Dim);
    }
}
