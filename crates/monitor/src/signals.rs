//! Signals are the program's: none of them may choose one of our threads, whose stacks are small.

use std::mem::MaybeUninit;

/// Those that a thread causes itself: blocked, they would end the program without a word.
const OWN_FAULTS: [libc::c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];

/// Runs this with all signals blocked in the calling thread; threads that it starts inherit that for good.
pub(crate) fn blocked<T>(run: impl FnOnce() -> T) -> T {
    let _restored = Restored(block());
    run()
}

fn block() -> libc::sigset_t {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: the sets are locals: sigfillset makes the first one whole, before it is changed and read; the last call,
    // which cannot fail with a valid `how`, makes the second one whole. It touches the calling thread's mask alone.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        for signal in OWN_FAULTS {
            libc::sigdelset(all.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

/// Gives the mask back, also when a panic comes by.
struct Restored(libc::sigset_t);

impl Drop for Restored {
    fn drop(&mut self) {
        // SAFETY: the set is whole, and the old one is not asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_blocked(signal: libc::c_int) -> bool {
        let mut now = MaybeUninit::uninit();
        // SAFETY: without a new set the mask is only read, into a local that is whole afterwards.
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
