//! The last two lines: keys that do something here, and every alert.

use crossterm::event::KeyCode;
use ttmon_model::event::{BufferEvent, Op};
use ttmon_model::snapshot::{Health, State as DeviceState};
use ttmon_model::units::UnixTime;

use super::keys::press;
use super::{SECOND, drawn, eight, machine, one, several, text, watched};
use crate::feed::{FeedMessage, ReplayPosition};
use crate::keys::{Chord, letter};
use crate::layout::footer;
use crate::state::{Dialog, Page, TopState, View};
use crate::theme::Theme;
use crate::update::{Effect, Event, update};
use crate::view::extent;

fn last_line(state: &TopState) -> String {
    text(&drawn(state)).lines().last().unwrap_or_default().trim().to_owned()
}

fn status_line(state: &TopState) -> String {
    text(&drawn(state)).lines().rev().nth(1).unwrap_or_default().to_owned()
}

fn playing() -> FeedMessage {
    FeedMessage::Position(ReplayPosition { at: 3, count: 9, speed: 4, is_paused: false, is_cut: false })
}

#[test]
fn the_bottom_line_names_what_works_here() {
    let mut state = watched(&machine::mixed(), (80, 24), Theme::default(), 3);
    assert_eq!(last_line(&state), "F1 Help F2 Setup / Filter F6 Sort t Tree Enter Info F9 Kill Space Freeze q Quit");
    state.is_read_only = true;
    assert!(!last_line(&state).contains("Kill"));
    state.is_read_only = false;
    for (view, has, has_not) in [
        (View::Charts, "m Metric z Z Time", "Overlay"),
        (View::Detail, "[ ] Device Up Down Scroll", "Info"),
        (View::Memory, "[ ] Device", "Kill"),
        (View::Mesh, "m Metric", "Sort"),
    ] {
        state.view = view;
        let line = last_line(&state);
        assert!(line.contains(has) && !line.contains(has_not), "{line}");
        assert!(line.starts_with("F1 Help [ ] Device") && line.contains("Space Freeze") && line.ends_with("q Quit"), "{line}");
    }
    (state.view, state.settings.by_device) = (View::Charts, false);
    assert!(last_line(&state).contains("o Overlay") && !last_line(&state).contains("Device"));
    state.view = View::Main;
    press(&mut state, letter(' '));
    assert!(last_line(&state).contains("Space Go on"));
    press(&mut state, letter(' '));
    press(&mut state, Chord::Plain(KeyCode::F(1)));
    assert_eq!(last_line(&state), "Esc Close");
    press(&mut state, Chord::Plain(KeyCode::Esc));
    update(&mut state, Event::Feed(0, playing()));
    assert_eq!(last_line(&state), "F1 Help / Filter Enter Info Space Pause , . Step { } Minute + - Speed q Quit");
    assert!(!last_line(&several((80, 24))).contains("Kill"), "services send no signals");
    assert!(last_line(&several((80, 24))).contains("f Fold"));
}

/// At any width, no text exceeds the edge, no label is repeated, and the key to quit is shown.
#[test]
fn the_bottom_line_fits() {
    for view in View::ALL {
        let mut state = watched(&eight(), (80, 24), Theme::default(), 3);
        state.view = view;
        for is_replay in [false, true] {
            if is_replay {
                update(&mut state, Event::Feed(0, playing()));
            }
            for width in 80..200 {
                let hints = footer(width, &state);
                assert!(hints.last().is_some_and(|hint| hint.label == "Quit" && hint.to <= width), "{view:?} {width}: {hints:?}");
                assert!(hints.iter().any(|hint| hint.label == "Help"));
                assert!(hints.windows(2).all(|pair| pair[0].to < pair[1].from), "{hints:?}");
            }
        }
    }
}

