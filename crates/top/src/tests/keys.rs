//! Every key in every view and dialog: nothing breaks, and the important ones do what they say.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ttmon_model::units::UnixTime;

use super::{drawn, eight, machine, text, watched};
use crate::event::Event;
use crate::feed::{News, Request};
use crate::keys::{Chord, KEYS};
use crate::state::{Dialog, State, View};
use crate::theme::Theme;
use crate::update::{Effect, update};

fn event(chord: Chord) -> KeyEvent {
    let (code, modifiers) = match chord {
        Chord::Char(character) => (KeyCode::Char(character), KeyModifiers::NONE),
        Chord::Ctrl(character) => (KeyCode::Char(character), KeyModifiers::CONTROL),
        Chord::F(number) => (KeyCode::F(number), KeyModifiers::NONE),
        Chord::Enter => (KeyCode::Enter, KeyModifiers::NONE),
        Chord::Escape => (KeyCode::Esc, KeyModifiers::NONE),
        Chord::Tab => (KeyCode::Tab, KeyModifiers::NONE),
        Chord::Up => (KeyCode::Up, KeyModifiers::NONE),
        Chord::Down => (KeyCode::Down, KeyModifiers::NONE),
        Chord::Left => (KeyCode::Left, KeyModifiers::NONE),
        Chord::Right => (KeyCode::Right, KeyModifiers::NONE),
        Chord::PageUp => (KeyCode::PageUp, KeyModifiers::NONE),
        Chord::PageDown => (KeyCode::PageDown, KeyModifiers::NONE),
        Chord::Home => (KeyCode::Home, KeyModifiers::NONE),
        Chord::End => (KeyCode::End, KeyModifiers::NONE),
        Chord::ShiftLeft => (KeyCode::Left, KeyModifiers::SHIFT),
        Chord::ShiftRight => (KeyCode::Right, KeyModifiers::SHIFT),
    };
    KeyEvent::new(code, modifiers)
}

pub(super) fn press(state: &mut State, chord: Chord) -> Vec<Effect> {
    update(state, Event::Key(event(chord)))
}

fn typed(state: &mut State, characters: &str) {
    for character in characters.chars() {
        press(state, Chord::Char(character));
    }
}

#[test]
fn every_key_anywhere() {
    let chords: Vec<Chord> = KEYS.iter().flat_map(|key| key.chords.iter().copied()).collect();
    for view in View::ALL {
        for first in &chords {
            let mut state = watched(&machine::mixed(), (80, 24), Theme::default(), 3);
            state.view = view;
            press(&mut state, *first);
            drawn(&state);
            for second in &chords {
                press(&mut state, *second);
            }
            drawn(&state);
        }
    }
}

#[test]
fn selections_are_by_identity() {
    let mut state = watched(&machine::mixed(), (80, 24), Theme::default(), 3);
    press(&mut state, Chord::Down);
    assert_eq!(state.process.map(|(_, key)| key.pid), Some(201));
    // Sorted the other way round the same process is chosen.
    press(&mut state, Chord::Char('I'));
    typed(&mut state, ">");
    assert_eq!(state.process.map(|(_, key)| key.pid), Some(201));
}

#[test]
fn a_filter_is_tried_while_it_is_typed_and_dropped_with_escape() {
    let mut state = watched(&machine::mixed(), (80, 24), Theme::default(), 3);
    typed(&mut state, "/bert");
    assert!(text(&drawn(&state)).contains("Processes (1 of 2)"));
    press(&mut state, Chord::Escape);
    assert!(text(&drawn(&state)).contains("Processes (2)"));
    typed(&mut state, "/mem>x");
    press(&mut state, Chord::Enter);
    assert!(text(&drawn(&state)).contains("is no filter"));
    assert_eq!(state.filter_text, "", "what was before is in force, not a part of what makes no sense");
    typed(&mut state, "/bert");
    press(&mut state, Chord::Ctrl('w'));
    press(&mut state, Chord::Ctrl('u'));
    typed(&mut state, "201");
    press(&mut state, Chord::Enter);
    assert_eq!(state.filter_text, "201");
}

