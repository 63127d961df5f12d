//! What a chip has where `--deep` reads: the telemetry table, the block of a program, the counters of a queue. And the bytes of a sample.

#![no_main]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use rustix::fs::{MemfdFlags, memfd_create};
use ttmon_deep::image::{Image, text};
use ttmon_deep::{Session, Tile, decode, encode};
use ttmon_model::Arch;
use ttmon_os::frame::FrameInput;

/// The image of the chip.
static IMAGE: LazyLock<File> = LazyLock::new(|| memfd_create("image", MemfdFlags::CLOEXEC).expect("a memfd").into());

// The first byte chooses the architecture; each 12 bytes that follow are a word: where it is (0 to 5, below), an offset, the word.
fuzz_target!(|input: &[u8]| {
    let _ = decode(FrameInput(input));
    let Some((first, rest)) = input.split_first() else { return };
    let arch = if first & 1 == 0 { Arch::Wormhole } else { Arch::Blackhole };
    let (arc, base) = if first & 1 == 0 { (Tile { x: 0, y: 10 }, 0x8_0000_0000) } else { (Tile { x: 8, y: 0 }, 0) };
    let worker = if first & 1 == 0 { Tile { x: 19, y: 20 } } else { Tile { x: 2, y: 2 } };
    let mut runs = Vec::new();
    for patch in rest.chunks_exact(12) {
        let number = |at: usize| u32::from_le_bytes([patch[at], patch[at + 1], patch[at + 2], patch[at + 3]]);
        let (offset, word) = (u64::from(number(4) & 0x7FFFC), number(8));
        let (tile, address) = match patch[0] % 6 {
            0 => (arc, base + 0x8003_0000 + (offset & 0xFFF)),
            1 => (arc, base + 0x1000_0000 + offset),
            2 => (arc, base + 0x1007_5C00 + (offset & 0xF)),
            3 => (arc, base + 0x1007_6000 + (offset & 0x3F)),
            4 => (worker, 0x1_A180 + (offset & 0xFF)),
            _ => (worker, offset),
        };
        runs.push((tile, address, vec![word]));
    }
    IMAGE.set_len(0).expect("a memfd");
    IMAGE.write_all_at(text(&runs).as_bytes(), 0).expect("a memfd");
    let image = Image::new(Path::new(&format!("/proc/self/fd/{}", IMAGE.as_raw_fd())), arch);
    let mut session = Session::new(image, arch);
    for turn in 0..3 {
        let sample = session.sample(Duration::from_millis(500 * turn), Some(true), Duration::ZERO);
        assert_eq!(decode(encode(&sample).body()), Some(sample));
    }
});
