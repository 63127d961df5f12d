//! The table of all keys. Dispatch, help, the bottom line, the docs and the tests use it.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::state::View;

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

impl Action {
    /// Whether the action changes the list of processes or needs it. It does nothing while that list is not visible.
    pub(crate) fn is_for_processes(self) -> bool {
        matches!(self, Self::Focus | Self::Filter | Self::SortMenu | Self::SortBy(_) | Self::Reverse | Self::Tree | Self::Signal)
    }
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
    /// The label in the bottom line; empty if the key is not shown there.
    pub(crate) label: fn(&KeyContext) -> &'static str,
}

/// Decides which keys the bottom line shows: only those that do something here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyContext {
    pub(crate) view: View,
    pub(crate) has_dialog: bool,
    pub(crate) has_groups: bool,
    pub(crate) has_alerts: bool,
    pub(crate) is_replay: bool,
    pub(crate) is_frozen: bool,
    pub(crate) can_signal: bool,
    pub(crate) is_by_device: bool,
    /// Whether the content exceeds the screen, so that the arrow keys scroll.
    pub(crate) can_scroll: bool,
}

impl KeyContext {
    fn only_if(&self, is_there: bool, label: &'static str) -> &'static str {
        if is_there && !self.has_dialog { label } else { "" }
    }

    fn always(&self, label: &'static str) -> &'static str {
        self.only_if(true, label)
    }

    fn has_device(&self) -> bool {
        match self.view {
            View::Main => false,
            View::Charts => self.is_by_device,
            View::Detail | View::Memory | View::Mesh => true,
        }
    }

    fn is(&self, views: &[View]) -> bool {
        views.contains(&self.view)
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
            Self::Plain(KeyCode::PageUp) => "PgUp".to_owned(),
            Self::Plain(KeyCode::PageDown) => "PgDn".to_owned(),
            Self::Plain(code) => code.to_string(),
            Self::Ctrl(character) => format!("Ctrl-{}", character.to_ascii_uppercase()),
            Self::Shift(code) => format!("Shift-{code}"),
        }
    }

    pub(crate) fn of(event: KeyEvent) -> Self {
        match event.code {
            KeyCode::Char(character) if event.modifiers.contains(KeyModifiers::CONTROL) => Self::Ctrl(character.to_ascii_lowercase()),
            KeyCode::Left | KeyCode::Right if event.modifiers.contains(KeyModifiers::SHIFT) => Self::Shift(event.code),
            code => Self::Plain(code),
        }
    }
}

pub(crate) const fn letter(character: char) -> Chord {
    Plain(KeyCode::Char(character))
}

use Chord::{Ctrl, Plain, Shift};

/// Every key, in the order of the help.
#[rustfmt::skip] // one row per line
pub(crate) const KEYS: &[KeyBinding] = &[
    KeyBinding { chords: &[letter('1')], action: Action::Show(View::Main), help: "main view: devices and processes", label: |_| "" },
    KeyBinding { chords: &[letter('2')], action: Action::Show(View::Charts), help: "charts over time", label: |_| "" },
    KeyBinding { chords: &[letter('3')], action: Action::Show(View::Detail), help: "all values of one device", label: |_| "" },
    KeyBinding { chords: &[letter('4')], action: Action::Show(View::Memory), help: "memory: kinds, address map, buffers, events", label: |_| "" },
    KeyBinding { chords: &[letter('5')], action: Action::Show(View::Mesh), help: "chips as they are wired", label: |_| "" },
    KeyBinding { chords: &[Plain(KeyCode::F(1)), letter('?'), letter('h')], action: Action::Help, help: "show or hide this help", label: |s| s.always("Help") },
    KeyBinding { chords: &[letter('['), Plain(KeyCode::Left)], action: Action::Device(Step::Before), help: "previous device", label: |s| s.only_if(s.has_device(), "Device") },
    KeyBinding { chords: &[letter(']'), Plain(KeyCode::Right)], action: Action::Device(Step::After), help: "next device", label: |s| s.only_if(s.has_device(), "Device") },
    KeyBinding { chords: &[Plain(KeyCode::Up)], action: Action::Move(Motion::Up), help: "up", label: |s| s.only_if(s.can_scroll, "Scroll") },
    KeyBinding { chords: &[Plain(KeyCode::Down)], action: Action::Move(Motion::Down), help: "down", label: |s| s.only_if(s.can_scroll, "Scroll") },
    KeyBinding { chords: &[Plain(KeyCode::PageUp)], action: Action::Move(Motion::PageUp), help: "a page up", label: |_| "" },
    KeyBinding { chords: &[Plain(KeyCode::PageDown)], action: Action::Move(Motion::PageDown), help: "a page down", label: |_| "" },
    KeyBinding { chords: &[Plain(KeyCode::Home)], action: Action::Move(Motion::Home), help: "to the first", label: |_| "" },
    KeyBinding { chords: &[Plain(KeyCode::End)], action: Action::Move(Motion::End), help: "to the last", label: |_| "" },
    KeyBinding { chords: &[letter('m')], action: Action::Metric, help: "charts and mesh: next metric", label: |s| s.only_if(s.is(&[View::Charts, View::Mesh]), "Metric") },
    KeyBinding { chords: &[letter('o')], action: Action::Overlay, help: "charts: one for all devices, or one per device", label: |s| s.only_if(s.is(&[View::Charts]) && !s.is_by_device, "Overlay") },
    KeyBinding { chords: &[letter('z')], action: Action::Zoom(Step::Before), help: "charts: shorter time", label: |s| s.only_if(s.is(&[View::Charts]), "Time") },
    KeyBinding { chords: &[letter('Z')], action: Action::Zoom(Step::After), help: "charts: longer time, up to an hour (3,600 samples)", label: |s| s.only_if(s.is(&[View::Charts]), "Time") },
    KeyBinding { chords: &[letter('g')], action: Action::Group, help: "memory: group by line, tag, operation, size, or not", label: |s| s.only_if(s.is(&[View::Memory]), "Group") },
    KeyBinding { chords: &[letter('M')], action: Action::Mark, help: "memory: set a mark, and show what grew since then", label: |_| "" },
    KeyBinding { chords: &[Plain(KeyCode::F(2))], action: Action::Setup, help: "settings: columns, refresh, theme", label: |s| s.only_if(!s.is(&[View::Charts, View::Memory]) && !s.is_replay, "Setup") },
    KeyBinding { chords: &[letter('/'), Plain(KeyCode::F(4))], action: Action::Filter, help: "filter: text, user:ana, host:a, dev:0-3, mem>1G; buffers: text", label: |s| s.only_if(s.is(&[View::Main, View::Memory]), "Filter") },
    KeyBinding { chords: &[Plain(KeyCode::F(6))], action: Action::SortMenu, help: "choose the column to sort by", label: |s| s.only_if(s.is(&[View::Main]) && !s.is_replay, "Sort") },
    KeyBinding { chords: &[letter('<')], action: Action::SortBy(Step::Before), help: "sort by the column to the left", label: |_| "" },
    KeyBinding { chords: &[letter('>')], action: Action::SortBy(Step::After), help: "sort by the column to the right", label: |_| "" },
    KeyBinding { chords: &[letter('I')], action: Action::Reverse, help: "reverse the sort order", label: |_| "" },
    KeyBinding { chords: &[letter('t')], action: Action::Tree, help: "processes as a tree", label: |s| s.only_if(s.is(&[View::Main]) && !s.is_replay, "Tree") },
    KeyBinding { chords: &[Plain(KeyCode::Enter)], action: Action::Details, help: "details of the selected process or device", label: |s| s.only_if(s.is(&[View::Main, View::Memory, View::Mesh]), "Info") },
    KeyBinding { chords: &[Plain(KeyCode::F(9)), letter('K')], action: Action::Signal, help: "send a signal to the selected process", label: |s| s.only_if(s.is(&[View::Main]) && s.can_signal, "Kill") },
    KeyBinding { chords: &[letter(' ')], action: Action::Freeze, help: "pause or resume the display", label: |s| s.always(match (s.is_replay, s.is_frozen) { (true, true) => "Play", (true, false) => "Pause", (false, true) => "Go on", (false, false) => "Freeze" }) },
    KeyBinding { chords: &[letter(','), Shift(KeyCode::Left)], action: Action::Back(Step::Before), help: "one sample back (in a recording: one frame)", label: |s| s.only_if(s.is_replay || s.is_frozen, "Step") },
    KeyBinding { chords: &[letter('.'), Shift(KeyCode::Right)], action: Action::Back(Step::After), help: "one sample forward", label: |s| s.only_if(s.is_replay || s.is_frozen, "Step") },
    KeyBinding { chords: &[letter('{')], action: Action::Jump(Step::Before), help: "a minute back", label: |s| s.only_if(s.is_replay || s.is_frozen, "Minute") },
    KeyBinding { chords: &[letter('}')], action: Action::Jump(Step::After), help: "a minute forward", label: |s| s.only_if(s.is_replay || s.is_frozen, "Minute") },
    KeyBinding { chords: &[Plain(KeyCode::Tab)], action: Action::Focus, help: "switch the focus between devices and processes", label: |_| "" },
    KeyBinding { chords: &[letter('w')], action: Action::WorstFirst, help: "sort devices by id, or worst first", label: |_| "" },
    KeyBinding { chords: &[letter('f')], action: Action::Fold, help: "several hosts: fold or unfold the selected one", label: |s| s.only_if(s.is(&[View::Main]) && s.has_groups, "Fold") },
    KeyBinding { chords: &[letter('+')], action: Action::Speed(Step::After), help: "faster: refresh more often, play a recording faster", label: |s| s.only_if(s.is_replay, "Speed") },
    KeyBinding { chords: &[letter('-')], action: Action::Speed(Step::Before), help: "slower: refresh less often, play a recording slower", label: |s| s.only_if(s.is_replay, "Speed") },
    KeyBinding { chords: &[Plain(KeyCode::F(5)), letter('r'), Ctrl('l')], action: Action::Refresh, help: "refresh now, and redraw the screen", label: |_| "" },
    KeyBinding { chords: &[Plain(KeyCode::F(12))], action: Action::Save, help: "save the settings to the configuration file", label: |_| "" },
    KeyBinding { chords: &[letter('d')], action: Action::Deep, help: "turn --deep on or off (reading the chips themselves)", label: |_| "" },
    KeyBinding { chords: &[letter('a')], action: Action::Alerts, help: "list the alerts, newest first", label: |s| s.only_if(s.has_alerts, "Alerts") },
    KeyBinding { chords: &[Plain(KeyCode::Esc)], action: Action::Escape, help: "close a dialog, clear the filter, or resume the display", label: |s| if s.has_dialog { "Close" } else { "" } },
    KeyBinding { chords: &[letter('q'), Plain(KeyCode::F(10)), Ctrl('c')], action: Action::Quit, help: "quit", label: |s| s.always("Quit") },
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
        assert_eq!(event(KeyCode::Left, KeyModifiers::SHIFT), Shift(KeyCode::Left));
        assert_eq!(event(KeyCode::Left, KeyModifiers::NONE), Plain(KeyCode::Left));
    }
}
