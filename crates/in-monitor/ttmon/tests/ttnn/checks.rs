//! Tests of the comparisons: what is equal passes, and each difference is found.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use crate::case::CASES;
use crate::circular::{Taken, core_range_set, planned};
use crate::compare::{FIGURES, Scene};
use crate::drive;
use crate::mock::{Chips, DESCRIPTORS, unique_ids};
use crate::region::{self, KINDS, SLOT_BYTES, SLOTS_AT};
use crate::report::{self, Message, without_block_ids};

/// Tests of this program itself, which run without ttnn too.
pub(crate) const CHECKS: &[(&str, fn())] = &[
    ("case::names_are_unique_and_their_files_exist", names_are_unique_and_their_files_exist),
    ("compare::equal_views_pass", equal_views_pass),
    ("compare::every_figure_counts", every_figure_counts),
    ("compare::blocks_rows_meshes_and_allocators_count", blocks_rows_meshes_and_allocators_count),
    ("circular::cores_are_counted", cores_are_counted),
    ("circular::buffers_of_a_program_stack_on_each_core", buffers_of_a_program_stack_on_each_core),
    ("report::one_of_a_hundred_may_be_wrong", one_of_a_hundred_may_be_wrong),
    ("mock::ids_are_read_in_both_notations", ids_are_read_in_both_notations),
    ("mock::each_case_has_its_own_ids", each_case_has_its_own_ids),
    ("region::a_slot_is_found_by_its_process", a_slot_is_found_by_its_process),
    ("report::numbers_of_a_message_are_read", numbers_of_a_message_are_read),
    ("report::blocks_are_compared_without_their_numbers", blocks_are_compared_without_their_numbers),
    ("report::refusals_and_clashes_are_compared", refusals_and_clashes_are_compared),
    ("report::expected_values_and_sentences_are_searched", expected_values_and_sentences_are_searched),
];

fn names_are_unique_and_their_files_exist() {
    let names: BTreeSet<&str> = CASES.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), CASES.len());
    for case in CASES {
        assert!(Path::new(drive::SCRIPTS).join(case.script).exists(), "{}", case.script);
        assert!(Path::new(DESCRIPTORS).join(format!("{}.yaml", case.chips)).exists(), "{}", case.chips);
    }
}

fn kind(allocated: u64) -> Value {
    json!({"banks": 12, "bank_bytes": 1000, "allocated_per_bank": allocated, "free_per_bank": 1000 - allocated,
        "largest_free_per_bank": 1000 - allocated, "blocks": 2, "table": [[0, allocated, false], [allocated, 1000 - allocated, true]]})
}

/// A mesh of two chips with bytes in each kind.
fn step() -> Value {
    let kinds = json!({"dram": kind(64), "l1": kind(32), "l1_small": kind(96), "trace": kind(128)});
    json!({"step": "s", "pid": 7, "open": [{"chips": [1, 0], "mesh": [1, 2], "base": {"dram": 5000, "l1": 300}, "kinds": kinds}]})
}

/// The expected output of ttmon.
fn outside() -> Value {
    let mut blocks = Vec::new();
    for (name, base, allocated) in [("dram", 5000, 64), ("l1", 300, 32), ("l1_small", 1300, 96), ("trace", 6000, 128)] {
        for (address, size, free) in [(base, allocated, false), (base + allocated, 1000 - allocated, true)] {
            blocks.push(json!({"allocator": 3, "kind": name, "address": format!("{address:#x}"), "size": size, "free": free}));
        }
    }
    let kinds = step()["open"][0]["kinds"].clone();
    let allocator = json!({"id": 3, "pid": 7, "mesh": "1x2", "devices": [], "unmapped": ["1", "0"], "kinds": kinds});
    let process = json!({"pid": 7, "unmapped": [{"id": "0", "unique_id": "70"}, {"id": "1", "unique_id": "71"}]});
    json!({"processes": [process], "allocators": [allocator, {"id": 4, "pid": 8}], "blocks": blocks})
}

fn differences(change: impl Fn(&mut Value)) -> Vec<String> {
    let chips = Chips { descriptor: "t".into(), unique_ids: BTreeMap::from([(0, 70), (1, 71)]) };
    let mut outside = outside();
    change(&mut outside);
    Scene::new(&chips, true, true).compare(&step(), &outside)
}

fn equal_views_pass() {
    assert_eq!(differences(|_| ()), [""; 0]);
}

