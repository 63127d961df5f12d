//! Flags of `ttmon run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use ttmon_buffer_history::{Checks, Limit, Size};

use super::values::{self, Parsed};

const SIZE: Parsed<Size> = Parsed(values::limit);
const LIMIT: Parsed<Limit> = Parsed(values::limit);

#[derive(Debug, Default, Args)]
pub(crate) struct RunArgs {
    /// Write a report to FILE at the end, as JSON; the file appears only when it is complete.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write every allocation and free to FILE, for pytorch.org/memory_viz; to FILE.json as a Chrome trace, for ui.perfetto.dev.
    #[arg(long, value_name = "FILE")]
    pub(crate) snapshot: Option<PathBuf>,
    /// At the end, print only failures.
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Record which operation allocated each buffer, from the native call stack (costs about 5 us per allocation).
    #[arg(long)]
    pub(crate) ops: bool,
    /// Record the Python line that allocated each buffer [default; TTMON_STACKS=0 turns it off].
    #[arg(long, overrides_with = "no_stacks")]
    pub(crate) stacks: bool,
    /// Do not record Python lines.
    #[arg(long)]
    pub(crate) no_stacks: bool,
    /// Fail if more than BYTES (default 0) were never freed; buffers of the program cache do not count.
    #[arg(long, value_name = "BYTES", num_args = 0..=1, require_equals = true, default_missing_value = "0", value_parser = SIZE)]
    pub(crate) fail_on_leak: Option<Size>,
    /// Fail if live memory at the end is more than BYTES (default 0) larger than at the program's last ttmon.mark().
    #[arg(long, value_name = "BYTES", num_args = 0..=1, require_equals = true, default_missing_value = "0", value_parser = SIZE)]
    pub(crate) fail_on_growth: Option<Size>,
    /// Fail if the allocated DRAM of a chip was ever above a size (10G) or a percentage of its capacity (90%).
    #[arg(long, value_name = "SIZE|PCT", value_parser = LIMIT)]
    pub(crate) max_dram: Option<Limit>,
    /// Like --max-dram, for L1.
    #[arg(long, value_name = "SIZE|PCT", value_parser = LIMIT)]
    pub(crate) max_l1: Option<Limit>,
    /// Fail if the largest free block of a DRAM bank was below SIZE at a refusal, mark, phase end or peak.
    #[arg(long, value_name = "SIZE", value_parser = SIZE)]
    pub(crate) min_largest_free: Option<Size>,
    /// Let the checks above pass if they cannot be evaluated because nothing was tracked or some memory is unknown.
    #[arg(long)]
    pub(crate) allow_untracked: bool,
    /// The command, with its arguments.
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

impl RunArgs {
    /// Whether to record Python lines. `None` leaves the decision to the environment.
    pub(crate) fn stacks(&self) -> Option<bool> {
        (self.stacks || self.no_stacks).then_some(self.stacks)
    }

    pub(crate) fn checks(&self) -> Checks {
        Checks {
            leak: self.fail_on_leak.map(|size| size.0),
            growth: self.fail_on_growth.map(|size| size.0),
            max_dram: self.max_dram,
            max_l1: self.max_l1,
            min_largest_free: self.min_largest_free.map(|size| size.0),
            allow_untracked: self.allow_untracked,
        }
    }
}
