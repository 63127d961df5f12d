//! The ledger of one process that reports over the socket, and the memory budget of these ledgers.

use std::collections::HashMap;
use std::io;
use std::time::Instant;

use ttmon_ledger::layout::{Lost, kind, origin};
use ttmon_ledger::report::{self, FreeTarget, kernel_type};
use ttmon_ledger::writer::{AllocatorId, Buffer, Chip, Hosted, Key, Released, Stored};
use ttmon_model::ledger::VisibleDevices;

use crate::limits::{ENTRIES_MAX, FULL_PAUSE, MEMORY_BYTES_MAX};
use crate::lines::Done;

/// How a process sees the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProcessView {
    pub(crate) visible: VisibleDevices,
    pub(crate) is_mock: bool,
}

impl ProcessView {
    /// The view is not known. The process's device numbers may not mean the devices of this machine.
    pub(crate) const UNKNOWN: Self = Self { visible: VisibleDevices::Cut, is_mock: false };
}

/// Memory of all ledgers, in total and per user.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) bytes: u64,
    users: HashMap<u32, u64>,
    share: u64,
}

impl Budget {
    pub(crate) fn new(share: u64) -> Self {
        Self { bytes: 0, users: HashMap::new(), share }
    }

    /// Maximum bytes of a user. The service's own user may use the whole budget.
    pub(crate) fn share_of(&self, uid: u32) -> u64 {
        if uid == rustix::process::geteuid().as_raw() { MEMORY_BYTES_MAX } else { self.share }
    }

    pub(crate) fn is_spent_by(&self, uid: u32) -> bool {
        self.users.get(&uid).is_some_and(|bytes| *bytes >= self.share_of(uid))
    }

    fn change(&mut self, uid: u32, before: u64, now: u64) {
        let of_user = self.users.entry(uid).or_default();
        for sum in [&mut self.bytes, of_user] {
            *sum = sum.saturating_sub(before).saturating_add(now);
        }
        if *of_user == 0 {
            self.users.remove(&uid);
        }
    }
}

/// Why an event is not included in the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotRecorded {
    Device,
    /// The size exceeds the memory of every chip.
    Size,
    /// The process has the maximum number of entries.
    Entries,
    /// The process has the maximum number of devices.
    Devices,
    /// The memory of all ledgers has reached its limit.
    Memory,
    /// The memory of the user's ledgers has reached its limit.
    Share,
    /// The state directory is full.
    Full,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) done: Done,
    pub(crate) kind: u8,
    pub(crate) size: u64,
    pub(crate) refs: u32,
    pub(crate) kernel_type: u8,
    /// The free matched more than one buffer.
    pub(crate) is_ambiguous: bool,
    /// The event added or removed a device, or a kind in use.
    pub(crate) is_new: bool,
}

/// A buffer as reported by the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported {
    pub(crate) device: i32,
    pub(crate) kind: u8,
    pub(crate) address: u64,
    pub(crate) size: u64,
    /// The type, for kernels.
    pub(crate) flags: u16,
    /// The tag of the other pid that the buffer was reported with; 0 for none.
    pub(crate) tag: u32,
}

/// The ledger of a process, and state that exists only while the server runs.
#[derive(Debug)]
pub(crate) struct Tracked {
    pub(crate) hosted: Hosted,
    uid: u32,
    /// The devices that the process named so far, the most recent first.
    devices: Vec<(i32, AllocatorId)>,
    freed: Freed,
    charged: u64,
    /// When the state directory was last found full. Allocation is not attempted again for a while.
    full_since: Option<Instant>,
}

impl Tracked {
    pub(crate) fn new(hosted: Hosted, uid: u32, budget: &mut Budget) -> Self {
        // The protocol has signed numbers, so no request can mean another one.
        let devices = hosted.allocators().into_iter().filter_map(|(id, given)| Some((i32::try_from(given).ok()?, id))).collect();
        let mut tracked = Self { hosted, uid, devices, freed: Freed::default(), charged: 0, full_since: None };
        tracked.charge(budget);
        tracked
    }

    /// Updates the budget to the current size of the ledger.
    fn charge(&mut self, budget: &mut Budget) {
        let bytes = self.hosted.memory_bytes();
        budget.change(self.uid, self.charged, bytes);
        self.charged = bytes;
    }

