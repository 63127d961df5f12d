//! The allocation socket: what instrumented TT-Metal builds send, kept in a ledger for each process, and what monitors ask.
//!
//! The [server](Server) is one thread with an epoll. Peers are known by the kernel and touch only what is theirs; their entries
//! lie in [ledgers on tmpfs](Store), so that a server that is killed loses nothing that it answered for. Everything that may take
//! long happens in threads beside it. docs/serve.md has the protocol and what is different from the server it stands in for.

mod answer;
mod complaints;
mod connection;
mod counters;
mod dump;
mod follow;
mod handed;
pub mod handover;
pub mod limits;
mod lines;
mod listen;
mod log;
mod owner;
mod peer;
mod server;
mod slab;
mod store;
mod work;

pub use counters::{Counters, ROWS as COUNTERS};
pub use handed::{Ended, KeptLedger, PostMortem};
pub use lines::Format;
pub use listen::{Listener, Taken};
pub use log::Log;
pub use server::{Server, Settings};
pub use store::{Store, Unusable, is_in_memory, make_directory};
pub use work::{Control, Handle, Sampler, Sources};
