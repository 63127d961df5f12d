//! Everything that can happen to the program: one closed list, one queue.

use std::time::Duration;

use crossterm::event::{KeyEvent, MouseEvent};

use crate::feed::News;

/// Something that happened.
#[derive(Debug)]
pub(crate) enum Event {
    /// A key.
    Key(KeyEvent),
    /// The mouse.
    Mouse(MouseEvent),
    /// The terminal has another size.
    Resized(u16, u16),
    /// A machine's feed told something.
    News(usize, News),
    /// It has told nothing for this long.
    Silence(usize, Duration),
    /// A signal for this program.
    Signal(i32),
    /// The keyboard is gone.
    InputLost(String),
    /// A feed's thread ended by a panic, which has given the terminal back and told itself.
    Broken,
}
