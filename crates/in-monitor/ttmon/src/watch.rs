//! Repeated output. On a terminal it is drawn in place, and the terminal is restored at the end.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use ttmon_top::terminal::{self, Input, KeyCode, Mode, Session};

use crate::failure::Failure;
use crate::terminal::Terminal;

/// The alternate screen without a cursor. Lines are not wrapped: wrapped lines would push the first lines off the screen.
const MODE: Mode = Mode { enter: "\x1b[?1049h\x1b[?25l\x1b[?7l", leave: "\x1b[?7h\x1b[?25h\x1b[?1049l", is_raw: false };

/// Calls `print` once per interval until it fails.
pub(crate) fn repeat(interval: Duration, mut print: impl FnMut() -> Result<(), Failure>) -> Result<(), Failure> {
    repeat_while(interval, || print().map(|()| true))
}

/// Calls `print` once per interval until it returns false or fails.
pub(crate) fn repeat_while(interval: Duration, mut print: impl FnMut() -> Result<bool, Failure>) -> Result<(), Failure> {
    let mut next = Instant::now();
    loop {
        if !print()? {
            return Ok(());
        }
        next = (next + interval).max(Instant::now());
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

enum Wake {
    Redraw,
    Scroll(Scroll),
    Quit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scroll {
    Lines(isize),
    Pages(isize),
    Home,
    End,
}

/// The alternate screen. The terminal is restored when this is dropped.
pub(crate) struct Screen {
    _session: Session,
    wakes: Receiver<Wake>,
}

impl Screen {
    /// Takes the terminal over. This starts threads, so call everything that forks before.
    pub(crate) fn enter() -> Result<Self, Failure> {
        let cannot = |error: io::Error| Failure::new(format!("cannot take over signals: {error}; check the limits of this user"));
        let (sender, wakes) = mpsc::channel();
        let keys = sender.clone();
        // A signal acts at once, even while a frame waits for a chip that hangs.
        let on_signal = move |signal| {
            // The default actions of these signals are known, and if the terminal is gone, there is nothing to draw.
            let _ = if signal == SIGWINCH { Ok(()) } else { terminal::obey(signal) };
            sender.send(Wake::Redraw).is_ok()
        };
        terminal::on_signals(&[SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH], on_signal).map_err(cannot)?;
        let session = Session::enter(&MODE)?;
        if session.has_keyboard() {
            let on_input = move |input| match input {
                Ok(Input::Key(key)) => wake_of(key.code).is_none_or(|wake| keys.send(wake).is_ok()),
                other => other.is_ok(),
            };
            terminal::on_input(on_input).map_err(cannot)?;
        }
        Ok(Self { _session: session, wakes })
    }

    /// Draws the output of `frame` (a text, and the terminal it is for) until `q` or a signal.
    pub(crate) fn watch(self, interval: Duration, mut frame: impl FnMut() -> Result<(Vec<u8>, Terminal), Failure>) -> Result<(), Failure> {
        let mut next = Instant::now();
        let mut first = 0;
        loop {
            let (text, terminal) = frame()?;
            next = (next + interval).max(Instant::now());
            loop {
                let (picture, shown) = in_place(&text, (terminal.columns, terminal.rows), first);
                first = shown;
                terminal::write(&picture)?;
                match self.wakes.recv_timeout(next.saturating_duration_since(Instant::now())) {
                    Ok(Wake::Quit) => return Ok(()),
                    // Redraw at once, without a new sample.
                    Ok(Wake::Scroll(scroll)) => first = scrolled(first, scroll, &text, terminal.rows),
                    Ok(Wake::Redraw) | Err(RecvTimeoutError::Timeout) => break,
                    // The signal thread has ended. Continue drawing; a signal will then end the program without restoring the screen.
                    Err(RecvTimeoutError::Disconnected) => {
                        thread::sleep(next.saturating_duration_since(Instant::now()));
                        break;
                    }
                }
            }
        }
    }
}

fn wake_of(key: KeyCode) -> Option<Wake> {
    let scroll = match key {
        KeyCode::Char('q' | 'Q') => return Some(Wake::Quit),
        KeyCode::Up | KeyCode::Char('k') => Scroll::Lines(-1),
        KeyCode::Down | KeyCode::Char('j') => Scroll::Lines(1),
        KeyCode::PageUp | KeyCode::Char('b') => Scroll::Pages(-1),
        KeyCode::PageDown | KeyCode::Char(' ') => Scroll::Pages(1),
        KeyCode::Home | KeyCode::Char('g') => Scroll::Home,
        KeyCode::End | KeyCode::Char('G') => Scroll::End,
        _ => return None,
    };
    Some(Wake::Scroll(scroll))
}

/// Returns the new first line after scrolling. `in_place` limits it to the end of the text.
fn scrolled(first: usize, scroll: Scroll, text: &[u8], rows: usize) -> usize {
    let page = isize::try_from(rows.saturating_sub(2)).unwrap_or(1).max(1);
    match scroll {
        Scroll::Lines(lines) => first.saturating_add_signed(lines),
        Scroll::Pages(pages) => first.saturating_add_signed(pages * page),
        Scroll::Home => 0,
        Scroll::End => lines(text).len(),
    }
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.strip_suffix(b"\n").unwrap_or(text).split(|byte| *byte == b'\n').collect()
}

/// Draws from the top left corner, with nothing below the last row. Each line is cleared before it is written: after a line as wide
/// as the terminal, the cursor is on its last character, which would be cleared too.
/// Begins with line `first`, or earlier if the text is too short. Returns the bytes and the index of the first line drawn.
fn in_place(text: &[u8], (columns, rows): (usize, usize), first: usize) -> (Vec<u8>, usize) {
    let lines = lines(text);
    let fits = rows.max(1);
    let is_cut = lines.len() > fits;
    let room = if is_cut { fits - 1 } else { lines.len() };
    let first = first.min(lines.len() - room);
    let mut more = format!("lines {}-{} of {}; arrows scroll, q quits", first + 1, first + room, lines.len());
    more.truncate(columns);
    let more = is_cut.then_some(more.as_bytes());
    let mut out = b"\x1b[H".to_vec();
    for (index, line) in lines[first..first + room].iter().copied().chain(more).enumerate() {
        out.extend(if index > 0 { &b"\r\n\x1b[K"[..] } else { b"\x1b[K" });
        out.extend(line);
    }
    // Clear the rows below, which an earlier frame may have used.
    if lines.len() < fits {
        out.extend(b"\r\n\x1b[J");
    }
    (out, first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(text: &str, rows: usize) -> String {
        String::from_utf8(in_place(text.as_bytes(), (80, rows), 0).0).unwrap()
    }

    fn plain(text: &str, rows: usize) -> String {
        drawn(text, rows).replace("\x1b[K", "").replace("\x1b[H", "").replace("\x1b[J", "")
    }

    /// A line may be as wide as the terminal. Clearing the rest of that line after writing it would clear its last character.
    #[test]
    fn nothing_is_cleared_behind_a_line() {
        assert_eq!(drawn("a\nb\n", 3), "\x1b[H\x1b[Ka\r\n\x1b[Kb\r\n\x1b[J");
        assert_eq!(drawn("a\nb\n", 2), "\x1b[H\x1b[Ka\r\n\x1b[Kb");
    }

    #[test]
    fn hidden_lines_are_counted() {
        assert_eq!(plain("a\nb\n", 2), "a\r\nb");
        assert_eq!(plain("a\nb\nc\n", 2), "a\r\nlines 1-1 of 3; arrows scroll, q quits");
        assert_eq!(plain("a\nb\n", 0), "lines 1-0 of 2; arrows scroll, q quits");
    }

    #[test]
    fn the_line_below_fits_the_terminal() {
        let drawn = String::from_utf8(in_place(b"a\nb\nc\n", (20, 2), 0).0).unwrap();
        assert!(drawn.ends_with("\x1b[Klines 1-1 of 3; arro"), "{drawn:?}");
    }

    #[test]
    fn keys_scroll_and_leave() {
        let text = b"a\nb\nc\nd\ne\n";
        assert!(matches!(wake_of(KeyCode::Char('q')), Some(Wake::Quit)) && wake_of(KeyCode::Char('x')).is_none());
        assert!(matches!(wake_of(KeyCode::Down), Some(Wake::Scroll(Scroll::Lines(1)))));
        let (picture, first) = in_place(text, (80, 3), scrolled(0, Scroll::Lines(1), text, 3));
        assert!(String::from_utf8(picture).unwrap().contains("b\r\n\x1b[Kc\r\n"));
        assert_eq!(first, 1);
        assert_eq!(in_place(text, (80, 3), scrolled(first, Scroll::End, text, 3)).1, 3, "the last lines, and no blank ones");
        assert_eq!(in_place(text, (80, 30), 4).1, 0, "all fits");
        assert_eq!((scrolled(1, Scroll::Lines(-5), text, 3), scrolled(3, Scroll::Home, text, 3)), (0, 0));
    }
}
