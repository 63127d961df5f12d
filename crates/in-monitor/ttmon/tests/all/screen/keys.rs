//! Every key, the mouse and a change of size, and their effects on the screen.

use ttmon_testing::Terminal;

use crate::screen::{start_top, start_top_with};

const UP: &str = "\x1b[A";
const DOWN: &str = "\x1b[B";
const RIGHT: &str = "\x1b[C";
const ESCAPE: &str = "\x1b";

fn t3k() -> Terminal {
    let terminal = start_top(120, 40, "--sim t3k -r 200");
    terminal.wait_for("Processes (3)");
    terminal
}

#[test]
fn views() {
    let mut top = t3k();
    top.expect("2", "Device 0 n300 L, the last 60 seconds");
    top.expect("m", "DRAM used of 8 devices");
    top.expect("o", "  max ");
    top.expect("Z", "the last 5 minutes");
    top.expect("z", "the last 60 seconds");
    top.expect("3", "IDENTITY");
    top.expect("]", "Device 1 n300 L");
    top.expect(RIGHT, "Device 2 n300 L");
    top.expect("[", "Device 1 n300 L");
    top.expect("[", "Device 0 n300 L");
    top.expect("4", "Memory of device 0");
    top.wait("buffers of a tracked process", |text| text.contains("Largest of") && !text.contains("Largest of 0"));
    top.wait("something that happens", |text| text.contains("Recent events") && !text.contains("nothing since"));
    top.expect("5", "t3k (4 x n300), 2x4");
    top.expect("m", "Power");
    top.expect("1", "Processes (3)");
    top.expect("\x1bOP", "show or hide this help");
    top.wait_for("quit");
    top.expect("\x1b[F", "close a dialog");
    top.press(ESCAPE);
    top.wait("the help to close", |text| !text.contains("Help: Esc"));
    top.expect("?", "main view: devices and processes");
    top.press("h");
    top.wait("the help to close", |text| !text.contains("Help: Esc"));
}

/// If the memory view is the first view, it has buffers, the map of a bank and circular buffers from the start.
#[test]
fn memory_first() {
    let top = start_top(120, 40, "--sim n300 --view 4 -r 200");
    top.wait("buffers", |text| text.contains("Largest of") && !text.contains("Largest of 0"));
    top.wait("a map", |text| text.lines().any(|line| line.contains(" dram ") && line.contains("███") && line.contains("frag")));
    top.wait("cores", |text| text.contains("CBs by core (x, y), most") && text.contains("████████▃▃"));
}

#[test]
fn processes() {
    let mut top = t3k();
    top.expect("/serve", "Filter: serve");
    top.wait_for("Processes (1 of 3)");
    top.expect("\r", "filter: serve");
    top.press(ESCAPE);
    top.wait("the filter to go", |text| text.contains("Processes (3)"));
    top.expect("\x1b[17~", "Sort by: Enter");
    top.press(ESCAPE);
    top.wait("the menu to close", |text| !text.contains("Sort by: Enter"));
    top.expect(">", "sort: l1");
    top.expect("<", "sort: dram");
    top.expect("I", "DRAM▲");
    top.expect("I", "DRAM▼");
    top.expect("t", "  tree");
    top.press("t");
    top.press(DOWN);
    top.press(UP);
    top.expect("\r", "VARIABLES");
    top.wait_for("TTMON_SIM_PART");
    top.press(ESCAPE);
    top.wait("the details to close", |text| !text.contains("VARIABLES"));
    top.press("\t");
    top.expect("\r", "IDENTITY");
    top.expect(ESCAPE, "Processes (3)");
}

/// The selected process gets the signal after a confirmation.
#[test]
fn signals() {
    let mut top = t3k();
    top.expect("K", "Send a signal to");
    top.press(DOWN);
    top.press(UP);
    top.expect("\r", "Really send TERM? y: yes");
    top.expect("y", "TERM was sent to");
    top.wait_for("Processes (2)");
    top.expect("\x1b[20~", "Send a signal to");
    top.press(ESCAPE);
    top.wait("the dialog to close", |text| !text.contains("Send a signal to"));

    let mut careful = start_top(120, 40, "--sim t3k --read-only");
    careful.wait_for("Processes (3)");
    careful.expect("K", "signals are off");
}

#[test]
fn time_and_pace() {
    let mut top = t3k();
    top.expect(" ", "FROZEN");
    top.wait_for("frozen at");
    top.expect(",", "ago");
    top.press(".");
    top.press(" ");
    top.wait("it to go on", |text| !text.contains("FROZEN"));
    top.expect("+", " 100ms");
    top.expect("-", " 250ms");
    top.press("r");
    top.press("\x1b[15~");
    top.press("w");
    top.wait_for("Processes (3)");
}

