//! Determines what the terminal can show.

use std::io::{self, IsTerminal};

use crate::cli::When;
use crate::invocation::variable;

/// Width of output that is not a terminal, and of a text in an issue.
const COLUMNS_DEFAULT: usize = 80;
const ROWS_DEFAULT: usize = 24;
/// Maximum number of columns. This is wider than any screen, and limits the padding of lines.
const COLUMNS_MAX: usize = 1000;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Terminal {
    pub(crate) is_terminal: bool,
    pub(crate) columns: usize,
    pub(crate) rows: usize,
    pub(crate) colors: bool,
    pub(crate) ascii: bool,
}

impl Terminal {
    pub(crate) fn of_stdout(color: When, ascii: bool) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let is_plain = text("NO_COLOR").is_some() || text("TERM").is_none_or(|term| term == "dumb");
        let unmeasured = Self {
            is_terminal,
            columns: COLUMNS_DEFAULT,
            rows: ROWS_DEFAULT,
            colors: match color {
                When::Auto => is_terminal && !is_plain,
                When::Always => true,
                When::Never => false,
            },
            ascii: ascii || !is_utf8(),
        };
        unmeasured.measured()
    }

    /// Updates the size. COLUMNS takes precedence, also in a pipe, because `watch` sets it.
    pub(crate) fn measured(self) -> Self {
        // Without a known size, the defaults below are used.
        let size = if self.is_terminal { rustix::termios::tcgetwinsize(io::stdout()).ok() } else { None };
        let named = text("COLUMNS").and_then(|columns| columns.parse().ok()).filter(|columns| *columns > 0);
        let columns = named.or(size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0));
        let rows = size.map(|size| usize::from(size.ws_row)).filter(|rows| *rows > 0);
        Self { columns: columns.unwrap_or(COLUMNS_DEFAULT).min(COLUMNS_MAX), rows: rows.unwrap_or(ROWS_DEFAULT), ..self }
    }
}

/// Returns the width of standard error if it is a terminal.
pub(crate) fn columns_of_stderr() -> Option<usize> {
    let size = if io::stderr().is_terminal() { rustix::termios::tcgetwinsize(io::stderr()).ok()? } else { return None };
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Checks the locale. The first variable that is set decides, as in the C library.
fn is_utf8() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(text).unwrap_or_default().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Returns a variable, unless it is empty or no text.
fn text(name: &str) -> Option<String> {
    variable(name)?.into_string().ok()
}
