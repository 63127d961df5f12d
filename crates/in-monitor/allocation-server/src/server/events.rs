//! Handles messages: finds the process of each event, and records the event.

use std::time::Instant;

use crate::protocol::{Request, Size, Type};
use ttmon_ledger::layout::kind;
use ttmon_ledger::report::{FreeTarget, kernel_flags, kind_of};
use ttmon_ledger_reader::buffer_kind;
use ttmon_model::KernelType;
use ttmon_os::time::unix_nanos;

use super::{Process, Server, Untracked};
use crate::connection::{Connection, Deadline, Flow, Pause, Speaker};
use crate::dump::About;
use crate::limits::{FULL_PAUSE, INSPECTION_WAIT, OWNERS_MAX, OWNERS_OF_USER_MAX, PIDS_PER_CONNECTION_MAX};
use crate::lines::{self, Done, EventLine, megabytes};
use crate::owner::{Change, NotRecorded, ProcessView, Reported, Tracked};
use crate::peer;

/// Smaller sizes are not compared with the memory of the device: every memory of every chip is larger.
const SIZE_OF_NOTE: u64 = 64 << 20;

/// The process that a message belongs to.
enum Whose {
    Of(Speaker),
    /// The pid in the message belongs to no process.
    Nobody,
    /// The pid belongs to a process that the peer forked, or to an unrelated process. A worker thread finds out which.
    Asked(u32),
}

impl Server {
    #[inline]
    pub(super) fn handle(&mut self, number: u64, connection: &mut Connection, request: &Request, size: Size) -> Flow {
        match request.kind {
            Type::Alloc | Type::Free | Type::CbAlloc | Type::CbFree | Type::KernelLoad | Type::KernelUnload => {
                if connection.is_querying {
                    self.move_to(number, connection, false);
                }
                self.event(number, connection, request);
                Flow::On
            }
            Type::Query | Type::DeviceInfoQuery => self.query(number, connection, request, size),
            Type::DumpRemaining => self.print_dump(connection, About::Buffers),
            Type::DumpKernels => self.print_dump(connection, About::Kernels),
            Type::Response | Type::DeviceInfoResponse => {
                self.counters.odd_types += 1;
                if self.may_warn(connection) {
                    self.warn(&format!("Unknown message type: {}", request.kind as u8));
                }
                Flow::On
            }
        }
    }

    pub(super) fn event(&mut self, number: u64, connection: &mut Connection, request: &Request) {
        let speaker = match connection.speakers.first() {
            Some(last) if last.pid == request.process_id => *last,
            _ => match self.speaker(connection, request) {
                Whose::Of(speaker) => speaker,
                Whose::Nobody => return self.refuse_pid(connection, request),
                Whose::Asked(pid) => return self.find(number, connection, request, pid),
            },
        };
        let Some(number) = speaker.process else { return self.refuse_pid(connection, request) };
        let Some(process) = self.processes.get_mut(&number) else {
            // A process without its own connection, which has ended. Its last events do not belong to its parent.
            self.counters.of_the_dead += 1;
            return;
        };
        if process.is_dead {
            self.counters.of_the_dead += 1;
            // The last events of a process itself need no warning: they end with the process.
            if speaker.is_label && self.may_warn(connection) {
                let (pid, peer) = (request.process_id, connection.peer_pid);
                self.warn(&format!("⚠️  [PID {pid}] not tracked: process {peer}, whose connection it uses, has ended"));
            }
            return;
        }
        let is_new_owner = process.tracked.is_none();
        if is_new_owner && !self.begin_to_track(connection, number) {
            return;
        }
        if request.size > SIZE_OF_NOTE && self.is_larger_than_its_memory(number, request) {
            return self.refused(connection, request, NotRecorded::Size);
        }
        let Some(process) = self.processes.get_mut(&number) else { return };
        let Process { tracked: Some(tracked), held, .. } = process else { return };
        let pid = held.key.pid;
        let tag = if speaker.is_label { tracked.label(request.process_id, &mut self.budget) } else { 0 };
        let changed = apply(tracked, request, tag, &mut self.budget);
        if speaker.is_label {
            self.counters.labelled += 1;
        }
        match changed {
            Ok(change) => {
                if change.is_new || is_new_owner {
                    self.plan = None;
                }
                self.count(&change);
                if !self.is_quiet {
                    self.print_event(pid, request, &change);
                }
            }
            Err(refusal) => self.refused(connection, request, refusal),
        }
    }

