//! Every view at four sizes for one, eight and thirty-two devices. Some devices are warm, at their limit, in reset, gone or unknown.

use ttmon_model::Snapshot;

use super::{drawn, eight, machine, one, text, watched};
use crate::state::{Dialog, Page, View};
use crate::theme::{Colors, Theme};

const SIZES: [(u16, u16); 4] = [(40, 10), (80, 24), (120, 40), (200, 50)];

fn check(name: &str, snapshot: &Snapshot) {
    for (width, height) in SIZES {
        let mut state = watched(snapshot, (width, height), Theme::default(), 70);
        let mut screens = String::new();
        for view in View::ALL {
            state.view = view;
            screens += &format!("{}\n{}\n", "=".repeat(usize::from(width)), text(&drawn(&state)));
        }
        insta::assert_snapshot!(format!("{name}_{width}x{height}"), screens);
    }
}

#[test]
fn one_device() {
    check("one", &one());
}

#[test]
fn eight_devices() {
    check("eight", &eight());
}

#[test]
fn thirty_two_devices() {
    check("galaxy", &machine::galaxy());
}

#[test]
fn in_ascii() {
    let theme = Theme { ascii: true, ..Theme::default() };
    let mut screens = String::new();
    for view in View::ALL {
        let mut state = watched(&eight(), (80, 24), theme, 70);
        state.view = view;
        let screen = text(&drawn(&state));
        assert!(screen.is_ascii(), "{screen}");
        screens += &format!("{}\n{screen}\n", "=".repeat(80));
    }
    insta::assert_snapshot!("eight_ascii", screens);
}

/// Without colours, health and the lines of a chart can still be distinguished.
#[test]
fn without_colors() {
    let mut screens = String::new();
    for size in [(80, 24), (120, 40)] {
        let theme = Theme { colors: Colors::None, ..Theme::default() };
        screens += &format!("{}\n{}\n", "=".repeat(usize::from(size.0)), text(&drawn(&watched(&eight(), size, theme, 70))));
    }
    insta::assert_snapshot!("eight_mono", screens);
}

#[test]
fn dialogs() {
    let mut state = watched(&machine::mixed(), (80, 24), Theme::default(), 70);
    let key = state.host().live.as_ref().unwrap().processes[0].key;
    state.environment = Some(((0, key), Ok(vec!["TT_VISIBLE_DEVICES=0,1".to_owned()])));
    let mut screens = String::new();
    for dialog in [
        Dialog::page(Page::Help),
        Dialog::Sort { at: 1 },
        Dialog::Setup { at: 3 },
        Dialog::page(Page::Process((0, key))),
        Dialog::Filter { text: "user:ana".to_owned(), before: String::new() },
    ] {
        state.dialog = Some(dialog);
        screens += &format!("{}\n{}\n", "=".repeat(80), text(&drawn(&state)));
    }
    state.dialog = None;
    super::super::update::signal(&mut state, None);
    screens += &format!("{}\n{}\n", "=".repeat(80), text(&drawn(&state)));
    insta::assert_snapshot!("dialogs", screens);
}

#[test]
fn memory_of_hooked_programs() {
    for (width, height) in SIZES {
        let mut state = watched(&machine::hooked(), (width, height), Theme::default(), 3);
        state.view = View::Memory;
        insta::assert_snapshot!(format!("hooked_{width}x{height}"), text(&drawn(&state)));
    }
}

/// Three services: one has an unhealthy machine, one is silent, and one was never reached. Also with the first one folded.
#[test]
fn several_hosts() {
    for (width, height) in SIZES {
        let mut state = super::several((width, height));
        let mut screens = text(&drawn(&state));
        state.hosts[0].is_folded = true;
        state.view = View::Main;
        screens += &format!("\n{}\n{}\n", "=".repeat(usize::from(width)), text(&drawn(&state)));
        for (host, view) in [(1, View::Charts), (2, View::Mesh)] {
            (state.host_index, state.view) = (host, view);
            screens += &format!("{}\n{}\n", "=".repeat(usize::from(width)), text(&drawn(&state)));
        }
        insta::assert_snapshot!(format!("hosts_{width}x{height}"), screens);
    }
}
