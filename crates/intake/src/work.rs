//! Everything that may take long happens in threads beside the loop, which hears of it when it is done.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::event::{EventfdFlags, eventfd};

use ttmon_ledger::reader::Region;
use ttmon_ledger::writer::Hosted;
use ttmon_model::Sample;
use ttmon_model::identity::ProcessKey;
use ttmon_model::ledger::VisibleDevices;
use ttmon_source::read::{Lane, Pace, Pool, Request, Want};

use crate::dump::{self, About, Owned};
use crate::handed::PostMortem;
use crate::limits::ENVIRONMENT_BYTES_MAX;
use crate::owner::View;

/// Reads the machine, without what this server itself keeps.
pub type Sampler = Box<dyn FnMut() -> Result<Sample, String> + Send>;

/// What the loop hears.
pub(crate) enum News {
    /// How a process sees the machine.
    Inspected(ProcessKey, View),
    /// What other sources say.
    Sampled(Result<Box<Sample>, String>),
    /// A dump is ready: for a connection, or for stdout.
    Dumped(Option<u64>, String),
    /// From outside.
    Control(Control),
}

/// What the loop is told from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// End.
    Stop,
    /// Print statistics.
    Statistics,
}

/// Tells the loop something, from any thread.
#[derive(Clone, Debug)]
pub struct Handle {
    news: Sender<News>,
    waker: Arc<OwnedFd>,
    kept: PostMortem,
}

impl Handle {
    /// The ledgers that were handed over.
    pub fn post_mortem(&self) -> &PostMortem {
        &self.kept
    }

    /// Tells it.
    pub fn tell(&self, control: Control) {
        self.send(News::Control(control));
    }

    fn send(&self, news: News) {
        if self.news.send(news).is_ok() {
            let _ = rustix::io::write(&*self.waker, &1_u64.to_ne_bytes());
        }
    }
}

/// The loop's ear.
pub(crate) struct Ear {
    pub(crate) news: Receiver<News>,
    waker: Arc<OwnedFd>,
}

impl Ear {
    /// Nothing is to be heard any more until the next call.
    pub(crate) fn empty(&self) {
        let _ = rustix::io::read(&*self.waker, &mut [0; 8]);
    }
}

impl AsFd for Ear {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}

/// A way to tell the loop something, and its ear.
pub(crate) fn connect(kept: PostMortem) -> io::Result<(Handle, Ear)> {
    let waker = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (sender, receiver) = channel();
    Ok((Handle { news: sender, waker: Arc::clone(&waker), kept }, Ear { news: receiver, waker }))
}

/// A thread that does one thing after the other.
struct Worker<T>(Sender<T>);

impl<T: Send + 'static> Worker<T> {
    fn start(name: &str, run: impl FnOnce(&Receiver<T>) + Send + 'static) -> io::Result<Self> {
        let (sender, receiver) = channel();
        thread::Builder::new().name(name.to_owned()).spawn(move || run(&receiver))?;
        Ok(Self(sender))
    }

    fn ask(&self, work: T) {
        // Its thread ends only with us.
        let _ = self.0.send(work);
    }
}

/// A process's ledger that is to be dumped.
pub(crate) struct ToDump {
    pub(crate) pid: u32,
    pub(crate) path: PathBuf,
}

enum Clerical {
    Dump(About, Option<u64>, Vec<ToDump>),
    Remove(Box<Hosted>),
}

/// The threads.
pub(crate) struct Workers {
    inspector: Worker<ProcessKey>,
    clerk: Worker<Clerical>,
    sampler: Worker<()>,
}

/// Longest wait for a file of a peer, which may make its reader wait.
const READ_TIMEOUT: Duration = Duration::from_millis(200);

impl Workers {
    pub(crate) fn start(handle: &Handle, mut sample: Sampler) -> io::Result<Self> {
        let (of_inspector, of_clerk, of_sampler) = (handle.clone(), handle.clone(), handle.clone());
        Ok(Self {
            inspector: Worker::start("inspector", move |work| inspect(work, &of_inspector))?,
            clerk: Worker::start("clerk", move |work| clerk(work, &of_clerk))?,
            sampler: Worker::start("intake-sampler", move |work: &Receiver<()>| {
                while work.recv().is_ok() {
                    // One look answers all who asked meanwhile.
                    while work.try_recv().is_ok() {}
                    of_sampler.send(News::Sampled(sample().map(Box::new)));
                }
            })?,
        })
    }

