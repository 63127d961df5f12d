//! New connections, the processes that made them, and processes of an earlier server.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Instant;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use ttmon_model::identity::ProcessKey;

use super::{CONNECTION, LISTENER, PROCESS, Process, Server};
use crate::connection::{Connection, Deadline, Pause};
use crate::limits::{ACCEPT_PAUSE, CONNECTIONS_MAX, CONNECTIONS_OF_ROOT, CONNECTIONS_OF_USER_MAX, INSPECTION_WAIT, LISTEN_PAUSE};
use crate::listen::Listener;
use crate::owner::{ProcessView, Tracked};
use crate::peer::{self, HeldProcess, Peer};
use crate::store::AdoptedState;

/// Connections accepted per turn.
const ACCEPTS_MAX: usize = 64;
/// A rejected peer can connect again later; an unidentified peer would never be tracked.
const NO_DESCRIPTOR: &str = "no descriptor is left; raise the limit of open files";

impl Server {
    pub(super) fn accept(&mut self, index: usize) {
        for _ in 0..ACCEPTS_MAX {
            let Some(listener) = self.listeners.get(index) else { return };
            match listener.accept() {
                Ok(socket) => {
                    let is_guarded = listener.refuses_descriptors();
                    self.counters.connections += 1;
                    self.accept_peer(socket, is_guarded);
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::MFILE | Errno::NFILE) if self.spare.take().is_some() => {
                    // Closing the spare descriptor makes one available to accept this connection and close it. The kernel reserves a
                    // descriptor before it checks whether a peer waits.
                    let turned_away = listener.accept().map(drop);
                    // Without a spare descriptor, the next such error pauses accepting.
                    self.spare = File::open("/dev/null").ok();
                    match turned_away {
                        Ok(()) => self.refuse(NO_DESCRIPTOR),
                        Err(_) => return,
                    }
                }
                Err(error) => return self.pause_accepting(error),
            }
        }
    }

    /// Pauses accepting after an error, to avoid a continuous wake-up.
    fn pause_accepting(&mut self, error: Errno) {
        self.counters.connections_refused += 1;
        if self.counters.connections_refused.is_power_of_two() {
            let (count, pause) = (self.counters.connections_refused, ACCEPT_PAUSE.as_millis());
            self.warn(&format!("⚠️  Accept failed ({count} so far): {error}; trying again in {pause} ms"));
        }
        self.watch_listeners(EventFlags::empty());
        self.accept_again = Some(Instant::now() + ACCEPT_PAUSE);
    }

    pub(super) fn accept_on(&mut self) {
        self.accept_again = None;
        // If there is still no descriptor, the next error pauses accepting again.
        self.spare = self.spare.take().or_else(|| File::open("/dev/null").ok());
        self.watch_listeners(EventFlags::IN);
    }

    fn watch_listeners(&self, flags: EventFlags) {
        for (index, listener) in self.listeners.iter().enumerate() {
            // Fails only if the listener is not in the epoll.
            let _ = epoll::modify(&self.epoll, listener, EventData::new_u64(LISTENER | index as u64), flags);
        }
    }

    /// Tries again to listen at the paths that another process used.
    pub(super) fn listen_on(&mut self) {
        let mut left = Vec::new();
        for (path, mode) in std::mem::take(&mut self.unbound) {
            // The first error was printed at the start. Later ones are only counted.
            let bound = Listener::bind(&path, mode).ok().filter(|listener| {
                let data = EventData::new_u64(LISTENER | self.listeners.len() as u64);
                epoll::add(&self.epoll, listener, data, EventFlags::IN).is_ok()
            });
            if let Some(listener) = bound {
                self.print_line(&format!("   Listening on: {}", path.display()));
                self.listeners.push(listener);
            } else {
                self.counters.listen_failures += 1;
                left.push((path, mode));
            }
        }
        self.listen_again = listen_again(&left);
        self.unbound = left;
    }

    fn refuse(&mut self, why: &str) {
        self.counters.connections_refused += 1;
        if self.counters.connections_refused.is_power_of_two() {
            self.warn(&format!("⚠️  Connection refused ({} so far): {why}", self.counters.connections_refused));
        }
    }

