//! Connections: their input and replies, their pauses and deadlines, their end.

use std::collections::hash_map::Entry;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};

use super::{CONNECTION, Server};
use crate::connection::{Connection, Deadline, Flow, Pause, Received};
use crate::limits::{GRACE, LINE_FEED_QUIET, READ_BYTES, READ_BYTES_BESIDE_QUERIERS, REST_WAIT, UNREAD_WAIT};
use crate::protocol::{Step, Wait};

impl Server {
    pub(super) fn connection_ready(&mut self, number: u64, flags: EventFlags) {
        if flags.contains(EventFlags::OUT) {
            let flow = self.connections.get_mut(&number).map_or(Flow::On, Connection::send_on);
            if flow == Flow::Close {
                return self.close(number);
            }
        }
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let is_over = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        match connection.pause {
            None if !connection.has_ended => {
                if is_over || flags.contains(EventFlags::IN) {
                    self.receive(number);
                }
                self.rearm(number);
            }
            // Messages before the end still count, in order. Until then the kernel would report the end continuously.
            Some(Pause::Inspection | Pause::Descendant(_) | Pause::Sample(..)) if is_over => {
                let epoll = if connection.is_querying { &self.queriers } else { &self.epoll };
                // Fails only if the socket is not in the epoll.
                let _ = epoll::delete(epoll, &connection.socket);
                connection.waits = None;
                connection.ignores_replies = true;
                connection.unread.clear();
            }
            // No peer is left to read an answer.
            _ if is_over => self.close(number),
            _ => self.rearm(number),
        }
    }

    fn receive(&mut self, number: u64) {
        let Some(mut connection) = self.connections.remove(&number) else { return };
        let mut buffer = std::mem::take(&mut self.buffer);
        let kept = connection.rest.len();
        let most = if self.querying > 0 { READ_BYTES_BESIDE_QUERIERS } else { READ_BYTES };
        if buffer.len() < kept + most {
            buffer.resize(kept + most, 0);
        }
        buffer[..kept].copy_from_slice(&connection.rest);
        connection.rest.clear();
        let flow = match connection.receive(&mut buffer[kept..kept + most]) {
            Ok(received @ 1..) => self.feed(number, &mut connection, &buffer[..kept + received]),
            Err(Received::Nothing) => {
                connection.rest.extend_from_slice(&buffer[..kept]);
                Flow::On
            }
            Err(Received::Descriptor) => {
                self.malformed(&mut connection, "it sends descriptors");
                Flow::Close
            }
            // An error also ends the connection: the peer closed it with unread replies.
            Ok(0) | Err(Received::End) => {
                connection.rest.extend_from_slice(&buffer[..kept]);
                self.ended(number, &mut connection)
            }
        };
        self.buffer = buffer;
        self.give_back(number, connection, flow);
    }

    /// Handles every complete message in `bytes`.
    fn feed(&mut self, number: u64, connection: &mut Connection, bytes: &[u8]) -> Flow {
        let mut from = 0;
        let deadline = loop {
            match connection.framing.next(&bytes[from..]) {
                Step::Request { request, size, used } => {
                    from += used;
                    self.counters.messages += 1;
                    if self.handle(number, connection, &request, size) == Flow::Close {
                        return Flow::Close;
                    }
                    if connection.pause.is_some() {
                        break connection.deadline;
                    }
                }
                Step::Wait { used, wait } => {
                    from += used;
                    let after = |delay: Duration, deadline| Some((Instant::now() + delay, deadline));
                    break match wait {
                        Wait::Message => None,
                        Wait::Rest => after(REST_WAIT, Deadline::GiveUp),
                        Wait::Grace => after(GRACE, Deadline::Settle),
                        Wait::LineFeed => after(LINE_FEED_QUIET, Deadline::Dump),
                    };
                }
                Step::Malformed(malformed) => {
                    self.malformed(connection, &malformed.to_string());
                    return Flow::Close;
                }
            }
        };
        connection.rest.extend_from_slice(&bytes[from..]);
        if deadline.is_some() || connection.deadline.is_some() {
            self.change_deadline(number, connection, deadline);
        }
        Flow::On
    }

    /// Handles the end of input from the peer.
    fn ended(&mut self, number: u64, connection: &mut Connection) -> Flow {
        connection.has_ended = true;
        if matches!(connection.deadline, Some((_, Deadline::Dump))) {
            return self.request_dump(number, connection);
        }
        // A query in its grace period was complete. A partial message is dropped.
        connection.framing.settle();
        let rest = std::mem::take(&mut connection.rest);
        let flow = if rest.is_empty() { Flow::On } else { self.feed(number, connection, &rest) };
        let is_waiting = connection.pause.is_some() || (connection.rest.is_empty() && !connection.unread.is_empty());
        if flow == Flow::On && is_waiting {
            connection.is_ending = true;
            return Flow::On;
        }
        if !connection.rest.is_empty() {
            self.malformed(connection, "it ended in the middle of a message");
        }
        Flow::Close
    }

    fn give_back(&mut self, number: u64, connection: Connection, flow: Flow) {
        self.connections.insert(number, connection);
        if flow == Flow::Close {
            self.close(number);
        }
    }

