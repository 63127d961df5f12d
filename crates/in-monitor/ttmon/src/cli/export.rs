//! Flags of `export`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The viewer.
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: ExportFormat,
    /// The process with this pid, a report of `ttmon run --report`, or a recording of `ttmon record`.
    #[arg(value_name = "PID|REPORT|RECORDING")]
    pub(crate) input: OsString,
    /// The file to write; it appears only when it is complete. Use - for standard output.
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// A pickle for PyTorch's memory_viz.
    MemoryViz,
    /// JSON for Perfetto and chrome://tracing.
    Chrome,
}
