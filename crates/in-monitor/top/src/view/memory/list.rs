//! The list of the memory view: buffers, or groups of buffers.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use ratatui_core::layout::Rect;
use ttmon_model::groups::{BufferGroup, GroupBy, GroupKey, groups};
use ttmon_model::snapshot::MappedBuffer;
use ttmon_model::{Device, Kind, Snapshot};
use ttmon_print::quantity::{ABSENT, age, size};
use ttmon_print::text::Align;

use super::super::panels::key_text;
use super::{buffer_rows, on, why_unlisted};
use crate::canvas::{Canvas, Field};
use crate::layout::scrolled;
use crate::state::{ListBy, ListSort, TopState};
use crate::theme::Role;

pub(super) enum ListItem<'a> {
    Group(BufferGroup),
    Buffer(&'a MappedBuffer),
}

impl ListItem<'_> {
    /// Returns the name of a row. The name of a group is the line, tag, operation or size that its buffers share.
    fn name(&self) -> String {
        match self {
            Self::Group(group) => key_text(&group.key),
            Self::Buffer(buffer) => buffer_name(buffer),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Group(group) => group.bytes,
            Self::Buffer(buffer) => buffer.buffer.size,
        }
    }

    fn second(&self) -> u64 {
        match self {
            Self::Group(group) => group.count,
            Self::Buffer(buffer) => u64::MAX - buffer.buffer.time.0,
        }
    }
}

/// Returns the name of a buffer: its tag, the line that allocated it, and its operation.
fn buffer_name(buffer: &MappedBuffer) -> String {
    let entry = &buffer.buffer;
    let line = entry.line().map(|line| format!("{}:{}", line.file, line.line));
    let parts = [entry.tag.as_ref().map(ToString::to_string), line, entry.operation.as_ref().map(ToString::to_string)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("  ")
}

pub(super) fn items<'a>(state: &TopState, snapshot: &'a Snapshot, device: &Device) -> Vec<ListItem<'a>> {
    let list = &state.memory;
    let is_wanted = |buffer: &&MappedBuffer| {
        let entry = &buffer.buffer;
        list.filter.is_empty()
            || buffer_name(buffer).to_lowercase().contains(&list.filter)
            || format!("{} {} {:#x}", buffer.process().pid, entry.kind.name(), entry.address).contains(&list.filter)
    };
    let buffers = || on(snapshot, device).filter(is_wanted);
    let mut items: Vec<ListItem<'a>> = match (&list.open, list.by) {
        (None, ListBy::Line | ListBy::Tag | ListBy::Op | ListBy::Size) => {
            grouped(buffers(), state).into_iter().map(ListItem::Group).collect()
        }
        (Some(open), by) => buffers().filter(|buffer| key_text(&key(buffer, by)) == *open).map(ListItem::Buffer).collect(),
        (None, ListBy::Buffer) => buffers().map(ListItem::Buffer).collect(),
    };
    match (list.sort, list.is_reversed) {
        (ListSort::Bytes, false) => items.sort_by_key(|item| Reverse(item.bytes())),
        (ListSort::Bytes, true) => items.sort_by_key(ListItem::bytes),
        (ListSort::Second, false) => items.sort_by_key(|item| Reverse(item.second())),
        (ListSort::Second, true) => items.sort_by_key(ListItem::second),
        // Build each name once per row, not for each comparison.
        (ListSort::Name, is_reversed) => {
            items.sort_by_cached_key(ListItem::name);
            if is_reversed {
                items.reverse();
            }
        }
    }
    items
}

