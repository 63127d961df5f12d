//! The allocation socket and the hand-over socket, in this process.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod handover;
mod server;
