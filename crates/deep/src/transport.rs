//! Access to a chip: open, configure, read.

use ttmon_model::{Arch, Missing};

/// A node of a chip's network, in coordinates of NoC 0 or translated ones.
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
    /// The driver no longer has the device.
    Gone,
    /// There is no device node, for example in a container without access to the device.
    NoNode,
    /// This user may not open the device.
    NoPermission,
    /// Another process has exclusive use of the device, or has all windows.
    Busy,
    /// The chip is being reset, or was reset while it was read.
    Reset,
    /// The driver is too old and has no windows.
    NotSupported,
    /// The kernel returned another error.
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
    /// The open window.
    type Open: Window;
    /// Opens the chip with one window of `window_bytes`. Dropping the window closes the chip.
    fn open(&mut self) -> Result<Self::Open, Failure>;
}

/// A window into a chip's network.
pub trait Window {
    /// Sets the tile and the address of the window. `address` must be a multiple of the window's size.
    fn configure(&mut self, tile: Tile, address: u64) -> Result<(), Failure>;
    /// Reads words, starting at an offset from the configured address.
    fn read(&mut self, offset: usize, words: &mut [u32]) -> Result<(), Failure>;
}

/// Returns the size of the window, which is the smallest available.
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
