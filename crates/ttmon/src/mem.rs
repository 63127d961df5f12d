//! `ttmon mem`: the memory of tracked processes.

mod by;
mod reports;

use std::io::Write;
use std::time::Duration;

use ttmon_model::groups::{self, BufferGroup};
use ttmon_model::order::BufferOrder;
use ttmon_model::units::UnixTime;
use ttmon_model::{Kind, Missing, Snapshot};
use ttmon_print::Style;
use ttmon_reads::Pace;
use ttmon_source::ledgers::Detail;
use ttmon_source::{Reach, Root};
use ttmon_wire::{GroupedMemoryJson, Layout, MemoryJson, MemoryParts, SnapshotJson};

use crate::cli::{MemArgs, Order};
use crate::diff;
use crate::earlier::EarlierListing;
use crate::failure::Failure;
use crate::invocation::{CliTarget, Context, REFRESH_DEFAULT, parse_refresh};
use crate::open;
use crate::output;
use crate::server::{SampleRequest, Snapshots};
use crate::show::{self, VERSION};
use crate::terminal::Terminal;
use crate::watch::{self, Screen};

pub(crate) use by::By;

/// Shows it once, or again and again.
pub(crate) fn run(context: &Context, args: &MemArgs) -> Result<(), Failure> {
    let refresh = args.refresh.as_deref().map(parse_refresh).transpose()?;
    check(context, args, refresh)?;
    let earlier = args.diff.as_deref().map(diff::read).transpose()?;
    let detail = match args.top {
        _ if args.banks || args.blocks || args.csv.is_some() => Detail::Blocks,
        Some(most) if args.buffers && args.by.is_none() => Detail::First(order(args), most),
        _ if args.buffers || args.by.is_some() || earlier.is_some() => Detail::Buffers,
        _ => Detail::Totals,
    };
    let pace = if args.watch { Pace::Repeated } else { Pace::Once };
    let reach = args.pid.map_or(Reach::Everybody, Reach::Process);
    let asked = SampleRequest { pace, processes: true, detail, reach, path: path(args) };
    let interval = refresh.unwrap_or(REFRESH_DEFAULT);
    let mut snapshots = if args.watch && (interval < show::SERVER_INTERVAL_MIN || args.csv.is_some()) {
        Snapshots::read_here(context, asked)
    } else {
        Snapshots::new(context, asked)
    };
    let is_screen = args.watch && context.terminal.is_terminal && !context.json && args.csv.is_none();
    if is_screen {
        snapshots.open()?;
    }
    let mut look = || -> Result<(Snapshot, usize), Failure> {
        let mut snapshot = snapshots.whole()?;
        if let Some(pid) = args.pid {
            keep_process(&mut snapshot, pid);
            let is_known = snapshot.processes.iter().any(|process| process.source().is_ok());
            // A process that is watched may begin to track.
            let may_begin = args.watch && !snapshot.processes.is_empty();
            if !is_known && !may_begin {
                return Err(no_memory_of(&snapshot, pid, snapshots.has_process(pid)));
            }
            snapshot = open::choose(&context.selection, snapshot)?;
            if snapshot.processes.is_empty() && !args.watch {
                return Err(elsewhere(&snapshot, pid));
            }
            let left_out = choose(&mut snapshot, args);
            return Ok((snapshot, left_out));
        }
        snapshot = open::choose(&context.selection, snapshot)?;
        if snapshot.devices.is_empty() && snapshot.processes.is_empty() {
            return Err(nothing_found(&snapshot));
        }
        let left_out = choose(&mut snapshot, args);
        Ok((snapshot, left_out))
    };
    if let Some(directory) = &args.csv {
        if args.watch {
            return reports::follow(directory, interval, args.pid, || Ok(look()?.0));
        }
        return reports::write(&look()?.0, directory);
    }
    let mut frame = |terminal: Terminal, out: &mut dyn Write| -> Result<(), Failure> {
        let (snapshot, left_out) = look()?;
        match &earlier {
            Some(earlier) => render_changes(context, &snapshot, earlier, args, terminal, out),
            None => render(&snapshot, args, left_out, context.json, terminal, out),
        }
    };
    if !args.watch {
        return output::stream(|out| frame(context.terminal, out));
    }
    if is_screen {
        return Screen::enter()?.watch(interval, || {
            let terminal = context.terminal.measured();
            let mut text = Vec::new();
            frame(terminal, &mut text)?;
            Ok((text, terminal))
        });
    }
    watch::again(interval, || output::stream(|out| frame(context.terminal, out)))
}

