//! The event loop: one thread, one epoll, and no blocking calls.
//!
//! Each turn handles ended processes first and then everything else. Each query handles the processes that have ended since. So no answer
//! includes memory of a process that ended before the query.

mod arrivals;
mod events;
mod exits;
mod messages;
mod queries;
mod streams;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use ttmon_collect::handover::Receiver;
use ttmon_os::time::unix_nanos;

use crate::answer::Plan;
use crate::connection::Connection;
use crate::counters::Counters;
use crate::dump::DumpQueue;
use crate::follow::Follower;
use crate::handed::HandedLedgers;
use crate::limits::READ_BYTES;
use crate::listen::Listener;
use crate::log::Log;
use crate::owner::{Budget, ProcessView, Tracked};
use crate::peer::HeldProcess;
use crate::store::Store;
use crate::warning_limit::WarningLimit;
use crate::work::{Cleanup, Control, Handle, Inbox, Sampler, Sources, WorkerMessage, Workers};

/// The parts of a server.
pub struct Settings {
    /// The sockets to accept connections from.
    pub listeners: Vec<Listener>,
    /// Socket paths that another process uses, with their modes. The server tries again to bind them.
    pub unbound: Vec<(PathBuf, u32)>,
    /// The state directory.
    pub store: Store,
    /// The socket that receives handed-over ledgers, if any.
    pub handover: Option<Receiver>,
    /// Reads the other sources.
    pub sampler: Sampler,
    /// The destination of log lines.
    pub log: Log,
    /// Suppresses event lines. Warnings and dumps are always printed.
    pub is_quiet: bool,
}

/// A process that connected, or that a peer forked.
#[derive(Debug)]
struct Process {
    held: HeldProcess,
    /// How the process sees the machine, once known.
    view: Option<ProcessView>,
    tracked: Option<Tracked>,
    /// When the process was last refused a ledger, and why.
    refused: Option<(Instant, Untracked)>,
    connections: u32,
    /// The process has ended. Connections that it left open may still send events for other processes.
    is_dead: bool,
}

#[derive(Clone, Copy, Debug)]
enum Untracked {
    /// The maximum number of processes has one already.
    TooMany,
    /// The ledger could not be created.
    NoLedger,
}

/// The server.
pub struct Server {
    epoll: OwnedFd,
    /// The connections whose last message was a query. They are served between any two other connections, so that an answer waits for the
    /// events of at most one connection.
    queriers: OwnedFd,
    querying: usize,
    /// The pidfds of the processes, which become readable when a process ends.
    ends: OwnedFd,
    listeners: Vec<Listener>,
    unbound: Vec<(PathBuf, u32)>,
    /// By number. A connection whose input is being handled is not in the table.
    connections: HashMap<u64, Connection>,
    processes: BTreeMap<u64, Process>,
    last_number: u64,
    by_pid: HashMap<u32, u64>,
    by_user: HashMap<u32, usize>,
    owners: usize,
    store: Store,
    handed: HandedLedgers,
    workers: Workers,
    inbox: Inbox,
    log: Log,
    is_quiet: bool,
    counters: Counters,
    /// A copy of the counters for other threads, updated every turn.
    counted: Arc<Mutex<Counters>>,
    budget: Budget,
    warning_limit: WarningLimit,
    /// The last sample of the other sources.
    sources: Option<Arc<Sources>>,
    /// When the other sources were last read, successfully or not.
    sampled_at: Option<Instant>,
    is_sampling: bool,
    plan: Option<Plan>,
    deadlines: BTreeSet<(Instant, u64)>,
    /// A spare descriptor, closed to accept one more connection so that it can be rejected.
    spare: Option<File>,
    accept_again: Option<Instant>,
    handover_again: Option<Instant>,
    listen_again: Option<Instant>,
    dumps: [DumpQueue; 3],
    /// Dumps wait until this time at most for other sources.
    dump_deadline: Option<Instant>,
    buffer: Vec<u8>,
    has_failed_sampling: bool,
    is_stopping: bool,
}

// The high byte of an epoll token is the kind of event; the rest is a number.
const KIND: u64 = 0xFF << 56;
const LISTENER: u64 = 1 << 56;
const CONNECTION: u64 = 2 << 56;
const PROCESS: u64 = 3 << 56;
const INBOX: u64 = 4 << 56;
const HANDOVER: u64 = 5 << 56;
const HANDED: u64 = 6 << 56;
const QUERIERS: u64 = 7 << 56;
const ENDS: u64 = 8 << 56;

