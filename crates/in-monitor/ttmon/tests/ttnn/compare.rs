//! Compares the view from inside a process with the view from outside. Pure, except for reading TT-Metal's own statistics.
//!
//! Inside is one step of a script: every open mesh with the result of `ttnn.get_memory_view` for each kind. Outside is the output of `ttmon
//! mem --json --banks --blocks --buffers` for the process. Both must be equal, to the byte.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use serde_json::Value;

use crate::circular;
use crate::mock::Chips;
use crate::region::{self, KINDS};

/// Figures of a kind of an allocator, with the same names on both sides.
pub(crate) const FIGURES: &[&str] = &["banks", "bank_bytes", "allocated_per_bank", "free_per_bank", "largest_free_per_bank", "blocks"];

pub(crate) struct Scene<'a> {
    chips: &'a Chips,
    has_regions: bool,
    /// Whether a mesh is visible before its first buffer.
    shows_empty: bool,
    pub(crate) steps: u64,
    figures: u64,
    blocks: u64,
    /// Results of comparisons with TT-Metal's own statistics.
    regions: Vec<String>,
    circulars: u64,
    /// Steps, each with the number of correct lines and of all lines.
    pub(crate) lines: Vec<String>,
    /// The out-of-memory exceptions that the program caught.
    pub(crate) refused: Vec<Value>,
    /// The exceptions for a clash of circular buffers with tensors.
    pub(crate) clashes: Vec<Value>,
}

impl<'a> Scene<'a> {
    pub(crate) fn new(chips: &'a Chips, has_regions: bool, shows_empty: bool) -> Self {
        Self {
            chips,
            has_regions,
            shows_empty,
            steps: 0,
            figures: 0,
            blocks: 0,
            regions: Vec::new(),
            circulars: 0,
            lines: Vec::new(),
            refused: Vec::new(),
            clashes: Vec::new(),
        }
    }

    pub(crate) fn compare(&mut self, step: &Value, outside: &Value) -> Vec<String> {
        self.steps += 1;
        self.refused.extend(list(&step["refused"]).iter().cloned());
        self.clashes.extend(step.get("clash").cloned());
        let mut inside: Vec<&Value> = list(&step["open"]).iter().collect();
        let mut left: Vec<&Value> = list(&outside["allocators"]).iter().filter(|allocator| allocator["pid"] == step["pid"]).collect();
        if !self.shows_empty && left.len() < inside.len() {
            inside.retain(|view| KINDS.iter().any(|kind| view["kinds"][kind]["allocated_per_bank"] != 0));
        }
        if left.len() != inside.len() {
            return vec![format!("{} open allocators inside, {} outside", inside.len(), left.len())];
        }
        let mut differences = Vec::new();
        let mut pairs = Vec::new();
        for view in inside {
            // Meshes with the same shape on the same chips are distinguished by their content.
            let fits = |allocator: &Value| self.allocator(view, allocator, outside).is_empty();
            let at = left.iter().position(|allocator| fits(allocator)).or_else(|| left.iter().position(|other| is_same_mesh(view, other)));
            let allocator = left.remove(at.unwrap_or(0));
            differences.extend(self.allocator(view, allocator, outside));
            pairs.push((view, allocator));
            for kind in KINDS {
                let kind = &view["kinds"][kind];
                self.figures += FIGURES.iter().filter(|figure| kind["banks"] != 0 && !kind[figure].is_null()).count() as u64;
                self.blocks += list(&kind["table"]).len() as u64;
            }
        }
        differences.extend(self.rows(step, &pairs, outside));
        if differences.is_empty() {
            differences.extend(self.region(step, &pairs, outside));
        }
        differences.extend(overlap(step, outside));
        differences.extend(compare_usage(step, &pairs));
        differences.extend(tagged(step, outside));
        differences.extend(self.circular_buffers(step, &pairs));
        differences
    }

    /// Checks that a program without tracking has no allocators.
    pub(crate) fn control(&mut self, outside: &Value) -> Vec<String> {
        self.steps += 1;
        let shown = list(&outside["allocators"]).len();
        if shown == 0 { Vec::new() } else { vec![format!("{shown} allocators of a program that is not tracked")] }
    }

