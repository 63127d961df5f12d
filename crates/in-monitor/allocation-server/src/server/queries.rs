//! Queries and dump requests.

use std::sync::Arc;
use std::time::Instant;

use crate::protocol::{Request, Size, Type};

use super::Server;
use crate::answer::{EVERYTHING, Plan, Querier, ReportingProcess};
use crate::connection::{Connection, Deadline, Flow, Pause};
use crate::dump::{About, DumpQueue, DumpWork, ToDump, Viewer};
use crate::limits::{
    DUMPS_MAX, DUMPS_OF_USER_MAX, PRINTED_DUMP_BYTES_MAX, SAMPLE_AGE_MAX, SAMPLE_AGE_RENEWED, SAMPLE_WAIT, UNREAD_DUMP_BYTES_MAX,
    WARNINGS_PER_CONNECTION_MAX,
};
use crate::owner::ProcessView;
use crate::work::Sources;

impl Server {
    pub(super) fn query(&mut self, number: u64, connection: &mut Connection, request: &Request, size: Size) -> Flow {
        if !connection.is_querying {
            self.move_to(number, connection, true);
        }
        self.take_ends();
        let age = self.sampled_at.map(|at| at.elapsed());
        if age.is_none_or(|age| age >= SAMPLE_AGE_RENEWED) {
            self.refresh_sample();
        }
        if age.is_some_and(|age| age < SAMPLE_AGE_MAX) {
            return self.answer(connection, request, size);
        }
        connection.pause = Some(Pause::Sample(*request, size));
        self.change_deadline(number, connection, Some((Instant::now() + SAMPLE_WAIT, Deadline::Resume)));
        Flow::On
    }

    pub(super) fn answer(&mut self, connection: &mut Connection, request: &Request, size: Size) -> Flow {
        let mut plan = self.take_plan();
        let peer = connection.peer.and_then(|peer| self.processes.get(&peer));
        // A process that cannot be inspected sees all devices of the machine, like a monitor.
        let view = peer.and_then(|peer| peer.view.clone()).filter(|view| *view != ProcessView::UNKNOWN).unwrap_or(EVERYTHING);
        let querier = Querier { process: peer.map(|peer| peer.held.key), view };
        let device = request.device_id;
        let reply = match request.kind {
            Type::Query => {
                self.counters.queries += 1;
                let bytes = |process: u64, allocator, kind| {
                    let process = self.processes.get(&process).filter(|process| !process.is_dead);
                    process.and_then(|process| process.tracked.as_ref()).map_or(0, |tracked| tracked.hosted.live_of(allocator, kind).0)
                };
                let usage = plan.usage(&querier, device, bytes);
                if usage.is_none() {
                    self.report_unknown(connection, device);
                }
                // The protocol has zeros for an unknown device; `report_unknown` warned the operator.
                Some(usage.unwrap_or_default().reply(size, device))
            }
            _ => {
                self.counters.infos += 1;
                let info = if device == -1 { Some(plan.count(&querier.view)) } else { plan.info(&querier.view, device) };
                if info.is_none() {
                    self.report_unknown(connection, device);
                }
                // As above.
                info.unwrap_or_default().reply(size, device)
            }
        };
        self.plan = Some(plan);
        reply.map_or(Flow::Close, |reply| connection.reply(reply.as_bytes()))
    }

    /// Warns once per connection and number that a device is unknown. The protocol cannot express that, so the reply has zeros.
    fn report_unknown(&mut self, connection: &mut Connection, device: i32) {
        let known = &mut connection.unknown_devices;
        let is_new = known.len() < WARNINGS_PER_CONNECTION_MAX as usize && !known.contains(&device);
        if is_new {
            known.push(device);
        }
        if is_new && self.may_warn(connection) {
            self.warn(&format!("⚠ [PID {}] asks for device {device}, of which nothing is known", connection.peer_pid));
        }
    }

    /// Takes the plan, or makes a new one. The caller puts it back.
    pub(super) fn take_plan(&mut self) -> Plan {
        if let Some(plan) = self.plan.take() {
            return plan;
        }
        let reporting: Vec<ReportingProcess<'_>> = self
            .processes
            .iter()
            .filter(|(_, process)| !process.is_dead)
            .filter_map(|(number, process)| {
                let (tracked, view) = (process.tracked.as_ref()?, process.view.as_ref().unwrap_or(&ProcessView::UNKNOWN));
                Some(ReportingProcess { number: *number, key: process.held.key, view, tracked })
            })
            .collect();
        Plan::new(self.sources.as_ref(), &reporting)
    }

    pub(super) fn refresh_sample(&mut self) {
        if !self.is_sampling {
            self.is_sampling = true;
            self.workers.sampler.queue(());
        }
    }

    pub(super) fn sampled(&mut self, sources: Result<Box<Sources>, ttmon_collect::Error>) {
        self.is_sampling = false;
        self.sampled_at = Some(Instant::now());
        let had_failed = std::mem::replace(&mut self.has_failed_sampling, sources.is_err());
        self.sources = match sources {
            Ok(sources) => Some(Arc::new(*sources)),
            Err(why) => {
                if !had_failed {
                    self.warn(&format!("⚠️  Other sources cannot be read: {why}"));
                }
                // The earlier sample may be outdated.
                None
            }
        };
        self.plan = None;
        self.write_dumps();
        self.resume_all(|connection| matches!(connection.pause, Some(Pause::Sample(..))));
    }

