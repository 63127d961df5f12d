//! A shell on a terminal, and the effects of its keys on a command under `ttmon run`.

use std::process::Command;

use ttmon_testing::{CommandBuilder, Terminal, until};

use crate::Case;
use crate::tools::{is_alive, run};

pub(crate) const CASES: &[Case] = &[
    ("the_terminal_is_the_commands", the_terminal_is_the_commands),
    ("control_c_reaches_the_command_once", control_c_reaches_the_command_once),
    ("control_z_and_fg", control_z_and_fg),
    ("in_the_background", in_the_background),
    ("a_closed_terminal", a_closed_terminal),
    ("no_line_is_wider_than_the_terminal", no_line_is_wider_than_the_terminal),
];

/// A shell with job control on a separate terminal.
struct Shell {
    terminal: Terminal,
    /// How many bytes of the output were read.
    read: usize,
    folder: tempfile::TempDir,
}

impl Shell {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = CommandBuilder::new("sh");
        command.arg("-i");
        let ttmon: Command = run(&[]);
        for (name, value) in ttmon.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            }
        }
        command.env("PS1", "> ");
        command.env("ENV", "");
        command.env("TTMON", env!("CARGO_BIN_EXE_ttmon"));
        command.env("TMPDIR", folder.path());
        Self { terminal: Terminal::run(command, 200, 24), read: 0, folder }
    }

    fn press(&mut self, keys: &str) {
        self.terminal.press(keys);
    }

    /// Waits for this text. Returns the output since the last call.
    fn shows(&mut self, text: &str) -> String {
        let end = self.terminal.wait_written(self.read, text);
        let start = std::mem::replace(&mut self.read, end);
        self.terminal.written()[start..end].to_owned()
    }

    /// Returns the exit code of the last command, as the shell reports it.
    fn code(&mut self) -> String {
        self.press("echo code=$(( $? ))\n");
        // The typed line is shown too.
        self.shows("code=$(( $? ))");
        self.shows("code=");
        self.shows("\n").trim().to_owned()
    }

    fn is_tidy(&self) -> bool {
        std::fs::read_dir(self.folder.path()).unwrap().count() == 0
    }
}

fn the_terminal_is_the_commands() {
    let mut shell = Shell::start();
    shell.press("\"$TTMON\" run --quiet -- sh -c 'test -t 0 && test -t 1 && test -t 2 && stty size && read word && echo got:$word'\n");
    shell.shows("24 200");
    shell.press("typed\n");
    shell.shows("got:typed");
    assert_eq!(shell.code(), "0");
    assert!(shell.is_tidy());
}

fn control_c_reaches_the_command_once() {
    let mut shell = Shell::start();
    shell.press(
        "\"$TTMON\" run --quiet -- sh -c 'n=0; trap \"n=\\$((n+1)); echo hit=\\$n\" INT; echo re\"\"ady; while :; do sleep 0.02; done'\n",
    );
    shell.shows("ready");
    shell.press("\x03");
    shell.shows("hit=1");
    shell.press("\x03");
    let between = shell.shows("hit=");
    assert_eq!(shell.shows("\n").trim(), "2", "{between}");
    // Ctrl-\ ends the command. Ctrl-C without a handler does too, and the shell gets the status.
    shell.press("\x1c");
    shell.shows("> ");
    assert_eq!(shell.code(), "131");
    shell.press("\"$TTMON\" run -- cat\n");
    // The text appears once as typed and once from the command, so the command reads the terminal.
    shell.press("line\n");
    shell.shows("line");
    shell.shows("line");
    shell.press("\x03");
    shell.shows("SIGINT after");
    assert_eq!(shell.code(), "130");
    assert!(shell.is_tidy());
}

fn state(pid: &str) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

fn control_z_and_fg() {
    let mut shell = Shell::start();
    shell.press("\"$TTMON\" run --quiet -- sh -c 'echo pids:$PPID:$$:; exec cat'\n");
    shell.shows("pids:$PPID");
    shell.shows("pids:");
    let pids = shell.shows("\n");
    let pids: Vec<&str> = pids.trim().trim_end_matches(':').split(':').collect();
    let [ttmon, command] = pids[..] else { panic!("{pids:?}") };
    for _ in 0..3 {
        shell.press("\x1a");
        until("both stop", || state(ttmon) == Some('T') && state(command) == Some('T'));
        shell.press("echo prom\"\"pt\n");
        shell.shows("prompt");
        shell.press("fg\n");
        until("both go on", || state(ttmon) != Some('T') && state(command) != Some('T'));
        shell.press("a line\n");
        shell.shows("a line");
        shell.shows("a line");
    }
    shell.press("\x04");
    assert_eq!(shell.code(), "0");
    assert!(shell.is_tidy());
}

/// A background command may not read from the terminal, so it waits until it is in the foreground.
fn in_the_background() {
    let mut shell = Shell::start();
    shell.press("\"$TTMON\" run --quiet -- cat & echo pid=$!=\n");
    shell.shows("pid=$!=");
    shell.shows("pid=");
    let pid = shell.shows("=").trim_end_matches('=').to_owned();
    until("it stops", || state(&pid) == Some('T'));
    shell.press("fg\n");
    until("it goes on", || state(&pid) != Some('T'));
    shell.press("from here\n");
    shell.shows("from here");
    shell.shows("from here");
    shell.press("\x04");
    assert_eq!(shell.code(), "0");
}

fn a_closed_terminal() {
    let mut shell = Shell::start();
    shell.press("\"$TTMON\" run -- sh -c 'echo pids:$PPID:$$:; exec sleep 1000'\n");
    shell.shows("pids:$PPID");
    shell.shows("pids:");
    let pids = shell.shows("\n");
    let pids: Vec<String> = pids.trim().trim_end_matches(':').split(':').map(str::to_owned).collect();
    shell.terminal.hang_up();
    until("both end", || pids.iter().all(|pid| !is_alive(pid)));
    until("nothing is left", || shell.is_tidy());
}

fn no_line_is_wider_than_the_terminal() {
    let mut shell = Shell::start();
    let program = std::env::current_exe().unwrap();
    shell.press(&format!(
        "stty cols 80; PS1='$ '; {}=hook \"$TTMON\" run -- '{}'; echo en\"\"d\n",
        crate::program::SCRIPT,
        program.display()
    ));
    shell.shows("ttmon: ");
    let text = format!("ttmon: {}", shell.shows("end\r\n"));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.iter().all(|line| line.chars().count() <= 80) && (8..=25).contains(&lines.len()), "{text}");
    assert!(text.contains("\n  chips 0,1  DRAM peak 14.0MB of 12.0GB (<1%) at 00:00\r\n      L1 peak"), "{text}");
}
