//! The hand-over: sends a descriptor of the ledger to collectors as soon as the ledger exists, so that a process that ends between two
//! polls is not lost.
//!
//! One datagram is sent to each possible listener. It has the descriptor and 16 bytes with the pid. Usually there is no listener. Sending
//! never waits, with one exception: on most machines a socket holds only ten messages, so if many processes start together, some messages
//! to the command that started them would be lost. If the socket in TTMON_HANDOVER is full, the first report waits briefly for its reader.
//! A nested run has the sockets of the outer runs in TTMON_HANDOVER_OUTER, one per line. The report waits for them, too. The limit applies
//! to all waits together.

use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::mem;
use std::os::fd::RawFd;
use std::ptr;
use std::time::{Duration, Instant};

use ttmon_ledger::handover;

use crate::switch;

/// Maximum wait for all readers together, once per ledger.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of outer runs that get the ledger. Deeper nesting is not expected.
const OUTER_MAX: usize = 4;

/// Called by the ledger's writer, in the thread of the program that made the first report.
pub(crate) fn ledger_created(ledger: RawFd) {
    // SAFETY: takes only numbers; the result is checked, and closed below.
    let socket = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return;
    }
    let requested = variable(c"TTMON_HANDOVER", |value| Address::new(value, b""));
    let outer = variable(c"TTMON_HANDOVER_OUTER", |lines| Some(addresses(lines))).unwrap_or_default();
    let begun = Instant::now();
    for place in [requested].iter().chain(&outer).flatten() {
        // If a signal interrupts the wait, it continues for the remaining time.
        loop {
            let waiting = if set_timeout(socket, TIMEOUT.saturating_sub(begun.elapsed())) { 0 } else { libc::MSG_DONTWAIT };
            if send(socket, place, ledger, waiting) >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                break;
            }
        }
    }
    let below_runtime_dir = variable(c"XDG_RUNTIME_DIR", |folder| Address::new(folder, handover::SOCKET_BELOW_RUNTIME_DIR.as_bytes()));
    for place in [Address::new(handover::SERVICE_SOCKET.as_bytes(), b""), below_runtime_dir].iter().flatten() {
        send(socket, place, ledger, libc::MSG_DONTWAIT);
    }
    // SAFETY: this value owns it, and it is not used again.
    unsafe { libc::close(socket) };
}

/// Sets the send timeout. Returns false if it cannot be set or is 0, which would mean no limit.
fn set_timeout(socket: c_int, left: Duration) -> bool {
    let Ok(tv_sec) = left.as_secs().try_into() else { return false };
    let bound = libc::timeval { tv_sec, tv_usec: left.subsec_micros().into() };
    // SAFETY: the timeout outlives the call and has the given length.
    left.as_micros() > 0
        && unsafe { libc::setsockopt(socket, libc::SOL_SOCKET, libc::SO_SNDTIMEO, (&raw const bound).cast(), BOUND_BYTES) == 0 }
}

#[allow(clippy::cast_possible_truncation, reason = "16 bytes")]
const BOUND_BYTES: libc::socklen_t = size_of::<libc::timeval>() as libc::socklen_t;

struct Address(libc::sockaddr_un);

#[allow(clippy::cast_possible_truncation, reason = "110 bytes")]
const ADDRESS_BYTES: libc::socklen_t = size_of::<libc::sockaddr_un>() as libc::socklen_t;

impl Address {
    /// Returns `None` if the path is empty or too long.
    fn new(folder: &[u8], name: &[u8]) -> Option<Self> {
        // SAFETY: all zero is a valid value of this plain C struct.
        let mut address: libc::sockaddr_un = unsafe { mem::zeroed() };
        address.sun_family = libc::sa_family_t::try_from(libc::AF_UNIX).ok()?;
        let length = folder.len() + name.len();
        // One byte remains for the NUL.
        if folder.is_empty() || length >= address.sun_path.len() {
            return None;
        }
        for (place, byte) in address.sun_path.iter_mut().zip(folder.iter().chain(name)) {
            *place = byte.cast_signed();
        }
        Some(Self(address))
    }
}

/// Parses socket paths, one per line.
fn addresses(lines: &[u8]) -> [Option<Address>; OUTER_MAX] {
    let mut lines = lines.split(|byte| *byte == b'\n');
    [(); OUTER_MAX].map(|()| Address::new(lines.next()?, b""))
}

/// Parses an environment variable. Returns `None` in a program with more rights than its caller (set-user-id, capabilities): otherwise the
/// caller could have the program send memory that the caller may not read.
fn variable<T>(name: &CStr, parse: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
    // SAFETY: reads a number that the kernel passed to this process.
    let has_more_rights = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    if has_more_rights { None } else { switch::variable(name, parse) }
}

/// A buffer for one descriptor with its header, aligned for the header.
#[repr(C)]
union Control {
    header: libc::cmsghdr,
    bytes: [u8; 64],
}

/// Size of one descriptor, an int.
const DESCRIPTOR_BYTES: u32 = c_int::BITS / 8;

fn send(socket: c_int, place: &Address, ledger: RawFd, flags: c_int) -> isize {
    let mut payload = handover::message(std::process::id());
    let mut parts = libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: payload.len() };
    let mut control = Control { bytes: [0; 64] };
    // SAFETY: all zero is a valid value of this plain C struct.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = (&raw const place.0).cast_mut().cast::<c_void>();
    message.msg_namelen = ADDRESS_BYTES;
    message.msg_iov = &raw mut parts;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast::<c_void>();
    // SAFETY: computes a number, which is less than the 64 bytes of `Control` for one int.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(DESCRIPTOR_BYTES) } as _;
    // SAFETY: the message points to `control`, which is aligned for a header and has `msg_controllen` bytes. So the first header exists,
    // and an int fits after it. All pointers outlive sendmsg, and the kernel only reads through them. Without a listener sendmsg neither
    // waits nor raises a signal. With MSG_DONTWAIT the same holds for a full socket.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(DESCRIPTOR_BYTES) as _;
        ptr::write_unaligned(libc::CMSG_DATA(header).cast::<c_int>(), ledger);
        libc::sendmsg(socket, &raw const message, flags | libc::MSG_NOSIGNAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_does_not_fit_is_refused() {
        assert!(Address::new(b"", b"/ttmon/handover.sock").is_none());
        assert!(Address::new(&[b'x'; 107], b"").is_some());
        assert!(Address::new(&[b'x'; 107], b"y").is_none());
    }

    #[test]
    fn each_line_is_a_path() {
        let count = |lines: &[u8]| addresses(lines).iter().flatten().count();
        assert_eq!(
            (count(b""), count(b"/a/b"), count(b"/a/b\n/c"), count(b"\n/c\n"), count(b"/1\n/2\n/3\n/4\n/5")),
            (0, 1, 2, 1, OUTER_MAX)
        );
    }
}