    /// Releases the memory from the budget. Returns the ledger, to be removed.
    pub(crate) fn release(self, budget: &mut Budget) -> Hosted {
        budget.change(self.uid, self.charged, 0);
        self.hosted
    }

    /// Returns the tag of a buffer that was reported with the pid of an unrelated process.
    #[cold]
    pub(crate) fn label(&mut self, pid: i32, budget: &mut Budget) -> u32 {
        let tag = self.hosted.tag(&format!("pid {pid}"));
        self.charge(budget);
        tag
    }

    pub(crate) fn devices(&self) -> &[(i32, AllocatorId)] {
        &self.devices
    }

    #[inline]
    fn allocator(&mut self, device: i32) -> Option<AllocatorId> {
        let at = self.devices.iter().position(|(known, _)| *known == device)?;
        if at > 0 {
            self.devices.swap(0, at);
        }
        self.devices.first().map(|(_, id)| *id)
    }

    fn open(&mut self, device: i32, budget: &mut Budget) -> Result<AllocatorId, NotRecorded> {
        let given_id = u32::try_from(device).map_err(|_| NotRecorded::Device)?;
        let chip = [Chip { metal_id: given_id, unique_id: 0, flags: 0 }];
        let opened = self.hosted.open_allocator(&report::allocator_of(origin::SOCKET, &chip));
        self.charge(budget);
        let id = opened.map_err(|lost| if lost == Lost::NoAllocator { NotRecorded::Devices } else { NotRecorded::Full })?;
        self.devices.insert(0, (device, id));
        Ok(id)
    }

    /// Makes room for one more allocation.
    #[inline]
    fn room(&mut self, budget: &mut Budget) -> Result<(), NotRecorded> {
        if self.hosted.has_room() { Ok(()) } else { self.more_room(budget) }
    }

    #[cold]
    fn more_room(&mut self, budget: &mut Budget) -> Result<(), NotRecorded> {
        let refusal = if budget.bytes >= MEMORY_BYTES_MAX {
            NotRecorded::Memory
        } else if budget.is_spent_by(self.uid) {
            NotRecorded::Share
        } else if self.full_since.is_some_and(|since| since.elapsed() < FULL_PAUSE) {
            NotRecorded::Full
        } else {
            let made: io::Result<()> = self.hosted.make_room();
            self.charge(budget);
            if made.is_ok() && self.hosted.has_room() {
                self.full_since = None;
                return Ok(());
            }
            self.full_since = Some(Instant::now());
            NotRecorded::Full
        };
        // The header of the ledger counts the event, so that the figures are marked as inexact.
        self.hosted.session().lose(Lost::NoMemory);
        Err(refusal)
    }

    /// Records an allocation, if the limits of the process allow it.
    pub(crate) fn allocate(&mut self, reported: &Reported, budget: &mut Budget) -> Result<Change, NotRecorded> {
        let Reported { device, kind, address, size, .. } = *reported;
        if device < 0 {
            return Err(NotRecorded::Device);
        }
        self.room(budget)?;
        let (allocator, mut is_new) = match self.allocator(device) {
            Some(allocator) => (allocator, false),
            None => (self.open(device, budget)?, true),
        };
        is_new |= !self.hosted.is_used(allocator, kind);
        let is_full = self.hosted.live_entries() >= ENTRIES_MAX;
        let key = Key { allocator, kind, address };
        let mut session = self.hosted.session();
        if is_full && session.find(key).is_none() {
            session.lose(Lost::NoMemory);
            return Err(NotRecorded::Entries);
        }
        let buffer = Buffer { size, flags: reported.flags, tag: reported.tag, ..Buffer::default() };
        let (done, refs) = match report::allocate(&mut session, key, &buffer) {
            Ok(Stored::New) => (Done::Allocated, 1),
            Ok(Stored::Referenced(refs)) => (Done::Allocated, refs),
            Ok(Stored::Replaced) => (Done::Replaced, 1),
            Err(Lost::SizeOutOfRange) => return Err(NotRecorded::Size),
            Err(_) => return Err(NotRecorded::Memory),
        };
        drop(session);
        if refs == 1 {
            self.freed.forget(device, address);
        }
        Ok(Change { done, kind, size, refs, kernel_type: kernel_type(reported.flags), is_ambiguous: false, is_new })
    }