fn grouped<'a>(buffers: impl Iterator<Item = &'a MappedBuffer>, state: &TopState) -> Vec<BufferGroup> {
    let entries = buffers.map(|buffer| &buffer.buffer);
    let by = match state.memory.by {
        ListBy::Line => GroupBy::Line,
        ListBy::Tag => GroupBy::Tag,
        ListBy::Op => GroupBy::Op,
        ListBy::Buffer | ListBy::Size => {
            // Sorted, because groups of the same rank would otherwise change places in every frame.
            let mut found: BTreeMap<u64, Vec<_>> = BTreeMap::new();
            entries.for_each(|entry| found.entry(entry.size).or_default().push(entry));
            let group = |(bytes, entries): (u64, Vec<_>)| {
                let one = groups(entries.into_iter(), GroupBy::Op, state.memory.mark);
                let mut one = one.into_iter().reduce(|sum, other| BufferGroup {
                    bytes: sum.bytes.saturating_add(other.bytes),
                    count: sum.count + other.count,
                    since: sum.since.zip(other.since).map(|(one, other)| one.saturating_add(other)),
                    ..sum
                })?;
                one.key = GroupKey::Text(Some(Arc::from(size(bytes))));
                Some(one)
            };
            return found.into_iter().filter_map(group).collect();
        }
    };
    groups(entries, by, state.memory.mark)
}

pub(crate) fn names(state: &TopState) -> Vec<String> {
    let items = state.shown_device().map(|(snapshot, device)| items(state, snapshot, device));
    items.into_iter().flatten().map(|item| item.name()).collect()
}

/// Whether any buffer on the selected device has a name for a grouping. Without buffers, every grouping can be chosen.
pub(crate) fn groups_by(state: &TopState, by: ListBy) -> bool {
    let is_named = |buffer: &MappedBuffer| !matches!(key(buffer, by), GroupKey::Line(None) | GroupKey::Text(None));
    let has_key = |snapshot, device| on(snapshot, device).next().is_none() || on(snapshot, device).any(is_named);
    state.shown_device().is_some_and(|(snapshot, device)| has_key(snapshot, device))
}

/// All details of the buffer in a row of the buffer list; `None` if the row is a group.
pub(crate) fn buffer_at(state: &TopState, at: usize) -> Option<Vec<String>> {
    let (snapshot, device) = state.shown_device()?;
    match items(state, snapshot, device).get(at)? {
        ListItem::Buffer(buffer) => Some(buffer_lines(snapshot, buffer)),
        ListItem::Group(_) => None,
    }
}

fn key(buffer: &MappedBuffer, by: ListBy) -> GroupKey {
    let entry = &buffer.buffer;
    match by {
        ListBy::Line => GroupKey::Line(entry.line().cloned()),
        ListBy::Tag => GroupKey::Text(entry.tag.clone()),
        ListBy::Op => GroupKey::Text(entry.operation.clone()),
        ListBy::Buffer | ListBy::Size => GroupKey::Text(Some(Arc::from(size(entry.size)))),
    }
}

