//! Interprets `ttmon mem`.

use std::path::PathBuf;
use std::time::Duration;

use ttmon_model::groups::GroupBy;
use ttmon_model::order::BufferOrder;

use super::{OutputFormat, REFRESH_DEFAULT};
use crate::cli::{By, GlobalArgs, MemArgs, Order};
use crate::failure::Failure;

/// What `mem` reads and writes.
pub(crate) struct MemoryRequest {
    /// Only this process.
    pub(crate) pid: Option<u32>,
    /// Interval of repeated output; `None` prints once.
    pub(crate) watch: Option<Duration>,
    pub(crate) output: MemoryOutput,
}

/// The output of `mem`.
pub(crate) enum MemoryOutput {
    /// Writes the files of MemoryReporter into this folder.
    Files(PathBuf),
    /// Prints the differences to this earlier listing.
    Diff(PathBuf),
    /// Writes the groups as a table into this folder, or prints them.
    GroupTable(PathBuf, Grouping),
    Listing(MemoryListing),
}

/// The parts of a listing. Without any part, a summary is printed.
pub(crate) struct MemoryListing {
    pub(crate) format: OutputFormat,
    /// Whether the summary has idle devices.
    pub(crate) all: bool,
    pub(crate) banks: bool,
    pub(crate) blocks: bool,
    pub(crate) buffers: Option<BufferListing>,
    pub(crate) groups: Option<Grouping>,
}

/// A list of buffers.
#[derive(Clone, Copy)]
pub(crate) struct BufferListing {
    pub(crate) order: BufferOrder,
    pub(crate) most: Option<usize>,
}

/// How buffers are grouped.
#[derive(Clone, Copy)]
pub(crate) struct Grouping {
    pub(crate) by: GroupBy,
    /// Seconds: buffers younger than this are counted as new.
    pub(crate) since: Option<f64>,
    pub(crate) most: Option<usize>,
}

pub(super) fn memory(common: &GlobalArgs, args: &MemArgs) -> Result<MemoryRequest, Failure> {
    let refresh = args.refresh.as_deref().map(super::refresh).transpose()?;
    check(common, args, refresh)?;
    let watch = args.watch.then(|| refresh.unwrap_or(REFRESH_DEFAULT));
    let output = match (&args.csv, &args.diff, grouping(args)) {
        (Some(place), _, Some(grouping)) => MemoryOutput::GroupTable(place.clone(), grouping),
        (Some(directory), _, None) => MemoryOutput::Files(directory.clone()),
        (None, Some(file), _) => MemoryOutput::Diff(file.clone()),
        (None, None, groups) => MemoryOutput::Listing(listing(common, args, groups)),
    };
    Ok(MemoryRequest { pid: args.pid, watch, output })
}

fn grouping(args: &MemArgs) -> Option<Grouping> {
    let by = match args.by? {
        By::Line => GroupBy::Line,
        By::Tag => GroupBy::Tag,
        By::Op => GroupBy::Op,
    };
    Some(Grouping { by, since: args.since, most: args.top })
}

fn listing(common: &GlobalArgs, args: &MemArgs, groups: Option<Grouping>) -> MemoryListing {
    let order = match args.sort.unwrap_or_default() {
        Order::Size => BufferOrder::Size,
        Order::Age => BufferOrder::Age,
        Order::Address => BufferOrder::Address,
        Order::Tag => BufferOrder::Tag,
    };
    MemoryListing {
        format: OutputFormat::of(common),
        all: args.all,
        banks: args.banks,
        blocks: args.blocks,
        // With groups, --top limits only the list of groups.
        buffers: args.buffers.then(|| BufferListing { order, most: args.top.filter(|_| groups.is_none()) }),
        groups,
    }
}

fn check(common: &GlobalArgs, args: &MemArgs, refresh: Option<Duration>) -> Result<(), Failure> {
    if refresh.is_some() && !args.watch {
        return Err(Failure::usage("-r is the refresh of -w, in milliseconds; give -w too (ttmon never resets a device)"));
    }
    let has_parts = args.buffers || args.banks || args.blocks;
    if args.csv.is_some() && (common.json || args.diff.is_some() || has_parts) {
        return Err(Failure::usage("--csv writes files and prints nothing; ask for what is to be printed without it"));
    }
    if args.diff.is_some() && (args.banks || args.blocks) {
        return Err(Failure::usage("--diff compares buffers; --banks and --blocks are for one listing"));
    }
    if args.diff.is_some() && common.json {
        return Err(Failure::usage("--diff is for people; compare two --json --buffers with a JSON tool instead"));
    }
    if args.diff.is_some() && args.top.is_some() {
        return Err(Failure::usage("--top shortens the list of --buffers; a comparison is printed whole"));
    }
    if args.sort.is_some() && !args.buffers {
        return Err(Failure::usage("--sort orders the list of --buffers; give --buffers too"));
    }
    if args.since.is_some() && args.by.is_none() {
        return Err(Failure::usage("--since counts new buffers of groups; give --by too"));
    }
    if args.since.is_some_and(|seconds| !seconds.is_finite() || seconds < 0.0) {
        return Err(Failure::usage("--since takes seconds, 0 or more"));
    }
    if args.by.is_some() && args.diff.is_some() {
        return Err(Failure::usage("--by groups the live buffers; --diff has no groups"));
    }
    if args.by.is_some() && args.csv.is_some() && args.watch {
        return Err(Failure::usage("--by with --csv writes one table; leave out -w"));
    }
    if args.top.is_some() && !args.buffers && args.by.is_none() {
        return Err(Failure::usage("--top shortens the list of --buffers; give --buffers too"));
    }
    Ok(())
}
