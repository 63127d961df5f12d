//! A socket option that no crate has a safe name for.

use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

/// `SO_PASSRIGHTS` of asm-generic/socket.h, Linux 6.16 and later.
const SO_PASSRIGHTS: libc::c_int = 83;

/// Lets nobody send descriptors along, to this socket or to what it accepts; false where the kernel cannot. Dropping a foreign
/// descriptor may take as long as its sender likes, and it is the receiver who waits.
pub fn refuse_descriptors(socket: impl AsFd) -> bool {
    let no: libc::c_int = 0;
    let Ok(bytes) = libc::socklen_t::try_from(size_of::<libc::c_int>()) else { return false };
    // SAFETY: the kernel reads `bytes` bytes of a local that outlives the call; the descriptor is borrowed for as long.
    unsafe { libc::setsockopt(socket.as_fd().as_raw_fd(), libc::SOL_SOCKET, SO_PASSRIGHTS, (&raw const no).cast(), bytes) == 0 }
}
