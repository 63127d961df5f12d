//! `ttmon -w` in a pseudo-terminal.

use ttmon_testing::until;

use crate::screen::{start_top, start_ttmon};

/// A change of size interrupts the wait for the reading process, because the kernel does not restart a read of a socket with a timeout.
#[test]
fn resizing_during_a_read_does_not_end_a_watch() {
    let mut terminal = start_ttmon(80, 24, "-w --no-server --sim n300,fault=hang:0", &[]);
    terminal.wait_for("UNREAD");
    for frame in 0..5 {
        let before = terminal.bytes();
        // A frame takes as long as the hanging read, so some of these signals arrive during the read.
        until(&format!("frame {frame}"), || {
            assert!(!terminal.has_ended(), "frame {frame}:\n{}", terminal.text());
            terminal.resize(81, 24);
            terminal.resize(80, 24);
            terminal.bytes() > before
        });
    }
    terminal.press("\x03");
    terminal.end().1.assert_restored();
}

/// The states are also shown if the columns are narrow.
#[test]
fn top_shows_starting_and_throttling_devices() {
    for (columns, rows) in [(80, 24), (140, 40)] {
        let mut terminal = start_top(columns, rows, "--no-server --sim n300x2,fault=throttle:0,fault=starting:1");
        terminal.wait("both words", |screen| screen.contains("THROTTLE") && screen.contains("START"));
        terminal.press("q");
        terminal.end().1.assert_restored();
    }
}

/// If there are more lines than rows, the arrow keys scroll. `q` quits and restores the terminal.
#[test]
fn a_watch_scrolls_and_ends_with_q() {
    let mut terminal = start_ttmon(80, 12, "-w --no-server --sim t3k", &[]);
    terminal.wait_for("lines 1-11 of");
    terminal.expect("\x1b[B", "lines 2-12 of");
    terminal.expect("\x1b[A", "lines 1-11 of");
    terminal.press("q");
    let (status, after) = terminal.end();
    assert!(status.success());
    after.assert_restored();
}
