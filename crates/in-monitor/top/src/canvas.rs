//! Drawing: text in cells, clipped to an area, and the shapes that all views use.

use std::ops::Range;

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Modifier, Style};
use ttmon_print::text::{self, Align, Cut};

use crate::theme::{Glyphs, Role, Theme};

pub(crate) struct Canvas<'a> {
    pub(crate) buffer: &'a mut Buffer,
    pub(crate) theme: Theme,
}

impl Canvas<'_> {
    pub(crate) fn glyphs(&self) -> &'static Glyphs {
        self.theme.glyphs()
    }

    pub(crate) fn style(&self, role: Role) -> Style {
        self.theme.style(role)
    }

    /// Replaces characters that must not be drawn, such as control characters.
    pub(crate) fn clean(&self, text: &str) -> String {
        text::clean(text, self.theme.ascii)
    }

    /// Writes a text at a column and row of an area, cleaned and clipped to the area. Returns the column after it.
    pub(crate) fn put(&mut self, area: Rect, column: u16, row: u16, text: &str, style: impl Into<Style>) -> u16 {
        if column >= area.width || row >= area.height {
            return column;
        }
        // Reset the old style first: otherwise bold over dim would be both.
        let style = Style::reset().patch(style);
        if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            // Most texts are ASCII, which needs no search for graphemes and widths.
            let end = area.width.min(self.buffer.area.right().saturating_sub(area.x));
            let mut at = column;
            for byte in text.bytes().take(usize::from(end.saturating_sub(column))) {
                self.buffer[(area.x + at, area.y + row)].set_char(char::from(byte)).set_style(style);
                at += 1;
            }
            return at;
        }
        let text = self.clean(text);
        let (end, _) = self.buffer.set_stringn(area.x + column, area.y + row, text, usize::from(area.width - column), style);
        end - area.x
    }

    /// Draws a glyph of one column in each of these columns of an area, as far as they are in the area.
    pub(crate) fn repeat(&mut self, area: Rect, columns: Range<u16>, row: u16, glyph: &str, style: impl Into<Style>) {
        let area = area.intersection(self.buffer.area);
        let style = Style::reset().patch(style);
        for column in columns.start..columns.end.min(if row < area.height { area.width } else { 0 }) {
            self.buffer[(area.x + column, area.y + row)].set_symbol(glyph).set_style(style);
        }
    }

    /// Like [`Self::put`], in the style of a role.
    pub(crate) fn text(&mut self, area: Rect, column: u16, row: u16, text: &str, role: Role) -> u16 {
        self.put(area, column, row, text, self.theme.style(role))
    }

    /// Writes a text into a field, cut or padded to its width.
    pub(crate) fn field(&mut self, area: Rect, at: Field, row: u16, text: &str, style: impl Into<Style>) {
        let width = usize::from(at.width.min(area.width.saturating_sub(at.column)));
        let cut = text::cut(&self.clean(text), width, at.cut, self.glyphs().ellipsis);
        self.put(area, at.column, row, &text::pad(&cut, width, at.align), style);
    }

    pub(crate) fn rule(&mut self, area: Rect, row: u16, text: &str, role: Role) {
        if row >= area.height {
            return;
        }
        self.repeat(area, 0..area.width, row, self.glyphs().horizontal, self.style(Role::Frame));
        if !text.is_empty() && area.width > 4 {
            let room = usize::from(area.width - 4);
            let cut = text::cut(&self.clean(text), room, Cut::End, self.glyphs().ellipsis);
            self.text(area, 1, row, &format!(" {cut} "), role);
        }
    }

    /// Draws a bar. Each cell has the colour of the load that fills the bar up to that cell.
    pub(crate) fn bar(&mut self, area: Rect, at: Field, row: u16, share: f64) {
        let text = ttmon_print::bar_cells(share, usize::from(at.width), self.glyphs().fill);
        let (empty, frame) = (self.glyphs().fill[0], self.style(Role::Frame));
        for (cell, symbol) in (0..at.width).zip(text.split_inclusive(|_| true)) {
            let style = if symbol == empty { frame } else { self.theme.load(f64::from(cell + 1) / f64::from(at.width)) };
            self.repeat(area, at.column + cell..at.column + cell + 1, row, symbol, style);
        }
    }

    /// Shows an area as outdated: dim and without colour. Reversed and underlined cells stay reversed and underlined.
    pub(crate) fn fade(&mut self, area: Rect) {
        for position in area.intersection(self.buffer.area).positions() {
            let cell = &mut self.buffer[position];
            let kept = cell.modifier & (Modifier::REVERSED | Modifier::UNDERLINED);
            cell.set_style(Style::reset().add_modifier(kept | Modifier::DIM));
        }
    }

    /// Clears an area and draws a frame with a title around it. Returns the inner area.
    pub(crate) fn window(&mut self, area: Rect, title: &str) -> Rect {
        let area = area.intersection(self.buffer.area);
        (0..area.height).for_each(|row| self.repeat(area, 0..area.width, row, " ", Style::reset()));
        if area.width < 2 || area.height < 2 {
            return Rect { width: 0, height: 0, ..area };
        }
        self.frame(area, title);
        Rect { x: area.x + 1, y: area.y + 1, width: area.width - 2, height: area.height - 2 }
    }

    pub(crate) fn frame(&mut self, area: Rect, title: &str) {
        if area.width < 2 || area.height < 2 {
            return;
        }
        let glyphs = self.glyphs();
        let (last, [top_left, top_right, bottom_left, bottom_right]) = (area.width - 1, glyphs.corners);
        for (row, left, right) in [(0, top_left, top_right), (area.height - 1, bottom_left, bottom_right)] {
            self.text(area, 0, row, left, Role::Frame);
            self.repeat(area, 1..last, row, glyphs.horizontal, self.style(Role::Frame));
            self.text(area, last, row, right, Role::Frame);
        }
        for row in 1..area.height - 1 {
            self.text(area, 0, row, glyphs.vertical, Role::Frame);
            self.text(area, area.width - 1, row, glyphs.vertical, Role::Frame);
        }
        let room = usize::from(area.width.saturating_sub(4));
        let title = text::cut(&self.clean(title), room, Cut::End, glyphs.ellipsis);
        self.text(area, 1, 0, &format!(" {title} "), Role::Title);
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) column: u16,
    pub(crate) width: u16,
    pub(crate) align: Align,
    pub(crate) cut: Cut,
}