    fn accept_peer(&mut self, socket: OwnedFd, is_guarded: bool) {
        let Ok(Peer { pid, uid, pidfd }) = peer::at(&socket) else { return self.refuse(NO_DESCRIPTOR) };
        let most = CONNECTIONS_MAX + if uid == 0 { CONNECTIONS_OF_ROOT } else { 0 };
        if self.connections.len() >= most {
            return self.refuse(&format!("{most} connections are open"));
        }
        if self.by_user.get(&uid).is_some_and(|open| *open >= CONNECTIONS_OF_USER_MAX) {
            return self.refuse(&format!("{CONNECTIONS_OF_USER_MAX} connections of user {uid} are open"));
        }
        // The pid of an ended peer may belong to another process that is known here.
        let alive = pidfd.filter(|pidfd| peer::is_alive(pidfd.as_fd()));
        let Ok(peer) = alive.map_or(Ok(None), |pidfd| self.known_or_new(pid, pidfd)) else { return self.refuse(NO_DESCRIPTOR) };
        let mut connection = Connection::new(socket, is_guarded, peer, (pid, uid));
        *self.by_user.entry(uid).or_default() += 1;
        if let Some(process) = peer.and_then(|peer| self.processes.get_mut(&peer)) {
            process.connections += 1;
            if process.view.is_none() {
                connection.pause = Some(Pause::Inspection);
            }
        }
        let is_paused = connection.pause.is_some();
        connection.waits = Some((!is_paused, false));
        let number = self.new_number();
        let flags = if is_paused { EventFlags::empty() } else { EventFlags::IN };
        let watched = epoll::add(&self.epoll, &connection.socket, EventData::new_u64(CONNECTION | number), flags);
        self.connections.insert(number, connection);
        if watched.is_err() {
            return self.close(number);
        }
        if is_paused {
            self.set_deadline(number, Some((Instant::now() + INSPECTION_WAIT, Deadline::Resume)));
        }
    }

    /// Returns the number of a peer that was alive just before; `None` if it has ended or is hidden.
    pub(super) fn known_or_new(&mut self, pid: u32, pidfd: OwnedFd) -> io::Result<Option<u64>> {
        let known = self.by_pid.get(&pid).copied();
        if let Some(known) = known {
            let Some(process) = self.processes.get(&known) else { return Ok(None) };
            if !process.is_dead && peer::is_alive(process.held.pidfd.as_fd()) {
                return Ok(Some(known));
            }
            // The pid may belong to another process now.
            self.process_ended(known);
        }
        Ok(peer::read_process(pid, pidfd)?.and_then(|held| self.add_process(held)))
    }

    /// Returns the number of a new connection or process. No number is used twice, so a stale one never refers to another item.
    fn new_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(super) fn add_process(&mut self, held: HeldProcess) -> Option<u64> {
        let key = held.key;
        let number = self.new_number();
        epoll::add(&self.ends, &held.pidfd, EventData::new_u64(PROCESS | number), EventFlags::IN).ok()?;
        let process = Process { held, view: None, tracked: None, refused: None, connections: 0, is_dead: false };
        self.processes.insert(number, process);
        self.by_pid.insert(key.pid, number);
        self.workers.peer_lookup.queue(key);
        Some(number)
    }

    /// Takes over the ledgers that an earlier server left.
    pub(super) fn adopt(&mut self) {
        let AdoptedState { adopted, removed, unreadable, error } = self.store.adopt();
        let (count, mut entries) = (adopted.len(), 0);
        for (held, hosted) in adopted {
            entries += hosted.live_entries();
            let (key, uid) = (held.key, held.uid());
            if let Some(number) = self.add_process(held) {
                self.owners += 1;
                let tracked = Tracked::new(hosted, uid, &mut self.budget);
                if let Some(process) = self.processes.get_mut(&number) {
                    process.tracked = Some(tracked);
                }
                self.counters.adopted += 1;
            } else {
                self.store.remove(key);
            }
        }
        let several = |count: usize| if count == 1 { "1 process".to_owned() } else { format!("{count} processes") };
        if count > 0 {
            self.print_line(&format!("🔁 Took over {entries} entries of {} from an earlier server", several(count)));
        }
        if removed > 0 {
            self.print_line(&format!("🔁 Removed what an earlier server kept of {}, now ended", several(removed)));
        }
        if let Some(error) = error {
            let path = self.store.path().display();
            self.warn(&format!("⚠ {path}: {error}; ledgers that an earlier server left there are not shown"));
        }
        if unreadable > 0 {
            let path = self.store.path().display();
            self.warn(&format!("⚠ {path}: {unreadable} ledgers of live processes are another version's or machine's, and are left alone"));
        }
    }

    pub(super) fn inspected(&mut self, key: ProcessKey, view: ProcessView) {
        let Some(number) = self.by_pid.get(&key.pid).copied() else { return };
        let Some(process) = self.processes.get_mut(&number).filter(|process| process.held.key == key) else { return };
        process.view = Some(view);
        self.plan = None;
        self.resume_all(|connection| connection.pause == Some(Pause::Inspection) && connection.peer == Some(number));
    }

    pub(super) fn resume_all(&mut self, is_waiting: impl Fn(&Connection) -> bool) {
        let waiting = self.connections.iter().filter(|(_, connection)| is_waiting(connection)).map(|(number, _)| *number);
        let mut waiting: Vec<u64> = waiting.collect();
        waiting.sort_unstable();
        waiting.into_iter().for_each(|number| self.resume(number));
    }
}

/// When to try again to listen at paths that another process uses.
pub(super) fn listen_again(unbound: &[(PathBuf, u32)]) -> Option<Instant> {
    (!unbound.is_empty()).then(|| Instant::now() + LISTEN_PAUSE)
}
