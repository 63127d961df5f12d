//! Keys of the memory view: its list of buffers, and the cursor of its address map.

use crossterm::event::KeyCode;
use ratatui_core::layout::{Position, Rect};

use super::dialog::edit;
use super::{moved, show_message, stepped};
use crate::keys::{Action, Chord, Motion, Step};
use crate::layout;
use crate::state::{Dialog, ListBy, ListSort, MapCursor, Page, TopState};
use crate::view::{memory_buffer, memory_groups_by, memory_list, memory_map_rows, memory_rows};

/// Highest zoom level. Each level halves the visible range.
const ZOOM_MAX: u8 = 8;

/// Performs an action of the memory view. Returns false if the action has no special meaning here.
pub(super) fn act(state: &mut TopState, action: Action) -> bool {
    match action {
        Action::Filter => state.dialog = Some(Dialog::filter(&state.memory.filter)),
        Action::SortMenu => sort(state, Step::After),
        Action::SortBy(step) => sort(state, step),
        Action::Reverse => state.memory.is_reversed ^= true,
        Action::Details => open(state),
        Action::Focus => focus(state),
        Action::Device(step) if state.memory.cursor.is_some() => along(state, step),
        Action::Zoom(step) if state.memory.cursor.is_some() => zoom(state, step),
        Action::Zoom(_) => show_message(state, "Tab goes to the address map, where z zooms"),
        Action::Escape => return escape(state),
        _ => return false,
    }
    true
}

fn sort(state: &mut TopState, step: Step) {
    let all = ListSort::ALL;
    let at = all.iter().position(|sort| *sort == state.memory.sort).unwrap_or(0);
    state.memory.sort = all[stepped(at, step, all.len())];
    state.memory.is_reversed = false;
}

pub(super) fn group(state: &mut TopState) {
    let at = ListBy::ALL.iter().position(|by| *by == state.memory.by).unwrap_or(0);
    let mut next = ListBy::ALL.into_iter().cycle().skip(at + 1).take(ListBy::ALL.len());
    // A list can always be shown without groups.
    state.memory.by = next.find(|by| memory_groups_by(state, *by)).unwrap_or_default();
    (state.memory.open, state.memory.at, state.scroll) = (None, 0, 0);
}

/// Sets the mark from which growth is counted. A second call removes it.
pub(super) fn mark(state: &mut TopState) {
    state.memory.mark = if state.memory.mark.is_some() { None } else { Some(state.host().now()) };
    let is_set = state.memory.mark.is_some();
    if is_set && state.memory.by == ListBy::Buffer {
        state.memory.by = if memory_groups_by(state, ListBy::Tag) { ListBy::Tag } else { ListBy::Size };
        (state.memory.open, state.memory.at, state.scroll) = (None, 0, 0);
    }
    let text = if is_set { "mark set: GREW counts buffers that were allocated since now; M again removes it" } else { "mark removed" };
    show_message(state, text);
}

/// Opens the selected row: a group lists its buffers, a buffer shows all its details.
fn open(state: &mut TopState) {
    if state.memory.cursor.is_some() {
        return show_message(state, "the line above the map names what lies at the cursor; Tab goes back to the list");
    }
    let at = state.memory.at;
    if let Some(lines) = memory_buffer(state, at) {
        return state.dialog = Some(Dialog::page(Page::Buffer(lines)));
    }
    match memory_list(state).into_iter().nth(at) {
        Some(name) => (state.memory.open, state.memory.at, state.scroll) = (Some(name), 0, 0),
        None => show_message(state, "there is no buffer to open"),
    }
}

fn escape(state: &mut TopState) -> bool {
    if state.memory.cursor.take().is_some() {
        return true;
    }
    if state.memory.open.take().is_some() {
        (state.memory.at, state.scroll) = (0, 0);
        return true;
    }
    let has_filter = !state.memory.filter.is_empty();
    state.memory.filter.clear();
    has_filter
}

fn focus(state: &mut TopState) {
    let rows = memory_map_rows(state);
    state.memory.cursor = match state.memory.cursor {
        None if rows == 0 => return show_message(state, "there is no address map: no allocator's banks are known"),
        None => Some(MapCursor::default()),
        Some(_) => None,
    };
}

fn along(state: &mut TopState, step: Step) {
    let Some(cursor) = &mut state.memory.cursor else { return };
    let cell = MapCursor::WHOLE / (u32::from(state.size.0).max(1) << cursor.zoom);
    let by = cell.max(1);
    cursor.share = if step == Step::After { (cursor.share + by).min(MapCursor::WHOLE - 1) } else { cursor.share.saturating_sub(by) };
}

fn zoom(state: &mut TopState, step: Step) {
    let Some(cursor) = &mut state.memory.cursor else { return };
    cursor.zoom = match step {
        Step::Before => (cursor.zoom + 1).min(ZOOM_MAX),
        Step::After => cursor.zoom.saturating_sub(1),
    };
}

/// Moves the cursor of the list, or moves the map cursor to another row.
pub(super) fn go(state: &mut TopState, motion: Motion) {
    if let Some(cursor) = state.memory.cursor {
        let rows = memory_map_rows(state);
        let row = moved(cursor.row, motion, rows, 4);
        state.memory.cursor = Some(MapCursor { row, ..cursor });
        return;
    }
    let (count, page) = (memory_list(state).len(), memory_rows(state));
    let from = state.memory.at.min(count.saturating_sub(1));
    state.memory.at = moved(from, motion, count, page);
    state.scroll = layout::scrolled(state.scroll, state.memory.at, page, count);
}

/// Handles a key in the buffer filter. The filter is applied after every key.
pub(super) fn typed(state: &mut TopState, mut text: String, before: String, chord: Chord) {
    match chord {
        Chord::Plain(KeyCode::Esc) => return state.memory.filter = before,
        Chord::Plain(KeyCode::Enter) => return,
        _ => edit(&mut text, chord),
    }
    state.memory.filter = text.to_lowercase();
    (state.memory.at, state.scroll) = (0, 0);
    state.dialog = Some(Dialog::Filter { text, before });
}

/// The first click selects a row, the second click opens it.
pub(super) fn click(state: &mut TopState, body: Rect, at: Position) {
    let count = memory_list(state).len();
    let Some(hit) = crate::view::memory_row_at(state, body, at).filter(|hit| *hit < count) else { return };
    let is_again = state.memory.at == hit && state.memory.cursor.is_none();
    (state.memory.at, state.memory.cursor) = (hit, None);
    if is_again {
        open(state);
    }
}
