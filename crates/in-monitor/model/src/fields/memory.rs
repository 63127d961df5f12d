//! Fields of each kind of memory: of a device, of a process on a device, and of an allocator.

use super::{Chart, Field, Member, Section, Value, field};
use crate::memory::{Figure, Kind, KindMemory};
use crate::missing::Reading;
use crate::snapshot::{AllocatorKind, Banks};
use crate::units::Unit;

fn bank(kind: &AllocatorKind, get: fn(&Banks) -> Reading<Value>) -> Reading<Value> {
    kind.banks.as_ref().map_err(|reason| *reason).and_then(get)
}

/// Fields of one kind of memory of a device: `memory.kinds.KIND.NAME`.
pub const DEVICE_KIND: &[Field<KindMemory>] = &[
    field!(KindMemory.total, "total", Section::Memory, Unit::Bytes)
        .help("What the chip has.")
        .full_metric("ttmon_memory_total_bytes")
        .fixed(),
    field!(KindMemory.capacity, "capacity", Section::Memory, Unit::Bytes)
        .help("The allocator's own limit.")
        .full_metric("ttmon_memory_capacity_bytes"),
    field!(KindMemory.figure.used = "used", "used", Section::Memory, Unit::Bytes)
        .help("Live buffers as asked for by programs.")
        .metric("ttmon_memory_used_bytes")
        .kept("used")
        .charts(&[Chart::new(10, "cb").part("Circular buffers", Kind::Cb), Chart::new(11, "trace").part("Traces", Kind::Trace)]),
    field!(KindMemory.figure.allocated = "allocated", "allocated", Section::Memory, Unit::Bytes)
        .help("What the allocators took, padding included.")
        .full_metric("ttmon_memory_allocated_bytes")
        .kept("allocated"),
    field!(KindMemory.free, "free", Section::Memory, Unit::Bytes)
        .help("Capacity less allocated, else total less used.")
        .full_metric("ttmon_memory_free_bytes"),
    field!(KindMemory.largest_free_per_bank, "largest", Section::Memory, Unit::Bytes)
        .help("Largest free block of a bank; of several allocators, the smallest of theirs.")
        .metric("ttmon_memory_largest_free_per_bank_bytes"),
    field!(KindMemory.figure.peak = "peak", "peak", Section::Memory, Unit::Bytes)
        .help("Highest used.")
        .full_metric("ttmon_memory_peak_bytes"),
    field!(KindMemory.figure.peak_time = "peak_time", "peak time", Section::Memory, Unit::Time).help("When that was."),
    field!(KindMemory.figure.count = "count", "count", Section::Memory, Unit::Count)
        .help("Live buffers.")
        .full_metric("ttmon_memory_buffers"),
    field!(KindMemory.figure.source = "source", "source", Section::Memory, Unit::None).help("Where the figures come from."),
];

/// Fields of one kind of memory of a process on a device.
pub const PROCESS_KIND: &[Field<Figure>] = &[
    field!(Figure.used, "used", Section::Memory, Unit::Bytes).help("Live buffers as asked for by the program."),
    field!(Figure.allocated, "allocated", Section::Memory, Unit::Bytes).help("What the allocator took, padding included."),
    field!(Figure.peak, "peak", Section::Memory, Unit::Bytes).help("Highest used since tracking began."),
    field!(Figure.peak_time, "peak time", Section::Memory, Unit::Time).help("When that was."),
    field!(Figure.count, "count", Section::Memory, Unit::Count).help("Live buffers."),
    field!(Figure.source, "source", Section::Memory, Unit::None).help("Where the figures come from."),
];

/// Fields of one kind of memory of an allocator, per chip.
pub const ALLOCATOR_KIND: &[Field<AllocatorKind>] = &[
    field!(AllocatorKind.figure.used = "used", "used", Section::Memory, Unit::Bytes).help("Live buffers as asked for by the program."),
    field!(AllocatorKind.figure.allocated = "allocated", "allocated", Section::Memory, Unit::Bytes)
        .help("What the allocator took, padding included."),
    field!(AllocatorKind.free, "free", Section::Memory, Unit::Bytes).help("What can still be had, where the allocator's limit is known."),
    field!(AllocatorKind.figure.count = "count", "count", Section::Memory, Unit::Count).help("Live buffers."),
    field!(AllocatorKind.figure.peak = "peak", "peak", Section::Memory, Unit::Bytes).help("Highest used since tracking began."),
    field!(AllocatorKind.figure.peak_time = "peak_time", "peak time", Section::Memory, Unit::Time).help("When that was."),
];

/// Fields of one kind of memory of an allocator, per bank.
pub const ALLOCATOR_BANKS: &[Field<AllocatorKind>] = &[
    Field::computed("banks", "banks", Section::Memory, Unit::Count, |k| bank(k, |b| Member::get(&b.banks)))
        .help("Banks; a buffer takes as many bytes of each."),
    Field::computed("bank_bytes", "bank", Section::Memory, Unit::Bytes, |k| bank(k, |b| Member::get(&b.bank_bytes)))
        .help("Bytes of a bank that the allocator can give out."),
    Field::computed("allocated_per_bank", "allocated", Section::Memory, Unit::Bytes, |k| bank(k, |b| Member::get(&b.allocated_per_bank)))
        .help("Bytes of a bank that are allocated."),
    Field::computed("free_per_bank", "free", Section::Memory, Unit::Bytes, |k| bank(k, |b| Member::get(&b.free_per_bank)))
        .help("Bytes of a bank that are free."),
    Field::computed("largest_free_per_bank", "largest", Section::Memory, Unit::Bytes, |k| {
        bank(k, |b| Member::get(&b.largest_free_per_bank))
    })
    .help("The largest free block of a bank."),
    Field::computed("fragmentation", "frag", Section::Memory, Unit::Ratio, |k| bank(k, |b| Member::get(&b.fragmentation)))
        .help("Share of a bank's free bytes outside the largest free block: 1 - largest / free."),
    Field::computed("blocks", "blocks", Section::Memory, Unit::Count, |k| bank(k, |b| Member::get(&b.blocks)))
        .help("Blocks, used and free, as TT-Metal counts them."),
];
