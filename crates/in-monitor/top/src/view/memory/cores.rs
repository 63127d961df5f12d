//! Circular buffers on the grid of cores: the load of each core, from the union of the address ranges of all programs.

use ratatui_core::layout::Rect;
use ttmon_model::ledger::LedgerCircular;
use ttmon_model::snapshot::Circular;
use ttmon_model::{Device, Snapshot};
use ttmon_print::quantity::size;

use super::super::hidden_rows;
use crate::canvas::{Canvas, Field};
use crate::theme::Role;

/// Columns before the cells, for the number of the row.
const LABEL_COLUMNS: u16 = 4;
/// Approximate L1 of a core. Every chip has 1.4 or 1.5 MiB.
const CORE_BYTES: f64 = 1_499_136.0;
/// No chip has a larger grid of cores.
const GRID_MAX: usize = 16;

/// Returns the circular buffers of programs on a device. Global ones are inside L1 buffers, which are already counted.
pub(super) fn on<'a>(snapshot: &'a Snapshot, device: &Device) -> impl Iterator<Item = LedgerCircular> + use<'a> {
    let id = device.id;
    let is_here = move |circular: &&Circular| circular.devices.contains(&id) && !circular.entry.is_global;
    snapshot.circulars.iter().filter(is_here).map(|circular| circular.entry)
}

pub(super) fn draw(snapshot: &Snapshot, device: &Device, canvas: &mut Canvas<'_>, area: Rect) {
    let circulars: Vec<LedgerCircular> = on(snapshot, device).collect();
    let grid = grid(&circulars);
    let most = grid.iter().flatten().copied().max().unwrap_or(0);
    canvas.rule(area, 0, &format!("CBs by core (x, y), most {}", size(most)), Role::Title);
    hidden_rows(canvas, area, 0..usize::from(area.height.saturating_sub(2)), grid.len());
    let steps = canvas.glyphs().spark;
    for column in 0..u16::try_from(grid.first().map_or(0, Vec::len)).unwrap_or(0) {
        canvas.field(area, Field::right(LABEL_COLUMNS + column * 2, 2), 1, &(column % 10).to_string(), canvas.style(Role::Dim));
    }
    for (row, (number, cores)) in (2..area.height).zip(grid.iter().enumerate()) {
        canvas.field(area, Field::right(0, LABEL_COLUMNS - 1), row, &number.to_string(), canvas.style(Role::Dim));
        for (column, bytes) in (0u16..).zip(cores) {
            // Each core has two columns, so that a square of cores is drawn square.
            let style = canvas.theme.load(*bytes as f64 / CORE_BYTES);
            canvas.put(area, LABEL_COLUMNS + column * 2, row, &cell(*bytes, most, steps).repeat(2), style);
        }
    }
}

/// Returns the bytes on each core, by row. Bytes that several programs use one after another are counted once.
fn grid(circulars: &[LedgerCircular]) -> Vec<Vec<u64>> {
    let columns = circulars.iter().map(|one| usize::from(one.cores[2]) + 1).max().unwrap_or(0).min(GRID_MAX);
    let rows = circulars.iter().map(|one| usize::from(one.cores[3]) + 1).max().unwrap_or(0).min(GRID_MAX);
    let mut covered = vec![vec![0u64; columns]; rows];
    let mut reached = covered.clone();
    // In address order, each range adds only the bytes after the end of all earlier ranges.
    let mut ranges: Vec<(u64, u64, [u8; 4])> =
        circulars.iter().map(|one| (one.address, one.address.saturating_add(one.size), one.cores)).collect();
    ranges.sort_unstable();
    for (from, to, cores) in ranges {
        let [left, top, right, bottom] = cores.map(usize::from);
        for row in top..rows.min(bottom + 1) {
            for column in left..columns.min(right + 1) {
                let new = to.saturating_sub(from.max(reached[row][column]));
                covered[row][column] = covered[row][column].saturating_add(new);
                reached[row][column] = reached[row][column].max(to);
            }
        }
    }
    covered
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index of a glyph")]
fn cell(bytes: u64, most: u64, steps: &'static [&'static str]) -> &'static str {
    if bytes == 0 || most == 0 {
        return " ";
    }
    let share = bytes as f64 / most as f64;
    steps[((share * steps.len() as f64).ceil() as usize).clamp(1, steps.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_share_bytes_are_counted_once() {
        let one = |address, size, cores| LedgerCircular { allocator: 0, chip: None, program: 1, address, size, cores, is_global: false };
        let grid = grid(&[one(0, 100, [0, 0, 1, 1]), one(50, 100, [0, 0, 0, 0]), one(0, 10, [0, 0, 1, 0])]);
        assert_eq!(grid, [[150, 100], [100, 100]]);
    }
}
