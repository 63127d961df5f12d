//! Who is in an allocator: whether a call is the only one under way.
//!
//! Most of the time one thread comes here, the owner, and its calls are not counted: a count that several processors may change takes as
//! long as the ledger does. Any other thread counts its calls, and ends the ownership; who then comes many times in a row is the next owner.

use std::sync::atomic::{
    AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use crate::hot::HOT;

/// A call into an allocator, from before the real function to after our record. An exception ends it too.
pub(crate) struct Call {
    is_counted: bool,
}

impl Call {
    #[inline(always)]
    pub(crate) fn begin() -> Self {
        let thread = thread();
        Self { is_counted: HOT.owner.load(Relaxed) != thread && CALLS.begin(&HOT.owner, thread) }
    }

    /// A mark of this moment, if the caller's call is the only one under way.
    pub(crate) fn alone(&self) -> Option<u64> {
        if self.is_counted { CALLS.only_counted() } else { CALLS.none_counted().filter(|_| HOT.owner.load(Acquire) == thread()) }
    }
}

impl Drop for Call {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_counted {
            CALLS.over.fetch_add(1, AcqRel);
        }
    }
}

/// The address of this thread's own control block, which is no other's.
#[inline(always)]
fn thread() -> usize {
    let thread: usize;
    // SAFETY: the ABI of x86-64 has the block's address at its beginning.
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) thread, options(nostack, preserves_flags, readonly)) };
    thread
}

/// No threads' addresses: nobody has come, and several have.
const NOBODY: usize = 0;
const SEVERAL: usize = 1;

/// Counted calls of one thread after which it is the owner.
const OWNED_AFTER: u32 = 256;
/// Counted calls after which what the owner before was in the middle of is over.
const BELIEVED_AFTER: u64 = 64;

/// The calls that are counted. On a line of their own.
#[repr(align(64))]
struct Calls {
    begun: AtomicU64,
    over: AtomicU64,
    /// Until so many have begun, an owner before may still be in a call that nobody counted.
    believed_from: AtomicU64,
    /// The thread of the last one, and how often it has come since another did. Threads may overwrite each other's: who becomes the
    /// owner by that is it until the other comes again.
    last: AtomicUsize,
    in_a_row: AtomicU32,
}

static CALLS: Calls = Calls::new();

impl Calls {
    const fn new() -> Self {
        Self {
            begun: AtomicU64::new(0),
            over: AtomicU64::new(0),
            believed_from: AtomicU64::new(0),
            last: AtomicUsize::new(NOBODY),
            in_a_row: AtomicU32::new(0),
        }
    }

    /// A call of a thread that is not the owner: whether it is counted, as all are but the very first.
    #[cold]
    fn begin(&self, owner: &AtomicUsize, thread: usize) -> bool {
        if owner.load(Relaxed) == NOBODY && owner.compare_exchange(NOBODY, thread, AcqRel, Acquire).is_ok() {
            return false;
        }
        let begun = self.begun.fetch_add(1, AcqRel).wrapping_add(1);
        if owner.load(Relaxed) != SEVERAL {
            self.believed_from.store(begun.wrapping_add(BELIEVED_AFTER), Relaxed);
            // Release: who finds several finds from when on they are believed.
            owner.store(SEVERAL, Release);
        }
        let in_a_row = if self.last.load(Relaxed) == thread { self.in_a_row.load(Relaxed).saturating_add(1) } else { 0 };
        self.last.store(thread, Relaxed);
        self.in_a_row.store(in_a_row, Relaxed);
        if in_a_row >= OWNED_AFTER && begun.wrapping_sub(self.over.load(Acquire)) == 1 {
            self.in_a_row.store(0, Relaxed);
            owner.store(thread, Release);
        }
        true
    }

    /// A mark, if one counted call is under way, and nothing that is not counted.
    fn only_counted(&self) -> Option<u64> {
        let (begun, under_way) = self.under_way();
        (under_way == 1 && begun >= self.believed_from.load(Acquire)).then_some(begun)
    }

    /// A mark, if no counted call is under way.
    fn none_counted(&self) -> Option<u64> {
        let (begun, under_way) = self.under_way();
        (under_way == 0).then_some(begun)
    }

    /// How many began, and how many of them are not over. In this order: one that comes meanwhile counts as under way.
    fn under_way(&self) -> (u64, u64) {
        let over = self.over.load(Acquire);
        let begun = self.begun.load(Acquire);
        (begun, begun.wrapping_sub(over))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: usize = 0x1000;
    const SECOND: usize = 0x2000;

    fn call(calls: &Calls, owner: &AtomicUsize, thread: usize) {
        if owner.load(Relaxed) != thread && calls.begin(owner, thread) {
            calls.over.fetch_add(1, AcqRel);
        }
    }

    #[test]
    fn the_first_thread_is_the_owner_until_another_comes_and_the_other_after_a_while() {
        let (calls, owner) = (Calls::new(), AtomicUsize::new(NOBODY));
        for _ in 0..10 {
            call(&calls, &owner, FIRST);
        }
        assert_eq!((owner.load(Relaxed), calls.under_way()), (FIRST, (0, 0)));
        for _ in 0..OWNED_AFTER {
            call(&calls, &owner, SECOND);
            assert_eq!(owner.load(Relaxed), SEVERAL);
        }
        call(&calls, &owner, SECOND);
        assert_eq!(owner.load(Relaxed), SECOND);
        let counted = calls.under_way();
        call(&calls, &owner, SECOND);
        assert_eq!(calls.under_way(), counted, "an owner's are not counted");
        for _ in 0..OWNED_AFTER * 2 {
            call(&calls, &owner, FIRST);
            call(&calls, &owner, SECOND);
            assert_eq!(owner.load(Relaxed), SEVERAL, "nobody who takes turns becomes the owner");
        }
    }

    #[test]
    fn nobody_becomes_the_owner_while_another_is_in_a_call() {
        let (calls, owner) = (Calls::new(), AtomicUsize::new(SEVERAL));
        assert!(calls.begin(&owner, FIRST));
        for _ in 0..OWNED_AFTER * 2 {
            call(&calls, &owner, SECOND);
        }
        assert_eq!(owner.load(Relaxed), SEVERAL);
        assert_eq!(calls.none_counted(), None);
        calls.over.fetch_add(1, AcqRel);
        call(&calls, &owner, SECOND);
        assert_eq!(owner.load(Relaxed), SECOND);
    }

    #[test]
    fn a_call_after_an_owner_is_not_believed_to_be_alone_at_once() {
        let (calls, owner) = (Calls::new(), AtomicUsize::new(FIRST));
        for number in 1..=BELIEVED_AFTER + 1 {
            assert!(calls.begin(&owner, SECOND));
            assert_eq!(calls.only_counted().is_some(), number > BELIEVED_AFTER, "{number}");
            calls.over.fetch_add(1, AcqRel);
        }
        assert!(calls.begin(&owner, SECOND) && calls.begin(&owner, FIRST));
        assert_eq!(calls.only_counted(), None, "two are under way");
    }
}