pub(super) fn draw(state: &TopState, snapshot: &Snapshot, device: &Device, canvas: &mut Canvas<'_>, area: Rect) {
    let items = items(state, snapshot, device);
    let counted: u64 = Kind::BANKED.into_iter().filter_map(|kind| device.memory.kinds[kind].figure.count.ok()).fold(0, u64::saturating_add);
    let listed = on(snapshot, device).count();
    let at = state.memory.at.min(items.len().saturating_sub(1));
    let first = scrolled(state.scroll, at, buffer_rows(area), items.len());
    canvas.rule(area, 0, &title(state, items.len(), listed, counted), Role::Title);
    super::super::hidden_rows(canvas, area, first..first + buffer_rows(area), items.len());
    if items.is_empty() {
        // Buffers that are counted but not listed are not the same as no buffers.
        let text = match () {
            () if listed > 0 => "no buffer matches the filter; Esc drops it",
            () if counted > 0 => why_unlisted(state, state.host()),
            () => "no tracked process has a buffer on this device; `ttmon run -- COMMAND` tracks a program",
        };
        return super::super::paragraph(canvas, area, 1, text);
    }
    let is_group = matches!(items.first(), Some(ListItem::Group(_)));
    let fields = match items.first() {
        Some(ListItem::Group(_)) => fields(area, GROUP_COLUMNS, &["NAME"]),
        _ if area.width < WIDE_MIN => fields(area, BUFFER_COLUMNS, &["TAG, LINE, OP"]),
        _ => fields(area, BUFFER_COLUMNS, &["TAG, LINE, OPERATION", "TAG, LINE, OP", "TAG"]),
    };
    canvas.buffer.set_style(Rect { y: area.y + 1, height: 1, ..area }, canvas.theme.style(Role::Heading));
    for (index, (title, field)) in fields.iter().enumerate().filter(|(_, (_, field))| field.width > 0) {
        canvas.field(area, *field, 1, &format!("{title}{}", sign(state, canvas, index, is_group)), canvas.style(Role::Heading));
    }
    let most = items.iter().map(ListItem::bytes).max().unwrap_or(1).max(1);
    for (row, (index, item)) in (2..area.height).zip(items.iter().enumerate().skip(first)) {
        let texts = match item {
            ListItem::Group(group) => group_texts(group, item.name(), most, canvas),
            ListItem::Buffer(buffer) => buffer_texts(snapshot, buffer, item.name()),
        };
        for ((_, field), text) in fields.iter().zip(texts).filter(|((_, field), _)| field.width > 0) {
            let role = if text.is_some() { Role::Plain } else { Role::Dim };
            canvas.field(area, *field, row, text.as_deref().unwrap_or(ABSENT), canvas.style(role));
        }
        if index == at && state.memory.cursor.is_none() {
            canvas.buffer.set_style(Rect { y: area.y + row, height: 1, ..area }, canvas.theme.style(Role::Selected));
        }
    }
}

fn title(state: &TopState, shown: usize, listed: usize, counted: u64) -> String {
    let list = &state.memory;
    // A recording may have fewer buffers than were counted.
    let is_cut = state.replay.is_some() && counted > listed as u64;
    let all = if is_cut { format!("{listed} of {counted}") } else { listed.to_string() };
    let mut text = match (&list.open, list.by) {
        (Some(open), by) => format!("{} of {} {open} (Esc: back)", counted_as(shown, "buffer"), by.name()),
        (None, ListBy::Buffer) if is_cut => format!("Largest {all} buffers"),
        (None, ListBy::Buffer) => format!("Largest of {all} buffers"),
        (None, by) => format!("{} of {all} buffers by {}", counted_as(shown, "group"), by.name()),
    };
    if list.cursor.is_some() {
        text += "  Tab: list";
    }
    if !list.filter.is_empty() {
        text += &format!("  filter: {}", list.filter);
    }
    if let Some(mark) = list.mark {
        text += &format!("  mark {}", state.clock.second(mark));
    }
    text
}

