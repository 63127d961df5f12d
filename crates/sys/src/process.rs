//! Signals and standard streams as this process got them, for programs that it starts.
//!
//! Before `main`, Rust ignores SIGPIPE and opens /dev/null for standard streams that are closed. A function that the loader
//! calls reads the state before that.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Signals whose being ignored is inherited, and which such a program needs otherwise for itself.
const SIGNALS: [i32; 2] = [libc::SIGPIPE, libc::SIGCHLD];

static IS_IGNORED: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];
static IS_CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = {
    extern "C" fn look() {
        for (signal, place) in SIGNALS.into_iter().zip(&IS_IGNORED) {
            // SAFETY: the kernel's answer goes into a struct of ours, for which all zeros are valid; nothing is changed.
            let handler = unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                if libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0 { action.sa_sigaction } else { libc::SIG_DFL }
            };
            place.store(handler == libc::SIG_IGN, Relaxed);
        }
        for (stream, place) in (0..).zip(&IS_CLOSED) {
            // SAFETY: asks a descriptor for its flags; it need not be open.
            place.store(unsafe { libc::fcntl(stream, libc::F_GETFD) } < 0, Relaxed);
        }
    }
    look
};

/// Gives back what this process was started with: those signals ignored that were, and those streams closed that were. For a forked
/// child that is about to become another program: what has one of those streams loses it.
pub fn as_started() {
    for (signal, place) in SIGNALS.into_iter().zip(&IS_IGNORED) {
        let handler = if place.load(Relaxed) { libc::SIG_IGN } else { libc::SIG_DFL };
        // SAFETY: neither is a function; nothing is called.
        unsafe { libc::signal(signal, handler) };
    }
    for (stream, place) in (0..).zip(&IS_CLOSED) {
        if place.load(Relaxed) {
            // SAFETY: what is there is the /dev/null of Rust's runtime; nobody owns it.
            unsafe { libc::close(stream) };
        }
    }
}

/// Sends any signal to a process, those without a name too.
///
/// # Errors
/// As the system says: no such process, or not ours.
pub fn send(pid: u32, signal: i32) -> io::Result<()> {
    // 0 would be all processes of our group.
    let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: takes numbers and no memory.
    if unsafe { libc::kill(pid, signal) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
