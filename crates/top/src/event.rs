//! The events of the program. All of them go through one queue.

use std::time::Duration;

use crossterm::event::{KeyEvent, MouseEvent};

use crate::feed::News;
use crate::theme::Background;

/// An event.
#[derive(Debug)]
pub(crate) enum Event {
    /// A key was pressed.
    Key(KeyEvent),
    /// The mouse was used.
    Mouse(MouseEvent),
    /// The size of the terminal changed.
    Resized(u16, u16),
    /// The feed of a machine sent a message.
    News(usize, News),
    /// A machine has sent no message for this long.
    Silence(usize, Duration),
    /// The terminal reported its background.
    Background(Background),
    /// This program received a signal.
    Signal(i32),
    /// The keyboard cannot be read any more.
    InputLost(String),
    /// A feed's thread panicked, restored the terminal and printed the panic.
    Broken,
}
