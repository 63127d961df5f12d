//! `ttmon mem`: the memory of tracked processes.

mod growth;
mod reports;

use std::io::Write;
use std::time::Duration;

use ttmon_collect::ledgers::LedgerDetail;
use ttmon_collect::reads::Sampling;
use ttmon_collect::{LedgerScope, Root};
use ttmon_json::{Layout, MemoryJson, MemoryParts, SnapshotJson};
use ttmon_model::groups::{self, BufferGroup};
use ttmon_model::order::BufferOrder;
use ttmon_model::units::UnixTime;
use ttmon_model::{Kind, Missing, Snapshot};
use ttmon_print::Style;

use crate::diff;
use crate::earlier::EarlierListing;
use crate::failure::Failure;
use crate::invocation::{BufferListing, CliTarget, Context, Grouping, MemoryListing, MemoryOutput, MemoryRequest, OutputFormat};
use crate::open;
use crate::output;
use crate::server::{SampleRequest, Snapshots};
use crate::show::{self, VERSION};
use crate::terminal::Terminal;
use crate::watch::{self, Screen};

use growth::Growths;

pub(crate) fn run(context: &Context, request: &MemoryRequest) -> Result<(), Failure> {
    let mut source = MemorySource::new(context, request);
    let listing = match &request.output {
        MemoryOutput::Files(directory) => {
            return match request.watch {
                Some(interval) => reports::follow(directory, interval, request.pid, || source.next()),
                None => reports::write(&source.next()?, directory),
            };
        }
        MemoryOutput::Diff(path) => {
            let earlier = diff::read(path)?;
            return source.print(true, |source, terminal, out| {
                let snapshot = source.next()?;
                render_changes(context, &snapshot, &earlier, request.pid, terminal, out)
            });
        }
        MemoryOutput::GroupTable(place, grouping) => {
            let snapshot = source.next()?;
            let (groups, _) = grouped(&snapshot, *grouping, &growth::read(&mut source.snapshots, grouping.by)?);
            let mut text = Vec::new();
            ttmon_print::groups_csv(&snapshot, &groups, grouping.by, &style(&snapshot, context.terminal), &mut text)?;
            return reports::write_table(place, grouping.by, &text);
        }
        MemoryOutput::Listing(listing) => listing,
    };
    source.print(listing.format == OutputFormat::Text, |source, terminal, out| {
        let mut snapshot = source.next()?;
        let left_out = choose(&mut snapshot, listing.buffers);
        let growths = match listing.groups {
            Some(grouping) => growth::read(&mut source.snapshots, grouping.by)?,
            None => Growths::default(),
        };
        match listing.format {
            OutputFormat::Json => {
                let layout = if request.watch.is_some() { Layout::Line } else { Layout::Pretty };
                write_json(&snapshot, listing, (left_out, &growths), layout, out)
            }
            OutputFormat::Text => render(&snapshot, listing, (left_out, &growths), &style(&snapshot, terminal), out),
        }
    })
}

struct MemorySource<'a> {
    context: &'a Context,
    request: &'a MemoryRequest,
    snapshots: Snapshots<'a>,
}

impl<'a> MemorySource<'a> {
    fn new(context: &'a Context, request: &'a MemoryRequest) -> Self {
        let sampling = if request.watch.is_some() { Sampling::Repeated } else { Sampling::Once };
        let scope = request.pid.map_or(LedgerScope::Everybody, LedgerScope::Process);
        let sample = SampleRequest { sampling, processes: true, detail: detail(&request.output), scope, path: path(request) };
        let snapshots = match (request.watch, &request.output) {
            (None, _) => Snapshots::new(context, sample),
            (Some(_), MemoryOutput::Files(_)) => Snapshots::read_here(context, sample),
            (Some(interval), _) => Snapshots::repeated(context, sample, interval),
        };
        Self { context, request, snapshots }
    }

    /// Takes a snapshot of the selected devices and process.
    fn next(&mut self) -> Result<Snapshot, Failure> {
        let mut snapshot = self.snapshots.whole()?;
        let is_watched = self.request.watch.is_some();
        let Some(pid) = self.request.pid else {
            snapshot = open::choose(&self.context.selection, snapshot)?;
            let is_empty = snapshot.devices.is_empty() && snapshot.processes.is_empty();
            return if is_empty { Err(nothing_found(&snapshot)) } else { Ok(snapshot) };
        };
        keep_process(&mut snapshot, pid);
        let is_known = snapshot.processes.iter().any(|process| process.source().is_ok());
        // With -w, a running process may start to track its memory later.
        let may_begin = is_watched && !snapshot.processes.is_empty();
        if !is_known && !may_begin {
            return Err(no_memory_of(&snapshot, pid, self.snapshots.has_process(pid)));
        }
        snapshot = open::choose(&self.context.selection, snapshot)?;
        if snapshot.processes.is_empty() && !is_watched { Err(elsewhere(&snapshot, pid)) } else { Ok(snapshot) }
    }