    /// Finds out how a process sees the machine.
    pub(crate) fn inspect(&self, process: ProcessKey) {
        self.inspector.ask(process);
    }

    /// Looks at the other sources.
    pub(crate) fn sample(&self) {
        self.sampler.ask(());
    }

    /// Lists what these ledgers have, for a connection or for stdout.
    pub(crate) fn dump(&self, about: About, to: Option<u64>, ledgers: Vec<ToDump>) {
        self.clerk.ask(Clerical::Dump(about, to, ledgers));
    }

    /// Gives the memory of a dead process's ledger back.
    pub(crate) fn remove(&self, hosted: Hosted) {
        self.clerk.ask(Clerical::Remove(Box::new(hosted)));
    }
}

/// Reading a process's environment touches its memory, which it may have arranged to take for ever: so it is done here, by threads
/// that can be left behind.
fn inspect(work: &Receiver<ProcessKey>, handle: &Handle) {
    let pool = Pool::new(READ_TIMEOUT, None);
    while let Ok(first) = work.recv() {
        let processes: Vec<ProcessKey> = std::iter::once(first).chain(work.try_iter()).collect();
        let lanes = processes.iter().map(|process| Lane {
            key: u64::from(process.pid),
            requests: vec![Request {
                path: PathBuf::from(format!("/proc/{}/environ", process.pid)),
                want: Want::Beginning,
                bytes_max: ENVIRONMENT_BYTES_MAX,
                pace: Pace::Once,
            }]
            .into(),
        });
        let replies = pool.read(lanes.collect());
        for (process, lane) in processes.iter().zip(replies) {
            let view = lane.replies.first().and_then(|reply| view(reply.as_ref().ok()?)).unwrap_or(View::UNKNOWN);
            handle.send(News::Inspected(*process, view));
        }
    }
}

/// What the variables of a process say; `None` where they are not all there.
fn view(environment: &[u8]) -> Option<View> {
    if environment.len() >= ENVIRONMENT_BYTES_MAX {
        return None;
    }
    let variable = |name: &str| {
        let of = |entry: &[u8]| Some(entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.to_vec());
        environment.split(|byte| *byte == 0).find_map(of)
    };
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    let visible = match variable("TT_VISIBLE_DEVICES") {
        Some(value) => VisibleDevices::Only(String::from_utf8(value).ok()?),
        None => VisibleDevices::All,
    };
    Some(View { visible, is_mock: is_set("TT_METAL_MOCK_CLUSTER_DESC_PATH") || is_set("TT_METAL_SIMULATOR") })
}

fn clerk(work: &Receiver<Clerical>, handle: &Handle) {
    while let Ok(work) = work.recv() {
        match work {
            Clerical::Remove(hosted) => hosted.remove(),
            Clerical::Dump(about, to, ledgers) => {
                let list = |ledger: &ToDump| Region::open(File::open(&ledger.path).ok()?).ok()?.list().ok();
                let owned: Vec<Owned> =
                    ledgers.iter().filter_map(|ledger| Some(Owned { pid: ledger.pid, listing: list(ledger)? })).collect();
                handle.send(News::Dumped(to, dump::text(about, &owned, unix_ns())));
            }
        }
    }
}

/// Now, for people.
pub(crate) fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_a_process() {
        let only = |text: &str| VisibleDevices::Only(text.to_owned());
        let cases: [(&[u8], Option<View>); 5] = [
            (b"", Some(View { visible: VisibleDevices::All, is_mock: false })),
            (b"A=1\0TT_VISIBLE_DEVICES=2,3\0", Some(View { visible: only("2,3"), is_mock: false })),
            (b"TT_VISIBLE_DEVICES=\0TT_METAL_SIMULATOR=/x\0", Some(View { visible: only(""), is_mock: true })),
            (b"XTT_VISIBLE_DEVICES=9\0TT_METAL_SIMULATOR=\0", Some(View { visible: VisibleDevices::All, is_mock: false })),
            (b"TT_VISIBLE_DEVICES=\xff\0", None),
        ];
        for (environment, expected) in cases {
            assert_eq!(view(environment), expected, "{}", String::from_utf8_lossy(environment));
        }
    }
}