fn every_figure_counts() {
    for kind in KINDS {
        for figure in FIGURES {
            let inside = step()["open"][0]["kinds"][kind][figure].clone();
            let found = differences(|outside| outside["allocators"][0]["kinds"][kind][figure] = 1.into());
            assert_eq!(found, [format!("{kind} {figure}: {inside} inside, 1 outside")]);
        }
        let found = differences(|outside| outside["allocators"][0]["kinds"][kind] = Value::Null);
        assert_eq!(found.len(), FIGURES.len(), "a kind that is missing: {found:?}");
    }
}

fn blocks_rows_meshes_and_allocators_count() {
    let with = |at: &str, value: Value| differences(|outside| *outside.pointer_mut(at).unwrap() = value.clone());
    let tables = "{(5000, 64, false), (5064, 936, true)} inside, {(5001, 64, false), (5064, 936, true)} outside";
    assert_eq!(with("/blocks/0/address", "0x1389".into()), [format!("dram blocks: {tables}")]);
    assert_eq!(with("/allocators/0/devices", json!([0])), ["mock chips on rows of a machine: [0]"]);
    let swapped = ["chips [1, 0] inside, [0, 1] outside", "unique ids [71, 70] inside, [70, 71] outside"];
    assert_eq!(with("/allocators/0/unmapped", json!(["0", "1"])), swapped);
    let unknown = ["unique ids [71, 70] inside, [71, 0] outside"];
    assert_eq!(with("/processes/0/unmapped/0/unique_id", Value::Null), unknown);
    assert_eq!(with("/allocators/0/mesh", "2x1".into()), ["mesh 1x2 inside, \"2x1\" outside"]);
    assert_eq!(with("/allocators/0/pid", 9.into()), ["1 open allocators inside, 0 outside"]);
}

fn cores_are_counted() {
    assert_eq!(core_range_set("{[0-0 - 7-1]}").unwrap().len(), 16);
    assert_eq!(core_range_set("{[0-0 - 7-0], [0-1 - 3-1]}").unwrap().len(), 12);
    assert_eq!(core_range_set("{}"), Some(vec![]));
    assert_eq!(core_range_set("{[0-0 - 7]}"), None);
}

fn buffers_of_a_program_stack_on_each_core() {
    let buffer = |size: u64, cores: &str, shared: bool| json!({"size": size, "cores": cores, "shared": shared});
    let plan = [buffer(100, "{[0-0 - 1-0]}", false), buffer(50, "{[1-0 - 1-0]}", false), buffer(999, "{[0-0 - 1-0]}", true)];
    assert_eq!(planned(&plan), Some(Taken { bytes: 250, per_core: 150 }));
    assert_eq!(planned(&[]), Some(Taken::default()));
    assert_eq!(planned(&[json!({"size": 1})]), None);
}

fn one_of_a_hundred_may_be_wrong() {
    let event = |line: u64| format!(r#"{{"op": "alloc", "tag": "line 7", "line": {{"file": "a.py", "line": {line}, "function": "f"}}}}"#);
    let events = |wrong: usize| (0..200).map(|number| event(if number < wrong { 8 } else { 7 })).collect::<Vec<_>>().join("\n");
    assert_eq!(report::lines(&events(2), 200), Ok((198, 200)));
    assert!(report::lines(&events(3), 200).is_err_and(|why| why.contains("line 7: {")));
    assert!(report::lines(&events(0), 201).is_err());
    let others = r#"{"op": "free", "tag": "line 7", "line": null}
{"op": "alloc", "tag": "x", "line": null}
{"op": "alloc", "tag": "line 9", "program": 3}"#;
    assert_eq!(report::lines(others, 0), Ok((0, 0)));
    assert!(report::lines("no", 0).is_err());
}

fn ids_are_read_in_both_notations() {
    let expected = Some(BTreeMap::from([(0, 70), (1, 71)]));
    assert_eq!(unique_ids("arch: {0: a}\nchip_unique_ids: {0: 70, 1: 71}\nchips: {2: 9}\n"), expected);
    assert_eq!(unique_ids("chip_unique_ids:\n  0: 70\n  1: 71\nethernet_connections: [1]\n"), expected);
    assert_eq!(unique_ids("arch: {}\n"), None);
}

fn each_case_has_its_own_ids() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [one, other] = [&folders[0], &folders[1]].map(|folder| Chips::new("galaxy", folder.path()));
    let [ids, other_ids] = [&one, &other].map(|chips| chips.unique_ids.values().copied().collect::<BTreeSet<u64>>());
    assert!(ids.len() == 32 && other_ids.len() == 32 && ids.is_disjoint(&other_ids), "{ids:?} {other_ids:?}");
    let written = unique_ids(&std::fs::read_to_string(&one.descriptor).unwrap());
    assert_eq!(written.as_ref(), Some(&one.unique_ids));
}