    /// Whether the device is known and its memory is smaller than the allocation.
    fn is_larger_than_its_memory(&mut self, number: u64, request: &Request) -> bool {
        let view = self.processes.get(&number).and_then(|process| process.view.clone());
        let Some(view) = view.filter(|_| request.kind == Type::Alloc) else { return false };
        let mut plan = self.take_plan();
        let capacity = plan.capacity(&view, request.device_id, kind_of(request.buffer_type));
        self.plan = Some(plan);
        capacity.is_some_and(|capacity| request.size > capacity)
    }

    /// Returns the owner of a message that does not come from the last speaker.
    fn speaker(&self, connection: &mut Connection, request: &Request) -> Whose {
        let pid = request.process_id;
        if let Some(at) = connection.speakers.iter().position(|speaker| speaker.pid == pid) {
            connection.speakers.swap(0, at);
            return connection.speakers.first().map_or(Whose::Nobody, |speaker| Whose::Of(*speaker));
        }
        let Some(peer) = connection.peer.and_then(|peer| self.processes.get(&peer)) else { return Whose::Nobody };
        // The demonstration client sends frees with pid 0. They belong to the client itself.
        let is_free = matches!(request.kind, Type::Free | Type::CbFree | Type::KernelUnload);
        let speaker = match u32::try_from(pid) {
            Ok(0) if is_free => Speaker { pid, process: connection.peer, is_label: false },
            Err(_) | Ok(0) => return Whose::Nobody,
            Ok(own) if own == peer.held.key.pid || own == peer.held.namespace_pid => {
                Speaker { pid, process: connection.peer, is_label: false }
            }
            Ok(other) if connection.speakers.len() < PIDS_PER_CONNECTION_MAX && !peer.is_dead => return Whose::Asked(other),
            Ok(_) => other_pid(connection, pid),
        };
        connection.remember(speaker);
        Whose::Of(speaker)
    }

    /// Starts a search for the process of a pid. The message and all later ones of the connection wait for the result.
    #[cold]
    fn find(&mut self, number: u64, connection: &mut Connection, request: &Request, pid: u32) {
        let peer = connection.peer.and_then(|peer| self.processes.get(&peer));
        let named = peer.map(|peer| peer::NamedPeer { peer: peer.held.key.pid, uids: peer.held.uids, pid });
        if named.is_some_and(|named| self.workers.descendants.queue((number, named))) {
            connection.pause = Some(Pause::Descendant(*request));
            self.change_deadline(number, connection, Some((Instant::now() + INSPECTION_WAIT, Deadline::Resume)));
        } else {
            self.event_of_other_pid(number, connection, request);
        }
    }

    /// Handles an event with a pid for which no process was found.
    pub(super) fn event_of_other_pid(&mut self, number: u64, connection: &mut Connection, request: &Request) {
        if !connection.speakers.iter().any(|speaker| speaker.pid == request.process_id) {
            connection.remember(other_pid(connection, request.process_id));
        }
        self.event(number, connection, request);
    }

