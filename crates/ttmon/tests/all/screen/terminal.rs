//! A terminal for one program: a pseudo-terminal, and an emulator that reads its output.

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use vt100::Parser;

/// Timeout for a machine under heavy load.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The state of the emulator, and the number of bytes that it received.
struct Seen {
    parser: Parser,
    bytes: usize,
    /// All bytes that were written.
    written: Vec<u8>,
    is_closed: bool,
}

pub(crate) struct Terminal {
    master: Box<dyn MasterPty + Send>,
    keyboard: Box<dyn Write + Send>,
    pub(crate) child: Box<dyn Child + Send + Sync>,
    seen: Arc<(Mutex<Seen>, Condvar)>,
    /// Home directory with the settings of this run only.
    pub(crate) home: tempfile::TempDir,
}

fn size(columns: u16, rows: u16) -> PtySize {
    PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }
}

fn parser(columns: u16, rows: u16) -> Parser {
    let at_least_one = |number: u16| NonZeroU16::new(number).unwrap_or(NonZeroU16::MIN);
    Parser::new(at_least_one(rows), at_least_one(columns), 0)
}

impl Terminal {
    /// Starts `ttmon top` with these arguments.
    pub(crate) fn top(columns: u16, rows: u16, arguments: &str) -> Self {
        Self::top_with(columns, rows, arguments, &[])
    }

    pub(crate) fn top_with(columns: u16, rows: u16, arguments: &str, variables: &[(&str, &str)]) -> Self {
        Self::start(columns, rows, &format!("top {arguments}"), variables)
    }

    /// Starts `ttmon` with these arguments.
    pub(crate) fn start(columns: u16, rows: u16, arguments: &str, variables: &[(&str, &str)]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let pair = native_pty_system().openpty(size(columns, rows)).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_ttmon"));
        command.args(arguments.split_ascii_whitespace());
        for variable in ["TTMON_SIM", "TTMON_ROOT", "TTMON_CONFIG", "NO_COLOR", "COLUMNS", "LC_ALL", "LC_CTYPE", "COLORTERM", "COLORFGBG"] {
            command.env_remove(variable);
        }
        for (name, value) in [("LANG", "C.UTF-8"), ("TZ", "UTC"), ("TERM", "xterm-256color")].iter().chain(variables) {
            command.env(name, value);
        }
        command.env("XDG_CONFIG_HOME", home.path());
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let seen =
            Arc::new((Mutex::new(Seen { parser: parser(columns, rows), bytes: 0, written: Vec::new(), is_closed: false }), Condvar::new()));
        let theirs = Arc::clone(&seen);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            loop {
                let count = reader.read(&mut bytes).unwrap_or(0);
                let mut seen = theirs.0.lock().unwrap();
                seen.parser.process(&bytes[..count]);
                seen.bytes += count;
                seen.written.extend(&bytes[..count]);
                seen.is_closed = count == 0;
                theirs.1.notify_all();
                if count == 0 {
                    return;
                }
            }
        });
        let keyboard = pair.master.take_writer().unwrap();
        Self { master: pair.master, keyboard, child, seen, home }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Clicks the left button. Positions count from 0.
    pub(crate) fn click(&mut self, column: u16, row: u16) {
        self.press(&format!("\x1b[<0;{0};{1}M\x1b[<0;{0};{1}m", column + 1, row + 1));
    }

    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        self.seen.0.lock().unwrap().parser = parser(columns, rows);
        self.master.resize(size(columns, rows)).unwrap();
    }

    pub(crate) fn text(&self) -> String {
        self.seen.0.lock().unwrap().parser.screen().contents()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.seen.0.lock().unwrap().bytes
    }

    /// Returns all output of the program, with escape sequences.
    pub(crate) fn written(&self) -> String {
        String::from_utf8_lossy(&self.seen.0.lock().unwrap().written).into_owned()
    }

    /// Returns the colour of a character. Positions count from 0.
    pub(crate) fn color(&self, column: u16, row: u16) -> Option<vt100::Color> {
        self.seen.0.lock().unwrap().parser.screen().cell(row, column).map(vt100::Cell::fgcolor)
    }

    /// Waits until the screen fulfils a condition, and returns it.
    pub(crate) fn wait(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        self.wait_until(what, |seen| is_so(&seen.parser.screen().contents()))
    }

    /// Waits until the program wrote these bytes.
    pub(crate) fn wait_written(&self, text: &str) {
        self.wait_until(&format!("{text:?}"), |seen| String::from_utf8_lossy(&seen.written).contains(text));
    }

    fn wait_until(&self, what: &str, is_so: impl Fn(&Seen) -> bool) -> String {
        let deadline = Instant::now() + TIMEOUT;
        let (lock, changed) = &*self.seen;
        let mut seen = lock.lock().unwrap();
        loop {
            if is_so(&seen) {
                return seen.parser.screen().contents();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero() && !seen.is_closed, "{what} did not come; the screen is:\n{}", seen.parser.screen().contents());
            seen = changed.wait_timeout(seen, left).unwrap().0;
        }
    }

    pub(crate) fn wait_for(&self, text: &str) -> String {
        self.wait(text, |screen| screen.contains(text))
    }

    /// Presses keys and waits for a text on the screen.
    pub(crate) fn expect(&mut self, keys: &str, text: &str) -> String {
        self.press(keys);
        self.wait_for(text)
    }

    /// Returns the row of the screen with this text. Rows count from 0.
    pub(crate) fn row_of(&self, text: &str) -> u16 {
        let screen = self.wait_for(text);
        u16::try_from(screen.lines().position(|line| line.contains(text)).unwrap()).unwrap()
    }

    /// Waits for the end. Returns the exit status and the state of the terminal.
    pub(crate) fn end(mut self) -> (portable_pty::ExitStatus, After) {
        let deadline = Instant::now() + TIMEOUT;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > deadline => panic!("it did not end; the screen is:\n{}", self.text()),
                None => thread::sleep(Duration::from_millis(5)),
            }
        };
        let flags = self.master.get_termios().map(|termios| format!("{:?}", termios.local_flags)).unwrap_or_default();
        let (lock, changed) = &*self.seen;
        let mut seen = lock.lock().unwrap();
        // The last output may not have been read yet.
        while !seen.is_closed {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "the terminal was not given back");
            seen = changed.wait_timeout(seen, left).unwrap().0;
        }
        let screen = seen.parser.screen();
        let after = After {
            is_alternate: screen.alternate_screen(),
            is_cursor_hidden: screen.hide_cursor(),
            has_mouse: screen.mouse_protocol_mode() != vt100::MouseProtocolMode::None,
            is_cooked: flags.contains("ICANON") && flags.contains("ECHO"),
            text: screen.contents(),
        };
        drop(seen);
        (status, after)
    }
}

/// The state of the terminal after the program has ended.
#[derive(Debug)]
pub(crate) struct After {
    pub(crate) is_alternate: bool,
    pub(crate) is_cursor_hidden: bool,
    pub(crate) has_mouse: bool,
    pub(crate) is_cooked: bool,
    pub(crate) text: String,
}

impl After {
    pub(crate) fn assert_whole(&self) {
        assert!(!self.is_alternate && !self.is_cursor_hidden && !self.has_mouse && self.is_cooked, "{self:?}");
    }
}
