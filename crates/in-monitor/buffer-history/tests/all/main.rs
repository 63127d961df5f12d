//! What is found in the ledgers of a command when it ends.
#![allow(missing_docs, reason = "tests")]

mod growth;
mod window;