    /// Handles the result of a search for a pid. A process with its own connection is reported through that connection.
    pub(super) fn found(&mut self, number: u64, pid: u32, held: Option<peer::HeldProcess>) {
        let Some(connection) = self.connections.get(&number) else { return };
        let Some(Pause::Descendant(request)) = connection.pause.filter(|_| connection.peer.is_some()) else { return };
        if u32::try_from(request.process_id) != Ok(pid) {
            return;
        }
        let view = connection.peer.and_then(|peer| self.processes.get(&peer)).and_then(|peer| peer.view.clone());
        let process = held.and_then(|held| {
            let known = self.by_pid.get(&held.key.pid).copied();
            match known.and_then(|number| Some((number, self.processes.get(&number).filter(|process| !process.is_dead)?))) {
                Some((number, process)) => (process.connections == 0).then_some(number),
                // A process that the peer forked gets the view of its parent, if known.
                None => {
                    let number = self.add_process(held)?;
                    self.processes.get_mut(&number)?.view = view;
                    Some(number)
                }
            }
        });
        if let (Some(process), Some(connection)) = (process, self.connections.get_mut(&number)) {
            connection.remember(Speaker { pid: request.process_id, process: Some(process), is_label: false });
        }
        self.resume(number);
    }

    /// Creates the ledger of a process. After a refusal it is not attempted again with every event.
    #[cold]
    fn begin_to_track(&mut self, connection: &mut Connection, number: u64) -> bool {
        let refused = self.processes.get(&number).and_then(|process| process.refused).filter(|(since, _)| since.elapsed() < FULL_PAUSE);
        let untracked = match refused {
            Some((_, untracked)) => untracked,
            None => match self.try_to_track(number) {
                Ok(()) => return true,
                Err((untracked, why)) => {
                    if let Some(process) = self.processes.get_mut(&number) {
                        process.refused = Some((Instant::now(), untracked));
                    }
                    if self.may_warn(connection) {
                        self.warn(&format!("⚠️  [PID {}] not tracked: {why}", connection.peer_pid));
                    }
                    untracked
                }
            },
        };
        match untracked {
            Untracked::TooMany => self.counters.owners_refused += 1,
            Untracked::NoLedger => self.counters.memory_refused += 1,
        }
        false
    }

    fn try_to_track(&mut self, number: u64) -> Result<(), (Untracked, String)> {
        let uid = self.processes.get(&number).map_or(0, |process| process.held.uid());
        let of_user = self.processes.values().filter(|process| process.tracked.is_some() && process.held.uid() == uid).count();
        if self.owners >= OWNERS_MAX {
            return Err((Untracked::TooMany, format!("{} processes are tracked already", self.owners)));
        }
        if of_user >= OWNERS_OF_USER_MAX {
            return Err((Untracked::TooMany, format!("{of_user} processes of user {uid} are tracked already")));
        }
        if self.budget.is_spent_by(uid) {
            let share = megabytes(self.budget.share_of(uid));
            return Err((Untracked::NoLedger, format!("user {uid} has its share of the state directory, {share} MB")));
        }
        let Some(process) = self.processes.get_mut(&number) else { return Ok(()) };
        let view = process.view.clone().unwrap_or(ProcessView::UNKNOWN);
        let hosted = self.store.create(&process.held, &view).map_err(|error| {
            let path = self.store.path().display();
            let advice = if error.kind() == std::io::ErrorKind::StorageFull { "make room there" } else { "start the server again" };
            (Untracked::NoLedger, format!("{path}: {error}; {advice}"))
        })?;
        process.view = Some(view);
        process.tracked = Some(Tracked::new(hosted, uid, &mut self.budget));
        self.owners += 1;
        Ok(())
    }

    fn refuse_pid(&mut self, connection: &mut Connection, request: &Request) {
        self.counters.bad_pids += 1;
        if self.may_warn(connection) {
            let why = if connection.peer.is_none() { "its sender cannot be seen from here, or has ended" } else { "no process has it" };
            self.warn(&format!("⚠️  Invalid process_id {} - ignoring message: {why}", request.process_id));
        }
    }

