//! Counts the refused allocations of each device. The counts never decrease.

use std::collections::{BTreeMap, BTreeSet};

use crate::identity::{DeviceId, ProcessKey};
use crate::ledger::LedgerSample;
use crate::snapshot::{Allocator, Snapshot};

/// Counts refused allocations by device since creation. When a process ends, its ledger is gone, but its refused allocations stay counted.
#[derive(Debug, Default)]
pub struct Refusals {
    /// The count so far, by allocator.
    counted: BTreeMap<(ProcessKey, String), Counted>,
    totals: BTreeMap<DeviceId, u64>,
}

#[derive(Debug)]
struct Counted {
    count: u64,
    devices: Vec<DeviceId>,
}

impl Refusals {
    /// Adds the refused allocations of a snapshot and of the last contents of ended programs' ledgers. Writes the totals into the snapshot.
    /// `ended` has allocators of ended processes that may never have been in a snapshot. Each is passed once.
    pub fn apply<'a>(&mut self, snapshot: &mut Snapshot, departed: impl Iterator<Item = &'a LedgerSample> + Clone, ended: &[Allocator]) {
        for allocator in snapshot.allocators.iter().chain(ended) {
            let key = (allocator.process, allocator.id.clone());
            // Every allocator is stored, because an allocation may be refused and the program may end before the next snapshot.
            let counted = self.counted.entry(key).or_insert_with(|| Counted { count: 0, devices: allocator.devices.clone() });
            add(&mut self.totals, counted, allocator.refused);
        }
        for sample in departed.clone() {
            let Ok(ledger) = &sample.content else { continue };
            for allocator in &ledger.allocators {
                let id = format!("{}.{}.{}", sample.owner.pid, allocator.slot, allocator.generation);
                if let Some(counted) = self.counted.get_mut(&(sample.owner, id)) {
                    add(&mut self.totals, counted, allocator.refused());
                }
            }
        }
        let kept: BTreeSet<ProcessKey> =
            snapshot.processes.iter().map(|process| process.key).chain(departed.map(|sample| sample.owner)).collect();
        self.counted.retain(|(process, _), _| kept.contains(process));
        for device in &mut snapshot.devices {
            if let Some(total) = self.totals.get(&device.id) {
                device.memory.refusals = Ok(*total);
            }
        }
    }
}

fn add(totals: &mut BTreeMap<DeviceId, u64>, counted: &mut Counted, count: u64) {
    let new = count.saturating_sub(counted.count);
    counted.count = counted.count.max(count);
    for device in counted.devices.iter().filter(|_| new > 0) {
        *totals.entry(*device).or_default() += new;
    }
}