#[test]
fn buffers_are_read_only_while_they_are_looked_at() {
    let mut state = watched(&machine::mixed(), (80, 24), Theme::default(), 3);
    assert_eq!(press(&mut state, Chord::Char('4')), [Effect::Ask(0, Request::Buffers(true))]);
    assert_eq!(press(&mut state, Chord::Char('1')), [Effect::Ask(0, Request::Buffers(false))]);
    press(&mut state, Chord::Char('4'));
    assert_eq!(press(&mut state, Chord::Escape), [Effect::Ask(0, Request::Buffers(false))]);
    let key = state.here().live.as_ref().unwrap().processes[0].key;
    assert_eq!(press(&mut state, Chord::Enter), [Effect::Ask(0, Request::Environment(key)), Effect::Ask(0, Request::Buffers(true))]);
    assert_eq!(press(&mut state, Chord::Escape), [Effect::Ask(0, Request::Buffers(false))]);
}

/// The question is about the process of the moment it was asked in, whatever the list does meanwhile.
#[test]
fn a_signal_goes_to_the_process_of_the_question() {
    let mut state = watched(&machine::mixed(), (80, 24), Theme::default(), 3);
    let key = state.here().live.as_ref().unwrap().processes[0].key;
    press(&mut state, Chord::F(9));
    let mut next = machine::mixed();
    next.processes.remove(0);
    next.time = UnixTime(next.time.0 + super::SECOND);
    update(&mut state, Event::News(0, News::Snapshot(Box::new(next))));
    assert_eq!(press(&mut state, Chord::Char('y')), [], "nothing was asked yet");
    press(&mut state, Chord::Enter);
    assert_eq!(press(&mut state, Chord::Char('y')), [Effect::Signal(key, "ana".to_owned(), 0)]);
    state.is_read_only = true;
    press(&mut state, Chord::F(9));
    assert_eq!(state.dialog, None);
}

/// Once the chosen process is gone, no key means the one that comes to stand in its place.
#[test]
fn a_signal_goes_to_nobody_else() {
    let mut state = watched(&machine::mixed(), (80, 24), Theme::default(), 3);
    press(&mut state, Chord::Down);
    press(&mut state, Chord::Up);
    press(&mut state, Chord::Enter);
    let mut next = machine::mixed();
    next.processes.remove(0);
    next.time = UnixTime(next.time.0 + super::SECOND);
    update(&mut state, Event::News(0, News::Snapshot(Box::new(next))));
    press(&mut state, Chord::Char('K'));
    assert_eq!(state.dialog, None, "from its details");
    for chord in [Chord::F(9), Chord::Enter] {
        press(&mut state, chord);
        assert_eq!(state.dialog, None, "from the list");
        assert!(text(&drawn(&state)).contains("the process has ended"));
    }
    press(&mut state, Chord::Down);
    assert!(!text(&drawn(&state)).contains("the process has ended"), "the next key takes a message away");
    press(&mut state, Chord::F(9));
    assert!(matches!(state.dialog, Some(Dialog::Signal(_))), "another one was chosen");
}

#[test]
fn a_frozen_picture_stands_still_and_can_be_stepped_through() {
    let mut state = watched(&eight(), (120, 40), Theme::default(), 30);
    press(&mut state, Chord::Char(' '));
    let before = state.shown().unwrap().time;
    let mut next = eight();
    next.time = UnixTime(next.time.0 + super::SECOND);
    update(&mut state, Event::News(0, News::Snapshot(Box::new(next))));
    assert_eq!(state.shown().unwrap().time, before);
    press(&mut state, Chord::Char(','));
    assert_eq!(state.shown().unwrap().time, UnixTime(before.0 - super::SECOND));
    press(&mut state, Chord::Char('.'));
    press(&mut state, Chord::Char('.'));
    assert_eq!(state.shown().unwrap().time, UnixTime(before.0 + super::SECOND));
    for _ in 0..100 {
        press(&mut state, Chord::ShiftLeft);
    }
    assert_eq!(state.shown().unwrap().time, UnixTime(before.0 - 29 * super::SECOND));
    press(&mut state, Chord::Escape);
    assert!(!state.is_frozen());
}

#[test]
fn leaving_and_falling_silent() {
    let mut state = watched(&eight(), (80, 24), Theme::default(), 3);
    for chord in [Chord::Char('q'), Chord::F(10), Chord::Ctrl('c')] {
        assert_eq!(press(&mut state, chord), [Effect::Quit]);
    }
    state.dialog = Some(Dialog::Help { scroll: 0 });
    assert_eq!(press(&mut state, Chord::Ctrl('c')), [Effect::Quit]);
    press(&mut state, Chord::Char('q'));
    assert_eq!(state.dialog, None, "q closes what is open first");
    update(&mut state, Event::Silence(0, std::time::Duration::from_secs(4)));
    assert!(text(&drawn(&state)).contains("◷4s"));
}
