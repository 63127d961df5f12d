//! Signals that reach ttmon, and the process that they are meant for.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use rustix::process::Signal;
use ttmon_testing::until;

use crate::Case;
use crate::tools::{Running, is_alive, ran, run, scripted};

pub(crate) const CASES: &[Case] = &[
    ("signals_to_ttmon_reach_the_command", signals_to_ttmon_reach_the_command),
    ("a_handled_signal_goes_on", a_handled_signal_goes_on),
    ("signals_of_the_command_are_not_sent_back_to_it", signals_of_the_command_are_not_sent_back_to_it),
    ("ignored_signals_stay_ignored", ignored_signals_stay_ignored),
    ("a_stop_without_a_terminal", a_stop_without_a_terminal),
    ("a_whole_group_is_ended", a_whole_group_is_ended),
    ("an_ignored_child_signal", an_ignored_child_signal),
    ("real_time_signals_reach_the_command", real_time_signals_reach_the_command),
];

fn signals_to_ttmon_reach_the_command() {
    // The parent of these tests may ignore some of them, and commands inherit that.
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = u64::from_str_radix(status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim(), 16).unwrap();
    let is_ignored = |signal: &Signal| ignored >> (signal.as_raw() - 1) & 1 == 1;
    let signals = [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT, Signal::USR1, Signal::USR2, Signal::ALARM, Signal::ABORT];
    for signal in signals.into_iter().filter(|signal| !is_ignored(signal)) {
        let mut running = Running::start(&mut scripted(&[], "a 0 10 1; pid; flush; sleep"));
        let pid = running.line();
        running.send(signal);
        let ran = running.end();
        assert_eq!(ran.output.status.signal(), Some(signal.as_raw()), "{}", ran.stderr);
        assert!(!is_alive(&pid) && ran.stderr.contains("LEFT 10B in 1 buffer"), "{}", ran.stderr);
    }
}

/// Each signal is forwarded. The exit code is the command's.
fn a_handled_signal_goes_on() {
    let shell = "n=0; trap 'n=$((n+1)); echo got' TERM; echo ready; while [ $n -lt 2 ]; do sleep 0.01; done; exit 6";
    let mut running = Running::start(&mut run(&["--quiet", "--", "sh", "-c", shell]));
    assert_eq!(running.line(), "ready");
    for _ in 0..2 {
        running.send(Signal::TERM);
        assert_eq!(running.line(), "got");
    }
    assert_eq!(running.end().code(), Some(6));
}

fn signals_of_the_command_are_not_sent_back_to_it() {
    let ran = ran(&mut scripted(&["--quiet"], "parent; exit 3"));
    assert_eq!(ran.code(), Some(3), "{}", ran.stderr);
}

/// `nohup ttmon run ...`
fn ignored_signals_stay_ignored() {
    let command = scripted(&["--quiet"], "pid; flush; wait; exit 8");
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]).arg(command.get_program()).args(command.get_args());
    command.get_envs().for_each(|(name, value)| {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    });
    let mut running = Running::start(&mut shell);
    let pid = running.line();
    running.send(Signal::HUP);
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim().to_owned();
    assert_eq!(u64::from_str_radix(&ignored, 16).unwrap() & 1, 1, "{status}");
    assert_eq!(running.end().code(), Some(8));
}

/// A user who stops and continues the command by its pid may not know about ttmon.
fn a_stop_without_a_terminal() {
    let mut command = scripted(&["--quiet"], "pid; flush; wait; exit 4");
    let mut setsid = Command::new("setsid");
    setsid.arg(command.get_program()).args(command.get_args());
    command.get_envs().for_each(|(name, value)| {
        match value {
            Some(value) => setsid.env(name, value),
            None => setsid.env_remove(name),
        };
    });
    if Command::new("setsid").arg("true").status().is_ok() {
        command = setsid;
    }
    let mut running = Running::start(&mut command);
    let pid = running.line();
    let pid_of = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
    rustix::process::kill_process(pid_of, Signal::STOP).unwrap();
    let state =
        |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().rsplit_once(')').unwrap().1.trim_start().chars().next();
    until("it stops", || state(&pid) == Some('T'));
    rustix::process::kill_process(pid_of, Signal::CONT).unwrap();
    assert_eq!(running.end().code(), Some(4));
}

/// The command kills its group, including ttmon: both end by that signal, and the report is still written.
fn a_whole_group_is_ended() {
    let mut command = run(&["--", "sh", "-c", "trap 'exit 7' TERM; kill 0; exit 9"]);
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let ran = ran(&mut command);
    assert_eq!(ran.code(), Some(7), "{}", ran.stderr);
    assert!(ran.stderr.contains("exit 7"), "{}", ran.stderr);
}

/// ttmon inherits SIGCHLD as ignored, and still returns the exit code of the command.
fn an_ignored_child_signal() {
    let command = scripted(&["--quiet"], "exit 8");
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' CHLD; exec \"$0\" \"$@\""]).arg(command.get_program()).args(command.get_args());
    command.get_envs().for_each(|(name, value)| {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    });
    assert_eq!(ran(&mut shell).code(), Some(8));
}

/// Real-time signals have no names, and end a process without a handler.
fn real_time_signals_reach_the_command() {
    for number in [34, 37, 64] {
        let handled = format!("trap 'echo got' {number}; echo ready; while :; do sleep 0.01; done");
        let mut running = Running::start(&mut run(&["--", "bash", "-c", &handled]));
        assert_eq!(running.line(), "ready");
        let send = |number: &str| assert!(Command::new("kill").args([number, &running.child.id().to_string()]).status().unwrap().success());
        send(&format!("-{number}"));
        assert_eq!(running.line(), "got");
        running.send(Signal::TERM);
        assert_eq!(running.end().output.status.signal(), Some(15));
        // This command does not handle the signal.
        let mut running = Running::start(&mut scripted(&[], "a 0 10 1; pid; flush; sleep"));
        running.line();
        let killed = Command::new("kill").args([&format!("-{number}"), &running.child.id().to_string()]).status().unwrap();
        let ran = running.end();
        assert_eq!((killed.success(), ran.output.status.signal()), (true, Some(number)), "{}", ran.stderr);
        assert!(ran.stderr.contains(&format!(": signal {number} after")), "{}", ran.stderr);
    }
}
