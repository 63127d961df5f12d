//! The addresses that are read on a chip, and the telemetry table of its firmware.

use std::ops::Range;

use ttmon_model::units::Version;
use ttmon_model::{Arch, Missing, Reading};

use crate::transport::{Tile, Window, window_bytes};

/// The addresses of an architecture on NoC 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) arch: Arch,
    /// The tile of the management cores.
    pub(crate) arc: Tile,
    /// The offset that is added to addresses from the firmware.
    pub(crate) base: u64,
    /// The address of two words: the pointers to the table and to its data, in the order of `table_first`.
    pub(crate) pointers: u64,
    pub(crate) table_first: bool,
    /// The address of two words: address and size of the block that TT-Metal publishes.
    pub(crate) metal_block: u64,
    /// The first firmware bundle with this block.
    pub(crate) metal_block_since: Version,
    /// L1 of a core, in bytes.
    pub l1_bytes: u64,
}

impl Layout {
    /// Returns the addresses of an architecture, or `None` if it cannot be read.
    pub(crate) fn of(arch: Arch) -> Option<Self> {
        match arch {
            Arch::Wormhole => Some(Self {
                arch,
                arc: Tile { x: 0, y: 10 },
                base: 0x8_0000_0000,
                pointers: 0x8_8003_01D0,
                table_first: true,
                metal_block: 0x8_1007_5C00,
                metal_block_since: Version::new(19, 13, 0),
                l1_bytes: 1464 << 10,
            }),
            Arch::Blackhole => Some(Self {
                arch,
                arc: Tile { x: 8, y: 0 },
                base: 0,
                pointers: 0x8003_0430,
                table_first: false,
                metal_block: 0x8003_0458,
                metal_block_since: Version::new(19, 12, 0),
                l1_bytes: 1536 << 10,
            }),
            Arch::Grayskull => None,
        }
    }

    /// Returns the NoC address of a range in the memory of the management cores, if the whole range is inside.
    pub(crate) fn in_csm(&self, address: u32, bytes: u32) -> Option<u64> {
        let end = address.checked_add(bytes)?;
        let is_inside = address.is_multiple_of(4) && CSM.contains(&address) && end <= CSM.end;
        is_inside.then(|| self.base + u64::from(address))
    }
}

/// A chip while it is open.
pub(crate) struct OpenChip<W> {
    pub(crate) window: W,
    pub(crate) layout: Layout,
    /// The number of words read so far.
    pub(crate) words: u64,
}

impl<W: Window> OpenChip<W> {
    /// Reads words that are in one window.
    pub(crate) fn read(&mut self, tile: Tile, address: u64, words: &mut [u32]) -> Reading<()> {
        let size = window_bytes(self.layout.arch);
        let offset = address % size;
        debug_assert!(offset + 4 * words.len() as u64 <= size, "the caller checked that it is in one window");
        self.words += words.len() as u64;
        self.window.configure(tile, address - offset)?;
        self.window.read(usize::try_from(offset).map_err(|_| Missing::OutOfRange)?, words)
    }
}

/// The memory of the management cores, in their own addresses.
const CSM: Range<u32> = 0x1000_0000..0x1008_0000;
/// Maximum number of entries. No firmware has more.
const ENTRIES_MAX: u32 = 255;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pointers {
    table: u32,
    data: u32,
}

impl Pointers {
    /// Reads the pointers. All ones mean a chip that left the bus, and zeros mean firmware that is not ready.
    pub(crate) fn read(chip: &mut OpenChip<impl Window>) -> Reading<Self> {
        let (layout, mut words) = (chip.layout, [0; 2]);
        chip.read(layout.arc, layout.pointers, &mut words)?;
        let [table, data] = if layout.table_first { words } else { [words[1], words[0]] };
        match (table, data) {
            (u32::MAX, _) | (_, u32::MAX) => Err(Missing::OutOfRange),
            (0, _) | (_, 0) => Err(Missing::NoSource),
            _ => Ok(Self { table, data }),
        }
    }
}

/// The entries of a telemetry table: the tag, and the NoC address of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// The pointers by which the table was found.
    pub(crate) pointers: Pointers,
    entries: Vec<(u16, u64)>,
}

impl Table {
    /// Reads and checks the table. In firmware that is older than the table, other data is there: `not_exposed`.
    pub(crate) fn read(chip: &mut OpenChip<impl Window>, pointers: Pointers) -> Reading<Self> {
        let layout = chip.layout;
        let at = layout.in_csm(pointers.table, 8).ok_or(Missing::NotExposed)?;
        layout.in_csm(pointers.data, 4).ok_or(Missing::NotExposed)?;
        let mut head = [0; 2];
        chip.read(layout.arc, at, &mut head)?;
        let count = head[1];
        if head == [u32::MAX; 2] {
            return Err(Missing::OutOfRange);
        }
        if !(1..=ENTRIES_MAX).contains(&count) {
            return Err(Missing::NotExposed);
        }
        layout.in_csm(pointers.table, 8 + 4 * count).ok_or(Missing::NotExposed)?;
        let mut entries = vec![0; count as usize];
        chip.read(layout.arc, at + 8, &mut entries)?;
        let entry = |word: u32| {
            let tag = u16::try_from(word & 0xFFFF).unwrap_or_default();
            let address = pointers.data.checked_add(4 * (word >> 16)).and_then(|address| layout.in_csm(address, 4))?;
            (tag != 0).then_some((tag, address))
        };
        Ok(Self { pointers, entries: entries.into_iter().filter_map(entry).collect() })
    }

    /// Returns the values of those of these tags that are in the table.
    pub(crate) fn values(&self, chip: &mut OpenChip<impl Window>, tags: impl Iterator<Item = u16>) -> Reading<Vec<(u16, u32)>> {
        let mut values = Vec::new();
        for tag in tags {
            let Some((_, address)) = self.entries.iter().find(|(known, _)| *known == tag) else { continue };
            let mut word = [0];
            chip.read(chip.layout.arc, *address, &mut word)?;
            values.push((tag, word[0]));
        }
        Ok(values)
    }
}
