//! Decides whether tracking is on, and which library writes the ledger.
//!
//! The decision is made once, at the first report. The environment turns tracking on. If a preloaded library has the same functions, it
//! gets the reports, because a process has only one ledger. If a hidden copy of the writer has already created a ledger, this copy stays
//! off.

use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use ttmon_ledger::layout::WriterKind;
use ttmon_ledger::writer::{ClockChoice, Config, Writer};

use crate::{forward, handover};

/// Each of these variables turns tracking on if it begins with `1`.
const VARIABLES: [&CStr; 2] = [c"TT_ALLOC_TRACKING_ENABLED", c"TTMON_TRACKING"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    Off = 1,
    On = 2,
    Forward = 3,
}

const UNDECIDED: u8 = 0;
/// `UNDECIDED` or a [`State`].
static STATE: AtomicU8 = AtomicU8::new(UNDECIDED);

/// The writer for a process on a real machine.
static REAL: Writer = Writer::new(config(WriterKind::Client, 0));
/// The writer if this code is part of the hook.
static HOOKED: Writer = Writer::new(config(WriterKind::Hook, 0));
static IS_HOOK: AtomicBool = AtomicBool::new(false);
/// The writer for a process of a simulated machine, if this is one.
static SIMULATED: OnceLock<Writer> = OnceLock::new();

const fn config(kind: WriterKind, machine: u64) -> Config {
    Config { kind, version: env!("CARGO_PKG_VERSION"), clock: ClockChoice::Auto, machine, on_created: Some(handover::ledger_created) }
}

/// Options of a program that starts tracking itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The mark of the simulated machine, or 0 on a real one. Readers of another machine do not show this process.
    pub machine: u64,
}

/// Turns tracking on, independent of the environment, with a separate ledger for this process. Call it before the first report. Returns
/// `false` if another ledger or library already has the reports.
pub fn start(options: Options) -> bool {
    let is_early = matches!(known(STATE.load(Ordering::Acquire)), None | Some(State::Off));
    if !is_early || options.machine != 0 && SIMULATED.set(Writer::new(config(WriterKind::Client, options.machine))).is_err() {
        return false;
    }
    let begin = |from| STATE.compare_exchange(from, State::On as u8, Ordering::AcqRel, Ordering::Acquire).is_ok();
    begin(UNDECIDED) || begin(State::Off as u8)
}

/// Whether tracking is known to be off. Costs one load.
#[inline(always)]
pub fn is_off() -> bool {
    // Relaxed: no other data depends on this value. The data of `On` and `Forward` is read after `state`.
    STATE.load(Ordering::Relaxed) == State::Off as u8
}

#[inline]
pub(crate) fn state() -> State {
    // Acquire, paired with the release of `decide`: the table of `forward` is filled.
    let state = STATE.load(Ordering::Acquire);
    if state == State::On as u8 { State::On } else { known(state).unwrap_or_else(decide) }
}

/// Whether the decision is made and the ledger exists, so that a report only accesses memory. `extern "C"` because the gate requires it.
#[inline(never)]
pub(crate) extern "C" fn is_settled() -> bool {
    match known(STATE.load(Ordering::Acquire)) {
        Some(State::On) => writer().is_started(),
        Some(State::Off | State::Forward) => true,
        None => false,
    }
}

/// The writer, for operations without the lock.
#[inline]
pub fn writer() -> &'static Writer {
    if IS_HOOK.load(Ordering::Relaxed) { &HOOKED } else { SIMULATED.get().unwrap_or(&REAL) }
}

/// Makes this copy the writer of the hook, which writes all data of this process. Called once, when the library is loaded.
pub fn be_the_writer() {
    IS_HOOK.store(true, Ordering::Relaxed);
}

/// Called after the ledger failed to start. If another copy of the writer has one, tracking is off here from now on.
#[cold]
pub(crate) fn turn_off_second_copy() {
    if writer().is_second_copy() {
        STATE.store(State::Off as u8, Ordering::Release);
    }
}

/// Records here after all, because forwarded reports come back.
pub(crate) fn record_here() {
    STATE.store(State::On as u8, Ordering::Release);
}

/// Stops and resumes recording, for measurements. Events in between are not in the ledger. Has no effect if tracking was never on.
pub fn set_recording(is_on: bool) {
    let (from, to) = if is_on { (State::Off, State::On) } else { (State::On, State::Off) };
    if writer().is_started() {
        // In any other state there is nothing to do.
        let _ = STATE.compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Relaxed);
    }
}

fn known(state: u8) -> Option<State> {
    [State::Off, State::On, State::Forward].into_iter().find(|known| *known as u8 == state)
}

/// Several threads may run this at once. They find the same result, and the first one is stored. No thread waits, so that a signal handler
/// may run this, too.
#[cold]
fn decide() -> State {
    let found = if !VARIABLES.into_iter().any(is_set) {
        State::Off
    } else if !IS_HOOK.load(Ordering::Relaxed) && forward::find() {
        State::Forward
    } else {
        State::On
    };
    match STATE.compare_exchange(UNDECIDED, found as u8, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => found,
        Err(earlier) => known(earlier).unwrap_or(found),
    }
}

/// Whether an environment variable begins with `1`, like those that turn tracking on.
pub fn is_set(name: &CStr) -> bool {
    variable(name, |value| (value.first() == Some(&b'1')).then_some(())).is_some()
}

/// Parses an environment variable; `None` if it is not set.
pub(crate) fn variable<T>(name: &CStr, parse: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
    // SAFETY: the name is NUL-terminated. The value is null or a string of the environment, which `parse` cannot keep. A program that
    // changes its environment in another thread meanwhile violates a rule of C.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        if value.is_null() { None } else { parse(CStr::from_ptr(value).to_bytes()) }
    }
}
