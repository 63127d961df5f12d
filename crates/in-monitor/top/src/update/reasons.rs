//! Messages for keys that have no effect. Each key does something in each view, or shows why it does not.

use crate::keys::Action;
use crate::state::{ProcessRow, TopState, View};

pub(super) fn refusal(state: &TopState, action: Action) -> Option<&'static str> {
    let view = state.view;
    match action {
        Action::Filter if view != View::Main => Some("a filter is for the list of processes (1) or of buffers (4)"),
        Action::Focus | Action::SortMenu | Action::SortBy(_) | Action::Reverse | Action::Tree | Action::Signal if view != View::Main => {
            Some("that is for the list of processes; 1 shows it")
        }
        Action::Zoom(_) if !matches!(view, View::Main | View::Charts) => Some("the span of time is for charts; 2 shows them"),
        Action::Metric if matches!(view, View::Detail | View::Memory) => Some("a metric is for charts and the mesh; 2 and 5 show them"),
        Action::Overlay if view != View::Charts || state.settings.by_device => {
            Some("overlay is for charts of one metric; 2 shows charts, m chooses a metric")
        }
        Action::WorstFirst if view != View::Main => Some("the order of devices is for the main view; 1 shows it"),
        Action::Fold if view != View::Main => Some("folding is for the main view with several hosts"),
        Action::Group | Action::Mark if view != View::Memory => Some("that is for the list of buffers; 4 shows it"),
        _ => None,
    }
}

/// Returns all that a key may change.
pub(super) fn trace(state: &TopState) -> impl PartialEq + use<> {
    (
        state.settings.clone(),
        (state.view, state.focus, state.scroll, state.host_index),
        state.chosen_process(&state.processes()).map(ProcessRow::owner),
        state.shown().and_then(|snapshot| state.chosen_device(snapshot)).map(|device| device.id),
        state.filter_text.clone(),
        state.hosts.iter().map(|host| (host.is_folded, host.frozen.as_ref().map(|frozen| frozen.back))).collect::<Vec<_>>(),
        state.dialog.is_some(),
        state.memory.clone(),
    )
}

pub(super) fn why_nothing(action: Action) -> &'static str {
    match action {
        Action::Show(_) => "this view is shown already",
        Action::Device(_) => "there is no other device",
        Action::Move(_) => "nothing lies further that way",
        Action::Back(_) | Action::Jump(_) => "nothing was seen further that way",
        Action::Speed(_) => "it cannot be faster or slower",
        Action::Zoom(_) => "charts cannot show less or more time",
        Action::Escape => "nothing is open; q quits",
        Action::SortBy(_) => "there is no column on that side",
        Action::Fold => "folding is for several hosts (--connect)",
        Action::Details => "everything known is shown already",
        Action::Metric => "no other metric is measured",
        _ => "that does nothing here",
    }
}
