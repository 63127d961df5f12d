//! The one table of keys: dispatch, help, the bottom line, the docs and the tests are loops over it.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::state::View;

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Go to a view.
    Show(View),
    /// Previous or next device.
    Device(Step),
    /// Move in the list that has the focus.
    Move(Motion),
    /// Devices or processes get the keys.
    Focus,
    /// Type a filter.
    Filter,
    /// Choose the column to sort by.
    SortMenu,
    /// Sort by the column before or after.
    SortBy(Step),
    /// The other way round.
    Reverse,
    /// Children below their parents.
    Tree,
    /// Everything of the chosen process or device.
    Details,
    /// Send a signal.
    Signal,
    /// Stop the picture, and go on.
    Freeze,
    /// One moment earlier or later.
    Back(Step),
    /// A minute earlier or later.
    Jump(Step),
    /// Refresh slower or faster.
    Pace(Step),
    /// More or less time in a chart.
    Zoom(Step),
    /// Another metric.
    Metric,
    /// Show only the name and sums of a machine, among several.
    Fold,
    /// All devices in one chart, or one each.
    Overlay,
    /// Devices by id, or the worst first.
    WorstFirst,
    /// Settings.
    Setup,
    /// Keep the settings.
    Save,
    /// Look now.
    Refresh,
    /// This list.
    Help,
    /// Out of a dialog, a filter, a frozen picture.
    Escape,
    /// Leave.
    Quit,
}

/// One to the one or the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "they say what they are")]
pub(crate) enum Step {
    Before,
    After,
}

/// Ways to move in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "they say what they are")]
pub(crate) enum Motion {
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
}

/// One row of the table.
pub(crate) struct Key {
    /// What is pressed; the first is shown in the bottom line.
    pub(crate) chords: &'static [Chord],
    /// What it does.
    pub(crate) action: Action,
    /// The same in words, for help and docs.
    pub(crate) help: &'static str,
    /// A word for the bottom line; empty where it is not there.
    pub(crate) label: &'static str,
}

/// A key with what is held down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "they say what they are")]
pub(crate) enum Chord {
    Char(char),
    Ctrl(char),
    F(u8),
    Enter,
    Escape,
    Tab,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    ShiftLeft,
    ShiftRight,
}

impl Chord {
    /// How it is written.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Char(' ') => "Space".to_owned(),
            Self::Char(character) => character.to_string(),
            Self::Ctrl(character) => format!("Ctrl-{}", character.to_ascii_uppercase()),
            Self::F(number) => format!("F{number}"),
            Self::Enter => "Enter".to_owned(),
            Self::Escape => "Esc".to_owned(),
            Self::Tab => "Tab".to_owned(),
            Self::Up => "Up".to_owned(),
            Self::Down => "Down".to_owned(),
            Self::Left => "Left".to_owned(),
            Self::Right => "Right".to_owned(),
            Self::PageUp => "PgUp".to_owned(),
            Self::PageDown => "PgDn".to_owned(),
            Self::Home => "Home".to_owned(),
            Self::End => "End".to_owned(),
            Self::ShiftLeft => "Shift-Left".to_owned(),
            Self::ShiftRight => "Shift-Right".to_owned(),
        }
    }

    /// What was pressed, where it is something we know.
    pub(crate) fn of(event: KeyEvent) -> Option<Self> {
        let has_shift = event.modifiers.contains(KeyModifiers::SHIFT);
        Some(match event.code {
            KeyCode::Char(character) if event.modifiers.contains(KeyModifiers::CONTROL) => Self::Ctrl(character.to_ascii_lowercase()),
            KeyCode::Char(character) => Self::Char(character),
            KeyCode::F(number) => Self::F(number),
            KeyCode::Enter => Self::Enter,
            KeyCode::Esc => Self::Escape,
            KeyCode::Tab => Self::Tab,
            KeyCode::Up => Self::Up,
            KeyCode::Down => Self::Down,
            KeyCode::Left if has_shift => Self::ShiftLeft,
            KeyCode::Right if has_shift => Self::ShiftRight,
            KeyCode::Left => Self::Left,
            KeyCode::Right => Self::Right,
            KeyCode::PageUp => Self::PageUp,
            KeyCode::PageDown => Self::PageDown,
            KeyCode::Home => Self::Home,
            KeyCode::End => Self::End,
            _ => return None,
        })
    }
}

use Chord as C;

