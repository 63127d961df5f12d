//! Starts the command and waits for it without disturbing it.
//!
//! The command is a child in ttmon's own process group, so the terminal's signals (Ctrl-C, Ctrl-Z, hang-up) reach it directly. ttmon
//! receives all signals that can be blocked as messages. It forwards those that were sent only to ttmon and meant for the command. It stops
//! when the command stops, and ends in the same way as the command. If ttmon is killed, the kernel kills the command too, as would happen
//! without ttmon.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::{fs, thread, time::Duration};

use crate::before_main as plain;
use nix::sys::signal::{SigSet, Signal as Named};
use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions};
use ttmon_buffer_history::CommandEnd;
use ttmon_collect::{ProcessStat, Root};

use super::program;

/// The shell for scripts without a `#!` line.
const SHELL: &CStr = c"/bin/sh";

/// Signals that a program causes itself by a fault. They are neither received as messages nor forwarded.
const FAULTS: [Named; 5] = [Named::SIGSEGV, Named::SIGBUS, Named::SIGFPE, Named::SIGILL, Named::SIGPIPE];

/// Maximum number of ancestors of a sender that are checked.
const ANCESTORS_MAX: usize = 64;

/// The signals of this process, as messages.
#[derive(Debug)]
pub(crate) struct Signals {
    messages: SignalFd,
    /// The signal mask before `take`; the command starts with it.
    before: SigSet,
}

impl Signals {
    /// Blocks all signals and receives them as messages, except faults and those that cannot be blocked.
    pub(crate) fn take() -> io::Result<Self> {
        // If SIGCHLD was inherited as ignored, the kernel would discard the exit status of the child.
        signal_hook::flag::register(signal_hook::consts::SIGCHLD, Arc::new(AtomicBool::new(false)))?;
        // Includes real-time signals, which have no names.
        let mut set = SigSet::all();
        FAULTS.into_iter().for_each(|signal| set.remove(signal));
        let before = SigSet::thread_get_mask()?;
        set.thread_block()?;
        Ok(Self { messages: SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?, before })
    }

    /// Restores the signal mask. Signals that arrived meanwhile were for the command, and are discarded.
    pub(crate) fn let_go(&self) {
        while self.next().is_some() {}
        // The kernel accepts the mask that it returned.
        let _ = self.before.thread_set_mask();
    }

    /// Returns the next signal that has arrived, if there is one.
    fn next(&self) -> Option<siginfo> {
        self.messages.read_signal().ok().flatten()
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.messages.as_fd()
    }
}

/// A command for `execve`: its words, and its environment in the original order.
#[derive(Debug, Default)]
pub(crate) struct Command {
    words: Vec<CString>,
    /// The file of the program; `None` if it is not in PATH.
    program: Option<CString>,
    environment: Vec<(OsString, OsString)>,
}

impl Command {
    /// Creates a command with the environment of this process, but with this PATH, in which the program is searched.
    pub(crate) fn new(words: &[OsString], path: Option<&OsStr>) -> Self {
        let program = words.first().and_then(|name| program::resolve(name, path));
        // Arguments, files and variables of a process have no NUL.
        let program = program.and_then(|file| CString::new(file.into_os_string().into_vec()).ok());
        let words = words.iter().filter_map(|word| CString::new(word.as_bytes()).ok()).collect();
        let mut this = Self { words, program, environment: std::env::vars_os().collect() };
        if let Some(path) = path {
            this.set("PATH", path);
        }
        this
    }

    /// Sets a variable. An existing one keeps its position.
    pub(crate) fn set(&mut self, name: &str, value: impl AsRef<OsStr>) {
        let value = value.as_ref().to_owned();
        match self.environment.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None => self.environment.push((name.into(), value)),
        }
    }

    /// Executes the command in this process. Returns only if that fails, with the error.
    fn exec(&self) -> Errno {
        let line = |(name, value): &(OsString, OsString)| {
            // As in `new`.
            let line = [name.as_bytes(), b"=", value.as_bytes()].concat();
            CString::new(line).ok()
        };
        let environment: Vec<CString> = self.environment.iter().filter_map(line).collect();
        // Does not use `std`'s exec, which changes signal handling.
        let refused = match (&self.program, self.words.split_first()) {
            (Some(program), Some((_, arguments))) => match nix::unistd::execve(program, &self.words, &environment).err() {
                // Like other programs, run a script without a `#!` line with the shell.
                Some(nix::Error::ENOEXEC) => {
                    let words: Vec<&CStr> =
                        [SHELL, program.as_c_str()].into_iter().chain(arguments.iter().map(CString::as_c_str)).collect();
                    nix::unistd::execve(SHELL, &words, &environment).err()
                }
                refused => refused,
            },
            // The search of the C library returns the reason.
            (None, Some((name, _))) => nix::unistd::execvpe(name, &self.words, &environment).err(),
            (_, None) => None,
        };
        refused.map_or(Errno::NOENT, |errno| Errno::from_raw_os_error(errno as i32))
    }
}

