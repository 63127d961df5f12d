//! Safe functions for system calls that no crate offers safely. Do not use this crate in libraries: one of its functions runs before
//! `main`.

mod heap;
pub mod locks;
pub mod process;
mod socket;

pub use heap::release_freed_memory;
pub use socket::refuse_descriptors;
