//! `ttmon topo`: how each pair of devices is connected.

use ttmon_reads::Pace;
use ttmon_wire::{Layout, SnapshotJson};

use crate::failure::Failure;
use crate::invocation::{Context, OutputFormat};
use crate::open;
use crate::output::Output;
use crate::server::{SampleRequest, Snapshots};
use crate::show::{self, VERSION};

/// Prints the matrix. Links between boards are known only from a cluster descriptor.
pub(crate) fn run(context: &Context, format: OutputFormat) -> Result<(), Failure> {
    let cluster = context.cluster.as_deref().map(open::cluster).transpose()?;
    let snapshot = Snapshots::new(context, SampleRequest::snapshot(Pace::Once, false)).next()?;
    let mut text = Vec::new();
    if format == OutputFormat::Json {
        ttmon_wire::write(&SnapshotJson { snapshot: &snapshot, version: VERSION }, Layout::Pretty, &mut text)?;
    } else {
        ttmon_print::topology(&snapshot, cluster.as_ref(), &show::style(context.terminal, snapshot.time, false), &mut text)?;
    }
    Output::Stdout.write(&text)
}