    /// Prints once or repeatedly. On a terminal, repeated output is drawn in place.
    fn print(
        &mut self,
        is_for_screens: bool,
        mut frame: impl FnMut(&mut Self, Terminal, &mut dyn Write) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let terminal = self.context.terminal;
        let Some(interval) = self.request.watch else {
            return output::stream(|out| frame(self, terminal, out));
        };
        if !(is_for_screens && terminal.is_terminal) {
            return watch::again(interval, || output::stream(|out| frame(self, terminal, out)));
        }
        self.snapshots.open()?;
        Screen::enter()?.watch(interval, || {
            let terminal = terminal.measured();
            let mut text = Vec::new();
            frame(self, terminal, &mut text)?;
            Ok((text, terminal))
        })
    }
}

fn detail(output: &MemoryOutput) -> LedgerDetail {
    match output {
        MemoryOutput::Files(_) => LedgerDetail::Blocks,
        MemoryOutput::Diff(_) | MemoryOutput::GroupTable(..) => LedgerDetail::Buffers,
        MemoryOutput::Listing(listing) if listing.banks || listing.blocks => LedgerDetail::Blocks,
        MemoryOutput::Listing(listing) => match (listing.groups, listing.buffers) {
            (None, Some(BufferListing { order, most: Some(most) })) => LedgerDetail::First(order, most),
            (None, None) => LedgerDetail::Totals,
            _ => LedgerDetail::Buffers,
        },
    }
}

/// Returns the path of the request to a service. Tables of blocks are computed from banks.
fn path(request: &MemoryRequest) -> String {
    let (has_buffers, has_banks, has_blocks) = match &request.output {
        MemoryOutput::Files(_) => (false, true, true),
        MemoryOutput::Diff(_) | MemoryOutput::GroupTable(..) => (true, false, false),
        MemoryOutput::Listing(listing) => {
            (listing.buffers.is_some() || listing.groups.is_some(), listing.banks || listing.blocks, listing.blocks)
        }
    };
    let parts = [
        request.pid.map(|pid| format!("pid={pid}")),
        has_buffers.then(|| "buffers=true".to_owned()),
        has_banks.then(|| "banks=true".to_owned()),
        has_blocks.then(|| "blocks=true".to_owned()),
    ];
    format!("/api/v1/memory?{}", parts.into_iter().flatten().collect::<Vec<_>>().join("&"))
}

/// Explains why there is nothing to show: no tracked process exists, or this user may not read it.
pub(crate) fn nothing_found(snapshot: &Snapshot) -> Failure {
    let why = match snapshot.denied_processes {
        0 => "start programs with `ttmon run -- CMD`, or try --sim t3k".to_owned(),
        1 => "1 process may not be read by this user (no_permission): try as root".to_owned(),
        denied => format!("{denied} processes may not be read by this user (no_permission): try as root"),
    };
    Failure::no_device(format!("no device and no tracked process found; {why}"))
}

pub(crate) fn no_memory_of(snapshot: &Snapshot, pid: u32, is_alive: bool) -> Failure {
    let process = snapshot.processes.iter().find(|process| process.key.pid == pid);
    let reason = process.map(|process| process.total(Kind::Dram).err().unwrap_or(Missing::NotTracked));
    match reason {
        None if !is_alive => Failure::no_device(format!("no process {pid}; ttmon mem lists those with device memory")),
        Some(Missing::NoPermission) => denied(pid),
        None if snapshot.denied_processes > 0 => denied(pid),
        None => Failure::new(format!("process {pid} holds no device and has reported no memory; ttmon mem lists those that do")),
        Some(reason) => Failure::new(format!(
            "process {pid} holds a device and does not report its memory ({reason}); start it with `ttmon run -- CMD`"
        )),
    }
}

/// Explains that a process has memory, but not on the selected devices.
fn elsewhere(snapshot: &Snapshot, pid: u32) -> Failure {
    let devices = ttmon_print::ranges(snapshot.devices.iter().map(|device| device.id));
    Failure::new(format!("process {pid} has no memory on device {devices}; ttmon mem --pid {pid} shows where it has some"))
}

fn denied(pid: u32) -> Failure {
    Failure::new(format!("process {pid} may not be read by this user (no_permission); try as its owner or as root"))
}

