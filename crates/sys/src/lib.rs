//! System calls that no crate offers as safe functions. Only for programs of ours: a function here runs before `main`.

pub mod process;
mod socket;

pub use socket::refuse_descriptors;
