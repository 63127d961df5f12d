//! A socket option that no crate offers.
#![allow(unsafe_code, reason = "no crate offers this call as a safe function")]

use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

/// `SO_PASSRIGHTS` of asm-generic/socket.h, Linux 6.16 and later.
const SO_PASSRIGHTS: libc::c_int = 83;

/// Rejects descriptors that peers send to this socket or to the sockets it accepts. Returns false if the kernel is too old.
///
/// Closing a received descriptor can block the receiver for as long as its sender wants.
pub fn refuse_descriptors(socket: impl AsFd) -> bool {
    let no: libc::c_int = 0;
    let Ok(bytes) = libc::socklen_t::try_from(size_of::<libc::c_int>()) else { return false };
    // SAFETY: the kernel reads `bytes` bytes of a local that outlives the call. The descriptor is borrowed that long.
    unsafe { libc::setsockopt(socket.as_fd().as_raw_fd(), libc::SOL_SOCKET, SO_PASSRIGHTS, (&raw const no).cast(), bytes) == 0 }
}
