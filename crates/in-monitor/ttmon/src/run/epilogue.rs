//! Formats the summary that is printed after the command has ended.

use std::collections::BTreeMap;
use std::time::Duration;

use ttmon_buffer_history::{ChipName, ChipUsage, CommandEnd, KindUsage, Leftover, RunSummary, buffers};
use ttmon_model::event::Large;
use ttmon_model::groups::sums;
use ttmon_model::ledger::{BufferKind, PeakGroup};
use ttmon_model::limits::grouped;
use ttmon_model::memory::Kind;
use ttmon_model::stack::SourceLine;
use ttmon_print::quantity::exact_percent;
use ttmon_print::text::{self, Cut};
use ttmon_print::{Style, percent, size};

use super::source::SourceTexts;

mod usage;

/// Maximum number of lines of the summary, about one screen.
const LINES_MAX: usize = 24;
/// Maximum number of groups that are listed for a peak. The rest is "other".
const GROUPS: usize = 3;
const REFUSALS: usize = 3;
const LEFTOVERS: usize = 3;
/// Longer texts of source lines are truncated.
const SOURCE_COLUMNS: usize = 60;
/// Longer tags are truncated.
const TAG_COLUMNS: usize = 40;
/// Minimum and maximum columns for the command.
const COMMAND_COLUMNS: std::ops::RangeInclusive<usize> = 20..=60;
/// Indentation of a continued line.
const INDENT: usize = 4;
const ELLIPSIS: &str = "...";
/// Prefix of the first line.
const PROGRAM: &str = "ttmon: ";

/// Returns the lines. On a terminal, no line is wider than `columns`.
pub(crate) fn lines(run: &RunSummary, style: &Style, columns: Option<usize>) -> Vec<String> {
    let writer = Writer { run, style, texts: SourceTexts::of(run) };
    let mut lines = vec![writer.head(columns)];
    if !run.is_empty() {
        lines.extend(writer.chips());
        lines.extend(writer.peaks());
        lines.extend(writer.leaks());
        lines.extend(writer.refusals());
        lines.extend(writer.tightest());
        lines.extend(writer.phases());
        lines.extend(writer.traces());
        lines.extend(writer.host());
        lines.extend(writer.remarks());
    }
    if let Some(columns) = columns {
        lines = lines.iter().flat_map(|line| fold(line, columns)).collect();
    }
    let more = lines.len().saturating_sub(LINES_MAX);
    if more > 0 {
        lines.truncate(LINES_MAX - 1);
        lines.push(format!("  {} more lines; --report FILE has everything", more + 1));
    }
    lines
}

struct Writer<'a> {
    run: &'a RunSummary,
    style: &'a Style<'a>,
    texts: SourceTexts,
}

