//! Where snapshots come from. A feed lives in a thread of its own and is asked and answered by messages, so that a source
//! that hangs never holds up the screen. A local machine and a recording are feeds; a server's API will be a third.

mod local;
mod replay;

use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::Duration;

use ttmon_model::{ProcessKey, Snapshot};
use ttmon_source::happenings::Happening;

use crate::event::Event;
use crate::keys::Step;

pub use local::Local;
pub(crate) use replay::Position;
pub use replay::{Replay, line_of};

/// A source of snapshots.
#[derive(Debug)]
pub enum Feed {
    /// This machine, or a simulated one, read here.
    Local(Box<Local>),
    /// What somebody recorded.
    Replay(Box<Replay>),
}

/// What the screen asks a feed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Request {
    /// Look this often.
    Interval(Duration),
    /// Look now.
    Now,
    /// Read every live buffer too, or no longer.
    Buffers(bool),
    /// The variables of a process that tell TT-Metal what to do.
    Environment(ProcessKey),
    /// Of a recording: stand still, or go on.
    Pause,
    /// A moment earlier or later.
    Step(Step),
    /// A minute earlier or later.
    Jump(Step),
    /// Slower or faster.
    Speed(Step),
}

/// What a feed tells.
#[derive(Debug)]
pub(crate) enum News {
    /// The machine, now.
    Snapshot(Box<Snapshot>),
    /// It could not be looked at.
    Lost(Lost),
    /// Variables of a process, or why they cannot be told.
    Environment(ProcessKey, Result<Vec<String>, String>),
    /// What happened to buffers since the last look, oldest first.
    Happenings(Vec<Happening>),
    /// Where a recording is.
    Position(Position),
}

/// Why there is no snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The reason in words: what failed, why, what to do.
    pub message: String,
    /// Whether it is that there is no device.
    pub is_no_device: bool,
}

impl Feed {
    /// Starts it in its thread. It ends when nobody asks or listens any more.
    pub(crate) fn start(self, interval: Duration, requests: Receiver<Request>, events: Sender<Event>) -> std::io::Result<()> {
        let builder = thread::Builder::new().name("feed".to_owned()).stack_size(512 * 1024);
        builder.spawn(move || {
            let tell = |news| events.send(Event::News(news)).is_ok();
            match self {
                Self::Local(local) => local.run(interval, &requests, tell),
                Self::Replay(replay) => replay.run(&requests, tell),
            }
        })?;
        Ok(())
    }
}
