//! The library that the tests load into interpreters. It returns the frames of the calling thread as text.

use std::fmt::Write;
use std::sync::OnceLock;

use ttmon_pystack::{Python, Walk};

static PYTHON: OnceLock<Option<Python>> = OnceLock::new();

/// Writes one line per frame, `FILE:LINE:FUNCTION`, into a buffer and returns the length. Negative results: -1 no interpreter, -2 an
/// unsupported one, -3 an unknown layout, -4 no frames.
///
/// # Safety
/// `buffer` has `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pystack_probe(buffer: *mut u8, bytes: usize) -> isize {
    let python = match PYTHON.get() {
        Some(Some(python)) => python,
        Some(None) => return -3,
        None => match Python::find() {
            None => return -1,
            Some(Err(_)) => return -2,
            Some(Ok(python)) => {
                // Probed again until there are frames to check.
                let Some(known) = python.probe() else { return -4 };
                let Some(python) = PYTHON.get_or_init(|| known.is_ok().then_some(python)) else { return -3 };
                python
            }
        },
    };
    let mut walk = Walk::default();
    // SAFETY: the layout was probed, and Python is the caller.
    if !unsafe { python.walk(&mut walk) } {
        return -4;
    }
    let mut text = String::new();
    for frame in walk.frames() {
        match python.resolve(*frame) {
            Some(resolved) => {
                let _ = writeln!(text, "{}:{}:{}", resolved.file.as_str(), resolved.line, resolved.function.as_str());
            }
            None => text.push_str("?\n"),
        }
    }
    let length = text.len().min(bytes);
    // SAFETY: the caller's buffer, of this length.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), buffer, length) };
    isize::try_from(length).unwrap_or(-5)
}

/// Walks the frames of the calling thread `times` times and returns the hash; 0 if there are none.
#[unsafe(no_mangle)]
pub extern "C" fn pystack_hash(times: u32) -> u64 {
    let Some(Some(python)) = PYTHON.get() else { return 0 };
    let mut walk = Walk::default();
    for _ in 0..times {
        // SAFETY: as above.
        unsafe { python.walk(&mut walk) };
    }
    walk.hash
}
