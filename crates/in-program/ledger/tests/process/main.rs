//! What happens to a ledger when something happens to its process. Each case runs in a forked child of a process without threads.
#![allow(missing_docs, unreachable_pub, reason = "tests")]

mod cases;
mod kill;
#[path = "../all/made.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod made;
mod operations;
#[path = "../all/raw.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod raw;

fn main() {
    cases::run(&[kill::CASES, operations::CASES].concat())
}
