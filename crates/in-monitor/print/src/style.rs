//! Options of the output: width, colours, characters.

use ttmon_model::snapshot::Severity;

use crate::text;

/// Minimum width. The numbers would not fit a narrower layout.
pub(crate) const WIDTH_MIN: usize = 80;

/// Options of the output, with its time and program version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Style<'a> {
    /// Columns of the terminal; less than 80 counts as 80.
    pub width: usize,
    /// Rows of the screen, if limited. Then the memory breakdown is left out before processes are.
    pub rows: Option<usize>,
    /// Whether health may be coloured.
    pub colors: bool,
    /// Whether to print only ASCII.
    pub ascii: bool,
    /// The snapshot's time on the user's clock: `2026-11-15 08:12:45`.
    pub local_time: String,
    /// Version of the program.
    pub version: &'a str,
    /// Whether the snapshot lists processes.
    pub show_processes: bool,
}

impl<'a> Style<'a> {
    /// Returns the style for a pipe: 80 columns without colours.
    pub fn plain(version: &'a str) -> Self {
        Self { width: WIDTH_MIN, rows: None, colors: false, ascii: false, local_time: String::new(), version, show_processes: true }
    }

    /// Makes untrusted text safe to print. Characters without a width (control characters, escapes, marks that change the writing
    /// direction) become visible signs. With `ascii`, so do characters outside ASCII.
    pub fn clean(&self, text: &str) -> String {
        text::clean(text, self.ascii)
    }

    pub(crate) fn columns(&self) -> usize {
        self.width.max(WIDTH_MIN)
    }

    pub(crate) fn glyphs(&self) -> &'static Glyphs {
        if self.ascii { &ASCII } else { &UNICODE }
    }

    /// Paints a text in one of the 16 ANSI colours, which follow the user's theme. Only health has colours.
    pub(crate) fn paint(&self, severity: Severity, text: &str) -> String {
        let code = match severity {
            _ if !self.colors || text.is_empty() => return text.to_owned(),
            Severity::Fine => return text.to_owned(),
            Severity::Unknown => 2,
            Severity::Warning => 33,
            Severity::Critical => 31,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

pub(crate) struct Glyphs {
    pub(crate) ellipsis: &'static str,
    pub(crate) celsius: &'static str,
    pub(crate) between: &'static str,
    pub(crate) horizontal: &'static str,
    pub(crate) vertical: &'static str,
    /// Left and right ends of the top, middle and bottom rules.
    pub(crate) rules: [[&'static str; 2]; 3],
    /// Cells of a bar, from empty to full.
    pub(crate) fill: &'static [&'static str],
}

const UNICODE: Glyphs = Glyphs {
    ellipsis: "…",
    celsius: "°C",
    between: "·",
    horizontal: "─",
    vertical: "│",
    rules: [["┌", "┐"], ["├", "┤"], ["└", "┘"]],
    fill: &["░", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"],
};

const ASCII: Glyphs =
    Glyphs { ellipsis: "..", celsius: "C", between: "-", horizontal: "-", vertical: "|", rules: [["+", "+"]; 3], fill: &["-", "#"] };
