//! Everything that can happen to the program: one closed list, one queue.

use std::time::Duration;

use crossterm::event::{KeyEvent, MouseEvent};

use crate::feed::News;
use crate::theme::Background;

/// Something that happened.
#[derive(Debug)]
pub(crate) enum Event {
    /// A key.
    Key(KeyEvent),
    /// The mouse.
    Mouse(MouseEvent),
    /// The terminal has another size.
    Resized(u16, u16),
    /// A message of a machine's feed.
    News(usize, News),
    /// No message for this long.
    Silence(usize, Duration),
    /// The terminal has this background.
    Background(Background),
    /// A signal for this program.
    Signal(i32),
    /// The keyboard is gone.
    InputLost(String),
    /// A feed's thread panicked, restored the terminal and printed the panic.
    Broken,
}
