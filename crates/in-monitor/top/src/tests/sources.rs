//! Several machines at once: selections, lost and returning services, and which machine a key applies to.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui_core::buffer::Cell;
use ratatui_core::style::{Color, Modifier};
use ttmon_model::units::UnixTime;

use super::{drawn, machine, several, text, watched};
use crate::feed::{FeedError, FeedMessage, Request};
use crate::state::{Focus, TopState, View};
use crate::theme::{Colors, Theme};
use crate::update::{Effect, Event, update};

fn press(state: &mut TopState, code: KeyCode) -> Vec<Effect> {
    update(state, Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

/// The selection moves from the last device of one machine to the first of the next, and to a machine without devices.
#[test]
fn devices_of_all_machines_are_one_list() {
    let mut state = several((120, 40));
    state.focus = Focus::Devices;
    for _ in 0..8 {
        press(&mut state, KeyCode::Down);
    }
    assert_eq!((state.host_index, state.chosen_line().device.map(|id| id.0)), (1, Some(0)));
    press(&mut state, KeyCode::End);
    assert_eq!((state.host_index, state.chosen_line().device), (2, None));
    press(&mut state, KeyCode::Home);
    assert_eq!(press(&mut state, KeyCode::Char('f')), []);
    assert!(state.hosts[0].is_folded);
    press(&mut state, KeyCode::Down);
    assert_eq!(state.host_index, 1);
    press(&mut state, KeyCode::Up);
    press(&mut state, KeyCode::Char('f'));
    assert!(!state.hosts[0].is_folded && state.host_index == 0);
    press(&mut state, KeyCode::Char(']'));
    assert_eq!(state.host().device.map(|id| id.0), Some(1));
}

#[test]
fn a_returning_machine_is_reported() {
    let mut state = several((120, 40));
    assert!(text(&drawn(&state)).contains("tt-b  NO ANSWER since 08:12:45: cannot be reached (Connection refused)"));
    let mut back = machine::n300();
    (back.host, back.time) = ("tt-b".to_owned(), UnixTime(state.host().now().0 + 9 * super::SECOND));
    update(&mut state, Event::Feed(1, FeedMessage::Snapshot(Box::new(back))));
    let screen = text(&drawn(&state));
    assert!(screen.contains("tt-b: answers again") && !screen.contains("tt-b  NO ANSWER"), "{screen}");
}

/// The list has processes of all machines. The same pid on two machines is two processes, and processes of other machines get no signals.
#[test]
fn processes_of_all_machines() {
    let mut state = several((200, 50));
    let rows = state.processes();
    let hosts: Vec<usize> = rows.iter().map(|row| row.host).collect();
    assert!(hosts.contains(&0) && hosts.contains(&1), "{hosts:?}");
    let at = rows.iter().position(|row| row.host == 1).unwrap();
    let (owner, pid) = (rows[at].owner(), rows[at].key.pid);
    state.process = Some(owner);
    press(&mut state, KeyCode::Char('K'));
    assert_eq!(state.dialog, None);
    assert!(text(&drawn(&state)).contains(&format!("process {pid} is seen through a service")));
    let effects = press(&mut state, KeyCode::Enter);
    assert_eq!(effects, [Effect::Send(1, Request::Environment(owner.1)), Effect::Send(1, Request::Buffers(true))]);
    assert!(text(&drawn(&state)).contains(&format!("Process {pid} on tt-b")));
    press(&mut state, KeyCode::Esc);
    for character in "/host:tt-b".chars() {
        press(&mut state, KeyCode::Char(character));
    }
    press(&mut state, KeyCode::Enter);
    assert!(state.processes().iter().all(|row| row.host == 1) && !state.processes().is_empty());
}

/// Two machines with the same name are distinguished by their addresses.
#[test]
fn machines_of_one_name_are_shown_by_address() {
    let mut state = several((120, 40));
    assert_eq!(state.hosts[1].name(), "tt-b");
    let mut same = machine::n300();
    (same.host, same.time) = ("tt-b".to_owned(), state.host().now());
    update(&mut state, Event::Feed(2, FeedMessage::Snapshot(Box::new(same))));
    let names: Vec<&str> = state.hosts.iter().map(crate::host::Host::name).collect();
    assert_eq!(names[1..], ["tt-b:9477", "tt-c:9477"]);
    let mut other = machine::n300();
    (other.host, other.time) = ("tt-c".to_owned(), UnixTime(state.host().now().0 + super::SECOND));
    update(&mut state, Event::Feed(2, FeedMessage::Snapshot(Box::new(other))));
    assert_eq!((state.hosts[1].name(), state.hosts[2].name()), ("tt-b", "tt-c"));
}

/// A frozen screen shows one time, on all machines.
#[test]
fn all_machines_freeze_together() {
    let mut state = several((120, 40));
    press(&mut state, KeyCode::Char(' '));
    assert!(state.hosts[0].frozen.is_some() && state.hosts[1].frozen.is_some() && state.hosts[2].frozen.is_none());
    press(&mut state, KeyCode::Char(','));
    assert_eq!(state.hosts[0].back(), 1);
    state.host_index = 2;
    press(&mut state, KeyCode::Char(' '));
    assert!(!state.is_frozen());
}

/// Buffers are read from the shown machine.
#[test]
fn buffers_follow_the_choice() {
    let mut state = several((120, 40));
    assert_eq!(press(&mut state, KeyCode::Char('4')), [Effect::Send(0, Request::Buffers(true))]);
    state.host_mut().device = Some(ttmon_model::DeviceId(7));
    let moved = press(&mut state, KeyCode::Char(']'));
    assert_eq!(moved, [Effect::Send(0, Request::Buffers(false)), Effect::Send(1, Request::Buffers(true))]);
    assert_eq!(state.view, View::Memory);
}

/// Outdated values have no colour in any view, and the cursor is still visible.
#[test]
fn old_values_are_dim() {
    let theme = Theme { colors: Colors::True, ..Theme::default() };
    let mut state = watched(&super::eight(), (120, 40), theme, 3);
    state.hosts[0].address = Some("tt-a:9477".to_owned());
    let error = FeedError { message: "cannot be reached (Connection refused)".to_owned(), is_no_device: false, since: state.host().now() };
    for message in [None, Some(FeedMessage::Error(error))] {
        match message {
            None => update(&mut state, Event::Silence(0, Duration::from_secs(9))),
            Some(message) => update(&mut state, Event::Feed(0, message)),
        };
        for view in View::ALL {
            state.view = view;
            let buffer = drawn(&state);
            let body = (1..38).flat_map(|row| (0..120).map(move |column| (column, row)));
            let is_old = |cell: &Cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset) && cell.modifier.contains(Modifier::DIM);
            for place in body.filter(|place| buffer[*place].symbol() != " ") {
                assert!(is_old(&buffer[place]), "{view:?} {place:?}: {:?}", buffer[place]);
            }
        }
        state.view = View::Main;
        assert!(drawn(&state).content.iter().filter(|cell| cell.modifier.contains(Modifier::REVERSED)).count() > 100, "a row is chosen");
    }
    assert!(text(&drawn(&state)).lines().next().unwrap().ends_with("08:12 LOST"));
}

/// With several machines, charts of a missing machine have no colour either. Without a chart, a text says so.
#[test]
fn charts_of_a_missing_machine_are_dim() {
    let mut state = several((120, 40));
    (state.theme.colors, state.host_index) = (Colors::True, 1);
    let below = |state: &TopState| {
        let buffer = drawn(state);
        let head = text(&buffer).lines().position(|line| line.starts_with("─ tt-b ")).unwrap();
        let row = u16::try_from(head).unwrap() + 1;
        let is_colored = (0..120).any(|column| buffer[(column, row)].symbol() != " " && buffer[(column, row)].fg != Color::Reset);
        (is_colored, text(&buffer).lines().nth(head + 1).unwrap().to_owned())
    };
    assert!(below(&state).1.contains("DRAM used") && !below(&state).0, "{:?}", below(&state));
    state.hosts[1].history = crate::history::History::default();
    assert_eq!(below(&state).1, " no data so far");
}

/// The reason why a machine is missing is readable to its end on the smallest screen: in the list, in its own views, and in the list of
/// alerts.
#[test]
fn the_reason_of_a_missing_machine_is_shown_in_full() {
    let mut state = several((80, 24));
    assert!(text(&drawn(&state)).contains("▾ tt-b  NO ANSWER since 08:12:45: cannot be reached (Connection refused)"));
    let message = "answers in another way than this ttmon knows (a document of schema 9, which is newer than 1, of version 7.8.9)";
    let error = FeedError { message: message.to_owned(), is_no_device: false, since: state.host().now() };
    update(&mut state, Event::Feed(2, FeedMessage::Error(error.clone())));
    (state.host_index, state.view) = (2, View::Detail);
    let screen = text(&drawn(&state));
    assert!(screen.contains("no answer from tt-c:9477 since") && screen.contains("7.8.9); retrying"), "{screen}");
    let mut state = several((80, 24));
    state.hosts[0].error = None;
    update(&mut state, Event::Feed(0, FeedMessage::Error(error)));
    press(&mut state, KeyCode::Char('a'));
    assert!(text(&drawn(&state)).contains("of version 7.8.9)"), "{}", text(&drawn(&state)));
}

#[test]
fn the_cursor_is_seen_on_a_missing_machine() {
    let mut state = several((120, 40));
    (state.focus, state.host_index) = (Focus::Devices, 1);
    let buffer = drawn(&state);
    let row = text(&buffer).lines().position(|line| line.contains("n300 L")).unwrap();
    assert!(buffer[(60, u16::try_from(row).unwrap())].modifier.contains(Modifier::REVERSED));
}

#[test]
fn a_long_silence_is_shown_in_full() {
    for (ascii, expected) in [(true, "age 1h2m"), (false, "08:12 ◷1h2m")] {
        let mut state = watched(&machine::n300(), (80, 24), Theme { ascii, ..Theme::default() }, 3);
        update(&mut state, Event::Silence(0, Duration::from_secs(3725)));
        let screen = text(&drawn(&state));
        assert!(screen.lines().next().unwrap().ends_with(expected), "{screen}");
    }
}