/// Keys of the process list do nothing while the list is not visible. Enter opens the visible device.
#[test]
fn an_unseen_list_is_left_alone() {
    for view in [View::Charts, View::Detail, View::Mesh] {
        let mut state = watched(&machine::mixed(), (80, 24), Theme::default(), 3);
        press(&mut state, letter(char::from_digit(u32::try_from(view.number()).unwrap(), 10).unwrap()));
        let before = state.settings.clone();
        for chord in ["/", "t", "<", ">", "I", "K"]
            .map(|text| letter(text.chars().next().unwrap()))
            .into_iter()
            .chain([Chord::Plain(KeyCode::F(6)), Chord::Plain(KeyCode::F(9))])
        {
            assert_eq!(press(&mut state, chord), []);
            assert_eq!((&state.dialog, &state.settings), (&None, &before), "{}", chord.name());
            assert!(status_line(&state).contains("for the list of processes"), "{}", chord.name());
        }
        press(&mut state, Chord::Plain(KeyCode::Enter));
        assert_eq!(state.view, View::Detail);
    }
}

/// The arrow keys reach every chart that is counted as hidden.
#[test]
fn charts_scroll_to_the_rest() {
    for (snapshot, by_device) in [(one(), true), (machine::galaxy(), false)] {
        let mut state = watched(&snapshot, (80, 24), Theme::default(), 70);
        (state.view, state.settings.by_device) = (View::Charts, by_device);
        let first = text(&drawn(&state));
        assert!(first.lines().nth(1).unwrap().ends_with('↓') && !first.contains('↑'), "{first}");
        let device = state.host().device;
        press(&mut state, Chord::Plain(KeyCode::Down));
        let second = text(&drawn(&state));
        assert!(second.contains('↑') && second != first, "{second}");
        press(&mut state, Chord::Plain(KeyCode::End));
        let last = text(&drawn(&state));
        assert!(last.lines().nth(1).unwrap().ends_with('↑') && !last.contains('↓'), "{last}");
        assert_eq!(state.scroll, extent(&state).unwrap().last());
        assert_eq!(state.host().device, device, "the device is another key's");
        press(&mut state, Chord::Plain(KeyCode::Home));
        assert_eq!(text(&drawn(&state)), first);
    }
}

/// The number of a chart is never cut, however small the chart is.
#[test]
fn small_charts_keep_their_numbers() {
    let mut state = watched(&machine::galaxy(), (80, 24), Theme::default(), 3);
    (state.view, state.settings.by_device) = (View::Charts, false);
    assert!(text(&drawn(&state)).contains("11  3.5GB of 12.0GB  "), "{}", text(&drawn(&state)));
}

/// The arrow keys also reach every row of the map of banks, and every buffer.
#[test]
fn the_map_of_banks_and_the_buffers_scroll_to_the_rest() {
    for size in [(80, 24), (120, 40)] {
        let mut state = watched(&machine::hooked(), size, Theme::default(), 1);
        state.view = View::Memory;
        let mut seen = text(&drawn(&state));
        for _ in 0..20 {
            press(&mut state, Chord::Plain(KeyCode::Down));
            seen += &text(&drawn(&state));
        }
        press(&mut state, Chord::Plain(KeyCode::Tab));
        for _ in 0..20 {
            press(&mut state, Chord::Plain(KeyCode::Down));
            seen += &text(&drawn(&state));
        }
        for row in ["4242.0 dram", "4242.0 l1_small", "4242.1 dram", "4242.1 l1_small", "5000.0 dram", "5000.0 l1", "0x16dfc0"] {
            assert!(seen.contains(row), "{size:?} {row}: {seen}");
        }
        assert!(!text(&drawn(&state)).contains('↓'), "this is the end");
    }
}

/// After the end, the first step back is visible at once, also in two columns.
#[test]
fn details_scroll_no_further_than_there_is_something() {
    for size in [(80, 24), (200, 30)] {
        let mut state = watched(&one(), size, Theme::default(), 3);
        state.view = View::Detail;
        assert!(!text(&drawn(&state)).contains("+0"), "nothing is hidden above");
        press(&mut state, Chord::Plain(KeyCode::End));
        let end = text(&drawn(&state));
        press(&mut state, Chord::Plain(KeyCode::Up));
        assert_ne!(text(&drawn(&state)), end, "{size:?}");
    }
}