impl Writer<'_> {
    /// `ttmon: python model.py: exit 0 after 2m13s, 18,204 allocations, about 0.1% time in tracking (66,515 calls, 8ms)`
    fn head(&self, columns: Option<usize>) -> String {
        let run = self.run;
        let end = match run.end {
            CommandEnd::Exit(code) => format!("exit {code}"),
            CommandEnd::Signal(signal) => signal_hook::low_level::signal_name(signal).map_or(format!("signal {signal}"), str::to_owned),
        };
        let took = duration(Duration::from_nanos(run.span.1.saturating_sub(run.span.0)));
        let what = if run.is_empty() {
            run.why_empty()
        } else {
            let count = run.allocations();
            let overhead = run.overhead().map(|overhead| {
                let (share, calls, took) = (exact_percent(overhead.ratio), grouped(overhead.calls), overhead.nanoseconds / 1_000_000);
                format!(", about {share} time in tracking ({calls} calls, {}ms)", grouped(took))
            });
            format!("{} allocation{}{}", grouped(count), if count == 1 { "" } else { "s" }, overhead.unwrap_or_default())
        };
        let rest = format!(": {end} after {took}, {what}");
        let room = columns.map_or(usize::MAX, |columns| columns.saturating_sub(text::width(PROGRAM) + text::width(&rest)));
        let room = room.clamp(*COMMAND_COLUMNS.start(), *COMMAND_COLUMNS.end());
        // Keep both ends: the script name is at the beginning, its arguments at the end.
        let command = text::cut(&self.style.clean(&run.command.join(" ")), room, Cut::Middle, ELLIPSIS);
        format!("{PROGRAM}{command}{rest}")
    }

    /// Formats one line for chips with equal figures, such as those of a mesh: `devices 0-31  DRAM peak ...`.
    fn chips(&self) -> Vec<String> {
        let mut alike: Vec<(String, Vec<ChipName>)> = Vec::new();
        for (name, chip) in &self.run.chips {
            let text = self.chip(chip);
            match alike.iter_mut().find(|(other, _)| *other == text) {
                Some((_, chips)) => chips.push(*name),
                None => alike.push((text, vec![*name])),
            }
        }
        let names: Vec<String> = alike.iter().map(|(_, chips)| ChipName::list(chips)).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        alike.iter().zip(names).map(|((text, _), name)| format!("  {name:width$}  {text}")).collect()
    }

    fn chip(&self, chip: &ChipUsage) -> String {
        let kinds = Kind::BANKED.into_iter().filter_map(|kind| Some((kind, chip.kinds.get(&BufferKind::Of(kind))?)));
        let mut parts: Vec<String> = kinds.filter(|(_, usage)| usage.peak > 0).map(|(kind, usage)| self.peak(kind, usage)).collect();
        parts.push(match (chip.leaked, chip.cached) {
            ((0, _), (0, _)) => "free at end: all".to_owned(),
            ((0, _), (_, bytes)) => format!("free at end: all but {} of the program cache", size(bytes)),
            ((count, bytes), _) => format!("LEFT {} in {}", size(bytes), buffers(count)),
        });
        parts.join("   ")
    }

    /// `DRAM peak 9.8GB of 12.0GB (82%) at 00:41`
    fn peak(&self, kind: Kind, usage: &KindUsage) -> String {
        let least = if usage.is_at_least { "at least " } else { "" };
        let mut text = format!("{} peak {least}{}", kind.name().to_uppercase(), size(usage.peak));
        if let Some(limit) = usage.limit().filter(|limit| *limit > 0) {
            text += &format!(" of {} ({})", size(limit), percent(usage.peak as f64 / limit as f64));
        }
        text + &format!(" at {}", clock(usage.peak_time.saturating_sub(self.run.span.0)))
    }

    /// Lists the largest groups at the highest DRAM peak and at the highest L1 peak.
    fn peaks(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for kind in [Kind::Dram, Kind::L1] {
            let chips = self.run.chips.iter().filter_map(|(name, chip)| Some((name, chip.kinds.get(&BufferKind::Of(kind))?)));
            let highest = chips.filter(|(_, usage)| usage.peak > 0).max_by_key(|(name, usage)| (usage.peak, std::cmp::Reverse(**name)));
            if let Some((name, usage)) = highest {
                let groups = self.groups(&usage.groups, usage.peak);
                let head = format!("  at the {} peak of {}:", kind.name().to_uppercase(), ChipName::list(&[*name]));
                if usage.groups.iter().any(|group| group.line.is_some()) {
                    lines.push(head);
                    lines.extend(groups.into_iter().map(|group| format!("    {group}")));
                } else if !groups.is_empty() {
                    lines.push(format!("{head}   {}", groups.join("   ")));
                }
            }
        }
        lines
    }

    /// Formats the largest groups. Tags that differ only in numbers are one group: `2.1GB tag "layer *" (64 buffers)`.
    fn groups(&self, groups: &[PeakGroup], peak: u64) -> Vec<String> {
        let label = |group: &PeakGroup| {
            label(group.tag.as_ref().map(|tag| tag.as_str()), group.operation.as_ref().map(|operation| operation.as_str()))
        };
        let mut families: BTreeMap<(Option<&SourceLine>, String), Vec<&PeakGroup>> = BTreeMap::new();
        for group in groups.iter().filter(|group| group.is_named()) {
            families.entry((group.line.as_deref(), family(&label(group)))).or_default().push(group);
        }
        let mut rows: Vec<(u64, u64, String)> = families
            .into_iter()
            .map(|((line, family), groups)| {
                let bytes = groups.iter().map(|group| group.bytes).fold(0, u64::saturating_add);
                let name = if let [only] = groups.as_slice() { label(only) } else { family };
                let count = groups.iter().map(|group| group.count).sum();
                let several = if count > 1 { format!(" ({})", buffers(count)) } else { String::new() };
                let name = [line.map(ToString::to_string).unwrap_or_default(), name];
                let name = name.iter().filter(|name| !name.is_empty()).cloned().collect::<Vec<_>>().join(" ");
                (bytes, count, format!("{name}{several}{}", self.source(line)))
            })
            .collect();
        rows.sort_by(|a, b| (b.0, &a.2).cmp(&(a.0, &b.2)));
        rows.truncate(GROUPS);
        let named: u64 = rows.iter().map(|(bytes, ..)| *bytes).fold(0, u64::saturating_add);
        let mut parts: Vec<String> = rows.iter().map(|(bytes, _, text)| format!("{} {}", size(*bytes), self.style.clean(text))).collect();
        // Without a single tag there is nothing to print.
        if !parts.is_empty() && peak > named {
            parts.push(format!("{} other", size(peak - named)));
        }
        parts
    }

    /// Formats `: self.w = ttnn.from_torch(w)`, if the file can be read.
    fn source(&self, line: Option<&SourceLine>) -> String {
        line.and_then(|line| self.texts.line(line)).map_or_else(String::new, |text| format!(": {}", cut(&text, SOURCE_COLUMNS)))
    }

    /// Lists the largest buffers that were never freed: one line per group of chips, the group with the most bytes first.
    fn leaks(&self) -> Vec<String> {
        let left = self.run.left(false);
        let line = |(chips, (count, _)): (&[ChipName], (u64, u64))| {
            let here = left.iter().filter(|leftover| leftover.chips == chips);
            if here.clone().any(|leftover| leftover.left.line().is_some()) {
                return self.leaks_by_line(chips, here, count);
            }
            let mut parts: Vec<String> = here.take(LEFTOVERS).map(|leftover| self.leftover(leftover)).collect();
            let more = count.saturating_sub(parts.len() as u64);
            if more > 0 {
                parts.push(if parts.is_empty() { buffers(more) } else { format!("{} more", grouped(more)) });
            }
            vec![format!("  left at exit on {}:  {}", ChipName::list(chips), parts.join("   "))]
        };
        self.run.leaked_by_chips().into_iter().flat_map(line).collect()
    }

    /// Lists the source lines that allocated most of the bytes that were never freed.
    fn leaks_by_line<'a>(&self, chips: &[ChipName], left: impl Iterator<Item = &'a Leftover<'a>>, count: u64) -> Vec<String> {
        let sums = sums(left.map(|leftover| (leftover.left.line().map(AsRef::as_ref), (1, leftover.left.size))));
        let mut lines = vec![format!("  left at exit on {}:", ChipName::list(chips))];
        let mut listed = 0;
        for (line, (several, bytes)) in sums.iter().take(LEFTOVERS) {
            listed += several;
            let name = line.map_or_else(|| "no line".to_owned(), SourceLine::to_string);
            lines.push(format!(
                "    {} {}",
                size(*bytes),
                self.style.clean(&format!("{name} ({}){}", buffers(*several), self.source(*line)))
            ));
        }
        if count > listed {
            lines.push(format!("    {} more", grouped(count - listed)));
        }
        lines
    }

    /// `64.0MB DRAM 0x4a01000 tag "layer 7" age 1m02s`
    fn leftover(&self, leftover: &Leftover<'_>) -> String {
        let left = leftover.left;
        let kind = left.kind.name().to_uppercase();
        let label = self.label(left.tag.as_ref().map(|tag| tag.as_str()), left.operation.as_ref().map(|operation| operation.as_str()));
        let age = duration(Duration::from_nanos(self.run.span.1.saturating_sub(left.time.0)));
        format!("{} {kind} {:#x}{label} age {age}", size(left.size), left.address)
    }

    /// Formats ` tag "layer 7" op matmul`, with a leading space.
    fn label(&self, tag: Option<&str>, operation: Option<&str>) -> String {
        let label = self.style.clean(&label(tag, operation));
        if label.is_empty() { label } else { format!(" {label}") }
    }

    fn refusals(&self) -> Vec<String> {
        let refusals = self.run.refusals();
        let mut lines: Vec<String> = Vec::new();
        for (refused, chips) in refusals.iter().take(REFUSALS) {
            let refusal = &refused.refusal;
            let words = refusal.words(&ChipName::list(chips));
            lines.push(format!("  {}", self.style.clean(&cut(&words, 600))));
            let largest: Vec<String> = refusal.largest.iter().take(3).map(|large| self.large(large)).collect();
            if !largest.is_empty() {
                lines.push(format!("    largest there:  {}", largest.join("   ")));
            }
        }
        if refusals.len() > REFUSALS {
            lines.push(format!("  {} more refused", refusals.len() - REFUSALS));
        }
        lines
    }

    fn large(&self, large: &Large) -> String {
        let [tag, operation] = [&large.tag, &large.operation].map(|text| Some(text.as_str()).filter(|text| !text.is_empty()));
        let line = large.line.as_ref().map_or_else(String::new, |line| format!(" {}", self.style.clean(&line.to_string())));
        format!("{} {:#x}{line}{}", size(large.size), large.address, self.label(tag, operation))
    }

    /// Lists the reasons why the figures may be incomplete or inexact.
    fn remarks(&self) -> Vec<String> {
        let run = self.run;
        let mut lines = Vec::new();
        if let Some(why) = run.why_inexact() {
            lines.push(format!("  not exact: {why}; --report FILE says more"));
        }
        let aside = run.not_followed();
        if !aside.is_empty() {
            lines.push(format!("  not followed here: {}", self.style.clean(&cut(&aside.join(", "), 160))));
        }
        if run.has_unknown_chips() {
            lines.push("  chips that are no device here are named by the id that the program gave".to_owned());
        }
        let running: Vec<String> =
            run.summaries.iter().filter(|summary| summary.is_running).map(|summary| summary.pid.to_string()).collect();
        if !running.is_empty() {
            let plural = if running.len() == 1 { "process" } else { "processes" };
            lines.push(format!("  {} {plural} still running (pid {}): figures as of now", running.len(), cut(&running.join(", "), 60)));
        }
        lines
    }
}

