//! Restores the signals and standard streams that this process inherited, for the programs that it starts.
//!
//! Before `main`, Rust ignores SIGPIPE and opens /dev/null for closed standard streams. A function that the loader calls records the state
//! before that.
#![allow(unsafe_code, reason = "the state before `main` is known to no crate")]

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Signals that this process ignores or handles. A child inherits ignored signals.
const SIGNALS: [i32; 2] = [libc::SIGPIPE, libc::SIGCHLD];

static IS_IGNORED: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];
static IS_CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

#[used]
#[unsafe(link_section = ".init_array")]
static RECORD_STATE: extern "C" fn() = {
    extern "C" fn record_state() {
        for (signal, is_ignored) in SIGNALS.into_iter().zip(&IS_IGNORED) {
            // SAFETY: the kernel writes into a local struct, for which all zeros are valid. Nothing is changed.
            let handler = unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                if libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0 { action.sa_sigaction } else { libc::SIG_DFL }
            };
            is_ignored.store(handler == libc::SIG_IGN, Relaxed);
        }
        for (stream, is_closed) in (0..).zip(&IS_CLOSED) {
            // SAFETY: reads the flags of a descriptor, which need not be open.
            is_closed.store(unsafe { libc::fcntl(stream, libc::F_GETFD) } < 0, Relaxed);
        }
    }
    record_state
};

/// Restores the signals and streams that this process was started with.
///
/// Call it in a forked child before `exec`: it may close a standard stream.
pub(crate) fn as_started() {
    for (signal, is_ignored) in SIGNALS.into_iter().zip(&IS_IGNORED) {
        let handler = if is_ignored.load(Relaxed) { libc::SIG_IGN } else { libc::SIG_DFL };
        // SAFETY: neither value is a function, so none is called.
        unsafe { libc::signal(signal, handler) };
    }
    for (stream, is_closed) in (0..).zip(&IS_CLOSED) {
        if is_closed.load(Relaxed) {
            // SAFETY: the descriptor is the /dev/null that Rust's runtime opened; no value owns it.
            unsafe { libc::close(stream) };
        }
    }
}

/// Sends a signal to a process. Also accepts signal numbers without a name.
///
/// # Errors
/// The error of `kill`: no such process, or no permission.
pub(crate) fn send(pid: u32, signal: i32) -> io::Result<()> {
    // 0 would signal the whole process group.
    let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: takes only numbers.
    if unsafe { libc::kill(pid, signal) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
