//! Every key in every view and dialog: no key panics, and the important keys work as described.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ttmon_model::ledger::Buffer;
use ttmon_model::units::UnixTime;

use super::{SECOND, drawn, eight, machine, one, several, text, watched, with_processes};
use crate::columns::COLUMNS;
use crate::feed::{FeedMessage, ReplayPosition, Request};
use crate::keys::{Chord, KEYS, Step, letter};
use crate::state::{Dialog, ListBy, ListSort, Page, TopState, View};
use crate::theme::Theme;
use crate::update::{Effect, Event, update};
use crate::view::memory_list;

fn event(chord: Chord) -> KeyEvent {
    match chord {
        Chord::Plain(code) => KeyEvent::new(code, KeyModifiers::NONE),
        Chord::Ctrl(character) => KeyEvent::new(KeyCode::Char(character), KeyModifiers::CONTROL),
        Chord::Shift(code) => KeyEvent::new(code, KeyModifiers::SHIFT),
    }
}

pub(super) fn press(state: &mut TopState, chord: Chord) -> Vec<Effect> {
    update(state, Event::Key(event(chord)))
}

fn typed(state: &mut TopState, characters: &str) {
    for character in characters.chars() {
        press(state, letter(character));
    }
}

/// Also a key that ttmon does not use.
#[test]
fn any_key_removes_the_message() {
    for chord in [Chord::Plain(KeyCode::Insert), Chord::Plain(KeyCode::Backspace), letter('x')] {
        let mut state = watched(&machine::mixed(), (80, 24), Theme::default(), 3);
        press(&mut state, letter('w'));
        assert!(state.message.is_some());
        press(&mut state, chord);
        assert_eq!(state.message, None);
    }
}

#[test]
fn no_two_keys_panic_in_any_view() {
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
    press(&mut state, Chord::Plain(KeyCode::Down));
    assert_eq!(state.process.map(|(_, key)| key.pid), Some(201));
    // In reverse order, the same process is selected.
    press(&mut state, letter('I'));
    typed(&mut state, ">");
    assert_eq!(state.process.map(|(_, key)| key.pid), Some(201));
}

#[test]
fn a_filter_is_tried_while_it_is_typed_and_dropped_with_escape() {
    let mut state = watched(&machine::mixed(), (80, 24), Theme::default(), 3);
    typed(&mut state, "/bert");
    assert!(text(&drawn(&state)).contains("Processes (1 of 2)"));
    press(&mut state, Chord::Plain(KeyCode::Esc));
    assert!(text(&drawn(&state)).contains("Processes (2)"));
    typed(&mut state, "/mem>x");
    press(&mut state, Chord::Plain(KeyCode::Enter));
    assert!(text(&drawn(&state)).contains("is no filter"));
    assert_eq!(state.filter_text, "", "the previous filter applies, not a part of the invalid one");
    typed(&mut state, "/bert");
    press(&mut state, Chord::Ctrl('w'));
    press(&mut state, Chord::Ctrl('u'));
    typed(&mut state, "201");
    press(&mut state, Chord::Plain(KeyCode::Enter));
    assert_eq!(state.filter_text, "201");
}

#[test]
fn buffers_are_read_only_while_they_are_shown() {
    let mut state = watched(&machine::mixed(), (80, 24), Theme::default(), 3);
    assert_eq!(press(&mut state, letter('4')), [Effect::Send(0, Request::Buffers(true))]);
    assert_eq!(press(&mut state, letter('1')), [Effect::Send(0, Request::Buffers(false))]);
    press(&mut state, letter('4'));
    assert_eq!(press(&mut state, Chord::Plain(KeyCode::Esc)), [Effect::Send(0, Request::Buffers(false))]);
    let key = state.host().live.as_ref().unwrap().processes[0].key;
    assert_eq!(
        press(&mut state, Chord::Plain(KeyCode::Enter)),
        [Effect::Send(0, Request::Environment(key)), Effect::Send(0, Request::Buffers(true))]
    );
    assert_eq!(press(&mut state, Chord::Plain(KeyCode::Esc)), [Effect::Send(0, Request::Buffers(false))]);
}

