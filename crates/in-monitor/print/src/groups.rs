//! Live buffers by the line, tag or operation that requested them.

use std::io::{self, Write};

use ttmon_model::Snapshot;
use ttmon_model::groups::{BufferGroup, GroupBy, GroupKey};

use crate::csv::write_row;
use crate::memory::with_tag;
use crate::quantity::{ABSENT, age};
use crate::snapshot::print_origin;
use crate::text::{Align, pad};
use crate::{Style, size};

/// Prints one line per group, and the number of omitted groups. `since_s` is the age below which buffers count as new.
pub fn groups(
    snapshot: &Snapshot,
    groups: &[BufferGroup],
    (by, since_s): (GroupBy, Option<f64>),
    left_out: usize,
    style: &Style<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    print_origin(snapshot, out)?;
    let name = match by {
        GroupBy::Line => "line",
        GroupBy::Tag => "tag",
        GroupBy::Op => "operation",
    };
    let new = since_s.map(|seconds| format!("<{seconds}s"));
    let has_growth = groups.iter().any(|group| group.growth.is_some());
    let growth = has_growth.then(|| "growth".to_owned());
    let heading =
        [Some("bytes".to_owned()), Some("buffers".to_owned()), Some("largest".to_owned()), Some("oldest".to_owned()), growth, new];
    writeln!(out, "{}", row(&heading, name, style))?;
    for group in groups {
        let cells = [
            Some(size(group.bytes)),
            Some(group.count.to_string()),
            Some(size(group.largest)),
            Some(group.oldest.map_or_else(|| ABSENT.to_owned(), |oldest| age(oldest, snapshot.time))),
            has_growth.then(|| group.growth.map_or_else(|| ABSENT.to_owned(), signed)),
            group.since.filter(|_| since_s.is_some()).map(size),
        ];
        writeln!(out, "{}", row(&cells, &key(&group.key, by), style))?;
    }
    if left_out > 0 {
        writeln!(out, "and {left_out} more, left out by --top")?;
    }
    Ok(())
}

/// Writes the groups as a table of numbers: bytes, and seconds for ages.
pub fn groups_csv(snapshot: &Snapshot, groups: &[BufferGroup], by: GroupBy, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    let key: &[&str] = match by {
        GroupBy::Line => &["file", "line", "function"],
        GroupBy::Tag => &["tag"],
        GroupBy::Op => &["operation"],
    };
    let figures = ["bytes", "buffers", "largest", "oldest_age_s", "growth_bytes", "since_bytes"];
    write_row(key.iter().chain(&figures).map(|name| (*name).to_owned()), out)?;
    for group in groups {
        let mut cells = match &group.key {
            GroupKey::Line(Some(line)) => vec![style.clean(&line.file), line.line.to_string(), style.clean(&line.function)],
            GroupKey::Line(None) => vec![String::new(); 3],
            GroupKey::Text(text) => vec![text.as_ref().map_or_else(String::new, |text| style.clean(text))],
        };
        let age = group.oldest.map(|oldest| format!("{:.3}", snapshot.time.0.saturating_sub(oldest.0) as f64 / 1e9));
        // A figure that a group does not have is an empty cell.
        let known = |figure: Option<String>| figure.unwrap_or_default();
        cells.extend([group.bytes, group.count, group.largest].map(|figure| figure.to_string()));
        cells.extend([age, group.growth.map(|bytes| bytes.to_string()), group.since.map(|bytes| bytes.to_string())].map(known));
        write_row(cells.into_iter(), out)?;
    }
    Ok(())
}

fn signed(bytes: i64) -> String {
    match bytes {
        0 => "0".to_owned(),
        1.. => format!("+{}", size(bytes.unsigned_abs())),
        _ => format!("-{}", size(bytes.unsigned_abs())),
    }
}

fn row(cells: &[Option<String>; 6], key: &str, style: &Style<'_>) -> String {
    let cells: String = cells.iter().flatten().map(|cell| pad(cell, 9, Align::Right) + " ").collect();
    with_tag(format!("{cells} "), key, style)
}

fn key(key: &GroupKey, by: GroupBy) -> String {
    match key {
        GroupKey::Line(Some(line)) => line.to_string(),
        GroupKey::Line(None) => "(no line)".to_owned(),
        GroupKey::Text(Some(text)) => text.to_string(),
        GroupKey::Text(None) if by == GroupBy::Tag => "(no tag)".to_owned(),
        GroupKey::Text(None) => "(no operation; ttmon run --ops names them)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::tests::{machine, printed};
    use ttmon_model::stack::SourceLine;
    use ttmon_model::units::UnixTime;

    fn group(line: Option<u32>, bytes: u64, growth: Option<i64>) -> BufferGroup {
        let line = line.map(|line| Arc::new(SourceLine { file: "/me/models/decoder, old.py".into(), line, function: "forward".into() }));
        BufferGroup { key: GroupKey::Line(line), bytes, count: 2, largest: bytes, oldest: None, since: Some(1024), growth }
    }

    #[test]
    fn groups_have_growth_where_there_is_a_mark() {
        let snapshot = machine::n300();
        let some = [group(Some(42), 4096, Some(2048)), group(Some(7), 2048, Some(-1024)), group(None, 1024, None)];
        let style = Style::plain("1");
        let text = printed(|out| groups(&snapshot, &some, (GroupBy::Line, Some(60.0)), 3, &style, out));
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('[')).collect();
        assert_eq!(
            lines,
            [
                "    bytes   buffers   largest    oldest    growth      <60s  line",
                "    4.0KB         2     4.0KB       N/A    +2.0KB     1.0KB  models/decoder, ol…",
                "    2.0KB         2     2.0KB       N/A    -1.0KB     1.0KB  models/decoder, ol…",
                "    1.0KB         2     1.0KB       N/A       N/A     1.0KB  (no line)",
                "and 3 more, left out by --top",
            ]
        );
        let none = [group(Some(42), 4096, None)];
        let text = printed(|out| groups(&snapshot, &none, (GroupBy::Line, None), 0, &style, out));
        assert!(!text.contains("growth") && !text.contains("60s"), "{text}");
    }

    #[test]
    fn groups_as_csv_are_numbers() {
        let snapshot = machine::n300();
        let mut first = group(Some(42), 4096, Some(-5));
        first.oldest = Some(UnixTime(snapshot.time.0 - 1_500_000_000));
        let text = printed(|out| groups_csv(&snapshot, &[first, group(None, 1, None)], GroupBy::Line, &Style::plain("1"), out));
        assert_eq!(
            text,
            "file, line, function, bytes, buffers, largest, oldest_age_s, growth_bytes, since_bytes\n\
             \"/me/models/decoder, old.py\", 42, forward, 4096, 2, 4096, 1.500, -5, 1024\n\
             , , , 1, 2, 1, , , 1024\n"
        );
        let tagged = BufferGroup { key: GroupKey::Text(Some(Arc::new("kv \u{1b}[2J".to_owned()))), ..group(None, 1, None) };
        let text = printed(|out| groups_csv(&snapshot, &[tagged], GroupBy::Tag, &Style::plain("1"), out));
        assert!(text.starts_with("tag, bytes") && !text.contains('\u{1b}'), "{text}");
    }
}
