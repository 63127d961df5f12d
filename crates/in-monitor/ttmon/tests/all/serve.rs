//! The allocation server over real sockets: framing, identity of processes, accounting, restarts, and the server as a program.

mod accounting;
mod as_root;
mod framing;
mod identity;
mod machine;
mod program;
mod restart;
pub(crate) mod server;
mod tracked;