/// The same for dialogs.
#[test]
fn windows_scroll_no_further_than_there_is_something() {
    for chord in [Chord::Plain(KeyCode::F(1)), Chord::Plain(KeyCode::Enter)] {
        let mut state = watched(&machine::hooked(), (80, 24), Theme::default(), 3);
        press(&mut state, chord);
        press(&mut state, Chord::Plain(KeyCode::End));
        let end = text(&drawn(&state));
        press(&mut state, Chord::Plain(KeyCode::PageDown));
        assert_eq!(text(&drawn(&state)), end);
        press(&mut state, Chord::Plain(KeyCode::Up));
        assert_ne!(text(&drawn(&state)), end, "{}", chord.name());
    }
}

/// If buffers are counted but cannot be listed, the view does not say that there are none.
#[test]
fn buffers_that_cannot_be_listed_are_not_denied() {
    let mut snapshot = machine::hooked();
    let is_there = "no tracked process has a buffer";
    let mut state = watched(&snapshot, (80, 24), Theme::default(), 1);
    state.view = View::Memory;
    assert!(!text(&drawn(&state)).contains(is_there));
    snapshot.buffers.clear();
    let mut state = watched(&snapshot, (80, 24), Theme::default(), 1);
    state.view = View::Memory;
    assert!(!text(&drawn(&state)).contains(is_there));
    press(&mut state, letter(' '));
    assert!(text(&drawn(&state)).contains("not read at this time"));
    press(&mut state, letter(' '));
    state.hosts[0].address = Some("tt-a:9477".to_owned());
    assert!(text(&drawn(&state)).contains("--token-file"));
    update(&mut state, Event::Feed(0, playing()));
    assert!(text(&drawn(&state)).contains("was recorded"));
    snapshot.buffers = machine::hooked().buffers.into_iter().take(1).collect();
    update(&mut state, Event::Feed(0, FeedMessage::Snapshot(Box::new(snapshot))));
    assert!(text(&drawn(&state)).contains("Largest 1 of "), "{}", text(&drawn(&state)));
}

/// All details of a process can be scrolled to. Buffers that are only not listed are not reported as missing, and only keys that work are
/// named.
#[test]
fn a_process_is_shown_in_full() {
    let mut snapshot = machine::hooked();
    let command: Vec<String> = (0..60).map(|number| format!("--argument-{number}=value")).collect();
    snapshot.processes[0].command = Ok(command.join(" "));
    snapshot.buffers.clear();
    let mut state = watched(&snapshot, (80, 24), Theme::default(), 1);
    let of = (0, snapshot.processes[0].key);
    state.dialog = Some(Dialog::page(Page::Process(of)));
    let mut seen = text(&drawn(&state));
    assert!(seen.contains("F9 sends a signal") && seen.contains('↓'), "{seen}");
    for _ in 0..10 {
        press(&mut state, Chord::Plain(KeyCode::PageDown));
        seen += &text(&drawn(&state));
    }
    assert!(command.iter().all(|argument| seen.contains(argument)), "{seen}");
    assert!(seen.contains("they are being read"), "{seen}");
    state.is_read_only = true;
    assert!(!text(&drawn(&state)).contains("F9"));
}

#[test]
fn a_recording_is_no_machine() {
    let mut state = super::blank((80, 24), Theme::default());
    assert!(text(&drawn(&state)).contains("reading the machine"));
    state.hosts[0].is_recording = true;
    assert!(text(&drawn(&state)).contains("reading the recording"));
}

#[test]
fn the_end_of_a_long_filter_is_seen() {
    let mut state = watched(&machine::mixed(), (80, 24), Theme::default(), 1);
    press(&mut state, letter('/'));
    for character in "abcdefghij".repeat(9).chars().chain("THE-END".chars()) {
        press(&mut state, letter(character));
    }
    assert!(last_line(&state).starts_with("Filter: abc") && last_line(&state).ends_with("THE-END"), "{}", last_line(&state));
}

