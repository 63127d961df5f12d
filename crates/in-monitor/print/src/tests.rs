//! Golden outputs of every machine, and properties of any machine.

mod golden;
mod properties;

use std::io;

pub(crate) use ttmon_testing::machine;

use crate::Style;

pub(crate) fn printed(print: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
    let mut out = Vec::new();
    print(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn style(width: usize) -> Style<'static> {
    Style { width, local_time: "2026-11-15 08:12:45".to_owned(), ..Style::plain("0.1.0") }
}
