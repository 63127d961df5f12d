//! Threads for all work that may take long. The loop receives the results.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use ttmon_collect::ledgers::OpenLedger;
use ttmon_collect::reads::{Lane, Pool, Request, Sampling, Want};
use ttmon_ledger::writer::Hosted;
use ttmon_ledger::writer::{Environment, VisibleDevicesVariable};
use ttmon_ledger_reader::Region;
use ttmon_model::Sample;
use ttmon_model::identity::ProcessKey;
use ttmon_model::ledger::VisibleDevices;
use ttmon_os::lock;

use crate::counters::Counters;
use crate::dump::{About, DumpWork, Viewer, dumps};
use crate::follow::Follower;
use crate::handed::{self, KeptLedger, PostMortem};
use crate::limits::{CONNECTIONS_MAX, ENVIRONMENT_BYTES_MAX, HANDED_MAX, OWNERS_MAX};
use crate::owner::ProcessView;
use crate::peer::{self, HeldProcess, NamedPeer};

/// The data of other sources: a sample without this server's own ledgers, and the ledgers of programs.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The sample.
    pub sample: Sample,
    /// The ledgers of programs, for dumps.
    pub ledgers: Vec<Arc<OpenLedger>>,
}

/// Samples the machine.
pub type Sampler = Box<dyn FnMut() -> Result<Sources, ttmon_collect::Error> + Send>;

/// A message to the loop.
pub(crate) enum WorkerMessage {
    /// How a process sees the machine.
    Inspected(ProcessKey, ProcessView),
    /// A new sample of the other sources.
    Sampled(Result<Box<Sources>, ttmon_collect::Error>),
    /// The result of a search for a pid that a connection named: a process that the peer forked, or `None`.
    Found(u64, u32, Option<Box<HeldProcess>>),
    /// A dump is ready, with one text per viewer.
    Dumped(About, Vec<(Viewer, String)>),
    /// Lines about events of programs that write ledgers.
    Followed(Vec<u8>),
    /// Live bytes of an ended process in the ledger that it handed over.
    Counted(u64, u64),
    /// The service has a new sample: there may be new events in ledgers.
    Present,
    Control(Control),
}

/// Commands to the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Stop the loop.
    Stop,
    /// Print statistics.
    Statistics,
}

/// Sends commands to the loop, from any thread.
#[derive(Clone, Debug)]
pub struct Handle {
    news: Sender<WorkerMessage>,
    waker: Arc<OwnedFd>,
    kept: PostMortem,
    counted: Arc<Mutex<Counters>>,
    /// The ledgers of the service's last sample.
    present: Arc<Mutex<Vec<Arc<OpenLedger>>>>,
}

impl Handle {
    /// Stores the ledgers of a new sample, for event lines and dumps. Never waits.
    pub fn found(&self, ledgers: &[Arc<OpenLedger>]) {
        *lock(&self.present) = ledgers.to_vec();
        self.send(WorkerMessage::Present);
    }

    fn present(&self) -> Vec<Arc<OpenLedger>> {
        lock(&self.present).clone()
    }

    /// The counters as of the last turn of the loop.
    pub fn counters(&self) -> Counters {
        *lock(&self.counted)
    }

    /// The shared copy that the loop updates.
    pub(crate) fn counted(&self) -> Arc<Mutex<Counters>> {
        Arc::clone(&self.counted)
    }

    /// The ledgers that were handed over.
    pub fn post_mortem(&self) -> &PostMortem {
        &self.kept
    }

    /// Sends a command.
    pub fn control(&self, control: Control) {
        self.send(WorkerMessage::Control(control));
    }

    fn send(&self, news: WorkerMessage) {
        if self.news.send(news).is_ok() {
            // Fails only if the counter is full. Then the loop is awake.
            let _ = rustix::io::write(&*self.waker, &1_u64.to_ne_bytes());
        }
    }
}

/// The receiving end of the loop's messages.
pub(crate) struct Inbox {
    pub(crate) news: Receiver<WorkerMessage>,
    waker: Arc<OwnedFd>,
}

