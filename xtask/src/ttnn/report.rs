//! Compares files of ttmon with TT-Metal: the report of `ttmon run` with the exceptions that the program caught, and the summaries of
//! `ttmon mem --csv` with those of TT-Metal's MemoryReporter.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::compare::list;

/// Files that both write, with equal bytes.
const SUMMARIES: &[&str] = &["memory_usage_summary.csv", "l1_usage_summary.csv"];

/// A file that is equal except for the numbers of blocks, which only TT-Metal knows.
const DETAILED: &str = "detailed_memory_usage.csv";

/// The numbers of one message: `Out of Memory: ... where each bank needs to store N B, but bank size is N B (allocated: N B, free: N B,
/// largest free block: N B)`.
#[derive(Debug, PartialEq, Eq)]
struct Message {
    per_bank: u64,
    free: u64,
    largest_free: u64,
}

/// Returns the differences between the report and the exceptions that the program caught, in order.
pub(super) fn compare(report: &Value, messages: &[Value], clashes: &[Value]) -> Vec<String> {
    let mut differences = Vec::new();
    if report["exit"] != 0 {
        differences.push(format!("the report says exit {}", report["exit"]));
    }
    differences.extend(clashed(list(&report["clashes"]), clashes));
    let oom = list(&report["oom"]);
    if oom.len() != messages.len() {
        differences.push(format!("{} times out of memory inside, {} in the report", messages.len(), oom.len()));
        return differences;
    }
    for (inside, outside) in messages.iter().zip(oom) {
        if inside["kind"] != outside["kind"] {
            differences.push(format!("out of {} inside, of {} in the report", inside["kind"], outside["kind"]));
        }
        let Some(message) = inside["message"].as_str().and_then(parse) else {
            differences.push(format!("a message of another form: {}", inside["message"]));
            continue;
        };
        let figures = [
            ("free_per_bank", message.free),
            ("largest_free_per_bank", message.largest_free),
            // The requested size is rounded up to a block.
            ("per_bank", message.per_bank.next_multiple_of(32)),
        ];
        for (name, figure) in figures {
            if outside[name] != figure {
                differences.push(format!("{name}: {figure} in the message, {} in the report", outside[name]));
            }
        }
        differences.extend(unsaid(inside, outside));
        let fits = message.per_bank <= message.free;
        if outside["fits_without_fragmentation"] != fits {
            differences.push(format!("it would have fitted in one piece: {fits}, in the report {}", outside["fits_without_fragmentation"]));
        }
    }
    differences
}

/// Returns parts of a sentence that the report does not have.
fn unsaid(inside: &Value, outside: &Value) -> Vec<String> {
    let words = outside["words"].as_str().unwrap_or_default();
    let parts = inside["says"].as_array().into_iter().flatten().filter_map(Value::as_str);
    parts.filter(|part| !words.contains(part)).map(|part| format!("not said: {part:?}, but {words:?}")).collect()
}

/// Returns the values that a script expects, by JSON pointer, and that the report does not have.
pub(super) fn unmet(report: &Value, expected: &Value) -> Vec<String> {
    let expected = expected.as_object().into_iter().flatten();
    let differing = expected.filter(|(path, value)| report.pointer(path) != Some(value));
    differing
        .map(|(path, value)| format!("{path}: {value} expected, {} in the report", report.pointer(path).unwrap_or(&Value::Null)))
        .collect()
}

/// Returns sentences that the summary of `ttmon run` does not have. A sentence is a list of parts on one line.
pub(super) fn unprinted(summary: &str, sentences: &Value) -> Vec<String> {
    let is_missing = |parts: &&Value| {
        let parts: Vec<&str> = parts.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        !summary.lines().any(|line| parts.iter().all(|part| line.contains(part)))
    };
    sentences.as_array().into_iter().flatten().filter(is_missing).map(|parts| format!("not printed: {parts}")).collect()
}

/// Checks that a clash has TT-Metal's own message.
fn clashed(outside: &[Value], inside: &[Value]) -> Vec<String> {
    let first_line = |clash: &Value| {
        let text = clash["message"].as_str().unwrap_or_default();
        text.lines().find(|line| line.contains("clash with L1 buffers")).unwrap_or(text).to_owned()
    };
    let lines = |clashes: &[Value]| clashes.iter().map(first_line).collect::<Vec<_>>();
    let unsaid = inside.iter().zip(outside).flat_map(|(inside, outside)| unsaid(inside, outside)).collect();
    let (inside, outside) = (lines(inside), lines(outside));
    if inside == outside { unsaid } else { vec![format!("clashes: {inside:?} inside, {outside:?} in the report")] }
}

pub(super) fn files(theirs: &Path, ours: &Path) -> Vec<String> {
    let read = |folder: &Path, name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| format!("{}: {error}", path.display()))
    };
    let pairs = SUMMARIES.iter().map(|name| (name, read(theirs, name), read(ours, name)));
    let blocks = |folder: &Path| without_block_ids(&read(folder, DETAILED));
    let pairs = pairs.chain([(&DETAILED, blocks(theirs), blocks(ours))]);
    let differing = pairs.filter(|(_, theirs, ours)| theirs != ours);
    differing.map(|(name, theirs, ours)| format!("{name}: TT-Metal writes {theirs:?}, ttmon {ours:?}")).collect()
}

