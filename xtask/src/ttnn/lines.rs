//! Compares the source line of each allocation with the line that the script recorded by Python's own means.

use serde_json::Value;

/// Minimum percentage of allocations with the right line.
const RIGHT_PERCENT: usize = 99;

/// Compares the tag `line N` of each allocation with its line. There must be at least `least` allocations. Returns the number of correct
/// ones, and of all.
pub(super) fn compare(events: &str, least: u64) -> Result<(usize, usize), String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_a_hundred_may_be_wrong() {
        let event =
            |line: u64| format!(r#"{{"op": "alloc", "tag": "line 7", "line": {{"file": "a.py", "line": {line}, "function": "f"}}}}"#);
        let events = |wrong: usize| (0..200).map(|number| event(if number < wrong { 8 } else { 7 })).collect::<Vec<_>>().join("\n");
        assert_eq!(compare(&events(2), 200), Ok((198, 200)));
        assert!(compare(&events(3), 200).is_err_and(|why| why.contains("line 7: {")));
        assert!(compare(&events(0), 201).is_err());
        let others = r#"{"op": "free", "tag": "line 7", "line": null}
{"op": "alloc", "tag": "x", "line": null}
{"op": "alloc", "tag": "line 9", "program": 3}"#;
        assert_eq!(compare(others, 0), Ok((0, 0)));
        assert!(compare("no", 0).is_err());
    }
}
