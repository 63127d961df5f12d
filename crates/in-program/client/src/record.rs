//! Writes reports to the ledger. `ttmon_ledger::report` defines their meaning.

use std::ffi::c_char;
use std::sync::OnceLock;

use ttmon_ledger::layout::{Lost, kind, origin};
use ttmon_ledger::report::{self, FreeTarget, kernel_flags, kind_of};
use ttmon_ledger::writer::{AllocatorId, Buffer, Chip, Key, RowFigures, Session};

use crate::report::{Outcome, Report};
use crate::{host, switch, tags};

pub(crate) fn record(report: Report) -> Outcome {
    match report {
        Report::Allocation { device, size, buffer_type, buffer_id } => allocated(device, kind_of(buffer_type), buffer_id, size, 0),
        Report::Deallocation { device, buffer_id } => freed(device, FreeTarget::Buffer, buffer_id),
        Report::CbAllocation { device, size, cb_id } => allocated(device, kind::CB, cb_id, size, 0),
        Report::CbDeallocation { device, size: _, cb_id } => freed(device, FreeTarget::Kind(kind::CB), cb_id),
        Report::KernelLoad { device, size, kernel_type, kernel_id } => {
            allocated(device, kind::KERNEL, kernel_id, size, kernel_flags(kernel_type))
        }
        Report::KernelUnload { device, size: _, kernel_id } => freed(device, FreeTarget::Kind(kind::KERNEL), kernel_id),
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
        Report::MemoryAllocated { device, buffer_type, bytes } => write_figure(device, buffer_type, bytes, |figures| figures.used),
        Report::MaxMemoryAllocated { device, buffer_type, bytes } => write_figure(device, buffer_type, bytes, |figures| figures.peak),
        Report::PhaseBegin { text } => phase(text, true),
        Report::PhaseEnd { text } => phase(text, false),
        Report::ResetPeak { device, buffer_type } => on_device(device, 0, |session, metal_id| {
            session.reset_peak_on(metal_id, kind_of(buffer_type));
            Outcome::Recorded
        }),
    }
}

fn phase(text: *const c_char, is_begin: bool) -> Outcome {
    let Some(name) = tags::text(text) else { return Outcome::BadArgument };
    let host_rss = host::resident_bytes();
    in_session(|session| {
        let name = session.tag(name.as_str());
        session.phase(is_begin, name, host_rss);
        Outcome::Recorded
    })
}

/// Writes a figure of a chip; 0 for a chip without any allocation.
fn write_figure(device: i32, buffer_type: u8, bytes: *mut u64, figure: fn(RowFigures) -> u64) -> Outcome {
    if bytes.is_null() {
        return Outcome::BadArgument;
    }
    on_device(device, 0, |session, metal_id| {
        let found = session.figures_on(metal_id, kind_of(buffer_type)).map_or(0, figure);
        // SAFETY: not null, and the caller of the C function guarantees that it points to a number.
        unsafe { bytes.write_unaligned(found) };
        Outcome::Recorded
    })
}

fn allocated(device: i32, kind: u8, address: u64, size: u64, flags: u16) -> Outcome {
    on_device(device, address, |session, given_id| {
        let allocator = match session.allocator(origin::CLIENT, given_id) {
            Some(allocator) => allocator,
            None => match open(session, given_id) {
                Ok(allocator) => allocator,
                Err(lost) => return outcome(lost),
            },
        };
        let buffer = Buffer { size, flags, tag: tags::top(session), ..Buffer::default() };
        report::allocate(session, Key { allocator, kind, address }, &buffer).map_or_else(outcome, |_| Outcome::Recorded)
    })
}

fn freed(device: i32, target: FreeTarget, address: u64) -> Outcome {
    on_device(device, address, |session, given_id| {
        let allocator = session.allocator(origin::CLIENT, given_id);
        report::free(session, allocator, target, address);
        Outcome::Recorded
    })
}

/// Opens the allocator of a device, with the unique id of the chip if the program reported one.
fn open(session: &mut Session<'_>, given_id: u32) -> Result<AllocatorId, Lost> {
    let chip = [Chip { metal_id: given_id, unique_id: unique_id(given_id), flags: 0 }];
    session.open_allocator(&report::allocator_of(origin::CLIENT, &chip))
}

/// `address` is a prefetch hint: the address that the report is about.
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
        // There is no ledger: none can be created here, or another copy of this code has it.
        Err(Lost::NoMemory) => {
            switch::turn_off_second_copy();
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

/// Unique ids of the devices of this process, if the program sets them.
static UNIQUE_IDS: OnceLock<Vec<(u32, u64)>> = OnceLock::new();

/// Sets UMD's unique id of each device, so that its memory is shown on the right chip even if the device's number is ambiguous. Call it
/// once, before the first report. Returns `false` if it was called before.
pub fn name_devices(unique_ids: Vec<(u32, u64)>) -> bool {
    UNIQUE_IDS.set(unique_ids).is_ok()
}

/// The unique id of a device; 0 if it was not set.
fn unique_id(device: u32) -> u64 {
    UNIQUE_IDS.get().and_then(|ids| ids.iter().find(|(id, _)| *id == device)).map_or(0, |(_, unique_id)| *unique_id)
}