    /// Continues a connection that was paused.
    pub(super) fn resume(&mut self, number: u64) {
        let Some(mut connection) = self.connections.remove(&number) else { return };
        self.change_deadline(number, &mut connection, None);
        let mut flow = Flow::On;
        match connection.pause.take() {
            Some(Pause::Sample(request, size)) => flow = self.answer(&mut connection, &request, size),
            Some(Pause::Descendant(request)) => self.event_of_other_pid(number, &mut connection, &request),
            _ => {}
        }
        if flow == Flow::On && connection.pause.is_none() && !connection.rest.is_empty() {
            let rest = std::mem::take(&mut connection.rest);
            flow = self.feed(number, &mut connection, &rest);
        }
        if connection.has_ended && connection.pause.is_none() {
            connection.is_ending = true;
            if connection.unread.is_empty() {
                flow = Flow::Close;
            }
        }
        self.give_back(number, connection, flow);
        self.rearm(number);
    }

    /// Registers the wanted events with the kernel.
    pub(super) fn rearm(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let waits = (connection.pause.is_none() && !connection.has_ended, !connection.unread.is_empty());
        let epoll = if connection.is_querying { &self.queriers } else { &self.epoll };
        let data = EventData::new_u64(CONNECTION | number);
        let known = match connection.waits {
            Some(before) if before == waits => Ok(()),
            Some(_) => epoll::modify(epoll, &connection.socket, data, flags_of(waits)),
            // An unwatched connection is added again only when it is to be read.
            None if !waits.0 => return,
            None => epoll::add(epoll, &connection.socket, data, flags_of(waits)),
        };
        connection.waits = Some(waits);
        if known.is_err() {
            return self.close(number);
        }
        if waits.1 && connection.deadline.is_none() {
            let deadline = connection.unread_since + UNREAD_WAIT;
            self.set_deadline(number, Some((deadline, Deadline::Drop)));
        }
    }

    pub(super) fn change_deadline(&mut self, number: u64, connection: &mut Connection, deadline: Option<(Instant, Deadline)>) {
        if let Some((at, _)) = connection.deadline.take() {
            self.deadlines.remove(&(at, number));
        }
        if let Some((at, _)) = deadline {
            self.deadlines.insert((at, number));
        }
        connection.deadline = deadline;
    }

    pub(super) fn set_deadline(&mut self, number: u64, deadline: Option<(Instant, Deadline)>) {
        if let Some(mut connection) = self.connections.remove(&number) {
            self.change_deadline(number, &mut connection, deadline);
            self.connections.insert(number, connection);
        }
    }

    /// Moves a connection to the queriers, or back to the others.
    pub(super) fn move_to(&mut self, number: u64, connection: &mut Connection, is_querying: bool) {
        let (from, to) = if is_querying { (&self.epoll, &self.queriers) } else { (&self.queriers, &self.epoll) };
        connection.is_querying = is_querying;
        self.querying = if is_querying { self.querying + 1 } else { self.querying - 1 };
        let Some(waits) = connection.waits else { return };
        let data = EventData::new_u64(CONNECTION | number);
        if epoll::delete(from, &connection.socket).is_err() || epoll::add(to, &connection.socket, data, flags_of(waits)).is_err() {
            // The connection is no longer watched. `rearm` tries again, and closes the connection if that fails.
            connection.waits = None;
        }
    }

    pub(super) fn deadline_expired(&mut self, number: u64) {
        let Some(mut connection) = self.connections.remove(&number) else { return };
        let deadline = connection.deadline.map(|(_, deadline)| deadline);
        self.change_deadline(number, &mut connection, None);
        let flow = match deadline {
            Some(Deadline::Settle) => {
                connection.framing.settle();
                let rest = std::mem::take(&mut connection.rest);
                self.feed(number, &mut connection, &rest)
            }
            Some(Deadline::Dump) => self.request_dump(number, &mut connection),
            Some(Deadline::GiveUp) => {
                let why = format!("{} bytes and then nothing", connection.rest.len());
                self.malformed(&mut connection, &why);
                Flow::Close
            }
            Some(Deadline::Drop) if connection.unread.is_empty() || connection.unread_since.elapsed() < UNREAD_WAIT => Flow::On,
            Some(Deadline::Drop) => {
                self.drop_reader(&mut connection);
                Flow::Close
            }
            Some(Deadline::Resume) => {
                self.connections.insert(number, connection);
                return self.resume(number);
            }
            None => Flow::On,
        };
        self.give_back(number, connection, flow);
        self.rearm(number);
    }

    pub(super) fn close(&mut self, number: u64) {
        let Some(mut connection) = self.connections.remove(&number) else { return };
        self.change_deadline(number, &mut connection, None);
        self.querying -= usize::from(connection.is_querying);
        // Fails only if the end of the connection has removed it already.
        let _ = epoll::delete(if connection.is_querying { &self.queriers } else { &self.epoll }, &connection.socket);
        if connection.unread.len() > connection.unread_max {
            self.drop_reader(&mut connection);
        }
        if let Entry::Occupied(mut count) = self.by_user.entry(connection.uid) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        if let Some(peer) = connection.peer {
            self.release_process(peer);
        }
        if !connection.is_guarded {
            // The unread data may contain descriptors.
            self.workers.closer.queue(connection.socket);
        }
    }
}

/// The epoll flags for input and for room for output.
fn flags_of((input, output): (bool, bool)) -> EventFlags {
    let mut flags = EventFlags::empty();
    flags.set(EventFlags::IN, input);
    flags.set(EventFlags::OUT, output);
    flags
}
