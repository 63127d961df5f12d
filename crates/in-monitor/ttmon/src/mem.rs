//! `ttmon mem`: the memory of tracked processes.

mod growth;
mod reports;

use std::io::Write;
use std::time::Duration;

use ttmon_collect::Root;
use ttmon_collect::ledgers::LedgerDetail;
use ttmon_collect::reads::Sampling;
use ttmon_json::{Layout, MemoryJson, MemoryParts, SnapshotJson};
use ttmon_model::groups::{self, BufferGroup, GroupBy};
use ttmon_model::units::UnixTime;
use ttmon_model::{Kind, Missing, Snapshot};
use ttmon_print::Style;

use crate::cli::MemArgs;
use crate::diff;
use crate::earlier::EarlierListing;
use crate::failure::Failure;
use crate::invocation::{CliTarget, Context, OutputFormat, REFRESH_DEFAULT, refuse};
use crate::open::{self, MachineRequest, OpenMachine};
use crate::output;
use crate::server::Snapshots;
use crate::show::{self, VERSION};
use crate::terminal::Terminal;
use crate::watch::{self, Screen};

pub(crate) fn run(context: &Context, args: &MemArgs) -> Result<(), Failure> {
    check(context, args)?;
    let mut source = MemorySource::new(context, args);
    match (&args.csv, args.by, &args.diff) {
        (Some(directory), None, _) => match source.interval {
            Some(interval) => reports::follow(directory, interval, args.pid, || source.next()),
            None => reports::write(&source.next()?, directory),
        },
        (Some(directory), Some(by), _) => {
            let snapshot = source.next()?;
            let groups = Groups::read(&snapshot, by, args, &mut source.snapshots)?;
            let mut text = Vec::new();
            ttmon_print::groups_csv(&snapshot, &groups.list, by, &style(&snapshot, context.terminal), &mut text)?;
            reports::write_table(directory, by, &text)
        }
        (None, _, Some(path)) => {
            let earlier = diff::read(path)?;
            source.print(true, |source, terminal, out| {
                let snapshot = source.next()?;
                render_changes(context, &snapshot, &earlier, args.pid, terminal, out)
            })
        }
        (None, ..) => source.print(context.format == OutputFormat::Text, |source, terminal, out| {
            let mut snapshot = source.next()?;
            let left_out = choose(&mut snapshot, args);
            let groups = args.by.map(|by| Groups::read(&snapshot, by, args, &mut source.snapshots)).transpose()?;
            match context.format {
                OutputFormat::Json => {
                    let layout = if args.watch { Layout::Line } else { Layout::Pretty };
                    write_json(&snapshot, args, left_out, groups.as_ref(), layout, out)
                }
                OutputFormat::Text => render(&snapshot, args, left_out, groups.as_ref(), &style(&snapshot, terminal), out),
            }
        }),
    }
}

fn check(context: &Context, args: &MemArgs) -> Result<(), Failure> {
    let is_json = context.format == OutputFormat::Json;
    let has_parts = args.buffers || args.banks || args.blocks;
    refuse(&[
        (args.refresh.is_some() && !args.watch, "-r is the refresh of -w, in milliseconds; give -w too (ttmon never resets a device)"),
        (
            args.csv.is_some() && (is_json || args.diff.is_some() || has_parts),
            "--csv writes files and prints nothing; ask for what is to be printed without it",
        ),
        (args.diff.is_some() && (args.banks || args.blocks), "--diff compares buffers; --banks and --blocks are for one listing"),
        (args.diff.is_some() && is_json, "--diff is for people; compare two --json --buffers with a JSON tool instead"),
        (args.diff.is_some() && args.top.is_some(), "--top shortens the list of --buffers; a comparison is printed whole"),
        (args.sort.is_some() && !args.buffers, "--sort orders the list of --buffers; give --buffers too"),
        (args.since.is_some() && args.by.is_none(), "--since counts new buffers of groups; give --by too"),
        (args.since.is_some_and(|seconds| !seconds.is_finite() || seconds < 0.0), "--since takes seconds, 0 or more"),
        (args.by.is_some() && args.diff.is_some(), "--by groups the live buffers; --diff has no groups"),
        (args.by.is_some() && args.csv.is_some() && args.watch, "--by with --csv writes one table; leave out -w"),
        (args.top.is_some() && !args.buffers && args.by.is_none(), "--top shortens the list of --buffers; give --buffers too"),
    ])
}