fn cut(text: &str, columns: usize) -> String {
    text::cut(text, columns, Cut::End, ELLIPSIS)
}

/// Breaks a line between its parts, which are separated by three spaces. A part that is too wide is broken between words.
fn fold(line: &str, columns: usize) -> Vec<String> {
    let text = line.trim_start();
    let first = " ".repeat(line.len() - text.len());
    let further = " ".repeat(first.len() + INDENT);
    let mut lines: Vec<String> = Vec::new();
    for part in text.split("   ") {
        let indent = if lines.is_empty() { &first } else { &further };
        match lines.last_mut() {
            Some(last) if text::width(last) + 3 + text::width(part) <= columns => *last = format!("{last}   {part}"),
            _ if indent.len() + text::width(part) <= columns => lines.push(format!("{indent}{part}")),
            _ => {
                let room = columns.saturating_sub(further.len());
                let begun = lines.len();
                let words = text::wrap(part, room, ELLIPSIS).into_iter().enumerate();
                lines.extend(words.map(|(number, words)| format!("{}{words}", if begun + number == 0 { &first } else { &further })));
            }
        }
    }
    lines
}

/// `tag "layer 7" op matmul`
fn label(tag: Option<&str>, operation: Option<&str>) -> String {
    let tag = tag.map(|tag| format!("tag \"{}\"", cut(tag, TAG_COLUMNS)));
    let operation = operation.map(|operation| format!("op {operation}"));
    tag.into_iter().chain(operation).collect::<Vec<_>>().join(" ")
}

