//! `ttmon dmon` and `ttmon pmon`: print lines repeatedly, for a pipe or a slow terminal.

use std::io::{self, Write};

use ttmon_collect::reads::Sampling;
use ttmon_model::Snapshot;
use ttmon_print::{DeviceColumns, Style};

use crate::failure::Failure;
use crate::invocation::{Context, LinesRequest};
use crate::output::Output;
use crate::server::{SampleRequest, Snapshots};
use crate::show;
use crate::watch;

/// Lines after which the header is printed again.
const HEADER_LINES: usize = 40;

pub(crate) fn devices(context: &Context, request: &LinesRequest, columns: &DeviceColumns) -> Result<(), Failure> {
    let print = |snapshot: &Snapshot, header: bool, style: &Style<'_>, out: &mut dyn Write| {
        columns.print(snapshot, request.stamp, header, style, out)
    };
    lines(context, request, columns.needs_processes(), print)
}

pub(crate) fn processes(context: &Context, request: &LinesRequest) -> Result<(), Failure> {
    let print = |snapshot: &Snapshot, header: bool, style: &Style<'_>, out: &mut dyn Write| {
        ttmon_print::process_lines(snapshot, request.stamp, header, style, out)
    };
    lines(context, request, true, print)
}

fn lines(
    context: &Context,
    request: &LinesRequest,
    processes: bool,
    print: impl Fn(&Snapshot, bool, &Style<'_>, &mut dyn Write) -> io::Result<usize>,
) -> Result<(), Failure> {
    let mut snapshots = Snapshots::repeated(context, SampleRequest::snapshot(Sampling::Repeated, processes), request.interval);
    let mut left = request.count.unwrap_or(u64::MAX);
    let mut lines = HEADER_LINES;
    watch::again_while(request.interval, || {
        if left == 0 {
            return Ok(false);
        }
        let snapshot = snapshots.next()?;
        let mut text = Vec::new();
        let header = lines >= HEADER_LINES;
        let printed = print(&snapshot, header, &show::style(context.terminal, snapshot.time, processes), &mut text)?;
        lines = if header { printed } else { lines + printed };
        left -= 1;
        Output::Stdout.write(&text)?;
        Ok(left > 0)
    })
}
