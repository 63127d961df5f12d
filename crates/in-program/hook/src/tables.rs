//! The hook's own tables: the ledger allocator for each allocator of TT-Metal, and its properties.
//!
//! The ledger's lock also protects these tables, so a session gives access. They belong to one ledger. A forked child gets its own ledger
//! with its first event, and starts with empty tables.

use std::cell::UnsafeCell;
use std::sync::atomic::Ordering::Relaxed;

use ttmon_client::hooked;
use ttmon_ledger::layout::{Lost, kind, origin};
use ttmon_ledger::writer::{AllocatorId, AllocatorSpec, Buffer, Chip, Key, Session};

use crate::buffer::BufferFacts;
use crate::check::{CheckSchedule, Checking};
use crate::coverage::{Feature, cover};
use crate::device::{CHIPS_MAX, Device};
use crate::fast_path::HOT;
use crate::geometry::Geometry;
use crate::identity;
use crate::library::Library;

/// Maximum number of open allocators in a ledger.
const ALLOCATORS_MAX: usize = 256;

/// An open allocator. The fields that every event needs come first, in one cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Allocator {
    pub(crate) id: AllocatorId,
    pub(crate) schedule: CheckSchedule,
    pub(crate) checking: Checking,
    /// Offset of the start of L1 above its base.
    pub(crate) shrunk: u64,
    pub(crate) description: Description,
}

const _: () = assert!(std::mem::offset_of!(Allocator, description.geometry.block) < 64);

/// The properties of an allocator.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Description {
    /// TT-Metal's object.
    pub(crate) pointer: usize,
    pub(crate) device: usize,
    pub(crate) library: &'static Library,
    pub(crate) geometry: Geometry,
    pub(crate) chips: Device,
}

pub(crate) struct Tables {
    /// The number of the ledger that the tables belong to; 0 for none.
    ledger: u64,
    /// One more than the last used index.
    used: usize,
    /// Index of the allocator that was found last.
    last: usize,
    /// Allocations and frees, by the number of the feature.
    hits: [u32; 2],
    allocators: [Option<Allocator>; ALLOCATORS_MAX],
    /// The inner objects of meshes and their allocators. The newest one is before `next_mesh`.
    meshes: [(usize, usize); MESHES_MAX],
    next_mesh: usize,
}

/// Number of meshes whose traces are recorded. With more meshes, the newest are.
const MESHES_MAX: usize = 64;

/// The first calls are counted one by one, so that a reader sees immediately that there are any. Later ones are counted in batches of this
/// size.
const HITS_TOGETHER: u32 = 64;

struct Guarded(UnsafeCell<Tables>);

// SAFETY: only `with` gives access, under the lock of the process's only ledger.
unsafe impl Sync for Guarded {}

static TABLES: Guarded = Guarded(UnsafeCell::new(Tables {
    ledger: 0,
    used: 0,
    last: 0,
    hits: [0; 2],
    allocators: [None; ALLOCATORS_MAX],
    meshes: [(0, 0); MESHES_MAX],
    next_mesh: 0,
}));

