//! The list of all live entries, exact at one time although the writer continues.
//!
//! The entries are copied while they change. Then the figures are read, and the events between the start of the copy and the figures are
//! replayed over the copy. A copied entry can be torn only by an event in this interval, and the replay replaces it.

use ttmon_ledger::layout::{ENTRIES_MAX, entry};
use ttmon_ledger::pages;
use ttmon_model::ledger::Exactness;

use super::bytes::u8_at;
use super::clock::Converter;
use super::entry::Entry;
use super::header::Counters;
use super::live_at_close;
use super::numbers::row_index;
use super::peak::{self, PeakSet};
use super::recount::{Sum, agree, count};
use super::replay::{self, Change, Changes};
use super::rows::RowRecord;
use super::tags::Tags;
use super::totals::{self, Figures};
use super::{ReadError, Region, tags};

/// The live entries, and the figures of the same time.
pub(super) struct Listing {
    /// The figures. Their exactness also applies to the list.
    pub(super) figures: Figures,
    /// All listed live buffers, in no particular order.
    pub(super) entries: Vec<Entry>,
    /// The buffers that were live at the peak of each row.
    pub(super) peak_sets: Vec<PeakSet>,
    /// Buffers that were live at a free-all. The rows count all of them; this has as many as could be stored.
    pub(super) left: Vec<Entry>,
    /// Number of invalid entries, which are omitted.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests check it"))]
    pub(super) bad_entries: u64,
    /// Texts of the tags by id. Every id in this listing has a text.
    pub(super) tags: Tags,
}

/// Reads all live entries, the figures at the same time, and the entries at the peak of each row.
pub(super) fn list(region: &Region) -> Result<Listing, ReadError> {
    let converter = region.converter();
    let mut taken = ListAttempt::take(region, converter, None)?;
    let mut peak_sets = peak::sets(region, &taken.figures, &taken.entries, &taken.gone)?;
    let is_settled = taken.figures.ledger.exactness != Exactness::Changing && peak_sets.iter().all(PeakSet::is_whole);
    // If the writer has stopped, another copy would be no better.
    if !is_settled && !taken.figures.is_stalled {
        drop(taken);
        taken = ListAttempt::take(region, converter, None)?;
        peak_sets = peak::sets(region, &taken.figures, &taken.entries, &taken.gone)?;
    }
    taken.finish(region, peak_sets)
}

/// Reads the live entries and those that ended with their row, without the peaks.
pub(super) fn live_and_left(region: &Region) -> Result<Listing, ReadError> {
    attempt_twice(region, None)?.finish(region, Vec::new())
}

/// Reads the live entries and the figures at the same time. A ledger may list more entries than it counts. If it lists more than `most`,
/// reading stops with [`ReadError::TooMany`].
pub(super) fn live(region: &Region, most: u64) -> Result<(Figures, Vec<Entry>, Tags), ReadError> {
    let taken = attempt_twice(region, Some(most))?;
    let tags = tags::read(region, taken.figures.counters.tags_used)?;
    Ok((taken.figures, taken.entries, tags))
}

fn attempt_twice(region: &Region, most: Option<u64>) -> Result<ListAttempt, ReadError> {
    let converter = region.converter();
    let taken = ListAttempt::take(region, converter, most)?;
    if taken.figures.ledger.exactness != Exactness::Changing || taken.figures.is_stalled {
        return Ok(taken);
    }
    drop(taken);
    ListAttempt::take(region, converter, most)
}

/// Returns only the figures, counted from the entries.
pub(super) fn recount(region: &Region, converter: Converter) -> Result<Figures, ReadError> {
    let mut taken = ListAttempt::take(region, converter, None)?;
    if taken.figures.ledger.exactness == Exactness::Changing && !taken.figures.is_exact {
        taken = ListAttempt::take(region, converter, None)?;
    }
    // The writer's own figures may have become readable since. It does not matter here whether the list differs from them.
    taken.figures.ledger.exactness = if taken.figures.is_exact { Exactness::Exact } else { Exactness::Recounted };
    Ok(taken.figures)
}

/// One copy of the entries, exact if possible.
struct ListAttempt {
    figures: Figures,
    entries: Vec<Entry>,
    /// Entries that were freed with their row and that were live at its peak.
    gone: Vec<Entry>,
    /// Entries that were freed with their row.
    left: Vec<Entry>,
    bad: u64,
}

impl ListAttempt {
    /// Adds the names, and the entries that ended with their row and were moved.
    fn finish(mut self, region: &Region, peak_sets: Vec<PeakSet>) -> Result<Listing, ReadError> {
        let tags = tags::read(region, self.figures.counters.tags_used)?;
        live_at_close::complete(region, &mut self.figures, &mut self.left)?;
        Ok(Listing { figures: self.figures, entries: self.entries, peak_sets, left: self.left, bad_entries: self.bad, tags })
    }

