//! Access to a chip: open, configure, read. A failure is the reason that the sample reports.

use ttmon_model::{Arch, Reading};

/// A node of a chip's network, in coordinates of NoC 0 or translated ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Column.
    pub x: u16,
    /// Row.
    pub y: u16,
}

/// A chip that can be opened.
pub trait Transport {
    /// The open window.
    type Open: Window;
    /// Opens the chip with one window of `window_bytes`. Dropping the window closes the chip.
    fn open(&mut self) -> Reading<Self::Open>;
    /// Returns why the chip certainly cannot be opened, without opening it.
    fn check(&self) -> Reading<()> {
        Ok(())
    }
}

/// A window into a chip's network.
pub trait Window {
    /// Sets the tile and the address of the window. `address` must be a multiple of the window's size.
    fn configure(&mut self, tile: Tile, address: u64) -> Reading<()>;
    /// Reads words, starting at an offset from the configured address.
    fn read(&mut self, offset: usize, words: &mut [u32]) -> Reading<()>;
}

/// Returns the size of the window, which is the smallest available.
pub(crate) fn window_bytes(arch: Arch) -> u64 {
    match arch {
        Arch::Wormhole | Arch::Grayskull => 1 << 20,
        Arch::Blackhole => 2 << 20,
    }
}
