//! Detects whether a call into an allocator is the only one in progress.
//!
//! Usually only one thread calls allocators. It is the owner, and its calls are not counted, because a shared atomic counter would cost as
//! much as the ledger. Instead the owner sets a mark during a call, which is a plain store. Every other thread counts its calls and ends
//! the ownership. The next owner is a thread that makes many calls in a row. A thread may be preempted within a call for the duration of
//! thousands of calls of another thread. So while the mark of a previous owner is set, no other thread is alone or becomes the owner.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, compiler_fence};

use crate::fast_path::HOT;

/// A call into an allocator, from before the real function until after our record. An exception ends it, too.
pub(crate) struct Call(Visibility);

/// How a call is visible to other threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Visibility {
    Counted,
    /// The mark of the owner covers the call.
    Marked,
    /// A nested call of the owner, covered by the mark of the outer call.
    Inner,
}

impl Call {
    #[inline(always)]
    pub(crate) fn begin() -> Self {
        Self(CALLS.enter(&HOT.owner, thread()))
    }

    /// Returns the number of counted calls so far, if this call is the only one in progress. An equal result later means that no other
    /// thread has called in between.
    pub(crate) fn alone(&self) -> Option<u64> {
        CALLS.alone(&HOT.owner, thread(), self.0)
    }
}

impl Drop for Call {
    #[inline(always)]
    fn drop(&mut self) {
        CALLS.leave(&HOT.owner, self.0);
    }
}

/// The address of this thread's control block, which is unique.
#[inline(always)]
fn thread() -> usize {
    let thread: usize;
    // SAFETY: by the x86-64 ABI, the block starts with its own address.
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) thread, options(nostack, preserves_flags, readonly)) };
    thread
}

/// Values that are no thread address: no thread has called yet, and several have.
const NO_THREAD: usize = 0;
const SEVERAL: usize = 1;

/// Counted calls of one thread in a row until it becomes the owner.
const OWNED_AFTER: u32 = 256;
/// Counted calls until a previous owner has seen that it lost ownership, or its mark is visible.
const VISIBLE_AFTER: u64 = 64;

/// The thread whose calls are not counted.
pub(crate) struct Owner {
    thread: AtomicUsize,
    /// The owner or a previous owner, during its call.
    inside: AtomicUsize,
}

impl Owner {
    pub(crate) const fn none() -> Self {
        Self { thread: AtomicUsize::new(NO_THREAD), inside: AtomicUsize::new(NO_THREAD) }
    }
}

/// The counted calls, in a separate cache line.
#[repr(align(64))]
struct Calls {
    begun: AtomicU64,
    over: AtomicU64,
    /// Until this many calls have begun, a previous owner may be in a call that is not visible yet.
    visible_from: AtomicU64,
    /// The thread of the last call, and the number of its calls in a row. Threads may overwrite each other's values. A thread that becomes
    /// the owner by such a race loses ownership with the next call of the other.
    last: AtomicUsize,
    in_a_row: AtomicU32,
}

static CALLS: Calls = Calls::new();

impl Calls {
    const fn new() -> Self {
        Self {
            begun: AtomicU64::new(0),
            over: AtomicU64::new(0),
            visible_from: AtomicU64::new(0),
            last: AtomicUsize::new(NO_THREAD),
            in_a_row: AtomicU32::new(0),
        }
    }

    #[inline(always)]
    fn enter(&self, owner: &Owner, thread: usize) -> Visibility {
        if owner.thread.load(Relaxed) != thread && !is_first(owner, thread) {
            return self.count(owner, thread);
        }
        if owner.inside.load(Relaxed) == thread {
            return Visibility::Inner;
        }
        owner.inside.store(thread, Relaxed);
        // Checked again after setting the mark: this thread may have been preempted in between until another became the owner. The
        // processor may still load shortly before other threads see the mark, which `VISIBLE_AFTER` covers.
        compiler_fence(SeqCst);
        if owner.thread.load(Relaxed) == thread { Visibility::Marked } else { self.enter_late(owner, thread) }
    }

