//! What messages do: whose they are, and what becomes of them.

use ttmon_ledger::layout::kind;
use ttmon_wire::allocation::{Request, Size, Type};

use super::{Process, Server};
use crate::connection::{Connection, Flow, Speaker};
use crate::dump::About;
use crate::limits::{OWNERS_MAX, PIDS_PER_CONNECTION_MAX};
use crate::lines::{self, Done, Told};
use crate::owner::{Change, Named, Refusal, Reported, Tracked, View, kind_of};
use crate::peer;
use crate::work::unix_ns;

impl Server {
    /// One message.
    #[inline]
    pub(super) fn handle(&mut self, number: u64, connection: &mut Connection, request: &Request, size: Size) -> Flow {
        match request.kind {
            Type::Alloc | Type::Free | Type::CbAlloc | Type::CbFree | Type::KernelLoad | Type::KernelUnload => {
                if connection.is_asking {
                    self.move_to(number, connection, false);
                }
                self.event(connection, request);
                Flow::On
            }
            Type::Query | Type::DeviceInfoQuery => self.question(number, connection, request, size),
            Type::DumpRemaining => self.dump(About::Buffers, None),
            Type::DumpKernels => self.dump(About::Kernels, None),
            Type::Response | Type::DeviceInfoResponse => {
                self.counters.odd_types += 1;
                if connection.may_complain() {
                    self.warn(&format!("Unknown message type: {}", request.kind as u8));
                }
                Flow::On
            }
        }
    }

