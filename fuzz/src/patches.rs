//! The meaning of an input's bytes: the initial ledger, then patches.
//!
//! | byte | meaning |
//! | --- | --- |
//! | 0 | live entries of the ledger to begin with, up to 24 |
//! | 1 | bit 0: its writer stopped in the middle of an event; bit 1: longer records, as of a later version |
//! | then 12 each | table (bit 7: while it is read), width 1, 2, 4 or 8, offset u16 in the table, value u64 |
//!
//! Tables: 0 header, 1 allocators ... 5 events, 6 circulars ... 10 left, 11 shared, 12 stacks, 13 frames, 14 codes, 15 entries.

use super::encoder::Shape;

/// The ledger to begin with.
pub struct Start {
    pub shape: Shape,
    pub live: u32,
    pub is_stopped: bool,
}

/// A value that takes another's place.
#[derive(Clone, Copy)]
pub struct Patch {
    pub is_late: bool,
    offset: usize,
    width: usize,
    value: [u8; 8],
}

/// Offsets of the tables of [`Shape::small`], and where they end.
const TABLES: [usize; 17] = [
    0, 0x1000, 0x2400, 0x4400, 0x4600, 0x4800, 0x7800, 0x7900, 0x7980, 0x7B80, 0x8B80, 0x8D80, 0x8F80, 0x8FA0, 0x8FE0, 0x93E0, 0x99E0,
];

pub fn decode(input: &[u8]) -> (Start, Vec<Patch>) {
    let (head, rest) = input.split_at(input.len().min(2));
    let first = head.first().copied().unwrap_or(0);
    let second = head.get(1).copied().unwrap_or(0);
    let shape = Shape { longer: if second & 2 == 0 { 0 } else { 24 }, ..Shape::small() };
    let start = Start { shape, live: u32::from(first % 25), is_stopped: second & 1 == 1 };
    let mut patches: Vec<Patch> = rest.as_chunks::<12>().0.iter().map(Patch::decode).collect();
    // In the order of the input, those that come while it is read behind the others.
    patches.sort_by_key(|patch| patch.is_late);
    (start, patches)
}

impl Patch {
    fn decode(bytes: &[u8; 12]) -> Self {
        let [table, width, low, high, value @ ..] = *bytes;
        let table_start = TABLES[usize::from(table & 0x7F) % 16];
        let table_bytes = TABLES[usize::from(table & 0x7F) % 16 + 1] - table_start;
        let offset = table_start + usize::from(u16::from_le_bytes([low, high])) % table_bytes;
        Self { is_late: table & 0x80 != 0, offset, width: 1 << (width % 4), value }
    }

    pub fn apply(&self, region: &mut [u8]) {
        if let Some(place) = region.get_mut(self.offset..self.offset + self.width) {
            place.copy_from_slice(&self.value[..self.width]);
        }
    }
}
