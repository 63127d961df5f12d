//! The Python frames of the calling thread, read from the interpreter's memory while the thread is inside a C call.
//!
//! Nothing here calls into Python, takes its global lock, or allocates. That is possible because nobody pushes or pops the frames of
//! a thread that is inside a C call, and a frame keeps its code object alive. One function of the interpreter is called:
//! `PyGILState_GetThisThreadState`, which reads a cell of this thread.
//!
//! Two speeds. [`Python::walk`] follows the chain by plain reads and hashes it, some nanoseconds a frame. [`Python::resolve`]
//! finds file, function and line of a frame that was not seen before; the kernel copies what it reads, so that a wrong address is
//! "no line" and not a crash. An interpreter is walked only after all frames of one stack were resolved ([`Python::probe`]).
//!
//! Known are CPython 3.10 to 3.14 with its global lock. From 3.13 on the interpreter describes itself: `_PyRuntime` begins with a
//! table of offsets.

#![cfg(target_os = "linux")]

mod layout;
mod line;
mod memory;
mod object;
mod symbols;
mod text;
mod walk;

pub use layout::Unknown;
pub use line::{Format, find as find_line};
pub use text::Text;
pub use walk::{FRAMES_MAX, Python, Raw, Resolved, Walk};