/// Whether MemoryReporter's files are written. They have all banks and blocks.
fn writes_reports(args: &MemArgs) -> bool {
    args.csv.is_some() && args.by.is_none()
}

struct MemorySource<'a> {
    context: &'a Context,
    args: &'a MemArgs,
    /// Interval of repeated output; `None` prints once.
    interval: Option<Duration>,
    snapshots: Snapshots<'a>,
}

impl<'a> MemorySource<'a> {
    fn new(context: &'a Context, args: &'a MemArgs) -> Self {
        let interval = args.watch.then(|| args.refresh.unwrap_or(REFRESH_DEFAULT));
        let sampling = if args.watch { Sampling::Repeated } else { Sampling::Once };
        let request = MachineRequest { detail: detail(args), ..MachineRequest::with_ledgers_of(sampling, args.pid) };
        let snapshots = Snapshots::new(context, request).with_path(path(args));
        let snapshots = match interval {
            None => snapshots,
            Some(_) if writes_reports(args) => snapshots.without_services(),
            Some(interval) => snapshots.repeated(interval),
        };
        Self { context, args, interval, snapshots }
    }

    /// Takes a snapshot of the selected devices and process.
    fn next(&mut self) -> Result<Snapshot, Failure> {
        let mut snapshot = self.snapshots.whole()?;
        let Some(pid) = self.args.pid else {
            snapshot = open::choose(&self.context.selection, snapshot)?;
            let is_empty = snapshot.devices.is_empty() && snapshot.processes.is_empty();
            return if is_empty { Err(nothing_found(&snapshot)) } else { Ok(snapshot) };
        };
        keep_process(&mut snapshot, pid);
        let is_known = snapshot.processes.iter().any(|process| process.source().is_ok());
        // With -w, a running process may start to track its memory later.
        let may_begin = self.args.watch && !snapshot.processes.is_empty();
        if !is_known && !may_begin {
            return Err(no_memory_of(&snapshot, pid, self.snapshots.has_process(pid)));
        }
        snapshot = open::choose(&self.context.selection, snapshot)?;
        if snapshot.processes.is_empty() && !self.args.watch { Err(elsewhere(&snapshot, pid)) } else { Ok(snapshot) }
    }

