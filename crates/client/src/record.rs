//! From a report to the ledger: what a repeated allocation means, and which buffer a free without a kind is.

use ttmon_ledger::layout::{Lost, flag, kind, origin};
use ttmon_ledger::writer::{AllocatorId, AllocatorSpec, Buffer, Chip, Key, KindGeometry, RowFigures, Session};

use crate::report::{Outcome, Report};
use crate::{devices, switch, tags};

/// Kinds that a plain allocation can have, by its buffer type: TT-Metal's `BufferType`.
const BUFFER_KINDS: [u8; 6] = [kind::DRAM, kind::L1, kind::HOST, kind::L1_SMALL, kind::TRACE, kind::OTHER];

pub(crate) fn record(report: Report) -> Outcome {
    match report {
        Report::Allocation { device, size, buffer_type, buffer_id } => allocated(device, kind_of(buffer_type), buffer_id, size, 0),
        Report::Deallocation { device, buffer_id } => {
            freed(device, buffer_id, |session, allocator| buffer_at(session, allocator, buffer_id))
        }
        Report::CbAllocation { device, size, cb_id } => allocated(device, kind::CB, cb_id, size, 0),
        Report::CbDeallocation { device, size: _, cb_id } => {
            freed(device, cb_id, |_, allocator| Some(Key { allocator, kind: kind::CB, address: cb_id }))
        }
        Report::KernelLoad { device, size, kernel_type, kernel_id } => {
            allocated(device, kind::KERNEL, kernel_id, size, u16::from(kernel_type) << flag::KERNEL_TYPE_SHIFT)
        }
        Report::KernelUnload { device, size: _, kernel_id } => {
            freed(device, kernel_id, |_, allocator| Some(Key { allocator, kind: kind::KERNEL, address: kernel_id }))
        }
        Report::DeviceClose { device } => on_device(device, 0, |session, given_id| {
            if let Some(allocator) = session.allocator(origin::CLIENT, given_id) {
                session.close_allocator(allocator);
            }
            Outcome::Recorded
        }),
        Report::TagPush { text } => tags::push(text),
        Report::TagPop => tags::pop(),
        Report::Mark => in_session(|session| {
            session.mark();
            Outcome::Recorded
        }),
        Report::MemoryAllocated { device, buffer_type, bytes } => asked(device, buffer_type, bytes, |figures| figures.used),
        Report::MaxMemoryAllocated { device, buffer_type, bytes } => asked(device, buffer_type, bytes, |figures| figures.peak),
        Report::ResetPeak { device, buffer_type } => on_device(device, 0, |session, metal_id| {
            session.reset_peak_on(metal_id, kind_of(buffer_type));
            Outcome::Recorded
        }),
    }
}

fn kind_of(buffer_type: u8) -> u8 {
    BUFFER_KINDS.get(usize::from(buffer_type)).copied().unwrap_or(kind::OTHER)
}

/// A figure of a chip; of one that nothing was ever seen on it is 0.
fn asked(device: i32, buffer_type: u8, bytes: *mut u64, figure: fn(RowFigures) -> u64) -> Outcome {
    if bytes.is_null() {
        return Outcome::BadArgument;
    }
    on_device(device, 0, |session, metal_id| {
        let found = session.figures_on(metal_id, kind_of(buffer_type)).map_or(0, figure);
        // SAFETY: not null, and the caller of the C function promises a place for a number.
        unsafe { bytes.write_unaligned(found) };
        Outcome::Recorded
    })
}

/// A live key again with the same size is one more reference, as the programs that TT-Metal caches make them; with
/// another size it is another buffer, whose predecessor's free was missed: the ledger replaces and counts it.
fn allocated(device: i32, kind: u8, address: u64, size: u64, flags: u16) -> Outcome {
    on_device(device, address, |session, given_id| {
        let allocator = match session.allocator(origin::CLIENT, given_id) {
            Some(allocator) => allocator,
            None => match open(session, given_id) {
                Ok(allocator) => allocator,
                Err(lost) => return outcome(lost),
            },
        };
        let tag = tags::top(session);
        let buffer = Buffer { size, per_bank: 0, page: 0, layout: 0, cores: 0, flags, tag, operation: 0 };
        session.insert_or_reference(Key { allocator, kind, address }, &buffer).map_or_else(outcome, |()| Outcome::Recorded)
    })
}

/// Drops one reference; the last one frees.
fn freed(device: i32, address: u64, which: impl FnOnce(&mut Session<'_>, AllocatorId) -> Option<Key>) -> Outcome {
    on_device(device, address, |session, given_id| {
        let key = session.allocator(origin::CLIENT, given_id).and_then(|allocator| which(session, allocator));
        if key.and_then(|key| session.unreference(key)).is_none() {
            session.lose(Lost::UnknownFree);
        }
        Outcome::Recorded
    })
}

/// A free names no kind: the newest buffer at the address goes, and where there were several that is counted.
fn buffer_at(session: &mut Session<'_>, allocator: AllocatorId, address: u64) -> Option<Key> {
    let (newest, kinds) = session.newest_at(allocator, address)?;
    let is_buffer = BUFFER_KINDS.contains(&newest);
    if is_buffer && kinds == 1 {
        return Some(Key { allocator, kind: newest, address });
    }
    // A circular buffer or a kernel of that number is none of ours; rare enough to ask for each kind.
    let mut here = BUFFER_KINDS.into_iter().map(|kind| Key { allocator, kind, address }).filter(|key| session.find(*key).is_some());
    let first = here.next()?;
    if here.next().is_none() {
        return Some(first);
    }
    session.lose(Lost::AmbiguousFree);
    Some(if is_buffer { Key { kind: newest, ..first } } else { first })
}

/// The device's allocator: one chip, known by its id in this process, and by its own if the program told.
fn open(session: &mut Session<'_>, given_id: u32) -> Result<AllocatorId, Lost> {
    let chips = [Chip { metal_id: given_id, unique_id: devices::unique_id(given_id), flags: 0 }];
    let kinds = [KindGeometry::default(); 6];
    session.open_allocator(&AllocatorSpec { given_id, origin: origin::CLIENT, mesh: (0, 0), kinds, chips: &chips })
}

/// `address` is where the report will look, as a hint.
fn on_device(device: i32, address: u64, act: impl FnOnce(&mut Session<'_>, u32) -> Outcome) -> Outcome {
    match u32::try_from(device) {
        Ok(given_id) => done(switch::writer().session_near(given_id, address), |session| act(session, given_id)),
        Err(_) => Outcome::BadArgument,
    }
}

pub(crate) fn in_session(act: impl FnOnce(&mut Session<'_>) -> Outcome) -> Outcome {
    done(switch::writer().session(), act)
}

fn done(mut session: Result<Session<'_>, Lost>, act: impl FnOnce(&mut Session<'_>) -> Outcome) -> Outcome {
    match &mut session {
        Ok(session) => act(session),
        // There is no ledger: none can be made here, or another copy of this code has it.
        Err(Lost::NoMemory) => {
            switch::step_aside();
            Outcome::Off
        }
        Err(lost) => outcome(*lost),
    }
}

fn outcome(lost: Lost) -> Outcome {
    match lost {
        Lost::SizeOutOfRange => Outcome::BadArgument,
        _ => Outcome::Lost,
    }
}
