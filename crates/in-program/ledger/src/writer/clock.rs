//! The time of an event: the CPU's counter if it is invariant and readable, otherwise CLOCK_MONOTONIC.

use crate::{layout::Clock, tsc};

/// The clock that a writer uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockChoice {
    /// The cheapest clock that is reliable here.
    Auto,
    /// CLOCK_MONOTONIC.
    Monotonic,
}

/// Resolves `choice` on this machine.
pub(super) fn pick(choice: ClockChoice) -> Clock {
    match choice {
        ClockChoice::Auto if counter_is_invariant() => Clock::Tsc,
        ClockChoice::Auto | ClockChoice::Monotonic => Clock::Monotonic,
    }
}

/// The current time of a clock.
#[inline]
pub(super) fn now(clock: Clock) -> u64 {
    match clock {
        Clock::Tsc => tsc::now().unwrap_or_else(tsc::monotonic_ns),
        Clock::Monotonic => tsc::monotonic_ns(),
    }
}

#[cfg(target_arch = "x86_64")]
fn counter_is_invariant() -> bool {
    use core::arch::x86_64::__cpuid;

    /// «Advanced power management information»; bit 8 of EDX is the invariant TSC (AMD APM 3, Intel SDM 3B 18.17).
    const POWER: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;

    let mut setting: libc::c_int = 0;
    // SAFETY: the kernel writes one int to a local variable.
    let asked = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut setting) };
    let may_read = asked != 0 || setting == libc::PR_TSC_ENABLE;
    #[allow(unused_unsafe, reason = "the instruction is unsafe to call in the oldest Rust we build with, and safe in later ones")]
    // SAFETY: every x86-64 processor has the instruction.
    let leaf = |number| unsafe { __cpuid(number) };
    may_read && leaf(0x8000_0000).eax >= POWER && leaf(POWER).edx & INVARIANT != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn counter_is_invariant() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_go_forward() {
        for clock in [Clock::Monotonic, pick(ClockChoice::Auto)] {
            let first = now(clock);
            assert!(now(clock) >= first && first > 0);
        }
        assert_eq!(pick(ClockChoice::Monotonic), Clock::Monotonic);
    }
}
