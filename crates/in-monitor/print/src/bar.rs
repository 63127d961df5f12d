//! Bars: `[████▌░░░]`.

use crate::style::Glyphs;

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
    use crate::Style;
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
                prop_assert_eq!(crate::text::width(&bar), columns);
            }
        }
    }
}
