//! Text on a terminal: width, cutting, padding, wrapping, and filtering of control characters.

use std::io::{self, Write};

use unicode_width::UnicodeWidthChar;

use crate::Style;

/// Where a long text is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// In the middle: paths and commands are most useful at both ends.
    Middle,
    /// At the end: sentences are most useful at the beginning.
    End,
}

/// On which side a short text is padded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// On the right: the text is left-aligned.
    Left,
    /// On the left: the text is right-aligned, as numbers are.
    Right,
}

/// Returns the columns of a text. Each character is counted separately, as terminals do.
pub fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

fn char_width(character: char) -> usize {
    character.width().unwrap_or(0)
}

/// See [`crate::Style::clean`].
pub fn clean(text: &str, is_ascii: bool) -> String {
    let mut cleaned = String::with_capacity(text.len());
    for character in text.chars() {
        let is_separator = matches!(character, '\u{2028}' | '\u{2029}' | '\u{ad}');
        let is_harmful = is_separator || char_width(character) == 0;
        match character {
            _ if is_harmful => cleaned.push(if is_ascii { '?' } else { '·' }),
            _ if !is_ascii || character.is_ascii() => cleaned.push(character),
            '°' => {}
            '·' => cleaned.push('-'),
            '…' => cleaned.push_str(".."),
            _ => cleaned.push('?'),
        }
    }
    cleaned
}

/// Shortens a text to at most this many columns.
pub fn cut(text: &str, columns: usize, place: Cut, ellipsis: &str) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let Some(left) = columns.checked_sub(width(ellipsis)) else {
        return String::new();
    };
    let tail_columns = if place == Cut::Middle { left / 2 } else { 0 };
    let head = take_columns(text.chars(), left - tail_columns);
    let tail = take_columns(text.chars().rev(), tail_columns);
    head.into_iter().chain(ellipsis.chars()).chain(tail.into_iter().rev()).collect()
}

fn take_columns(characters: impl Iterator<Item = char>, columns: usize) -> Vec<char> {
    let mut taken = 0;
    characters
        .take_while(|character| {
            taken += char_width(*character);
            taken <= columns
        })
        .collect()
}

/// Pads a text to this many columns.
pub fn pad(text: &str, columns: usize, align: Align) -> String {
    let blank = " ".repeat(columns.saturating_sub(width(text)));
    match align {
        Align::Left => format!("{text}{blank}"),
        Align::Right => format!("{blank}{text}"),
    }
}

/// Breaks a sentence into lines between words; a word longer than a line is cut.
pub fn wrap(text: &str, columns: usize, ellipsis: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let word = cut(word, columns, Cut::End, ellipsis);
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(&word) <= columns => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// Formats rows with aligned parts, separated by two spaces.
pub fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    // The last part of a row does not widen its column.
    let wide = |column: usize| rows.iter().filter(|row| row.len() > column + 1).map(|row| width(&row[column])).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(wide).collect();
    let line = |row: &Vec<String>| {
        let padded: Vec<String> = row.iter().zip(&widths).map(|(part, columns)| pad(part, *columns, Align::Left)).collect();
        padded.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// Prints rows with aligned parts.
pub(crate) fn print_aligned(rows: &[Vec<String>], style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    aligned(rows).iter().try_for_each(|line| writeln!(out, "{}", style.clean(line)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cuts_in_the_middle() {
        for (columns, expected) in [(26, "/usr/bin/python3 serve.py"), (12, "/usr/b…ve.py"), (2, "/…"), (1, "…"), (0, "")] {
            assert_eq!(cut("/usr/bin/python3 serve.py", columns, Cut::Middle, "…"), expected);
        }
        assert_eq!(cut("Device open (no tracking)", 12, Cut::End, ".."), "Device ope..");
        assert_eq!(cut("名前名前", 5, Cut::Middle, "…"), "名…前");
    }

    #[test]
    fn escapes_and_turned_text_do_not_pass() {
        assert_eq!(clean("\u{1b}[31mx\n\u{202e}y\u{9b}\u{200b}\u{2028}", false), "·[31mx··y···");
        assert_eq!(clean("\u{1b}[31mx\n\u{202e}y", true), "?[31mx??y");
        assert_eq!(clean("temperature 71 of 75 °C · é名…", true), "temperature 71 of 75 C - ??..");
        assert_eq!(clean("é名🙂", false), "é名🙂");
    }

    #[test]
    fn wraps_between_words() {
        assert_eq!(wrap("one two three", 8, "…"), ["one two", "three"]);
        assert_eq!(wrap("incomprehensibility ok", 8, "…"), ["incompr…", "ok"]);
    }

    #[test]
    fn aligns_columns_but_not_last_words() {
        let rows = [vec!["a".to_owned(), "free".to_owned()], vec!["bcd".to_owned(), "12".to_owned(), "x".to_owned()]];
        assert_eq!(aligned(&rows), ["a    free", "bcd  12  x"]);
    }

    proptest! {
        #[test]
        fn never_wider_than_asked(text: String, columns in 0usize..40, is_ascii: bool) {
            let cleaned = clean(&text, is_ascii);
            prop_assert!(!is_ascii || cleaned.is_ascii());
            prop_assert!(!cleaned.chars().any(char::is_control));
            for place in [Cut::Middle, Cut::End] {
                prop_assert!(width(&cut(&cleaned, columns, place, "…")) <= columns);
            }
            prop_assert!(width(&pad(&cleaned, columns, Align::Right)) >= columns);
        }
    }
}