    /// Prints once or repeatedly. On a terminal, repeated output is drawn in place.
    fn print(
        &mut self,
        is_for_screens: bool,
        mut frame: impl FnMut(&mut Self, Terminal, &mut dyn Write) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let terminal = self.context.terminal;
        let Some(interval) = self.interval else {
            return output::stream(|out| frame(self, terminal, out));
        };
        if !(is_for_screens && terminal.is_terminal) {
            return watch::repeat(interval, || output::stream(|out| frame(self, terminal, out)));
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

fn detail(args: &MemArgs) -> LedgerDetail {
    match *args {
        _ if args.banks || args.blocks || writes_reports(args) => LedgerDetail::Blocks,
        _ if args.by.is_some() || args.diff.is_some() => LedgerDetail::Buffers,
        MemArgs { buffers: true, top: Some(most), sort, .. } => LedgerDetail::First(sort.unwrap_or_default(), most),
        MemArgs { buffers: true, .. } => LedgerDetail::Buffers,
        _ => LedgerDetail::Totals,
    }
}

/// Returns the path of the request to a service. Tables of blocks are computed from banks.
fn path(args: &MemArgs) -> String {
    let has_blocks = args.blocks || writes_reports(args);
    let parts = [
        args.pid.map(|pid| format!("pid={pid}")),
        (args.buffers || args.by.is_some() || args.diff.is_some()).then(|| "buffers=true".to_owned()),
        (args.banks || has_blocks).then(|| "banks=true".to_owned()),
        has_blocks.then(|| "blocks=true".to_owned()),
    ];
    format!("/api/v1/memory?{}", parts.into_iter().flatten().collect::<Vec<_>>().join("&"))
}

/// Explains why there is nothing to show: no tracked process exists, or this user may not read it.
fn nothing_found(snapshot: &Snapshot) -> Failure {
    let why = match snapshot.denied_processes {
        0 => "start programs with `ttmon run -- CMD`, or try --sim t3k".to_owned(),
        1 => "1 process may not be read by this user (no_permission): try as root".to_owned(),
        denied => format!("{denied} processes may not be read by this user (no_permission): try as root"),
    };
    Failure::no_device(format!("no device and no tracked process found; {why}"))
}

/// Explains why there is nothing to show of this process, or of any.
pub(crate) fn nothing_of(pid: Option<u32>, snapshot: &Snapshot, opened: &OpenMachine) -> Failure {
    pid.map_or_else(|| nothing_found(snapshot), |pid| no_memory_of(snapshot, pid, opened.has_process(pid)))
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

/// Sorts and shortens the list of buffers. Returns how many are left out. With groups, `--top` limits only the list of groups.
fn choose(snapshot: &mut Snapshot, args: &MemArgs) -> usize {
    let read = snapshot.allocators.iter().map(|allocator| allocator.buffers_left_out).sum::<u64>();
    let most = args.top.filter(|_| args.by.is_none()).unwrap_or(usize::MAX);
    let left_out = args.sort.unwrap_or_default().keep_first(&mut snapshot.buffers, most);
    left_out + usize::try_from(read).unwrap_or(usize::MAX)
}

/// The groups of `--by`.
struct Groups {
    by: GroupBy,
    list: Vec<BufferGroup>,
    /// Number of groups that `--top` leaves out.
    left_out: usize,
    is_growth_unknown: bool,
}

impl Groups {
    fn read(snapshot: &Snapshot, by: GroupBy, args: &MemArgs, snapshots: &mut Snapshots<'_>) -> Result<Self, Failure> {
        let growths = growth::read(snapshots, by)?;
        let nanoseconds = |age: Duration| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        let age = |seconds| Duration::try_from_secs_f64(seconds).map_or(u64::MAX, nanoseconds);
        let since = args.since.map(|seconds| UnixTime(snapshot.time.0.saturating_sub(age(seconds))));
        let mut list = groups::groups(snapshot.buffers.iter().map(|buffer| &buffer.buffer), by, since);
        growths.add_to(&mut list, snapshot);
        let most = args.top.unwrap_or(usize::MAX);
        let left_out = list.len().saturating_sub(most);
        list.truncate(most);
        Ok(Self { by, list, left_out, is_growth_unknown: growths.is_unknown })
    }
}

fn write_json(
    snapshot: &Snapshot,
    args: &MemArgs,
    left_out: usize,
    groups: Option<&Groups>,
    layout: Layout,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let MemArgs { buffers, banks, blocks, .. } = *args;
    let groups = groups.map(|groups| (groups.list.as_slice(), groups.left_out));
    let parts = MemoryParts { buffers, buffers_left_out: left_out, banks, blocks, groups };
    Ok(ttmon_json::write(&MemoryJson { snapshot: SnapshotJson { snapshot, version: VERSION }, parts }, layout, out)?)
}

fn render(
    snapshot: &Snapshot,
    args: &MemArgs,
    left_out: usize,
    groups: Option<&Groups>,
    style: &Style<'_>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if args.banks {
        ttmon_print::banks(snapshot, style, out)?;
    }
    if args.blocks {
        ttmon_print::blocks(snapshot, style, out)?;
    }
    if args.buffers {
        ttmon_print::buffers(snapshot, snapshot.buffers.iter(), left_out, style, out)?;
    }
    if let Some(groups) = groups {
        ttmon_print::groups(snapshot, &groups.list, (groups.by, args.since), groups.left_out, style, out)?;
        if groups.is_growth_unknown {
            writeln!(out, "growth is not known: events since the mark were overwritten")?;
        }
    }
    if !args.banks && !args.blocks && !args.buffers && groups.is_none() {
        ttmon_print::memory(snapshot, args.all, style, out)?;
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
    let is_selected = |device: u32| snapshot.devices.iter().any(|kept| kept.id.0 == device);
    let earlier = listing
        .buffers
        .iter()
        .flatten()
        .filter(|earlier| only.is_none_or(|pid| earlier.pid == pid))
        .filter(|earlier| context.selection.is_empty() || earlier.devices.iter().any(|device| is_selected(*device)));
    let is_there = |pid: u32| matches!(context.target, CliTarget::Real) && Root::real().proc.join(pid.to_string()).exists();
    let changes = diff::compare(listing, earlier, snapshot, is_there);
    let style = style(snapshot, terminal);
    ttmon_print::changes(snapshot, &changes, &style, out)?;
    Ok(ttmon_print::memory_end(snapshot, &style, out)?)
}

fn style(snapshot: &Snapshot, terminal: Terminal) -> Style<'static> {
    show::style(terminal, snapshot.time, true)
}