/// Calls `work` with the lock held; `None` if there is no ledger, or its lock is not available.
#[inline]
pub(crate) fn with<T>(work: impl FnOnce(&mut Session<'_>, &mut Tables) -> T) -> Option<T> {
    hooked::with(|session| in_session(session, work))
}

/// Like [`with`], for a new buffer at an address.
#[inline]
pub(crate) fn to_add<T>(kind: u8, address: u64, work: impl FnOnce(&mut Session<'_>, &mut Tables) -> T) -> Option<T> {
    hooked::to_add(key(kind, address), |session| in_session(session, work))
}

/// Like [`with`], for an existing buffer at an address.
#[inline]
pub(crate) fn near<T>(kind: u8, address: u64, work: impl FnOnce(&mut Session<'_>, &mut Tables) -> T) -> Option<T> {
    hooked::at(key(kind, address), |session| in_session(session, work))
}

/// The likely key of an address.
#[inline]
fn key(kind: u8, address: u64) -> Key {
    Key { allocator: AllocatorId::from_number(HOT.last.load(Relaxed)), kind, address }
}

#[inline]
fn in_session<T>(session: &mut Session<'_>, work: impl FnOnce(&mut Session<'_>, &mut Tables) -> T) -> T {
    // SAFETY: a session holds the lock of this process's only ledger, so no other thread is here until it is dropped. `work` cannot keep
    // the borrow. A child after fork has one thread, and another ledger with another lock.
    let tables = unsafe { &mut *TABLES.0.get() };
    tables.belong_to(session.ledger());
    work(session, tables)
}

impl Tables {
    #[inline]
    fn belong_to(&mut self, ledger: u64) {
        if self.ledger != ledger {
            self.forget(ledger);
        }
    }

    #[cold]
    fn forget(&mut self, ledger: u64) {
        self.ledger = ledger;
        // Only used entries are cleared, because writing to unused ones would allocate memory.
        self.allocators.iter_mut().take(self.used).for_each(|place| *place = None);
        self.used = 0;
        self.last = 0;
        self.hits = [0; 2];
        self.meshes = [(0, 0); MESHES_MAX];
    }

    /// Counts an allocation or a free. The ledger is updated in batches, because its page is rarely in the cache.
    #[inline]
    pub(crate) fn hit(&mut self, session: &mut Session<'_>, feature: Feature) {
        let Some(hits) = self.hits.get_mut(feature as usize) else { return };
        *hits = hits.wrapping_add(1);
        if *hits <= HITS_TOGETHER {
            session.hits(feature as u8, 1);
        } else if hits.is_multiple_of(HITS_TOGETHER) {
            session.hits(feature as u8, HITS_TOGETHER);
        }
    }

    /// Whether no allocator is open.
    pub(crate) fn are_empty(&self) -> bool {
        self.allocators.iter().take(self.used).all(Option::is_none)
    }

    /// Returns the open allocator for an object of TT-Metal.
    #[inline]
    pub(crate) fn find(&mut self, pointer: usize) -> Option<&mut Allocator> {
        let is_last =
            self.allocators.get(self.last).is_some_and(|place| place.as_ref().is_some_and(|known| known.description.pointer == pointer));
        if !is_last {
            let used = self.allocators.get(..self.used)?;
            self.last = used.iter().position(|place| place.as_ref().is_some_and(|known| known.description.pointer == pointer))?;
            let id = self.allocators.get(self.last)?.as_ref()?.id;
            HOT.last.store(id.number(), Relaxed);
        }
        self.allocators.get_mut(self.last)?.as_mut()
    }

    /// Returns the open allocator of a device.
    pub(crate) fn of_device(&self, device: usize) -> Option<&Allocator> {
        self.allocators.get(..self.used)?.iter().flatten().find(|known| known.description.device == device)
    }

    /// Records the allocator of a mesh's inner object. It replaces an earlier mesh at the same address.
    pub(crate) fn note_mesh(&mut self, inner: usize, allocator: usize) {
        let known = self.meshes.iter().position(|(known, _)| *known == inner);
        let place = known.unwrap_or(self.next_mesh % MESHES_MAX);
        if known.is_none() {
            self.next_mesh = place.wrapping_add(1);
        }
        if let Some(mesh) = self.meshes.get_mut(place) {
            *mesh = (inner, allocator);
        }
    }

    /// Returns the open allocator of a mesh, by its inner object.
    pub(crate) fn of_mesh(&mut self, inner: usize) -> Option<&mut Allocator> {
        let (_, allocator) = *self.meshes.iter().find(|(known, _)| *known == inner && inner != 0)?;
        self.find(allocator)
    }

    /// Opens an allocator in the ledger, unless another thread has done so meanwhile.
    pub(crate) fn open(&mut self, session: &mut Session<'_>, description: &Description) -> Option<&mut Allocator> {
        let Description { pointer, device, library, geometry, chips } = *description;
        if self.find(pointer).is_some_and(|known| known.description.device != device && device != 0) {
            // Another device at the same address: the end of the old one was not seen.
            self.close(session, pointer);
        }
        if self.find(pointer).is_none() {
            let Some(place) = self.allocators.iter().position(Option::is_none) else {
                session.lose(Lost::NoAllocator);
                return None;
            };
            let mut named = [Chip { metal_id: 0, unique_id: 0, flags: 0 }; CHIPS_MAX];
            for (chip, metal_id) in named.iter_mut().zip(chips.chips()) {
                *chip = Chip { metal_id: *metal_id, unique_id: identity::unique_id(*metal_id), flags: 0 };
            }
            let named = named.get(..chips.chips().len()).unwrap_or_default();
            let given_id = chips.chips().first().copied().unwrap_or(u32::MAX);
            let spec = AllocatorSpec { given_id, origin: origin::HOOK, mesh: chips.mesh, kinds: geometry.kinds, chips: named };
            let id = session.open_allocator(&spec).ok()?;
            cover(session, library);
            let description = *description;
            *self.allocators.get_mut(place)? =
                Some(Allocator { id, schedule: CheckSchedule::NEW, checking: Checking::On, shrunk: 0, description });
            self.used = self.used.max(place + 1);
        }
        self.find(pointer)
    }

    /// Closes an allocator in the ledger, with its remaining buffers.
    pub(crate) fn close(&mut self, session: &mut Session<'_>, pointer: usize) {
        if let Some(known) = self.find(pointer) {
            session.close_allocator(known.id);
            if let Some(place) = self.allocators.get_mut(self.last) {
                *place = None;
            }
        }
    }
}

impl Allocator {
    /// Bytes of each bank that a buffer occupies: its pages there, rounded up to whole blocks. In hybrid mode each page is rounded up.
    #[inline]
    pub(crate) fn taken(&self, facts: &BufferFacts) -> u64 {
        let mask = self.description.geometry.block.wrapping_sub(1);
        let round = |bytes: u64| bytes.wrapping_add(mask) & !mask;
        match facts.per_bank.checked_div(facts.rounded_page) {
            Some(pages) if facts.per_bank.is_multiple_of(facts.rounded_page) => pages.wrapping_mul(round(facts.rounded_page)),
            _ => round(facts.per_bank),
        }
    }

    /// Adds a buffer to the ledger.
    #[inline]
    pub(crate) fn insert(&self, session: &mut Session<'_>, facts: &BufferFacts, address: u64, flags: u16, requester: (u32, u32)) {
        let key = Key { allocator: self.id, kind: facts.kind, address };
        // The ledger counts buffers that could not be recorded.
        let _ = session.insert(key, &self.buffer(session, facts, flags, requester));
    }

    /// The requester is the operation and the stack, as numbers of the ledger.
    pub(crate) fn buffer(&self, session: &Session<'_>, facts: &BufferFacts, flags: u16, (operation, stack): (u32, u32)) -> Buffer {
        Buffer {
            size: facts.size,
            per_bank: if facts.kind == kind::HOST { 0 } else { u32::try_from(self.taken(facts)).unwrap_or(0) },
            page: u32::try_from(facts.page).unwrap_or(u32::MAX),
            layout: facts.layout,
            cores: u16::try_from(facts.cores).unwrap_or(u16::MAX),
            flags,
            tag: hooked::tag(session),
            operation,
            stack,
        }
    }
}
