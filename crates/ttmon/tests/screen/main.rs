//! `ttmon top` in a real pseudo-terminal: what is on the screen after each key, and that the terminal comes back whole.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod background;
mod keys;
mod leaving;
mod replay;
mod sources;
mod terminal;
mod watching;
