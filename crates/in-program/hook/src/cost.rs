//! Measures the cost of recording. In one of 251 calls a clock is read around our own code. The ledger has the sum; a reader knows the
//! number of calls per measurement.

use std::sync::atomic::Ordering::Relaxed;

use ttmon_client::hooked;
use ttmon_ledger::layout::COST_ONE_IN;
use ttmon_ledger::tsc::monotonic_ns;

use crate::fast_path::HOT;

/// A longer time means that the kernel ran another process meanwhile.
const LONGEST_NS: u64 = 100_000;

/// The time at which our part of a call begins; 0 if the call is not measured.
#[inline(always)]
pub(crate) fn begin() -> u64 {
    // Threads may overwrite each other's count, which is acceptable for sampling. A thread may also read 0 before another has reset the
    // count.
    let until = HOT.until_measured.load(Relaxed).saturating_sub(1);
    HOT.until_measured.store(until, Relaxed);
    if until == 0 { begin_measured() } else { 0 }
}

#[cold]
fn begin_measured() -> u64 {
    HOT.until_measured.store(COST_ONE_IN, Relaxed);
    monotonic_ns()
}

/// Called before the real function. Returns the time spent so far, 0 if the call is not measured.
#[inline(always)]
pub(crate) fn pause(begun: u64) -> u64 {
    if begun == 0 { 0 } else { now_minus(begun) }
}

/// Called after the real function. Returns a start time that excludes the real function.
#[inline(always)]
pub(crate) fn resume(spent: u64) -> u64 {
    if spent == 0 { 0 } else { now_minus(spent) }
}

/// Ends our part of the call. `readings` is the number of clock reads within it.
#[inline(always)]
pub(crate) fn end(begun: u64, readings: u64) {
    if begun != 0 {
        add_sample(begun, readings);
    }
}

#[cold]
fn now_minus(nanoseconds: u64) -> u64 {
    monotonic_ns().saturating_sub(nanoseconds).max(1)
}

#[cold]
fn add_sample(begun: u64, readings: u64) {
    let end = monotonic_ns();
    // The time of the clock reads is subtracted: unmeasured calls do not have it.
    let clock = monotonic_ns().saturating_sub(end);
    let spent = end.saturating_sub(begun).saturating_sub(clock * readings);
    if spent < LONGEST_NS {
        hooked::writer().cost(spent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_in_so_many_is_measured() {
        let measured = (0..COST_ONE_IN * 4).filter(|_| begin() != 0).count();
        assert_eq!(measured, 4);
        // Simulates a thread that was overtaken by another one.
        HOT.until_measured.store(0, Relaxed);
        let measured = (0..=COST_ONE_IN * 4).filter(|_| begin() != 0).count();
        assert_eq!(measured, 5);
        assert_eq!((pause(0), resume(0)), (0, 0));
        // The time of the real function is not included.
        let begun = monotonic_ns() - 5000;
        let spent = pause(begun);
        assert!((5000..1_000_000_000).contains(&spent));
        let begun = resume(spent);
        assert!(monotonic_ns() - begun >= spent);
    }
}
