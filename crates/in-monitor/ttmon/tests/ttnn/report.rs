//! Compares other outputs of ttmon: the report of `ttmon run` with the exceptions that the program caught, the summaries of
//! `ttmon mem --csv` with those of TT-Metal's MemoryReporter, and the lines of `ttmon events` with those that the script recorded
//! by Python's own means.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::compare::list;

/// Files that both write, with equal bytes.
const SUMMARIES: &[&str] = &["memory_usage_summary.csv", "l1_usage_summary.csv"];

/// A file that is equal except for the numbers of blocks, which only TT-Metal knows.
const DETAILED: &str = "detailed_memory_usage.csv";

/// Minimum percentage of allocations with the right line.
const RIGHT_PERCENT: usize = 99;

/// The numbers of one message: `Out of Memory: ... where each bank needs to store N B, but bank size is N B (allocated: N B, free: N B,
/// largest free block: N B)`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) per_bank: u64,
    pub(crate) free: u64,
    pub(crate) largest_free: u64,
}

/// Returns the differences between the report and the exceptions that the program caught, in order.
pub(crate) fn compare(report: &Value, messages: &[Value], clashes: &[Value]) -> Vec<String> {
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
pub(crate) fn unmet(report: &Value, expected: &Value) -> Vec<String> {
    let expected = expected.as_object().into_iter().flatten();
    let differing = expected.filter(|(path, value)| report.pointer(path) != Some(value));
    differing
        .map(|(path, value)| format!("{path}: {value} expected, {} in the report", report.pointer(path).unwrap_or(&Value::Null)))
        .collect()
}

/// Returns sentences that the summary of `ttmon run` does not have. A sentence is a list of parts on one line.
pub(crate) fn unprinted(summary: &str, sentences: &Value) -> Vec<String> {
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

pub(crate) fn files(theirs: &Path, ours: &Path) -> Vec<String> {
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
pub(crate) fn without_block_ids(text: &str) -> String {
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

/// Compares the tag `line N` of each allocation with its line. There must be at least `least` allocations. Returns the number of correct
/// ones, and of all.
pub(crate) fn lines(events: &str, least: u64) -> Result<(usize, usize), String> {
    let mut wrong: Vec<String> = Vec::new();
    let mut count = 0;
    for event in events.lines() {
        let event: Value = serde_json::from_str(event).map_err(|error| format!("ttmon events --json: {error}"))?;
        let tagged = event["tag"].as_str().and_then(|tag| tag.strip_prefix("line ")?.parse::<u64>().ok());
        // Circular buffers have a program and no line.
        let Some(expected) = tagged.filter(|_| event["op"] == "alloc" && event["program"].is_null()) else { continue };
        count += 1;
        if event["line"]["line"] != expected {
            wrong.push(format!("line {expected}: {}", event["line"]));
        }
    }
    if (count as u64) < least {
        return Err(format!("{count} allocations with a line, at least {least} expected"));
    }
    let right = count - wrong.len();
    if right * 100 < count * RIGHT_PERCENT {
        wrong.truncate(5);
        return Err(format!("{count} allocations, some with another line: {}", wrong.join(", ")));
    }
    Ok((right, count))
}

pub(crate) fn parse(message: &str) -> Option<Message> {
    let number = |before: &str| {
        let rest = message.split_once(before)?.1.trim_start();
        let end = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    };
    Some(Message { per_bank: number("each bank needs to store")?, free: number(" free:")?, largest_free: number("largest free block:")? })
}
