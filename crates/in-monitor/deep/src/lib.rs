//! Reads a chip directly through the interface of the kernel driver: the telemetry of its firmware, and the counters of its command queues.
//!
//! docs/deep.md describes the effects on a machine. In short: the device is opened for about a millisecond per sample, one window is mapped
//! for reading, and nothing is written.
//!
//! All access to a chip uses [`Transport`]. It is implemented for the [kernel] driver and for the [image] of a simulated chip; tests
//! have a chip in memory. A [`Session`] takes samples of one chip through a transport, within the limits of `schedule`. Each
//! session runs in a separate process, because a read may hang when the chip is reset. [`Readers`] starts these processes and requests
//! samples from them.

mod client;
pub mod contents;
mod dispatch;
#[cfg(test)]
mod fake;
pub mod image;
pub mod kernel;
mod process;
mod schedule;
mod session;
mod table;
mod transport;
mod wire;

pub use client::{ChipFiles, Readers};
pub use process::{READER_NAME, is_reader, run_as_reader};
pub use session::Session;
pub use transport::{Tile, Transport, Window};
pub use wire::{decode, encode};
