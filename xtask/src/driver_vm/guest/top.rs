//! `ttmon top` on a pseudo-terminal, and its screen.

use std::cell::RefCell;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use vt100::Parser;

use super::monitors::{HANG, Mark, READ_TIMEOUT, Samples};
use crate::service::until;
use crate::terminal::{self, Size, Terminal};

const SIZE: Size = (140, 45);
const INTERVAL: Duration = Duration::from_secs(1);
/// Time for reading, drawing and the pseudo-terminal on an emulated machine.
const DRAWING: Duration = Duration::from_secs(3);

pub(super) struct Top {
    pub(super) terminal: Terminal,
    parser: RefCell<Parser>,
}

impl Top {
    pub(super) fn start(ttmon: &Path, arguments: &[&str]) -> Result<Self, String> {
        let arguments = [&["top", "--no-server", "-r", "1000"], &READ_TIMEOUT[..], arguments].concat();
        let top = Self { terminal: Terminal::run(ttmon, &arguments, SIZE)?, parser: RefCell::new(terminal::parser(SIZE)) };
        until("drawn by ttmon top", || top.text().contains("DRAM")).map_err(|error| format!("{error}; the screen:\n{}", top.text()))?;
        Ok(top)
    }

    pub(super) fn text(&self) -> String {
        let mut parser = self.parser.borrow_mut();
        while let Ok((_, bytes)) = self.terminal.output.try_recv() {
            parser.process(&bytes);
        }
        parser.screen().contents()
    }

    /// Checks that the screen becomes correct within this many samples. Returns the seconds that it took. A screen has no sample number, so
    /// the limit is in seconds. It is extended until `pace`, a monitor that counts, has taken as many samples, because a busy host slows
    /// down both.
    pub(super) fn judge(
        &self,
        mark: Mark,
        samples_max: usize,
        pace: &Samples,
        check: impl Fn(&str) -> Result<(), String>,
    ) -> Result<f64, String> {
        let limit = INTERVAL * u32::try_from(samples_max).unwrap_or(u32::MAX) + DRAWING;
        loop {
            let elapsed = mark.at.elapsed();
            let is_late = elapsed >= limit && (pace.since(mark).len() > samples_max || elapsed >= HANG);
            match check(&self.text()) {
                Ok(()) => return Ok(mark.at.elapsed().as_secs_f64()),
                Err(why) if is_late => return Err(format!("after {:.1} s: {why}", mark.at.elapsed().as_secs_f64())),
                Err(_) => thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Presses q. Returns an error if the program had already ended, or does not end.
    pub(super) fn quit(&mut self) -> Result<(), String> {
        if let Some(status) = self.terminal.child.try_wait().map_err(|error| error.to_string())? {
            return Err(format!("expected ttmon top to run, found that it has ended: {status:?}"));
        }
        self.terminal.press("q")?;
        let started = Instant::now();
        let mut status = None;
        until("ended by q", || {
            status = self.terminal.child.try_wait().ok().flatten();
            status.is_some()
        })
        .map_err(|error| format!("ttmon top: {error}"))?;
        match status {
            Some(status) if status.success() && started.elapsed() < DRAWING * 2 => Ok(()),
            other => Err(format!("expected ttmon top to end with 0 on q, found {other:?} after {:.1} s", started.elapsed().as_secs_f64())),
        }
    }
}
