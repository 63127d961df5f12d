//! Samples and snapshots of a machine with Tenstorrent chips.
//!
//! A [`Sample`] is raw: values, times, and reasons for missing values. A [`Snapshot`] is derived from one or two samples by
//! [`Snapshot::derive`], a pure function. All output is a loop over the [field table](fields) applied to a snapshot.
//!
//! This crate opens no file, reads no clock and starts no thread.

pub mod attributes;
pub mod check;
pub mod cluster;
pub mod deep;
mod derive;
pub mod duration;
pub mod event;
pub mod fields;
pub mod groups;
mod health;
pub mod identity;
pub mod kernels;
pub mod ledger;
pub mod limits;
pub mod memory;
pub mod mesh;
pub mod missing;
mod named;
pub mod order;
pub mod phase;
pub mod problems;
pub mod product;
pub mod region;
pub mod room;
pub mod sample;
pub mod select;
pub mod snapshot;
pub mod stack;
pub mod units;

pub use attributes::{Attr, Raw};
pub use cluster::Cluster;
pub use derive::{ChipIdentity, Peaks, Refusals, describes, lacks_numbers, numbering, proven};
pub use identity::{Bdf, DeviceId, ProcessKey};
pub use kernels::{KernelType, KernelTypes, KernelUse};
pub use memory::{Kind, PerKind, Source};
pub use missing::{Missing, Reading};
pub use product::Arch;
pub use sample::Sample;
pub use snapshot::{Device, Process, Snapshot};