    /// Prints a dump on the service's output. Dumps of ordinary users are limited together with the warnings about them.
    pub(super) fn print_dump(&mut self, connection: &mut Connection, about: About) -> Flow {
        let is_whole = Viewer::of(connection.uid) == Viewer::Whole;
        if !is_whole && !self.may_warn(connection) {
            return Flow::On;
        }
        self.dumps[about as usize].is_whole |= is_whole;
        self.dump(about)
    }

    pub(super) fn dump(&mut self, about: About) -> Flow {
        self.counters.dumps += 1;
        let wanted = &mut self.dumps[about as usize];
        if wanted.is_under_way {
            wanted.is_wanted_again = true;
        } else {
            self.begin_dump(about);
        }
        Flow::On
    }

    fn begin_dump(&mut self, about: About) {
        let wanted = &mut self.dumps[about as usize];
        wanted.is_under_way = true;
        wanted.is_wanted_again = false;
        wanted.requesters = std::mem::take(&mut wanted.later);
        wanted.is_waiting = true;
        if self.sampled_at.is_some_and(|at| at.elapsed() < SAMPLE_AGE_MAX) {
            return self.write_dumps();
        }
        self.refresh_sample();
        self.dump_deadline = Some(Instant::now() + SAMPLE_WAIT);
    }

    /// Starts the dumps that waited for a sample.
    pub(super) fn write_dumps(&mut self) {
        self.dump_deadline = None;
        for about in About::ALL {
            if std::mem::take(&mut self.dumps[about as usize].is_waiting) {
                self.write_dump(about);
            }
        }
    }

    fn write_dump(&mut self, about: About) {
        let mut viewers = Vec::new();
        match about {
            // The service's own output belongs to the operator.
            About::Buffers | About::Kernels => viewers.push(Viewer::Whole),
            About::Everything => {
                for (_, viewer) in &self.dumps[about as usize].requesters {
                    if !viewers.contains(viewer) {
                        viewers.push(*viewer);
                    }
                }
            }
        }
        let tracked = self.processes.values().filter(|process| process.tracked.is_some() && !process.is_dead);
        let reporting = tracked.filter_map(|process| {
            // The dump reports a process without a file as unreadable.
            let file = process.tracked.as_ref()?.hosted.file().try_clone().ok();
            Some(ToDump { pid: process.held.key.pid, uid: process.held.uid(), file })
        });
        let reporting = reporting.collect();
        self.workers.dumps.queue(DumpWork { about, viewers, reporting, sources: self.sources.clone(), machine: self.store.machine() });
    }

    /// Handles an empty line: a user at a terminal wants a dump.
    pub(super) fn request_dump(&mut self, number: u64, connection: &mut Connection) -> Flow {
        connection.rest.clear();
        // The connection may have ended before the line feed's quiet period.
        self.change_deadline(number, connection, None);
        let viewer = Viewer::of(connection.uid);
        let is_reading = |other: &&Connection| other.is_ending && !other.unread.is_empty();
        let reading = self.connections.values().filter(is_reading).map(|other| Viewer::of(other.uid));
        let DumpQueue { requesters, later, .. } = &self.dumps[About::Everything as usize];
        let all: Vec<Viewer> = requesters.iter().chain(later).map(|(_, viewer)| *viewer).chain(reading).collect();
        let own = all.iter().filter(|other| **other == viewer).count();
        let is_full = match viewer {
            // Dumps of other users do not count against this limit.
            Viewer::Whole => own >= DUMPS_MAX,
            Viewer::User(_) => own >= DUMPS_OF_USER_MAX || all.len() >= DUMPS_MAX,
        };
        if is_full {
            self.counters.peers_dropped += 1;
            if self.may_warn(connection) {
                self.warn(&format!("⚠️  [PID {}] no dump: {} others are being read", connection.peer_pid, all.len()));
            }
            return Flow::Close;
        }
        connection.pause = Some(Pause::Dump);
        connection.unread_max = UNREAD_DUMP_BYTES_MAX;
        self.dumps[About::Everything as usize].later.push((number, viewer));
        self.dump(About::Everything)
    }

    pub(super) fn dumped(&mut self, about: About, texts: &[(Viewer, String)]) {
        let wanted = &mut self.dumps[about as usize];
        wanted.is_under_way = false;
        let (is_wanted_again, requesters) = (wanted.is_wanted_again, std::mem::take(&mut wanted.requesters));
        if about == About::Everything {
            for (requester, viewer) in requesters {
                let text = texts.iter().find(|(known, _)| *known == viewer).map_or("", |(_, text)| text);
                self.answer_with_dump(requester, text);
            }
        } else {
            let is_whole = std::mem::take(&mut wanted.is_whole);
            for (_, text) in texts {
                self.print_line(if is_whole { text.trim_end_matches('\n') } else { beginning(text) });
            }
        }
        if is_wanted_again {
            self.begin_dump(about);
        }
    }

    fn answer_with_dump(&mut self, number: u64, text: &str) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        connection.pause = None;
        connection.is_ending = true;
        connection.has_ended = true;
        let flow = connection.reply(text.as_bytes());
        if flow == Flow::Close || connection.unread.is_empty() {
            self.close(number);
        } else {
            self.rearm(number);
        }
    }
}

/// The first lines of a dump that an ordinary user requested.
fn beginning(text: &str) -> &str {
    let text = text.trim_end_matches('\n');
    let end = (0..=PRINTED_DUMP_BYTES_MAX.min(text.len())).rfind(|end| text.is_char_boundary(*end)).unwrap_or(0);
    if end == text.len() { text } else { text[..end].rsplit_once('\n').map_or("", |(lines, _)| lines) }
}
