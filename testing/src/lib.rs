//! What the tests and benches of several crates need: machines made by hand, a running service, a program in a terminal,
//! waiting, and measuring.
//!
//! Programs are given by path, because only the tests of `ttmon` know where cargo built it. A failure is a panic.

#![allow(clippy::unwrap_used, reason = "tests")]

mod documents;
pub mod encoder;
mod generated;
pub mod machine;
pub mod measure;
mod process;
pub mod pythons;
mod service;
mod static_processes;
mod terminal;
pub mod ttnn;
mod waiting;

pub use documents::{DocumentedCommand, broken_links, documented_commands, help_examples, pages_of, repository};
pub use generated::{generated, generated_part};
pub use portable_pty::{CommandBuilder, ExitStatus};
pub use process::{KilledOnDrop, add_hook, command, copied, is_alone};
pub use rustix::process::Signal;
pub use service::{Response, Service, TOKEN};
pub use static_processes::{FIRST_PID, static_pids, write_static_processes};
pub use terminal::{Terminal, TerminalState};
pub use vt100::Color;
pub use waiting::{TIMEOUT, until};

/// Creates a directory on a memory file system if possible. A machine has thousands of files, and a disk takes up to a millisecond of
/// processor time to create and remove each.
#[must_use]
pub fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Returns a TCP port of this host that no program uses now.
#[must_use]
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap().port()
}