/// What a service is asked for. Tables of blocks are made of banks.
fn path(args: &MemArgs) -> String {
    let has_blocks = args.blocks || args.csv.is_some();
    let parts = [
        args.pid.map(|pid| format!("pid={pid}")),
        (args.buffers || args.by.is_some() || args.diff.is_some()).then(|| "buffers=true".to_owned()),
        (args.banks || has_blocks).then(|| "banks=true".to_owned()),
        has_blocks.then(|| "blocks=true".to_owned()),
    ];
    format!("/api/v1/memory?{}", parts.into_iter().flatten().collect::<Vec<_>>().join("&"))
}

fn check(context: &Context, args: &MemArgs, refresh: Option<Duration>) -> Result<(), Failure> {
    if refresh.is_some() && !args.watch {
        return Err(Failure::usage("-r is the refresh of -w, in milliseconds; give -w too (ttmon never resets a device)"));
    }
    let has_parts = args.buffers || args.banks || args.blocks;
    if args.csv.is_some() && (context.json || args.diff.is_some() || has_parts) {
        return Err(Failure::usage("--csv writes files and prints nothing; ask for what is to be printed without it"));
    }
    if args.diff.is_some() && (args.banks || args.blocks) {
        return Err(Failure::usage("--diff compares buffers; --banks and --blocks are for one moment"));
    }
    if args.diff.is_some() && context.json {
        return Err(Failure::usage("--diff is for people; compare two --json --buffers with a JSON tool instead"));
    }
    if args.diff.is_some() && args.top.is_some() {
        return Err(Failure::usage("--top shortens the list of --buffers; a comparison is told whole"));
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
    if args.by.is_some() && (args.diff.is_some() || args.csv.is_some()) {
        return Err(Failure::usage("--by groups what is live now; --diff and --csv have no groups"));
    }
    if args.top.is_some() && !args.buffers && args.by.is_none() {
        return Err(Failure::usage("--top shortens the list of --buffers; give --buffers too"));
    }
    Ok(())
}

/// Why there is nothing to show: nothing is there, or this user may not read it.
pub(crate) fn nothing_found(snapshot: &Snapshot) -> Failure {
    let why = match snapshot.denied_processes {
        0 => "start programs with `ttmon run -- CMD`, or try --sim t3k".to_owned(),
        1 => "1 process may not be read by this user (no_permission): try as root".to_owned(),
        denied => format!("{denied} processes may not be read by this user (no_permission): try as root"),
    };
    Failure::no_device(format!("no device and no tracked process found; {why}"))
}

/// Why nothing is known of the memory of a process.
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

/// Why nothing is shown of a process that has memory on other devices than the chosen ones.
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

/// Sorts and shortens the list of buffers as asked for. Returns how many buffers `--top` leaves out.
fn choose(snapshot: &mut Snapshot, args: &MemArgs) -> usize {
    let read = snapshot.allocators.iter().map(|allocator| allocator.buffers_left_out).sum::<u64>();
    // Of groups --top leaves groups out, and not buffers.
    let most = args.top.filter(|_| args.by.is_none()).unwrap_or(usize::MAX);
    let left_out = order(args).keep_first(&mut snapshot.buffers, most);
    left_out + usize::try_from(read).unwrap_or(usize::MAX)
}

/// The groups that are asked for, and how many `--top` leaves out.
fn grouped(snapshot: &Snapshot, by: By, args: &MemArgs) -> (Vec<BufferGroup>, usize) {
    let nanoseconds = |age: Duration| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
    let age = |seconds| Duration::try_from_secs_f64(seconds).map_or(u64::MAX, nanoseconds);
    let since = args.since.map(|seconds| UnixTime(snapshot.time.0.saturating_sub(age(seconds))));
    let mut groups = groups::groups(snapshot.buffers.iter().map(|buffer| &buffer.entry), by.meant(), since);
    let left_out = groups.len().saturating_sub(args.top.unwrap_or(usize::MAX));
    groups.truncate(args.top.unwrap_or(usize::MAX));
    (groups, left_out)
}

fn order(args: &MemArgs) -> BufferOrder {
    match args.sort.unwrap_or_default() {
        Order::Size => BufferOrder::Size,
        Order::Age => BufferOrder::Age,
        Order::Address => BufferOrder::Address,
        Order::Tag => BufferOrder::Tag,
    }
}

fn render(
    snapshot: &Snapshot,
    args: &MemArgs,
    left_out: usize,
    json: bool,
    terminal: Terminal,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let groups = args.by.map(|by| grouped(snapshot, by, args));
    if json {
        let layout = if args.watch { Layout::Line } else { Layout::Pretty };
        let parts = MemoryParts { buffers: args.buffers, buffers_left_out: left_out, banks: args.banks, blocks: args.blocks };
        let memory = MemoryJson { snapshot: SnapshotJson { snapshot, version: VERSION }, parts };
        match &groups {
            Some((groups, left_out)) => ttmon_wire::write(&GroupedMemoryJson { memory, groups, left_out: *left_out }, layout, out)?,
            None => ttmon_wire::write(&memory, layout, out)?,
        }
        return Ok(());
    }
    let style = style(snapshot, terminal);
    if args.banks {
        ttmon_print::banks(snapshot, &style, out)?;
    }
    if args.blocks {
        ttmon_print::blocks(snapshot, &style, out)?;
    }
    if args.buffers {
        ttmon_print::buffers(snapshot, snapshot.buffers.iter(), left_out, &style, out)?;
    }
    if let (Some(by), Some((groups, left_out))) = (args.by, &groups) {
        ttmon_print::groups(snapshot, groups, (by.meant(), args.since), *left_out, &style, out)?;
    }
    if !args.banks && !args.blocks && !args.buffers && args.by.is_none() {
        ttmon_print::memory(snapshot, args.all, &style, out)?;
    }
    Ok(ttmon_print::memory_end(snapshot, &style, out)?)
}

fn render_changes(
    context: &Context,
    snapshot: &Snapshot,
    look: &EarlierListing,
    args: &MemArgs,
    terminal: Terminal,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    diff::check_host(look, snapshot)?;
    let is_meant = |device: u32| snapshot.devices.iter().any(|kept| kept.id.0 == device);
    let earlier = look
        .buffers
        .iter()
        .flatten()
        .filter(|earlier| args.pid.is_none_or(|pid| earlier.pid == pid))
        .filter(|earlier| context.selection.is_empty() || earlier.devices.iter().any(|device| is_meant(*device)));
    let is_there = |pid: u32| matches!(context.place, CliTarget::Real) && Root::real().proc.join(pid.to_string()).exists();
    let changes = diff::compare(look, earlier, snapshot, is_there);
    let style = style(snapshot, terminal);
    ttmon_print::changes(snapshot, &changes, &style, out)?;
    Ok(ttmon_print::memory_end(snapshot, &style, out)?)
}

fn style(snapshot: &Snapshot, terminal: Terminal) -> Style<'static> {
    show::style(terminal, snapshot.time, true)
}
