//! The pictures of the README: screens while a recording is played. The same recording gives the same pictures.

mod svg;

use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui_core::buffer::Buffer;
use ttmon_model::select::Selection;

use super::{blank, drawn};
use crate::alerts::Alerts;
use crate::feed::{Feed, FeedMessage, Replay, Request};
use crate::keys::Step;
use crate::state::TopState;
use crate::theme::{Colors, Theme};
use crate::update::Event;
use crate::update::update;

/// At the end of the recording: the name of the picture, the size of the screen, the key of the view.
const PICTURES: &[(&str, (u16, u16), char)] =
    &[("charts", (120, 36), '2'), ("memory", (120, 36), '4'), ("mesh", (120, 24), '5'), ("main", (120, 38), '1')];

/// The animated picture: its size, its number of screens, the samples from one to the next, and the seconds that each is shown.
const ANIMATED_SIZE: (u16, u16) = (104, 30);
const FRAMES: usize = 8;
const STEP: usize = 7;
const FRAME_SECONDS: f64 = 0.8;

#[test]
fn generated_pictures_are_up_to_date() {
    let mut state = blank((0, 0), Theme { colors: Colors::True, ..Theme::default() });
    state.hosts[0].is_recording = true;
    state.hosts[0].alerts = Alerts::new(ttmon_alerts::builtin());
    let mut frames = Vec::new();
    for event in played() {
        let is_position = matches!(event, Event::Feed(_, FeedMessage::Position(_)));
        update(&mut state, event);
        let Some(position) = state.replay.filter(|_| is_position) else { continue };
        let before_the_end = position.count - 1 - position.at;
        if before_the_end % STEP == 0 && before_the_end < FRAMES * STEP {
            frames.push(screen(&mut state, ANIMATED_SIZE));
        }
        if before_the_end == 0 {
            for (name, size, key) in PICTURES {
                update(&mut state, Event::Key(KeyEvent::new(KeyCode::Char(*key), KeyModifiers::NONE)));
                check(name, &svg::of(&screen(&mut state, *size)));
            }
        }
    }
    assert_eq!(frames.len(), FRAMES);
    check("top", &svg::animated(&frames, FRAME_SECONDS));
}

/// Plays the recording sample by sample to its end. Its speed is that of six times `+`.
fn played() -> Receiver<Event> {
    /// More samples than the recording has. A step at its end does nothing.
    const STEPS: usize = 1000;
    let (sender, requests) = channel();
    // The requests wait in the channel, so the feed never waits for the clock. It ends after the last one.
    for request in [vec![Request::Speed(Step::After); 6], vec![Request::Step(Step::After); STEPS]].concat() {
        sender.send(request).unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/screens/t3k.ttmon");
    let replay = Replay::open(&path, Selection::default()).unwrap();
    let (events, arrivals) = channel();
    Feed::Replay(Box::new(replay)).start(0, Duration::ZERO, requests, events).unwrap();
    arrivals
}

fn screen(state: &mut TopState, size: (u16, u16)) -> Buffer {
    state.size = size;
    drawn(state)
}

fn check(name: &str, svg: &str) {
    ttmon_testing::generated(&format!("docs/screens/{name}.svg"), svg);
}
