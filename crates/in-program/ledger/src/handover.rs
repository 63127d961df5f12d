//! The message that hands a ledger to a collector as soon as the ledger exists: a datagram with one descriptor and 16 bytes.

/// The first bytes of every message. The pid of the sender, as the sender sees it, follows as a little-endian u64.
pub const MAGIC: [u8; 8] = *b"TTMONHND";
/// Bytes of a message.
pub const MESSAGE_BYTES: usize = 16;

/// The socket of the service, if it runs as root.
pub const SERVICE_SOCKET: &str = "/run/ttmon/handover.sock";
/// The socket of the service below `$XDG_RUNTIME_DIR`.
pub const SOCKET_BELOW_RUNTIME_DIR: &str = "/ttmon/handover.sock";

/// Returns the message of a process.
pub fn message(pid: u32) -> [u8; MESSAGE_BYTES] {
    let mut message = [0; MESSAGE_BYTES];
    let (magic, sender) = message.split_at_mut(MAGIC.len());
    magic.copy_from_slice(&MAGIC);
    sender.copy_from_slice(&u64::from(pid).to_le_bytes());
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_the_process() {
        let message = message(0x0102_0304);
        assert_eq!(&message[..8], b"TTMONHND");
        assert_eq!(message[8..], [4, 3, 2, 1, 0, 0, 0, 0]);
    }
}