#[derive(Debug)]
pub(crate) struct Child {
    pid: Pid,
}

impl Child {
    /// Starts the command with the original signal mask and standard streams.
    pub(crate) fn start(command: &Command, signals: &Signals) -> io::Result<Self> {
        let parent = process::id();
        let (mut failure, mut report) = io::pipe()?;
        match fork::fork()? {
            fork::Fork::Parent(pid) => {
                drop(report);
                let mut number = [0; 4];
                // The exec closes the pipe, so data means that the exec failed.
                if failure.read_exact(&mut number).is_ok() {
                    let pid = Pid::from_raw(pid).ok_or(Errno::CHILD)?;
                    // It leaves no zombie, and its exit code is not needed.
                    let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
                    return Err(io::Error::from_raw_os_error(i32::from_le_bytes(number)));
                }
                Ok(Self { pid: Pid::from_raw(pid).ok_or(Errno::CHILD)? })
            }
            fork::Fork::Child => {
                // The kernel accepts every valid signal.
                let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
                if rustix::process::getppid().is_none_or(|pid| pid.as_raw_nonzero().get().unsigned_abs() != parent) {
                    process::exit(0); // The parent was killed meanwhile.
                }
                plain::as_started();
                // As in `let_go`. Without a parent that reads the report, the exit code has to do.
                let _ = signals.before.thread_set_mask();
                let _ = report.write_all(&command.exec().raw_os_error().to_le_bytes());
                process::exit(125)
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Handles the signals that arrived. Returns how the command ended, or `None` while it is running or stopped.
    pub(crate) fn handle_signals(&self, signals: &Signals) -> io::Result<Option<CommandEnd>> {
        let mut is_continued = false;
        while let Some(signal) = signals.next() {
            let number = signal.ssi_signo.cast_signed();
            if number == signal_hook::consts::SIGCHLD {
                if let Some(end) = self.end()? {
                    return Ok(Some(end));
                }
            } else if self.is_for_it(&signal) || is_continued && number == signal_hook::consts::SIGTSTP {
                // If it has ended meanwhile, `end` reports it next.
                let _ = plain::send(self.pid(), number);
                // A Ctrl-Z between receiving SIGCONT and forwarding it is undone by the forwarding, so it is repeated.
                is_continued = number == signal_hook::consts::SIGCONT;
            }
        }
        // Several pending SIGCHLD are delivered as one, so check again.
        self.end()
    }

    fn end(&self) -> io::Result<Option<CommandEnd>> {
        loop {
            let waited = match rustix::process::waitpid(Some(self.pid), WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Err(Errno::INTR) => continue,
                waited => waited?,
            };
            let Some((_, status)) = waited else { return Ok(None) };
            match status.exit_status().map(CommandEnd::Exit).or_else(|| status.terminating_signal().map(CommandEnd::Signal)) {
                None => stop_too(),
                end => return Ok(end),
            }
        }
    }

    /// Whether a signal must be forwarded. The terminal signals the whole process group, so the command already has that signal. Signals
    /// that the command or its children sent to their group or to their parent are not for the command.
    fn is_for_it(&self, signal: &siginfo) -> bool {
        let is_from_kernel = signal.ssi_code > 0;
        !is_from_kernel && !self.is_ancestor_of(signal.ssi_pid)
    }

    fn is_ancestor_of(&self, mut pid: u32) -> bool {
        let proc = Root::real().proc;
        for _ in 0..ANCESTORS_MAX {
            if pid == self.pid() {
                return true;
            }
            match ProcessStat::of(&proc, pid) {
                Some(ProcessStat { parent, .. }) if parent > 1 => pid = parent,
                _ => return false,
            }
        }
        false
    }
}

/// Stops this process too, because a shell that runs ttmon in the foreground waits for it to stop. Without a terminal no shell waits, and
/// a process that resumes the command does not resume ttmon.
fn stop_too() {
    if fs::File::open("/dev/tty").is_ok() {
        // A process may always stop itself.
        let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
    }
}

/// Ends this process by the signal that killed the command, without a core file that would overwrite the command's.
pub(crate) fn die_of(signal: i32) -> ! {
    // Lowering a limit is always allowed, and so are signals to this process itself.
    let _ = rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    if signal == signal_hook::consts::SIGKILL {
        let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::KILL);
        loop {
            thread::sleep(Duration::from_secs(1));
        }
    }
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    // The crate does not support some signals, such as real-time signals. By default they end the process.
    let _ = plain::send(process::id(), signal);
    process::exit(128 + signal)
}
