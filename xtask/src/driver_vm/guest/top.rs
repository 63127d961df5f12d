//! `ttmon top` on a pseudo-terminal, and its screen.

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use vt100::Parser;

use super::monitors::{HANG, Mark, READ_TIMEOUT, Samples};
use crate::service::until;

const COLUMNS: u16 = 140;
const ROWS: u16 = 45;
/// Interval between two samples.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time for reading, drawing and the pseudo-terminal on an emulated machine.
const DRAWING: Duration = Duration::from_secs(3);

pub(super) struct Top {
    child: Box<dyn Child + Send + Sync>,
    keyboard: Box<dyn Write + Send>,
    screen: Arc<Mutex<Parser>>,
    // Dropped last, because closing it hangs up the program.
    _master: Box<dyn MasterPty + Send>,
}

impl Top {
    pub(super) fn start(ttmon: &Path, arguments: &[&str]) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("ttmon top: {error}");
        let size = PtySize { rows: ROWS, cols: COLUMNS, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).map_err(|error| failed(&error))?;
        let mut command = CommandBuilder::new(ttmon);
        command.args(["top", "--no-server", "-r", "1000"]);
        command.args(READ_TIMEOUT);
        command.args(arguments);
        for (name, value) in [("LANG", "C.UTF-8"), ("TERM", "xterm-256color"), ("XDG_CONFIG_HOME", "/nonexistent")] {
            command.env(name, value);
        }
        let mut output = pair.master.try_clone_reader().map_err(|error| failed(&error))?;
        let keyboard = pair.master.take_writer().map_err(|error| failed(&error))?;
        let number = |number| NonZeroU16::new(number).unwrap_or(NonZeroU16::MIN);
        let screen = Arc::new(Mutex::new(Parser::new(number(ROWS), number(COLUMNS), 0)));
        let drawn = Arc::clone(&screen);
        thread::spawn(move || {
            let mut bytes = [0; 16 * 1024];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                if let Ok(mut screen) = drawn.lock() {
                    screen.process(&bytes[..count]);
                }
            }
        });
        let child = pair.slave.spawn_command(command).map_err(|error| failed(&error))?;
        let top = Self { child, keyboard, screen, _master: pair.master };
        until("drawn by ttmon top", || top.text().contains("DRAM")).map_err(|error| format!("{error}; the screen:\n{}", top.text()))?;
        Ok(top)
    }

    pub(super) fn text(&self) -> String {
        self.screen.lock().map(|screen| screen.screen().contents()).unwrap_or_default()
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
            let is_late = elapsed >= limit && (pace.count(mark) > samples_max || elapsed >= HANG);
            match self.check(&check) {
                Ok(()) => return Ok(mark.at.elapsed().as_secs_f64()),
                Err(why) if is_late => return Err(format!("after {:.1} s: {why}", mark.at.elapsed().as_secs_f64())),
                Err(_) => thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Checks the current screen.
    pub(super) fn check(&self, check: impl Fn(&str) -> Result<(), String>) -> Result<(), String> {
        check(&self.text())
    }

    /// Presses keys.
    pub(super) fn press(&mut self, keys: &[u8]) -> Result<(), String> {
        self.keyboard.write_all(keys).and_then(|()| self.keyboard.flush()).map_err(|error| format!("ttmon top: {error}"))
    }

    /// Presses q. Returns an error if the program had already ended, or does not end.
    pub(super) fn quit(&mut self) -> Result<(), String> {
        if let Some(status) = self.child.try_wait().map_err(|error| error.to_string())? {
            return Err(format!("expected ttmon top to run, found that it has ended: {status:?}"));
        }
        self.press(b"q")?;
        let started = Instant::now();
        let mut status = None;
        until("ended by q", || {
            status = self.child.try_wait().ok().flatten();
            status.is_some()
        })
        .map_err(|error| format!("ttmon top: {error}"))?;
        match status {
            Some(status) if status.success() && started.elapsed() < DRAWING * 2 => Ok(()),
            other => Err(format!("expected ttmon top to end with 0 on q, found {other:?} after {:.1} s", started.elapsed().as_secs_f64())),
        }
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