/// An empty view shows the correct reason, which fits the smallest screen.
#[test]
fn an_empty_view_is_explained() {
    let mut snapshot = machine::n300();
    let mut state = watched(&snapshot, (80, 24), Theme::default(), 1);
    state.hosts[0].history = crate::history::History::default();
    state.view = View::Charts;
    assert!(text(&drawn(&state)).contains("nothing was measured of this device since this was started; 3 shows why"));
    press(&mut state, letter(']'));
    assert!(text(&drawn(&state)).contains("a chip reached over Ethernet shows only its memory, while a process uses it\n"));
    press(&mut state, letter('m'));
    assert!(text(&drawn(&state)).contains("no device has it"));
    snapshot.devices.clear();
    let mut state = watched(&snapshot, (80, 24), Theme::default(), 1);
    for view in [View::Charts, View::Detail, View::Memory, View::Mesh] {
        state.view = view;
        assert!(text(&drawn(&state)).contains("there is no device"), "{view:?}");
    }
    let mut state = several((80, 24));
    for host in &mut state.hosts {
        (host.live, host.error) = (None, None);
    }
    assert!(!text(&drawn(&state)).contains("no process holds"), "no service has answered yet");
}

/// A paused display shows no later events.
#[test]
fn a_frozen_screen_has_nothing_later() {
    let snapshot = machine::hooked();
    let mut state = watched(&snapshot, (120, 40), Theme::default(), 3);
    state.view = View::Memory;
    press(&mut state, letter(' '));
    let allocator = &snapshot.allocators[0];
    let event = |seconds: u64, tag: &str| BufferEvent {
        time: Some(UnixTime(snapshot.time.0 - SECOND + seconds * SECOND)),
        pid: allocator.process.pid,
        number: None,
        op: Op::Alloc,
        kind: Some(ttmon_model::ledger::BufferKind::Of(ttmon_model::Kind::Dram)),
        allocator: Some(allocator.id.clone()),
        devices: allocator.devices.clone(),
        unmapped: Vec::new(),
        address: Some(0x1000),
        size: Some(4096),
        refs: None,
        program: None,
        tag: Some(tag.to_owned()),
        overrun: None,
        refusal: None,
        line: None,
    };
    update(&mut state, Event::Feed(0, FeedMessage::BufferEvents(vec![event(0, "before"), event(2, "later")])));
    state.host_mut().device = allocator.devices.first().copied();
    let screen = text(&drawn(&state));
    assert!(screen.contains("before") && !screen.contains("later"), "{screen}");
    press(&mut state, letter(' '));
    assert!(text(&drawn(&state)).contains("later"));
}

/// A service's figures and the lists that are read here have different times.
#[test]
fn lists_of_another_time_are_marked() {
    let mut snapshot = machine::hooked();
    let mut state = watched(&snapshot, (120, 40), Theme::default(), 1);
    state.view = View::Memory;
    assert!(!text(&drawn(&state)).contains("lists at"));
    snapshot.time = UnixTime(snapshot.time.0 + SECOND);
    snapshot.lists_time = UnixTime(snapshot.time.0 + 2 * SECOND);
    let [figures, lists] = [snapshot.time, snapshot.lists_time].map(|time| state.clock.second(time));
    update(&mut state, Event::Feed(0, FeedMessage::Snapshot(Box::new(snapshot))));
    let screen = text(&drawn(&state));
    assert!(screen.contains(&format!("figures at {figures}, lists at {lists}")), "{screen}");
}

/// The title covers all machines, even if a machine is selected that was never reached.
#[test]
fn the_title_is_about_all_machines() {
    let mut state = several((80, 24));
    assert!(text(&drawn(&state)).contains("tt-qb-01  [SIMULATED]"));
    for at in 0..3 {
        state.host_index = at;
        let screen = text(&drawn(&state));
        let title = screen.lines().next().unwrap();
        assert!(title.starts_with(" ttmon  [1 SIMULATED]  3 hosts  10 dev ") && title.ends_with(" 08:12 1s"), "{title}");
    }
    state.view = View::Detail;
    assert!(text(&drawn(&state)).starts_with(" ttmon  tt-c:9477 "), "one that was never reached has a name");
}