    #[cold]
    fn enter_late(&self, owner: &Owner, thread: usize) -> Visibility {
        owner.inside.store(NO_THREAD, Relaxed);
        self.count(owner, thread)
    }

    #[inline(always)]
    fn leave(&self, owner: &Owner, visibility: Visibility) {
        match visibility {
            Visibility::Counted => {
                self.over.fetch_add(1, AcqRel);
            }
            Visibility::Marked => owner.inside.store(NO_THREAD, Release),
            Visibility::Inner => {}
        }
    }

    /// Counts a call of a thread that is not the owner.
    #[cold]
    fn count(&self, owner: &Owner, thread: usize) -> Visibility {
        let begun = self.begun.fetch_add(1, AcqRel).wrapping_add(1);
        if owner.thread.load(Relaxed) != SEVERAL {
            self.visible_from.store(begun.wrapping_add(VISIBLE_AFTER), Relaxed);
            // Release: a thread that reads `SEVERAL` also reads the new `visible_from`.
            owner.thread.store(SEVERAL, Release);
        }
        let in_a_row = if self.last.load(Relaxed) == thread { self.in_a_row.load(Relaxed).saturating_add(1) } else { 0 };
        self.last.store(thread, Relaxed);
        self.in_a_row.store(in_a_row, Relaxed);
        let is_only = begun.wrapping_sub(self.over.load(Acquire)) == 1 && owner.inside.load(Acquire) == NO_THREAD;
        if in_a_row >= OWNED_AFTER && is_only {
            self.in_a_row.store(0, Relaxed);
            owner.thread.store(thread, Release);
        }
        Visibility::Counted
    }

    /// Returns the number of counted calls so far, if this thread's call is the only one in progress.
    fn alone(&self, owner: &Owner, thread: usize, visibility: Visibility) -> Option<u64> {
        let (owned_by, inside) = (owner.thread.load(Acquire), owner.inside.load(Acquire));
        let (begun, under_way) = self.under_way();
        let is_alone = match visibility {
            // Another thread may have become the owner since this call was counted.
            Visibility::Counted => {
                let is_unowned = inside == NO_THREAD && [SEVERAL, thread].contains(&owned_by);
                under_way == 1 && is_unowned && begun >= self.visible_from.load(Acquire)
            }
            Visibility::Marked | Visibility::Inner => under_way == 0 && [owned_by, inside] == [thread; 2],
        };
        is_alone.then_some(begun)
    }

    /// Number of calls that have begun, and of those in progress. `over` is loaded first, so a call that begins meanwhile counts as in
    /// progress.
    fn under_way(&self) -> (u64, u64) {
        let over = self.over.load(Acquire);
        let begun = self.begun.load(Acquire);
        (begun, begun.wrapping_sub(over))
    }
}

