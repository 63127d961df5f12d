//! Sends signals to processes, and never to the wrong process.
//!
//! Another process may have the pid when the user has answered the dialog. So the process is opened as a pidfd, its start time is compared
//! with the one in the dialog, and then the signal is sent through the pidfd.

use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use ttmon_collect::ProcessStat;
use ttmon_model::ProcessKey;

/// Signals always go to processes of this machine, for any `--root`.
const PROC: &str = "/proc";

pub(crate) struct SignalChoice {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    signal: Signal,
}

/// The signals, the least destructive first.
pub(crate) const SIGNALS: &[SignalChoice] = &[
    SignalChoice { name: "TERM", help: "asks it to end", signal: Signal::TERM },
    SignalChoice { name: "INT", help: "as Ctrl-C does", signal: Signal::INT },
    SignalChoice { name: "HUP", help: "its terminal is gone", signal: Signal::HUP },
    SignalChoice { name: "QUIT", help: "ends it with a core dump", signal: Signal::QUIT },
    SignalChoice { name: "KILL", help: "ends it at once, cannot be caught", signal: Signal::KILL },
    SignalChoice { name: "STOP", help: "halts it until CONT", signal: Signal::STOP },
    SignalChoice { name: "CONT", help: "lets it go on", signal: Signal::CONT },
    SignalChoice { name: "USR1", help: "defined by the program", signal: Signal::USR1 },
    SignalChoice { name: "USR2", help: "defined by the program", signal: Signal::USR2 },
];

/// Sends a signal. Returns a message with the result.
pub(crate) fn send(key: ProcessKey, owner: &str, at: usize) -> String {
    let choice = &SIGNALS[at];
    let failed = |why: String| format!("{} was not sent to {}: {why}", choice.name, key.pid);
    let Some(pid) = i32::try_from(key.pid).ok().and_then(Pid::from_raw) else {
        return failed("that is no process".to_owned());
    };
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(Errno::SRCH) => return failed("it has ended already".to_owned()),
        Err(error) => return failed(error.to_string()),
    };
    // From here on, the pidfd refers to the same process.
    if start_ticks(Path::new(PROC), key.pid) != Some(key.start_ticks) {
        return failed("it has ended, and the number belongs to another process now".to_owned());
    }
    match pidfd_send_signal(&process, choice.signal) {
        Ok(()) => format!("{} was sent to {}", choice.name, key.pid),
        Err(Errno::PERM) => failed(format!("it belongs to {owner}, and this user may not; try as {owner} or root")),
        Err(Errno::SRCH) => failed("it has ended already".to_owned()),
        Err(error) => failed(error.to_string()),
    }
}

/// Returns the start time of a process in ticks, from its `stat`.
pub(crate) fn start_ticks(proc: &Path, pid: u32) -> Option<u64> {
    ProcessStat::of(proc, pid).map(|stat| stat.start_ticks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn at(name: &str) -> usize {
        SIGNALS.iter().position(|choice| choice.name == name).unwrap()
    }

    #[test]
    fn a_signal_goes_only_to_the_chosen_process() {
        let mut child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
        let key = ProcessKey { pid: child.id(), start_ticks: start_ticks(Path::new(PROC), child.id()).unwrap() };
        let other = ProcessKey { start_ticks: key.start_ticks + 1, ..key };
        assert!(send(other, "ana", at("KILL")).contains("belongs to another process now"));
        assert!(child.try_wait().unwrap().is_none(), "it still runs");
        assert_eq!(send(key, "ana", at("TERM")), format!("TERM was sent to {}", key.pid));
        assert!(!child.wait().unwrap().success());
        assert!(send(key, "ana", at("TERM")).contains("has ended"));
    }

    #[test]
    fn the_least_destructive_signal_is_first() {
        assert_eq!(SIGNALS[0].name, "TERM");
    }
}
