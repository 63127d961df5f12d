//! The query for the terminal's background: sent after the first frame, with or without an answer.

use std::time::{Duration, Instant};

use ttmon_testing::{Color, Terminal, until};

use crate::screen::start_top_with;

const QUESTION: &str = "\x1b]11;?\x1b\\";
const LIGHT: &str = "\x1b]11;rgb:ffff/ffff/ffff\x1b\\";
/// A later answer is ignored.
const LIMIT: Duration = Duration::from_millis(50);

/// Colour of the first word of the title in true colour: on dark, on light.
const ON_DARK: Color = Color::Rgb(0x7c, 0xc7, 0xff);
const ON_LIGHT: Color = Color::Rgb(0x0a, 0x58, 0xb8);

fn start(variables: &[(&str, &str)]) -> Terminal {
    let variables: Vec<_> = [("COLORTERM", "truecolor")].iter().chain(variables).copied().collect();
    let terminal = start_top_with(80, 24, "--sim n300 --view 3", &variables);
    terminal.wait_for("3 Detail");
    terminal
}

fn start_with_question() -> Terminal {
    let terminal = start(&[]);
    terminal.wait_written(0, QUESTION);
    terminal
}

fn quit(mut terminal: Terminal) {
    terminal.press("q");
    let (status, after) = terminal.end();
    assert!(status.success(), "{status:?}");
    after.assert_restored();
}

#[test]
fn an_answer_in_time_changes_the_colours() {
    // On a busy machine, an answer that was written at once may still be too late.
    for _ in 0..30 {
        let mut terminal = start_with_question();
        let written = terminal.written();
        assert!(written.find("Quit") < written.find(QUESTION), "the first frame does not wait: {written:?}");
        terminal.press(LIGHT);
        // The next key is handled after the answer.
        terminal.expect("2", "2 Charts");
        let color = terminal.color(1, 0);
        quit(terminal);
        if color == Some(ON_LIGHT) {
            return;
        }
        assert_eq!(color, Some(ON_DARK));
    }
    panic!("no answer was in time");
}

#[test]
fn a_late_answer_is_neither_a_colour_nor_keys() {
    let mut terminal = start_with_question();
    let since = Instant::now();
    until("too late for an answer", || {
        terminal.expect("2", "2 Charts");
        terminal.expect("3", "3 Detail");
        since.elapsed() >= 2 * LIMIT
    });
    terminal.press(LIGHT);
    // If the answer were read as keys, it would show the main view and another device.
    let screen = terminal.expect("?", "Help: ");
    assert!(screen.contains("3 Detail"), "{screen}");
    let screen = terminal.expect("?", "Device 0 ");
    assert!(screen.contains("3 Detail"), "{screen}");
    assert_eq!(terminal.color(1, 0), Some(ON_DARK));
    quit(terminal);
}

#[test]
fn nothing_is_asked_where_it_would_not_help() {
    for variable in [("COLORFGBG", "0;15"), ("COLORFGBG", "15;0"), ("NO_COLOR", "1"), ("TERM", "linux"), ("TERM", "dumb")] {
        let mut terminal = start(&[variable]);
        terminal.expect("2", "2 Charts");
        assert!(!terminal.written().contains("\x1b]11"), "{variable:?}");
        let expected = if variable.1 == "0;15" { ON_LIGHT } else { ON_DARK };
        if variable.0 == "COLORFGBG" {
            assert_eq!(terminal.color(1, 0), Some(expected));
        }
        quit(terminal);
    }
}

#[test]
fn a_pipe_is_not_asked() {
    let output = crate::command(&["top", "--sim", "n300"]).output().unwrap();
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("top needs a terminal"), "{output:?}");
}
