//! A small and slow writer as described in docs/ledger.md section 3. It knows the true state after each event, and queues its stores, so
//! that a test can run a reader between any two of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ttmon_testing::encoder::{Encoder, Entry, Shape, event_words};

/// Rows that the scripts use: two allocators, two kinds.
pub(crate) const ROWS: [u16; 2] = [0, 9];

/// A step of a script. A number selects the buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Alloc { row: usize, size: u64 },
    Free(usize),
    Ref(usize),
    Unref(usize),
    FreeAll { row: usize },
    Repair,
    Mark,
}

/// The true state after an event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Truth {
    pub(crate) live: BTreeMap<u32, Entry>,
    pub(crate) rows: [RowTruth; 2],
}

#[derive(Clone, Debug, Default)]
pub(crate) struct RowTruth {
    pub(crate) used: u64,
    pub(crate) count: u64,
    pub(crate) peak: u64,
    /// Listed members of the peak, by creation event.
    pub(crate) members: BTreeSet<u64>,
    pub(crate) unlisted: (u64, u64),
    epoch: u64,
    peak_event: u64,
    peak_epoch: u64,
    peak_unlisted: (u64, u64),
    lost: (u64, u64),
}

/// The model of a writer.
pub(crate) struct Model {
    image: Encoder,
    pub(crate) stores: VecDeque<(u64, u64)>,
    /// By event number; the first is before any event.
    pub(crate) truths: Vec<Truth>,
    /// Op, slot and entry of each event, by number - 1.
    pub(crate) log: Vec<(u64, u32, Entry)>,
    now: Truth,
    dead: BTreeMap<u32, Entry>,
    free: Vec<u32>,
    used: u32,
}

impl Model {
    pub(crate) fn new(shape: Shape) -> Self {
        let mut image = Encoder::new(shape);
        image.open_allocator(0, 0);
        image.open_allocator(1, 1);
        let now = Truth::default();
        Self { image, stores: VecDeque::new(), truths: vec![now.clone()], log: vec![], now, dead: BTreeMap::new(), free: vec![], used: 0 }
    }

