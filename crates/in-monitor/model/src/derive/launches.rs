//! Programs that a process launched. They show whether it is busy or hung.

use crate::identity::ProcessKey;
use crate::ledger::{FeatureState, HookFeature, Ledger, LedgerSample, LedgerWriter};
use crate::missing::{Missing, Reading};
use crate::sample::Sample;
use crate::units::UnixTime;

/// The launches of a process on all its chips.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Launches {
    pub(super) programs: Reading<u64>,
    pub(super) per_s: Reading<f64>,
    pub(super) last: Reading<UnixTime>,
}

/// Compares a ledger with the same ledger in the previous sample. `place` is its index in the sample.
pub(super) fn launches(owner: ProcessKey, ledger: &Ledger, sample: &Sample, previous: Option<&Sample>, place: usize) -> Launches {
    let programs = counted(ledger);
    let last = ledger.launches.iter().map(|chip| chip.last).max().filter(|last| last.0 > 0);
    Launches {
        programs,
        per_s: programs.and_then(|now| rate(owner, now, sample, previous, place)),
        last: programs.and_then(|_| last.ok_or(Missing::NoSource)),
    }
}

fn counted(ledger: &Ledger) -> Reading<u64> {
    let is_launch = |feature: &HookFeature| feature.state == FeatureState::Found && feature.name.contains("launch");
    let is_known = !ledger.launches.is_empty() || (ledger.writer == LedgerWriter::Hook && ledger.coverage.iter().any(is_launch));
    let sum = ledger.launches.iter().fold(0_u64, |sum, chip| sum.saturating_add(chip.programs));
    is_known.then_some(sum).ok_or(Missing::NotTracked)
}

fn rate(owner: ProcessKey, now: u64, sample: &Sample, previous: Option<&Sample>, place: usize) -> Reading<f64> {
    let before = previous.ok_or(Missing::FirstSample)?;
    // The index is usually the same as before.
    let is_same = |other: &&LedgerSample| other.owner == owner;
    let there = before.ledgers.get(place).filter(is_same).filter(|_| place == 0 || before.ledgers[place - 1].owner != owner);
    let same = there.or_else(|| before.ledgers.iter().find(is_same)).ok_or(Missing::FirstSample)?;
    let then = same.content.as_ref().map_err(|_| Missing::FirstSample).and_then(counted).map_err(|_| Missing::FirstSample)?;
    let elapsed = sample.scanned_at().saturating_sub(before.scanned_at());
    // After `exec`, the counter begins again.
    let started = now.checked_sub(then).filter(|_| !elapsed.is_zero()).ok_or(Missing::FirstSample)?;
    Ok(started as f64 / elapsed.as_secs_f64())
}