impl Field {
    pub(crate) fn left(column: u16, width: u16) -> Self {
        Self { column, width, align: Align::Left, cut: Cut::Middle }
    }

    /// Left-aligned, and cut at its end.
    pub(crate) fn start(column: u16, width: u16) -> Self {
        Self { cut: Cut::End, ..Self::left(column, width) }
    }

    pub(crate) fn right(column: u16, width: u16) -> Self {
        Self { column, width, align: Align::Right, cut: Cut::End }
    }
}

pub(crate) fn width(text: &str) -> u16 {
    u16::try_from(text::width(text)).unwrap_or(u16::MAX)
}

/// Wraps a text at this many columns, between words if possible. No text is lost.
pub(crate) fn folded(text: &str, columns: u16) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    let mut end = fitting(rest, columns);
    while end < rest.len() {
        let blank = rest[..end].rfind(' ').filter(|at| *at > end / 4);
        let (line, behind) = rest.split_at(blank.unwrap_or(end));
        lines.push(line);
        rest = behind.strip_prefix(' ').unwrap_or(behind);
        end = fitting(rest, columns);
    }
    if !rest.is_empty() || lines.is_empty() {
        lines.push(rest);
    }
    lines
}

/// Returns the length of the beginning of a line that fits this many columns, at least one character. The rest is not read, because a line
/// of another host may have any length.
fn fitting(line: &str, columns: u16) -> usize {
    let mut used = 0;
    let is_beyond = |(at, character): &(usize, char)| {
        used += text::width(character.encode_utf8(&mut [0; 4]));
        used > usize::from(columns) && *at > 0
    };
    line.char_indices().find(is_beyond).map_or(line.len(), |(at, _)| at)
}

/// Returns values as a text of small bars within a range; gaps are blank.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index of a glyph")]
pub(crate) fn spark(values: &[Option<f32>], range: (f64, f64), glyphs: &[&str]) -> String {
    let (low, high) = range;
    let most = glyphs.len() - 1;
    let cell = |value: &Option<f32>| match value {
        None => " ",
        Some(value) if high > low => {
            let share = ((f64::from(*value) - low) / (high - low)).clamp(0.0, 1.0);
            glyphs[(share * most as f64).round() as usize]
        }
        Some(_) => glyphs[0],
    };
    values.iter().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_text_replaces_text_and_style() {
        let area = Rect { x: 0, y: 0, width: 4, height: 1 };
        let mut buffer = Buffer::empty(area);
        let canvas = &mut Canvas { buffer: &mut buffer, theme: Theme::default() };
        canvas.text(area, 0, 0, "----", Role::Dim);
        canvas.text(area, 1, 0, "ab", Role::Strong);
        assert_eq!(buffer[(1, 0)].modifier, Modifier::BOLD);
    }

    #[test]
    fn nothing_is_lost_where_a_text_is_folded() {
        assert_eq!(folded("cannot be reached (Connection refused)", 20), ["cannot be reached", "(Connection refused)"]);
        assert_eq!(folded("/usr/bin/python3.12 x", 8), ["/usr/bin", "/python3", ".12 x"]);
        assert_eq!(folded("名前名前", 5), ["名前", "名前"]);
        assert_eq!(folded("名前", 1), ["名", "前"]);
        assert_eq!(folded("", 5), [""]);
        assert_eq!(folded("ab ", 2), ["ab"]);
        // A text as long as a service may send is handled quickly.
        let long = "x".repeat(2 << 20);
        assert_eq!(folded(&long, 64).len(), long.len() / 64);
    }

    #[test]
    fn sparks_leave_gaps() {
        assert_eq!(spark(&[Some(0.0), None, Some(10.0)], (0.0, 10.0), &["_", "-", "#"]), "_ #");
        assert_eq!(spark(&[Some(3.0)], (3.0, 3.0), &["_", "#"]), "_");
    }
}