/// Events handled per turn. For ended processes, this is also the maximum number of processes with entries.
const EVENTS_MAX: usize = 1024;
/// Queries handled per turn.
const QUERIERS_MAX: usize = 64;
impl Server {
    /// Creates a server with the state that an earlier one left, and a handle to control it.
    pub fn new(settings: Settings) -> io::Result<(Self, Handle)> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let queriers = epoll::create(CreateFlags::CLOEXEC)?;
        let ends = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &queriers, EventData::new_u64(QUERIERS), EventFlags::IN)?;
        epoll::add(&epoll, &ends, EventData::new_u64(ENDS), EventFlags::IN)?;
        let handed = HandedLedgers::new(settings.handover, settings.store.machine());
        let (handle, inbox) = crate::work::connect(handed.kept())?;
        epoll::add(&epoll, &inbox, EventData::new_u64(INBOX), EventFlags::IN)?;
        for (index, listener) in settings.listeners.iter().enumerate() {
            epoll::add(&epoll, listener, EventData::new_u64(LISTENER | index as u64), EventFlags::IN)?;
        }
        if let Some(receiver) = handed.receiver() {
            epoll::add(&epoll, receiver, EventData::new_u64(HANDOVER), EventFlags::IN)?;
        }
        let follower = (!settings.is_quiet).then(|| Follower::new(settings.log.format(), settings.store.machine(), unix_nanos()));
        let budget = Budget::new(settings.store.bytes_of_user());
        let mut server = Self {
            epoll,
            queriers,
            querying: 0,
            ends,
            listeners: settings.listeners,
            counters: Counters { listen_failures: settings.unbound.len() as u64, ..Counters::default() },
            listen_again: arrivals::listen_again(&settings.unbound),
            unbound: settings.unbound,
            connections: HashMap::new(),
            processes: BTreeMap::new(),
            last_number: 0,
            by_pid: HashMap::new(),
            by_user: HashMap::new(),
            owners: 0,
            store: settings.store,
            handed,
            workers: Workers::start(&handle, settings.sampler, follower)?,
            inbox,
            log: settings.log,
            is_quiet: settings.is_quiet,
            counted: handle.counted(),
            budget,
            warning_limit: WarningLimit::default(),
            sources: None,
            sampled_at: None,
            is_sampling: false,
            plan: None,
            deadlines: BTreeSet::new(),
            // Without a spare descriptor, an error of `accept` pauses accepting.
            spare: File::open("/dev/null").ok(),
            accept_again: None,
            handover_again: None,
            dumps: Default::default(),
            dump_deadline: None,
            buffer: vec![0; READ_BYTES],
            has_failed_sampling: false,
            is_stopping: false,
        };
        server.adopt();
        server.refresh_sample();
        Ok((server, handle))
    }

    /// Runs until it is stopped.
    pub fn run(&mut self) -> io::Result<()> {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
        while !self.is_stopping {
            let wait = self.time_left();
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), wait.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if events.iter().any(|event| event.data.u64() == ENDS) {
                self.take_ends();
            }
            for event in &events {
                let (token, flags) = (event.data.u64(), event.flags);
                match token & KIND {
                    CONNECTION => {
                        self.connection_ready(token & !KIND, flags);
                        self.log.flush();
                        self.serve_queriers();
                    }
                    QUERIERS => self.serve_queriers(),
                    LISTENER => self.accept((token & !KIND) as usize),
                    INBOX => self.drain(),
                    HANDOVER => self.handed_over(),
                    _ => {}
                }
            }
            self.handle_deadlines();
            self.log.flush();
            *ttmon_os::lock(&self.counted) = self.counters;
        }
        self.shutdown();
        Ok(())
    }

    /// Serves the connections that wait for an answer. Polling costs as much as a read, so it is skipped when there are none.
    fn serve_queriers(&mut self) {
        if self.querying == 0 {
            return;
        }
        for event in at_once(&self.queriers, QUERIERS_MAX) {
            self.connection_ready(event.data.u64() & !KIND, event.flags);
        }
    }

    fn take_ends(&mut self) {
        for event in at_once(&self.ends, EVENTS_MAX) {
            let token = event.data.u64();
            match token & KIND {
                PROCESS => self.process_ended(token & !KIND),
                HANDED => self.handed_ended(token & !KIND),
                _ => {}
            }
        }
    }

    fn time_left(&self) -> Option<Timespec> {
        let first = self.deadlines.first().map(|(at, _)| *at);
        let next = [
            first,
            self.accept_again,
            self.handover_again,
            self.dump_deadline,
            self.handed.next_deadline(),
            self.warning_limit.next_deadline(),
            self.listen_again,
        ]
        .into_iter()
        .flatten()
        .min()?;
        let rest = next.saturating_duration_since(Instant::now()) + Duration::from_micros(500);
        Some(Timespec { tv_sec: i64::try_from(rest.as_secs()).unwrap_or(i64::MAX), tv_nsec: i64::from(rest.subsec_nanos()) })
    }

    fn drain(&mut self) {
        self.inbox.empty();
        while let Ok(news) = self.inbox.news.try_recv() {
            match news {
                WorkerMessage::Inspected(key, view) => self.inspected(key, view),
                WorkerMessage::Sampled(sample) => self.sampled(sample),
                WorkerMessage::Found(connection, pid, held) => self.found(connection, pid, held.map(|held| *held)),
                WorkerMessage::Dumped(about, texts) => self.dumped(about, &texts),
                WorkerMessage::Followed(lines) => self.log.out().extend_from_slice(&lines),
                WorkerMessage::Counted(number, live) => self.handed.counted(number, live),
                WorkerMessage::Present => self.workers.follow_ledgers(),
                WorkerMessage::Control(Control::Stop) => self.is_stopping = true,
                WorkerMessage::Control(Control::Statistics) => self.statistics(),
            }
        }
    }

    fn handle_deadlines(&mut self) {
        let now = Instant::now();
        while let Some((_, number)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            self.deadline_expired(number);
        }
        if self.accept_again.is_some_and(|at| at <= now) {
            self.accept_on();
        }
        if self.handover_again.is_some_and(|at| at <= now) {
            self.handover_on(now);
        }
        if self.listen_again.is_some_and(|at| at <= now) {
            self.listen_on();
        }
        if self.dump_deadline.is_some_and(|at| at <= now) {
            self.write_dumps();
        }
        self.report_suppressed_warnings(now);
        self.handed.forget_old(now);
        let forgotten = self.handed.take_forgotten();
        if !forgotten.is_empty() {
            self.workers.cleaner.queue(Cleanup::Handed(forgotten));
        }
    }
}

/// The ready events of an epoll, without waiting. None after an error: the caller asks again in its next turn.
fn at_once(epoll: &OwnedFd, most: usize) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::with_capacity(most);
    let _ = epoll::wait(epoll, spare_capacity(&mut events), Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    events
}
