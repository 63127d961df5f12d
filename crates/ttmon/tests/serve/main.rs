//! The allocation server over real sockets. Tests are named by the row of the reference server's faults that they are about.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod accounting;
mod as_root;
mod framing;
mod identity;
mod machine;
mod program;
mod restart;
mod server;