/// Names that do not fit are cut. Numbers that do not fit are left out.
#[test]
fn a_long_name_leaves_room_in_the_title() {
    let mut snapshot = eight();
    snapshot.host = "a-machine-with-a-very-long-name.example.com".to_owned();
    let mut state = watched(&snapshot, (80, 24), Theme::default(), 1);
    assert!(text(&drawn(&state)).starts_with(" ttmon  [SIMULATED]  a-machine-with-a-very-…  8 dev "), "{}", text(&drawn(&state)));
    update(&mut state, Event::Feed(0, playing()));
    assert!(text(&drawn(&state)).starts_with(" ttmon  [REPLAY]  [SIMULATED]  a-machine-wi…  8 dev "), "{}", text(&drawn(&state)));
    // Another program at the address may send anything.
    snapshot.driver = Ok("9".repeat(100_000));
    snapshot.devices[0].health = Health::Critical;
    snapshot.devices[0].health_reasons = vec!["hot ".repeat(100_000)];
    for kind in ttmon_model::Kind::ALL {
        snapshot.devices[0].memory.kinds[kind].figure.count = Ok(u64::MAX);
    }
    let mut state = watched(&snapshot, (80, 24), Theme::default(), 1);
    assert!(text(&drawn(&state)).starts_with(" ttmon  [SIMULATED]  a-machine-with-a-very-…  8 dev "), "{}", text(&drawn(&state)));
    state.view = View::Memory;
    assert!(text(&drawn(&state)).contains("Largest of 0 buffers"), "{}", text(&drawn(&state)));
}

#[test]
fn a_garbled_screen_and_a_broken_feed() {
    let mut state = watched(&one(), (80, 24), Theme::default(), 1);
    assert!(press(&mut state, Chord::Ctrl('l')).contains(&Effect::Redraw));
    assert!(matches!(update(&mut state, Event::Broken)[..], [Effect::Fail(_)]));
}

#[test]
fn alerts_are_counted_listed_and_seen_in_a_replay() {
    let mut snapshot = machine::galaxy();
    snapshot.devices[3].temperature = snapshot.devices[3].temperature_limit;
    snapshot.devices[20].memory.dram.used = snapshot.devices[20].memory.dram.total;
    for device in 10..15 {
        snapshot.devices[device].state = DeviceState::Resetting;
    }
    let mut state = watched(&snapshot, (80, 24), Theme::default(), 1);
    let status = status_line(&state);
    assert!(status.contains("device 3 hot"), "the most severe of one time comes first: {status}");
    assert!(status.contains("+5: a") || status.contains("+6: a"), "{status}");
    update(&mut state, Event::Feed(0, playing()));
    let status = status_line(&state);
    assert!(status.contains("frame 4 of 9") && status.contains("device 3"), "{status}");
    assert_eq!(press(&mut state, letter('a')), Vec::<Effect>::new());
    assert_eq!(state.dialog, Some(Dialog::page(Page::Alerts)));
    let screen = text(&drawn(&state));
    assert!(screen.contains("Alerts (7)") && screen.contains("device 20 dram-full") && screen.contains("device 14 reset: "), "{screen}");
    press(&mut state, letter('a'));
    assert_eq!(state.dialog, None);
    // After that, the newest alert comes first.
    for second in 1..=11 {
        let mut next = snapshot.clone();
        next.time = UnixTime(snapshot.time.0 + second * SECOND);
        next.devices[10].state = DeviceState::Ok;
        update(&mut state, Event::Feed(0, FeedMessage::Snapshot(Box::new(next))));
    }
    assert_eq!(state.alerts()[0].1.text, "device 10 reset resolved after 1s");
}

/// At every size, numbers keep their units, and each value has its source and age.
#[test]
fn details_are_whole() {
    for size in [(80, 24), (120, 40), (200, 50)] {
        let mut state = watched(&machine::galaxy(), size, Theme::default(), 3);
        state.view = View::Detail;
        let mut seen = String::new();
        for _ in 0..10 {
            seen += &text(&drawn(&state));
            press(&mut state, Chord::Plain(KeyCode::PageDown));
        }
        let line = seen.lines().find(|line| line.contains("Temperature ")).unwrap();
        assert!(line.contains(" now"), "{size:?}: {line}");
        assert!(!seen.contains(" B/s"), "rates are as short as in the charts");
    }
}
