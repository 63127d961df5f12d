//! `ttmon -w` in a pseudo-terminal.

use std::thread;
use std::time::{Duration, Instant};

use crate::terminal::Terminal;

/// A change of size interrupts the wait for the reading process: the kernel restarts no read of a socket with a timeout.
#[test]
fn resizing_during_a_read_does_not_end_a_watch() {
    let mut terminal = Terminal::start(80, 24, "-w --no-server --sim n300,fault=hang:0", &[]);
    terminal.wait_for("UNREAD");
    let deadline = Instant::now() + Duration::from_secs(60);
    for frame in 0..5 {
        let before = terminal.bytes();
        // A frame takes as long as the read that hangs, so that some of these come during the read.
        while terminal.bytes() == before {
            assert_eq!(terminal.child.try_wait().unwrap().map(|status| status.exit_code()), None, "frame {frame}:\n{}", terminal.text());
            assert!(Instant::now() < deadline, "no frame {frame}");
            for columns in [81, 80] {
                terminal.resize(columns, 24);
                thread::sleep(Duration::from_millis(2));
            }
        }
    }
    terminal.press("\x03");
    terminal.end().1.assert_whole();
}
