//! The events of the program. All of them go through one queue.

use std::time::Duration;

use crossterm::event::{KeyEvent, MouseEvent};

use crate::feed::FeedMessage;
use crate::theme::Background;

#[derive(Debug)]
pub(crate) enum Event {
    Key(KeyEvent),
    Mouse(MouseEvent),
    Resized(u16, u16),
    Feed(usize, FeedMessage),
    /// A machine has sent no message for this long.
    Silence(usize, Duration),
    Background(Background),
    Signal(i32),
    InputError(String),
    /// A feed's thread panicked, restored the terminal and printed the panic.
    Broken,
}
