//! `ttmon mem --by`: reads the growth since the last mark of each program from its ledger.

use std::collections::HashMap;

use ttmon_buffer_history::{GroupGrowth, GrowthSinceMark, growth_since_mark};
use ttmon_model::groups::{BufferGroup, GroupBy, GroupKey};
use ttmon_model::{ProcessKey, Snapshot};

use crate::failure::Failure;
use crate::server::Snapshots;

/// The growth of each process that set a mark and can be read.
#[derive(Debug, Default)]
pub(super) struct Growths {
    known: Vec<(ProcessKey, GroupGrowth)>,
    /// Whether the mark of a program is too old to compute the growth.
    pub(super) is_unknown: bool,
}

/// Reads the ledgers of this machine that this user may read.
pub(super) fn read(snapshots: &mut Snapshots<'_>, by: GroupBy) -> Result<Growths, Failure> {
    let mut growths = Growths::default();
    for found in snapshots.ledgers()? {
        match growth_since_mark(&found.region, by) {
            Ok(GrowthSinceMark::Known(growth)) => growths.known.push((found.owner, growth)),
            Ok(GrowthSinceMark::Unknown) => growths.is_unknown = true,
            // If a ledger cannot be read, its buffers are not listed either.
            Ok(GrowthSinceMark::NoMark) | Err(_) => {}
        }
    }
    Ok(growths)
}

impl Growths {
    /// Adds the growth to the groups, for the allocators in the snapshot.
    pub(super) fn add_to(&self, groups: &mut [BufferGroup], snapshot: &Snapshot) {
        if self.is_unknown || self.known.is_empty() {
            return;
        }
        let mut sums: HashMap<&GroupKey, i64> = HashMap::new();
        for (process, growth) in &self.known {
            let has =
                |slot: u16| snapshot.allocators.iter().any(|allocator| allocator.process.pid == process.pid && allocator.slot == slot);
            for ((_, key), bytes) in growth.iter().filter(|((slot, _), _)| has(*slot)) {
                let sum = sums.entry(key).or_default();
                *sum = sum.saturating_add(*bytes);
            }
        }
        for group in groups {
            group.growth = Some(sums.get(&group.key).copied().unwrap_or(0));
        }
    }
}