/// Keys that no other test presses: ends of lists, pages, back and forth in time.
#[test]
fn ends_and_pages() {
    const PAGE_UP: &str = "\x1b[5~";
    const PAGE_DOWN: &str = "\x1b[6~";
    let mut top = t3k();
    top.press("\t\x1b[F");
    top.expect("\r", "Device 7 n300 R");
    top.expect(PAGE_DOWN, "FIRMWARE");
    top.expect(PAGE_DOWN, "KINDS OF MEMORY");
    top.expect("\x1b[H", "IDENTITY");
    top.press(PAGE_DOWN);
    top.expect(PAGE_UP, "IDENTITY");
    top.expect("\x1b[D", "Device 6 n300 R");
    top.expect("1\x1b[1;2D", "frozen at");
    top.press("\x1b[1;2C{} ");
    top.wait("it to go on", |text| !text.contains("FROZEN"));
    top.expect("\x1bOS", "Filter:");
    top.press(ESCAPE);
    top.wait("the filter to close", |text| !text.contains("Filter:"));
    top.expect("f\x1b[H\r", "Device 0 n300 L");
}

#[test]
fn settings_are_kept() {
    let mut top = t3k();
    top.expect("\x1bOQ", "Setup: Left Right");
    top.press(DOWN);
    top.expect(RIGHT, "dark");
    top.expect("\x1b[24~", "settings saved to");
    let path = top.home.path().join("ttmon/config.toml");
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains("theme = \"dark\"") && text.contains("refresh_ms = 200"), "{text}");

    let config = top.home.path().join("odd.toml");
    std::fs::write(&config, "view = \"Mesh\"\nnonsense = 1\n").unwrap();
    let other = start_top(120, 40, &format!("--sim t3k --config {}", config.display()));
    other.wait_for("Mesh: t3k");
    other.wait_for("unknown key nonsense");
}

/// A settings path that is not a regular file neither blocks nor is read without a limit.
#[test]
fn settings_that_are_no_file_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let (fifo, zero) = (directory.path().join("fifo"), directory.path().join("zero"));
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &zero).unwrap();
    for (path, why) in [(fifo, "it is a FIFO"), (zero, "it is a device")] {
        start_top(120, 40, &format!("--sim n150 --config {}", path.display())).wait_for(why);
    }
}

#[test]
fn mouse() {
    let mut top = t3k();
    let heading = top.row_of("PID");
    let line = top.text().lines().nth(usize::from(heading)).unwrap().to_owned();
    let column = u16::try_from(line.chars().position(|character| character == 'P').unwrap()).unwrap();
    top.click(column, heading);
    top.wait_for("PID▼");
    top.click(column, heading);
    top.wait_for("PID▲");
    top.click(10, heading + 1);
    top.click(10, heading + 1);
    top.wait_for("VARIABLES");
    top.press(ESCAPE);
    top.wait("the details to close", |text| !text.contains("VARIABLES"));
    let title = top.text().lines().next().unwrap().to_owned();
    let column = u16::try_from(title.split("2 Charts").next().unwrap().chars().count()).unwrap();
    top.click(column + 1, 0);
    top.wait_for("the last 60 seconds");
    top.press("1\x1b[<64;10;10M\x1b[<65;10;10M");
    top.wait_for("Processes (3)");
}

#[test]
fn sizes() {
    let mut top = t3k();
    top.resize(80, 24);
    top.wait_for("Processes (3)");
    top.resize(40, 10);
    top.wait_for("Processes (3)");
    top.resize(39, 9);
    top.wait_for("ttmon top needs 40x10");
    top.resize(1, 1);
    top.resize(0, 0);
    top.resize(200, 50);
    top.wait_for("COMMAND");
    top.press("q");
    let (status, after) = top.end();
    assert!(status.success());
    after.assert_restored();
}

#[test]
fn ascii_and_no_colour() {
    let top = start_top_with(80, 24, "--sim t3k --ascii", &[("NO_COLOR", "1")]);
    let text = top.wait_for("Processes (3)");
    assert!(text.is_ascii(), "{text}");
}

/// A source that hangs blocks nothing: keys still work, and the other chip is shown.
#[test]
fn a_hanging_source() {
    let mut top = start_top(120, 40, "--sim p150x2,fault=hang:0 --read-timeout 300 -r 500");
    top.wait_for("Processes (");
    top.expect("2", "the last 60 seconds");
    top.expect("1", "UNREAD");
}
