//! The table of all keys. Dispatch, help, the bottom line, the docs and the tests use it.

use crossterm::event::KeyCode::{Down, End, Enter, Esc, F, Home, Left, PageDown, PageUp, Right, Tab, Up};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::state::{TopState, View};
use crate::view::extent;

/// What a key does; [`KEYS`] describes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Show(View),
    Device(Step),
    Move(Motion),
    Focus,
    Filter,
    SortMenu,
    SortBy(Step),
    Reverse,
    Tree,
    Details,
    Signal,
    Freeze,
    Back(Step),
    Jump(Step),
    Speed(Step),
    Zoom(Step),
    Metric,
    Fold,
    Group,
    Mark,
    Overlay,
    WorstFirst,
    Setup,
    Save,
    Refresh,
    Deep,
    Alerts,
    Help,
    Escape,
    Quit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Before,
    After,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Motion {
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
}

pub(crate) struct KeyBinding {
    pub(crate) chords: &'static [Chord],
    pub(crate) action: Action,
    pub(crate) help: &'static str,
    label: &'static str,
    /// Whether the bottom line shows the key: only if it does something here.
    is_shown: fn(&TopState) -> bool,
}

fn has_device(state: &TopState) -> bool {
    match state.view {
        View::Main => false,
        View::Charts => state.settings.by_device,
        View::Detail | View::Memory | View::Mesh => true,
    }
}

fn has_process_list(state: &TopState) -> bool {
    state.view == View::Main && state.replay.is_none()
}

/// Whether the content exceeds the screen, so that the arrow keys scroll.
fn can_scroll(state: &TopState) -> bool {
    extent(state).is_some_and(|extent| extent.last() > 0)
}

/// Whether the display is paused, or the recording.
fn is_paused(state: &TopState) -> bool {
    state.is_frozen() || state.replay.is_some_and(|position| position.is_paused)
}

fn can_step(state: &TopState) -> bool {
    state.replay.is_some() || is_paused(state)
}

/// Creates a key that the bottom line does not show.
const fn key(action: Action, chords: &'static [Chord], help: &'static str) -> KeyBinding {
    KeyBinding { chords, action, help, label: "", is_shown: |_| false }
}

impl KeyBinding {
    const fn shown(self, label: &'static str, is_shown: fn(&TopState) -> bool) -> Self {
        Self { label, is_shown, ..self }
    }

    /// Returns the label in the bottom line, or an empty text if the key is not shown there.
    pub(crate) fn label(&self, state: &TopState) -> &'static str {
        // Beside a dialog, only the key that closes it is shown.
        let is_possible = state.dialog.is_none() || self.action == Action::Escape;
        match (self.action, state.replay.is_some(), is_paused(state)) {
            _ if !is_possible || !(self.is_shown)(state) => "",
            (Action::Freeze, true, true) => "Play",
            (Action::Freeze, true, false) => "Pause",
            (Action::Freeze, false, true) => "Go on",
            _ => self.label,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chord {
    Plain(KeyCode),
    Ctrl(char),
    Shift(KeyCode),
}

impl Chord {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Plain(PageUp) => "PgUp".to_owned(),
            Self::Plain(PageDown) => "PgDn".to_owned(),
            Self::Plain(code) => code.to_string(),
            Self::Ctrl(character) => format!("Ctrl-{}", character.to_ascii_uppercase()),
            Self::Shift(code) => format!("Shift-{code}"),
        }
    }

    pub(crate) fn of(event: KeyEvent) -> Self {
        match event.code {
            KeyCode::Char(character) if event.modifiers.contains(KeyModifiers::CONTROL) => Self::Ctrl(character.to_ascii_lowercase()),
            Left | Right if event.modifiers.contains(KeyModifiers::SHIFT) => Self::Shift(event.code),
            code => Self::Plain(code),
        }
    }
}

pub(crate) const fn letter(character: char) -> Chord {
    Plain(KeyCode::Char(character))
}

use Chord::{Ctrl, Plain, Shift};

