//! The stack of an allocation, as a number in the ledger's stack table: the Python frames of this thread, or its return addresses
//! ([`crate::native`]).
//!
//! Enabled by `TTMON_STACKS=1`, which `ttmon run` sets. The first allocation searches for an interpreter. The interpreter is used once all
//! frames of one stack have the expected layout. With an unknown layout no stacks are recorded, and coverage gives the reason.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU32};

use ttmon_client::hooked;
use ttmon_ledger::layout::stack::NO_PYTHON;
use ttmon_ledger::writer::Frame;
use ttmon_pystack::{FRAMES_MAX, Python, Unknown, Walk};

use crate::coverage::{self, Feature, found, hit};
use crate::errno::guarded;
use crate::fast_path::{self, HOT};
use crate::native;
use crate::operation::{self, Addresses, Name};

/// No search yet, or no interpreter was found yet.
const NEW: u8 = 0;
/// A thread writes `PYTHON`.
const WRITING: u8 = 1;
/// `PYTHON` is written, but not probed yet.
const FOUND: u8 = 2;
const KNOWN: u8 = 3;
const UNSUPPORTED: u8 = 4;

static STATE: AtomicU8 = AtomicU8::new(NEW);
/// Allocations without an interpreter.
static SEARCHES: AtomicU32 = AtomicU32::new(0);
/// Stacks with an unexpected layout before the first valid one.
static FAILED: AtomicU32 = AtomicU32::new(0);
/// After this many failures the interpreter is not used. A few are tolerated, because a thread may be in an unusual state.
const FAILED_MAX: u32 = 8;
/// An index of `REASONS`.
static REASON: AtomicU8 = AtomicU8::new(0);

const REASONS: [&str; 6] = [
    "no_python: no Python was found in this process",
    "unknown_interpreter: a version of Python that is not known",
    "unknown_interpreter: a free-threaded Python",
    "unknown_interpreter: a Python that does not describe itself",
    "unknown_interpreter: a Python with another layout",
    "unknown_interpreter: process_vm_readv is refused",
];

struct InterpreterCell(UnsafeCell<MaybeUninit<Python>>);

// SAFETY: written once, by the thread that set STATE to `WRITING`, and read only after that thread stored a later state.
unsafe impl Sync for InterpreterCell {}

static PYTHON: InterpreterCell = InterpreterCell(UnsafeCell::new(MaybeUninit::uninit()));

#[inline]
pub(crate) fn is_wanted() -> bool {
    fast_path::is_set(c"TTMON_STACKS", &HOT.stacks)
}

/// Why requested stacks are not recorded.
pub(crate) fn unsupported_reason() -> Option<&'static str> {
    match STATE.load(Acquire) {
        KNOWN | FOUND => None,
        UNSUPPORTED => REASONS.get(usize::from(REASON.load(Relaxed))).copied(),
        _ if SEARCHES.load(Relaxed) > 0 && !operation::is_wanted() => REASONS.first().copied(),
        _ => None,
    }
}

/// The operation and stack that allocate a buffer.
pub(crate) struct Requester {
    pub(crate) name: Option<Name>,
    pub(crate) stack: u32,
}

/// Returns the requester of the current allocation.
#[inline]
pub(crate) fn requester() -> Requester {
    let unwound = operation::unwound();
    Requester { name: unwound.as_ref().and_then(Addresses::operation), stack: current(unwound.as_ref()) }
}

/// Returns the stack of the current allocation: the Python frames, or the return addresses if they were unwound. 0 if stacks are not
/// requested or not available.
#[inline]
fn current(unwound: Option<&Addresses>) -> u32 {
    if !is_wanted() {
        return 0;
    }
    match (python_stack(), unwound) {
        (NO_PYTHON, Some(addresses)) => guarded(|| native::stack_number(addresses)).unwrap_or(NO_PYTHON),
        (number, _) => number,
    }
}

/// Returns the number of the Python stack. `NO_PYTHON` also means that this call did not search: [`find`] skips most calls while there is
/// no interpreter. Otherwise a program without one would pay for a search per allocation.
#[inline]
fn python_stack() -> u32 {
    // Acquire: the interpreter was written before.
    match STATE.load(Acquire) {
        KNOWN => stack_number(),
        UNSUPPORTED => 0,
        state => guarded(|| start(state)).unwrap_or(0),
    }
}