fn a_slot_is_found_by_its_process() {
    let mut bytes = vec![0; 8576];
    let at = SLOTS_AT + 3 * SLOT_BYTES;
    bytes[at..at + 4].copy_from_slice(&4242_u32.to_le_bytes());
    for (number, kind) in (1_u64..).zip(0..4) {
        bytes[at + 8 + kind * 8..at + 16 + kind * 8].copy_from_slice(&number.to_le_bytes());
    }
    assert_eq!(region::parse(&bytes, 4242), Some([1, 2, 3, 4]));
    assert_eq!(region::parse(&bytes, 4243), None);
    assert_eq!(region::parse(&bytes[..900], 4242), None);
}

const MESSAGE: &str = "TT_FATAL: Out of Memory: Not enough space to allocate 640 B L1 buffer across 64 banks, where each bank needs to \
    store 10 B, but bank size is 90 B (allocated: 70 B, free: 20 B, largest free block: 8 B)";

fn numbers_of_a_message_are_read() {
    assert_eq!(report::parse(MESSAGE), Some(Message { per_bank: 10, free: 20, largest_free: 8 }));
    assert_eq!(report::parse("Out of Memory: no numbers"), None);
}

fn blocks_are_compared_without_their_numbers() {
    let theirs = ",DRAM\n  Size class 0: (1 - 2) blocks: 7 3 \nFree slots in block table: 5 \nBlock table:\n 7 64 9 2 none no\n \
        2 0 64 none 7 yes\n,L1\n";
    let ours = ",DRAM\n  Size class 0: (1 - 2) blocks: 1 0 \nFree slots in block table: \nBlock table:\n 0 0 64 none 1 yes\n \
        1 64 9 0 none no\n,L1\n";
    assert_eq!(without_block_ids(theirs), without_block_ids(ours));
    for (is, other) in [("64 9", "64 8"), ("yes", "no"), ("blocks: 1 0", "blocks: 1")] {
        assert_ne!(without_block_ids(theirs), without_block_ids(&ours.replacen(is, other, 1)), "{is}");
    }
}

fn refusals_and_clashes_are_compared() {
    let messages = [json!({"kind": "l1", "message": MESSAGE})];
    let refusal =
        json!({"kind": "l1", "free_per_bank": 20, "largest_free_per_bank": 8, "per_bank": 32, "fits_without_fragmentation": true});
    assert_eq!(report::compare(&json!({"exit": 0, "oom": [refusal]}), &messages, &[]), [""; 0]);
    let (mut with_words, mut expected) = (refusal.clone(), messages[0].clone());
    (with_words["words"], expected["says"]) = (json!("would fit if not fragmented"), json!(["fragmented", "by line 7"]));
    let found = report::compare(&json!({"exit": 0, "oom": [with_words]}), &[expected], &[]);
    assert_eq!(found, [r#"not said: "by line 7", but "would fit if not fragmented""#]);
    let mut wrong = refusal;
    wrong["free_per_bank"] = 21.into();
    let found = report::compare(&json!({"exit": 0, "oom": [wrong]}), &messages, &[]);
    assert_eq!(found, ["free_per_bank: 20 in the message, 21 in the report"]);
    let found = report::compare(&json!({"exit": 1, "oom": []}), &messages, &[]);
    assert_eq!(found, ["the report says exit 1", "1 times out of memory inside, 0 in the report"]);

    let clash = [json!({"message": "TT_THROW\ninfo:\nbuffers clash with L1 buffers at 1\nbacktrace"})];
    let same = json!({"exit": 0, "oom": [], "clashes": [{"message": "buffers clash with L1 buffers at 1"}]});
    assert_eq!(report::compare(&same, &[], &clash), [""; 0]);
    assert_eq!(report::compare(&same, &[], &[]).len(), 1);
}

fn expected_values_and_sentences_are_searched() {
    let report = json!({"phases": [{"count": 3}]});
    assert_eq!(report::unmet(&report, &json!({"/phases/0/count": 3})), [""; 0]);
    assert_eq!(report::unmet(&report, &json!({"/phases/1/count": 3})), ["/phases/1/count: 3 expected, null in the report"]);
    assert_eq!(report::unmet(&report, &Value::Null), [""; 0]);
    let sentences = json!([["phase step", "host +64"], ["phase step", "host +65"]]);
    let found = report::unprinted("a\nphase step: host +64MB\nhost +65MB", &sentences);
    assert_eq!(found, [r#"not printed: ["phase step","host +65"]"#]);
}