/// Returns a dump of blocks in address order, with the number of blocks in each size class instead of their ids.
fn without_block_ids(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut table: Vec<(u64, u64, &str)> = Vec::new();
    for line in text.lines().chain([""]) {
        let cells: Vec<&str> = line.split_whitespace().collect();
        if let [_, address, size, _, _, allocated @ ("yes" | "no")] = cells.as_slice() {
            table.push((address.parse().unwrap_or(u64::MAX), size.parse().unwrap_or(u64::MAX), allocated));
            continue;
        }
        table.sort_unstable();
        lines.extend(table.drain(..).map(|(address, size, allocated)| format!("{address} {size} {allocated}")));
        match line.split_once("blocks: ") {
            Some((class, ids)) if class.contains("Size class") => lines.push(format!("{class}{}", ids.split_whitespace().count())),
            _ if line.starts_with("Free slots") => {}
            _ => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}

fn parse(message: &str) -> Option<Message> {
    let number = |before: &str| {
        let rest = message.split_once(before)?.1.trim_start();
        let end = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    };
    Some(Message { per_bank: number("each bank needs to store")?, free: number(" free:")?, largest_free: number("largest free block:")? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TEXT: &str = "TT_FATAL: Out of Memory: Not enough space to allocate 640 B L1 buffer across 64 banks, where each bank needs to \
        store 10 B, but bank size is 90 B (allocated: 70 B, free: 20 B, largest free block: 8 B)";

    #[test]
    fn numbers_of_a_message_are_read() {
        assert_eq!(parse(TEXT), Some(Message { per_bank: 10, free: 20, largest_free: 8 }));
        assert_eq!(parse("Out of Memory: no numbers"), None);
    }

    #[test]
    fn blocks_are_compared_without_their_numbers() {
        let theirs = ",DRAM\n  Size class 0: (1 - 2) blocks: 7 3 \nFree slots in block table: 5 \nBlock table:\n 7 64 9 2 none no\n 2 0 64 none 7 yes\n,L1\n";
        let ours = ",DRAM\n  Size class 0: (1 - 2) blocks: 1 0 \nFree slots in block table: \nBlock table:\n 0 0 64 none 1 yes\n 1 64 9 0 none no\n,L1\n";
        assert_eq!(without_block_ids(theirs), without_block_ids(ours));
        for (is, other) in [("64 9", "64 8"), ("yes", "no"), ("blocks: 1 0", "blocks: 1")] {
            assert_ne!(without_block_ids(theirs), without_block_ids(&ours.replacen(is, other, 1)), "{is}");
        }
    }

    #[test]
    fn a_report_is_compared_with_them() {
        let messages = [json!({"kind": "l1", "message": TEXT})];
        let oom =
            json!({"kind": "l1", "free_per_bank": 20, "largest_free_per_bank": 8, "per_bank": 32, "fits_without_fragmentation": true});
        assert_eq!(compare(&json!({"exit": 0, "oom": [oom]}), &messages, &[]), [""; 0]);
        let mut said = (oom.clone(), messages[0].clone());
        (said.0["words"], said.1["says"]) = (json!("would fit if not fragmented"), json!(["fragmented", "by line 7"]));
        let found = compare(&json!({"exit": 0, "oom": [said.0]}), &[said.1], &[]);
        assert_eq!(found, [r#"not said: "by line 7", but "would fit if not fragmented""#]);
        let report = json!({"phases": [{"count": 3}]});
        assert_eq!(unmet(&report, &json!({"/phases/0/count": 3})), [""; 0]);
        assert_eq!(unmet(&report, &json!({"/phases/1/count": 3})), ["/phases/1/count: 3 expected, null in the report"]);
        assert_eq!(unmet(&report, &Value::Null), [""; 0]);
        let sentences = json!([["phase step", "host +64"], ["phase step", "host +65"]]);
        assert_eq!(unprinted("a\nphase step: host +64MB\nhost +65MB", &sentences), [r#"not printed: ["phase step","host +65"]"#]);
        let mut wrong = oom.clone();
        wrong["free_per_bank"] = 21.into();
        assert_eq!(compare(&json!({"exit": 0, "oom": [wrong]}), &messages, &[]), ["free_per_bank: 20 in the message, 21 in the report"]);
        let clash = [json!({"message": "TT_THROW\ninfo:\nbuffers clash with L1 buffers at 1\nbacktrace"})];
        let same = json!({"exit": 0, "oom": [], "clashes": [{"message": "buffers clash with L1 buffers at 1"}]});
        assert_eq!(compare(&same, &[], &clash), [""; 0]);
        assert_eq!(compare(&same, &[], &[]).len(), 1);
        let found = compare(&json!({"exit": 1, "oom": []}), &messages, &[]);
        assert_eq!(found, ["the report says exit 1", "1 times out of memory inside, 0 in the report"]);
    }
}