impl Inbox {
    /// Clears the wake-up event until the next message.
    pub(crate) fn empty(&self) {
        // Fails only if there was no wake-up.
        let _ = rustix::io::read(&*self.waker, &mut [0; 8]);
    }
}

impl AsFd for Inbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}

/// Creates a handle to the loop, and its inbox.
pub(crate) fn connect(kept: PostMortem) -> io::Result<(Handle, Inbox)> {
    let waker = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (sender, receiver) = channel();
    let handle = Handle { news: sender, waker: Arc::clone(&waker), kept, counted: Arc::default(), present: Arc::default() };
    Ok((handle, Inbox { news: receiver, waker }))
}

/// A thread that handles work items one at a time, with a bounded queue.
pub(crate) struct Worker<T>(SyncSender<T>);

impl<T: Send + 'static> Worker<T> {
    fn start(name: &str, waiting_max: usize, mut handle: impl FnMut(T, &Receiver<T>) + Send + 'static) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(waiting_max);
        let run = move || receiver.iter().for_each(|work| handle(work, &receiver));
        thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Self(sender))
    }

    /// Queues work. Returns false if the queue is full.
    pub(crate) fn queue(&self, work: T) -> bool {
        self.0.try_send(work).is_ok()
    }
}

/// Ledgers of dead processes, to be freed.
pub(crate) enum Cleanup {
    Hosted(Hosted),
    Handed(Vec<KeptLedger>),
}

/// The worker threads. Work that a peer can prolong has a thread of its own.
pub(crate) struct Workers {
    /// Finds out how a process sees the machine. If a result is dropped, the connection that waits for it continues after a timeout.
    pub(crate) peer_lookup: Worker<ProcessKey>,
    /// Finds the process that a connection named.
    pub(crate) descendants: Worker<(u64, NamedPeer)>,
    /// Writes dumps, at most one of each sort at once.
    pub(crate) dumps: Worker<DumpWork>,
    /// Counts the live bytes of an ended process in the ledger that it handed over.
    pub(crate) left_buffers: Worker<(u64, Arc<Region>)>,
    /// If its queue is full, the caller drops the ledger. This delays the loop, but loses nothing.
    pub(crate) cleaner: Worker<Cleanup>,
    /// Closes descriptors that may take long to close.
    pub(crate) closer: Worker<OwnedFd>,
    /// Reads the other sources.
    pub(crate) sampler: Worker<()>,
    /// Reports new events in ledgers immediately. A quiet server has no such thread.
    ledger_events: Option<Worker<()>>,
}

/// Maximum wait for a file of a peer. A peer can block the reader of its files.
const READ_TIMEOUT: Duration = Duration::from_millis(200);

impl Workers {
    /// Starts the threads. A follower reports events of programs that write ledgers.
    pub(crate) fn start(handle: &Handle, mut sample: Sampler, follower: Option<Follower>) -> io::Result<Self> {
        let [of_peer_lookup, of_descendants, of_dumps, of_left_buffers, of_sampler, of_ledger_events] =
            std::array::from_fn(|_| handle.clone());
        let mut pool = Pool::new(READ_TIMEOUT, None);
        Ok(Self {
            peer_lookup: Worker::start("peer-lookup", CONNECTIONS_MAX, move |first, more| {
                look_up(&mut pool, &std::iter::once(first).chain(more.try_iter()).collect::<Vec<_>>(), &of_peer_lookup);
            })?,
            descendants: Worker::start("descendants", CONNECTIONS_MAX, move |(number, named): (u64, NamedPeer), _| {
                of_descendants.send(WorkerMessage::Found(number, named.pid, peer::descendant(named).map(Box::new)));
            })?,
            dumps: Worker::start("dumps", About::ALL.len(), move |work: DumpWork, _| {
                of_dumps.send(WorkerMessage::Dumped(work.about, dumps(&work, &of_dumps.present(), &of_dumps.kept)));
            })?,
            left_buffers: Worker::start("left-buffers", HANDED_MAX, move |(number, region): (u64, Arc<Region>), _| {
                of_left_buffers.send(WorkerMessage::Counted(number, handed::live(&region)));
            })?,
            cleaner: Worker::start("cleanup", OWNERS_MAX, |left, _| match left {
                Cleanup::Hosted(hosted) => hosted.remove(),
                Cleanup::Handed(ledgers) => drop(ledgers),
            })?,
            closer: Worker::start("closer", CONNECTIONS_MAX, |descriptor, _| drop(descriptor))?,
            sampler: Worker::start("alloc-sampler", 1, move |(), _| of_sampler.send(WorkerMessage::Sampled(sample().map(Box::new))))?,
            ledger_events: match follower {
                Some(mut follower) => Some(Worker::start("ledger-events", 1, move |(), _| {
                    let lines = follower.read(&of_ledger_events.present(), &of_ledger_events.kept);
                    of_ledger_events.send(WorkerMessage::Followed(lines));
                })?),
                None => None,
            },
        })
    }

