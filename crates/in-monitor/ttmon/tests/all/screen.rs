//! `ttmon top` in a real pseudo-terminal: the screen after each key, and the restored terminal at the end.

mod background;
mod keys;
mod leaving;
mod replay;
mod sources;
mod watching;

use std::path::Path;

use ttmon_testing::Terminal;

use crate::TTMON;

/// Starts `ttmon top` with these arguments.
fn start_top(columns: u16, rows: u16, arguments: &str) -> Terminal {
    start_top_with(columns, rows, arguments, &[])
}

fn start_top_with(columns: u16, rows: u16, arguments: &str, variables: &[(&str, &str)]) -> Terminal {
    start_ttmon(columns, rows, &format!("top {arguments}"), variables)
}

/// Starts `ttmon` with these arguments.
pub(crate) fn start_ttmon(columns: u16, rows: u16, arguments: &str, variables: &[(&str, &str)]) -> Terminal {
    let arguments: Vec<&str> = arguments.split_ascii_whitespace().collect();
    Terminal::start(Path::new(TTMON), columns, rows, &arguments, variables)
}
