//! A decoder of a ledger's bytes, written only from docs/ledger.md, that checks every guarantee.
//!
//! It intentionally does not use the crate's reader: two independent decoders find errors that one alone would hide.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, RawFd};
use std::os::unix::fs::FileExt;

const ALLOCATORS: usize = 0x1000;
const ROWS: usize = 0x51000;
const TAGS: usize = 0xD1000;
const PEAK_COPIES: usize = 0x11_1000;
const EVENTS: usize = 0x21_1000;
const CIRCULARS: usize = 0x51_1000;
const LAUNCHES: usize = 0x71_1000;
const COVERAGE: usize = 0x71_3000;
const FAILURES: usize = 0x71_5000;
const LEFT: usize = 0x72_5000;
const SHARED: usize = 0x76_5000;
const ENTRIES: usize = 0xFE_9000;
const ROW_BYTES: usize = 256;

pub struct Raw(Vec<u8>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub slot: usize,
    pub creation: u64,
    pub size: u64,
    pub per_bank: u32,
    pub tag: u32,
    pub refs: u32,
    pub thread: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    pub live_bytes: u64,
    pub allocated: u64,
    pub count: u64,
    pub peak: u64,
    pub peak_allocated: u64,
    pub allocs: u64,
    pub frees: u64,
    pub failed: u64,
    pub unlisted_count: u64,
    pub unlisted_bytes: u64,
    pub peak_lost_count: u64,
    /// Count and bytes of entries live at free-alls, from the row.
    pub left: (u64, u64),
    /// Event of the mark, and bytes and count at the mark.
    pub mark: (u64, u64, u64),
}

/// A live circular buffer: program, address, size, cores, chip and flags.
pub type Circular = (u32, u32, u32, [u8; 4], u8, u8);

/// The content of a whole ledger.
#[derive(Debug, Default)]
pub struct Truth {
    pub seq: u64,
    pub rows: BTreeMap<usize, Row>,
    /// Keyed by (row, address).
    pub live: HashMap<(usize, u64), Entry>,
    pub status: u64,
    pub lost: [u64; 8],
    pub repairs: u64,
    /// By allocator, in the order of their slots.
    pub circulars: BTreeMap<usize, Vec<Circular>>,
    /// Creation events of entries live at free-alls, by row.
    pub left: HashMap<usize, HashSet<u64>>,
    pub failures: u64,
}

