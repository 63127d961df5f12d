//! The way to a chip: open, configure, read.

use ttmon_model::{Arch, Missing};

/// A node of a chip's network, as coordinates of NoC 0 or translated ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Column.
    pub x: u16,
    /// Row.
    pub y: u16,
}

/// Why a chip could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The driver has no such device any more.
    Gone,
    /// There is no device node, as in a container that was not given one.
    NoNode,
    /// This user may not open the device.
    NoPermission,
    /// Another process has the device for itself, or all windows.
    Busy,
    /// The chip is being reset, or was reset while it was read.
    Reset,
    /// The driver is too old to give out windows.
    NotSupported,
    /// The kernel answered with another error.
    Errno(i32),
}

impl From<Failure> for Missing {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Gone => Self::Gone,
            Failure::NoPermission | Failure::NoNode => Self::NoPermission,
            Failure::Busy => Self::Busy,
            Failure::Reset => Self::Resetting,
            Failure::NotSupported => Self::NotExposed,
            Failure::Errno(_) => Self::IoError,
        }
    }
}

/// A chip that can be opened.
pub trait Transport {
    /// What is open.
    type Open: Window;
    /// Opens the chip with one window of `window_bytes`. Dropping the window closes it.
    fn open(&mut self) -> Result<Self::Open, Failure>;
}

/// A window into a chip's network.
pub trait Window {
    /// Points the window at a tile; `address` is a multiple of the window's size.
    fn configure(&mut self, tile: Tile, address: u64) -> Result<(), Failure>;
    /// Reads words, beginning at an offset from the configured address.
    fn read(&mut self, offset: usize, words: &mut [u32]) -> Result<(), Failure>;
}

/// The size of the window that is used: the smallest there is.
pub(crate) fn window_bytes(arch: Arch) -> u64 {
    match arch {
        Arch::Wormhole | Arch::Grayskull => 1 << 20,
        Arch::Blackhole => 2 << 20,
    }
}

/// Reads words at an address of a tile.
pub(crate) fn read_at(window: &mut impl Window, arch: Arch, tile: Tile, address: u64, words: &mut [u32]) -> Result<(), Failure> {
    let size = window_bytes(arch);
    let offset = address % size;
    debug_assert!(offset + 4 * words.len() as u64 <= size, "the caller checked that it is in one window");
    window.configure(tile, address - offset)?;
    window.read(usize::try_from(offset).unwrap_or_default(), words)
}
