//! The lock of a ledger. It is robust, so that the death of a thread that holds it is detected. It is error-checking, so that a signal
//! handler that interrupts its own thread's event gets an error instead of a deadlock. It blocks a program for at most a second, and longer
//! only while other threads get the lock.

use std::cell::UnsafeCell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::{hint, mem};

use crate::layout::Lost;

/// The state of the lock when a thread gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockState {
    /// The last event is complete.
    Clean,
    /// The previous holder died while it held the lock.
    AfterDeath,
}

/// A mutex in private memory that does not move after [`Lock::start`].
pub(super) struct Lock {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    /// A thread timed out, and no thread got the lock since. Threads try the lock, but do not wait for it.
    is_only_tried: AtomicBool,
    /// Whether the first word of the mutex is the thread id of its holder. It is in glibc, by its interface to the kernel, and
    /// [`Lock::start`] checks this. `gettid` would cost ten times the event.
    first_word_is_holder: AtomicBool,
    /// Number of acquisitions. A thread that times out while others get the lock is starved, not blocked.
    taken: AtomicU32,
}

// SAFETY: a pthread mutex may be shared between threads; the rest is atomic.
unsafe impl Sync for Lock {}

/// Attempts before sleeping: an event takes less time than a futex call.
const SPINS: u32 = 100;
const WAIT_SECONDS: i64 = 1;
/// Maximum number of such waits while others make progress. The mutex is not fair, and a busy machine makes this worse.
const WAITS_MAX: u32 = 20;

#[cfg(target_env = "gnu")]
unsafe extern "C" {
    /// Available since glibc 2.30. With CLOCK_MONOTONIC, setting a clock back cannot prolong the wait.
    fn pthread_mutex_clocklock(mutex: *mut libc::pthread_mutex_t, clock: libc::clockid_t, until: *const libc::timespec) -> libc::c_int;
}

impl Lock {
    pub(super) const fn new() -> Self {
        Self {
            mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            is_only_tried: AtomicBool::new(false),
            first_word_is_holder: AtomicBool::new(false),
            taken: AtomicU32::new(0),
        }
    }

    /// Creates a robust and error-checking mutex. Returns false if this system has none.
    ///
    /// # Safety
    /// No other thread knows the lock yet, and it will not move.
    pub(super) unsafe fn start(&self) -> bool {
        let mut attributes = mem::MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        let attributes = attributes.as_mut_ptr();
        // SAFETY: the attributes are on this stack. The mutex is exclusive (the caller guarantees this) and does not move.
        let is_made = unsafe {
            libc::pthread_mutexattr_init(attributes) == 0
                && libc::pthread_mutexattr_settype(attributes, libc::PTHREAD_MUTEX_ERRORCHECK) == 0
                && libc::pthread_mutexattr_setrobust(attributes, libc::PTHREAD_MUTEX_ROBUST) == 0
                && libc::pthread_mutex_init(self.mutex.get(), attributes) == 0
        };
        if is_made && self.take().is_ok() {
            // SAFETY: gettid has no preconditions.
            let thread = unsafe { libc::syscall(libc::SYS_gettid) };
            self.first_word_is_holder.store(i64::from(self.first_word()) == thread, Relaxed);
            self.give();
        }
        is_made
    }

    /// Takes the lock, immediately or after a wait. After a timeout it does not wait.
    #[inline]
    pub(super) fn take(&self) -> Result<LockState, Lost> {
        let mut spins = SPINS;
        let result = loop {
            // SAFETY: the mutex was created by `start`, is aligned, and neither moves nor ends while its writer lives.
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
                if self.is_only_tried.load(Relaxed) {
                    self.is_only_tried.store(false, Relaxed);
                }
                Ok(LockState::Clean)
            }
            libc::EOWNERDEAD => {
                // SAFETY: EOWNERDEAD means that this thread holds the mutex now.
                unsafe { libc::pthread_mutex_consistent(self.mutex.get()) };
                self.is_only_tried.store(false, Relaxed);
                Ok(LockState::AfterDeath)
            }
            libc::EDEADLK => Err(Lost::Reentry),
            _ => Err(Lost::LockTimeout),
        }
    }

    #[cold]
    fn wait(&self) -> libc::c_int {
        if self.is_only_tried.load(Relaxed) {
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
        self.is_only_tried.store(true, Relaxed);
        libc::ETIMEDOUT
    }

    fn wait_once(&self) -> libc::c_int {
        let mut until = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        #[cfg(target_env = "gnu")]
        // SAFETY: `until` is a local struct; the mutex as in `take`. The result is returned; errno is not used.
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

    /// Releases the lock. Only its holder calls this.
    #[inline]
    pub(super) fn give(&self) {
        // SAFETY: as in `take`. An error-checking mutex rejects a thread that does not hold it.
        unsafe { libc::pthread_mutex_unlock(self.mutex.get()) };
    }

    /// The holder's thread id; 0 if the system does not provide it in the mutex.
    pub(super) fn holder(&self) -> u32 {
        if self.first_word_is_holder.load(Relaxed) { self.first_word() } else { 0 }
    }

    fn first_word(&self) -> u32 {
        /// The holder's bits of a robust futex word. The other bits mean that a thread waits, or that the holder died.
        const HOLDER: u32 = 0x3FFF_FFFF;
        // SAFETY: a mutex is longer than four bytes and aligned to them. Other threads change this word only with atomics.
        let word = unsafe { &*self.mutex.get().cast::<AtomicU32>() };
        word.load(Relaxed) & HOLDER
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn started() -> Box<Lock> {
        let lock = Box::new(Lock::new());
        // SAFETY: boxed, and no other thread has it.
        assert!(unsafe { lock.start() });
        lock
    }

    #[test]
    fn the_holding_thread_gets_an_error_instead_of_a_deadlock() {
        let lock = started();
        assert_eq!(lock.take(), Ok(LockState::Clean));
        assert_eq!(lock.take(), Err(Lost::Reentry));
        lock.give();
        assert_eq!(lock.take(), Ok(LockState::Clean));
        lock.give();
    }

    #[test]
    fn after_a_timeout_the_lock_is_only_tried_until_a_thread_gets_it() {
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
        assert!(!lock.is_only_tried.load(Relaxed));
    }

    #[test]
    fn a_thread_that_died_inside_is_reported_to_the_next() {
        let lock = started();
        thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(lock.take(), Ok(LockState::Clean));
                #[cfg(target_env = "gnu")]
                // SAFETY: gettid has no preconditions.
                assert_eq!(i64::from(lock.holder()), unsafe { libc::syscall(libc::SYS_gettid) });
            });
        });
        assert_eq!(lock.take(), Ok(LockState::AfterDeath));
        lock.give();
        assert_eq!(lock.take(), Ok(LockState::Clean));
        lock.give();
    }
}
