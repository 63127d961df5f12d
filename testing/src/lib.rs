//! What the tests and benches of several crates need: machines made by hand.

#![allow(clippy::unwrap_used, reason = "tests")]

pub mod machine;
