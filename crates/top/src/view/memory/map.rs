//! How the banks of each allocator are filled: its address space as one row of cells.

use ratatui_core::layout::Rect;
use ttmon_model::snapshot::{Allocator, Banks, Block};
use ttmon_model::{Device, Kind, Snapshot};
use ttmon_print::quantity::{ABSENT, percent, size_or_absent};
use ttmon_print::text::Cut;

use super::super::{more, on_the_rule};
use crate::canvas::{Canvas, Field};
use crate::theme::Role;

/// Columns before the map, and behind it.
const NAME_COLUMNS: u16 = 20;
const FIGURES_COLUMNS: u16 = 34;

/// Each kind of each open allocator on a device whose banks are known.
pub(super) fn rows<'a>(snapshot: &'a Snapshot, device: &Device) -> Vec<(&'a Allocator, Kind, &'a Banks)> {
    let is_here = |allocator: &&Allocator| allocator.is_open && allocator.devices.contains(&device.id);
    let mut rows = Vec::new();
    for allocator in snapshot.allocators.iter().filter(is_here) {
        let kinds = allocator.kinds.iter().filter_map(|(kind, item)| Some((kind, item.as_ref()?.banks.as_ref().ok()?)));
        rows.extend(kinds.filter(|(_, banks)| banks.bank_bytes > 0).map(|(kind, banks)| (allocator, kind, banks)));
    }
    rows
}

/// How many of them are seen at once: a rule goes off.
pub(super) fn page(area: Rect) -> usize {
    usize::from(area.height.saturating_sub(1))
}

pub(super) fn draw(snapshot: &Snapshot, device: &Device, canvas: &mut Canvas<'_>, area: Rect, first: usize) {
    let rows = rows(snapshot, device);
    if rows.is_empty() || area.height < 2 {
        return;
    }
    let [free, largest, part, used] = canvas.glyphs().map;
    let title = format!("A bank, low to high: {used} used  {part} partly  {free} free  {largest} largest free");
    canvas.rule(area, 0, &title, Role::Strong);
    let hidden = more(canvas, first, rows.len().saturating_sub(first + page(area)));
    on_the_rule(canvas, area, &hidden);
    for (row, (allocator, kind, banks)) in (1..area.height).zip(rows.into_iter().skip(first)) {
        let name = format!("{}.{} {}", allocator.process.pid, allocator.slot, kind.name());
        canvas.field(area, Field { cut: Cut::End, ..Field::left(1, NAME_COLUMNS - 2) }, row, &name, canvas.style(Role::Plain));
        let width = area.width.saturating_sub(NAME_COLUMNS + FIGURES_COLUMNS);
        let at = area.width.saturating_sub(FIGURES_COLUMNS);
        match banks.no_blocks {
            Some(reason) => _ = canvas.say(area, NAME_COLUMNS, row, &format!("N/A: {}", reason.explanation()), Role::Dim),
            None if banks.table.is_empty() => {
                let field = Field { cut: Cut::End, ..Field::left(NAME_COLUMNS, width) };
                canvas.field(area, field, row, "N/A: its blocks are not told here", canvas.style(Role::Dim));
                canvas.say(area, at + 1, row, &figures(banks), Role::Plain);
            }
            None => {
                canvas.say(area, NAME_COLUMNS, row, &map(&banks.table, usize::from(width), canvas.glyphs().map), Role::Plain);
                canvas.say(area, at + 1, row, &figures(banks), Role::Plain);
            }
        }
    }
}

/// `frag 23%  largest 410.0KB x64`
fn figures(banks: &Banks) -> String {
    let fragmentation = banks.fragmentation.map_or_else(|_| ABSENT.to_owned(), percent);
    let largest = size_or_absent(banks.largest_free_per_bank);
    format!("frag {fragmentation:>4} largest {largest} x{}", banks.banks)
}

/// The blocks of a bank as so many cells: each is what most of its bytes are, or partly used.
#[allow(clippy::cast_possible_truncation, reason = "a share of a screen's width")]
fn map(blocks: &[Block], width: usize, [free, largest, part, used]: [&'static str; 4]) -> String {
    let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else { return String::new() };
    let total = u128::from(last.address.saturating_add(last.size).saturating_sub(first.address).max(1));
    let largest_free = blocks.iter().filter(|block| block.is_free).map(|block| block.size).max().unwrap_or(0);
    let base = first.address;
    let edge = |cell: usize| base.saturating_add((total * cell as u128 / width.max(1) as u128) as u64);
    let mut next = 0;
    let cell = |index: usize| {
        let (from, to) = (edge(index), edge(index + 1).max(edge(index).saturating_add(1)));
        // Blocks are in order: those before this cell are not looked at again.
        while blocks.get(next).is_some_and(|block| block.address.saturating_add(block.size) <= from) {
            next += 1;
        }
        let inside = || blocks[next..].iter().take_while(|block| block.address < to);
        // Somebody else's table may be out of order, and say of a byte that it is in two blocks.
        let overlap = |block: &Block| block.address.saturating_add(block.size).min(to).saturating_sub(block.address.max(from));
        let used_bytes = inside().filter(|block| !block.is_free).map(overlap).fold(0u64, u64::saturating_add);
        let is_largest = inside().any(|block| block.is_free && block.size == largest_free);
        match used_bytes {
            0 if is_largest => largest,
            0 => free,
            bytes if bytes >= to - from => used,
            _ => part,
        }
    };
    (0..width).map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GLYPHS: [&str; 4] = [".", "-", "+", "#"];

    fn block(address: u64, size: u64, is_free: bool) -> Block {
        Block { address, size, is_free }
    }

    #[test]
    fn cells_are_what_their_bytes_are() {
        let blocks = [block(100, 20, false), block(120, 10, true), block(130, 10, false), block(140, 60, true)];
        assert_eq!(map(&blocks, 10, GLYPHS), "##.#------");
        assert_eq!(map(&blocks, 5, GLYPHS), "#+---");
        assert_eq!(map(&[], 5, GLYPHS), "");
        assert_eq!(map(&[block(0, 64, true)], 4, GLYPHS), "----");
    }

    proptest! {
        #[test]
        fn a_table_that_makes_no_sense_breaks_nothing(blocks in prop::collection::vec((any::<u64>(), any::<u64>(), any::<bool>()), 1..9)) {
            let blocks: Vec<Block> = blocks.into_iter().map(|(address, size, is_free)| block(address, size, is_free)).collect();
            prop_assert_eq!(map(&blocks, 60, GLYPHS).len(), 60);
        }

        #[test]
        fn always_as_wide_as_asked(sizes in prop::collection::vec((1u64..1 << 40, any::<bool>()), 1..40), base in 0u64..1 << 50, width in 0usize..200) {
            let mut at = base;
            let blocks: Vec<Block> = sizes.iter().map(|(size, is_free)| { let one = block(at, *size, *is_free); at += size; one }).collect();
            prop_assert_eq!(map(&blocks, width, GLYPHS).len(), width);
        }
    }
}
