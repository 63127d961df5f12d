//! JSON of an allocator of a tracked process, written and read: its kinds of memory, the hook's state, its blocks.

use std::collections::HashMap;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};
use ttmon_model::fields::{ALLOCATOR_BANKS, ALLOCATOR_KIND, Field};
use ttmon_model::ledger::{BufferKind, FeatureState, HookFeature, LedgerSelfCheck};
use ttmon_model::limits::{DOCUMENT_ALLOCATORS_MAX, DOCUMENT_ENTRIES_MAX};
use ttmon_model::memory::{Figure, Source};
use ttmon_model::snapshot::{Allocator, AllocatorKind, Banks, Block, NoBlocks, Programs};
use ttmon_model::{Kind, Missing, PerKind, Reading};

use crate::buffer::device_ids;
use crate::figure::{figure, kernel_types_entry};
use crate::item::Item;
use crate::object::{Object, Pairs};
use crate::read::{Owners, list};
use crate::value::ReadingJson;
use crate::{Document, ReadError};

/// Kinds that are part of no bar.
pub(crate) const OTHERS: [BufferKind; 2] = [BufferKind::Host, BufferKind::Other];

pub(crate) struct AllocatorJson<'a> {
    pub(crate) allocator: &'a Allocator,
    pub(crate) has_banks: bool,
}

/// Returns the fields of a kind.
fn fields(has_banks: bool) -> impl Iterator<Item = &'static Field<AllocatorKind>> {
    ALLOCATOR_KIND.iter().chain(ALLOCATOR_BANKS.iter().filter(move |_| has_banks))
}

impl Serialize for AllocatorJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { allocator, has_banks } = *self;
        let kinds = || {
            let others = allocator.others.iter().map(|(kind, item)| (kind.name(), KindJson { item, has_banks: false }));
            known(allocator).map(move |(kind, item)| (kind.name(), KindJson { item, has_banks })).chain(others)
        };
        let mut object = Object::new(serializer)?;
        for (kind, KindJson { item, has_banks }) in kinds() {
            for field in fields(has_banks) {
                object.note(format!("kinds.{kind}.{}", field.name), (field.get)(item).as_ref().err());
            }
        }
        object.entry("id", &allocator.id)?;
        object.entry("pid", &allocator.process.pid)?;
        object.entry("mesh", &allocator.mesh.map(|(rows, columns)| format!("{rows}x{columns}")))?;
        object.entry("devices", &device_ids(&allocator.devices))?;
        object.entry("unmapped", &allocator.unmapped.iter().map(u64::to_string).collect::<Vec<_>>())?;
        let source = kinds().find_map(|(_, kind)| kind.item.figure.source.ok());
        object.entry("source", source.unwrap_or(Source::Ledger).name())?;
        object.reading("coverage", &allocator.coverage.as_ref().map(|features| coverage_json(features)).map_err(|reason| *reason))?;
        object.entry("kinds", &Pairs(kinds().collect()))?;
        if allocator.coverage.is_ok() {
            object.entry("self_check", &self_check_json(&allocator.self_check))?;
        }
        object.end()
    }
}

fn known(allocator: &Allocator) -> impl Iterator<Item = (Kind, &AllocatorKind)> {
    allocator.kinds.iter().filter_map(|(kind, item)| Some((kind, item.as_ref()?)))
}

/// Returns the state of each feature of the hook, and how often the program called it, by name.
fn coverage_json(features: &[HookFeature]) -> Pairs<&str, Pairs<&'static str, Value>> {
    let is_first = |(index, feature): &(usize, &HookFeature)| !features[..*index].iter().any(|other| other.name == feature.name);
    let row = |(_, feature): (usize, &'_ HookFeature)| {
        let reason = feature.reason.as_ref().map(|reason| ("reason", json!(reason)));
        let values = [("state", json!(feature.state.name())), ("hits", json!(feature.hits))];
        Pairs(values.into_iter().chain(reason).collect())
    };
    Pairs(features.iter().enumerate().filter(is_first).map(|found| (found.1.name.as_str(), row(found))).collect())
}

fn self_check_json(check: &LedgerSelfCheck) -> Pairs<&'static str, Value> {
    Pairs(vec![
        ("checks", json!(check.checks)),
        ("differences", json!(check.differences)),
        ("inexact", json!(check.is_inexact)),
        ("restored", json!(check.is_restored)),
        ("per_core", json!(check.is_per_core)),
        ("shrunk", json!(check.l1_lower_end.is_some())),
    ])
}

struct KindJson<'a> {
    item: &'a AllocatorKind,
    has_banks: bool,
}

impl Serialize for KindJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let item = self.item;
        let mut map = serializer.serialize_map(None)?;
        for field in fields(self.has_banks) {
            map.serialize_entry(field.name, &ReadingJson::of(field, item))?;
        }
        if let Some(reason) = item.banks.as_ref().ok().and_then(|banks| banks.no_blocks).filter(|_| self.has_banks) {
            map.serialize_entry("no_blocks", reason.name())?;
        }
        if let Some(programs) = item.programs {
            map.serialize_entry("programs", &programs.count)?;
            map.serialize_entry("per_core", &programs.per_core)?;
        }
        kernel_types_entry(&mut map, item.figure.kernel_types.as_deref())?;
        let (count, bytes) = item.unlisted;
        if count > 0 {
            map.serialize_entry("unlisted", &Pairs(vec![("count", count), ("bytes", bytes)]))?;
        }
        map.end()
    }
}

pub(crate) struct BlockJson<'a> {
    allocator: &'a Allocator,
    kind: Kind,
    block: Block,
}

pub(crate) fn blocks(allocators: &[Allocator]) -> impl Iterator<Item = BlockJson<'_>> {
    let open = allocators.iter().filter(|allocator| allocator.is_open);
    let kinds = open.flat_map(|allocator| known(allocator).map(move |(kind, item)| (allocator, kind, item)));
    kinds.flat_map(|(allocator, kind, item)| {
        let table = item.banks.as_ref().map_or(&[][..], |banks| banks.table.as_slice());
        table.iter().map(move |block| BlockJson { allocator, kind, block: *block })
    })
}

impl Serialize for BlockJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("allocator", &self.allocator.id)?;
        map.serialize_entry("kind", self.kind.name())?;
        map.serialize_entry("address", &format_args!("{:#x}", self.block.address))?;
        map.serialize_entry("size", &self.block.size)?;
        map.serialize_entry("free", &self.block.is_free)?;
        map.end()
    }
}

/// Reads the allocators, with the blocks of their banks if the document has them.
pub(crate) fn allocators(document: &Document<'_>, owners: &Owners) -> Result<Vec<Allocator>, ReadError> {
    let mut allocators = list(document, "allocators", DOCUMENT_ALLOCATORS_MAX, "an allocator", |item| allocator(item, owners))?;
    let indices: HashMap<String, usize> =
        allocators.iter().enumerate().map(|(index, allocator): (usize, &Allocator)| (allocator.id.clone(), index)).collect();
    document.each("blocks", DOCUMENT_ENTRIES_MAX, |value| {
        let read = |item: &Item<'_>| {
            let index = *indices.get(&item.text("allocator").ok()?)?;
            let block = Block { address: item.address("address").ok()?, size: item.whole("size").ok()?, is_free: item.truth("free").ok()? };
            Some((index, item.meaning("kind", Kind::from_name).ok()?, block))
        };
        let (index, kind, block) = Item::new(value).and_then(|item| read(&item)).ok_or(ReadError::Shape("a block"))?;
        if let Some(Ok(banks)) = allocators[index].kinds[kind].as_mut().map(|kind| &mut kind.banks) {
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