    /// Compares one mesh inside with one allocator outside.
    fn allocator(&self, view: &Value, allocator: &Value, outside: &Value) -> Vec<String> {
        let mut differences = Vec::new();
        let mesh = list(&view["mesh"]).iter().map(Value::to_string).collect::<Vec<_>>().join("x");
        if allocator["mesh"] != mesh.as_str() {
            differences.push(format!("mesh {mesh} inside, {} outside", allocator["mesh"]));
        }
        if allocator["self_check"]["inexact"] == true {
            differences.push(format!("the hook says that it is inexact: {}", allocator["self_check"]));
        }
        for kind in KINDS {
            let (inside, seen) = (&view["kinds"][kind], &allocator["kinds"][kind]);
            // A kind without a bank does not exist on this device, such as L1_SMALL unless requested.
            if inside["banks"] == 0 && seen["banks"] == 0 && seen["used"] == 0 {
                continue;
            }
            // ttnn 0.69 has no list of blocks; all versions have the other values.
            let has_blocks = !inside["blocks"].is_null();
            for &figure in FIGURES.iter().filter(|figure| has_blocks || **figure != "blocks") {
                if inside[figure] != seen[figure] {
                    differences.push(format!("{kind} {figure}: {} inside, {} outside", inside[figure], seen[figure]));
                }
            }
            let blocks = blocks_outside(outside, &allocator["id"], &allocator["pid"], kind);
            // Old versions do not provide the start of a kind. The table begins at the start of its kind.
            let begins = base(view, kind).or_else(|| blocks.first().map(|block| block.0)).unwrap_or(0);
            let table = blocks_inside(view, kind, begins);
            if has_blocks && differences.is_empty() {
                differences.extend(differ(&format!("{kind} blocks:"), &table, &blocks));
            }
        }
        differences
    }

    /// Checks the chips. Mock chips have no row; they have TT-Metal's numbers and the unique ids of their descriptor. Chips with rows must
    /// be on the right rows.
    fn rows(&self, step: &Value, pairs: &[(&Value, &Value)], outside: &Value) -> Vec<String> {
        if step["rows"].is_array() {
            return on_rows(step, pairs, outside);
        }
        let mut differences = Vec::new();
        for (view, allocator) in pairs {
            if !list(&allocator["devices"]).is_empty() {
                differences.push(format!("mock chips on rows of a machine: {}", allocator["devices"]));
            }
            differences.extend(differ("chips", &chips_of(view), &unmapped(allocator)));
            differences.extend(differ("unique ids", &self.unique_ids(step, view), &unique_ids(allocator, outside)));
        }
        differences
    }

    /// Returns the unique ids of a mesh's chips, in its order; or their metal ids if TT-Metal has no unique ids.
    fn unique_ids(&self, step: &Value, view: &Value) -> Vec<u64> {
        let metal_ids = chips_of(view);
        if !self.has_regions {
            return metal_ids;
        }
        if step["visible"].is_string() {
            // The chips are renumbered. The opened chips are those for which TT-Metal itself wrote statistics.
            let pid = pid_of(step);
            return self.chips.unique_ids.values().copied().filter(|id| region::slot(*id, pid).is_some()).collect();
        }
        metal_ids.iter().map(|id| self.chips.unique_ids.get(id).copied().unwrap_or(*id)).collect()
    }

    /// Compares with TT-Metal's own statistics. Where they should agree with the requested sizes, they must; known errors are reported.
    fn region(&mut self, step: &Value, pairs: &[(&Value, &Value)], outside: &Value) -> Vec<String> {
        let Some(expected) = step["shm"].as_str().filter(|_| self.has_regions) else { return Vec::new() };
        let used = used_by_chip(pairs, outside);
        let pid = pid_of(step);
        let mut wrong = Vec::new();
        for ((chip, kind), used) in &used {
            let published = region::slot(*chip, pid).unwrap_or_default()[*kind];
            let kind = KINDS[*kind];
            if published != *used {
                wrong.push(format!("{kind} {published} B published, {used} B live"));
            }
        }
        wrong.dedup();
        match (expected, wrong.is_empty()) {
            ("agrees", true) => Vec::new(),
            ("agrees", false) => vec![format!("TT-Metal's own statistics disagree: {}", wrong.join(", "))],
            (_, true) => vec!["TT-Metal's own statistics agree, and were expected to be wrong".to_owned()],
            (_, false) => {
                self.regions.push(format!("{}: {}", step["step"].as_str().unwrap_or_default(), wrong.join(", ")));
                Vec::new()
            }
        }
    }

    /// Checks after SIGKILL that TT-Metal's own statistics still have the bytes, and ttmon does not.
    pub(crate) fn after_death(&mut self, step: &Value, memory: impl Fn(u32) -> Result<Value, String>) -> Result<(), String> {
        let pid = pid_of(step);
        let outside = memory(pid)?;
        let live: u64 =
            list(&outside["allocators"]).iter().flat_map(|allocator| KINDS.iter().map(|kind| figure(allocator, kind, "used"))).sum();
        if live > 0 {
            return Err(format!("{live} B outside after its death"));
        }
        if self.has_regions {
            let slots = self.chips.unique_ids.values().filter_map(|id| region::slot(*id, pid));
            let kept: u64 = slots.flatten().sum();
            if kept == 0 {
                return Err("TT-Metal's own statistics forgot it, and were expected to be wrong".to_owned());
            }
            self.regions.push(format!("killed: {kept} B published, 0 B live"));
        }
        Ok(())
    }

