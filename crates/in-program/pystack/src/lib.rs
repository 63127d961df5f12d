//! Reads the Python frames of the calling thread from the interpreter's memory, while the thread is inside a C call.
//!
//! The code does not call Python, take its global lock, or allocate. This is possible because the frames of a thread do not change while it
//! is inside a C call, and a frame keeps its code object alive. Only one function of the interpreter is called:
//! `PyGILState_GetThisThreadState`, which reads a cell of this thread.
//!
//! There are two steps. [`Python::walk`] follows the chain of frames with plain reads and hashes it, in some nanoseconds per frame.
//! [`Python::resolve`] finds file, function and line of a new frame. It has the kernel copy the memory, so that a wrong address gives no
//! line instead of a crash. An interpreter is walked only after all frames of one stack were resolved ([`Python::probe`]).
//!
//! CPython 3.10 to 3.14 with the global lock are supported. From 3.13 on the interpreter describes itself: `_PyRuntime` starts with a table
//! of offsets.

#![cfg(target_os = "linux")]

mod layout;
mod line_table;
mod memory;
mod object;
mod symbols;
mod text;
mod walk;

pub use layout::Unknown;
pub use line_table::{Format, find as find_line};
pub use memory::read as read_memory;
pub use text::Text;
pub use walk::{FRAMES_MAX, Python, Raw, Resolved, Walk};
