//! The fill level of the banks of each allocator: its address space as one row of cells.

use ratatui_core::layout::Rect;
use ttmon_model::snapshot::{Allocator, Banks, Block};
use ttmon_model::{Device, Kind, Snapshot};
use ttmon_print::quantity::{ABSENT, percent, size, size_or_absent};

use super::super::hidden_rows;
use crate::canvas::{Canvas, Field};
use crate::layout::scrolled;
use crate::state::{MapCursor, TopState};
use crate::theme::Role;

const NAME_COLUMNS: u16 = 20;
const FIGURES_COLUMNS: u16 = 34;

/// Returns each kind of each open allocator on a device that has known banks.
pub(super) fn rows<'a>(snapshot: &'a Snapshot, device: &Device) -> Vec<(&'a Allocator, Kind, &'a Banks)> {
    let is_here = |allocator: &&Allocator| allocator.is_open && allocator.devices.contains(&device.id);
    let mut rows = Vec::new();
    for allocator in snapshot.allocators.iter().filter(is_here) {
        let kinds = allocator.kinds.iter().filter_map(|(kind, item)| Some((kind, item.as_ref()?.banks.as_ref().ok()?)));
        rows.extend(kinds.filter(|(_, banks)| banks.bank_bytes > 0).map(|(kind, banks)| (allocator, kind, banks)));
    }
    rows
}

pub(super) fn page(area: Rect) -> usize {
    usize::from(area.height.saturating_sub(1))
}

pub(super) fn draw(state: &TopState, snapshot: &Snapshot, device: &Device, canvas: &mut Canvas<'_>, area: Rect) {
    let rows = rows(snapshot, device);
    if rows.is_empty() || area.height < 2 {
        return;
    }
    let cursor = state.memory.cursor.map(|cursor| MapCursor { row: cursor.row.min(rows.len() - 1), ..cursor });
    let first = cursor.map_or(0, |cursor| scrolled(0, cursor.row, page(area), rows.len()));
    canvas.rule(area, 0, &title(snapshot, &rows, cursor, canvas), Role::Title);
    hidden_rows(canvas, area, first..first + page(area), rows.len());
    for (row, (index, (allocator, kind, banks))) in (1..area.height).zip(rows.into_iter().enumerate().skip(first)) {
        let name = format!("{}.{} {}", allocator.process.pid, allocator.slot, kind.name());
        canvas.field(area, Field::start(1, NAME_COLUMNS - 2), row, &name, canvas.style(Role::Plain));
        let width = area.width.saturating_sub(NAME_COLUMNS + FIGURES_COLUMNS);
        let at = area.width.saturating_sub(FIGURES_COLUMNS);
        match banks.no_blocks {
            Some(reason) => _ = canvas.text(area, NAME_COLUMNS, row, &format!("N/A: {}", reason.name()), Role::Dim),
            None if banks.table.is_empty() => {
                let field = Field::start(NAME_COLUMNS, width);
                canvas.field(area, field, row, "N/A: its blocks are unknown here", canvas.style(Role::Dim));
                canvas.text(area, at + 1, row, &figures(banks), Role::Plain);
            }
            None => {
                let here = cursor.filter(|cursor| cursor.row == index);
                let seen = span(&banks.table).map_or((0, 1), |whole| zoomed(whole, here));
                let cells = map(&banks.table, seen, usize::from(width));
                draw_cells(canvas, Rect { x: area.x + NAME_COLUMNS, y: area.y + row, width, height: 1 }, &cells);
                if let (Some(cursor), Some(whole)) = (here, span(&banks.table)) {
                    let cell = cell_of(address_of(whole, cursor), seen, width);
                    let place = Rect { x: area.x + NAME_COLUMNS + cell, y: area.y + row, width: 1, height: 1 };
                    canvas.buffer.set_style(place.intersection(canvas.buffer.area), canvas.theme.style(Role::Selected));
                }
                canvas.text(area, at + 1, row, &figures(banks), Role::Plain);
            }
        }
    }
}