/// The interpreter, in a state from `FOUND` on.
#[inline]
fn python() -> &'static Python {
    // SAFETY: written before this state was stored, and never again.
    unsafe { (*PYTHON.0.get()).assume_init_ref() }
}

#[inline]
fn stack_number() -> u32 {
    let mut walk = Walk::default();
    // SAFETY: the layout was probed, and this thread is in a call of the program into TT-Metal.
    if !unsafe { python().walk(&mut walk) } {
        return NO_PYTHON;
    }
    hooked::writer().stack(walk.hash).unwrap_or_else(|| guarded(|| add(&walk)).unwrap_or(0))
}

/// Adds a new stack. Its frames are read without the ledger's lock.
#[cold]
fn add(walk: &Walk) -> u32 {
    let mut frames = [Frame::default(); FRAMES_MAX];
    let mut count = 0;
    for (frame, raw) in frames.iter_mut().zip(walk.frames()) {
        let resolved = python().resolve(*raw).unwrap_or_default();
        let (file, function) = (resolved.file.as_str(), resolved.function.as_str());
        let code = hooked::with(|session| session.code(file, function, resolved.first_line).ok_or_else(|| session.refuse_stack()));
        match code {
            Some(Ok(code)) => *frame = Frame { code, line: resolved.line },
            Some(Err(refused)) => return refused,
            None => return 0,
        }
        count += 1;
    }
    hit(Feature::Stacks);
    let frames = frames.get(..count).unwrap_or_default();
    hooked::with(|session| session.add_stack(walk.hash, frames, walk.is_cut)).unwrap_or(0)
}

#[cold]
fn start(state: u8) -> u32 {
    match state {
        NEW => find(),
        FOUND => probe(),
        _ => 0,
    }
}

/// Searches for an interpreter, at every 2^k-th allocation until there is one, because a program may load one later.
fn find() -> u32 {
    if !SEARCHES.fetch_add(1, Relaxed).wrapping_add(1).is_power_of_two() {
        return NO_PYTHON;
    }
    match Python::find() {
        None => {
            // With operations, threads without Python have stacks of machine code.
            if operation::is_wanted() {
                hooked::with(|session| found(session, Feature::Stacks));
            } else {
                report_unsupported(0);
            }
            NO_PYTHON
        }
        Some(Err(unknown)) => turn_off(unknown),
        Some(Ok(found)) => {
            if STATE.compare_exchange(NEW, WRITING, AcqRel, Acquire).is_err() {
                return 0;
            }
            // SAFETY: only this thread has set the state to `WRITING`, and no thread reads before the state changes.
            unsafe { (*PYTHON.0.get()).write(found) };
            STATE.store(FOUND, Release);
            probe()
        }
    }
}

fn probe() -> u32 {
    match python().probe() {
        None => NO_PYTHON,
        Some(Ok(())) => {
            // Another thread may have turned off the interpreter meanwhile; that state stays.
            let _ = STATE.compare_exchange(FOUND, KNOWN, AcqRel, Acquire);
            hooked::with(|session| found(session, Feature::Stacks));
            if STATE.load(Acquire) == KNOWN { stack_number() } else { 0 }
        }
        Some(Err(unknown)) => {
            if FAILED.fetch_add(1, Relaxed) + 1 >= FAILED_MAX || unknown == Unknown::NoCopies {
                return turn_off(unknown);
            }
            0
        }
    }
}

/// Turns off stacks permanently.
fn turn_off(unknown: Unknown) -> u32 {
    let reason = match unknown {
        Unknown::Version(..) => 1,
        Unknown::FreeThreaded => 2,
        Unknown::NoTable => 3,
        Unknown::Layout => 4,
        Unknown::NoCopies => 5,
    };
    REASON.store(reason, Relaxed);
    STATE.store(UNSUPPORTED, Release);
    report_unsupported(reason);
    0
}

fn report_unsupported(reason: u8) {
    let reason = REASONS.get(usize::from(reason)).copied().unwrap_or_default();
    hooked::with(|session| coverage::turn_off(session, Feature::Stacks, reason));
}

/// A stack has as many frames as a walk.
const _: () = assert!(FRAMES_MAX == ttmon_ledger::layout::stack::FRAMES_MAX);