/// Every key, in the order of the help.
#[rustfmt::skip] // one row a line
pub(crate) const KEYS: &[Key] = &[
    Key { chords: &[C::Char('1')], action: Action::Show(View::Main), help: "main view: devices and processes", label: "" },
    Key { chords: &[C::Char('2')], action: Action::Show(View::Charts), help: "charts over time", label: "" },
    Key { chords: &[C::Char('3')], action: Action::Show(View::Detail), help: "everything known of one device", label: "" },
    Key { chords: &[C::Char('4')], action: Action::Show(View::Memory), help: "memory: kinds, address map, buffers, events", label: "" },
    Key { chords: &[C::Char('5')], action: Action::Show(View::Mesh), help: "chips as they are wired", label: "" },
    Key { chords: &[C::Left, C::Char('[')], action: Action::Device(Step::Before), help: "previous device", label: "" },
    Key { chords: &[C::Right, C::Char(']')], action: Action::Device(Step::After), help: "next device", label: "" },
    Key { chords: &[C::Up], action: Action::Move(Motion::Up), help: "up", label: "" },
    Key { chords: &[C::Down], action: Action::Move(Motion::Down), help: "down", label: "" },
    Key { chords: &[C::PageUp], action: Action::Move(Motion::PageUp), help: "a page up", label: "" },
    Key { chords: &[C::PageDown], action: Action::Move(Motion::PageDown), help: "a page down", label: "" },
    Key { chords: &[C::Home], action: Action::Move(Motion::Home), help: "to the first", label: "" },
    Key { chords: &[C::End], action: Action::Move(Motion::End), help: "to the last", label: "" },
    Key { chords: &[C::F(1), C::Char('?'), C::Char('h')], action: Action::Help, help: "show or hide this help", label: "Help" },
    Key { chords: &[C::F(2)], action: Action::Setup, help: "settings: columns, refresh, theme", label: "Setup" },
    Key { chords: &[C::Char('/'), C::F(4)], action: Action::Filter, help: "show processes: text, user:ana, host:a, dev:0, mem>1G", label: "Filter" },
    Key { chords: &[C::F(6)], action: Action::SortMenu, help: "choose the column to sort by", label: "Sort" },
    Key { chords: &[C::Char('<')], action: Action::SortBy(Step::Before), help: "sort by the column to the left", label: "" },
    Key { chords: &[C::Char('>')], action: Action::SortBy(Step::After), help: "sort by the column to the right", label: "" },
    Key { chords: &[C::Char('I')], action: Action::Reverse, help: "sort the other way round", label: "" },
    Key { chords: &[C::Char('t')], action: Action::Tree, help: "processes as a tree", label: "Tree" },
    Key { chords: &[C::Enter], action: Action::Details, help: "details of the chosen process or device", label: "Info" },
    Key { chords: &[C::F(9), C::Char('K')], action: Action::Signal, help: "send the chosen process a signal", label: "Kill" },
    Key { chords: &[C::Char(' ')], action: Action::Freeze, help: "freeze the picture, and let it go on", label: "Freeze" },
    Key { chords: &[C::Char(','), C::ShiftLeft], action: Action::Back(Step::Before), help: "a moment back in time (in a recording: a frame back)", label: "" },
    Key { chords: &[C::Char('.'), C::ShiftRight], action: Action::Back(Step::After), help: "a moment forward", label: "" },
    Key { chords: &[C::Char('{')], action: Action::Jump(Step::Before), help: "a minute back", label: "" },
    Key { chords: &[C::Char('}')], action: Action::Jump(Step::After), help: "a minute forward", label: "" },
    Key { chords: &[C::Tab], action: Action::Focus, help: "keys for the devices, or for the processes", label: "" },
    Key { chords: &[C::Char('m')], action: Action::Metric, help: "another metric in charts and mesh", label: "" },
    Key { chords: &[C::Char('o')], action: Action::Overlay, help: "charts: all devices in one, or one each", label: "" },
    Key { chords: &[C::Char('z')], action: Action::Zoom(Step::Before), help: "charts: less time", label: "" },
    Key { chords: &[C::Char('Z')], action: Action::Zoom(Step::After), help: "charts: more time, up to an hour", label: "" },
    Key { chords: &[C::Char('w')], action: Action::WorstFirst, help: "devices by id, or the worst first", label: "" },
    Key { chords: &[C::Char('f')], action: Action::Fold, help: "several hosts: fold the chosen one, and unfold it", label: "" },
    Key { chords: &[C::Char('+')], action: Action::Pace(Step::After), help: "refresh slower (in a recording: play faster)", label: "" },
    Key { chords: &[C::Char('-')], action: Action::Pace(Step::Before), help: "refresh faster (in a recording: play slower)", label: "" },
    Key { chords: &[C::F(5), C::Char('r')], action: Action::Refresh, help: "look now", label: "" },
    Key { chords: &[C::F(12)], action: Action::Save, help: "keep the settings in the configuration file", label: "" },
    Key { chords: &[C::Escape], action: Action::Escape, help: "out of a dialog, a filter, a frozen picture", label: "" },
    Key { chords: &[C::Char('q'), C::F(10), C::Ctrl('c')], action: Action::Quit, help: "leave", label: "Quit" },
];

/// What a key does.
pub(crate) fn action(chord: Chord) -> Option<Action> {
    KEYS.iter().find(|key| key.chords.contains(&chord)).map(|key| key.action)
}

/// The keys as a page of the docs.
pub fn markdown() -> String {
    let mut text = String::from("| key | does |\n| --- | --- |\n");
    for key in KEYS {
        let names: Vec<String> = key.chords.iter().map(|chord| format!("`{}`", chord.name())).collect();
        text += &format!("| {} | {} |\n", names.join(" "), key.help);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_chord_has_two_meanings_and_every_row_has_words() {
        let chords: Vec<Chord> = KEYS.iter().flat_map(|key| key.chords.iter().copied()).collect();
        for (index, chord) in chords.iter().enumerate() {
            assert!(!chords[..index].contains(chord), "{}", chord.name());
        }
        assert!(KEYS.iter().all(|key| !key.chords.is_empty() && !key.help.is_empty()));
    }

    #[test]
    fn what_is_held_down_counts() {
        let event = |code, modifiers| Chord::of(KeyEvent::new(code, modifiers));
        assert_eq!(event(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Chord::Ctrl('c')));
        assert_eq!(event(KeyCode::Char('K'), KeyModifiers::SHIFT), Some(Chord::Char('K')));
        assert_eq!(event(KeyCode::Left, KeyModifiers::SHIFT), Some(Chord::ShiftLeft));
        assert_eq!(event(KeyCode::Insert, KeyModifiers::NONE), None);
    }
}
