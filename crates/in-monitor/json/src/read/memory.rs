//! Reads allocators, blocks and live buffers of a document. Only `ttmon mem --json` writes them.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use ttmon_model::ledger::{Buffer, BufferKind, BufferLayout, FeatureState, HookFeature, LedgerCircular, LedgerSelfCheck};
use ttmon_model::limits::{DOCUMENT_ALLOCATORS_MAX, DOCUMENT_ENTRIES_MAX, DOCUMENT_FRAMES_MAX};
use ttmon_model::memory::{Figure, Source};
use ttmon_model::snapshot::{Allocator, AllocatorKind, Banks, Block, BufferAllocator, Circular, MappedBuffer, NoBlocks, Programs};
use ttmon_model::stack::{SourceLine, Stack};
use ttmon_model::units::UnixTime;
use ttmon_model::{KernelType, Kind, Missing, PerKind, Process, ProcessKey, Reading};

use super::device::figure;
use super::item::Item;
use super::list;
use crate::{Document, ReadError};

/// Kinds that are part of no bar.
const OTHERS: [BufferKind; 2] = [BufferKind::Host, BufferKind::Other];

/// The processes of a document by pid. A document has each pid once.
pub(super) struct Owners(HashMap<u32, ProcessKey>);

impl Owners {
    pub(super) fn new(processes: &[Process]) -> Self {
        Self(processes.iter().map(|process| (process.key.pid, process.key)).collect())
    }

    fn of(&self, item: &Item<'_>) -> Option<ProcessKey> {
        let pid = item.small("pid")?;
        Some(self.0.get(&pid).copied().unwrap_or(ProcessKey { pid, start_ticks: 0 }))
    }
}

/// Reads the allocators, with the blocks of their banks if the document has them.
pub(super) fn allocators(document: &Document<'_>, owners: &Owners) -> Result<Vec<Allocator>, ReadError> {
    let mut allocators = list(document, "allocators", DOCUMENT_ALLOCATORS_MAX, "an allocator", |item| allocator(item, owners))?;
    let places: HashMap<String, usize> =
        allocators.iter().enumerate().map(|(place, allocator): (usize, &Allocator)| (allocator.id.clone(), place)).collect();
    document.each("blocks", DOCUMENT_ENTRIES_MAX, |value| {
        let read = |item: &Item<'_>| {
            let place = *places.get(&item.text("allocator").ok()?)?;
            let block = Block { address: item.address("address").ok()?, size: item.whole("size").ok()?, is_free: item.truth("free").ok()? };
            Some((place, item.meaning("kind", Kind::from_name).ok()?, block))
        };
        let (place, kind, block) = Item::new(value).and_then(|item| read(&item)).ok_or(ReadError::Shape("a block"))?;
        if let Some(Ok(banks)) = allocators[place].kinds[kind].as_mut().map(|kind| &mut kind.banks) {
            banks.table.push(block);
        }
        Ok(())
    })?;
    Ok(allocators)
}

fn allocator(item: &Item<'_>, owners: &Owners) -> Option<Allocator> {
    let name = item.text("id").ok()?;
    let from = item.meaning("source", Source::from_name);
    let kinds = item.part("kinds")?;
    let kind = |name: &str| kinds.part(name).map(|item| allocator_kind(&item, from));
    let mesh = item.text("mesh").ok().and_then(|text| {
        let (rows, columns) = text.split_once('x')?;
        Some((rows.parse().ok()?, columns.parse().ok()?))
    });
    Some(Allocator {
        slot: name.split('.').nth(1)?.parse().ok()?,
        id: name,
        process: owners.of(item)?,
        // A document has only open allocators.
        is_open: true,
        mesh,
        devices: item.ids("devices"),
        unmapped: item.texts("unmapped").iter().filter_map(|text| text.parse().ok()).collect(),
        coverage: coverage(item),
        self_check: item.part("self_check").as_ref().map_or_else(LedgerSelfCheck::default, self_check),
        kinds: PerKind::from_fn(|of| kind(of.name())),
        others: OTHERS.into_iter().filter_map(|of| Some((of, kind(of.name())?))).collect(),
        buffers_left_out: 0,
        refused: 0,
    })
}

fn allocator_kind(item: &Item<'_>, from: Reading<Source>) -> AllocatorKind {
    let unlisted = item.part("unlisted");
    let unlisted = |name: &str| unlisted.as_ref().and_then(|unlisted| unlisted.whole(name).ok()).unwrap_or(0);
    let programs = item.whole("programs").ok().zip(item.whole("per_core").ok());
    AllocatorKind {
        figure: Figure { source: from, ..figure(Some(item)) },
        free: item.whole("free"),
        unlisted: (unlisted("count"), unlisted("bytes")),
        banks: banks(item),
        programs: programs.map(|(count, per_core)| Programs { count, per_core }),
    }
}

fn banks(item: &Item<'_>) -> Reading<Banks> {
    Ok(Banks {
        banks: item.whole("banks").map_err(not_asked_for)?,
        bank_bytes: item.whole("bank_bytes")?,
        allocated_per_bank: item.whole("allocated_per_bank"),
        free_per_bank: item.whole("free_per_bank"),
        largest_free_per_bank: item.whole("largest_free_per_bank"),
        fragmentation: item.float("fragmentation"),
        blocks: item.whole("blocks"),
        table: Vec::new(),
        no_blocks: item.meaning("no_blocks", NoBlocks::from_name).ok(),
    })
}

