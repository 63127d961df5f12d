//! Again and again: on a terminal the same place drawn anew, and the terminal given back at the end.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::low_level::{emulate_default_handler, pipe};

use crate::failure::Failure;
use crate::terminal::Terminal;

// Long lines are cut at the edge: one that went on below would push the first ones out of the screen.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &[u8] = b"\x1b[?7h\x1b[?25h\x1b[?1049l";

/// Each turn an interval after the last began, until one fails.
pub(crate) fn again(interval: Duration, mut turn: impl FnMut() -> Result<(), Failure>) -> Result<(), Failure> {
    again_while(interval, || turn().map(|()| true))
}

/// The same, until a turn returns false.
pub(crate) fn again_while(interval: Duration, mut turn: impl FnMut() -> Result<bool, Failure>) -> Result<(), Failure> {
    let mut next = Instant::now();
    loop {
        if !turn()? {
            return Ok(());
        }
        next = (next + interval).max(Instant::now());
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// The alternate screen, for as long as this lives.
pub(crate) struct Screen {
    /// Tells that the screen has to be drawn anew.
    redraw: Receiver<()>,
}

impl Screen {
    /// Takes the terminal over. From here on there is a second thread, so whatever forks has to have done so.
    pub(crate) fn enter() -> Result<Self, Failure> {
        let cannot = |error: io::Error| Failure::new(format!("cannot take over signals: {error}; check the limits of this user"));
        let pending = Arc::new(AtomicUsize::new(0));
        let wake = signals(&pending).map_err(cannot)?;
        write(ENTER)?;
        let (sender, redraw) = mpsc::channel();
        let screen = Self { redraw };
        thread::Builder::new().name("signals".into()).spawn(move || answer(wake, &pending, &sender)).map_err(cannot)?;
        Ok(screen)
    }

    /// Draws what `frame` makes (a text, and the terminal it is for) until a signal ends it.
    pub(crate) fn watch(self, interval: Duration, mut frame: impl FnMut() -> Result<(Vec<u8>, Terminal), Failure>) -> Result<(), Failure> {
        let mut next = Instant::now();
        loop {
            let (text, terminal) = frame()?;
            write(&in_place(&text, (terminal.columns, terminal.rows)))?;
            next = (next + interval).max(Instant::now());
            match self.redraw.recv_timeout(next.saturating_duration_since(Instant::now())) {
                // Several changes of size at once are one.
                Ok(()) => while self.redraw.try_recv().is_ok() {},
                Err(RecvTimeoutError::Timeout) => {}
                // The thread that answers signals is gone; we draw on and die of a signal without the screen given back.
                Err(RecvTimeoutError::Disconnected) => thread::sleep(next.saturating_duration_since(Instant::now())),
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = write(LEAVE);
    }
}

/// From now on a byte comes here with each signal, and its number is pending if it is one that ends or stops us.
fn signals(pending: &Arc<AtomicUsize>) -> io::Result<UnixStream> {
    let (wake, waker) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH] {
        if signal != SIGWINCH {
            let number = usize::try_from(signal).unwrap_or_default();
            signal_hook::flag::register_usize(signal, Arc::clone(pending), number)?;
        }
        pipe::register(signal, waker.try_clone()?)?;
    }
    Ok(wake)
}

/// Gives the terminal back and dies of the signal, as the program would have without us; at once, even while a frame waits
/// for a chip that hangs. Holding standard output, nothing is drawn after that.
fn answer(mut wake: UnixStream, pending: &AtomicUsize, redraw: &Sender<()>) {
    while wake.read(&mut [0; 1]).is_ok_and(|count| count > 0) {
        let signal = i32::try_from(pending.swap(0, Ordering::SeqCst)).unwrap_or(SIGTERM);
        if signal != 0 {
            let mut stdout = io::stdout().lock();
            let _ = stdout.write_all(LEAVE).and_then(|()| stdout.flush());
            // Ctrl-Z: the shell gets its screen, and we ours when it lets us go on.
            let _ = emulate_default_handler(signal);
            let _ = stdout.write_all(ENTER);
        }
        if redraw.send(()).is_err() {
            return;
        }
    }
}

/// From the top left corner, each line cleared before it is written, nothing below the last row. Behind the end of one that is as wide
/// as the terminal the cursor stands on its last character, which would be cleared too.
fn in_place(text: &[u8], (columns, rows): (usize, usize)) -> Vec<u8> {
    let lines: Vec<&[u8]> = text.strip_suffix(b"\n").unwrap_or(text).split(|byte| *byte == b'\n').collect();
    let fits = rows.max(1);
    let shown = if lines.len() > fits { fits - 1 } else { lines.len() };
    let mut more = format!("+{} lines; make the terminal taller, or choose devices with -d", lines.len() - shown);
    more.truncate(columns);
    let more = if shown < lines.len() { Some(more.as_bytes()) } else { None };
    let mut out = b"\x1b[H".to_vec();
    for (index, line) in lines[..shown].iter().copied().chain(more).enumerate() {
        out.extend(if index > 0 { &b"\r\n\x1b[K"[..] } else { b"\x1b[K" });
        out.extend(line);
    }
    // What an earlier frame had below.
    if lines.len() < fits {
        out.extend(b"\r\n\x1b[J");
    }
    out
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(text: &str, rows: usize) -> String {
        String::from_utf8(in_place(text.as_bytes(), (80, rows))).unwrap()
    }

    fn plain(text: &str, rows: usize) -> String {
        drawn(text, rows).replace("\x1b[K", "").replace("\x1b[H", "").replace("\x1b[J", "")
    }

    /// Lines are often as wide as the terminal: what clears the rest of one behind its end clears its last character.
    #[test]
    fn nothing_is_cleared_behind_a_line() {
        assert_eq!(drawn("a\nb\n", 3), "\x1b[H\x1b[Ka\r\n\x1b[Kb\r\n\x1b[J");
        assert_eq!(drawn("a\nb\n", 2), "\x1b[H\x1b[Ka\r\n\x1b[Kb");
    }

    #[test]
    fn what_does_not_fit_is_said() {
        assert_eq!(plain("a\nb\n", 2), "a\r\nb");
        assert_eq!(plain("a\nb\nc\n", 2), "a\r\n+2 lines; make the terminal taller, or choose devices with -d");
        assert_eq!(plain("a\nb\n", 0), "+2 lines; make the terminal taller, or choose devices with -d");
    }

    #[test]
    fn the_line_below_fits_the_terminal() {
        let drawn = String::from_utf8(in_place(b"a\nb\nc\n", (20, 2))).unwrap();
        assert!(drawn.ends_with("\x1b[K+2 lines; make the t"), "{drawn:?}");
    }
}
