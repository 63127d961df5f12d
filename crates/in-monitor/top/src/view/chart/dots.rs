//! A plot of dots: two columns and four rows of dots per cell; in ASCII one dot per cell.

use ratatui_core::layout::Rect;
use ratatui_core::style::Style;

use crate::canvas::Canvas;

const ACROSS: u16 = 2;
const DOWN: u16 = 4;

/// A plot of dots. Each cell has the hue that was drawn last.
pub(super) struct Dots {
    width: u16,
    height: u16,
    across: u16,
    down: u16,
    cells: Vec<(u8, u8)>,
}

impl Dots {
    pub(super) fn new(area: Rect, is_ascii: bool) -> Self {
        let (across, down) = if is_ascii { (1, 1) } else { (ACROSS, DOWN) };
        let cells = vec![(0, 0); usize::from(area.width) * usize::from(area.height)];
        Self { width: area.width, height: area.height, across, down, cells }
    }

    pub(super) fn columns(&self) -> usize {
        usize::from(self.width) * usize::from(self.across)
    }

    /// Returns the height of a share of the axis in dots. It is at least one.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place on a screen")]
    pub(super) fn level(&self, share: f64) -> u32 {
        let most = u32::from(self.height) * u32::from(self.down);
        1 + (share.clamp(0.0, 1.0) * f64::from(most.saturating_sub(1))).round() as u32
    }

    /// Returns the row of cells with the highest dot of a share of the axis.
    #[allow(clippy::cast_possible_truncation, reason = "a row of the plot")]
    pub(super) fn row(&self, share: f64) -> u16 {
        let most = u32::from(self.height) * u32::from(self.down);
        (most.saturating_sub(self.level(share)) / u32::from(self.down)) as u16
    }

    /// Sets the dots of a column above the level `from`, up to the level `to`.
    pub(super) fn fill(&mut self, column: usize, from: u32, to: u32, hue: u8) {
        // The braille block numbers its dots down the left column, down the right one, and then the lowest two.
        const BITS: [[u8; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];
        let most = u32::from(self.height) * u32::from(self.down);
        let (across, down) = (usize::from(self.across), u32::from(self.down));
        let cell_column = column / across;
        if cell_column >= usize::from(self.width) {
            return;
        }
        for level in from..to.min(most) {
            let y = most - 1 - level;
            let (row, dot) = ((y / down) as usize, (y % down) as usize);
            let cell = &mut self.cells[row * usize::from(self.width) + cell_column];
            *cell = (cell.0 | BITS[column % across][dot], hue);
        }
    }

    /// Draws the dots. `style` returns the style for a row and hue.
    pub(super) fn draw(&self, canvas: &mut Canvas<'_>, area: Rect, style: impl Fn(u16, u8) -> Style) {
        for (row, cells) in (0..).zip(self.cells.chunks(usize::from(self.width.max(1)))) {
            for (column, (bits, hue)) in (0..).zip(cells).filter(|(_, (bits, _))| *bits != 0) {
                let sign = if self.across == 1 { '*' } else { char::from_u32(0x2800 + u32::from(*bits)).unwrap_or('*') };
                canvas.repeat(area, column..column + 1, row, sign.encode_utf8(&mut [0; 4]), style(row, *hue));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_drawn_outside() {
        let area = Rect { x: 0, y: 0, width: 4, height: 2 };
        let mut dots = Dots::new(area, false);
        dots.fill(3, 2, u32::MAX, 0);
        dots.fill(usize::MAX, 0, 9, 0);
        dots.fill(8, 0, 9, 0);
        assert_eq!(dots.cells.iter().filter(|cell| cell.0 != 0).count(), 2);
        assert_eq!((dots.level(-1.0), dots.level(0.0), dots.level(1.0), dots.level(9.0)), (1, 1, 8, 8));
    }

    /// The name of a line is in the row of its dots.
    #[test]
    fn a_row_has_the_highest_dot() {
        for (height, is_ascii) in [(1, false), (8, false), (9, false), (9, true)] {
            for share in (0..=100).map(|percent| f64::from(percent) / 100.0) {
                let mut dots = Dots::new(Rect { x: 0, y: 0, width: 1, height }, is_ascii);
                let level = dots.level(share);
                dots.fill(0, level - 1, level, 0);
                assert_eq!(dots.cells.iter().position(|cell| cell.0 != 0), Some(dots.row(share).into()), "{height} {share}");
            }
        }
    }

    /// A very large screen has more cells than a 16-bit number can count.
    #[test]
    fn every_dot_of_the_largest_screen_is_where_it_belongs() {
        let area = Rect { x: 0, y: 0, width: 1000, height: 200 };
        let mut dots = Dots::new(area, true);
        dots.fill(7, 0, 1, 0);
        let mut buffer = ratatui_core::buffer::Buffer::empty(area);
        let canvas = &mut Canvas { buffer: &mut buffer, theme: crate::theme::Theme::default() };
        dots.draw(canvas, area, |_, _| Style::new());
        assert_eq!(buffer[(7, 199)].symbol(), "*");
        assert_eq!(buffer.content.iter().filter(|cell| cell.symbol() == "*").count(), 1);
    }
}