/// The signal goes to the process for which the dialog was opened, even if the list changes meanwhile.
#[test]
fn a_signal_goes_to_the_process_of_the_dialog() {
    let mut state = watched(&machine::mixed(), (80, 24), Theme::default(), 3);
    let key = state.host().live.as_ref().unwrap().processes[0].key;
    press(&mut state, Chord::Plain(KeyCode::F(9)));
    let mut next = machine::mixed();
    next.processes.remove(0);
    next.time = UnixTime(next.time.0 + SECOND);
    update(&mut state, Event::Feed(0, FeedMessage::Snapshot(Box::new(next))));
    assert_eq!(press(&mut state, letter('y')), [], "nothing is confirmed yet");
    press(&mut state, Chord::Plain(KeyCode::Enter));
    assert_eq!(press(&mut state, letter('y')), [Effect::Signal(key, "ana".to_owned(), 0)]);
    state.is_read_only = true;
    press(&mut state, Chord::Plain(KeyCode::F(9)));
    assert_eq!(state.dialog, None);
}

/// When the selected process has ended, no key applies to the process that is now in its row.
#[test]
fn no_other_process_gets_a_signal_after_the_selected_one_ended() {
    let mut state = watched(&machine::mixed(), (80, 24), Theme::default(), 3);
    press(&mut state, Chord::Plain(KeyCode::Down));
    press(&mut state, Chord::Plain(KeyCode::Up));
    press(&mut state, Chord::Plain(KeyCode::Enter));
    let mut next = machine::mixed();
    next.processes.remove(0);
    next.time = UnixTime(next.time.0 + SECOND);
    update(&mut state, Event::Feed(0, FeedMessage::Snapshot(Box::new(next))));
    press(&mut state, letter('K'));
    assert_eq!(state.dialog, None, "from its details");
    for chord in [Chord::Plain(KeyCode::F(9)), Chord::Plain(KeyCode::Enter)] {
        press(&mut state, chord);
        assert_eq!(state.dialog, None, "from the list");
        assert!(text(&drawn(&state)).contains("the process has ended"));
    }
    press(&mut state, Chord::Plain(KeyCode::Down));
    assert!(!text(&drawn(&state)).contains("the process has ended"), "the next key clears a message");
    press(&mut state, Chord::Plain(KeyCode::F(9)));
    assert!(matches!(state.dialog, Some(Dialog::Signal(_))), "another one was chosen");
}

#[test]
fn a_frozen_picture_stands_still_and_can_be_stepped_through() {
    let mut state = watched(&eight(), (120, 40), Theme::default(), 30);
    press(&mut state, letter(' '));
    let before = state.shown().unwrap().time;
    let mut next = eight();
    next.time = UnixTime(next.time.0 + SECOND);
    update(&mut state, Event::Feed(0, FeedMessage::Snapshot(Box::new(next))));
    assert_eq!(state.shown().unwrap().time, before);
    press(&mut state, letter(','));
    assert_eq!(state.shown().unwrap().time, UnixTime(before.0 - SECOND));
    press(&mut state, letter('.'));
    press(&mut state, letter('.'));
    assert_eq!(state.shown().unwrap().time, UnixTime(before.0 + SECOND));
    for _ in 0..100 {
        press(&mut state, Chord::Shift(KeyCode::Left));
    }
    assert_eq!(state.shown().unwrap().time, UnixTime(before.0 - 29 * SECOND));
    press(&mut state, Chord::Plain(KeyCode::Esc));
    assert!(!state.is_frozen());
}

/// A jump is one minute at any interval. After a longer gap it goes to the next sample.
#[test]
fn a_minute_back_is_a_minute() {
    let mut state = super::blank((80, 24), Theme::default());
    let mut snapshot = one();
    let start = snapshot.time.0;
    for second in (0..300).step_by(10).chain([1000]) {
        snapshot.time = UnixTime(start + second * SECOND);
        update(&mut state, Event::Feed(0, FeedMessage::Snapshot(Box::new(snapshot.clone()))));
    }
    let shown = |state: &TopState| (state.shown().unwrap().time.0 - start) / SECOND;
    let mut seen = Vec::new();
    for key in "{{{}}}}".chars() {
        press(&mut state, letter(key));
        seen.push(shown(&state));
    }
    assert_eq!(seen, [290, 230, 170, 230, 290, 1000, 1000]);
}