/// Every key, in the order of the help.
pub(crate) const KEYS: &[KeyBinding] = &[
    key(Action::Show(View::Main), &[letter('1')], "main view: devices and processes"),
    key(Action::Show(View::Charts), &[letter('2')], "charts over time"),
    key(Action::Show(View::Detail), &[letter('3')], "all values of one device"),
    key(Action::Show(View::Memory), &[letter('4')], "memory: kinds, address map, buffers, events"),
    key(Action::Show(View::Mesh), &[letter('5')], "chips as they are wired"),
    key(Action::Help, &[Plain(F(1)), letter('?'), letter('h')], "show or hide this help").shown("Help", |_| true),
    key(Action::Device(Step::Before), &[letter('['), Plain(Left)], "previous device").shown("Device", has_device),
    key(Action::Device(Step::After), &[letter(']'), Plain(Right)], "next device").shown("Device", has_device),
    key(Action::Move(Motion::Up), &[Plain(Up)], "up").shown("Scroll", can_scroll),
    key(Action::Move(Motion::Down), &[Plain(Down)], "down").shown("Scroll", can_scroll),
    key(Action::Move(Motion::PageUp), &[Plain(PageUp)], "a page up"),
    key(Action::Move(Motion::PageDown), &[Plain(PageDown)], "a page down"),
    key(Action::Move(Motion::Home), &[Plain(Home)], "to the first"),
    key(Action::Move(Motion::End), &[Plain(End)], "to the last"),
    key(Action::Metric, &[letter('m')], "charts and mesh: next metric")
        .shown("Metric", |state| matches!(state.view, View::Charts | View::Mesh)),
    key(Action::Overlay, &[letter('o')], "charts: one for all devices, or one per device")
        .shown("Overlay", |state| state.view == View::Charts && !state.settings.by_device),
    key(Action::Zoom(Step::Before), &[letter('z')], "charts: shorter time").shown("Time", |state| state.view == View::Charts),
    key(Action::Zoom(Step::After), &[letter('Z')], "charts: longer time, up to an hour (3,600 samples)")
        .shown("Time", |state| state.view == View::Charts),
    key(Action::Group, &[letter('g')], "memory: group by line, tag, operation, size, or not")
        .shown("Group", |state| state.view == View::Memory),
    key(Action::Mark, &[letter('M')], "memory: set a mark, and show what grew since then"),
    key(Action::Setup, &[Plain(F(2))], "settings: columns, refresh, theme")
        .shown("Setup", |state| !matches!(state.view, View::Charts | View::Memory) && state.replay.is_none()),
    key(Action::Filter, &[letter('/'), Plain(F(4))], "filter: text, user:ana, host:a, dev:0-3, mem>1G; buffers: text")
        .shown("Filter", |state| matches!(state.view, View::Main | View::Memory)),
    key(Action::SortMenu, &[Plain(F(6))], "choose the column to sort by").shown("Sort", has_process_list),
    key(Action::SortBy(Step::Before), &[letter('<')], "sort by the column to the left"),
    key(Action::SortBy(Step::After), &[letter('>')], "sort by the column to the right"),
    key(Action::Reverse, &[letter('I')], "reverse the sort order"),
    key(Action::Tree, &[letter('t')], "processes as a tree").shown("Tree", has_process_list),
    key(Action::Details, &[Plain(Enter)], "details of the selected process or device")
        .shown("Info", |state| matches!(state.view, View::Main | View::Memory | View::Mesh)),
    key(Action::Signal, &[Plain(F(9)), letter('K')], "send a signal to the selected process")
        .shown("Kill", |state| state.view == View::Main && (0..state.hosts.len()).any(|host| state.can_signal(host))),
    key(Action::Freeze, &[letter(' ')], "pause or resume the display").shown("Freeze", |_| true),
    key(Action::Back(Step::Before), &[letter(','), Shift(Left)], "one sample back (in a recording: one frame)").shown("Step", can_step),
    key(Action::Back(Step::After), &[letter('.'), Shift(Right)], "one sample forward").shown("Step", can_step),
    key(Action::Jump(Step::Before), &[letter('{')], "a minute back").shown("Minute", can_step),
    key(Action::Jump(Step::After), &[letter('}')], "a minute forward").shown("Minute", can_step),
    key(Action::Focus, &[Plain(Tab)], "switch the focus between devices and processes"),
    key(Action::WorstFirst, &[letter('w')], "sort devices by id, or worst first"),
    key(Action::Fold, &[letter('f')], "several hosts: fold or unfold the selected one")
        .shown("Fold", |state| state.view == View::Main && state.has_groups()),
    key(Action::Speed(Step::After), &[letter('+')], "faster: refresh more often, play a recording faster")
        .shown("Speed", |state| state.replay.is_some()),
    key(Action::Speed(Step::Before), &[letter('-')], "slower: refresh less often, play a recording slower")
        .shown("Speed", |state| state.replay.is_some()),
    key(Action::Refresh, &[Plain(F(5)), letter('r'), Ctrl('l')], "refresh now, and redraw the screen"),
    key(Action::Save, &[Plain(F(12))], "save the settings to the configuration file"),
    key(Action::Deep, &[letter('d')], "turn --deep on or off (reading the chips themselves)"),
    key(Action::Alerts, &[letter('a')], "list the alerts, newest first").shown("Alerts", |state| !state.alerts().is_empty()),
    key(Action::Escape, &[Plain(Esc)], "close a dialog, clear the filter, or resume the display")
        .shown("Close", |state| state.dialog.is_some()),
    key(Action::Quit, &[letter('q'), Plain(F(10)), Ctrl('c')], "quit").shown("Quit", |_| true),
];

pub(crate) fn action(chord: Chord) -> Option<Action> {
    KEYS.iter().find(|key| key.chords.contains(&chord)).map(|key| key.action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_table_of_keys_is_up_to_date() {
        let mut table = String::from("| key | does |\n| --- | --- |\n");
        for key in KEYS {
            let names: Vec<String> = key.chords.iter().map(|chord| format!("`{}`", chord.name())).collect();
            table += &format!("| {} | {} |\n", names.join(" "), key.help);
        }
        ttmon_testing::generated_part("docs/top.md", ["\n## Keys\n\n", "\n## Settings\n"], &table);
    }

    #[test]
    fn no_chord_has_two_meanings_and_every_row_has_words() {
        let chords: Vec<Chord> = KEYS.iter().flat_map(|key| key.chords.iter().copied()).collect();
        for (index, chord) in chords.iter().enumerate() {
            assert!(!chords[..index].contains(chord), "{}", chord.name());
        }
        assert!(KEYS.iter().all(|key| !key.chords.is_empty() && !key.help.is_empty()));
    }

    #[test]
    fn modifiers_are_part_of_a_key() {
        let event = |code, modifiers| Chord::of(KeyEvent::new(code, modifiers));
        assert_eq!(event(KeyCode::Char('c'), KeyModifiers::CONTROL), Ctrl('c'));
        assert_eq!(event(KeyCode::Char('K'), KeyModifiers::SHIFT), letter('K'));
        assert_eq!(event(Left, KeyModifiers::SHIFT), Shift(Left));
        assert_eq!(event(Left, KeyModifiers::NONE), Plain(Left));
    }
}
