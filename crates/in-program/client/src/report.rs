//! Reports of a program, and their results.

use std::ffi::c_char;

/// One call of the API. All calls pass the gate as a value of this type. `text` is null, or a NUL-terminated string that lives until the
/// call returns. `bytes` is null, or points to the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    Allocation { device: i32, size: u64, buffer_type: u8, buffer_id: u64 },
    Deallocation { device: i32, buffer_id: u64 },
    CbAllocation { device: i32, size: u64, cb_id: u64 },
    CbDeallocation { device: i32, size: u64, cb_id: u64 },
    KernelLoad { device: i32, size: u64, kernel_type: u8, kernel_id: u64 },
    KernelUnload { device: i32, size: u64, kernel_id: u64 },
    DeviceClose { device: i32 },
    TagPush { text: *const c_char },
    TagPop,
    Mark,
    MemoryAllocated { device: i32, buffer_type: u8, bytes: *mut u64 },
    MaxMemoryAllocated { device: i32, buffer_type: u8, bytes: *mut u64 },
    ResetPeak { device: i32, buffer_type: u8 },
    PhaseBegin { text: *const c_char },
    PhaseEnd { text: *const c_char },
}

/// The result of a report. The C functions return its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Outcome {
    /// The report is in the ledger. The ledger also counts unusual reports, such as the free of an unknown buffer.
    Recorded = 0,
    /// Tracking is off in this process: it was not requested, another library does it, or no ledger can be created here.
    Off = 1,
    /// A negative device, a size of 2^40 and more, a null text, a pop without a push.
    BadArgument = -1,
    /// The report could not be recorded. The ledger counts it, if there is one.
    Lost = -2,
    /// A defect of this library.
    Internal = -3,
}

impl Outcome {
    /// The number that C code sees.
    pub const fn code(self) -> i32 {
        self as i32
    }

    /// Converts a number. An unknown number of a newer library becomes an internal error.
    pub const fn from_code(code: i32) -> Self {
        match code {
            0 => Self::Recorded,
            1 => Self::Off,
            -1 => Self::BadArgument,
            -2 => Self::Lost,
            _ => Self::Internal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_outcomes_go_both_ways() {
        for outcome in [Outcome::Recorded, Outcome::Off, Outcome::BadArgument, Outcome::Lost, Outcome::Internal] {
            assert_eq!(Outcome::from_code(outcome.code()), outcome);
        }
        assert_eq!(Outcome::from_code(-77), Outcome::Internal);
    }
}
