//! The allocation socket. It records the events of instrumented TT-Metal builds in one ledger per process, and answers the queries of
//! monitors.
//!
//! The [server](Server) is one thread with an epoll. The kernel identifies each peer, and a peer can change only its own entries. The
//! entries are stored in [ledgers on tmpfs](Store), so a killed server loses nothing that it has confirmed. Other threads do all work
//! that may take long. docs/allocation-socket.md describes the protocol, and what a killed server leaves to the next one.

mod answer;
mod connection;
mod counters;
mod dump;
mod follow;
mod handed;
pub mod limits;
mod lines;
mod listen;
mod log;
mod owner;
mod peer;
pub mod protocol;
mod server;
mod store;
mod warning_limit;
mod work;

pub use counters::{Counters, ROWS as COUNTERS};
pub use handed::{Ended, KeptLedger, PostMortem};
pub use lines::Format;
pub use listen::{BindError, Listener};
pub use log::Log;
pub use server::{Server, Settings};
pub use store::{StateError, Store, is_in_memory, make_directory};
pub use work::{Control, Handle, Sampler, Sources};
