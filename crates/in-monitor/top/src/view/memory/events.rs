//! Events of the buffers of a device, newest at the bottom.

use ratatui_core::layout::Rect;
use ttmon_model::event::{BufferEvent, Op};
use ttmon_model::{Device, Snapshot};
use ttmon_print::quantity::size;

use crate::canvas::Canvas;
use crate::state::State;
use crate::theme::Role;

pub(super) fn draw(state: &State, snapshot: &Snapshot, device: &Device, canvas: &mut Canvas<'_>, area: Rect) {
    canvas.rule(area, 0, "Recent events", Role::Title);
    let is_on_device = |event: &BufferEvent| {
        let has_device = |pid: u32| snapshot.allocators.iter().any(|one| one.process.pid == pid && one.devices.contains(&device.id));
        // A mark has no allocator. It belongs to all devices of its process.
        event.devices.contains(&device.id) || event.op == Op::Mark && has_device(event.pid)
    };
    let rows = usize::from(area.height.saturating_sub(1));
    // A paused display shows no later events.
    let is_over = |event: &BufferEvent| !state.is_frozen() || event.time.is_none_or(|time| time <= snapshot.lists_time);
    let shown = |event| Some((event, label(event).filter(|_| is_over(event) && is_on_device(event))?));
    let events: Vec<(&BufferEvent, &str)> = state.host().buffer_events.iter().rev().filter_map(shown).take(rows).collect();
    if events.is_empty() {
        let why = if state.replay.is_some() { "nothing was recorded so far" } else { "nothing since this view was opened" };
        canvas.text(area, 1, 1, why, Role::Dim);
    }
    for (row, (event, label)) in (1..area.height).zip(events.iter().rev()) {
        let tag = event.tag.as_deref().map(|tag| format!("  {tag}")).unwrap_or_default();
        let text = format!(
            "{} {:>8} {label:<12} {:>9} {:<8} {:#x}{tag}",
            event.time.map(|time| state.clock.second(time)).unwrap_or_default(),
            event.pid,
            size(event.size.unwrap_or(0)),
            event.kind.map_or("", |kind| kind.name()),
            event.address.unwrap_or(0),
        );
        let text = canvas.clean(&text);
        let role = if matches!(event.op, Op::OutOfMemory | Op::Clash) { Role::Critical } else { Role::Plain };
        canvas.text(area, 1, row, &text, role);
    }
}

fn label(event: &BufferEvent) -> Option<&'static str> {
    Some(match event.op {
        Op::Alloc if event.program.is_some() => "cb",
        Op::Free if event.program.is_some() => "program gone",
        Op::Alloc => "alloc",
        Op::Free => "free",
        Op::FreeAll => "free all",
        Op::Open => "open",
        Op::Close => "close",
        Op::OutOfMemory => "REFUSED",
        Op::Clash => "CLASH",
        Op::Mark => "mark",
        Op::Ref | Op::Unref | Op::Exit | Op::Exec | Op::Overrun => return None,
    })
}