/// If the clock is set back, history and alerts are kept. If a recording is rewound, they are dropped.
#[test]
fn only_a_rewound_recording_drops_history_and_alerts() {
    for is_replay in [false, true] {
        let mut state = watched(&eight(), (80, 24), Theme::default(), 10);
        if is_replay {
            let position = ReplayPosition { at: 3, count: 9, speed: 4, is_paused: false, is_cut: false };
            update(&mut state, Event::Feed(0, FeedMessage::Position(position)));
        }
        let alerts = state.alerts().len();
        assert!(alerts > 0);
        let mut earlier = machine::galaxy();
        earlier.devices.truncate(8);
        earlier.time = UnixTime(eight().time.0 - 5 * SECOND);
        update(&mut state, Event::Feed(0, FeedMessage::Snapshot(Box::new(earlier))));
        let expected = if is_replay { (1, 0) } else { (11, alerts) };
        assert_eq!(
            (state.host().history.times().len(), state.alerts().iter().filter(|(_, alert)| alert.time != state.host().now()).count()),
            expected
        );
    }
}

/// The sort keys select only visible columns, including the host column if there is one. Texts are sorted in ascending order.
#[test]
fn neighbours_to_sort_by_are_on_the_screen() {
    for mut state in [watched(&machine::mixed(), (80, 24), Theme::default(), 1), several((80, 24))] {
        let mut seen = Vec::new();
        for _ in 0..COLUMNS.len() {
            press(&mut state, letter('>'));
            let column = &COLUMNS[state.settings.sort];
            assert_eq!(state.settings.descending, column.is_number, "{}", column.name);
            let sign = if column.is_number { '▼' } else { '▲' };
            assert!(text(&drawn(&state)).contains(&format!("{}{sign}", column.title)), "{} is not on the screen", column.name);
            seen.push(column.name);
        }
        assert_eq!(seen.contains(&"host"), state.has_groups(), "{seen:?}");
        press(&mut state, Chord::Plain(KeyCode::F(6)));
        let menu = text(&drawn(&state));
        assert_eq!(menu.contains("its machine"), state.has_groups());
        assert!(menu.contains("COMMAND        (hidden)") && menu.contains("PID            process id"), "{menu}");
    }
}

/// If a process ends, the next one takes its row. The list does not jump, and Down selects that process.
#[test]
fn the_next_process_takes_the_row_of_one_that_ended() {
    let mut next = with_processes(50);
    next.processes.retain(|process| process.key.pid != 320);
    next.time = UnixTime(next.time.0 + SECOND);
    for key in [Chord::Plain(KeyCode::Down), Chord::Plain(KeyCode::Up)] {
        let mut state = watched(&with_processes(50), (80, 24), Theme::default(), 1);
        (state.process, state.scroll) = (Some((0, next.processes[19].key)), 15);
        press(&mut state, Chord::Plain(KeyCode::Down));
        assert_eq!(state.process.map(|(_, key)| key.pid), Some(320));
        update(&mut state, Event::Feed(0, FeedMessage::Snapshot(Box::new(next.clone()))));
        assert!(text(&drawn(&state)).contains("    319 "), "{}", text(&drawn(&state)));
        press(&mut state, key);
        let expected = if key == Chord::Plain(KeyCode::Down) { 321 } else { 319 };
        assert_eq!(state.process.map(|(_, key)| key.pid), Some(expected));
    }
}

/// From an interval that is not in the list, the keys select the nearest one in their direction.
#[test]
fn every_refresh_is_offered() {
    let mut state = watched(&one(), (80, 24), Theme::default(), 1);
    state.settings.refresh = std::time::Duration::from_millis(200);
    press(&mut state, Chord::Plain(KeyCode::F(2)));
    let effects = press(&mut state, Chord::Plain(KeyCode::Right));
    assert_eq!(effects, [Effect::SendAll(Request::Interval(std::time::Duration::from_millis(250)))]);
    press(&mut state, Chord::Plain(KeyCode::Left));
    assert_eq!(press(&mut state, Chord::Plain(KeyCode::Left)), [], "there is none below the lowest");
    assert_eq!(state.settings.refresh, std::time::Duration::from_millis(100));
}

#[test]
fn quit_keys_quit_and_silence_is_shown() {
    let mut state = watched(&eight(), (80, 24), Theme::default(), 3);
    for chord in [letter('q'), Chord::Plain(KeyCode::F(10)), Chord::Ctrl('c')] {
        assert_eq!(press(&mut state, chord), [Effect::Quit]);
    }
    state.dialog = Some(Dialog::page(Page::Help));
    assert_eq!(press(&mut state, Chord::Ctrl('c')), [Effect::Quit]);
    press(&mut state, letter('q'));
    assert_eq!(state.dialog, None, "q closes what is open first");
    update(&mut state, Event::Silence(0, std::time::Duration::from_secs(4)));
    assert!(text(&drawn(&state)).contains("◷4s"));
}