    /// Reports new events in ledgers. If the queue is full, a turn is already due.
    pub(crate) fn follow_ledgers(&self) {
        if let Some(worker) = &self.ledger_events {
            worker.queue(());
        }
    }
}

/// Reads environments of processes. A process can make reads of its memory block forever, so the threads that read can be abandoned.
fn look_up(pool: &mut Pool, processes: &[ProcessKey], handle: &Handle) {
    let lanes = processes.iter().map(|process| Lane {
        key: u64::from(process.pid),
        requests: vec![Request {
            path: PathBuf::from(format!("/proc/{}/environ", process.pid)),
            want: Want::Beginning,
            bytes_max: ENVIRONMENT_BYTES_MAX,
            sampling: Sampling::Once,
        }]
        .into(),
    });
    let replies = pool.read(lanes.collect());
    for (process, lane) in processes.iter().zip(replies) {
        // Other users cannot be inspected by an ordinary user, and a process can delay the read.
        let view = lane.replies.first().and_then(|reply| view(reply.as_ref().ok()?)).unwrap_or(ProcessView::UNKNOWN);
        handle.send(WorkerMessage::Inspected(*process, view));
    }
}

/// Parses the environment variables of a process; `None` if the environment is truncated, or a list of devices is not UTF-8.
fn view(environment: &[u8]) -> Option<ProcessView> {
    if environment.len() >= ENVIRONMENT_BYTES_MAX {
        return None;
    }
    let Environment { seen, is_mock } = Environment::of(|name| {
        let mut entries = environment.split(|byte| *byte == 0);
        entries.find_map(|entry| entry.strip_prefix(name.to_bytes())?.strip_prefix(b"="))
    });
    let visible = match seen {
        VisibleDevicesVariable::All => VisibleDevices::All,
        VisibleDevicesVariable::Only(text) => VisibleDevices::Only(str::from_utf8(text).ok()?.to_owned()),
        VisibleDevicesVariable::Unknown => VisibleDevices::Cut,
    };
    Some(ProcessView { visible, is_mock })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_view_follows_the_variables_of_a_process() {
        let only = |text: &str| VisibleDevices::Only(text.to_owned());
        let cases: [(&[u8], Option<ProcessView>); 5] = [
            (b"", Some(ProcessView { visible: VisibleDevices::All, is_mock: false })),
            (b"A=1\0TT_VISIBLE_DEVICES=2,3\0", Some(ProcessView { visible: only("2,3"), is_mock: false })),
            (b"TT_VISIBLE_DEVICES=\0TT_METAL_SIMULATOR=/x\0", Some(ProcessView { visible: only(""), is_mock: true })),
            (b"XTT_VISIBLE_DEVICES=9\0TT_METAL_SIMULATOR=\0", Some(ProcessView { visible: VisibleDevices::All, is_mock: false })),
            (b"TT_VISIBLE_DEVICES=\xff\0", None),
        ];
        for (environment, expected) in cases {
            assert_eq!(view(environment), expected, "{}", String::from_utf8_lossy(environment));
        }
    }
}
