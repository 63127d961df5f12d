//! Reads a chip itself, through the kernel driver's own interface: telemetry of its firmware, counters of its command queues.
//!
//! What this does to a machine, and what it never does, is in docs/deep.md. In short: the device is opened for about a millisecond
//! per sample, one window is mapped for reading, and nothing is written.
//!
//! [`Transport`] is the only way to a chip. Behind it is the [kernel], an [image] of a simulated chip, or a [fake] for tests. A [`Session`] makes samples of
//! one chip through it, within the limits of [`ChipSchedule`](pace::ChipSchedule). Sessions run in [processes of their own](process), because a
//! chip that is reset may leave a reader stuck; [`Readers`] starts those processes and asks them.

mod client;
pub mod dispatch;
pub mod fake;
pub mod image;
pub mod kernel;
pub mod pace;
pub mod plant;
pub mod process;
mod session;
pub mod table;
mod transport;
mod wire;

pub use client::{ChipFiles, Readers};
pub use process::{READER_NAME, is_reader, run_as_reader};
pub use session::Session;
pub use transport::{Failure, Tile, Transport, Window};
pub use wire::{decode, encode};