    fn refused(&mut self, connection: &mut Connection, request: &Request, refusal: NotRecorded) {
        let Request { device_id, size, .. } = *request;
        let counter = match refusal {
            NotRecorded::Device => &mut self.counters.bad_devices,
            NotRecorded::Size => &mut self.counters.bad_sizes,
            NotRecorded::Entries | NotRecorded::Devices => &mut self.counters.entries_refused,
            NotRecorded::Memory | NotRecorded::Share | NotRecorded::Full => &mut self.counters.memory_refused,
        };
        *counter += 1;
        if !self.may_warn(connection) {
            return;
        }
        let (pid, uid) = (connection.peer_pid, connection.uid);
        let message = match refusal {
            NotRecorded::Device => format!("⚠️  Invalid device_id {device_id} - ignoring message"),
            NotRecorded::Size => format!("⚠️  Invalid size {size} - ignoring message"),
            NotRecorded::Entries => format!("⚠️  [PID {pid}] more than {} entries - ignoring message", crate::limits::ENTRIES_MAX),
            NotRecorded::Devices => format!("⚠️  [PID {pid}] more devices than a ledger has room for - ignoring message"),
            NotRecorded::Memory => format!("⚠️  [PID {pid}] all ledgers together are as large as they may be - ignoring message"),
            NotRecorded::Share => format!("⚠️  [PID {pid}] user {uid} has its share of the state directory - ignoring message"),
            NotRecorded::Full => format!("⚠️  [PID {pid}] {} is full - ignoring message", self.store.path().display()),
        };
        self.warn(&message);
    }

    fn count(&mut self, change: &Change) {
        let counters = &mut self.counters;
        match change.done {
            Done::Allocated if change.refs > 1 => counters.references += 1,
            Done::Allocated => counters.allocations += 1,
            Done::Replaced => {
                counters.allocations += 1;
                counters.replaced += 1;
            }
            Done::Freed => counters.frees += 1,
            Done::Unknown => counters.unknown_frees += 1,
            Done::Twice => counters.double_frees += 1,
            // Only ledgers of programs have these events.
            Done::FreedAll | Done::Refused => {}
        }
        counters.ambiguous_frees += u64::from(change.is_ambiguous);
    }

    fn print_event(&mut self, pid: u32, request: &Request, change: &Change) {
        let format = self.log.format();
        let is_summed = matches!(change.kind, kind::CB | kind::KERNEL);
        let total = if is_summed { self.bytes_on(request.device_id, change.kind) } else { 0 };
        let lines = EventLine {
            done: change.done,
            pid,
            device: request.device_id,
            kind: buffer_kind(change.kind),
            kernel_type: KernelType::from_number(change.kernel_type),
            size: change.size,
            address: request.buffer_id,
            refs: change.refs,
            total,
            unix_ns: if format == lines::Format::Json { unix_nanos() } else { 0 },
        };
        lines::event(self.log.out(), format, &lines);
    }

    /// Bytes of one kind on a device, of all processes that report over the socket.
    fn bytes_on(&self, device: i32, kind: u8) -> u64 {
        self.tracked().map(|tracked| tracked.bytes_on(device, kind)).fold(0, u64::saturating_add)
    }
}

/// A speaker for the pid of an unrelated process, which is recorded only as a label.
fn other_pid(connection: &Connection, pid: i32) -> Speaker {
    Speaker { pid, process: connection.peer, is_label: true }
}

#[inline]
fn apply(tracked: &mut Tracked, request: &Request, tag: u32, budget: &mut crate::owner::Budget) -> Result<Change, NotRecorded> {
    let Request { device_id: device, size, buffer_type, buffer_id: address, .. } = *request;
    let reported = |kind, flags| Reported { device, kind, address, size, flags, tag };
    match request.kind {
        Type::Alloc => tracked.allocate(&reported(kind_of(buffer_type), 0), budget),
        Type::CbAlloc => tracked.allocate(&reported(kind::CB, 0), budget),
        Type::KernelLoad => tracked.allocate(&reported(kind::KERNEL, kernel_flags(buffer_type)), budget),
        Type::CbFree => Ok(tracked.free(device, FreeTarget::Kind(kind::CB), address)),
        Type::KernelUnload => Ok(tracked.free(device, FreeTarget::Kind(kind::KERNEL), address)),
        _ => Ok(tracked.free(device, FreeTarget::Buffer, address)),
    }
}