/// Replaces the reason if the document was written without banks.
fn not_asked_for(reason: Missing) -> Missing {
    if reason == Missing::NotExposed { Missing::NotTracked } else { reason }
}

fn coverage(item: &Item<'_>) -> Reading<Vec<HookFeature>> {
    let features = item.parts("coverage")?.into_iter().map(|(name, feature)| HookFeature {
        name,
        hits: feature.whole("hits").unwrap_or(0),
        state: feature.meaning("state", FeatureState::from_name).unwrap_or(FeatureState::Missing),
        reason: feature.text("reason").ok(),
    });
    Ok(features.collect())
}

fn self_check(item: &Item<'_>) -> LedgerSelfCheck {
    let is = |name: &str| item.truth(name).unwrap_or(false);
    LedgerSelfCheck {
        is_inexact: is("inexact"),
        is_restored: is("restored"),
        is_per_core: is("per_core"),
        // The document does not have the start of L1. The size of its banks already takes it into account.
        l1_lower_end: is("shrunk").then_some(0),
        checks: item.whole("checks").unwrap_or(0),
        differences: item.whole("differences").unwrap_or(0),
    }
}

/// Reads the live buffers, if the document has them.
pub(super) fn buffers(document: &Document<'_>, now: UnixTime, owners: &Owners) -> Result<Vec<MappedBuffer>, ReadError> {
    let stacks = stacks(document)?;
    list(document, "buffers", DOCUMENT_ENTRIES_MAX, "a buffer", |item| buffer(item, now, owners, &stacks))
}

/// The frames of stacks by process and number.
type Frames = HashMap<(u32, u32), Vec<Arc<SourceLine>>>;

fn stacks(document: &Document<'_>) -> Result<Frames, ReadError> {
    let read = |item: &Item<'_>| {
        let frames = item.list("frames")?.iter().take(DOCUMENT_FRAMES_MAX).map(crate::line::read).collect();
        Some(((item.small("pid")?, item.small("stack")?), frames))
    };
    Ok(list(document, "stacks", DOCUMENT_FRAMES_MAX, "a stack", read)?.into_iter().collect())
}

/// Reads the stack of a buffer: its line, and the other lines if the document has them.
fn stack(item: &Item<'_>, process: ProcessKey, stacks: &Frames) -> Option<Arc<Stack>> {
    let line = crate::line::line(item, "line")?;
    let number = item.small("stack").unwrap_or(0);
    let frames = stacks.get(&(process.pid, number)).cloned();
    Some(Arc::new(Stack { number, frames: frames.unwrap_or_else(|| vec![line.clone()]), line }))
}

/// Reads the circular buffers. Only recordings have them.
pub(super) fn circulars(document: &Document<'_>, owners: &Owners) -> Result<Vec<Circular>, ReadError> {
    let read = |item: &Item<'_>| {
        let cores: Vec<u8> = item.ids("cores").iter().map(|number| u8::try_from(number.0).ok()).collect::<Option<_>>()?;
        Some(Circular {
            process: owners.of(item)?,
            slot: 0,
            devices: item.ids("devices"),
            entry: LedgerCircular {
                // The index is not used, as for buffers. The devices are those of the circular buffer.
                allocator: 0,
                chip: None,
                program: item.small("program")?,
                address: item.address("address").ok()?,
                size: item.whole("size").ok()?,
                cores: cores.try_into().ok()?,
                is_global: item.truth("global").ok()?,
            },
        })
    };
    list(document, "circulars", DOCUMENT_ENTRIES_MAX, "a circular buffer", read)
}

fn buffer(item: &Item<'_>, now: UnixTime, owners: &Owners, stacks: &Frames) -> Option<MappedBuffer> {
    let allocator = BufferAllocator { id: item.text("allocator").ok()?, process: owners.of(item)?, devices: item.ids("devices") };
    let small = |name| NonZeroU32::new(u32::try_from(item.whole(name).ok()?).unwrap_or(u32::MAX));
    Some(MappedBuffer {
        buffer: Buffer {
            // The index is not used, because the document has no ledgers. The id identifies the allocator.
            allocator: 0,
            kind: item.meaning("kind", buffer_kind).ok()?,
            address: item.address("address").ok()?,
            size: item.whole("size").ok()?,
            per_bank: small("per_bank"),
            page_size: small("page_size"),
            layout: item.meaning("layout", BufferLayout::from_name).ok(),
            cores: small("cores"),
            refs: u32::try_from(item.whole("refs").ok()?).unwrap_or(u32::MAX),
            time: item.float("age_s").map_or(UnixTime(0), |age| before(now, age)),
            tag: item.text("tag").ok().map(Arc::from),
            operation: item.text("op").ok().map(Arc::from),
            stack: stack(item, allocator.process, stacks),
            is_per_core: false,
            is_cached: false,
            kernel_type: item.meaning("kernel_type", KernelType::from_name).ok(),
        },
        allocator: Arc::new(allocator),
    })
}

pub(crate) fn buffer_kind(name: &str) -> Option<BufferKind> {
    Kind::from_name(name).map(BufferKind::Of).or_else(|| OTHERS.into_iter().find(|kind| kind.name() == name))
}

/// Returns the time that is this many seconds before another, to the millisecond.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates, and ages are neither negative nor centuries")]
fn before(now: UnixTime, seconds: f64) -> UnixTime {
    UnixTime(now.0.saturating_sub(((seconds * 1000.0).round() as u64).saturating_mul(1_000_000)).max(1))
}
