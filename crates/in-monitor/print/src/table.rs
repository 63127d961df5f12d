//! A table in a box. Columns have widths for their longest content. One or more flexible columns take the rest of the line.

use std::io::{self, Write};

use ttmon_model::snapshot::Severity;

use crate::quantity::ABSENT;
use crate::style::{Glyphs, Style};
use crate::text::{Align, Cut, cut, pad, width};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    gap: usize,
    columns_min: usize,
    columns_max: usize,
    align: Align,
    is_flexible: bool,
}

impl Column {
    /// A column of numbers, right-aligned and never cut.
    pub(crate) const fn number(title: &'static str, columns: usize) -> Self {
        Self { align: Align::Right, columns_max: usize::MAX, ..Self::text(title, columns, usize::MAX) }
    }

    /// A column of text that grows with its content between two widths.
    pub(crate) const fn text(title: &'static str, columns_min: usize, columns_max: usize) -> Self {
        Self { title, gap: 1, columns_min, columns_max, align: Align::Left, is_flexible: false }
    }

    /// A column with text or a bar that takes the remaining width.
    pub(crate) const fn flexible(title: &'static str, columns_min: usize) -> Self {
        Self { is_flexible: true, ..Self::text(title, columns_min, usize::MAX) }
    }

    pub(crate) const fn gap(mut self, gap: usize) -> Self {
        self.gap = gap;
        self
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Cell {
    content: Content,
    severity: Severity,
    cut: Cut,
    /// Whether the cell also takes the next column, whose own cell is left out.
    is_double: bool,
}

#[derive(Clone, Debug)]
enum Content {
    Text(String),
    Named(String, String),
    Bar(f64),
}

/// Minimum columns of a part in parentheses. A shorter one would be useless.
const ASIDE_COLUMNS_MIN: usize = 9;

impl Cell {
    pub(crate) fn new(text: impl Into<String>, severity: Severity) -> Self {
        Self { content: Content::Text(text.into()), severity, cut: Cut::Middle, is_double: false }
    }

    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self::new(text, Severity::Fine)
    }

    pub(crate) fn blank() -> Self {
        Self::plain("")
    }

    pub(crate) fn absent() -> Self {
        Self::new(ABSENT, Severity::Unknown)
    }

    pub(crate) fn bar(ratio: f64) -> Self {
        Self { content: Content::Bar(ratio), ..Self::blank() }
    }

    pub(crate) fn named(name: impl Into<String>, aside: impl Into<String>) -> Self {
        Self { content: Content::Named(name.into(), aside.into()), ..Self::blank() }
    }

    pub(crate) fn cut_at_end(self) -> Self {
        Self { cut: Cut::End, ..self }
    }

    pub(crate) fn double(self) -> Self {
        Self { is_double: true, ..self }
    }

    fn width(&self) -> usize {
        match &self.content {
            Content::Text(text) | Content::Named(text, _) if !self.is_double => width(text),
            _ => 0,
        }
    }

    fn text(&self, columns: usize, style: &Style<'_>) -> String {
        let glyphs = style.glyphs();
        match &self.content {
            Content::Named(name, aside) if width(name) + ASIDE_COLUMNS_MIN <= columns => {
                cut(&format!("{name} ({aside})"), columns, Cut::End, glyphs.ellipsis)
            }
            Content::Text(text) | Content::Named(text, _) => cut(text, columns, self.cut, glyphs.ellipsis),
            Content::Bar(ratio) => bar(*ratio, columns, glyphs),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// Returns the columns inside the box. The frame and a space take two columns at each side.
pub(crate) fn inner_columns(style: &Style<'_>) -> usize {
    style.columns() - 4
}

impl Table {
    pub(crate) fn fits(&self, style: &Style<'_>) -> bool {
        let flexible: usize = self.columns.iter().filter(|column| column.is_flexible).map(|column| column.columns_min).sum();
        self.fixed_columns() + flexible <= inner_columns(style)
    }

    pub(crate) fn print(&self, title: Option<&str>, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
        let widths = self.widths(inner_columns(style));
        let [top, middle, bottom] = [0, 1, 2].map(|rule| rule_line(rule, style));
        let edge = style.glyphs().vertical;
        writeln!(out, "{top}")?;
        if let Some(title) = title {
            writeln!(out, "{edge} {} {edge}\n{middle}", pad(title, inner_columns(style), Align::Left))?;
        }
        let titles: Vec<Cell> = self.columns.iter().map(|column| Cell::plain(column.title)).collect();
        writeln!(out, "{edge} {} {edge}\n{middle}", self.line(&titles, &widths, style))?;
        for row in &self.rows {
            writeln!(out, "{edge} {} {edge}", self.line(row, &widths, style))?;
        }
        writeln!(out, "{bottom}")
    }

    fn line(&self, row: &[Cell], widths: &[usize], style: &Style<'_>) -> String {
        let mut line = String::new();
        let mut cells = row.iter().enumerate();
        while let Some((index, cell)) = cells.next() {
            let column = &self.columns[index];
            let mut columns = widths[index];
            if cell.is_double && cells.next().is_some() {
                columns += self.columns[index + 1].gap + widths[index + 1];
            }
            let text = cell.text(columns, style);
            let painted = style.paint(cell.severity, &text);
            let blank = " ".repeat(columns - width(&text));
            line.push_str(&" ".repeat(self.gap_before(index)));
            match column.align {
                Align::Left => line.extend([painted, blank]),
                Align::Right => line.extend([blank, painted]),
            }
        }
        line
    }

    fn gap_before(&self, index: usize) -> usize {
        if index == 0 { 0 } else { self.columns[index].gap }
    }

    fn widths(&self, columns: usize) -> Vec<usize> {
        let flexible_count = self.columns.iter().filter(|column| column.is_flexible).count().max(1);
        let left = columns.saturating_sub(self.fixed_columns());
        // The first column takes the remainder.
        let mut shares = std::iter::once(left / flexible_count + left % flexible_count).chain(std::iter::repeat(left / flexible_count));
        let mut width_of = |index: usize| match self.columns[index].is_flexible {
            true => shares.next().unwrap_or(0),
            false => self.fixed_width(index),
        };
        (0..self.columns.len()).map(&mut width_of).collect()
    }

    /// Returns the columns of all parts that are not flexible, including gaps.
    fn fixed_columns(&self) -> usize {
        let fixed = (0..self.columns.len()).filter(|index| !self.columns[*index].is_flexible).map(|index| self.fixed_width(index));
        let gaps = (0..self.columns.len()).map(|index| self.gap_before(index));
        fixed.chain(gaps).sum()
    }

    fn fixed_width(&self, index: usize) -> usize {
        let column = &self.columns[index];
        let widest = self.rows.iter().map(|row| row[index].width()).max().unwrap_or(0);
        widest.max(column.title.len()).clamp(column.columns_min, column.columns_max)
    }
}

fn rule_line(rule: usize, style: &Style<'_>) -> String {
    let glyphs = style.glyphs();
    let [left, right] = glyphs.rules[rule];
    format!("{left}{}{right}", glyphs.horizontal.repeat(style.columns() - 2))
}

/// Formats a bar: `[████▌░░░]`.
pub(crate) fn bar(ratio: f64, columns: usize, glyphs: &Glyphs) -> String {
    columns.checked_sub(2).map_or_else(|| " ".repeat(columns), |columns| format!("[{}]", bar_cells(ratio, columns, glyphs.fill)))
}

/// Returns the cells of a bar, each one of `fill`, from empty to full. Any value above 0 is visible, and only a full bar is drawn full.
pub fn bar_cells(ratio: f64, columns: usize, fill: &[&str]) -> String {
    let steps_per_cell = fill.len() - 1;
    let filled = filled_steps(ratio, columns * steps_per_cell);
    (0..columns).map(|column| fill[filled.saturating_sub(column * steps_per_cell).min(steps_per_cell)]).collect()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=steps, which are few")]
fn filled_steps(ratio: f64, steps: usize) -> usize {
    let rounded = (ratio.clamp(0.0, 1.0) * steps as f64).round() as usize;
    match ratio {
        _ if steps < 2 => rounded,
        _ if ratio <= 0.0 => 0,
        _ if ratio >= 1.0 => steps,
        _ => rounded.clamp(1, steps - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn drawn(ratio: f64, columns: usize) -> [String; 2] {
        [false, true].map(|ascii| bar(ratio, columns, Style { ascii, ..Style::plain("") }.glyphs()))
    }

    #[test]
    fn bars() {
        assert_eq!(drawn(0.0, 6), ["[░░░░]", "[----]"]);
        assert_eq!(drawn(0.375, 6), ["[█▌░░]", "[##--]"]);
        assert_eq!(drawn(0.0001, 6), ["[▏░░░]", "[#---]"]);
        assert_eq!(drawn(0.9999, 6), ["[███▉]", "[###-]"]);
        assert_eq!(drawn(7.0, 6), ["[████]", "[####]"]);
        assert_eq!(drawn(0.5, 1), [" ", " "]);
    }

    proptest! {
        #[test]
        fn as_wide_as_asked(ratio in -1.0..3.0, columns in 0usize..60) {
            for bar in drawn(ratio, columns) {
                prop_assert_eq!(width(&bar), columns);
            }
        }
    }
}
