//! Paths of the service.

use std::env;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// The allocation socket that instrumented builds of TT-Metal connect to.
pub(crate) const SOCKET: &str = "/tmp/tt_allocation_server.sock";
const SYSTEM: &str = "/run/ttmon";
const IN_MEMORY: &str = "/dev/shm";

fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The runtime directory of the service: that of the system for root, otherwise the user's.
pub(crate) fn runtime() -> Option<PathBuf> {
    if geteuid().is_root() { Some(PathBuf::from(SYSTEM)) } else { variable("XDG_RUNTIME_DIR").map(|directory| directory.join("ttmon")) }
}

/// The default state directory, on a file system in memory.
pub(crate) fn state() -> PathBuf {
    let usual = runtime().map(|directory| directory.join("state"));
    usual.filter(|directory| ttmon_intake::is_in_memory(directory)).unwrap_or_else(|| in_memory(geteuid().as_raw()))
}

/// The state directory of `TTMON_STATE_DIR`.
pub(super) fn named_state() -> Option<PathBuf> {
    variable("TTMON_STATE_DIR")
}

/// The state directory if the usual one is not in memory.
fn in_memory(uid: u32) -> PathBuf {
    Path::new(IN_MEMORY).join(format!("ttmon-{uid}/state"))
}

/// API sockets of services on this machine: the system's, then the user's own.
pub(crate) fn api_places() -> Vec<PathBuf> {
    let own = variable("XDG_RUNTIME_DIR").map(|directory| directory.join("ttmon"));
    [PathBuf::from(SYSTEM)].into_iter().chain(own).map(|directory| directory.join("api.sock")).collect()
}

/// Possible state directories of services on this machine, for readers.
pub(crate) fn served() -> Vec<PathBuf> {
    let mut places = vec![Path::new(SYSTEM).join("state")];
    places.extend(variable("XDG_RUNTIME_DIR").map(|directory| directory.join("ttmon/state")));
    places.extend([in_memory(0), in_memory(geteuid().as_raw())]);
    places.extend(named_state());
    places.dedup();
    places
}
