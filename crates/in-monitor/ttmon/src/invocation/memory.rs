//! Interprets `ttmon mem`.

use std::path::PathBuf;
use std::time::Duration;

use ttmon_model::groups::GroupBy;
use ttmon_model::order::BufferOrder;

use super::{OutputFormat, REFRESH_DEFAULT, refuse};
use crate::cli::{GlobalArgs, MemArgs};
use crate::failure::Failure;

pub(crate) struct MemoryRequest {
    pub(crate) pid: Option<u32>,
    /// Interval of repeated output; `None` prints once.
    pub(crate) watch: Option<Duration>,
    pub(crate) output: MemoryOutput,
}

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

#[derive(Clone, Copy)]
pub(crate) struct BufferListing {
    pub(crate) order: BufferOrder,
    pub(crate) most: Option<usize>,
}

#[derive(Clone, Copy)]
pub(crate) struct Grouping {
    pub(crate) by: GroupBy,
    /// Seconds: buffers younger than this are counted as new.
    pub(crate) since: Option<f64>,
    pub(crate) most: Option<usize>,
}

pub(crate) fn memory(common: &GlobalArgs, args: &MemArgs) -> Result<MemoryRequest, Failure> {
    check(common, args)?;
    let watch = args.watch.then(|| args.refresh.unwrap_or(REFRESH_DEFAULT));
    let output = match (&args.csv, &args.diff, grouping(args)) {
        (Some(place), _, Some(grouping)) => MemoryOutput::GroupTable(place.clone(), grouping),
        (Some(directory), _, None) => MemoryOutput::Files(directory.clone()),
        (None, Some(file), _) => MemoryOutput::Diff(file.clone()),
        (None, None, groups) => MemoryOutput::Listing(listing(common, args, groups)),
    };
    Ok(MemoryRequest { pid: args.pid, watch, output })
}

fn grouping(args: &MemArgs) -> Option<Grouping> {
    Some(Grouping { by: args.by?, since: args.since, most: args.top })
}

fn listing(common: &GlobalArgs, args: &MemArgs, groups: Option<Grouping>) -> MemoryListing {
    let order = args.sort.unwrap_or_default();
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

fn check(common: &GlobalArgs, args: &MemArgs) -> Result<(), Failure> {
    let has_parts = args.buffers || args.banks || args.blocks;
    refuse(&[
        (args.refresh.is_some() && !args.watch, "-r is the refresh of -w, in milliseconds; give -w too (ttmon never resets a device)"),
        (
            args.csv.is_some() && (common.json || args.diff.is_some() || has_parts),
            "--csv writes files and prints nothing; ask for what is to be printed without it",
        ),
        (args.diff.is_some() && (args.banks || args.blocks), "--diff compares buffers; --banks and --blocks are for one listing"),
        (args.diff.is_some() && common.json, "--diff is for people; compare two --json --buffers with a JSON tool instead"),
        (args.diff.is_some() && args.top.is_some(), "--top shortens the list of --buffers; a comparison is printed whole"),
        (args.sort.is_some() && !args.buffers, "--sort orders the list of --buffers; give --buffers too"),
        (args.since.is_some() && args.by.is_none(), "--since counts new buffers of groups; give --by too"),
        (args.since.is_some_and(|seconds| !seconds.is_finite() || seconds < 0.0), "--since takes seconds, 0 or more"),
        (args.by.is_some() && args.diff.is_some(), "--by groups the live buffers; --diff has no groups"),
        (args.by.is_some() && args.csv.is_some() && args.watch, "--by with --csv writes one table; leave out -w"),
        (args.top.is_some() && !args.buffers && args.by.is_none(), "--top shortens the list of --buffers; give --buffers too"),
    ])
}