fn keep_process(snapshot: &mut Snapshot, pid: u32) {
    snapshot.processes.retain(|process| process.key.pid == pid);
    snapshot.allocators.retain(|allocator| allocator.process.pid == pid);
    snapshot.buffers.retain(|buffer| buffer.process().pid == pid);
}

/// Sorts and shortens the list of buffers. Returns how many are left out.
fn choose(snapshot: &mut Snapshot, listing: Option<BufferListing>) -> usize {
    let read = snapshot.allocators.iter().map(|allocator| allocator.buffers_left_out).sum::<u64>();
    let BufferListing { order, most } = listing.unwrap_or(BufferListing { order: BufferOrder::Size, most: None });
    let left_out = order.keep_first(&mut snapshot.buffers, most.unwrap_or(usize::MAX));
    left_out + usize::try_from(read).unwrap_or(usize::MAX)
}

/// Returns the groups, and how many `--top` leaves out.
fn grouped(snapshot: &Snapshot, grouping: Grouping, growths: &Growths) -> (Vec<BufferGroup>, usize) {
    let nanoseconds = |age: Duration| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
    let age = |seconds| Duration::try_from_secs_f64(seconds).map_or(u64::MAX, nanoseconds);
    let since = grouping.since.map(|seconds| UnixTime(snapshot.time.0.saturating_sub(age(seconds))));
    let mut groups = groups::groups(snapshot.buffers.iter().map(|buffer| &buffer.buffer), grouping.by, since);
    growths.add_to(&mut groups, snapshot);
    let most = grouping.most.unwrap_or(usize::MAX);
    let left_out = groups.len().saturating_sub(most);
    groups.truncate(most);
    (groups, left_out)
}

fn write_json(
    snapshot: &Snapshot,
    listing: &MemoryListing,
    (left_out, growths): (usize, &Growths),
    layout: Layout,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let MemoryListing { banks, blocks, .. } = *listing;
    let groups = listing.groups.map(|grouping| grouped(snapshot, grouping, growths));
    let groups = groups.as_ref().map(|(groups, left_out)| (groups.as_slice(), *left_out));
    let parts = MemoryParts { buffers: listing.buffers.is_some(), buffers_left_out: left_out, banks, blocks, groups };
    Ok(ttmon_json::write(&MemoryJson { snapshot: SnapshotJson { snapshot, version: VERSION }, parts }, layout, out)?)
}

fn render(
    snapshot: &Snapshot,
    listing: &MemoryListing,
    (left_out, growths): (usize, &Growths),
    style: &Style<'_>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let MemoryListing { banks, blocks, all, .. } = *listing;
    if banks {
        ttmon_print::banks(snapshot, style, out)?;
    }
    if blocks {
        ttmon_print::blocks(snapshot, style, out)?;
    }
    if listing.buffers.is_some() {
        ttmon_print::buffers(snapshot, snapshot.buffers.iter(), left_out, style, out)?;
    }
    if let Some(grouping) = listing.groups {
        let (groups, left_out) = grouped(snapshot, grouping, growths);
        ttmon_print::groups(snapshot, &groups, (grouping.by, grouping.since), left_out, style, out)?;
        if growths.is_unknown {
            writeln!(out, "growth is not known: events since the mark were overwritten")?;
        }
    }
    if !banks && !blocks && listing.buffers.is_none() && listing.groups.is_none() {
        ttmon_print::memory(snapshot, all, style, out)?;
    }
    Ok(ttmon_print::memory_end(snapshot, style, out)?)
}

fn render_changes(
    context: &Context,
    snapshot: &Snapshot,
    listing: &EarlierListing,
    only: Option<u32>,
    terminal: Terminal,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    diff::check_host(listing, snapshot)?;
    let is_meant = |device: u32| snapshot.devices.iter().any(|kept| kept.id.0 == device);
    let earlier = listing
        .buffers
        .iter()
        .flatten()
        .filter(|earlier| only.is_none_or(|pid| earlier.pid == pid))
        .filter(|earlier| context.selection.is_empty() || earlier.devices.iter().any(|device| is_meant(*device)));
    let is_there = |pid: u32| matches!(context.target, CliTarget::Real) && Root::real().proc.join(pid.to_string()).exists();
    let changes = diff::compare(listing, earlier, snapshot, is_there);
    let style = style(snapshot, terminal);
    ttmon_print::changes(snapshot, &changes, &style, out)?;
    Ok(ttmon_print::memory_end(snapshot, &style, out)?)
}

fn style(snapshot: &Snapshot, terminal: Terminal) -> Style<'static> {
    show::style(terminal, snapshot.time, true)
}
