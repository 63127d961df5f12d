//! Sources of snapshots. A feed runs in its own thread and communicates by messages, so that a source
//! that hangs never blocks the screen. A local machine, a service's API and a recording are feeds.

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

use crate::keys::Step;
use crate::update::Event;

pub use frame::line_of;
pub use local::Local;
pub(crate) use past::HistoryGrid;
pub use remote::Remote;
pub use replay::Replay;
pub(crate) use replay::{JUMP_NANOS, ReplayPosition};

/// A source of snapshots.
#[derive(Debug)]
pub enum Feed {
    /// This machine, or a simulated one, read here.
    Local(Box<Local>),
    /// A service, on this host or another one.
    Remote(Box<Remote>),
    /// A recording.
    Replay(Box<Replay>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Request {
    Interval(Duration),
    Now,
    Buffers(bool),
    Deep(bool),
    /// Send the environment variables of a process that configure TT-Metal.
    Environment(ProcessKey),
    // Only for recordings; a jump is a minute.
    Pause,
    Step(Step),
    Jump(Step),
    Speed(Step),
}

#[derive(Debug)]
pub(crate) enum FeedMessage {
    Snapshot(Box<Snapshot>),
    Error(FeedError),
    /// History from before the first sample, or from a gap.
    Past(HistoryGrid),
    /// The source changed: a service is gone, or back.
    Source {
        is_back: bool,
        text: String,
    },
    Environment(ProcessKey, io::Result<Vec<String>>),
    /// Events of buffers since the last sample, oldest first.
    BufferEvents(Vec<BufferEvent>),
    Position(ReplayPosition),
}

/// Why there is no snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedError {
    /// What failed, why, and what to do.
    pub message: String,
    /// Whether the reason is that there is no device.
    pub is_no_device: bool,
    /// When the failure began, by the clock of this host.
    pub since: UnixTime,
}

/// The answer of a feed that has no variables of processes.
fn no_variables(process: ProcessKey, why: &'static str) -> FeedMessage {
    FeedMessage::Environment(process, Err(io::Error::other(why)))
}

fn unix_time() -> UnixTime {
    // A clock before 1970 shows 1970.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixTime(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

fn chosen(selection: &Selection, mut snapshot: Snapshot) -> Result<Snapshot, FeedError> {
    selection.check(&snapshot).map_err(|error| FeedError { message: error.to_string(), is_no_device: true, since: unix_time() })?;
    selection.apply(&mut snapshot);
    Ok(snapshot)
}

/// Notifies the loop if its thread panics. The terminal is then already restored, and nothing may be drawn.
struct Alarm(Sender<Event>);

impl Drop for Alarm {
    fn drop(&mut self) {
        if thread::panicking() {
            // Without a receiver, the loop has already ended.
            let _ = self.0.send(Event::Broken);
        }
    }
}

impl Feed {
    pub(crate) fn address(&self) -> Option<String> {
        match self {
            Self::Remote(remote) => Some(remote.service.address().name()),
            Self::Local(_) | Self::Replay(_) => None,
        }
    }

    /// Starts the feed of the host with this index in its own thread. It ends when the other side of a channel is dropped.
    pub(crate) fn start(self, host: usize, interval: Duration, requests: Receiver<Request>, events: Sender<Event>) -> io::Result<()> {
        let builder = thread::Builder::new().name("feed".to_owned()).stack_size(512 * 1024);
        builder.spawn(move || {
            let _alarm = Alarm(events.clone());
            let send = |message| events.send(Event::Feed(host, message)).is_ok();
            match self {
                Self::Local(local) => local.run(interval, &requests, send),
                Self::Remote(remote) => remote.run(interval, &requests, send),
                Self::Replay(replay) => replay.run(&requests, send),
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
    fn a_panic_is_reported_and_a_normal_end_is_not() {
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
