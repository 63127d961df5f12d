//! Ended processes: their entries are removed immediately. Also forgets processes without entries and connections.

use std::time::Instant;

use rustix::event::epoll::{self, EventData, EventFlags};
use ttmon_ledger::layout::kind;
use ttmon_ledger::report::BUFFER_KINDS;

use super::{HANDED, HANDOVER, Server};
use crate::limits::HANDOVER_PAUSE;
use crate::lines;
use crate::owner::{Tracked, add};
use crate::work::Cleanup;

impl Server {
    pub(super) fn process_ended(&mut self, number: u64) {
        let Some(process) = self.processes.get_mut(&number).filter(|process| !process.is_dead) else { return };
        process.is_dead = true;
        // Fails only if the pidfd is not in the epoll.
        let _ = epoll::delete(&self.ends, &process.held.pidfd);
        let key = process.held.key;
        let tracked = process.tracked.take();
        let is_over = process.connections == 0;
        self.counters.deaths += 1;
        if let Some(tracked) = tracked {
            self.owners -= 1;
            self.store.remove(key);
            self.plan = None;
            self.print_end(key.pid, &tracked);
            // Freeing a million entries takes long.
            self.workers.cleaner.queue(Cleanup::Hosted(tracked.release(&mut self.budget)));
        }
        self.forget_pid(key.pid, number);
        if is_over {
            self.processes.remove(&number);
        }
    }

    fn print_end(&mut self, pid: u32, tracked: &Tracked) {
        let sum = |kinds: &[u8]| {
            tracked.devices().iter().flat_map(|(_, id)| kinds.iter().map(|kind| tracked.hosted.live_of(*id, *kind))).fold((0, 0), add)
        };
        if !self.is_quiet {
            for line in lines::end_of_process(pid, [sum(&BUFFER_KINDS), sum(&[kind::CB]), sum(&[kind::KERNEL])]) {
                self.print_line(&line);
            }
        }
    }

    /// Records that a process has one connection fewer. Removes a process without connections and entries.
    pub(super) fn release_process(&mut self, number: u64) {
        let Some(process) = self.processes.get_mut(&number) else { return };
        process.connections = process.connections.saturating_sub(1);
        if process.connections == 0 && process.tracked.is_none() {
            // Fails only if the end of the process has removed it already.
            let _ = epoll::delete(&self.ends, &process.held.pidfd);
            let pid = process.held.key.pid;
            self.processes.remove(&number);
            self.forget_pid(pid, number);
        }
    }

    fn forget_pid(&mut self, pid: u32, number: u64) {
        if self.by_pid.get(&pid) == Some(&number) {
            self.by_pid.remove(&pid);
        }
    }

    pub(super) fn handed_over(&mut self) {
        for (number, pidfd) in self.handed.receive() {
            self.counters.handed_over += 1;
            let data = EventData::new_u64(HANDED | number);
            match pidfd.filter(|pidfd| epoll::add(&self.ends, pidfd, data, EventFlags::IN).is_ok()) {
                Some(pidfd) => self.handed.watch(number, pidfd),
                None => self.handed_ended(number),
            }
        }
        self.counters.handed_refused = self.handed.refused();
        if self.handed.is_stuck() {
            self.warn("⚠️  Hand-over paused: received descriptors cannot be closed");
        }
        if self.handed.is_stuck() || self.handed.is_deferring() {
            self.watch_handover(EventFlags::empty());
            self.handover_again = Some(Instant::now() + HANDOVER_PAUSE);
        }
    }

    /// Checks whether ledgers can be received again.
    pub(super) fn handover_on(&mut self, now: Instant) {
        if self.handed.is_stuck() {
            self.handover_again = Some(now + HANDOVER_PAUSE);
        } else {
            self.handover_again = None;
            self.watch_handover(EventFlags::IN);
            self.handed_over();
        }
    }

    fn watch_handover(&self, flags: EventFlags) {
        if let Some(receiver) = self.handed.receiver() {
            // Fails only if the receiver is not in the epoll.
            let _ = epoll::modify(&self.epoll, receiver, EventData::new_u64(HANDOVER), flags);
        }
    }

    /// Handles the end of a process that handed over its ledger. The ledger is kept for a while.
    pub(super) fn handed_ended(&mut self, number: u64) {
        if let Some(region) = self.handed.ended(number) {
            self.workers.left_buffers.queue((number, region));
            // The process may have started and ended between two samples.
            self.workers.follow_ledgers();
        }
    }
}