/// Replaces every number with a star, so that `layer 7` and `layer 12` are in the same group.
fn family(label: &str) -> String {
    let mut text = String::new();
    for letter in label.chars() {
        match letter {
            '0'..='9' if text.ends_with('*') => {}
            '0'..='9' => text.push('*'),
            letter => text.push(letter),
        }
    }
    text
}

/// Formats the time since the start as `00:41`, with hours if there are any.
fn clock(nanoseconds: u64) -> String {
    let seconds = nanoseconds / 1_000_000_000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes:02}:{seconds:02}") }
}

/// Formats a duration: `0.3s`, `41s`, `2m13s`, `1h02m`.
fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match () {
        () if seconds >= 3600 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        () if seconds >= 60 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        () if seconds >= 10 => format!("{seconds}s"),
        () => format!("{:.1}s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!([0, 999, 1000, 18_204, 1_234_567].map(grouped), ["0", "999", "1,000", "18,204", "1,234,567"]);
        let texts = [0.04, 9.94, 41.0, 133.0, 3723.0].map(|seconds| duration(Duration::from_secs_f64(seconds)));
        assert_eq!(texts, ["0.0s", "9.9s", "41s", "2m13s", "1h02m"]);
        assert_eq!([0, 41, 3723].map(|seconds| clock(seconds * 1_000_000_000)), ["00:00", "00:41", "1:02:03"]);
    }

    #[test]
    fn a_line_is_broken_between_its_parts() {
        let line = "  device 0  DRAM peak 1GB   L1 peak 2MB   LEFT 3KB in 4 buffers";
        assert_eq!(fold(line, 80), [line]);
        assert_eq!(fold(line, 50), ["  device 0  DRAM peak 1GB   L1 peak 2MB", "      LEFT 3KB in 4 buffers"]);
        assert_eq!(fold(line, 30), ["  device 0  DRAM peak 1GB", "      L1 peak 2MB", "      LEFT 3KB in 4 buffers"]);
        // A part that is too wide is broken between words, and a word that is too wide is truncated.
        let text = fold("  asked 32.0MB L1 on device 0: would fit if not fragmented", 30);
        assert_eq!(text, ["  asked 32.0MB L1 on", "      device 0: would fit if", "      not fragmented"]);
        assert_eq!(
            fold("  at the peak:   \u{6F22}\u{5B57}\u{6F22}\u{5B57}\u{6F22}\u{5B57}", 17),
            ["  at the peak:", "      \u{6F22}\u{5B57}\u{6F22}\u{5B57}..."]
        );
    }

    #[test]
    fn numbered_tags_are_of_one_family() {
        assert_eq!(family("tag \"layer 12\""), family("tag \"layer 7\""));
        assert_eq!(family("layer 12.3"), "layer *.*");
        assert_ne!(family("load"), family("loads"));
    }
}
