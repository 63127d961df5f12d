//! Signals belong to the program. None may be delivered to a thread of this library, which has a small stack.

use std::mem::MaybeUninit;

/// Signals that a thread causes itself. If they were blocked, the program would end without a message.
const OWN_FAULTS: [libc::c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];

/// Runs a function with all signals blocked in the calling thread. Threads that it starts inherit the mask permanently.
pub(crate) fn blocked<T>(run: impl FnOnce() -> T) -> T {
    let _restored = Restored(block());
    run()
}

fn block() -> libc::sigset_t {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: both sets are locals. sigfillset initialises the first one before it is changed and read. pthread_sigmask initialises the
    // second one, and cannot fail with a valid `how`. It changes only the mask of the calling thread.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        for signal in OWN_FAULTS {
            libc::sigdelset(all.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

/// Restores the mask, also after a panic.
struct Restored(libc::sigset_t);

impl Drop for Restored {
    fn drop(&mut self) {
        // SAFETY: the set is initialised, and the old set is not requested.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_blocked(signal: libc::c_int) -> bool {
        let mut now = MaybeUninit::uninit();
        // SAFETY: without a new set, the mask is only read, into a local that is initialised afterwards.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), now.as_mut_ptr());
            libc::sigismember(now.as_ptr(), signal) == 1
        }
    }

    #[test]
    fn threads_inherit_the_mask_and_the_caller_gets_its_own_back() {
        let seen = blocked(|| std::thread::spawn(|| (is_blocked(libc::SIGINT), is_blocked(libc::SIGSEGV))).join().unwrap());
        assert_eq!(seen, (true, false));
        assert!(!is_blocked(libc::SIGINT));
        assert!(std::panic::catch_unwind(|| blocked(|| std::panic::resume_unwind(Box::new(())))).is_err());
        assert!(!is_blocked(libc::SIGINT));
    }
}
