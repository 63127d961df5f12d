//! A program in a pseudo-terminal. It is killed when the value is dropped.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Instant;

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

pub(crate) struct Terminal {
    pub(crate) child: Box<dyn Child + Send + Sync>,
    keyboard: Box<dyn Write + Send>,
    /// The pieces of the output, with their times.
    pub(crate) output: Receiver<(Instant, Vec<u8>)>,
    pub(crate) started: Instant,
    // Dropped last, because closing it hangs up the program.
    _master: Box<dyn MasterPty + Send>,
}

/// Columns and rows.
pub(crate) type Size = (u16, u16);

impl Terminal {
    /// Starts a program with these arguments and without the user's configuration.
    pub(crate) fn run(program: &Path, arguments: &[&str], size: Size) -> Result<Self, String> {
        let mut command = CommandBuilder::new(program);
        command.args(arguments);
        for (name, value) in [("LANG", "C.UTF-8"), ("TERM", "xterm-256color"), ("XDG_CONFIG_HOME", "/nonexistent")] {
            command.env(name, value);
        }
        Self::start(command, size)
    }

    pub(crate) fn start(command: CommandBuilder, (cols, rows): Size) -> Result<Self, String> {
        let program = command.get_argv()[0].display().to_string();
        let failed = |error: &dyn std::fmt::Display| format!("{program}: {error}");
        let size = PtySize { rows, cols, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).map_err(|error| failed(&error))?;
        let mut reader = pair.master.try_clone_reader().map_err(|error| failed(&error))?;
        let keyboard = pair.master.take_writer().map_err(|error| failed(&error))?;
        let (sender, output) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = [0; 64 * 1024];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                if sender.send((Instant::now(), bytes[..count].to_vec())).is_err() {
                    return;
                }
            }
        });
        let started = Instant::now();
        let child = pair.slave.spawn_command(command).map_err(|error| failed(&error))?;
        Ok(Self { child, keyboard, output, started, _master: pair.master })
    }

    pub(crate) fn press(&mut self, keys: &str) -> Result<(), String> {
        let pressed = self.keyboard.write_all(keys.as_bytes()).and_then(|()| self.keyboard.flush());
        pressed.map_err(|error| format!("the keyboard: {error}"))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