impl Raw {
    /// Reads the ledger through a descriptor of this process.
    pub fn of(descriptor: RawFd) -> Self {
        // SAFETY: borrowed for the duration of the copy and not closed.
        let file = ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) });
        Self::of_file(&file)
    }

    pub fn of_file(file: &File) -> Self {
        let mut header = vec![0; 4096];
        file.read_exact_at(&mut header, 0).expect("header");
        let used = usize::try_from(Self(header).word(0x208)).expect("used");
        let mut bytes = vec![0; ENTRIES + used * 64];
        file.read_exact_at(&mut bytes, 0).expect("tables");
        Self(bytes)
    }

    pub fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..at + 8].try_into().expect("eight"))
    }

    fn half(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at..at + 4].try_into().expect("four"))
    }

    fn short(&self, at: usize) -> usize {
        usize::from(u16::from_le_bytes(self.0[at..at + 2].try_into().expect("two")))
    }

    fn row(&self, row: usize, field: usize) -> u64 {
        self.word(ROWS + row * ROW_BYTES + field)
    }

    fn entries(&self) -> usize {
        (self.0.len() - ENTRIES) / 64
    }

    pub fn tag(&self, tag: usize) -> String {
        let at = TAGS + tag * 64;
        String::from_utf8(self.0[at + 1..at + 1 + usize::from(self.0[at])].to_vec()).expect("UTF-8")
    }

    /// The op, row, address and size of event `n`, if its record is complete.
    pub fn event(&self, n: u64) -> Option<(u8, usize, u64, u64)> {
        let at = EVENTS + usize::try_from(n % 65536).expect("small") * 48;
        let word = self.word(at + 16);
        let is_whole = self.word(at + 24) >> 32 == n & 0xFFFF_FFFF;
        is_whole.then(|| {
            let row = usize::try_from(word >> 40 & 0xFFFF).expect("16 bits");
            (u8::try_from(word >> 56).expect("8 bits"), row, self.word(at + 8), word & 0xFF_FFFF_FFFF)
        })
    }

    fn allocated(&self, row: usize, size: u64, per_bank: u32) -> u64 {
        let kind = row % 8;
        let banks = if kind < 6 { self.half(ALLOCATORS + row / 8 * 1280 + 0x28 + kind * 24) } else { 0 };
        if banks == 0 || per_bank == 0 { size } else { u64::from(per_bank) * u64::from(banks) }
    }

    /// Decodes and checks everything: sums of entries, totals, peaks, the recorder. With an odd `seq`, totals are counted, not read.
    pub fn truth(&self) -> Truth {
        assert_eq!(&self.0[..8], b"TTMONLDG");
        let seq = self.word(0x200);
        let is_even = seq.is_multiple_of(2);
        let mut truth = Truth { seq, status: self.word(0x230), repairs: self.word(0x280), lost: [0; 8], ..Truth::default() };
        for (reason, lost) in truth.lost.iter_mut().enumerate() {
            *lost = self.word(0x240 + reason * 8);
        }
        let listed = self.listed(&mut truth);
        self.circulars(&mut truth);
        self.left(&mut truth);
        self.failures(&mut truth);
        let allocators = usize::try_from(self.word(0x210)).expect("few");
        for number in 0..allocators * 8 {
            if self.row(number, 0x40) != 0 {
                let row = self.check_row(number, listed.get(&number).copied().unwrap_or_default(), is_even, seq);
                truth.rows.insert(number, row);
            }
        }
        if is_even {
            assert_eq!(self.word(0x220), truth.rows.values().map(|row| row.count).sum::<u64>(), "live entries");
            assert_eq!(self.word(0x228), truth.rows.values().map(|row| row.live_bytes).sum::<u64>(), "live bytes");
        }
        self.check_left(&truth);
        self.check_shared(&truth);
        let done = seq / 2;
        for n in done.saturating_sub(65_000).max(1)..=done {
            assert!(self.event(n).is_some(), "event {n} of {done} is not whole");
        }
        truth
    }

    /// The common peak of open allocators on a chip, by kind: from its record, a row, or the current value.
    pub fn peak_on(&self, truth: &Truth, chip: u32, kind: usize) -> (u64, u64) {
        let rows = || truth.rows.iter().filter(|(number, _)| *number % 8 == kind && self.is_on(*number / 8, chip)).map(|(_, row)| row);
        let used = usize::try_from(self.word(0x348)).expect("few");
        let is_it = |record: &usize| self.half(SHARED + record * 256) == chip + 1;
        let noted = (0..used).find(is_it).map_or(0, |record| self.word(SHARED + record * 256 + 0x40 + kind * 32));
        let now = rows().map(|row| row.live_bytes).sum();
        (noted.max(rows().map(|row| row.peak).max().unwrap_or(0)).max(now), now)
    }

    fn is_on(&self, allocator: usize, chip: u32) -> bool {
        let at = ALLOCATORS + allocator * 1280;
        (0..self.half(at + 0x1C) as usize).any(|number| self.half(at + 0x100 + number * 16) == chip)
    }

    /// Two allocators that are open on chip 0 have a record. Its peak is between their current memory and the sum of their peaks.
    fn check_shared(&self, truth: &Truth) {
        let open: Vec<usize> = (0..usize::try_from(self.word(0x210)).expect("few"))
            .filter(|slot| self.0[ALLOCATORS + slot * 1280] == 2 && self.is_on(*slot, 0))
            .collect();
        let has_one_origin = open.iter().all(|slot| self.half(ALLOCATORS + slot * 1280 + 0x24) == 1);
        if open.len() < 2 || !has_one_origin || !truth.seq.is_multiple_of(2) {
            return;
        }
        assert_eq!(self.word(SHARED), 1 | 1 << 32, "chip 0 of clients");
        for kind in 0..6 {
            let rows = || open.iter().filter_map(|slot| truth.rows.get(&(slot * 8 + kind)));
            let peak = self.word(SHARED + 0x40 + kind * 32);
            let all = truth.rows.iter().filter(|(number, _)| *number % 8 == kind).map(|(_, row)| row.peak).sum();
            // A single row may have had more before there was another.
            assert!(peak >= rows().map(|row| row.live_bytes).sum() || rows().count() < 2, "together {peak} of kind {kind}");
            assert!(peak <= all, "together {peak} of {all} of kind {kind}");
        }
    }

    /// A record is live by its state and its allocator's epoch. A live record must be valid.
    fn circulars(&self, truth: &mut Truth) {
        let used = usize::try_from(self.word(0x290)).expect("few");
        for at in (0..used).map(|slot| CIRCULARS + slot * 32) {
            let state = self.word(at);
            assert!(state & 0xFF <= 2 && state >> 8 <= truth.seq.div_ceil(2), "state {state:#x} of a circular buffer");
            let allocator = self.short(at + 0x18);
            if state & 0xFF == 2 && state >> 8 > self.row(allocator * 8 + 4, 0x00) {
                assert_eq!(self.row(allocator * 8 + 4, 0x40) & 0xFF, 2, "the cb row is in use");
                let cores = self.half(at + 0x14).to_le_bytes();
                let circular = (self.half(at + 0x10), self.half(at + 8), self.half(at + 12), cores, self.0[at + 0x1A], self.0[at + 0x1B]);
                truth.circulars.entry(allocator).or_default().push(circular);
            }
        }
    }

    /// Entries live at free-alls: dead entries in their slots, and the table.
    fn left(&self, truth: &mut Truth) {
        let used = usize::try_from(self.word(0x298)).expect("few");
        let entries = (0..self.entries()).map(|slot| ENTRIES + slot * 64);
        for at in entries.chain((0..used).map(|record| LEFT + record * 64)) {
            let (row, creation) = (self.short(at + 0x28), self.word(at) >> 8);
            assert!(at >= ENTRIES || self.0[at] == 2, "a record of the table is whole");
            if self.0[at] == 2 && creation > self.row(row, 0xB0) && creation <= self.row(row, 0x00) {
                truth.left.entry(row).or_default().insert(creation);
            }
        }
    }

    /// Each row counts its live entries at free-alls, whether they fit in the table or not.
    fn check_left(&self, truth: &Truth) {
        let is_even = truth.seq.is_multiple_of(2);
        for (number, row) in &truth.rows {
            let kept = truth.left.get(number).map_or(0, HashSet::len) as u64;
            let is_half_done = !is_even && self.row(*number, 0x00) == truth.seq.div_ceil(2);
            // A service's ledger (writer 3) does not store them when it clears their slots.
            let is_all_kept = self.word(0x298) < 4096 && truth.status & 2 == 0 && self.half(0x84) != 3;
            assert!(is_half_done || kept <= row.left.0, "row {number} kept {kept} of {:?}", row.left);
            assert!(is_half_done || !is_all_kept || kept == row.left.0, "row {number} kept {kept} of {:?}", row.left);
        }
    }

    /// A record of the ring is complete if it has a number, which must match its position.
    fn failures(&self, truth: &mut Truth) {
        truth.failures = self.word(0x2F0);
        let is_even = truth.seq.is_multiple_of(2);
        for place in 0..64 {
            let at = FAILURES + place * 1024;
            let number = self.word(at);
            let newest = truth.failures + u64::from(!is_even);
            assert!(number == 0 || (number <= newest && number + 64 > truth.failures && (number - 1) % 64 == place as u64));
            assert!(number == 0 || self.word(at + 0x10) <= truth.seq.div_ceil(2), "made by an event there was");
            assert!(!is_even || number != 0 || place as u64 >= truth.failures, "failure {place} is not whole");
        }
    }

    /// Number of launched programs and time of the last one, by chip.
    pub fn launches(&self) -> BTreeMap<u64, (u64, u64)> {
        let used = usize::try_from(self.word(0x300)).expect("few");
        let records = (0..used).map(|record| LAUNCHES + record * 32).filter(|at| self.word(*at) != 0);
        records.map(|at| (self.word(at) - 1, (self.word(at + 8), self.word(at + 16)))).collect()
    }

    /// State with its changes, calls, name and reason of a feature.
    pub fn coverage(&self, feature: usize) -> (u64, u64, String, String) {
        let at = COVERAGE + feature * 128;
        let text = |from: usize, length: usize| {
            let bytes: Vec<u8> = self.0[at + from..at + from + length].iter().copied().take_while(|byte| *byte != 0).collect();
            String::from_utf8(bytes).expect("UTF-8")
        };
        (self.word(at + 8), self.word(at), text(0x10, 40), text(0x38, 72))
    }

    /// Bytes, allocated bytes and count of the live entries of each row.
    fn listed(&self, truth: &mut Truth) -> HashMap<usize, (u64, u64, u64)> {
        let mut listed = HashMap::<usize, (u64, u64, u64)>::new();
        for slot in 0..self.entries() {
            let at = ENTRIES + slot * 64;
            let state = self.word(at);
            assert!(state & 0xFF <= 2, "state {state:#x} in {slot}");
            let (row, address, size) = (self.short(at + 0x28), self.word(at + 8), self.word(at + 16));
            if state & 0xFF != 2 || state >> 8 <= self.row(row, 0x00) {
                continue;
            }
            let entry = Entry {
                slot,
                creation: state >> 8,
                size,
                per_bank: self.half(at + 0x20),
                tag: u32::try_from(self.short(at + 0x30)).expect("16 bits"),
                refs: self.half(at + 0x34),
                thread: self.half(at + 0x38),
            };
            assert!(entry.creation <= truth.seq.div_ceil(2), "made by event {} after {}", entry.creation, truth.seq);
            assert_eq!(usize::from(self.0[at + 0x2A]), row % 8, "kind and row");
            let sums = listed.entry(row).or_default();
            sums.0 += size;
            sums.1 += self.allocated(row, size, entry.per_bank);
            sums.2 += 1;
            assert!(truth.live.insert((row, address), entry).is_none(), "two entries at row {row}, {address:#x}");
        }
        listed
    }

    fn check_row(&self, number: usize, listed: (u64, u64, u64), is_even: bool, seq: u64) -> Row {
        let field = |offset| self.row(number, offset);
        // An incomplete free-all has freed the unlisted entries, too.
        let is_cleared = !is_even && field(0x00) == seq.div_ceil(2);
        let unlisted = if is_cleared { (0, 0, 0) } else { (field(0xA0), field(0xA8), field(0x98)) };
        let counted = (listed.0 + unlisted.0, listed.1 + unlisted.1, listed.2 + unlisted.2);
        let mut row = Row {
            live_bytes: counted.0,
            allocated: counted.1,
            count: counted.2,
            peak: field(0x48),
            peak_allocated: field(0x30),
            allocs: field(0x18),
            frees: field(0x20),
            failed: field(0x90),
            unlisted_count: field(0x98),
            unlisted_bytes: field(0xA0),
            peak_lost_count: field(0x78),
            left: (field(0xD8), field(0xD0)),
            mark: (field(0xF8), field(0xE0), field(0xF0)),
        };
        if is_even {
            assert_eq!((field(8), field(16), row.allocs - row.frees), counted, "totals of row {number}");
            assert!(row.peak >= row.live_bytes && row.peak_allocated >= row.allocated, "peak of row {number}");
        }
        if !is_even && row.live_bytes > row.peak {
            // The new peak was not written yet. It is the live set.
            row.peak = row.live_bytes;
        } else {
            self.check_peak_set(number, is_even);
        }
        row
    }

    fn check_peak_set(&self, number: usize, is_even: bool) {
        let (peak, event, epoch) = (self.row(number, 0x48), self.row(number, 0x38), self.row(number, 0x58));
        let mut members = HashMap::new();
        for slot in 0..self.entries() {
            let at = ENTRIES + slot * 64;
            let creation = self.word(at) >> 8;
            if self.0[at] == 2 && self.short(at + 0x28) == number && epoch < creation && creation <= event {
                members.insert(creation, self.word(at + 16));
            }
        }
        for copy in 0..16_384 {
            let at = PEAK_COPIES + copy * 64;
            if self.short(at + 0x28) == number && self.word(at + 0x38) == event && event != 0 {
                members.insert(self.word(at) >> 8, self.word(at + 16));
            }
        }
        let lost = self.row(number, 0x70);
        let sum = members.values().sum::<u64>() + self.row(number, 0x60) + lost;
        // After a kill between the figures of a full table of peak copies and the entry's end, this entry is counted twice.
        let is_doubled = !is_even && lost > 0 && members.values().any(|size| sum == peak + size);
        assert!(sum == peak || is_doubled, "peak set of row {number}: {sum}, peak {peak}, even {is_even}");
    }
}
