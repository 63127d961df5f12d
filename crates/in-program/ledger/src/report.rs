//! The meaning of a program's reports, for the client library and for the allocation socket.
//!
//! | report | at that address | result |
//! | --- | --- | --- |
//! | allocation | nothing of its kind | a new buffer |
//! | allocation | one of its kind and size | one more reference, as TT-Metal's cached programs make them |
//! | allocation | one of its kind, another size | the old buffer is replaced: its free was missed ([`Lost::Replaced`]) |
//! | free of a buffer | one buffer | one reference less; the last one frees |
//! | free of a buffer | buffers of several kinds | the newest, and [`Lost::AmbiguousFree`] |
//! | free of a buffer | only a circular buffer or a kernel | nothing, and [`Lost::UnknownFree`] |
//! | free of a circular buffer or a kernel | one of its kind | one reference less; the last one frees |
//! | any free | nothing | nothing, and [`Lost::UnknownFree`] |

use crate::layout::{Lost, allocator, flag, kind};
use crate::writer::{AllocatorId, AllocatorSpec, Buffer, Chip, Key, KindGeometry, Released, Repeated, Session, Stored};

/// The kinds of buffers, indexed by TT-Metal's `BufferType`.
pub const BUFFER_KINDS: [u8; 6] = [kind::DRAM, kind::L1, kind::HOST, kind::L1_SMALL, kind::TRACE, kind::OTHER];

/// Returns the kind of a `BufferType`.
pub fn kind_of(buffer_type: u8) -> u8 {
    BUFFER_KINDS.get(usize::from(buffer_type)).copied().unwrap_or(kind::OTHER)
}

/// Returns the [`Buffer::flags`] of a kernel.
pub fn kernel_flags(kernel_type: u8) -> u16 {
    u16::from(kernel_type) << flag::KERNEL_TYPE_SHIFT
}

/// Returns the type of a kernel from its flags.
pub fn kernel_type(flags: u16) -> u8 {
    (flags >> flag::KERNEL_TYPE_SHIFT) as u8
}

/// The allocator of a device that is identified only by a number: one chip, no geometry.
pub fn allocator_of(origin: u32, chip: &[Chip; 1]) -> AllocatorSpec<'_> {
    let kinds = [KindGeometry::default(); allocator::KINDS_MAX];
    AllocatorSpec { given_id: chip[0].metal_id, origin, mesh: (0, 0), kinds, chips: chip }
}

/// The kinds that a free may refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeTarget {
    /// A buffer of any of [`BUFFER_KINDS`].
    Buffer,
    /// A circular buffer or a kernel.
    Kind(u8),
}

/// The result of a free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    /// The buffer's kind.
    pub kind: u8,
    /// The buffer before the free, with the remaining references.
    pub buffer: Released,
    /// Buffers of several kinds were at the address.
    pub is_ambiguous: bool,
}

/// Records an allocation.
#[inline]
pub fn allocate(session: &mut Session<'_>, key: Key, buffer: &Buffer) -> Result<Stored, Lost> {
    session.store(key, buffer, |live_size| if live_size == buffer.size { Repeated::Reference } else { Repeated::Replace })
}

/// Records a free. Returns `None` if there is no such buffer.
#[inline]
pub fn free(session: &mut Session<'_>, allocator: Option<AllocatorId>, target: FreeTarget, address: u64) -> Option<Freed> {
    let freed = allocator.and_then(|allocator| {
        let (kind, kinds) = match target {
            FreeTarget::Kind(kind) => (kind, 1),
            FreeTarget::Buffer => session.newest_of(allocator, address, &BUFFER_KINDS)?,
        };
        let buffer = session.unreference(Key { allocator, kind, address })?;
        Some(Freed { kind, buffer, is_ambiguous: kinds > 1 })
    });
    match freed {
        None => session.lose(Lost::UnknownFree),
        Some(freed) if freed.is_ambiguous => session.lose(Lost::AmbiguousFree),
        Some(_) => {}
    }
    freed
}
