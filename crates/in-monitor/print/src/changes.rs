//! Compares the buffers of two samples: `ttmon mem --diff`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use ttmon_model::Snapshot;

use crate::memory::{print_unlisted, with_tag};
use crate::quantity::size;
use crate::style::Style;

/// One line of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The change.
    pub sign: Sign,
    /// Its process.
    pub pid: u32,
    /// Its kind.
    pub kind: String,
    /// Its address.
    pub address: String,
    /// Its bytes.
    pub bytes: u64,
    /// Its tag.
    pub tag: String,
    /// The line that requested it; empty if unknown.
    pub line: String,
}

/// Change of a buffer between two samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sign {
    /// It is new.
    New,
    /// It was freed.
    Gone,
    /// Unknown: this user may not read its process.
    Unknown,
}

impl Sign {
    /// Returns `+`, `-` or `?`.
    pub fn symbol(self) -> char {
        match self {
            Self::New => '+',
            Self::Gone => '-',
            Self::Unknown => '?',
        }
    }
}

const LINES_MAX: usize = 12;

/// Prints new and freed buffers, with totals and by line, then the current buffers that are not in the list.
pub fn changes(snapshot: &Snapshot, changes: &[Change], style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    for change in changes {
        let (sign, bytes) = (change.sign.symbol(), size(change.bytes));
        let numbers = format!("{sign} {:>7} {:>8} {:>14} {bytes:>10}  ", change.pid, change.kind, change.address);
        let names = [&change.tag, &change.line].map(String::as_str);
        let names = names.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join("  ");
        writeln!(out, "{}", with_tag(style.clean(&numbers), &names, style))?;
    }
    let of = |sign: Sign| changes.iter().filter(move |change| change.sign == sign);
    for (sign, word) in [(Sign::New, "new"), (Sign::Gone, "gone")] {
        let bytes = total(of(sign).map(|change| change.bytes));
        writeln!(out, "{} {} {word}, {}", sign.symbol(), of(sign).count(), size(bytes))?;
    }
    let unknown = total(of(Sign::Unknown).map(|change| change.bytes));
    if of(Sign::Unknown).next().is_some() {
        writeln!(out, "? {} not known, {}: this user may not read their processes", of(Sign::Unknown).count(), size(unknown))?;
    }
    print_changes_by_line(changes, style, out)?;
    print_unlisted(snapshot, out)
}

fn print_changes_by_line(changes: &[Change], style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut lines: BTreeMap<&str, [(u64, u64); 2]> = BTreeMap::new();
    let known = changes.iter().filter(|change| change.sign != Sign::Unknown && !change.line.is_empty());
    for change in known {
        let sums = lines.entry(&change.line).or_default();
        let sum = &mut sums[usize::from(change.sign == Sign::Gone)];
        *sum = (sum.0 + 1, sum.1.saturating_add(change.bytes));
    }
    let mut lines: Vec<_> = lines.into_iter().collect();
    lines.sort_by_key(|(_, [new, gone])| std::cmp::Reverse(new.1.abs_diff(gone.1)));
    if !lines.is_empty() {
        writeln!(out, "by line:")?;
    }
    for (line, [new, gone]) in lines.iter().take(LINES_MAX) {
        let sign = if new.1 < gone.1 { '-' } else { '+' };
        let numbers = format!("{:>9}  {} new, {} gone  ", format!("{sign}{}", size(new.1.abs_diff(gone.1))), new.0, gone.0);
        writeln!(out, "{}", with_tag(numbers, line, style))?;
    }
    if lines.len() > LINES_MAX {
        writeln!(out, "and {} lines more", lines.len() - LINES_MAX)?;
    }
    Ok(())
}

/// Returns the sum, saturating, because a file may contain any sizes.
fn total(sizes: impl Iterator<Item = u64>) -> u64 {
    sizes.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::machine;
    use insta::assert_snapshot;

    #[test]
    fn a_comparison_keeps_its_numbers() {
        let change = |sign, bytes, tag: &str, line: &str| Change {
            sign,
            pid: 7653,
            kind: "dram".to_owned(),
            address: "0x10".to_owned(),
            bytes,
            tag: tag.to_owned(),
            line: line.to_owned(),
        };
        let list = [
            change(Sign::New, 123_456_789, "decoder.layers.17.self_attn.qkv_proj.weight (bfloat8_b)", ""),
            change(Sign::New, 4096, "", "m/a.py:3 f"),
            change(Sign::New, 8192, "kv", "m/b.py:7"),
            change(Sign::Gone, u64::MAX, "\u{1b}[2J", ""),
            change(Sign::Gone, u64::MAX, "", ""),
            change(Sign::Gone, 1024, "", "m/a.py:3 f"),
            change(Sign::Unknown, 512, "kv", "m/b.py:7"),
        ];
        let mut out = Vec::new();
        let style = Style::plain("0");
        changes(&machine::n300(), &list, &style, &mut out).unwrap();
        let printed = String::from_utf8(out).unwrap();
        assert_snapshot!(printed, @"
        +    7653     dram           0x10    117.7MB  decoder.layers.17.self_attn.qkv_p…
        +    7653     dram           0x10      4.0KB  m/a.py:3 f
        +    7653     dram           0x10      8.0KB  kv  m/b.py:7
        -    7653     dram           0x10     16.0EB  ·[2J
        -    7653     dram           0x10     16.0EB
        -    7653     dram           0x10      1.0KB  m/a.py:3 f
        ?    7653     dram           0x10       512B  kv  m/b.py:7
        + 3 new, 117.7MB
        - 3 gone, 16.0EB
        ? 1 not known, 512B: this user may not read their processes
        by line:
           +8.0KB  1 new, 0 gone  m/b.py:7
           +3.0KB  1 new, 1 gone  m/a.py:3 f
        ");
    }
}