    /// Copies the entries. With `most`, it copies at most that many, and none that were freed with their row.
    fn take(region: &Region, converter: Converter, most: Option<u64>) -> Result<Self, ReadError> {
        let limit = match most {
            Some(most) => Some(Limit { epochs: totals::read(region, converter)?.rows.iter().map(|row| row.epoch).collect(), most }),
            None => None,
        };
        // This order ensures that a slot that is first used by a later event is in the copy or in the replay.
        let from = region.source.seq()? / 2;
        let before = Counters::read(&region.source, &region.header.tables)?;
        let mut copy = Copy::read(region, &before, &converter, limit.as_ref())?;
        let mut figures = totals::read(region, converter)?;
        let changes = replay::changes(region, from, figures.ledger.events, &converter)?;
        let is_replayed = changes.is_some();
        if let Some(mut changes) = changes {
            changes.complete(region)?;
            copy.apply(&changes, &mut figures.rows);
        }
        let NotLive { gone, left, sums, bad } = copy.split_live(&mut figures);
        let agrees = agree(&figures, &sums);
        figures.ledger.exactness = match (is_replayed, figures.is_exact) {
            (true, true) if agrees => Exactness::Exact,
            (true, false) => Exactness::Recounted,
            _ => Exactness::Changing,
        };
        if !figures.is_exact {
            count(&mut figures, &sums, &copy.entries);
        }
        Ok(Self { figures, entries: copy.entries, gone, left, bad })
    }
}

/// The result of [`Copy::split_live`]: entries freed with their row, those of them that belong to its peak, the sums of live entries by
/// row, and the number of invalid entries.
struct NotLive {
    gone: Vec<Entry>,
    left: Vec<Entry>,
    sums: Vec<Sum>,
    bad: u64,
}

/// Entries that are marked as live, in the order of their slots, and slots with invalid content.
struct Copy {
    entries: Vec<Entry>,
    invalid: Vec<u32>,
}

/// Limits which entries are copied, and how many.
struct Limit {
    /// By row: entries up to this event are dead.
    epochs: Vec<u64>,
    most: u64,
}

impl Limit {
    fn is_dead(&self, entry: &Entry) -> bool {
        self.epochs.get(row_index(entry.allocator, entry.kind)).is_some_and(|epoch| entry.event <= *epoch)
    }
}

impl Copy {
    fn read(region: &Region, counters: &Counters, converter: &Converter, limit: Option<&Limit>) -> Result<Self, ReadError> {
        let most = limit.map_or(ENTRIES_MAX.into(), |limit| limit.most);
        let likely = counters.live_entries.min(counters.entries_used.into()).min(ENTRIES_MAX.into()).min(most);
        let mut entries = pages::vec_with_capacity(usize::try_from(likely).unwrap_or(0));
        let mut invalid = Vec::new();
        region.source.each(region.header.tables.entries, 0, counters.entries_used, |slot, record| {
            match u8_at(record, entry::STATE) {
                entry::FREE | entry::WRITING => {}
                entry::LIVE => match Entry::decode(slot, record, converter) {
                    Some(entry) if limit.is_some_and(|limit| limit.is_dead(&entry)) => {}
                    Some(_) if entries.len() as u64 >= most => return Err(ReadError::TooMany),
                    Some(entry) => entries.push(entry),
                    None => invalid.push(slot),
                },
                _ => invalid.push(slot),
            }
            Ok(())
        })?;
        Ok(Self { entries, invalid })
    }

    fn apply(&mut self, changes: &Changes, rows: &mut [RowRecord]) {
        let mut added = Vec::new();
        for (&slot, change) in &changes.slots {
            let found = self.entries.binary_search_by_key(&slot, |entry| entry.slot).ok();
            match (change, found.map(|index| &mut self.entries[index])) {
                (Change::Live(entry), Some(there)) => *there = *entry,
                (Change::Live(entry), None) => added.push(*entry),
                (Change::Gone, Some(there)) => there.event = Entry::NO_EVENT,
                (Change::Refs(refs), Some(there)) => there.refs = *refs,
                (Change::Gone | Change::Refs(_), None) => {}
            }
        }
        self.invalid.retain(|slot| !changes.slots.contains_key(slot));
        self.entries.append(&mut added);
        for (&row, &event) in &changes.epochs {
            if let Some(row) = rows.get_mut(usize::from(row)) {
                row.epoch = row.epoch.max(event);
            }
        }
    }

    /// Removes all entries that are not live.
    fn split_live(&mut self, figures: &mut Figures) -> NotLive {
        let last = match (figures.is_exact, figures.is_stalled) {
            (true, _) => figures.ledger.events,
            (_, true) => figures.ledger.events + 1,
            _ => u64::MAX,
        };
        let (rows, counters) = (&mut figures.rows, &figures.counters);
        let (mut gone, mut left) = (Vec::new(), Vec::new());
        let mut sums = vec![Sum::default(); rows.len()];
        let mut bad = self.invalid.len() as u64;
        self.entries.retain_mut(|entry| {
            entry.drop_unknown_names(counters);
            if entry.event == Entry::NO_EVENT {
                // The replay removed the entry.
                return false;
            }
            let index = row_index(entry.allocator, entry.kind);
            let Some(row) = rows.get_mut(index).filter(|row| entry.event <= last && (row.is_used || entry.event <= row.epoch)) else {
                bad += 1;
                return false;
            };
            if entry.event <= row.epoch {
                if row.is_used && entry.event > row.begun {
                    left.push(*entry);
                }
                if row.is_used && row.peak_span.contains(entry.event) {
                    gone.push(*entry);
                }
                return false;
            }
            if row.peak_span.contains(entry.event) {
                row.peak_live = (row.peak_live.0 + 1, row.peak_live.1.saturating_add(entry.size));
            }
            sums[index].add(entry);
            true
        });
        NotLive { gone, left, sums, bad }
    }
}