    pub(crate) fn summary(&self) -> String {
        let mut text = format!("{} steps, {} figures, {} blocks", self.steps, self.figures, self.blocks);
        if self.circulars > 0 {
            text += &format!(", {} circular buffers", self.circulars);
        }
        if !self.lines.is_empty() {
            text += &format!(", right lines: {}", self.lines.join(", "));
        }
        for region in &self.regions {
            text += &format!("\n    where TT-Metal's own statistics are wrong: {region}");
        }
        text
    }

    /// Compares the L1 usage of the one cached program, and its end.
    fn circular_buffers(&mut self, step: &Value, pairs: &[(&Value, &Value)]) -> Vec<String> {
        let mut differences = Vec::new();
        for (view, allocator) in pairs {
            let seen = circular::seen(allocator);
            if let Some(plan) = step["circulars"].as_array() {
                self.circulars += plan.len() as u64;
                match circular::planned(plan) {
                    Some(planned) if planned == seen => {}
                    planned => differences.push(format!("circular buffers: {planned:?} planned, {seen:?} outside")),
                }
            }
            if let (Some(end), Some(base)) = (step["end"].as_u64(), view["base"]["l1"].as_u64())
                && end != base + seen.per_core
            {
                differences.push(format!("the region of circular buffers ends at {end}, outside at {}", base + seen.per_core));
            }
        }
        differences
    }
}

/// Checks that the first mesh is on these rows in this order, and further meshes on some of them. Each row has the memory of its
/// allocators.
fn on_rows(step: &Value, pairs: &[(&Value, &Value)], outside: &Value) -> Vec<String> {
    let mut differences = Vec::new();
    let first = pairs.first().map_or(&Value::Null, |(_, allocator)| &allocator["devices"]);
    if *first != step["rows"] {
        differences.push(format!("rows {} inside, {first} outside", step["rows"]));
    }
    for device in list(&outside["devices"]) {
        for kind in KINDS {
            let here = pairs.iter().filter(|(_, allocator)| list(&allocator["devices"]).contains(&device["id"]));
            let used: u64 = here.map(|(_, allocator)| figure(allocator, kind, "used")).sum();
            let shown = &device["memory"]["kinds"][kind]["used"];
            // If a process holds a device without reporting memory, the memory is unknown.
            let is_silent = shown.is_null() && !list(&step["rows"]).contains(&device["id"]);
            if *shown != used && !(is_silent && used == 0) {
                differences.push(format!("row {} has {used} B of {kind}, and shows {shown}", device["id"]));
            }
        }
    }
    differences
}

/// Checks that exactly the overlapping live buffers of a chip are reported.
fn overlap(step: &Value, outside: &Value) -> Vec<String> {
    let Some(expected) = step["overlap"].as_bool() else { return Vec::new() };
    let process = list(&outside["processes"]).iter().find(|process| process["pid"] == step["pid"]);
    let bytes = process.map_or(&Value::Null, |process| &process["overlap_bytes"]);
    let is_reported = bytes.as_u64().is_some_and(|bytes| bytes > 0);
    if is_reported == expected { Vec::new() } else { vec![format!("overlap: {expected} inside, {bytes} outside")] }
}

/// Checks that the program's own view equals the view from outside. Its peaks are since the last reset.
fn compare_usage(step: &Value, pairs: &[(&Value, &Value)]) -> Vec<String> {
    let mut differences = Vec::new();
    for (kind, values) in step["asked"].as_object().into_iter().flatten() {
        let used: u64 = pairs.iter().map(|(_, allocator)| figure(allocator, kind, "used")).sum();
        if values[0] != used {
            differences.push(format!("{kind}: the program sees {} B, outside are {used} B", values[0]));
        }
        let largest = &step["largest"][kind];
        if largest.is_u64() && values[1] != *largest {
            differences.push(format!("{kind}: the program sees a peak of {} B, it was {largest} B", values[1]));
        }
    }
    differences
}

