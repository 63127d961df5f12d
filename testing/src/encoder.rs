//! Writes ledgers byte by byte from the tables of docs/ledger.md, without constants of the `ledger` crate. So the encoder and the reader
//! have only that page in common.

#![allow(missing_docs, reason = "the tables in docs/ledger.md say what each is")]

/// A table: offset, records, stride.
#[derive(Clone, Copy, Debug)]
pub struct TableGeometry {
    pub offset: u64,
    pub records: u32,
    pub stride: u32,
}

/// The number of records of each table.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub allocators: u32,
    pub tags: u32,
    pub peak_copies: u32,
    pub events: u32,
    pub entries: u32,
    pub circulars: u32,
    pub launches: u32,
    pub coverage: u32,
    pub failures: u32,
    pub left: u32,
    pub shared: u32,
    pub stacks: u32,
    pub frames: u32,
    pub codes: u32,
    /// Additional bytes of each record, compared with version 2.0.
    pub longer: u32,
}

impl Shape {
    /// The shape defined in docs/ledger.md, with this many entries.
    pub fn full(entries: u32) -> Self {
        let more = Self { circulars: 65_536, launches: 256, coverage: 64, failures: 64, left: 4096, shared: 64, ..Self::small() };
        let more = Self { stacks: 65_536, frames: 1 << 19, codes: 8192, ..more };
        Self { allocators: 256, tags: 4096, peak_copies: 16_384, events: 65_536, entries, longer: 0, ..more }
    }

    /// Small enough to be created a thousand times.
    pub fn small() -> Self {
        Self {
            allocators: 4,
            tags: 8,
            peak_copies: 8,
            events: 256,
            entries: 24,
            circulars: 8,
            launches: 4,
            coverage: 4,
            failures: 4,
            left: 8,
            shared: 2,
            stacks: 4,
            frames: 8,
            codes: 2,
            longer: 0,
        }
    }
}

/// The bytes of a ledger.
#[derive(Clone)]
pub struct Encoder {
    pub bytes: Vec<u8>,
    pub allocators: TableGeometry,
    pub rows: TableGeometry,
    pub tags: TableGeometry,
    pub peak_copies: TableGeometry,
    pub events: TableGeometry,
    pub entries: TableGeometry,
    pub circulars: TableGeometry,
    pub launches: TableGeometry,
    pub coverage: TableGeometry,
    pub failures: TableGeometry,
    pub left: TableGeometry,
    pub shared: TableGeometry,
    pub stacks: TableGeometry,
    pub frames: TableGeometry,
    pub codes: TableGeometry,
}

impl Encoder {
    pub fn new(shape: Shape) -> Self {
        let mut next = 0x1000;
        let mut place = |records: u32, stride: u32| {
            let place = TableGeometry { offset: next, records, stride: stride + shape.longer };
            next += u64::from(records) * u64::from(place.stride);
            place
        };
        let allocators = place(shape.allocators, 1280);
        let rows = place(shape.allocators * 8, 256);
        let tags = place(shape.tags, 64);
        let peak_copies = place(shape.peak_copies, 64);
        let events = place(shape.events, 48);
        let circulars = place(shape.circulars, 32);
        let launches = place(shape.launches, 32);
        let coverage = place(shape.coverage, 128);
        let failures = place(shape.failures, 1024);
        let left = place(shape.left, 64);
        let shared = place(shape.shared, 256);
        let stacks = place(shape.stacks, 8);
        let frames = place(shape.frames, 8);
        let codes = place(shape.codes, 512);
        let entries = place(shape.entries, 64);
        let bytes = vec![0; usize::try_from(next).unwrap()];
        let mut new = Self {
            bytes,
            allocators,
            rows,
            tags,
            peak_copies,
            events,
            entries,
            circulars,
            launches,
            coverage,
            failures,
            left,
            shared,
            stacks,
            frames,
            codes,
        };
        new.header();
        new
    }

    fn header(&mut self) {
        self.text(0x000, b"TTMONLDG");
        self.put16(0x008, 2);
        self.put16(0x00A, 0);
        self.put32(0x00C, 4096);
        self.put64(0x010, self.bytes.len() as u64);
        let places = [self.allocators, self.rows, self.tags, self.peak_copies, self.events, self.entries];
        let more = [self.circulars, self.launches, self.coverage, self.failures, self.left];
        let at = (0x018..0x078).step_by(16).chain((0x2A0..0x2F0).step_by(16)).chain([0x338, 0x350, 0x360, 0x370]);
        let last = [self.shared, self.stacks, self.frames, self.codes];
        for (at, place) in at.zip(places.into_iter().chain(more).chain(last)) {
            self.put64(at, place.offset);
            self.put32(at + 8, place.records);
            self.put32(at + 12, place.stride);
        }
        self.put32(0x080, 4711);
        self.put32(0x084, 1);
        self.put64(0x088, 123_456);
        self.put64(0x090, 4_026_531_836);
        self.put32(0x0A0, 0);
        self.put64(0x0A8, 1_000);
        self.put64(0x0B0, 1_700_000_000_000_000_000);
        self.put64(0x0B8, 1_000);
        self.text(0x0D0, b"0.1.0");
        self.text(0x0F0, b"python3");
    }

