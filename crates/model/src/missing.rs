//! A value, or the reason why it is missing.

use std::fmt;

/// A measured value, or the reason why it is missing.
pub type Reading<T> = Result<T, Missing>;

/// Why a value is missing. The names are part of the JSON format ([`Missing::name`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Missing {
    /// Chips of this architecture never publish the value.
    NotOnThisArch,
    /// This driver or firmware does not publish the value.
    NotExposed,
    /// The chip is reached only over Ethernet, and reading it would require opening a device.
    RemoteChip,
    /// The value exists, but this user may not read it.
    NoPermission,
    /// The chip is being reset.
    Resetting,
    /// The device left the bus after it was listed.
    Gone,
    /// The value is impossible.
    OutOfRange,
    /// The value is not in the documented format of the driver.
    Unparsable,
    /// The read did not finish in time.
    Timeout,
    /// The kernel returned an error.
    IoError,
    /// A rate needs two samples, and this is the first.
    FirstSample,
    /// A process may use memory that is not tracked.
    NotTracked,
    /// The value is read only with `--deep`, which was not given.
    NeedsDeep,
    /// The program runs its kernels without the dispatch firmware that has the counters.
    SlowDispatch,
    /// The program's counters do not advance. The program was killed, or its chip is stuck.
    Stale,
    /// No process holds the chip.
    NotHeld,
    /// Another program has exclusive use of the device, or has taken all resources that a reader needs.
    Busy,
    /// The chip will be read after its pending power-down.
    IdleWait,
    /// The value is not measured.
    NoSource,
}

impl Missing {
    /// Every reason, in the order of JSON.
    pub const ALL: [Self; 19] = [
        Self::NotOnThisArch,
        Self::NotExposed,
        Self::RemoteChip,
        Self::NoPermission,
        Self::Resetting,
        Self::Gone,
        Self::OutOfRange,
        Self::Unparsable,
        Self::Timeout,
        Self::IoError,
        Self::FirstSample,
        Self::NotTracked,
        Self::NeedsDeep,
        Self::SlowDispatch,
        Self::Stale,
        Self::NotHeld,
        Self::Busy,
        Self::IdleWait,
        Self::NoSource,
    ];

    /// Returns the name in JSON, in the documentation of CSV and in lists of problems.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotOnThisArch => "not_on_this_arch",
            Self::NotExposed => "not_exposed",
            Self::RemoteChip => "remote_chip",
            Self::NoPermission => "no_permission",
            Self::Resetting => "resetting",
            Self::Gone => "gone",
            Self::OutOfRange => "out_of_range",
            Self::Unparsable => "unparsable",
            Self::Timeout => "timeout",
            Self::IoError => "io_error",
            Self::FirstSample => "first_sample",
            Self::NotTracked => "not_tracked",
            Self::NeedsDeep => "needs_deep",
            Self::SlowDispatch => "slow_dispatch",
            Self::Stale => "stale",
            Self::NotHeld => "not_held",
            Self::Busy => "busy",
            Self::IdleWait => "idle_wait",
            Self::NoSource => "no_source",
        }
    }

    /// Returns the reason for a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }

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
