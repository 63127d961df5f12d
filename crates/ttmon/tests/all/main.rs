//! `ttmon` as a whole, through its command line, its sockets and a terminal.
//!
//! Programs that must be alone in their process have tests of their own beside this one: `tracked`, `running` and `adversary`.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod as_root;
mod hooked;
mod host;
mod program;
mod screen;
mod serve;