    pub fn put(&mut self, offset: u64, bytes: &[u8]) {
        let at = usize::try_from(offset).unwrap();
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub fn put64(&mut self, offset: u64, value: u64) {
        self.put(offset, &value.to_le_bytes());
    }

    pub fn put32(&mut self, offset: u64, value: u32) {
        self.put(offset, &value.to_le_bytes());
    }

    pub fn put16(&mut self, offset: u64, value: u16) {
        self.put(offset, &value.to_le_bytes());
    }

    pub fn text(&mut self, offset: u64, text: &[u8]) {
        self.put(offset, text);
    }

    pub fn get64(&self, offset: u64) -> u64 {
        let at = usize::try_from(offset).unwrap();
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().unwrap())
    }

    pub fn at(place: TableGeometry, record: u32) -> u64 {
        assert!(record < place.records);
        place.offset + u64::from(record) * u64::from(place.stride)
    }

    /// An open allocator of one chip, with the row of this kind in use.
    pub fn open_allocator(&mut self, slot: u32, kind: u32) {
        let at = Self::at(self.allocators, slot);
        self.put64(at + 0x08, 2_000);
        self.put32(at + 0x1C, 1);
        self.put32(at + 0x20, slot);
        self.put32(at + 0x24, 1);
        self.put32(at + 0x100, slot);
        self.put64(at, 1 << 8 | 2);
        self.put64(Self::at(self.rows, slot * 8 + kind) + 0x40, 1 << 8 | 2);
        let used = self.get64(0x210).max(u64::from(slot) + 1);
        self.put64(0x210, used);
    }

    /// Writes a live entry.
    pub fn entry(&mut self, slot: u32, entry: &Entry) {
        let at = Self::at(self.entries, slot);
        for (word, value) in entry.words().into_iter().enumerate() {
            self.put64(at + 8 * word as u64, value);
        }
    }

    /// Sets row figures that match these entries; live and peak are equal.
    pub fn figures(&mut self, row: u32, count: u64, bytes: u64, last_event: u64) {
        let at = Self::at(self.rows, row);
        self.put64(at + 0x08, bytes);
        self.put64(at + 0x10, bytes);
        self.put64(at + 0x18, count);
        self.put64(at + 0x28, bytes);
        self.put64(at + 0x30, bytes);
        self.put64(at + 0x38, last_event);
        self.put64(at + 0x48, bytes);
        self.put64(at + 0x50, 3_000);
        let (live, live_bytes) = (self.get64(0x220), self.get64(0x228));
        self.put64(0x220, live + count);
        self.put64(0x228, live_bytes + bytes);
    }
}

/// An entry in the format of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub event: u64,
    pub address: u64,
    pub size: u64,
    pub time: u64,
    pub per_bank: u32,
    pub page: u32,
    pub row: u16,
    pub layout: u8,
    pub cores: u16,
    pub flags: u16,
    pub tag: u32,
    pub refs: u32,
    pub thread: u32,
    pub operation: u32,
    pub stack: u32,
}

impl Entry {
    /// An entry that differs from others in every field.
    pub fn example(event: u64, row: u16, size: u64) -> Self {
        let n = u32::try_from(event % 1_000_000).unwrap();
        Self {
            event,
            address: 0x10_0000 + event * 0x1000,
            size,
            time: 2_000 + event,
            per_bank: n + 1,
            page: n + 2,
            row,
            layout: (n % 5) as u8,
            cores: (n % 130) as u16,
            flags: (n % 7) as u16,
            tag: 0,
            refs: 1,
            thread: n + 3,
            operation: 0,
            stack: 0,
        }
    }

    pub fn words(&self) -> [u64; 8] {
        [
            self.event << 8 | 2,
            self.address,
            self.size,
            self.time,
            u64::from(self.per_bank) | u64::from(self.page) << 32,
            u64::from(self.row)
                | u64::from(self.row % 8) << 16
                | u64::from(self.layout) << 24
                | u64::from(self.cores) << 32
                | u64::from(self.flags) << 48,
            u64::from(self.tag) | u64::from(self.operation) << 16 | u64::from(self.refs) << 32,
            u64::from(self.thread) | u64::from(self.stack) << 32,
        ]
    }
}

/// A ledger with `count` entries of `size` bytes in row 0, complete and at its peak, with the last events in the ring.
pub fn filled(shape: Shape, count: u32, size: u64) -> Encoder {
    let mut region = Encoder::new(shape);
    region.open_allocator(0, 0);
    for slot in 0..count {
        let entry = Entry::example(u64::from(slot) + 1, 0, size);
        region.entry(slot, &entry);
        let at = region.events.offset + (entry.event % u64::from(region.events.records)) * u64::from(region.events.stride);
        for (word, value) in event_words(1, slot, &entry).into_iter().enumerate() {
            region.put64(at + 8 * word as u64, value);
        }
    }
    let count = u64::from(count);
    region.figures(0, count, count * size, count);
    region.put64(0x200, 2 * count);
    region.put64(0x208, count);
    region.put64(0x238, 2_000 + count);
    region
}

/// The event that created this entry, in the format of the ring.
pub fn event_words(op: u64, slot: u32, entry: &Entry) -> [u64; 6] {
    [
        entry.time,
        entry.address,
        entry.size | u64::from(entry.row) << 40 | op << 56,
        u64::from(slot) | u64::from(entry.tag) << 20 | entry.event << 32,
        u64::from(entry.per_bank) | u64::from(entry.page) << 32,
        u64::from(entry.stack) | u64::from(entry.operation) << 32,
    ]
}
