//! The terminal is restored completely, however the program ends.

use std::process::Command;

use ttmon_testing::Terminal;

use crate::screen::start_top;

fn started() -> Terminal {
    let terminal = start_top(80, 24, "--sim n300");
    terminal.wait_for("Processes (");
    terminal
}

fn signal(terminal: &Terminal, name: &str) {
    let pid = terminal.pid().to_string();
    assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
}

#[test]
fn after_q_f10_and_ctrl_c() {
    for keys in ["q", "\x1b[21~", "\x03"] {
        let mut terminal = started();
        terminal.press(keys);
        let (status, after) = terminal.end();
        assert!(status.success(), "{keys:?}: {status:?}");
        after.assert_restored();
    }
}

#[test]
fn after_a_signal_which_it_dies_of() {
    for name in ["TERM", "HUP", "INT", "QUIT"] {
        let terminal = started();
        signal(&terminal, name);
        let (status, after) = terminal.end();
        assert!(!status.success(), "{name}: {status:?}");
        after.assert_restored();
    }
}

/// A fatal error is printed on the unchanged terminal.
#[test]
fn without_a_device_it_says_so() {
    let root = tempfile::tempdir().unwrap();
    let terminal = start_top(80, 24, &format!("--root {}", root.path().display()));
    let (status, after) = terminal.end();
    assert_eq!(status.exit_code(), 3, "{after:?}");
    assert!(after.text.contains("no Tenstorrent device found"), "{after:?}");
    after.assert_restored();
}
