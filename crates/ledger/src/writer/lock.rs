//! The one lock: robust, so that a thread that dies inside is noticed; error-checking, so that a signal handler that comes
//! back into its own thread's event gets an error instead of waiting for itself. It holds a program up for a second at most, and longer only while others get the lock.

use std::{
    cell::UnsafeCell,
    hint, mem,
    sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
};

use crate::layout::Lost;

/// What the lock says to a thread that now holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockState {
    /// All is in order.
    Clean,
    /// The owner before died inside.
    AfterDeath,
}

/// A mutex in private memory that does not move once [`Lock::start`] was called.
pub(super) struct Lock {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    /// A thread waited in vain, and the lock was not acquired since: only try.
    is_impatient: AtomicBool,
    /// The first word of the mutex is its owner's thread id: so it is in glibc, whose kernel interface it is, and
    /// [`Lock::start`] looks. A gettid would cost ten times the event.
    tells_owner: AtomicBool,
    /// How often it was had: one that waits in vain while others come and go is starved, not blocked.
    taken: AtomicU32,
}

// SAFETY: a pthread mutex is made for many threads; the rest is atomic.
unsafe impl Sync for Lock {}

/// Tries before sleeping: an event takes less time than a futex call.
const SPINS: u32 = 100;
const WAIT_SECONDS: i64 = 1;
/// Waits of that long while others make progress: the mutex is not fair, and a busy machine makes that worse.
const WAITS_MAX: u32 = 20;

#[cfg(target_env = "gnu")]
unsafe extern "C" {
    /// Since glibc 2.30; with CLOCK_MONOTONIC a clock that is set back cannot prolong the wait.
    fn pthread_mutex_clocklock(mutex: *mut libc::pthread_mutex_t, clock: libc::clockid_t, until: *const libc::timespec) -> libc::c_int;
}

impl Lock {
    pub(super) const fn new() -> Self {
        Self {
            mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            is_impatient: AtomicBool::new(false),
            tells_owner: AtomicBool::new(false),
            taken: AtomicU32::new(0),
        }
    }

    /// Makes it robust and error-checking. `false`: this system has no such mutex.
    ///
    /// # Safety
    /// Nobody else knows the lock yet, and it will not move.
    pub(super) unsafe fn start(&self) -> bool {
        let mut attributes = mem::MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        let attributes = attributes.as_mut_ptr();
        // SAFETY: attributes live on this stack; the mutex is ours alone (the caller's promise) and stays where it is.
        let is_made = unsafe {
            libc::pthread_mutexattr_init(attributes) == 0
                && libc::pthread_mutexattr_settype(attributes, libc::PTHREAD_MUTEX_ERRORCHECK) == 0
                && libc::pthread_mutexattr_setrobust(attributes, libc::PTHREAD_MUTEX_ROBUST) == 0
                && libc::pthread_mutex_init(self.mutex.get(), attributes) == 0
        };
        if is_made && self.take().is_ok() {
            // SAFETY: gettid has no conditions.
            let thread = unsafe { libc::syscall(libc::SYS_gettid) };
            self.tells_owner.store(i64::from(self.first_word()) == thread, Relaxed);
            self.give();
        }
        is_made
    }

    /// Takes it: at once, or after a wait; after a wait in vain only at once.
    #[inline]
    pub(super) fn take(&self) -> Result<LockState, Lost> {
        let mut spins = SPINS;
        let result = loop {
            // SAFETY: the mutex was made by `start`, is aligned and never moves or ends while its writer lives.
            match unsafe { libc::pthread_mutex_trylock(self.mutex.get()) } {
                libc::EBUSY if spins > 0 => {
                    spins -= 1;
                    hint::spin_loop();
                }
                libc::EBUSY => break self.wait(),
                result => break result,
            }
        };
        match result {
            0 => {
                self.taken.store(self.taken.load(Relaxed).wrapping_add(1), Relaxed);
                if self.is_impatient.load(Relaxed) {
                    self.is_impatient.store(false, Relaxed);
                }
                Ok(LockState::Clean)
            }
            libc::EOWNERDEAD => {
                // SAFETY: EOWNERDEAD means that this thread holds it now.
                unsafe { libc::pthread_mutex_consistent(self.mutex.get()) };
                self.is_impatient.store(false, Relaxed);
                Ok(LockState::AfterDeath)
            }
            libc::EDEADLK => Err(Lost::Reentry),
            _ => Err(Lost::LockTimeout),
        }
    }