/// Draws used cells in the colour of a device, free cells faint, and the largest free block in the colour of normal values.
fn draw_cells(canvas: &mut Canvas<'_>, area: Rect, cells: &[usize]) {
    let glyphs = canvas.glyphs().map;
    let styles = [canvas.style(Role::Frame), canvas.theme.load(0.0), canvas.theme.hue(0), canvas.theme.hue(0)];
    for (column, cell) in (0..area.width).zip(cells) {
        canvas.put(area, column, 0, glyphs[*cell], styles[*cell]);
    }
}

fn title(snapshot: &Snapshot, rows: &[(&Allocator, Kind, &Banks)], cursor: Option<MapCursor>, canvas: &Canvas<'_>) -> String {
    let [free, largest, part, used] = canvas.glyphs().map;
    let legend = format!("Banks: {used} used  {part} partly  {free} free  {largest} largest free  Tab: cursor");
    let Some(cursor) = cursor else { return legend };
    let (allocator, kind, banks) = rows[cursor.row];
    let Some(whole) = span(&banks.table) else { return legend };
    let address = address_of(whole, cursor);
    let zoom = if cursor.zoom > 0 { format!("  zoom x{}", 1u32 << cursor.zoom) } else { String::new() };
    let is_here = |block: &&Block| block.address <= address && address < block.address.saturating_add(block.size);
    let text = match banks.table.iter().find(is_here) {
        None => "not in a block".to_owned(),
        Some(block) if block.is_free => format!("{} free from {:#x}", size(block.size), block.address),
        Some(block) => {
            let name = super::list::named_at(snapshot, allocator.process, kind, block.address);
            let name = name.map_or_else(String::new, |name| format!(": {name}"));
            format!("{} used from {:#x}{name}", size(block.size), block.address)
        }
    };
    format!("{address:#x}: {text}{zoom}  z Z: zoom, Tab: list")
}

/// Returns the address range of a table, from its first block to the end of its last.
fn span(blocks: &[Block]) -> Option<(u64, u64)> {
    let (first, last) = (blocks.first()?, blocks.last()?);
    Some((first.address, last.address.saturating_add(last.size).max(first.address.saturating_add(1))))
}

#[allow(clippy::cast_possible_truncation, reason = "a part of a span of 64 bits")]
fn address_of((from, to): (u64, u64), cursor: MapCursor) -> u64 {
    from.saturating_add((u128::from(to - from) * u128::from(cursor.share) / u128::from(MapCursor::WHOLE)) as u64)
}

/// Returns the visible address range: the whole range, or a part around the cursor.
fn zoomed(whole: (u64, u64), cursor: Option<MapCursor>) -> (u64, u64) {
    let Some(cursor) = cursor.filter(|cursor| cursor.zoom > 0 && whole.0 < whole.1) else { return whole };
    let length = ((whole.1 - whole.0) >> cursor.zoom).max(1);
    let from = address_of(whole, cursor).saturating_sub(length / 2).clamp(whole.0, whole.1 - length);
    (from, from + length)
}

#[allow(clippy::cast_possible_truncation, reason = "a share of a screen's width")]
fn cell_of(address: u64, (from, to): (u64, u64), width: u16) -> u16 {
    let at = u128::from(address.saturating_sub(from)) * u128::from(width) / u128::from((to - from).max(1));
    (at as u16).min(width.saturating_sub(1))
}

/// Formats `frag 23%  largest 410.0KB x64`.
fn figures(banks: &Banks) -> String {
    let fragmentation = banks.fragmentation.map_or_else(|_| ABSENT.to_owned(), percent);
    let largest = size_or_absent(banks.largest_free_per_bank);
    format!("frag {fragmentation:>4} largest {largest} x{}", banks.banks)
}

