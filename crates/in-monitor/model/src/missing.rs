//! A value, or the reason why it is missing.

use std::fmt;

/// A measured value, or the reason why it is missing.
pub type Reading<T> = Result<T, Missing>;

crate::named! {
    /// Why a value is missing. The names are part of the JSON format ([`Missing::name`]).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Missing {
        /// Chips of this architecture never publish the value.
        NotOnThisArch = "not_on_this_arch",
        /// This driver or firmware does not publish the value.
        NotExposed = "not_exposed",
        /// The chip is reached only over Ethernet, and reading it would require opening a device.
        RemoteChip = "remote_chip",
        /// The value exists, but this user may not read it.
        NoPermission = "no_permission",
        /// The chip is being reset.
        Resetting = "resetting",
        /// The device left the bus after it was listed.
        Gone = "gone",
        /// The value is impossible.
        OutOfRange = "out_of_range",
        /// The value is not in the documented format of the driver.
        Unparsable = "unparsable",
        /// The read did not finish in time.
        Timeout = "timeout",
        /// The kernel returned an error.
        IoError = "io_error",
        /// A rate needs two samples, and this is the first.
        FirstSample = "first_sample",
        /// A process may use memory that is not tracked.
        NotTracked = "not_tracked",
        /// The value is read only with `--deep`, which was not given.
        NeedsDeep = "needs_deep",
        /// The program runs its kernels without the dispatch firmware that has the counters.
        SlowDispatch = "slow_dispatch",
        /// The program's counters do not advance. The program was killed, or its chip is stuck.
        Stale = "stale",
        /// No process holds the chip.
        NotHeld = "not_held",
        /// Another program has exclusive use of the device, or has taken all resources that a reader needs.
        Busy = "busy",
        /// The chip will be read after its pending power-down.
        IdleWait = "idle_wait",
        /// The value is not measured.
        NoSource = "no_source",
    }
}

impl Missing {
    /// Returns the reason as a sentence.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::NotOnThisArch => "chips of this architecture do not publish it",
            Self::NotExposed => "this driver or firmware does not publish it",
            Self::RemoteChip => "a chip reached over Ethernet has no telemetry without opening a device",
            Self::NoPermission => "this user may not read it",
            Self::Resetting => "the chip is being reset",
            Self::Gone => "the device is gone",
            Self::OutOfRange => "the value read cannot be true",
            Self::Unparsable => "the text read is not what the driver documents",
            Self::Timeout => "the read did not come back in time",
            Self::IoError => "the kernel answered with an error",
            Self::FirstSample => "a rate needs two samples",
            Self::NotTracked => "nothing tracks it",
            Self::NeedsDeep => "only the chip has it; --deep reads it",
            Self::SlowDispatch => "the program uses slow dispatch, which counts nothing",
            Self::Stale => "the counters stand still; the program was killed, or the chip is stuck",
            Self::NotHeld => "no process holds the chip",
            Self::Busy => "another program holds the device exclusively, or has taken all of its windows",
            Self::IdleWait => "waiting for the idle power-down of the chip, which opening it would prevent",
            Self::NoSource => "it does not exist, or nothing measures it",
        }
    }

    /// Returns true if the reason is a failure, false if the value does not exist by design.
    pub fn is_problem(self) -> bool {
        matches!(self, Self::NoPermission | Self::OutOfRange | Self::Unparsable | Self::Timeout | Self::IoError)
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = Missing::ALL.iter().map(|reason| reason.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Missing::ALL.len());
    }
}
