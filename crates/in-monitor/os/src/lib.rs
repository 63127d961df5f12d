//! What the standard library lacks for files, sockets and memory.
//!
//! It opens the files that a user names, or that other users may have prepared.
//!
//! A path is walked one component at a time from an open directory, and each component is inspected before it is
//! opened for reading or writing. The rules, also in docs/security.md:
//!
//! - A symbolic link is followed if its owner is this user or root, or if only they can write its directory. This is
//!   the kernel's `fs.protected_symlinks`, extended from sticky directories to every directory.
//! - A regular file is opened. A device is not, except `/dev/null`, `/dev/full` and terminals.
//! - A FIFO is written if this user owns it, and read only as an open file (`/dev/stdin`, `/dev/fd/N`).
//! - Reads are bounded. Writes create a new file in the opened directory and rename it: the old content or the new.

pub mod bound_socket;
mod create;
pub mod frame;
mod heap;
pub mod locks;
mod read;
mod socket;
pub mod time;
mod walk;

pub use bound_socket::{BindError, BoundSocket};
pub use create::{Directory, Draft, Existing, check_writable, create, scratch_beside, write, write_public, write_secret, write_with};
pub use heap::release_freed_memory;
pub use read::{open, open_regular_at, read, read_secret, read_text, read_trusted};
pub use socket::refuse_descriptors;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex whose data is always consistent, even after a panic of another thread.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
