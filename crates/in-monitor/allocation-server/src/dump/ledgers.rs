//! Reads the ledgers of all live processes for dumps.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::Arc;

use ttmon_collect::ledgers::OpenLedger;
use ttmon_ledger_reader::{LedgerDetail, Lines, Region};
use ttmon_model::ledger::{BufferKind, Ledger};
use ttmon_os::time::unix_nanos;

use super::{About, Dump, Viewer};
use crate::handed::{PostMortem, ledgers_of_programs};
use crate::limits::DUMP_ENTRIES_MAX;
use crate::peer;
use crate::work::Sources;

/// A ledger of a socket peer that is to be dumped.
pub(crate) struct ToDump {
    pub(crate) pid: u32,
    pub(crate) uid: u32,
    /// `None` if no descriptor was available.
    pub(crate) file: Option<File>,
}

pub(crate) struct DumpWork {
    pub(crate) about: About,
    pub(crate) viewers: Vec<Viewer>,
    pub(crate) reporting: Vec<ToDump>,
    /// The last sample of the other sources.
    pub(crate) sources: Option<Arc<Sources>>,
    pub(crate) machine: u64,
}

/// A ledger to be read for a dump. Without its region or figures it is reported as unreadable.
struct Readable {
    owner: (u32, u32),
    region: Option<Arc<Region>>,
    figures: Option<Ledger>,
    /// The process itself writes the ledger.
    is_own: bool,
}

/// Returns the texts of a dump. Small ledgers come first, so that a huge one does not use up the limit of listed entries.
pub(crate) fn dumps(work: &DumpWork, present: &[Arc<OpenLedger>], kept: &PostMortem) -> Vec<(Viewer, String)> {
    let mut ledgers = readable(work, present, kept);
    ledgers.sort_by_key(|ledger| ledger.figures.as_ref().map_or(0, Ledger::live_entries));
    let mut counted: BTreeSet<(u32, u32, BufferKind)> = BTreeSet::new();
    for ledger in ledgers.iter().filter(|ledger| ledger.is_own) {
        for allocator in ledger.figures.iter().flat_map(|figures| &figures.allocators) {
            let kinds = allocator.rows.iter().map(|row| row.kind);
            counted.extend(
                super::devices(allocator).into_iter().flat_map(|device| kinds.clone().map(move |kind| (ledger.owner.0, device, kind))),
            );
        }
    }
    let mut dumps: Vec<Dump> = work.viewers.iter().map(|viewer| Dump::new(*viewer)).collect();
    let mut entries_left = DUMP_ENTRIES_MAX;
    for ledger in ledgers {
        let (pid, uid) = ledger.owner;
        let Some(content) = content(&ledger, &mut entries_left) else {
            dumps.iter_mut().for_each(|dump| dump.add_unreadable(pid));
            continue;
        };
        let is_counted = |device, kind| !ledger.is_own && counted.contains(&(pid, device, kind));
        dumps.iter_mut().for_each(|dump| dump.add(pid, uid, &content, is_counted));
    }
    if let Some(sources) = &work.sources {
        dumps.iter_mut().for_each(|dump| dump.add_reported(&sources.sample));
    }
    let now = unix_nanos();
    work.viewers.iter().zip(dumps).map(|(viewer, dump)| (*viewer, dump.text(work.about, now))).collect()
}

/// All ledgers of live processes, each once.
fn readable(work: &DumpWork, present: &[Arc<OpenLedger>], kept: &PostMortem) -> Vec<Readable> {
    let with_figures = |owner, region: Option<Arc<Region>>, is_own| {
        let figures = region.as_ref().and_then(|region| region.figures().ok());
        Readable { owner, region, figures, is_own }
    };
    let of_file = |file: &Option<File>| Some(Arc::new(Region::open(file.as_ref()?.try_clone().ok()?).ok()?));
    let mut ledgers: Vec<Readable> =
        work.reporting.iter().map(|reporting| with_figures((reporting.pid, reporting.uid), of_file(&reporting.file), false)).collect();
    let sampled = work.sources.iter().flat_map(|sources| &sources.ledgers);
    let found = ledgers_of_programs(kept, present.iter().chain(sampled), work.machine);
    for (ledger, _) in found.into_iter().filter(|(_, has_ended)| !has_ended) {
        let pid = ledger.owner.pid;
        match peer::held(pid) {
            Ok(Some(held)) if held.key == ledger.owner => {
                ledgers.push(with_figures((pid, held.uid()), Some(Arc::clone(&ledger.region)), true));
            }
            // The process has ended.
            Ok(_) => {}
            Err(_) => ledgers.push(with_figures((pid, ledger.uid), None, true)),
        }
    }
    ledgers
}

/// Reads a ledger. If its list exceeds the limit, it has no buffers.
fn content(ledger: &Readable, entries_left: &mut u64) -> Option<Ledger> {
    let region = ledger.region.as_ref().filter(|_| ledger.figures.is_some())?;
    let choose = |figures: &Ledger| if figures.live_entries() > *entries_left { LedgerDetail::Totals } else { LedgerDetail::Buffers };
    let content = region.ledger(choose, Lines::default, &mut |_, _| true).ok()??;
    *entries_left = entries_left.saturating_sub(content.buffers.len() as u64);
    Some(content)
}