    /// The bytes before the first event.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        assert!(self.stores.is_empty(), "nothing was done yet");
        self.image.bytes.clone()
    }

    pub(crate) fn step(&mut self, step: Step) {
        match step {
            Step::Alloc { row, size } => self.alloc(row % 2, size),
            Step::Free(choice) => {
                if let Some((slot, entry)) = self.chosen(choice) {
                    self.free(slot, &entry);
                }
            }
            Step::Ref(choice) => self.refer(3, choice, 1),
            Step::Unref(choice) => self.refer(4, choice, -1),
            Step::FreeAll { row } => self.free_all(row % 2),
            Step::Repair => {
                self.begin();
                self.end(8, 0, &Entry::example(0, 0, 0));
            }
            Step::Mark => {
                self.begin();
                self.end(12, 0, &Entry::example(0, 0, 0));
            }
        }
    }

    fn number(&self) -> u64 {
        self.truths.len() as u64
    }

    fn chosen(&self, choice: usize) -> Option<(u32, Entry)> {
        let live = &self.now.live;
        live.iter().nth(choice % live.len().max(1)).map(|(&slot, &entry)| (slot, entry))
    }

    fn set(&mut self, offset: u64, value: u64) {
        self.image.put64(offset, value);
        self.stores.push_back((offset, value));
    }

    fn begin(&mut self) {
        self.set(0x200, 2 * self.number() - 1);
    }

    fn end(&mut self, op: u64, slot: u32, entry: &Entry) {
        let number = self.number();
        let entry = Entry { event: number, ..*entry };
        let at = self.image.events.offset + number % u64::from(self.image.events.records) * u64::from(self.image.events.stride);
        let words = event_words(op, slot, &entry);
        self.set(at + 24, 0);
        for word in [0, 1, 2, 4, 3] {
            self.set(at + 8 * word as u64, words[word]);
        }
        self.set(0x238, entry.time);
        self.set(0x200, 2 * number);
        self.truths.push(self.now.clone());
        self.log.push((op, slot, entry));
    }

    fn slot(&mut self) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        (self.used < self.image.entries.records).then(|| {
            self.used += 1;
            self.set(0x208, self.used.into());
            self.used - 1
        })
    }

    fn alloc(&mut self, row: usize, size: u64) {
        let entry = Entry::example(self.number(), ROWS[row], size);
        self.begin();
        let slot = self.slot();
        if let Some(slot) = slot {
            let at = Encoder::at(self.image.entries, slot);
            self.set(at, 1);
            for (word, value) in entry.words().into_iter().enumerate().skip(1) {
                self.set(at + 8 * word as u64, value);
            }
            self.set(at, entry.words()[0]);
            self.now.live.insert(slot, entry);
        } else {
            let unlisted = &mut self.now.rows[row].unlisted;
            *unlisted = (unlisted.0 + 1, unlisted.1 + size);
        }
        self.now.rows[row].used += size;
        self.now.rows[row].count += 1;
        self.raise(row);
        self.write_row(row);
        for _ in 0..2 {
            if let Some((slot, dead)) = self.dead.pop_first() {
                self.clear(slot, &dead);
            }
        }
        self.end(if slot.is_some() { 1 } else { 6 }, slot.unwrap_or(0), &entry);
    }

    fn raise(&mut self, row: usize) {
        let number = self.number();
        let live = &self.now.live;
        let members = live.values().filter(|entry| entry.row == ROWS[row]).map(|entry| entry.event).collect();
        let row = &mut self.now.rows[row];
        if row.used > row.peak {
            row.peak = row.used;
            row.peak_event = number;
            row.peak_epoch = row.epoch;
            row.lost = (0, 0);
            row.members = members;
            row.peak_unlisted = row.unlisted;
        }
    }

    fn free(&mut self, slot: u32, entry: &Entry) {
        self.begin();
        self.clear(slot, entry);
        self.now.live.remove(&slot);
        let row = ROWS.iter().position(|&row| row == entry.row).unwrap();
        self.now.rows[row].used -= entry.size;
        self.now.rows[row].count -= 1;
        self.write_row(row);
        self.end(2, slot, entry);
    }

    fn refer(&mut self, op: u64, choice: usize, by: i32) {
        let Some((slot, entry)) = self.chosen(choice) else { return };
        let entry = Entry { refs: entry.refs.saturating_add_signed(by), ..entry };
        self.begin();
        self.set(Encoder::at(self.image.entries, slot) + 0x30, entry.words()[6]);
        self.now.live.insert(slot, entry);
        self.end(op, slot, &Entry { per_bank: entry.refs, page: 0, ..entry });
    }

    fn free_all(&mut self, row: usize) {
        let number = self.number();
        self.begin();
        self.now.rows[row].epoch = number;
        self.set(Encoder::at(self.image.rows, ROWS[row].into()), number);
        let dead: Vec<u32> = self.now.live.iter().filter(|(_, entry)| entry.row == ROWS[row]).map(|(&slot, _)| slot).collect();
        for slot in dead {
            let entry = self.now.live.remove(&slot).unwrap();
            self.dead.insert(slot, entry);
        }
        let figures = &mut self.now.rows[row];
        (figures.used, figures.count, figures.unlisted) = (0, 0, (0, 0));
        self.write_row(row);
        self.end(5, 0, &Entry { row: ROWS[row], ..Entry::example(0, 0, 0) });
    }

    /// Clears a slot. Copies its entry if it belongs to a peak.
    fn clear(&mut self, slot: u32, entry: &Entry) {
        let row = ROWS.iter().position(|&row| row == entry.row).unwrap();
        let figures = &self.now.rows[row];
        if figures.peak_epoch < entry.event && entry.event <= figures.peak_event {
            let peak_event = figures.peak_event;
            let copy = (0..self.image.peak_copies.records).map(|place| Encoder::at(self.image.peak_copies, place)).find(|&at| {
                let peak_event = self.image.get64(at + 0x38);
                let owner = ROWS.iter().position(|&row| u64::from(row) == self.image.get64(at + 0x28) & 0xFFFF).unwrap();
                peak_event == 0 || peak_event != self.now.rows[owner].peak_event
            });
            if let Some(at) = copy {
                self.set(at + 0x38, 0);
                for (word, value) in entry.words().into_iter().enumerate().take(7) {
                    self.set(at + 8 * word as u64, value);
                }
                self.set(at + 0x38, peak_event);
            } else {
                let lost = &mut self.now.rows[row].lost;
                *lost = (lost.0 + 1, lost.1 + entry.size);
                let lost = *lost;
                self.now.rows[row].members.remove(&entry.event);
                let at = Encoder::at(self.image.rows, ROWS[row].into());
                self.set(at + 0x70, lost.1);
                self.set(at + 0x78, lost.0);
            }
        }
        self.set(Encoder::at(self.image.entries, slot), 0);
        self.free.push(slot);
    }

    fn write_row(&mut self, row: usize) {
        let at = Encoder::at(self.image.rows, ROWS[row].into());
        let figures = self.now.rows[row].clone();
        let fields = [
            (0x98, figures.unlisted.0),
            (0xA0, figures.unlisted.1),
            (0xA8, figures.unlisted.1),
            (0x08, figures.used),
            (0x10, figures.used),
            (0x18, figures.count),
            (0x38, figures.peak_event),
            (0x58, figures.peak_epoch),
            (0x60, figures.peak_unlisted.1),
            (0x68, figures.peak_unlisted.0),
            (0x70, figures.lost.1),
            (0x78, figures.lost.0),
            (0x48, figures.peak),
        ];
        for (offset, value) in fields {
            if self.image.get64(at + offset) != value {
                self.set(at + offset, value);
            }
        }
        let (count, bytes) = self.now.rows.iter().fold((0, 0), |sum, row| (sum.0 + row.count, sum.1 + row.used));
        self.set(0x220, count);
        self.set(0x228, bytes);
    }
}
