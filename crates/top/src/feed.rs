//! Where snapshots come from. A feed lives in a thread of its own and is asked and answered by messages, so that a source
//! that hangs never holds up the screen. A local machine, a service's API and a recording are feeds.

mod frame;
mod local;
mod past;
mod remote;
mod replay;
mod served;

use std::io;
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ttmon_model::event::BufferEvent;
use ttmon_model::select::Selection;
use ttmon_model::units::UnixTime;
use ttmon_model::{ProcessKey, Snapshot};

use crate::event::Event;
use crate::keys::Step;

pub use frame::line_of;
pub use local::Local;
pub(crate) use past::Grid;
pub use remote::Remote;
pub use replay::Replay;
pub(crate) use replay::{JUMP_NANOS, Position};

/// A source of snapshots.
#[derive(Debug)]
pub enum Feed {
    /// This machine, or a simulated one, read here.
    Local(Box<Local>),
    /// A service.
    Remote(Box<Remote>),
    /// A recording.
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
    /// Read the chips themselves too (`--deep`), or no longer.
    Deep(bool),
    /// The variables of a process that configure TT-Metal.
    Environment(ProcessKey),
    /// Of a recording: stand still, or go on.
    Pause,
    /// The previous or next frame.
    Step(Step),
    /// A minute earlier or later.
    Jump(Step),
    /// Slower or faster.
    Speed(Step),
}

/// A message of a feed.
#[derive(Debug)]
pub(crate) enum News {
    /// The machine, now.
    Snapshot(Box<Snapshot>),
    /// It could not be sampled.
    Lost(Lost),
    /// History from before the first sample, or from a gap.
    Past(Grid),
    /// The source changed: a service is gone, or back.
    Source { is_back: bool, text: String },
    /// Variables of a process, or why they are unknown.
    Environment(ProcessKey, io::Result<Vec<String>>),
    /// What happened to buffers since the last look, oldest first.
    BufferEvents(Vec<BufferEvent>),
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
    /// Since when, by this host's clock.
    pub since: UnixTime,
}

fn unix_time() -> UnixTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixTime(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// A snapshot with the devices that are meant alone, each of which must be there.
fn chosen(selection: &Selection, mut snapshot: Snapshot) -> Result<Snapshot, Lost> {
    selection.check(&snapshot).map_err(|error| Lost { message: error.to_string(), is_no_device: true, since: unix_time() })?;
    selection.apply(&mut snapshot);
    Ok(snapshot)
}

/// Notifies the loop when its thread panics: the terminal is restored then, and must not be drawn on.
struct Alarm(Sender<Event>);

impl Drop for Alarm {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = self.0.send(Event::Broken);
        }
    }
}

impl Feed {
    /// Where it is, if that is not here.
    pub(crate) fn place(&self) -> Option<String> {
        match self {
            Self::Remote(remote) => Some(remote.service.place().name()),
            Self::Local(_) | Self::Replay(_) => None,
        }
    }

    /// Starts it in its thread, as one of several by this number. It ends when nobody asks or listens any more.
    pub(crate) fn start(self, host: usize, interval: Duration, requests: Receiver<Request>, events: Sender<Event>) -> io::Result<()> {
        let builder = thread::Builder::new().name("feed".to_owned()).stack_size(512 * 1024);
        builder.spawn(move || {
            let _alarm = Alarm(events.clone());
            let tell = |news| events.send(Event::News(host, news)).is_ok();
            match self {
                Self::Local(local) => local.run(interval, &requests, tell),
                Self::Remote(remote) => remote.run(interval, &requests, tell),
                Self::Replay(replay) => replay.run(&requests, tell),
            }
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_panic_is_heard_and_an_end_is_not() {
        for panics in [true, false] {
            let (events, arrivals) = channel();
            let thread = thread::spawn(move || {
                let _alarm = Alarm(events);
                assert!(!panics, "as it was meant to");
            });
            assert_eq!(thread.join().is_err(), panics);
            assert_eq!(matches!(arrivals.try_recv(), Ok(Event::Broken)), panics);
        }
    }
}
