//! Draws buffers on the terminal with as few bytes as possible.

use std::fmt::Write as _;
use std::io;
use std::mem;

use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier};

use crate::terminal::{self, Mode, Session};

/// The alternate screen without a cursor. Mouse buttons (not movements) are reported with coordinates of any size.
const MODE: Mode = Mode {
    enter: "\x1b[?1049h\x1b[?25l\x1b[?1000h\x1b[?1006h\x1b[H\x1b[2J",
    leave: "\x1b[0m\x1b[?1006l\x1b[?1000l\x1b[?25h\x1b[?1049l",
    is_raw: true,
};
/// A frame of at least this many bytes is sent as a synchronized update. Smaller frames do not tear.
const SYNCHRONIZED_BYTES_MIN: usize = 1024;
/// Up to this many unchanged cells are written again, because moving the cursor over them would need as many bytes.
const GAP_MAX: u16 = 3;

#[derive(Debug)]
pub(crate) struct Screen {
    _session: Session,
    shown: Buffer,
    pen: Pen,
}

impl Screen {
    pub(crate) fn enter() -> io::Result<Self> {
        Ok(Self { _session: Session::enter(&MODE)?, shown: Buffer::empty(Rect::ZERO), pen: Pen::default() })
    }

    /// Shows a buffer. Writes only the changed cells. Swaps `next` with the buffer that was shown before.
    pub(crate) fn show(&mut self, next: &mut Buffer) -> io::Result<()> {
        // After a panic in another thread, the terminal is restored and shows the panic message.
        if !terminal::is_taken() {
            return Ok(());
        }
        let mut bytes = String::new();
        if self.shown.area != next.area {
            self.shown = Buffer::empty(next.area);
            self.pen = Pen::default();
            bytes.push_str("\x1b[0m\x1b[H\x1b[2J");
        }
        self.pen.draw(&self.shown, next, &mut bytes);
        if bytes.is_empty() {
            return Ok(());
        }
        if bytes.len() >= SYNCHRONIZED_BYTES_MIN {
            bytes.insert_str(0, "\x1b[?2026h");
            bytes.push_str("\x1b[?2026l");
        }
        terminal::write(bytes.as_bytes())?;
        mem::swap(&mut self.shown, next);
        Ok(())
    }

    /// Draws the whole next buffer: another program may have written to the terminal.
    pub(crate) fn forget(&mut self) {
        self.shown = Buffer::empty(Rect::ZERO);
    }
}

#[derive(Debug, Default)]
struct Pen {
    /// `None` if unknown: at the start, and after the last column, where terminals differ.
    at: Option<(u16, u16)>,
    style: CellStyle,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct CellStyle {
    fg: Color,
    bg: Color,
    modifier: Modifier,
}

impl CellStyle {
    fn of(cell: &Cell) -> Self {
        Self { fg: cell.fg, bg: cell.bg, modifier: cell.modifier }
    }
}

impl Pen {
    fn draw(&mut self, shown: &Buffer, next: &Buffer, out: &mut String) {
        for (x, y, cell) in shown.diff(next) {
            self.move_to(x, y, next, out);
            self.apply(CellStyle::of(cell), out);
            out.push_str(cell.symbol());
            let after = x + crate::canvas::width(cell.symbol()).max(1);
            self.at = (after < next.area.right()).then_some((after, y));
        }
    }

    fn move_to(&mut self, x: u16, y: u16, next: &Buffer, out: &mut String) {
        match self.at {
            Some(at) if at == (x, y) => return,
            Some((from, row)) if row == y && from < x => {
                let gap = x - from;
                let cells = || (from..x).filter_map(|column| next.cell((column, y)));
                let is_plain = |cell: &Cell| cell.symbol().len() == 1 && CellStyle::of(cell) == self.style;
                if gap <= GAP_MAX && cells().all(is_plain) {
                    cells().for_each(|cell| out.push_str(cell.symbol()));
                } else if gap == 1 {
                    out.push_str("\x1b[C");
                } else {
                    let _ = write!(out, "\x1b[{gap}C");
                }
            }
            _ => {
                let _ = write!(out, "\x1b[{};{}H", y + 1, x + 1);
            }
        }
        self.at = Some((x, y));
    }

