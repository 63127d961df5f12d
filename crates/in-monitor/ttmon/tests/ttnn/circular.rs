//! Circular and dataflow buffers: compares TT-Metal's plan for a program with the L1 usage that ttmon reports.
//!
//! A graph capture without dispatch has sizes and cores. A capture with dispatch also has addresses (only of circular buffers), and the
//! message of a clash has the end of the region. Buffers of one program follow each other from the base of L1 on.

use serde_json::Value;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Bytes over all cores of a chip.
    pub(crate) bytes: u64,
    /// Bytes on the core with the most.
    pub(crate) per_core: u64,
}

/// Returns the usage of a planned program. Buffers inside a tensor need no extra memory.
pub(crate) fn planned(plan: &[Value]) -> Option<Taken> {
    let mut cores = std::collections::BTreeMap::new();
    for buffer in plan.iter().filter(|buffer| buffer["shared"] != true) {
        let size = buffer["size"].as_u64()?;
        for core in core_range_set(buffer["cores"].as_str()?)? {
            *cores.entry(core).or_insert(0) += size;
        }
    }
    Some(Taken { bytes: cores.values().sum(), per_core: cores.values().copied().max().unwrap_or(0) })
}

/// Returns the usage of all programs together on one chip, as ttmon reports it.
pub(crate) fn seen(allocator: &Value) -> Taken {
    let figure = |name: &str| allocator["kinds"]["cb"][name].as_u64().unwrap_or(0);
    Taken { bytes: figure("used"), per_core: figure("per_core") }
}

/// Parses the cores of `{[0-0 - 7-1], [0-2 - 3-2]}`: ranges of columns and rows, both ends included.
pub(crate) fn core_range_set(text: &str) -> Option<Vec<(u64, u64)>> {
    let mut cores = Vec::new();
    for range in text.split('[').skip(1) {
        let numbers: Vec<u64> = range
            .split(|character: char| !character.is_ascii_digit())
            .filter(|word| !word.is_empty())
            .map(str::parse)
            .collect::<Result<_, _>>()
            .ok()?;
        let &[left, top, right, bottom] = numbers.as_slice() else { return None };
        cores.extend((left..=right).flat_map(|column| (top..=bottom).map(move |row| (column, row))));
    }
    Some(cores)
}