fn counted_as(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Returns the symbol for the heading of the column that the list is sorted by.
fn sign(state: &TopState, canvas: &Canvas<'_>, column: usize, is_group: bool) -> &'static str {
    let sorted = match (state.memory.sort, is_group) {
        (ListSort::Bytes, _) => 0,
        (ListSort::Second, true) => 2,
        (ListSort::Second, false) => 4,
        (ListSort::Name, true) => 5,
        (ListSort::Name, false) => 6,
    };
    let is_down = (state.memory.sort == ListSort::Name) == state.memory.is_reversed;
    if column == sorted { canvas.glyphs().sorted(is_down) } else { "" }
}

/// A narrower list has only the size, the kind or the count, and the name.
const WIDE_MIN: u16 = 70;

/// Headings and fields. A width of 0 hides a column.
type Fields = Vec<(&'static str, Field)>;

/// The columns before the name: heading, alignment, and width in a wide and in a narrow list.
type Columns = [(&'static str, Align, u16, u16)];

const GROUP_COLUMNS: &Columns = &[
    ("BYTES", Align::Right, 9, 9),
    ("", Align::Left, 10, 0),
    ("COUNT", Align::Right, 7, 6),
    ("LARGEST", Align::Right, 9, 0),
    ("GREW", Align::Right, 9, 0),
];

const BUFFER_COLUMNS: &Columns = &[
    ("SIZE", Align::Right, 9, 9),
    ("KIND", Align::Left, 9, 8),
    ("ADDRESS", Align::Right, 14, 0),
    ("PER BANK", Align::Right, 9, 0),
    ("AGE", Align::Right, 6, 0),
    ("PID", Align::Right, 8, 0),
];

/// Places the columns, and then the name under the longest of its headings that fits.
fn fields(area: Rect, columns: &Columns, names: &[&'static str]) -> Fields {
    let mut at = 1;
    let mut fields = Vec::new();
    for (heading, align, wide, narrow) in columns {
        let width = if area.width < WIDE_MIN { *narrow } else { *wide };
        fields.push((*heading, if *align == Align::Left { Field::left(at, width) } else { Field::right(at, width) }));
        at += if width > 0 { width + 1 } else { 0 };
    }
    let left = area.width.saturating_sub(at);
    let name = names.iter().find(|name| name.len() + 1 < usize::from(left)).or(names.last()).copied().unwrap_or_default();
    fields.push((name, Field::left(at, left.saturating_sub(1))));
    fields
}

fn group_texts(group: &BufferGroup, name: String, most: u64, canvas: &Canvas<'_>) -> Vec<Option<String>> {
    let bar = ttmon_print::bar_cells(group.bytes as f64 / most as f64, 10, canvas.glyphs().fill);
    let grew = group.since.map_or_else(String::new, |bytes| if bytes == 0 { "-".to_owned() } else { format!("+{}", size(bytes)) });
    vec![Some(size(group.bytes)), Some(bar), Some(group.count.to_string()), Some(size(group.largest)), Some(grew), Some(name)]
}

fn buffer_texts(snapshot: &Snapshot, buffer: &MappedBuffer, name: String) -> Vec<Option<String>> {
    let entry = &buffer.buffer;
    vec![
        Some(size(entry.size)),
        Some(entry.kind.name().to_owned()),
        Some(format!("{:#x}", entry.address)),
        entry.per_bank.map(|bytes| size(bytes.get().into())),
        Some(age(entry.time, snapshot.lists_time)),
        Some(buffer.process().pid.to_string()),
        Some(name),
    ]
}

fn buffer_lines(snapshot: &Snapshot, buffer: &MappedBuffer) -> Vec<String> {
    let entry = &buffer.buffer;
    let process = snapshot.processes.iter().find(|process| process.key == buffer.process());
    let title = process.and_then(|process| process.title().ok()).unwrap_or_default();
    let mut lines = vec![
        format!("size       {} ({} bytes)", size(entry.size), entry.size),
        format!("kind       {}", entry.kind.name()),
        format!("address    {:#x}", entry.address),
        format!("process    {} {title}", buffer.process().pid),
        format!("devices    {}", ttmon_print::ranges(buffer.devices().iter().copied())),
        format!("age        {}", age(entry.time, snapshot.lists_time)),
        format!("references {}", entry.refs),
    ];
    lines.extend(entry.per_bank.map(|bytes| format!("per bank   {}", size(bytes.get().into()))));
    lines.extend(entry.tag.as_ref().map(|tag| format!("tag        {tag}")));
    lines.extend(entry.operation.as_ref().map(|operation| format!("operation  {operation}")));
    lines.extend(entry.line().map(|line| format!("line       {}:{} in {}", line.file, line.line, line.function)));
    if let Some(stack) = entry.stack.as_ref().filter(|stack| stack.frames.len() > 1) {
        let frames = stack.frames.iter().zip(["stack"].into_iter().chain(std::iter::repeat("")));
        lines.extend(frames.map(|(frame, name)| format!("{name:10} {frame}")));
    }
    lines
}

pub(super) fn named_at(snapshot: &Snapshot, process: ttmon_model::ProcessKey, kind: Kind, address: u64) -> Option<String> {
    let is_it = |buffer: &&MappedBuffer| {
        buffer.process() == process && buffer.buffer.address == address && buffer.buffer.kind.name() == kind.name()
    };
    snapshot.buffers.iter().find(is_it).map(buffer_name).filter(|name| !name.is_empty())
}