/// Converts the blocks of a bank to this many cells, each an index of `Glyphs::map`: the state of most of its bytes, or partly used.
#[allow(clippy::cast_possible_truncation, reason = "a share of a screen's width")]
fn map(blocks: &[Block], (base, end): (u64, u64), width: usize) -> Vec<usize> {
    const FREE: usize = 0;
    const LARGEST: usize = 1;
    const PART: usize = 2;
    const USED: usize = 3;
    let total = u128::from(end.saturating_sub(base).max(1));
    let largest_free = blocks.iter().filter(|block| block.is_free).map(|block| block.size).max().unwrap_or(0);
    let edge = |cell: usize| base.saturating_add((total * cell as u128 / width.max(1) as u128) as u64);
    let mut next = 0;
    let cell = |index: usize| {
        let (from, to) = (edge(index), edge(index + 1).max(edge(index).saturating_add(1)));
        // Blocks are sorted, so those before this cell are not read again.
        while blocks.get(next).is_some_and(|block| block.address.saturating_add(block.size) <= from) {
            next += 1;
        }
        let inside = || blocks[next..].iter().take_while(|block| block.address < to);
        // A table from another program may be unsorted, and may have a byte in two blocks.
        let overlap = |block: &Block| block.address.saturating_add(block.size).min(to).saturating_sub(block.address.max(from));
        let used_bytes = inside().filter(|block| !block.is_free).map(overlap).fold(0u64, u64::saturating_add);
        let is_largest = inside().any(|block| block.is_free && block.size == largest_free);
        match used_bytes {
            0 if is_largest => LARGEST,
            0 => FREE,
            bytes if bytes >= to - from => USED,
            _ => PART,
        }
    };
    (0..width).map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn drawn(blocks: &[Block], width: usize) -> String {
        let Some(whole) = span(blocks) else { return String::new() };
        map(blocks, whole, width).into_iter().map(|cell| [".", "-", "+", "#"][cell]).collect()
    }

    fn block(address: u64, size: u64, is_free: bool) -> Block {
        Block { address, size, is_free }
    }

    #[test]
    fn a_cell_shows_the_state_of_most_of_its_bytes() {
        let blocks = [block(100, 20, false), block(120, 10, true), block(130, 10, false), block(140, 60, true)];
        assert_eq!(drawn(&blocks, 10), "##.#------");
        assert_eq!(drawn(&blocks, 5), "#+---");
        assert_eq!(drawn(&[], 5), "");
        assert_eq!(drawn(&[block(0, 64, true)], 4), "----");
    }

    /// A zoomed map shows the bytes around the cursor, and the cursor is in its cell.
    #[test]
    fn zooming_keeps_the_cursor_in_sight() {
        for share in [0, 1, MapCursor::WHOLE / 3, MapCursor::WHOLE - 1] {
            for zoom in 0..=8 {
                let (whole, cursor) = ((1000, 1_000_000), MapCursor { row: 0, share, zoom });
                let (from, to) = zoomed(whole, Some(cursor));
                let address = address_of(whole, cursor);
                assert!(whole.0 <= from && to <= whole.1 && (from..to).contains(&address), "{cursor:?}: {from} {to} {address}");
                assert!(cell_of(address, (from, to), 60) < 60);
            }
        }
        assert_eq!(zoomed((0, 1), Some(MapCursor { row: 0, share: 5, zoom: 8 })), (0, 1));
    }

    proptest! {
        #[test]
        fn a_table_that_makes_no_sense_breaks_nothing(blocks in prop::collection::vec((any::<u64>(), any::<u64>(), any::<bool>()), 1..9)) {
            let blocks: Vec<Block> = blocks.into_iter().map(|(address, size, is_free)| block(address, size, is_free)).collect();
            prop_assert_eq!(drawn(&blocks, 60).len(), 60);
        }

        #[test]
        fn always_as_wide_as_requested(
            sizes in prop::collection::vec((1u64..1 << 40, any::<bool>()), 1..40),
            base in 0u64..1 << 50,
            width in 0usize..200,
        ) {
            let mut at = base;
            let next = |(size, is_free): &(u64, bool)| {
                let next = block(at, *size, *is_free);
                at += size;
                next
            };
            let blocks: Vec<Block> = sizes.iter().map(next).collect();
            prop_assert_eq!(drawn(&blocks, width).len(), width);
        }
    }
}
