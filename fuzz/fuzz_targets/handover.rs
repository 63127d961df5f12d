//! A datagram on the hand-over socket, with descriptors. Byte 0 says how it is sent; a ledger with patches follows, as for
//! `ledger_region`.
//!
//! | bits of byte 0 | meaning |
//! | --- | --- |
//! | 0 | the message is the right one, else the next 16 bytes |
//! | 1 | the ledger is sealed against resizing |
//! | 2 | it ends in its middle |
//! | 3..4 | number of its descriptors |

#![no_main]

#[path = "../../testing/src/encoder.rs"]
#[allow(dead_code)]
mod encoder;
#[path = "../src/patches.rs"]
mod patches;

use std::cell::RefCell;
use std::fs::File;
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;

use libfuzzer_sys::fuzz_target;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use ttmon_collect::handover::Receiver;
use ttmon_ledger::handover::MAGIC;

thread_local! {
    static SOCKETS: RefCell<(UnixDatagram, Receiver)> = RefCell::new(sockets());
}

fn sockets() -> (UnixDatagram, Receiver) {
    let path = std::env::temp_dir().join(format!("ttmon-fuzz-{}", std::process::id()));
    let receiver = Receiver::bind(&path, 0o600).expect("a socket");
    let sender = UnixDatagram::unbound().expect("a socket");
    sender.connect(&path).expect("a receiver");
    (sender, receiver)
}

fuzz_target!(|input: &[u8]| {
    let Some((how, rest)) = input.split_first() else { return };
    let (message, rest) = match how & 1 {
        0 => rest.split_at(rest.len().min(16)),
        _ => (&[][..], rest),
    };
    let message = if how & 1 == 1 { right_message() } else { message.to_vec() };
    let ledger = ledger(rest, how & 2 == 2, how & 4 == 4);
    let descriptors: Vec<BorrowedFd<'_>> = vec![ledger.as_fd(); usize::from(how >> 3 & 3)];
    SOCKETS.with_borrow_mut(|(sender, receiver)| {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        }
        rustix::net::sendmsg(&*sender, &[IoSlice::new(&message)], &mut control, SendFlags::DONTWAIT).expect("room for a message");
        for handed in receiver.receive(2) {
            assert!(message.starts_with(&MAGIC) && !descriptors.is_empty());
            let _ = handed.region.identity();
        }
    });
});

fn right_message() -> Vec<u8> {
    ttmon_ledger::handover::message(std::process::id()).to_vec()
}

fn ledger(input: &[u8], is_sealed: bool, is_cut: bool) -> File {
    let (start, patches) = patches::decode(input);
    let mut bytes = encoder::filled(start.shape, start.live, 64).bytes;
    for patch in patches {
        patch.apply(&mut bytes);
    }
    let length = if is_cut { bytes.len() / 2 } else { bytes.len() };
    let mut file = File::from(rustix::fs::memfd_create("ttmon-ledger", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).expect("memory"));
    file.write_all(&bytes[..length]).expect("memory");
    if is_sealed {
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW).expect("seals");
    }
    file
}