/// Checks that a buffer has the tag that the program set.
fn tagged(step: &Value, outside: &Value) -> Vec<String> {
    let Some(tag) = step["tagged"].as_str() else { return Vec::new() };
    let count = list(&outside["buffers"]).iter().filter(|buffer| buffer["tag"] == tag).count();
    if count == 1 { Vec::new() } else { vec![format!("{count} buffers are tagged {tag}, one should be")] }
}

/// Checks that a forked child has no buffers of its parent, and at most the one buffer that it allocated itself.
pub(crate) fn child(outside: &Value) -> Vec<String> {
    let count: u64 =
        list(&outside["allocators"]).iter().flat_map(|allocator| KINDS.iter().map(|kind| figure(allocator, kind, "count"))).sum();
    if count <= 1 { Vec::new() } else { vec![format!("{count} buffers in a forked child that made one")] }
}

/// Returns the difference between two values, if there is one.
fn differ<T: PartialEq + Debug>(what: &str, inside: &T, outside: &T) -> Option<String> {
    (inside != outside).then(|| format!("{what} {inside:?} inside, {outside:?} outside"))
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn pid_of(step: &Value) -> u32 {
    step["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0)
}

fn figure(allocator: &Value, kind: &str, name: &str) -> u64 {
    allocator["kinds"][kind][name].as_u64().unwrap_or(0)
}

fn is_same_mesh(view: &Value, allocator: &Value) -> bool {
    list(&view["chips"]).len() == list(&allocator["unmapped"]).len() + list(&allocator["devices"]).len()
}

/// Returns TT-Metal's numbers of a mesh's chips, in its order.
fn chips_of(view: &Value) -> Vec<u64> {
    list(&view["chips"]).iter().filter_map(Value::as_u64).collect()
}

/// Returns ttmon's names of an allocator's chips that have no row.
fn unmapped(allocator: &Value) -> Vec<u64> {
    list(&allocator["unmapped"]).iter().filter_map(number).collect()
}

/// Returns the unique ids of these chips, or the names if they have no unique ids.
fn unique_ids(allocator: &Value, outside: &Value) -> Vec<u64> {
    let process = list(&outside["processes"]).iter().find(|process| process["pid"] == allocator["pid"]);
    let chips = process.map_or(&[][..], |process| list(&process["unmapped"]));
    let unique_id = |name: u64| chips.iter().find(|chip| number(&chip["id"]) == Some(name)).and_then(|chip| number(&chip["unique_id"]));
    unmapped(allocator).into_iter().map(|name| unique_id(name).unwrap_or(name)).collect()
}

/// Parses an id. Ids are text, because they may have more digits than a JSON number can represent.
fn number(id: &Value) -> Option<u64> {
    id.as_str()?.parse().ok()
}

/// Returns the requested bytes by chip and index of the kind. Allocators of several meshes on one chip add up.
fn used_by_chip(pairs: &[(&Value, &Value)], outside: &Value) -> BTreeMap<(u64, usize), u64> {
    let mut used = BTreeMap::new();
    for (_, allocator) in pairs {
        for chip in unique_ids(allocator, outside) {
            for (index, kind) in KINDS.into_iter().enumerate() {
                *used.entry((chip, index)).or_default() += figure(allocator, kind, "used");
            }
        }
    }
    used
}

/// Address on the device, size, whether it is free.
type Block = (u64, u64, bool);

/// Returns the start of a kind on the device. L1_SMALL is above L1, and TRACE is above DRAM.
fn base(view: &Value, kind: &str) -> Option<u64> {
    let above = |below: &str| Some(view["base"][below].as_u64()? + view["kinds"][below]["bank_bytes"].as_u64()?);
    match kind {
        "l1_small" => above("l1"),
        "trace" => above("dram"),
        _ => view["base"][kind].as_u64(),
    }
}

/// Returns the allocator's table. Its addresses are relative to the start of the kind.
fn blocks_inside(view: &Value, kind: &str, begins: u64) -> BTreeSet<Block> {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let row = |block: &Value| (begins + number(&block[0]), number(&block[1]), block[2] == true);
    list(&view["kinds"][kind]["table"]).iter().map(row).collect()
}

fn blocks_outside(outside: &Value, allocator: &Value, pid: &Value, kind: &str) -> BTreeSet<Block> {
    let mine =
        |block: &&Value| block["allocator"] == *allocator && block["kind"] == kind && (block["pid"].is_null() || block["pid"] == *pid);
    let address = |block: &Value| u64::from_str_radix(block["address"].as_str()?.strip_prefix("0x")?, 16).ok();
    let row = |block: &Value| (address(block).unwrap_or(u64::MAX), block["size"].as_u64().unwrap_or(u64::MAX), block["free"] == true);
    list(&outside["blocks"]).iter().filter(mine).map(row).collect()
}
