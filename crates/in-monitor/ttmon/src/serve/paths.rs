//! Paths of the service.

use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::invocation::variable;

/// The allocation socket that instrumented builds of TT-Metal connect to.
pub(crate) const SOCKET: &str = "/tmp/tt_allocation_server.sock";
const SYSTEM: &str = "/run/ttmon";
const IN_MEMORY: &str = "/dev/shm";

/// The runtime directory of the service: that of the system for root, otherwise the user's.
pub(crate) fn runtime() -> Option<PathBuf> {
    if geteuid().is_root() { Some(PathBuf::from(SYSTEM)) } else { user_runtime() }
}

fn user_runtime() -> Option<PathBuf> {
    variable("XDG_RUNTIME_DIR").map(|directory| Path::new(&directory).join("ttmon"))
}

/// The default state directory, on a file system in memory.
pub(crate) fn state() -> PathBuf {
    let usual = runtime().map(|directory| directory.join("state"));
    usual.filter(|directory| ttmon_allocation_server::is_in_memory(directory)).unwrap_or_else(|| in_memory(geteuid().as_raw()))
}

pub(super) fn named_state() -> Option<PathBuf> {
    variable("TTMON_STATE_DIR").map(PathBuf::from)
}

/// The state directory if the usual one is not in memory.
fn in_memory(uid: u32) -> PathBuf {
    Path::new(IN_MEMORY).join(format!("ttmon-{uid}/state"))
}

/// API sockets of services on this machine: the system's, then the user's own.
pub(crate) fn api_sockets() -> Vec<PathBuf> {
    [PathBuf::from(SYSTEM)].into_iter().chain(user_runtime()).map(|directory| directory.join("api.sock")).collect()
}

/// Possible state directories of services on this machine, for readers.
pub(crate) fn state_directories() -> Vec<PathBuf> {
    let mut places = vec![Path::new(SYSTEM).join("state")];
    places.extend(user_runtime().map(|directory| directory.join("state")));
    places.extend([in_memory(0), in_memory(geteuid().as_raw())]);
    places.extend(named_state());
    places.dedup();
    places
}
