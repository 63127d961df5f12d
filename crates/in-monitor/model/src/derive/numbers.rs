//! TT-Metal's chip numbers, proven by programs.
//!
//! UMD numbers remote chips in the order in which it finds them. That order is known only inside a program. A ledger has both the number
//! and the unique id of each chip that its program opened, and the unique id belongs to one row.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::device_rows::{self, DeviceRow, Ids, holders};
use crate::cluster::Cluster;
use crate::identity::{DeviceId, ranges};
use crate::ledger::VisibleDevices;
use crate::limits::PROVEN_MAX;
use crate::missing::Missing;
use crate::sample::{Problem, Proven, Sample};

/// Sets the numbers of rows that have none: first the numbers that ledgers prove, then the last one by elimination. Contradicted claims
/// prove nothing.
pub(super) fn apply(rows: &mut [DeviceRow<'_>], sample: &Sample) {
    if sample.cluster.is_some() || rows.iter().all(|row| row.metal_id.is_ok()) {
        return;
    }
    let known: HashSet<u64> = rows.iter().filter_map(|row| row.metal_id.ok()).collect();
    let claims = Claims::of(rows, sample);
    for claim in claims.all.iter().filter(|claim| !claims.is_contradicted(claim) && !known.contains(&claim.number.into())) {
        if rows[claim.row].metal_id.is_err() {
            rows[claim.row].metal_id = Ok(claim.number.into());
        }
    }
    let all = rows.len() as u64;
    let free: Vec<u64> = (0..all).filter(|number| !rows.iter().any(|row| row.metal_id == Ok(*number))).collect();
    let mut without = rows.iter_mut().filter(|row| row.metal_id.is_err());
    // A local chip without a number means a mixed machine, on which UMD ignores some chips.
    if let ([number], Some(last), None) = (free.as_slice(), without.next(), without.next())
        && last.via.is_ok()
    {
        last.metal_id = Ok(*number);
    }
}

/// A program's claim about a chip: TT-Metal's number, the unique id, and the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Claim {
    row: usize,
    number: u32,
    unique_id: u64,
}

/// The claims of programs. Two chips with one number, or two numbers for one chip, are a contradiction.
#[derive(Default)]
struct Claims {
    all: BTreeSet<Claim>,
    /// The row of each number, or `None` if there are several.
    rows: HashMap<u32, Option<usize>>,
    /// The number of each row, or `None` if there are several.
    numbers: HashMap<usize, Option<u32>>,
}

impl Claims {
    fn add(&mut self, claim: Claim) {
        if self.all.insert(claim) {
            let row = self.rows.entry(claim.number).or_insert(Some(claim.row));
            *row = row.filter(|row| *row == claim.row);
            let number = self.numbers.entry(claim.row).or_insert(Some(claim.number));
            *number = number.filter(|number| *number == claim.number);
        }
    }

    fn is_contradicted(&self, claim: &Claim) -> bool {
        self.rows[&claim.number].is_none() || self.numbers[&claim.row].is_none()
    }

    /// Collects the claims of running programs and those from earlier samples. While a card is missing, earlier claims are ignored, because
    /// programs that start now number the chips differently.
    fn of(rows: &[DeviceRow<'_>], sample: &Sample) -> Self {
        let ids = Ids::of(rows);
        let mut claims = Self::default();
        live(rows, &ids, sample).for_each(|claim| claims.add(claim));
        if !rows.iter().any(device_rows::is_gone) {
            for Proven { number, unique_id, .. } in sample.proven.iter().copied() {
                ids.row(unique_id).into_iter().for_each(|row| claims.add(Claim { row, number, unique_id }));
            }
        }
        claims
    }
}

/// Reports the devices for which the claims contradict each other.
pub(super) fn report_contradictions(rows: &[DeviceRow<'_>], sample: &Sample, problems: &mut Vec<Problem>) {
    if sample.cluster.is_some() {
        return;
    }
    let claims = Claims::of(rows, sample);
    let mut devices: Vec<DeviceId> =
        claims.all.iter().filter(|claim| claims.is_contradicted(claim)).map(|claim| rows[claim.row].id).collect();
    devices.dedup();
    if !devices.is_empty() {
        let detail = "programs disagree about TT-Metal's numbers of these chips; memory reported by number is not shown there";
        problems.push(Problem::new(format!("device {}", ranges(devices)), Missing::OutOfRange, detail));
    }
}

/// Returns the claims of running programs that see all devices, for chips that the program itself holds. Any user may write anything into a
/// ledger.
fn live<'s>(rows: &'s [DeviceRow<'_>], ids: &'s Ids, sample: &'s Sample) -> impl Iterator<Item = Claim> + use<'s> {
    // An unreadable ledger claims nothing.
    let ledgers = sample.ledgers.iter().filter_map(|ledger| Some((ledger.owner.pid, ledger.content.as_ref().ok()?)));
    let whole = ledgers.filter(|(_, ledger)| !ledger.is_mock && ledger.visible_devices == VisibleDevices::All);
    whole.flat_map(move |(pid, ledger)| {
        ledger.allocators.iter().flat_map(|allocator| &allocator.chips).filter_map(move |chip| {
            let (number, unique_id) = (chip.metal_id?, chip.unique_id?);
            let row = ids.row(unique_id)?;
            let is_held = holders(rows, &rows[row]).is_ok_and(|users| users.pids.contains(&pid));
            is_held.then_some(Claim { row, number, unique_id })
        })
    })
}

/// Returns the proven numbers, for later samples. If a running program contradicts an earlier pair, neither is used while that program
/// runs. Then the earlier pair is dropped.
pub fn proven(sample: &Sample) -> Vec<Proven> {
    let is_any_contested = sample.proven.iter().any(|proven| proven.is_contested);
    if sample.cluster.is_some() || (sample.ledgers.is_empty() && !is_any_contested) {
        return sample.proven.clone();
    }
    let rows = device_rows::list(sample);
    let claims = Claims::of(&rows, sample);
    let live: HashSet<Claim> = live(&rows, &Ids::of(&rows), sample).collect();
    let keep = |claim: &Claim| {
        let kept = sample.proven.iter().find(|proven| (proven.number, proven.unique_id) == (claim.number, claim.unique_id));
        let is_contested = claims.is_contradicted(claim);
        let is_kept = match is_contested {
            true => kept.is_some(),
            false => live.contains(claim) || kept.is_some_and(|proven| !proven.is_contested),
        };
        is_kept.then_some(Proven { number: claim.number, unique_id: claim.unique_id, is_contested })
    };
    claims.all.iter().filter_map(keep).take(PROVEN_MAX).collect()
}

/// Returns whether a chip has no certain number.
pub fn lacks_numbers(sample: &Sample) -> bool {
    device_rows::list(sample).iter().any(|row| row.metal_id.is_err())
}

/// Returns whether a cluster descriptor describes this machine: it has each chip once, by its unique id, with the same position on PCIe.
pub fn describes(cluster: &Cluster, sample: &Sample) -> bool {
    let rows = device_rows::list(sample);
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
