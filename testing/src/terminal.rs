//! A program in a pseudo-terminal, and an emulator that reads its output.

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Instant;

use portable_pty::{Child, CommandBuilder, ExitStatus, MasterPty, PtySize, native_pty_system};
use tempfile::TempDir;
use vt100::{Parser, Screen};

use crate::process::{VARIABLES, removed_variables};
use crate::waiting::{TIMEOUT, until_or};

/// A program in a terminal. It is killed when this is dropped.
pub struct Terminal {
    /// Directory with the settings of this run only.
    pub home: TempDir,
    /// When the program was started.
    pub started: Instant,
    child: Box<dyn Child + Send + Sync>,
    keyboard: Box<dyn Write + Send>,
    master: Box<dyn MasterPty + Send>,
    received: Arc<(Mutex<Received>, Condvar)>,
}

/// What the program wrote.
struct Received {
    parser: Parser,
    bytes: Vec<u8>,
    /// When each piece was read, with the number of bytes until its end.
    pieces: Vec<(Instant, usize)>,
    is_closed: bool,
}

fn size(columns: u16, rows: u16) -> PtySize {
    PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }
}

fn parser(columns: u16, rows: u16) -> Parser {
    let at_least_one = |number: u16| NonZeroU16::new(number).unwrap_or(NonZeroU16::MIN);
    Parser::new(at_least_one(rows), at_least_one(columns), 0)
}

impl Terminal {
    /// Starts a program with these arguments and variables, in UTC, in English, in 256 colours, and without the settings of the user.
    #[must_use]
    pub fn start(program: &Path, columns: u16, rows: u16, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = CommandBuilder::new(program);
        command.args(arguments);
        removed_variables().for_each(|name| command.env_remove(name));
        for (name, value) in VARIABLES.iter().chain(&[("TERM", "xterm-256color")]).chain(variables) {
            command.env(name, value);
        }
        Self::run(command, columns, rows)
    }

    /// Starts this command with settings in [`Self::home`].
    #[must_use]
    pub fn run(mut command: CommandBuilder, columns: u16, rows: u16) -> Self {
        let home = tempfile::tempdir().unwrap();
        command.env("XDG_CONFIG_HOME", home.path());
        let pair = native_pty_system().openpty(size(columns, rows)).unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let keyboard = pair.master.take_writer().unwrap();
        let nothing = Received { parser: parser(columns, rows), bytes: Vec::new(), pieces: Vec::new(), is_closed: false };
        let received = Arc::new((Mutex::new(nothing), Condvar::new()));
        let shared = Arc::clone(&received);
        thread::spawn(move || {
            let mut bytes = [0; 64 * 1024];
            loop {
                let count = reader.read(&mut bytes).unwrap_or(0);
                let now = Instant::now();
                let mut received = shared.0.lock().unwrap();
                received.parser.process(&bytes[..count]);
                received.bytes.extend(&bytes[..count]);
                let end = received.bytes.len();
                received.pieces.push((now, end));
                received.is_closed = count == 0;
                shared.1.notify_all();
                if count == 0 {
                    return;
                }
            }
        });
        let program = command.get_argv()[0].clone();
        let started = Instant::now();
        let child = pair.slave.spawn_command(command).unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        Self { home, started, child, keyboard, master: pair.master, received }
    }