    pub(crate) fn free(&mut self, device: i32, target: FreeTarget, address: u64) -> Change {
        let allocator = self.allocator(device);
        let Some(freed) = report::free(&mut self.hosted.session(), allocator, target, address) else {
            let done = if self.freed.knows(device, address) { Done::Twice } else { Done::Unknown };
            let kind = if let FreeTarget::Kind(kind) = target { kind } else { kind::OTHER };
            return Change { done, kind, size: 0, refs: 0, kernel_type: 0, is_ambiguous: false, is_new: false };
        };
        let Released { size, refs, flags } = freed.buffer;
        if refs == 0 {
            self.freed.note(device, address);
        }
        // Only a load reports the type of a kernel.
        let kernel_type = if freed.kind == kind::KERNEL { kernel_type(flags) } else { 0 };
        Change { done: Done::Freed, kind: freed.kind, size, refs, kernel_type, is_ambiguous: freed.is_ambiguous, is_new: false }
    }

    /// Bytes of one kind that the process has on a device.
    pub(crate) fn bytes_on(&self, device: i32, kind: u8) -> u64 {
        let allocator = self.devices.iter().find(|(known, _)| *known == device);
        allocator.map_or(0, |(_, id)| self.hosted.live_of(*id, kind).0)
    }
}

/// Adds bytes and entries. The sum of many processes may exceed `u64`, so it saturates.
pub(crate) fn add(sum: (u64, u64), more: (u64, u64)) -> (u64, u64) {
    (sum.0.saturating_add(more.0), sum.1.saturating_add(more.1))
}

/// The last freed addresses. They distinguish a second free from the free of an unknown buffer. Old addresses are dropped.
#[derive(Debug, Default)]
struct Freed(Vec<u64>);

const FREED_CELLS: usize = 4096;

impl Freed {
    fn cell(device: i32, address: u64) -> (usize, u64) {
        let mixed = (address ^ u64::from(device.cast_unsigned()).rotate_left(40)).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        ((mixed >> 52) as usize % FREED_CELLS, mixed)
    }

    #[inline]
    fn note(&mut self, device: i32, address: u64) {
        if self.0.is_empty() {
            self.0.resize(FREED_CELLS, 0);
        }
        let (at, mixed) = Self::cell(device, address);
        self.0[at] = mixed;
    }

    #[inline]
    fn forget(&mut self, device: i32, address: u64) {
        let (at, mixed) = Self::cell(device, address);
        if let Some(cell) = self.0.get_mut(at).filter(|cell| **cell == mixed) {
            *cell = 0;
        }
    }

    fn knows(&self, device: i32, address: u64) -> bool {
        let (at, mixed) = Self::cell(device, address);
        self.0.get(at) == Some(&mixed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer;
    use crate::store::Store;
    use crate::store::tests::in_memory;

    /// A ledger releases exactly its own memory, independent of the cause of growth.
    #[test]
    fn the_budget_is_the_memory_of_the_ledgers() {
        let directory = in_memory();
        let store = Store::open(&directory.path().join("state"), 0, "0.0.0").expect("in memory");
        let own = std::process::id();
        let held = peer::held(own).expect("descriptors").expect("alive");
        let mut budget = Budget::new(0);
        let mut tracked = || Tracked::new(store.create(&held, &ProcessView::UNKNOWN).expect("room"), held.uid(), &mut budget);
        let (mut one, other) = (tracked(), tracked());
        let bytes = other.hosted.memory_bytes();
        assert!(bytes > 0);
        assert_eq!(budget.bytes, 2 * bytes);
        for (device, address) in (0..3).zip(1..) {
            let reported = Reported { device, kind: kind::DRAM, address, size: 64, flags: 0, tag: 0 };
            assert_eq!(one.allocate(&reported, &mut budget).map(|change| change.done), Ok(Done::Allocated));
        }
        one.label(4711, &mut budget);
        assert_eq!(budget.bytes, bytes + one.hosted.memory_bytes());
        drop(one.release(&mut budget));
        assert_eq!(budget.bytes, bytes);
        drop(other.release(&mut budget));
        assert_eq!((budget.bytes, budget.users.len()), (0, 0));
    }
}