    #[cold]
    fn wait(&self) -> libc::c_int {
        if self.is_impatient.load(Relaxed) {
            return libc::EBUSY;
        }
        for _ in 0..WAITS_MAX {
            let taken = self.taken.load(Relaxed);
            match self.wait_once() {
                libc::ETIMEDOUT if self.taken.load(Relaxed) != taken => {}
                libc::ETIMEDOUT => break,
                result => return result,
            }
        }
        self.is_impatient.store(true, Relaxed);
        libc::ETIMEDOUT
    }

    fn wait_once(&self) -> libc::c_int {
        let mut until = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        #[cfg(target_env = "gnu")]
        // SAFETY: `until` is ours; the mutex as in `take`. A return code says how it went, errno is not used.
        unsafe {
            libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut until);
            until.tv_sec += WAIT_SECONDS;
            pthread_mutex_clocklock(self.mutex.get(), libc::CLOCK_MONOTONIC, &raw const until)
        }
        #[cfg(not(target_env = "gnu"))]
        // SAFETY: as above.
        unsafe {
            libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut until);
            until.tv_sec += WAIT_SECONDS;
            libc::pthread_mutex_timedlock(self.mutex.get(), &raw const until)
        }
    }

    /// Gives it back; only its holder calls this.
    #[inline]
    pub(super) fn give(&self) {
        // SAFETY: as in `take`; of a thread that does not hold it an error-checking mutex refuses this.
        unsafe { libc::pthread_mutex_unlock(self.mutex.get()) };
    }

    /// The holder's thread id; 0 if the system does not provide it for free.
    pub(super) fn owner(&self) -> u32 {
        if self.tells_owner.load(Relaxed) { self.first_word() } else { 0 }
    }

    fn first_word(&self) -> u32 {
        /// The owner bits of a robust futex word; the other bits mean that a thread waits, or that the owner died.
        const OWNER: u32 = 0x3FFF_FFFF;
        // SAFETY: a mutex is longer than four bytes and aligned to them; other threads change this word, with atomics only.
        let word = unsafe { &*self.mutex.get().cast::<AtomicU32>() };
        word.load(Relaxed) & OWNER
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn started() -> Box<Lock> {
        let lock = Box::new(Lock::new());
        // SAFETY: boxed, and nobody else has it.
        assert!(unsafe { lock.start() });
        lock
    }

    #[test]
    fn its_own_thread_gets_an_error_and_does_not_block() {
        let lock = started();
        assert_eq!(lock.take(), Ok(LockState::Clean));
        assert_eq!(lock.take(), Err(Lost::Reentry));
        lock.give();
        assert_eq!(lock.take(), Ok(LockState::Clean));
        lock.give();
    }

    #[test]
    fn waits_once_then_only_tries_and_is_patient_again_after_success() {
        let lock = started();
        assert_eq!(lock.take(), Ok(LockState::Clean));
        thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(lock.wait(), libc::ETIMEDOUT);
                assert_eq!(lock.wait(), libc::EBUSY, "at once");
                assert_eq!(lock.take(), Err(Lost::LockTimeout));
            });
        });
        lock.give();
        thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(lock.take(), Ok(LockState::Clean));
                lock.give();
            });
        });
        assert!(!lock.is_impatient.load(Relaxed));
    }

    #[test]
    fn a_thread_that_died_inside_is_reported_to_the_next() {
        let lock = started();
        thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(lock.take(), Ok(LockState::Clean));
                #[cfg(target_env = "gnu")]
                // SAFETY: gettid has no conditions.
                assert_eq!(i64::from(lock.owner()), unsafe { libc::syscall(libc::SYS_gettid) });
            });
        });
        assert_eq!(lock.take(), Ok(LockState::AfterDeath));
        lock.give();
        assert_eq!(lock.take(), Ok(LockState::Clean));
        lock.give();
    }
}
