//! A chip in memory, for tests.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use ttmon_model::{Arch, Missing, Reading};

use crate::contents::Run;
use crate::transport::{Tile, Transport, Window, window_bytes};

/// A chip with words that can be set. Clones share the words.
#[derive(Clone, Debug)]
pub(crate) struct Fake(Rc<RefCell<State>>);

#[derive(Debug)]
struct State {
    arch: Arch,
    words: HashMap<(Tile, u64), u32>,
    /// The value of words that were not written: 0, or all ones for a chip that left the bus.
    otherwise: u32,
    opens: u64,
    open_now: u64,
    reads: u64,
    refuses: Option<Missing>,
    breaks: Option<Missing>,
}

impl Fake {
    /// Creates a chip full of zeros.
    pub(crate) fn new(arch: Arch) -> Self {
        let (words, otherwise) = (HashMap::new(), 0);
        Self(Rc::new(RefCell::new(State { arch, words, otherwise, opens: 0, open_now: 0, reads: 0, refuses: None, breaks: None })))
    }

    /// Writes words at an address of a tile.
    pub(crate) fn write(&self, tile: Tile, address: u64, words: &[u32]) {
        let mut state = self.0.borrow_mut();
        for (at, word) in (address..).step_by(4).zip(words) {
            state.words.insert((tile, at), *word);
        }
    }

    /// Writes the words of these runs.
    pub(crate) fn write_runs(&self, runs: &[Run]) {
        runs.iter().for_each(|(tile, address, words)| self.write(*tile, *address, words));
    }

    /// Sets whether the chip has left the bus. Every word then reads all ones.
    pub(crate) fn set_dead(&self, is_dead: bool) {
        self.0.borrow_mut().otherwise = if is_dead { u32::MAX } else { 0 };
    }

    /// Makes `open` fail.
    pub(crate) fn refuse(&self, reason: Option<Missing>) {
        self.0.borrow_mut().refuses = reason;
    }

    /// Makes reads fail, as after a reset.
    pub(crate) fn break_off(&self, reason: Option<Missing>) {
        self.0.borrow_mut().breaks = reason;
    }

    /// Returns how often the chip was opened.
    pub(crate) fn opens(&self) -> u64 {
        self.0.borrow().opens
    }

    /// Returns the number of open windows.
    pub(crate) fn open_now(&self) -> u64 {
        self.0.borrow().open_now
    }

    /// Returns the number of words read so far.
    pub(crate) fn reads(&self) -> u64 {
        self.0.borrow().reads
    }
}

/// A window into a [`Fake`].
#[derive(Debug)]
pub(crate) struct FakeWindow {
    chip: Fake,
    target: Option<(Tile, u64)>,
}

impl Transport for Fake {
    type Open = FakeWindow;

    fn open(&mut self) -> Reading<FakeWindow> {
        let mut state = self.0.borrow_mut();
        state.opens += 1;
        if let Some(reason) = state.refuses {
            return Err(reason);
        }
        state.open_now += 1;
        Ok(FakeWindow { chip: self.clone(), target: None })
    }
}

impl Window for FakeWindow {
    fn configure(&mut self, tile: Tile, address: u64) -> Reading<()> {
        let size = window_bytes(self.chip.0.borrow().arch);
        if !address.is_multiple_of(size) {
            return Err(Missing::IoError);
        }
        self.target = Some((tile, address));
        Ok(())
    }

    fn read(&mut self, offset: usize, words: &mut [u32]) -> Reading<()> {
        let mut state = self.chip.0.borrow_mut();
        let (tile, base) = self.target.ok_or(Missing::IoError)?;
        let is_inside = (offset + 4 * words.len()) as u64 <= window_bytes(state.arch);
        if let Some(reason) = state.breaks.or((!is_inside).then_some(Missing::IoError)) {
            return Err(reason);
        }
        state.reads += words.len() as u64;
        for (index, word) in words.iter_mut().enumerate() {
            let address = base + (offset + 4 * index) as u64;
            let written = state.words.get(&(tile, address)).filter(|_| state.otherwise == 0);
            *word = written.copied().unwrap_or(state.otherwise);
        }
        Ok(())
    }
}

impl Drop for FakeWindow {
    fn drop(&mut self) {
        self.chip.0.borrow_mut().open_now -= 1;
    }
}
