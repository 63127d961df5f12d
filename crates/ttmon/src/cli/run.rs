//! Flags of `ttmon run`.
#![allow(rustdoc::broken_intra_doc_links, reason = "doc comments here are the help text, where brackets mean: optional")]

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// Flags of `run`.
#[derive(Debug, Default, Args)]
pub(crate) struct RunArgs {
    /// Write everything that is known at the end to FILE, as JSON, whole or not at all.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write every allocation and free to FILE, for pytorch.org/memory_viz; to FILE.json as a Chrome trace, for ui.perfetto.dev.
    #[arg(long, value_name = "FILE")]
    pub(crate) snapshot: Option<PathBuf>,
    /// Print nothing at the end but what failed.
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Name the operation behind each buffer by its native stack (about 5 us an allocation).
    #[arg(long)]
    pub(crate) ops: bool,
    /// Note the Python line behind each buffer [default; TTMON_STACKS=0 turns it off].
    #[arg(long, overrides_with = "no_stacks")]
    pub(crate) stacks: bool,
    /// Do not note Python lines.
    #[arg(long)]
    pub(crate) no_stacks: bool,
    /// Fail when more than BYTES (default 0) were never freed; the program cache's do not count.
    #[arg(long, value_name = "BYTES", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    pub(crate) fail_on_leak: Option<String>,
    /// Fail when more than BYTES (default 0) were live at the end beyond what was at the last ttmon.mark() of the program.
    #[arg(long, value_name = "BYTES", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    pub(crate) fail_on_growth: Option<String>,
    /// Fail when a chip's allocated DRAM ever was above a size (10G) or a share of what it has (90%).
    #[arg(long, value_name = "SIZE|PCT")]
    pub(crate) max_dram: Option<String>,
    /// The same for L1.
    #[arg(long, value_name = "SIZE|PCT")]
    pub(crate) max_l1: Option<String>,
    /// Fail when the largest free block of a DRAM bank ever was below SIZE at a refusal, mark, phase end or peak.
    #[arg(long, value_name = "SIZE")]
    pub(crate) min_largest_free: Option<String>,
    /// Let the checks above pass where nothing was tracked or some memory is unknown, so that they could not be judged.
    #[arg(long)]
    pub(crate) allow_untracked: bool,
    /// The command, with its arguments.
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}