    fn event(&mut self, connection: &mut Connection, request: &Request) {
        let speaker = match connection.speakers.first() {
            Some(last) if last.pid == request.process_id => *last,
            _ => match self.speaker(connection, request) {
                Some(speaker) => speaker,
                None => return self.refuse_pid(connection, request),
            },
        };
        let Some(number) = speaker.process else { return self.refuse_pid(connection, request) };
        let Some(process) = self.processes.get_mut(number) else {
            // It had nothing and ended.
            connection.speakers.clear();
            self.counters.of_the_dead += 1;
            return;
        };
        if process.is_dead {
            self.counters.of_the_dead += 1;
            return;
        }
        let is_new_owner = process.tracked.is_none();
        if is_new_owner && !self.begin_to_track(connection, number) {
            return;
        }
        let Some(process) = self.processes.get_mut(number) else { return };
        let Process { tracked: Some(tracked), held, .. } = process else { return };
        let pid = held.key.pid;
        let tag = if speaker.is_label { label(tracked, request) } else { 0 };
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
                    self.tell(pid, request, &change);
                }
            }
            Err(refusal) => self.refused(connection, request, refusal),
        }
    }

    /// Whom a message belongs to that does not come from the last speaker; `None` where a pid means nobody.
    fn speaker(&mut self, connection: &mut Connection, request: &Request) -> Option<Speaker> {
        let pid = request.process_id;
        if let Some(at) = connection.speakers.iter().position(|speaker| speaker.pid == pid) {
            connection.speakers.swap(0, at);
            return connection.speakers.first().copied();
        }
        let peer = self.processes.get(connection.peer?)?;
        // The demonstration client's frees name nobody: they are its own.
        let is_free = matches!(request.kind, Type::Free | Type::CbFree | Type::KernelUnload);
        let speaker = match u32::try_from(pid) {
            Ok(0) if is_free => Speaker { pid, process: connection.peer, is_label: false },
            Err(_) | Ok(0) => return None,
            Ok(own) if own == peer.held.key.pid || own == peer.held.namespace_pid => {
                Speaker { pid, process: connection.peer, is_label: false }
            }
            Ok(other) => {
                let is_crowded = connection.speakers.len() >= PIDS_PER_CONNECTION_MAX;
                let held = if is_crowded || peer.is_dead { None } else { peer::descendant(&peer.held, other) };
                let view = peer.view.clone();
                let process = held.and_then(|held| {
                    let known = self.by_pid.get(&held.key.pid).copied();
                    let known = known.filter(|number| self.processes.get(*number).is_some_and(|process| !process.is_dead));
                    known.or_else(|| self.add_child(held, view))
                });
                match process {
                    Some(process) => Speaker { pid, process: Some(process), is_label: false },
                    None => Speaker { pid, process: connection.peer, is_label: true },
                }
            }
        };
        connection.speakers.truncate(PIDS_PER_CONNECTION_MAX);
        connection.speakers.insert(0, speaker);
        Some(speaker)
    }

    /// A process that a peer forked sees what its parent sees, as far as is known.
    fn add_child(&mut self, held: peer::Held, view: Option<View>) -> Option<u64> {
        let number = self.add_process(held)?;
        if let Some(process) = self.processes.get_mut(number) {
            process.view = view;
        }
        Some(number)
    }

    /// Makes the ledger of a process that has none yet.
    #[cold]
    fn begin_to_track(&mut self, connection: &mut Connection, number: u64) -> bool {
        if self.owners >= OWNERS_MAX {
            self.counters.owners_refused += 1;
            if connection.may_complain() {
                self.warn(&format!("⚠️  [PID {}] not tracked: {OWNERS_MAX} processes are tracked already", connection.peer_pid));
            }
            return false;
        }
        let Some(process) = self.processes.get_mut(number) else { return false };
        let view = process.view.clone().unwrap_or(View::UNKNOWN);
        match self.store.create(&process.held, &view) {
            Ok(hosted) => {
                process.view = Some(view);
                process.tracked = Some(Tracked::new(hosted, &mut self.budget));
                self.owners += 1;
                true
            }
            Err(error) => {
                self.counters.memory_refused += 1;
                if connection.may_complain() {
                    let path = self.store.path().display();
                    self.warn(&format!("⚠️  [PID {}] not tracked: {path}: {error}; make room there", connection.peer_pid));
                }
                false
            }
        }
    }

    fn refuse_pid(&mut self, connection: &mut Connection, request: &Request) {
        self.counters.bad_pids += 1;
        if connection.may_complain() {
            let why = if connection.peer.is_none() { "its sender cannot be seen from here, or has ended" } else { "no process has it" };
            self.warn(&format!("⚠️  Invalid process_id {} - ignoring message: {why}", request.process_id));
        }
    }

    fn refused(&mut self, connection: &mut Connection, request: &Request, refusal: Refusal) {
        let Request { device_id, size, .. } = *request;
        let counter = match refusal {
            Refusal::Device => &mut self.counters.bad_devices,
            Refusal::Size => &mut self.counters.bad_sizes,
            Refusal::Entries | Refusal::Devices => &mut self.counters.entries_refused,
            Refusal::Memory | Refusal::Full => &mut self.counters.memory_refused,
        };
        *counter += 1;
        if !connection.may_complain() {
            return;
        }
        let pid = connection.peer_pid;
        let message = match refusal {
            Refusal::Device => format!("⚠️  Invalid device_id {device_id} - ignoring message"),
            Refusal::Size => format!("⚠️  Invalid size {size} - ignoring message"),
            Refusal::Entries => format!("⚠️  [PID {pid}] more than {} entries - ignoring message", crate::limits::ENTRIES_MAX),
            Refusal::Devices => format!("⚠️  [PID {pid}] more devices than a ledger has room for - ignoring message"),
            Refusal::Memory => format!("⚠️  [PID {pid}] all ledgers together are as large as they may be - ignoring message"),
            Refusal::Full => format!("⚠️  [PID {pid}] {} is full - ignoring message", self.store.path().display()),
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
        }
        counters.ambiguous_frees += u64::from(change.is_ambiguous);
    }

    fn tell(&mut self, pid: u32, request: &Request, change: &Change) {
        let is_summed = matches!(change.kind, kind::CB | kind::KERNEL);
        let total = if is_summed { self.bytes_on(request.device_id, change.kind) } else { 0 };
        let told = Told {
            done: change.done,
            pid,
            device: request.device_id,
            kind: change.kind,
            kernel_type: change.kernel_type,
            size: change.size,
            address: request.buffer_id,
            refs: change.refs,
            total,
            unix_ns: if self.format == lines::Format::Json { unix_ns() } else { 0 },
        };
        lines::event(self.log.out(), self.format, &told);
    }

    /// Bytes of one kind on a device, of all who said so.
    fn bytes_on(&self, device: i32, kind: u8) -> u64 {
        self.processes.iter().filter_map(|(_, process)| process.tracked.as_ref()).map(|tracked| tracked.bytes_on(device, kind)).sum()
    }
}

#[inline]
fn apply(tracked: &mut Tracked, request: &Request, tag: u32, budget: &mut crate::owner::Budget) -> Result<Change, Refusal> {
    let Request { device_id: device, size, buffer_type, buffer_id: address, .. } = *request;
    let reported = |kind, flags| Reported { device, kind, address, size, flags, tag };
    match request.kind {
        Type::Alloc => tracked.allocate(&reported(kind_of(buffer_type), 0), budget),
        Type::CbAlloc => tracked.allocate(&reported(kind::CB, 0), budget),
        Type::KernelLoad => tracked.allocate(&reported(kind::KERNEL, u16::from(buffer_type) << 8), budget),
        Type::CbFree => tracked.free(device, Named::Of(kind::CB), address, budget),
        Type::KernelUnload => tracked.free(device, Named::Of(kind::KERNEL), address, budget),
        _ => tracked.free(device, Named::Buffer, address, budget),
    }
}

/// The tag of a buffer that was reported under a stranger's pid.
#[cold]
fn label(tracked: &mut Tracked, request: &Request) -> u32 {
    tracked.hosted.tag(&format!("pid {}", request.process_id))
}
