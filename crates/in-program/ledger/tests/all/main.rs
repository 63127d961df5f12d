//! The ledger's writer and reader, against each other and against independent implementations of docs/ledger.md.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, reason = "tests")]

mod hosted;
mod made;
#[allow(dead_code, reason = "the tests of processes use the rest")]
mod raw;
mod report;
mod writer;
mod writer_hooked;
mod writer_shared;
