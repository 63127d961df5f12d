//! Histories and summaries of ledgers, and traces.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod growth;
mod history;
mod hostile;
mod ledger;
mod trace;
mod window;
