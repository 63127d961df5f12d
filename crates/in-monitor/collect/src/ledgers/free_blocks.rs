//! The largest free block of each allocator, for scans that read only totals.
//!
//! A block table needs every live buffer of a ledger. Scans read that list only for this figure. A ledger that has changed is listed at
//! most once in [`AGAIN_AFTER`]. One scan lists at most [`ENTRIES_MAX`] buffers, within the limits of the ledger's user.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ttmon_ledger_reader::{LedgerPart, Lines};
use ttmon_model::Kind;
use ttmon_model::ledger::{BufferKind, Ledger, LedgerAllocator, LedgerSample};

use super::{LedgerDetail, OpenLedger};
use crate::budget::{Budget, Resource};

/// Minimum time between two lists of a ledger that keeps changing.
const AGAIN_AFTER: Duration = Duration::from_secs(10);
/// Maximum number of buffers that one scan lists for this figure. It takes about 10 ms.
const ENTRIES_MAX: u64 = 131_072;

/// The known blocks of each ledger, by its identity.
#[derive(Debug, Default)]
pub(crate) struct FreeBlocks(HashMap<(u64, u64), KnownBlocks>);

#[derive(Debug)]
struct KnownBlocks {
    at: Duration,
    /// The event counter of the ledger at that time.
    events: u64,
    largest: Vec<Largest>,
}

/// The largest free block of one kind of one allocator.
#[derive(Debug)]
struct Largest {
    slot: u16,
    generation: u32,
    kind: Kind,
    bytes: u64,
}

impl FreeBlocks {
    /// Adds the largest free blocks to the samples. `samples` and `ledgers` have the same order.
    pub(crate) fn complete(&mut self, now: Duration, ledgers: &[Arc<OpenLedger>], samples: &mut [LedgerSample], budget: &mut Budget) {
        self.0.retain(|identity, _| ledgers.iter().any(|found| found.identity() == *identity));
        let mut due: Vec<(Option<Duration>, usize, u64)> = Vec::new();
        for (index, (found, sample)) in ledgers.iter().zip(&*samples).enumerate() {
            let Ok(content) = &sample.content else { continue };
            let entries = entries(content);
            let known = self.0.get(&found.identity());
            let is_new = known.is_none_or(|known| known.events != content.events && now.saturating_sub(known.at) >= AGAIN_AFTER);
            if entries > 0 && is_new {
                due.push((known.map(|known| known.at), index, entries));
            }
        }
        // Ledgers that were never read come first, then those with the oldest read.
        due.sort_unstable();
        let mut left = ENTRIES_MAX;
        for (_, index, entries) in due {
            let found = &ledgers[index];
            if entries <= left && budget.take(Resource::Buffers, entries, || found.uid).is_some() {
                left -= entries;
                self.0.insert(found.identity(), KnownBlocks::read(found, now, entries));
            }
        }
        for (found, sample) in ledgers.iter().zip(samples) {
            if let (Some(known), Ok(content)) = (self.0.get(&found.identity()), &mut sample.content) {
                known.add_to(content);
            }
        }
    }
}

/// Returns the number of live buffers to list. Returns 0 if no allocator has known banks, or if the ledger is listed for another reason.
fn entries(ledger: &Ledger) -> u64 {
    let rows = || ledger.allocators.iter().flat_map(|allocator| &allocator.rows);
    let is_wanted = !ledger.is_listed && rows().any(|row| row.capacity.is_some() && row.count > 0);
    if is_wanted { rows().fold(0, |sum, row| sum.saturating_add(row.count)) } else { 0 }
}

impl KnownBlocks {
    fn read(found: &OpenLedger, at: Duration, entries: u64) -> Self {
        // Only this list was granted. If more buffers are listed than were counted, the blocks stay unknown until the ledger is due again.
        let most = entries.saturating_add(entries / 8);
        let mut may_read = |part, count| part != LedgerPart::Circulars && (part != LedgerPart::Buffers || count <= most);
        let content = found.region.ledger(|_| LedgerDetail::Blocks, Lines::default, &mut may_read).ok().flatten();
        let content = content.filter(|content| content.is_listed);
        let largest = content.as_ref().map_or_else(Vec::new, |content| {
            let of = |(index, kind, bytes): (usize, Kind, u64)| {
                let allocator = &content.allocators[index];
                Largest { slot: allocator.slot, generation: allocator.generation, kind, bytes }
            };
            content.largest_free_blocks().into_iter().map(of).collect()
        });
        Self { at, events: content.map_or(0, |content| content.events), largest }
    }

