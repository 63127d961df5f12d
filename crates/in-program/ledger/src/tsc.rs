//! The CPU's timestamp counter, and the clocks that it is compared with, as safe functions for the writer and the reader.

/// Ticks of the CPU's counter; `None` on architectures without a supported one.
#[inline]
pub fn now() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: RDTSC reads a CPU register that every x86-64 has, and accesses no memory. If the process has disabled it (PR_SET_TSC), it
        // faults like any other trapping instruction.
        // JUSTIFICATION: std has no safe call that costs ten nanoseconds.
        Some(unsafe { core::arch::x86_64::_rdtsc() })
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        None
    }
}

/// CLOCK_MONOTONIC in nanoseconds. It is independent of changes of the wall clock.
#[inline]
pub fn monotonic_ns() -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC)
}

/// CLOCK_REALTIME in nanoseconds since 1970.
pub fn realtime_ns() -> u64 {
    nanoseconds(libc::CLOCK_REALTIME)
}

#[inline]
fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec into `time`, which is aligned, exclusive and outlives the call; any bits are valid. Both
    // clocks exist on every Linux, so the call cannot fail. If it did, `time` would stay 0.
    // JUSTIFICATION: std's `Instant` does not expose the number, and the ledger has numbers of another process.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_forward() {
        let (mono, ticks) = (monotonic_ns(), now());
        assert!(mono > 0 && monotonic_ns() >= mono);
        assert!(now() >= ticks);
        assert!(realtime_ns() > 1_600_000_000_000_000_000, "after 2020");
    }
}
