//! Properties of any machine, width and style.

use proptest::prelude::*;
use ttmon_model::Snapshot;
use unicode_width::UnicodeWidthStr;

use super::{machine, printed, style};
use crate::{Style, banks, blocks, list, memory, memory_end, query, snapshot, text, who};

fn screen(machine: &Snapshot, style: &Style<'_>) -> String {
    printed(|out| snapshot(machine, style, out))
}

/// Returns everything that is printed as text.
fn everything(machine: &Snapshot, style: &Style<'_>) -> String {
    screen(machine, style)
        + &printed(|out| list(machine, style, out))
        + &printed(|out| query(machine, &[], style, out))
        + &printed(|out| who(machine, style, out))
}

fn without_colors(text: &str) -> String {
    let mut plain = String::new();
    for (index, part) in text.split("\u{1b}[").enumerate() {
        plain.push_str(if index == 0 { part } else { part.split_once('m').unwrap().1 });
    }
    plain
}

/// Whether a character is a control character, an escape, or changes the writing direction.
fn is_harmful(character: char) -> bool {
    (character.is_control() && character != '\n') || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[test]
fn a_ledger_of_nonsense_is_printed() {
    let machine = machine::overfull();
    assert!(printed(|out| banks(&machine, &style(80), out)).lines().all(|line| text::width(line) <= 80));
}

proptest! {
    #![proptest_config(machine::cases())]

    #[test]
    fn lines_fit_and_boxes_are_straight(machine in machine::any_snapshot(), width in 80usize..260, ascii: bool) {
        for line in screen(&machine, &Style { ascii, ..style(width) }).lines() {
            prop_assert!(line.width() <= width && text::width(line) <= width, "{line}");
            if line.starts_with(['┌', '├', '└', '│', '+', '|']) {
                prop_assert_eq!(text::width(line), width, "{}", line);
            }
        }
    }

    #[test]
    fn memory_fits(machine in machine::any_hooked(), width in 80usize..160) {
        let style = style(width);
        let text = printed(|out| memory(&machine, true, &style, out))
            + &printed(|out| banks(&machine, &style, out))
            + &printed(|out| blocks(&machine, &style, out))
            + &printed(|out| memory_end(&machine, &style, out));
        prop_assert!(text.lines().all(|line| text::width(line) <= width), "{text}");
    }

    #[test]
    fn nothing_harmful_is_printed(machine in machine::any_snapshot(), ascii: bool) {
        let text = everything(&machine, &Style { ascii, ..style(120) });
        prop_assert!(!text.contains(is_harmful));
        prop_assert!(!ascii || text.is_ascii());
    }

    #[test]
    fn colours_change_nothing_else(machine in machine::any_snapshot(), width in 80usize..260) {
        let colored = screen(&machine, &Style { colors: true, ..style(width) });
        prop_assert_eq!(without_colors(&colored), screen(&machine, &style(width)));
    }

    #[test]
    fn narrow_is_eighty(machine in machine::any_snapshot(), width in 0usize..80) {
        prop_assert_eq!(screen(&machine, &style(width)), screen(&machine, &style(80)));
    }
}

/// A device's name never breaks a line, so each device and process has exactly one row.
#[test]
fn hostile_names_take_one_row_each() {
    let machine = machine::hostile();
    let text = screen(&machine, &style(80));
    let rows = text.lines().filter(|line| line.contains("Device open")).count();
    assert_eq!(rows, machine.processes.len(), "{text}");
}
