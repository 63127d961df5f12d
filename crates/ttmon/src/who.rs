//! `ttmon who`: lists the processes that use each device.

use ttmon_reads::Pace;
use ttmon_wire::{Layout, SnapshotJson};

use crate::failure::Failure;
use crate::invocation::{Context, OutputFormat};
use crate::output::Output;
use crate::server::{SampleRequest, Snapshots};
use crate::show::{self, VERSION};

pub(crate) fn run(context: &Context, format: OutputFormat) -> Result<(), Failure> {
    let snapshot = Snapshots::new(context, SampleRequest::snapshot(Pace::Once, true)).next()?;
    let mut text = Vec::new();
    if format == OutputFormat::Json {
        ttmon_wire::write(&SnapshotJson { snapshot: &snapshot, version: VERSION }, Layout::Pretty, &mut text)?;
    } else {
        ttmon_print::who(&snapshot, &show::style(context.terminal, snapshot.time, true), &mut text)?;
    }
    Output::Stdout.write(&text)
}