#[test]
fn d_reads_the_chips_themselves_and_stops_it() {
    let utilization = crate::metric::by_name("utilization").unwrap();
    let mut state = watched(&machine::mixed(), (80, 24), Theme::default(), 3);
    let usual = state.settings.metric;
    assert!(!text(&drawn(&state)).contains("[DEEP]"));
    assert_eq!(press(&mut state, letter('d')), [Effect::Send(0, Request::Deep(true))]);
    assert_eq!(state.settings.metric, utilization);
    // The title shows it when the chips are read.
    let mut snapshot = machine::mixed();
    for device in &mut snapshot.devices {
        (device.deep_age_s, device.utilization) = (Ok(0.0), Ok(0.37));
    }
    update(&mut state, Event::Feed(0, FeedMessage::Snapshot(Box::new(snapshot))));
    let screen = text(&drawn(&state));
    assert!(screen.contains("[DEEP]") && screen.contains("UTIL") && screen.contains("37%"), "{screen}");
    assert_eq!(press(&mut state, letter('d')), [Effect::Send(0, Request::Deep(false))]);
    assert_eq!(state.settings.metric, usual);
    // A metric that the user chose is kept.
    press(&mut state, letter('m'));
    let chosen = state.settings.metric;
    press(&mut state, letter('d'));
    assert_eq!(state.settings.metric, chosen);
}

#[test]
fn d_is_not_for_services_and_recordings() {
    let mut state = several((80, 24));
    assert_eq!(press(&mut state, letter('d')), []);
    assert!(state.message.as_ref().is_some_and(|message| message.text.contains("serve --deep")), "{:?}", state.message);
}

/// Every key of the table does something in every view, or shows why it does not.
#[test]
fn every_key_answers_in_every_view() {
    for view in View::ALL {
        for chord in KEYS.iter().flat_map(|key| key.chords) {
            let mut state = watched(&machine::hooked(), (120, 40), Theme::default(), 3);
            state.view = view;
            let before = drawn(&state);
            let effects = press(&mut state, *chord);
            let is_answered = !effects.is_empty() || drawn(&state) != before;
            assert!(is_answered, "{} does nothing in the view {}", chord.name(), view.name());
        }
    }
}

/// `+` is faster, live and in a recording.
#[test]
fn plus_is_faster() {
    let mut state = watched(&one(), (80, 24), Theme::default(), 1);
    assert_eq!(press(&mut state, letter('+')), [Effect::SendAll(Request::Interval(std::time::Duration::from_millis(500)))]);
    assert_eq!(press(&mut state, letter('-')), [Effect::SendAll(Request::Interval(std::time::Duration::from_secs(1)))]);
    state.replay = Some(ReplayPosition { at: 0, count: 9, speed: 4, is_paused: false, is_cut: false });
    assert_eq!(press(&mut state, letter('+')), [Effect::SendAll(Request::Speed(Step::After))]);
}

/// Groups and buffers can be opened, and Esc goes back one step each time.
#[test]
fn the_list_of_buffers_opens_and_closes() {
    let mut state = watched(&machine::hooked(), (120, 40), Theme::default(), 3);
    press(&mut state, letter('4'));
    press(&mut state, letter('g'));
    // No buffer of these programs has a line, a tag or an operation.
    assert!(text(&drawn(&state)).contains("by size"), "{}", text(&drawn(&state)));
    press(&mut state, Chord::Plain(KeyCode::Enter));
    assert!(state.memory.open.is_some());
    press(&mut state, Chord::Plain(KeyCode::Enter));
    assert!(matches!(state.dialog, Some(Dialog::Page { page: Page::Buffer(_), .. })));
    for _ in 0..2 {
        press(&mut state, Chord::Plain(KeyCode::Esc));
    }
    assert!(state.memory.open.is_none() && state.view == View::Memory);
    typed(&mut state, "/no such tag");
    press(&mut state, Chord::Plain(KeyCode::Enter));
    assert!(text(&drawn(&state)).contains("no buffer matches the filter"), "{}", text(&drawn(&state)));
    press(&mut state, Chord::Plain(KeyCode::Esc));
    assert!(state.memory.filter.is_empty() && state.view == View::Memory);
    press(&mut state, Chord::Plain(KeyCode::Esc));
    assert_eq!(state.view, View::Main);
}

