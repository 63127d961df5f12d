//! What happens to buffers of a device, newest at the bottom.

use ratatui_core::layout::Rect;
use ttmon_model::{Device, Snapshot};
use ttmon_print::quantity::size;
use ttmon_source::happenings::Happening;

use crate::canvas::Canvas;
use crate::state::State;
use crate::theme::Role;

pub(super) fn draw(state: &State, snapshot: &Snapshot, device: &Device, canvas: &mut Canvas<'_>, area: Rect) {
    canvas.rule(area, 0, "What happens", Role::Strong);
    let is_here = |happening: &&Happening| {
        let mut allocators = snapshot.allocators.iter().filter(|one| one.process == happening.process && one.slot == happening.slot);
        allocators.any(|allocator| allocator.devices.contains(&device.id))
    };
    let rows = usize::from(area.height.saturating_sub(1));
    // A picture that stands still knows nothing of what came later.
    let is_over = |happening: &&Happening| !state.is_frozen() || happening.time <= snapshot.time;
    let here: Vec<&Happening> = state.here().happenings.iter().rev().filter(is_over).filter(is_here).take(rows).collect();
    if here.is_empty() {
        let why = if state.replay.is_some() { "nothing was recorded so far" } else { "nothing since this view was opened" };
        canvas.say(area, 1, 1, why, Role::Dim);
    }
    for (row, happening) in (1..area.height).zip(here.iter().rev()) {
        let tag = happening.tag.as_deref().map(|tag| format!("  {tag}")).unwrap_or_default();
        let text = format!(
            "{} {:>8} {:<12} {:>9} {:<8} {:#x}{tag}",
            state.clock.second(happening.time),
            happening.process.pid,
            happening.what,
            size(happening.size),
            happening.kind.name(),
            happening.address,
        );
        let text = canvas.clean(&text);
        canvas.say(area, 1, row, &text, if ["REFUSED", "CLASH"].contains(&happening.what) { Role::Critical } else { Role::Plain });
    }
}