    fn apply(&mut self, style: CellStyle, out: &mut String) {
        if style == self.style {
            return;
        }
        let mut codes: Vec<String> = Vec::new();
        // A modifier is removed by a reset of all attributes.
        let (mut fg, mut bg, mut modifier) = (self.style.fg, self.style.bg, self.style.modifier);
        let loses_color = (style.fg == Color::Reset && fg != Color::Reset) || (style.bg == Color::Reset && bg != Color::Reset);
        if !(modifier - style.modifier).is_empty() || loses_color {
            codes.push("0".to_owned());
            (fg, bg, modifier) = (Color::Reset, Color::Reset, Modifier::empty());
        }
        for (_, code) in MODIFIERS.iter().filter(|(flag, _)| (style.modifier - modifier).contains(*flag)) {
            codes.push((*code).to_owned());
        }
        if style.fg != fg {
            codes.push(color(style.fg, 30));
        }
        if style.bg != bg {
            codes.push(color(style.bg, 40));
        }
        let _ = if codes == ["0"] { write!(out, "\x1b[m") } else { write!(out, "\x1b[{}m", codes.join(";")) };
        self.style = style;
    }
}

const MODIFIERS: [(Modifier, &str); 4] =
    [(Modifier::BOLD, "1"), (Modifier::DIM, "2"), (Modifier::UNDERLINED, "4"), (Modifier::REVERSED, "7")];

/// Returns the code of a colour; `base` is 30 for the foreground and 40 for the background.
fn color(color: Color, base: u8) -> String {
    let plain = |number: u8| (base + number).to_string();
    match color {
        Color::Reset => plain(9),
        Color::Black => plain(0),
        Color::Red => plain(1),
        Color::Green => plain(2),
        Color::Yellow => plain(3),
        Color::Blue => plain(4),
        Color::Magenta => plain(5),
        Color::Cyan => plain(6),
        Color::Gray => plain(7),
        Color::DarkGray => plain(60),
        Color::LightRed => plain(61),
        Color::LightGreen => plain(62),
        Color::LightYellow => plain(63),
        Color::LightBlue => plain(64),
        Color::LightMagenta => plain(65),
        Color::LightCyan => plain(66),
        Color::White => plain(67),
        Color::Indexed(index) => format!("{};5;{index}", base + 8),
        Color::Rgb(red, green, blue) => format!("{};2;{red};{green};{blue}", base + 8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui_core::style::Style;

    fn drawn(before: &[&str], after: &[&str]) -> String {
        let mut out = String::new();
        Pen::default().draw(&Buffer::with_lines(before.to_vec()), &Buffer::with_lines(after.to_vec()), &mut out);
        out
    }

    #[test]
    fn no_change_writes_nothing() {
        assert_eq!(drawn(&["54 C", "ok"], &["54 C", "ok"]), "");
    }

    #[test]
    fn only_changed_cells_are_written() {
        assert_eq!(drawn(&["54 C  20 W"], &["55 C  20 W"]), "\x1b[1;2H5");
        assert_eq!(drawn(&["54 C  20 W"], &["64 D  20 W"]), "\x1b[1;1H64 D", "a short gap is written again");
        assert_eq!(drawn(&["5         5"], &["6         6"]), "\x1b[1;1H6\x1b[9C6");
        assert_eq!(drawn(&["a", "b"], &["c", "d"]), "\x1b[1;1Hc\x1b[2;1Hd");
    }

    #[test]
    fn a_style_is_written_only_where_it_changes() {
        let area = Rect::new(0, 0, 6, 1);
        let mut next = Buffer::empty(area);
        next.set_string(0, 0, "ab", Style::new().add_modifier(Modifier::BOLD));
        next.set_string(2, 0, "c", Style::new().fg(Color::Red).add_modifier(Modifier::BOLD));
        next.set_string(3, 0, "d", Style::new());
        let mut out = String::new();
        Pen::default().draw(&Buffer::empty(area), &next, &mut out);
        assert_eq!(out, "\x1b[1;1H\x1b[1mab\x1b[31mc\x1b[md");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(drawn(&["      "], &["名a   "]), "\x1b[1;1H名a");
    }

    /// This test starts itself in a pseudo-terminal, where it takes the screen and panics in another thread.
    #[test]
    fn a_panic_restores_the_terminal_and_is_printed() {
        const INSIDE: &str = "TTMON_TOP_TEST_PANIC";
        if std::env::var_os(INSIDE).is_some() {
            let mut screen = Screen::enter().unwrap();
            let panicked = std::thread::spawn(|| panic!("as it was meant to")).join();
            assert!(panicked.is_err());
            screen.show(&mut Buffer::with_lines(["drawn too late"])).unwrap();
            // Exit without the destructor: the panic hook alone must restore the terminal.
            std::process::exit(0);
        }
        let size = portable_pty::PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 };
        let pair = portable_pty::native_pty_system().openpty(size).unwrap();
        let mut command = portable_pty::CommandBuilder::new(std::env::current_exe().unwrap());
        command.args(["--exact", "screen::tests::a_panic_restores_the_terminal_and_is_printed", "--nocapture"]);
        command.env(INSIDE, "1");
        let mut child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let mut written = Vec::new();
        let mut piece = [0; 1024];
        // When the program has ended, reading from its pseudo-terminal fails.
        while let Ok(count @ 1..) = io::Read::read(&mut reader, &mut piece) {
            written.extend(&piece[..count]);
        }
        assert!(child.wait().unwrap().success());
        let written = String::from_utf8_lossy(&written);
        let (entered, left) = (written.find(MODE.enter), written.find(MODE.leave));
        assert!(entered.is_some() && entered < left, "{written:?}");
        assert!(written[left.unwrap()..].contains("as it was meant to"), "printed on the restored terminal: {written:?}");
        assert!(!written.contains("drawn too late"), "{written:?}");
    }
}