    fn add_to(&self, ledger: &mut Ledger) {
        for known in &self.largest {
            let is_it = |allocator: &&mut LedgerAllocator| (allocator.slot, allocator.generation) == (known.slot, known.generation);
            let allocators = ledger.allocators.iter_mut().filter(is_it);
            let rows = allocators.flat_map(|allocator| &mut allocator.rows).filter(|row| row.kind == BufferKind::Of(known.kind));
            rows.for_each(|row| row.largest_free_per_bank = Some(known.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use ttmon_ledger::layout::{WriterKind, kind};
    use ttmon_ledger::writer::{
        AllocatorId, AllocatorSpec, Buffer, Chip, ClockChoice, Config, Hosted, Key, KindGeometry, Owner, VisibleDevicesVariable,
    };
    use ttmon_ledger_reader::Region;
    use ttmon_model::identity::ProcessKey;

    use super::super::read;
    use super::*;
    use crate::budget::exhausted;

    const OWNER: ProcessKey = ProcessKey { pid: 4242, start_ticks: 99 };
    const USER: u32 = 1001;
    const BANK: u64 = 64 << 20;
    const BLOCK: u32 = 1 << 20;

    struct Program {
        hosted: Hosted,
        allocator: AllocatorId,
        found: Vec<Arc<OpenLedger>>,
    }

    impl Program {
        /// One allocator with 12 DRAM banks of 64 MiB.
        fn start() -> Self {
            let file: File = tempfile::tempfile().expect("a file");
            let config = Config { kind: WriterKind::Service, version: "test", clock: ClockChoice::Auto, machine: 0, on_created: None };
            let owner =
                Owner { pid: OWNER.pid, start_ticks: OWNER.start_ticks, program: b"x", seen: VisibleDevicesVariable::All, is_mock: false };
            let mut hosted = Hosted::create(file.try_clone().expect("a file"), &config, &owner).expect("a ledger");
            let mut kinds = [KindGeometry::default(); 6];
            kinds[usize::from(kind::DRAM)] = KindGeometry { banks: 12, alignment: 32, bank_bytes: BANK, base: 0 };
            let chips = [Chip { metal_id: 0, unique_id: 0, flags: 0 }];
            let spec = AllocatorSpec { given_id: 0, origin: 3, mesh: (0, 0), kinds, chips: &chips };
            let allocator = hosted.open_allocator(&spec).expect("an allocator");
            let region = Arc::new(Region::open(file).expect("a region"));
            let found = vec![Arc::new(OpenLedger::handed(OWNER, USER, region, (1, 7)))];
            Self { hosted, allocator, found }
        }

        fn allocate(&mut self, address: u64) {
            self.hosted.make_room().expect("room");
            let key = Key { allocator: self.allocator, kind: kind::DRAM, address };
            let buffer = Buffer { size: u64::from(BLOCK) * 12, per_bank: BLOCK, ..Buffer::default() };
            self.hosted.session().insert(key, &buffer).expect("a buffer");
        }

        /// Returns the largest free block that a scan at this second finds, in MiB.
        fn scan(&self, blocks: &mut FreeBlocks, second: u64, budget: &mut Budget) -> Option<u64> {
            let content = read(&self.found[0], LedgerDetail::Totals, &mut Budget::new(0));
            assert!(content.as_ref().is_ok_and(|ledger| ledger.buffers.is_empty()), "only totals");
            let mut samples = [LedgerSample { owner: OWNER, content }];
            blocks.complete(Duration::from_secs(second), &self.found, &mut samples, budget);
            let [sample] = samples;
            let ledger = sample.content.expect("a ledger");
            let rows = ledger.allocators.iter().flat_map(|allocator| &allocator.rows);
            rows.filter_map(|row| row.largest_free_per_bank).map(|bytes| bytes >> 20).next()
        }
    }

    #[test]
    fn largest_free_block_is_known_without_a_list() {
        let (mut program, mut blocks) = (Program::start(), FreeBlocks::default());
        let mut scan = |program: &Program, second| program.scan(&mut blocks, second, &mut Budget::new(0));
        assert_eq!(scan(&program, 0), None, "an empty allocator needs none");
        // The buffer is in the middle of a bank.
        program.allocate(BANK / 2);
        assert_eq!(scan(&program, 1), Some(32));
        program.allocate(BANK / 4);
        assert_eq!(scan(&program, 2), Some(32), "read again after 10 s");
        program.allocate(BANK / 4 * 3);
        assert_eq!(scan(&program, 11), Some(16));
        assert_eq!(scan(&program, 100), Some(16), "nothing changed");
    }

    /// A user at the limit has no figure. That is not reported as a cut, because no caller requested the list.
    #[test]
    fn lists_are_within_the_limits_of_their_user() {
        let (mut program, mut blocks) = (Program::start(), FreeBlocks::default());
        program.allocate(0);
        let mut budget = exhausted(USER, 0);
        assert_eq!((program.scan(&mut blocks, 0, &mut budget), budget.cuts()), (None, 0));
        assert_eq!(program.scan(&mut blocks, 1, &mut Budget::new(0)), Some(63));
    }
}
