//! Fragmentation over time: the share of the free memory that is not in the largest free block, of the worst allocator on a device.

use ratatui_core::layout::Rect;
use ttmon_model::units::Unit;
use ttmon_model::{Device, Snapshot};
use ttmon_print::quantity::percent;

use super::super::chart::{Chart, Line};
use super::super::charts::{duration, frame};
use crate::canvas::{Canvas, spark};
use crate::history::History;
use crate::settings::ZOOMS;
use crate::state::State;
use crate::theme::Role;

/// Minimum rows between the map and the events for a chart, and for a line. The list gets the rest.
pub(super) const ROOM_FOR_CHART: u16 = 14;
pub(super) const CHART_ROWS: u16 = 6;
pub(super) const ROOM_FOR_LINE: u16 = 6;
const SPARK_COLUMNS: u8 = 12;

pub(super) fn is_known(state: &State, device: &Device) -> bool {
    History::fragmented().any(|(metric, _)| state.host().history.column(device.id, metric).is_some())
}

pub(super) fn draw(state: &State, snapshot: &Snapshot, device: &Device, canvas: &mut Canvas<'_>, area: Rect) {
    let seconds = ZOOMS[state.settings.zoom];
    let columns = History::fragmented().filter_map(|(metric, kind)| Some((metric, kind, state.host().history.column(device.id, metric)?)));
    let last = |values: &std::collections::VecDeque<f32>| {
        let value = values.get(values.len().checked_sub(state.host().back() + 1)?).copied()?;
        (!value.is_nan()).then(|| percent(value.into()))
    };
    if area.height < CHART_ROWS {
        let mut at = canvas.text(area, 1, 0, &format!("Fragmentation, {}:", duration(seconds)), Role::Title) + 1;
        for (metric, kind, values) in columns {
            let means = state.host().history.means(
                device.id,
                metric,
                SPARK_COLUMNS.into(),
                (seconds / u64::from(SPARK_COLUMNS)).max(1),
                state.host().back(),
            );
            at = canvas.text(area, at, 0, &format!("{} ", kind.name()), Role::Dim);
            at = canvas.put(area, at, 0, &spark(&means, (0.0, 1.0), canvas.glyphs().spark), canvas.theme.hue(0));
            at = canvas.text(area, at, 0, &format!(" {}", last(values).unwrap_or_default()), Role::Plain) + 2;
        }
        return;
    }
    let named = |values| last(values).unwrap_or_else(|| "N/A".to_owned());
    let lines: Vec<Line<'_>> =
        columns.map(|(_, kind, values)| Line { name: format!("{} {}", kind.name(), named(values)), values }).collect();
    // A chart with one line has no legend.
    let only = if let [line] = lines.as_slice() { format!(" {}", line.name) } else { String::new() };
    let title = format!("Fragmentation{only}, the last {}", duration(seconds));
    let chart = Chart { title, unit: Unit::Ratio, lines, ..frame(state, snapshot) };
    chart.draw(canvas, Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area });
}