    /// Returns the process id of the program.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.process_id().unwrap()
    }

    /// Whether the program has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Writes to the terminal as a keyboard does.
    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Presses keys and waits for a text on the screen.
    #[track_caller]
    pub fn expect(&mut self, keys: &str, text: &str) -> String {
        self.press(keys);
        self.wait_for(text)
    }

    /// Clicks the left button. Positions count from 0.
    pub fn click(&mut self, column: u16, row: u16) {
        self.press(&format!("\x1b[<0;{0};{1}M\x1b[<0;{0};{1}m", column + 1, row + 1));
    }

    /// Changes the size of the terminal, which clears it.
    pub fn resize(&self, columns: u16, rows: u16) {
        self.received.0.lock().unwrap().parser = parser(columns, rows);
        self.master.resize(size(columns, rows)).unwrap();
    }

    /// Calls a function with the screen.
    pub fn screen<T>(&self, read: impl FnOnce(&Screen) -> T) -> T {
        read(self.received.0.lock().unwrap().parser.screen())
    }

    /// Returns the text on the screen.
    #[must_use]
    pub fn text(&self) -> String {
        self.screen(Screen::contents)
    }

    /// Returns the colour of a character. Positions count from 0.
    #[must_use]
    pub fn color(&self, column: u16, row: u16) -> Option<vt100::Color> {
        self.screen(|screen| screen.cell(row, column).map(vt100::Cell::fgcolor))
    }

    /// Returns how many bytes the program has written.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.received.0.lock().unwrap().bytes.len()
    }

    /// Returns all output of the program, with escape sequences.
    #[must_use]
    pub fn written(&self) -> String {
        String::from_utf8_lossy(&self.received.0.lock().unwrap().bytes).into_owned()
    }

    /// Waits until the screen fulfils a condition, and returns its text.
    #[track_caller]
    pub fn wait(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        self.wait_until(what, |received| is_so(&received.parser.screen().contents()).then(|| received.parser.screen().contents()))
    }

    /// Waits for a text on the screen, and returns the screen's text.
    #[track_caller]
    pub fn wait_for(&self, text: &str) -> String {
        self.wait(text, |screen| screen.contains(text))
    }

    /// Waits until the program has written this text after so many bytes. Returns how many bytes it had written at the end of the text.
    #[track_caller]
    pub fn wait_written(&self, after: usize, text: &str) -> usize {
        let place = |bytes: &[u8]| bytes[after..].windows(text.len()).position(|part| part == text.as_bytes());
        self.wait_until(&format!("{text:?}"), |received| Some(after + place(&received.bytes)? + text.len()))
    }

    /// Waits until the program has written more than this many bytes. Returns when the next byte was read.
    #[track_caller]
    pub fn wait_for_byte(&self, after: usize) -> Instant {
        let time = |received: &Received| received.pieces.iter().find(|(_, end)| *end > after).map(|(time, _)| *time);
        self.wait_until("more output", time)
    }

    #[track_caller]
    fn wait_until<T>(&self, what: &str, find: impl Fn(&Received) -> Option<T>) -> T {
        let deadline = Instant::now() + TIMEOUT;
        let (lock, changed) = &*self.received;
        let mut received = lock.lock().unwrap();
        loop {
            if let Some(found) = find(&received) {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || received.is_closed {
                let screen = received.parser.screen().contents();
                // Do not poison the lock, because the reader needs it.
                drop(received);
                panic!("{what} did not come; the screen is:\n{screen}");
            }
            received = changed.wait_timeout(received, left).unwrap().0;
        }
    }

    /// Returns the row of the screen with this text. Rows count from 0.
    #[track_caller]
    pub fn row_of(&self, text: &str) -> u16 {
        let screen = self.wait_for(text);
        u16::try_from(screen.lines().position(|line| line.contains(text)).unwrap()).unwrap()
    }

    /// Closes the terminal for its program, as closing a window does.
    pub fn hang_up(&mut self) {
        self.child.kill().unwrap();
    }

    /// Waits for the end of the program. Returns its exit status and the state of the terminal.
    #[track_caller]
    pub fn end(mut self) -> (ExitStatus, TerminalState) {
        let (mut status, received) = (None, Arc::clone(&self.received));
        let child = &mut self.child;
        let is_over = || {
            status = status.take().or_else(|| child.try_wait().unwrap());
            // The last output may not have been read yet.
            status.is_some() && received.0.lock().unwrap().is_closed
        };
        let text = || received.0.lock().unwrap().parser.screen().contents();
        until_or(is_over, || format!("it did not end and give back the terminal; the screen is:\n{}", text()));
        let flags = self.master.get_termios().map(|termios| format!("{:?}", termios.local_flags)).unwrap_or_default();
        let state = self.screen(|screen| TerminalState {
            is_alternate: screen.alternate_screen(),
            is_cursor_hidden: screen.hide_cursor(),
            has_mouse: screen.mouse_protocol_mode() != vt100::MouseProtocolMode::None,
            is_cooked: flags.contains("ICANON") && flags.contains("ECHO"),
            text: screen.contents(),
        });
        (status.unwrap(), state)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The state of a terminal after its program has ended.
#[derive(Debug)]
pub struct TerminalState {
    /// Whether the second screen is shown, which programs on the whole screen use.
    pub is_alternate: bool,
    /// Whether the cursor is hidden.
    pub is_cursor_hidden: bool,
    /// Whether the mouse sends keys.
    pub has_mouse: bool,
    /// Whether the terminal edits and shows the typed lines.
    pub is_cooked: bool,
    /// The text on the screen.
    pub text: String,
}

impl TerminalState {
    /// Checks that the terminal is as it was before the program.
    #[track_caller]
    pub fn assert_restored(&self) {
        assert!(!self.is_alternate && !self.is_cursor_hidden && !self.has_mouse && self.is_cooked, "{self:?}");
    }
}

impl std::fmt::Debug for Terminal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "a terminal with:\n{}", self.text())
    }
}
