//! TT-Metal's numbers of chips, where programs prove them.
//!
//! UMD numbers remote chips in the order in which it finds them, which nothing outside a program says. A ledger has both the number
//! and the unique id of each chip that its program opened, and the unique id belongs to one row.

use std::collections::{HashMap, HashSet};

use super::rows::{self, Ids, Row, holders};
use crate::cluster::Cluster;
use crate::ledger::VisibleDevices;
use crate::limits::PROVEN_MAX;
use crate::sample::{Proven, Sample, Users};

/// Sets the numbers of rows that have none: those that ledgers prove, then the last one by elimination.
pub(super) fn apply(rows: &mut [Row<'_>], sample: &Sample) {
    if sample.cluster.is_some() || rows.iter().all(|row| row.metal_id.is_ok()) {
        return;
    }
    let known: HashSet<u64> = rows.iter().filter_map(|row| row.metal_id.ok()).collect();
    for (number, row) in certain(rows, sample).into_iter().filter(|(number, _)| !known.contains(number)) {
        if rows[row].metal_id.is_err() {
            rows[row].metal_id = Ok(number);
        }
    }
    let all = rows.len() as u64;
    let free: Vec<u64> = (0..all).filter(|number| !rows.iter().any(|row| row.metal_id == Ok(*number))).collect();
    let mut without = rows.iter_mut().filter(|row| row.metal_id.is_err());
    // A local chip without a number is one of a mixed machine, of which UMD leaves some out.
    if let ([number], Some(last), None) = (free.as_slice(), without.next(), without.next())
        && last.via.is_ok()
    {
        last.metal_id = Ok(*number);
    }
}

/// Numbers and rows that programs prove. A number of two chips and a chip of two numbers prove nothing.
fn certain(rows: &[Row<'_>], sample: &Sample) -> Vec<(u64, usize)> {
    let ids = Ids::of(rows);
    let mut by_number: HashMap<u64, Option<usize>> = HashMap::new();
    for (number, _, row) in live(rows, &ids, sample) {
        let known = by_number.entry(number.into()).or_insert(Some(row));
        *known = known.filter(|known| *known == row);
    }
    // What was proved before counts where no program that runs says something else.
    for proven in &sample.proven {
        if let Some(row) = ids.row(proven.unique_id)
            && !by_number.values().any(|known| *known == Some(row))
        {
            by_number.entry(proven.number.into()).or_insert(Some(row));
        }
    }
    let found: Vec<(u64, usize)> = by_number.into_iter().filter_map(|(number, row)| Some((number, row?))).collect();
    let count = |row: usize| found.iter().filter(|(_, other)| *other == row).count();
    found.iter().copied().filter(|(_, row)| count(*row) == 1).collect()
}

/// Number, unique id and row of each chip of a program that sees all devices and holds this one.
fn live<'s>(rows: &'s [Row<'_>], ids: &'s Ids, sample: &'s Sample) -> impl Iterator<Item = (u32, u64, usize)> + use<'s> {
    let ledgers = sample.ledgers.iter().filter_map(|ledger| Some((ledger.owner.pid, ledger.content.as_ref().ok()?)));
    let whole = ledgers.filter(|(_, ledger)| !ledger.is_mock && ledger.visible_devices == VisibleDevices::All);
    whole.flat_map(move |(pid, ledger)| {
        ledger.allocators.iter().flat_map(|allocator| &allocator.chips).filter_map(move |chip| {
            let (number, unique_id) = (chip.metal_id?, chip.unique_id?);
            let row = ids.row(unique_id)?;
            // Anybody may write anything into a ledger of their own.
            let may_hold = |users: &Users| !users.is_complete || users.hidden > 0 || users.pids.contains(&pid);
            holders(rows, &rows[row]).map_or(true, may_hold).then_some((number, unique_id, row))
        })
    })
}

/// Returns what ledgers prove of TT-Metal's numbers, for the samples after this one.
pub fn proven(sample: &Sample) -> Vec<Proven> {
    if sample.ledgers.is_empty() || sample.cluster.is_some() {
        return sample.proven.clone();
    }
    let rows = rows::list(sample);
    let ids = Ids::of(&rows);
    let mut all: Vec<Proven> = Vec::new();
    let live = live(&rows, &ids, sample).map(|(number, unique_id, _)| Proven { number, unique_id });
    // An older one of the same number or chip is replaced.
    for one in live.chain(sample.proven.iter().copied()) {
        let is_known = |known: &Proven| known.number == one.number || known.unique_id == one.unique_id;
        if all.len() < PROVEN_MAX && !all.iter().any(is_known) {
            all.push(one);
        }
    }
    all
}

/// Whether a chip has no number that is certain.
pub fn lacks_numbers(sample: &Sample) -> bool {
    rows::list(sample).iter().any(|row| row.metal_id.is_err())
}

/// Whether a cluster descriptor is this machine's: it has each chip once, by its unique id, with the place on PCIe that it has here.
pub fn describes(cluster: &Cluster, sample: &Sample) -> bool {
    let rows = rows::list(sample);
    let ids = Ids::of(&rows);
    let mut seen = HashSet::new();
    cluster.chips.len() == rows.len()
        && cluster.chips.iter().all(|chip| {
            let Some(index) = chip.unique_id.and_then(|id| ids.row(id)) else { return false };
            let fits = match rows[index].local {
                Some(local) if chip.bdf.is_some() && local.bdf.is_ok() => chip.bdf == local.bdf.ok(),
                Some(local) => chip.device == Some(local.id.0),
                None => chip.device.is_none(),
            };
            fits && seen.insert(index)
        })
}
