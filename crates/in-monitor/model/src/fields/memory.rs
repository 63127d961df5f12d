//! Fields of each kind of memory: of a device, of a process on a device, and of an allocator.

use super::table::table;
use super::{Chart, Member, Value};
use crate::memory::{Figure, Kind, KindMemory};
use crate::missing::Reading;
use crate::snapshot::{AllocatorKind, Banks};

fn bank(kind: &AllocatorKind, get: fn(&Banks) -> Reading<Value>) -> Reading<Value> {
    kind.banks.as_ref().map_err(|reason| *reason).and_then(get)
}

table! {
    ///
    /// Fields of one kind of memory of a device: `memory.kinds.KIND.NAME`.
    KindMemory DEVICE_KIND {}
    part "total" (total), "total", Memory, Bytes, "What the chip has." .metric("ttmon_memory_total_bytes").full_only().fixed();
    part "capacity" (capacity), "capacity", Memory, Bytes, "The allocator's own limit." .metric("ttmon_memory_capacity_bytes").full_only();
    part "used" (figure.used), "used", Memory, Bytes, "Live buffers as asked for by programs." .metric("ttmon_memory_used_bytes").kept()
        .charts(&[Chart::new(10, "cb").part("Circular buffers", Kind::Cb), Chart::new(11, "trace").part("Traces", Kind::Trace)]);
    part "allocated" (figure.allocated), "allocated", Memory, Bytes, "What the allocators took, padding included." .metric("ttmon_memory_allocated_bytes").full_only().kept();
    part "free" (free), "free", Memory, Bytes, "Capacity less allocated, else total less used." .metric("ttmon_memory_free_bytes").full_only();
    part "largest_free_per_bank" (largest_free_per_bank), "largest", Memory, Bytes, "Largest free block of a bank; of several allocators, the smallest of theirs." .metric("ttmon_memory_largest_free_per_bank_bytes");
    part "peak" (figure.peak), "peak", Memory, Bytes, "Highest used." .metric("ttmon_memory_peak_bytes").full_only();
    part "peak_time" (figure.peak_time), "peak time", Memory, Time, "When that was.";
    part "count" (figure.count), "count", Memory, Count, "Live buffers." .metric("ttmon_memory_buffers").full_only();
    part "source" (figure.source), "source", Memory, None, "Where the figures come from.";
}

table! {
    ///
    /// Fields of one kind of memory of a process on a device.
    Figure PROCESS_KIND {}
    part "used" (used), "used", Memory, Bytes, "Live buffers as asked for by the program.";
    part "allocated" (allocated), "allocated", Memory, Bytes, "What the allocator took, padding included.";
    part "peak" (peak), "peak", Memory, Bytes, "Highest used since tracking began.";
    part "peak_time" (peak_time), "peak time", Memory, Time, "When that was.";
    part "count" (count), "count", Memory, Count, "Live buffers.";
    part "source" (source), "source", Memory, None, "Where the figures come from.";
}

table! {
    ///
    /// Fields of one kind of memory of an allocator, per chip.
    AllocatorKind ALLOCATOR_KIND {}
    part "used" (figure.used), "used", Memory, Bytes, "Live buffers as asked for by the program.";
    part "allocated" (figure.allocated), "allocated", Memory, Bytes, "What the allocator took, padding included.";
    part "free" (free), "free", Memory, Bytes, "What can still be had, where the allocator's limit is known.";
    part "count" (figure.count), "count", Memory, Count, "Live buffers.";
    part "peak" (figure.peak), "peak", Memory, Bytes, "Highest used since tracking began.";
    part "peak_time" (figure.peak_time), "peak time", Memory, Time, "When that was.";
}

table! {
    ///
    /// Fields of one kind of memory of an allocator, per bank.
    AllocatorKind ALLOCATOR_BANKS {}
    made "banks" = |k| bank(k, |b| Member::get(&b.banks)), "banks", Memory, Count, "Banks; a buffer takes as many bytes of each.";
    made "bank_bytes" = |k| bank(k, |b| Member::get(&b.bank_bytes)), "bank", Memory, Bytes, "Bytes of a bank that can be handed out.";
    made "allocated_per_bank" = |k| bank(k, |b| Member::get(&b.allocated_per_bank)), "allocated", Memory, Bytes, "Bytes of a bank that are.";
    made "free_per_bank" = |k| bank(k, |b| Member::get(&b.free_per_bank)), "free", Memory, Bytes, "Bytes of a bank that are not.";
    made "largest_free_per_bank" = |k| bank(k, |b| Member::get(&b.largest_free_per_bank)), "largest", Memory, Bytes, "The largest block of those.";
    made "fragmentation" = |k| bank(k, |b| Member::get(&b.fragmentation)), "frag", Memory, Ratio, "How much of the free bytes is not in that block: 1 - largest / free.";
    made "blocks" = |k| bank(k, |b| Member::get(&b.blocks)), "blocks", Memory, Count, "Blocks, used and free, as TT-Metal counts them.";
}