/// Makes this thread the owner if there never was one.
#[cold]
fn is_first(owner: &Owner, thread: usize) -> bool {
    owner.thread.load(Relaxed) == NO_THREAD && owner.thread.compare_exchange(NO_THREAD, thread, AcqRel, Acquire).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: usize = 0x1000;
    const SECOND: usize = 0x2000;

    fn owned_by(thread: usize) -> Owner {
        Owner { thread: AtomicUsize::new(thread), inside: AtomicUsize::new(NO_THREAD) }
    }

    /// Makes a call. Returns whether it was alone.
    fn call(calls: &Calls, owner: &Owner, thread: usize) -> bool {
        let visibility = calls.enter(owner, thread);
        let is_alone = calls.alone(owner, thread, visibility).is_some();
        calls.leave(owner, visibility);
        is_alone
    }

    #[test]
    fn the_first_thread_is_the_owner_until_another_comes_and_the_other_after_a_while() {
        let (calls, owner) = (Calls::new(), Owner::none());
        for _ in 0..10 {
            assert!(call(&calls, &owner, FIRST));
        }
        assert_eq!((owner.thread.load(Relaxed), calls.under_way()), (FIRST, (0, 0)));
        for _ in 0..OWNED_AFTER {
            call(&calls, &owner, SECOND);
            assert_eq!(owner.thread.load(Relaxed), SEVERAL);
        }
        assert!(call(&calls, &owner, SECOND));
        assert_eq!(owner.thread.load(Relaxed), SECOND);
        let counted = calls.under_way();
        assert!(call(&calls, &owner, SECOND));
        assert_eq!(calls.under_way(), counted, "an owner's are not counted");
        for _ in 0..OWNED_AFTER * 2 {
            call(&calls, &owner, FIRST);
            call(&calls, &owner, SECOND);
            assert_eq!(owner.thread.load(Relaxed), SEVERAL, "a thread that takes turns never becomes the owner");
        }
    }

    #[test]
    fn no_thread_becomes_the_owner_during_a_call_of_another() {
        let (calls, owner) = (Calls::new(), owned_by(SEVERAL));
        let first = calls.enter(&owner, FIRST);
        for _ in 0..OWNED_AFTER * 2 {
            assert!(!call(&calls, &owner, SECOND));
        }
        assert_eq!(owner.thread.load(Relaxed), SEVERAL);
        calls.leave(&owner, first);
        assert!(call(&calls, &owner, SECOND));
        assert_eq!(owner.thread.load(Relaxed), SECOND);
    }

    #[test]
    fn an_owner_before_is_waited_for_however_long_it_is_inside() {
        let (calls, owner) = (Calls::new(), owned_by(FIRST));
        let first = calls.enter(&owner, FIRST);
        for _ in 0..OWNED_AFTER * 2 {
            assert!(!call(&calls, &owner, SECOND));
        }
        assert_eq!(owner.thread.load(Relaxed), SEVERAL);
        assert_eq!(calls.alone(&owner, FIRST, first), None, "it is not the owner any more");
        calls.leave(&owner, first);
        assert!(call(&calls, &owner, SECOND));
        assert_eq!(owner.thread.load(Relaxed), SECOND);
    }

    #[test]
    fn a_thread_that_is_no_longer_the_owner_is_counted() {
        let (calls, owner) = (Calls::new(), owned_by(SECOND));
        owner.inside.store(FIRST, Relaxed);
        assert_eq!(calls.enter_late(&owner, FIRST), Visibility::Counted);
        assert_eq!((owner.inside.load(Relaxed), calls.under_way()), (NO_THREAD, (1, 1)));
    }

    #[test]
    fn a_call_of_the_owner_within_another_ends_nothing() {
        let (calls, owner) = (Calls::new(), owned_by(FIRST));
        let outer = calls.enter(&owner, FIRST);
        assert!(call(&calls, &owner, FIRST));
        assert!(calls.alone(&owner, FIRST, outer).is_some());
        (0..=VISIBLE_AFTER).for_each(|_| assert!(!call(&calls, &owner, SECOND)));
        calls.leave(&owner, outer);
        assert!(call(&calls, &owner, SECOND));
    }

    #[test]
    fn a_call_after_an_owner_is_not_taken_for_the_only_one_at_once() {
        let (calls, owner) = (Calls::new(), owned_by(FIRST));
        for number in 1..=VISIBLE_AFTER + 1 {
            assert_eq!(call(&calls, &owner, SECOND), number > VISIBLE_AFTER, "{number}");
        }
        let [second, first] = [SECOND, FIRST].map(|thread| calls.enter(&owner, thread));
        assert_eq!(calls.alone(&owner, SECOND, second), None, "two are under way");
        calls.leave(&owner, first);
        assert!(calls.alone(&owner, SECOND, second).is_some());
        // Simulates a thread that found itself to be the only one just before.
        owner.thread.store(FIRST, Relaxed);
        assert_eq!(calls.alone(&owner, SECOND, second), None, "what the new owner does is not counted");
    }
}