/// In details that were opened from the mesh, Esc returns to the mesh. In a view that was chosen by its number, Esc returns to the main
/// view.
#[test]
fn escape_goes_back_to_where_enter_was_pressed() {
    let mut state = watched(&machine::galaxy(), (120, 40), Theme::default(), 1);
    for (key, view) in [('5', View::Mesh), ('2', View::Charts)] {
        press(&mut state, letter(key));
        press(&mut state, Chord::Plain(KeyCode::Enter));
        assert_eq!(state.view, View::Detail);
        press(&mut state, Chord::Plain(KeyCode::Esc));
        assert_eq!(state.view, view);
        press(&mut state, Chord::Plain(KeyCode::Esc));
        assert_eq!(state.view, View::Main);
    }
}

/// The signal that Enter would send is visible on the smallest screen, and so is the value of a setting.
#[test]
fn dialogs_work_on_the_smallest_screen() {
    let mut state = watched(&one(), (40, 10), Theme::default(), 1);
    press(&mut state, Chord::Plain(KeyCode::F(9)));
    for signal in crate::signals::SIGNALS {
        let screen = text(&drawn(&state));
        assert!(screen.contains(&format!("│  {:<6} ", signal.name)) && screen.contains("Enter: confirm, Esc: close  "), "{screen}");
        press(&mut state, Chord::Plain(KeyCode::Down));
    }
    press(&mut state, Chord::Plain(KeyCode::Esc));
    press(&mut state, Chord::Plain(KeyCode::F(2)));
    assert!(text(&drawn(&state)).contains("Metric of charts and m… DRAM used"), "{}", text(&drawn(&state)));
}

/// A narrow screen shows whole parts of the first hint.
#[test]
fn the_first_hint_is_not_cut() {
    let mut state = watched(&one(), (40, 10), Theme::default(), 1);
    state.hint = Some("F1 lists the keys, q quits, 1 to 5 choose a view");
    assert!(text(&drawn(&state)).contains("─ F1 lists the keys, q quits ─"), "{}", text(&drawn(&state)));
}

/// The first page of the help shows how to quit, on the smallest screen too.
#[test]
fn help_says_how_to_leave_first() {
    for size in [(40, 10), (80, 24), (200, 50)] {
        let mut state = watched(&one(), size, Theme::default(), 1);
        press(&mut state, Chord::Plain(KeyCode::F(1)));
        let screen = text(&drawn(&state));
        assert!(screen.contains("q F10") && screen.contains("quit"), "{screen}");
    }
}

/// On the smallest screen too, every word of the help can be read by scrolling.
#[test]
fn no_word_of_the_help_is_cut() {
    let mut state = watched(&one(), (40, 10), Theme::default(), 1);
    press(&mut state, Chord::Plain(KeyCode::F(1)));
    let mut seen = String::new();
    for _ in 0..200 {
        seen += &text(&drawn(&state));
        press(&mut state, Chord::Plain(KeyCode::Down));
    }
    for word in KEYS.iter().flat_map(|key| key.help.split(' ')) {
        assert!(seen.contains(word), "{word}");
    }
}

/// Groups of the same rank keep their places from frame to frame.
#[test]
fn groups_of_the_same_rank_stay_where_they_are() {
    let mut snapshot = machine::hooked();
    let first = snapshot.buffers[0].clone();
    snapshot.buffers = (1..40)
        .map(|size| ttmon_model::snapshot::MappedBuffer { buffer: Buffer { size, ..first.buffer.clone() }, ..first.clone() })
        .collect();
    let mut state = watched(&snapshot, (80, 24), Theme::default(), 1);
    (state.view, state.memory.by, state.memory.sort) = (View::Memory, ListBy::Size, ListSort::Second);
    let names = memory_list(&state);
    assert_eq!(names.len(), 39);
    assert!((0..9).all(|_| memory_list(&state) == names));
}

/// So no bytes are written while nothing changes. A small screen has no charts, which move with the time.
#[test]
fn an_unchanged_machine_does_not_change_the_screen() {
    let mut state = watched(&eight(), (80, 18), Theme::default(), 3);
    let before = drawn(&state);
    let mut next = eight();
    next.time = UnixTime(next.time.0 + SECOND);
    update(&mut state, Event::Feed(0, FeedMessage::Snapshot(Box::new(next))));
    assert_eq!(text(&drawn(&state)), text(&before));
}
