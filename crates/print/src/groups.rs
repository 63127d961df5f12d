//! Live buffers by the line, tag or operation that requested them.

use std::io::{self, Write};

use ttmon_model::Snapshot;
use ttmon_model::groups::{BufferGroup, GroupBy, GroupKey};

use crate::memory::line;
use crate::quantity::{ABSENT, age};
use crate::snapshot::origin_mark;
use crate::text::{Align, pad};
use crate::{Style, size};

/// Prints one line per group, and the number of omitted ones. `since_s` is the age below which buffers count as new.
pub fn groups(
    snapshot: &Snapshot,
    groups: &[BufferGroup],
    (by, since_s): (GroupBy, Option<f64>),
    left_out: usize,
    style: &Style<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mark = origin_mark(snapshot);
    if !mark.is_empty() {
        writeln!(out, "{mark}")?;
    }
    let name = match by {
        GroupBy::Line => "line",
        GroupBy::Tag => "tag",
        GroupBy::Op => "operation",
    };
    let new = since_s.map(|seconds| format!("<{seconds}s"));
    let heading = [Some("bytes".to_owned()), Some("buffers".to_owned()), Some("largest".to_owned()), Some("oldest".to_owned()), new];
    writeln!(out, "{}", row(&heading, name, style))?;
    for group in groups {
        let cells = [
            Some(size(group.bytes)),
            Some(group.count.to_string()),
            Some(size(group.largest)),
            Some(group.oldest.map_or_else(|| ABSENT.to_owned(), |oldest| age(oldest, snapshot.time))),
            group.since.filter(|_| since_s.is_some()).map(size),
        ];
        writeln!(out, "{}", row(&cells, &key(&group.key, by), style))?;
    }
    if left_out > 0 {
        writeln!(out, "and {left_out} more, left out by --top")?;
    }
    Ok(())
}

fn row(cells: &[Option<String>; 5], key: &str, style: &Style<'_>) -> String {
    let cells: String = cells.iter().flatten().map(|cell| pad(cell, 9, Align::Right) + " ").collect();
    line(&format!("{cells} {key}"), style)
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
