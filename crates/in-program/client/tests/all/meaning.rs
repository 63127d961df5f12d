//! The meaning of reports, read from this process's own ledger. Also tests a process of a simulated machine: it tracks independent of the
//! environment, and its ledger has the machine's mark.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard};

use ttmon_client::*;
use ttmon_ledger::layout::{ALLOCATORS, Lost, NAME, ROWS, TAGS, allocator, entries, entry, header, kind, row};

const MACHINE: u64 = 0x5151;

/// Runs one test at a time: the process has one ledger, and some counters belong to the whole process.
static TURN: Mutex<()> = Mutex::new(());

struct Ledger {
    file: File,
    _turn: MutexGuard<'static, ()>,
}

impl Ledger {
    fn open() -> Self {
        let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        start(Options { machine: MACHINE });
        // Creates the ledger, if it does not exist yet.
        assert_eq!(mark(), Outcome::Recorded);
        let mut ours = fs::read_dir("/proc/self/fd").expect("listed").map(|descriptor| descriptor.expect("listed").path());
        let path = ours.find(|path| fs::read_link(path).is_ok_and(|target| target.to_string_lossy().contains(NAME)));
        Self { file: File::open(path.expect("a ledger among our descriptors")).expect("opened"), _turn: turn }
    }

    fn bytes<const N: usize>(&self, offset: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.file.read_exact_at(&mut bytes, offset).expect("within the ledger");
        bytes
    }

    fn word(&self, offset: u64) -> u64 {
        u64::from_le_bytes(self.bytes(offset))
    }

    fn lost(&self, why: Lost) -> u64 {
        self.word(header::LOST + 8 * why as u64)
    }

    /// The newest allocator of a device, and its state.
    fn allocator(&self, device: u32) -> Option<(u64, u8)> {
        let used = self.word(header::ALLOCATORS_USED);
        let of_device = (0..used).filter(|slot| {
            let start = ALLOCATORS.offset + slot * u64::from(ALLOCATORS.stride);
            u32::from_le_bytes(self.bytes(start + allocator::GIVEN_ID)) == device
        });
        let newest =
            of_device.max_by_key(|slot| self.word(ALLOCATORS.offset + slot * u64::from(ALLOCATORS.stride) + allocator::OPENED_AT))?;
        let [state] = self.bytes(ALLOCATORS.offset + newest * u64::from(ALLOCATORS.stride) + allocator::STATE);
        Some((newest, state))
    }

    /// Live bytes and buffers of a device and kind.
    fn live(&self, device: u32, kind: u8) -> (u64, u64) {
        let Some((slot, _)) = self.allocator(device) else { return (0, 0) };
        let start = ROWS.offset + (slot * 8 + u64::from(kind)) * u64::from(ROWS.stride);
        (self.word(start + row::LIVE_BYTES), self.word(start + row::ALLOCS) - self.word(start + row::FREES))
    }

    /// The offset of the live entry at an address.
    fn entry(&self, address: u64) -> u64 {
        let table = entries(1 << 20);
        let used = self.word(header::ENTRIES_USED);
        let starts = (0..used).map(|slot| table.offset + slot * u64::from(table.stride));
        let is_it = |start: &u64| self.bytes(*start + entry::STATE) == [entry::LIVE] && self.word(start + entry::ADDRESS) == address;
        starts.into_iter().find(is_it).expect("a live entry")
    }

    fn tag(&self, address: u64) -> String {
        let tag = u32::from_le_bytes(self.bytes(self.entry(address) + entry::TAG));
        let start = TAGS.offset + u64::from(tag) * u64::from(TAGS.stride);
        let bytes: [u8; 64] = self.bytes(start);
        let length = usize::from(bytes[0]);
        String::from_utf8(bytes[1..=length].to_vec()).expect("UTF-8")
    }
}

fn recorded(outcome: Outcome) {
    assert_eq!(outcome, Outcome::Recorded);
}

#[test]
fn the_ledger_carries_the_machines_mark_and_the_chip() {
    let ledger = Ledger::open();
    assert_eq!(ledger.word(header::MACHINE), MACHINE);
    assert_eq!(u32::from_le_bytes(ledger.bytes(header::PID)), std::process::id());
    assert_eq!(u32::from_le_bytes(ledger.bytes(header::WRITER)), 1);
    assert!(!start(Options { machine: MACHINE }), "it has started already");

    recorded(report_allocation(101, 1, TTMON_DRAM, 0x101));
    let (slot, state) = ledger.allocator(101).expect("an allocator");
    let start = ALLOCATORS.offset + slot * u64::from(ALLOCATORS.stride);
    assert_eq!(state, allocator::OPEN);
    assert_eq!(u32::from_le_bytes(ledger.bytes(start + allocator::ORIGIN)), 1);
    assert_eq!(u32::from_le_bytes(ledger.bytes(start + allocator::CHIPS)), 1);
    assert_eq!(u32::from_le_bytes(ledger.bytes(start + allocator::CHIP_LIST)), 101);
}

#[test]
fn buffer_types_are_kinds() {
    let ledger = Ledger::open();
    let kinds = [kind::DRAM, kind::L1, kind::HOST, kind::L1_SMALL, kind::TRACE, kind::OTHER, kind::OTHER];
    for (buffer_type, kind) in [0, 1, 2, 3, 4, 5, 255].into_iter().zip(kinds) {
        let (bytes, count) = ledger.live(110, kind);
        recorded(report_allocation(110, 10, buffer_type, 0x1000 + u64::from(buffer_type)));
        assert_eq!(ledger.live(110, kind), (bytes + 10, count + 1), "buffer type {buffer_type}");
    }
    recorded(report_cb_allocation(110, 7, 1));
    assert_eq!(ledger.live(110, kind::CB), (7, 1));
    recorded(report_kernel_load(110, 8, 2, 0xABC));
    assert_eq!(ledger.live(110, kind::KERNEL), (8, 1));
    assert_eq!(u16::from_le_bytes(ledger.bytes(ledger.entry(0xABC) + entry::FLAGS)), 2 << 8, "the type of a kernel");
    recorded(report_kernel_unload(110, 12345, 0xABC));
    recorded(report_cb_deallocation(110, 12345, 1));
    assert_eq!((ledger.live(110, kind::CB), ledger.live(110, kind::KERNEL)), ((0, 0), (0, 0)));
}

#[test]
fn the_same_buffer_again_is_a_reference() {
    let ledger = Ledger::open();
    for _ in 0..3 {
        recorded(report_allocation(120, 10, TTMON_DRAM, 0x1000));
        assert_eq!(ledger.live(120, kind::DRAM), (10, 1));
    }
    for remaining in [(10, 1), (10, 1), (0, 0)] {
        recorded(report_deallocation(120, 0x1000));
        assert_eq!(ledger.live(120, kind::DRAM), remaining);
    }
    let before = ledger.lost(Lost::UnknownFree);
    recorded(report_deallocation(120, 0x1000));
    recorded(report_deallocation(121, 0x1000));
    recorded(report_cb_deallocation(120, 1, 1));
    assert_eq!(ledger.lost(Lost::UnknownFree), before + 3);
    assert_eq!(ledger.live(120, kind::DRAM), (0, 0));
}

#[test]
fn another_size_replaces() {
    let ledger = Ledger::open();
    let before = ledger.lost(Lost::Replaced);
    recorded(report_allocation(130, 10, TTMON_L1, 0x1000));
    recorded(report_allocation(130, 10, TTMON_L1, 0x1000));
    recorded(report_allocation(130, 25, TTMON_L1, 0x1000));
    assert_eq!(ledger.live(130, kind::L1), (25, 1));
    assert_eq!(ledger.lost(Lost::Replaced), before + 1);
    recorded(report_deallocation(130, 0x1000));
    assert_eq!(ledger.live(130, kind::L1), (0, 0));
}

#[test]
fn a_free_takes_the_newest_of_the_address() {
    let ledger = Ledger::open();
    let before = ledger.lost(Lost::AmbiguousFree);
    recorded(report_allocation(140, 10, TTMON_L1, 0x1000));
    recorded(report_allocation(140, 20, TTMON_DRAM, 0x1000));
    recorded(report_deallocation(140, 0x1000));
    assert_eq!((ledger.live(140, kind::L1), ledger.live(140, kind::DRAM)), ((10, 1), (0, 0)));
    assert_eq!(ledger.lost(Lost::AmbiguousFree), before + 1);
    recorded(report_deallocation(140, 0x1000));
    assert_eq!(ledger.live(140, kind::L1), (0, 0));
    assert_eq!(ledger.lost(Lost::AmbiguousFree), before + 1);
}

#[test]
fn a_free_does_not_take_a_circular_buffer_of_that_number() {
    let ledger = Ledger::open();
    let before = (ledger.lost(Lost::AmbiguousFree), ledger.lost(Lost::UnknownFree));
    recorded(report_allocation(150, 10, TTMON_L1, 0x1000));
    recorded(report_cb_allocation(150, 20, 0x1000));
    recorded(report_kernel_load(150, 30, 0, 0x1000));
    recorded(report_deallocation(150, 0x1000));
    assert_eq!((ledger.live(150, kind::L1), ledger.live(150, kind::CB)), ((0, 0), (20, 1)));
    assert_eq!((ledger.lost(Lost::AmbiguousFree), ledger.lost(Lost::UnknownFree)), before);
    recorded(report_deallocation(150, 0x1000));
    assert_eq!((ledger.live(150, kind::CB), ledger.live(150, kind::KERNEL)), ((20, 1), (30, 1)));
    assert_eq!(ledger.lost(Lost::UnknownFree), before.1 + 1);
}

#[test]
fn free_takes_newest_buffer_below_newer_circular_buffer() {
    let ledger = Ledger::open();
    let before = ledger.lost(Lost::AmbiguousFree);
    recorded(report_allocation(155, 10, TTMON_DRAM, 0x1000));
    recorded(report_allocation(155, 20, TTMON_L1, 0x1000));
    recorded(report_cb_allocation(155, 30, 0x1000));
    recorded(report_deallocation(155, 0x1000));
    let live = [kind::DRAM, kind::L1, kind::CB].map(|kind| ledger.live(155, kind));
    assert_eq!(live, [(10, 1), (0, 0), (30, 1)]);
    assert_eq!(ledger.lost(Lost::AmbiguousFree), before + 1);
}

#[test]
fn a_closed_device_is_empty_and_can_be_opened_again() {
    let ledger = Ledger::open();
    for _ in 0..1000 {
        recorded(report_allocation(160, 10, TTMON_DRAM, 0x1000));
        recorded(report_allocation(160, 10, TTMON_L1, 0x1000));
        assert_eq!(ledger.live(160, kind::DRAM), (10, 1));
        recorded(report_device_close(160));
    }
    assert_eq!(ledger.live(160, kind::DRAM), (0, 0));
    assert_eq!(ledger.lost(Lost::NoAllocator), 0);
    recorded(report_device_close(160));
    recorded(report_device_close(161));
}

#[test]
fn tags_are_of_the_thread_and_nest() {
    let ledger = Ledger::open();
    let allocate = |address| recorded(report_allocation(170, 1, TTMON_DRAM, address));
    allocate(0x1700);
    {
        let _outer = tag("outer");
        allocate(0x1701);
        {
            let _inner = tag("Schicht \u{1F9E0} 7");
            allocate(0x1702);
            std::thread::scope(|scope| scope.spawn(|| allocate(0x1703)).join().unwrap());
        }
        allocate(0x1704);
        let _long = tag(&"x".repeat(100));
        allocate(0x1705);
    }
    allocate(0x1706);
    let tags: Vec<String> = (0x1700..=0x1706).map(|address| ledger.tag(address)).collect();
    assert_eq!(tags, ["", "outer", "Schicht \u{1F9E0} 7", "", "outer", &"x".repeat(62), ""]);
}

#[test]
fn bad_arguments_change_nothing() {
    let ledger = Ledger::open();
    let before = ledger.word(header::LIVE_ENTRIES);
    assert_eq!(report_allocation(-1, 1, TTMON_DRAM, 1), Outcome::BadArgument);
    assert_eq!(report_deallocation(i32::MIN, 1), Outcome::BadArgument);
    assert_eq!(report_device_close(-1), Outcome::BadArgument);
    assert_eq!(report_allocation(180, 1 << 40, TTMON_DRAM, 1), Outcome::BadArgument);
    assert_eq!(ledger.word(header::LIVE_ENTRIES), before);
    recorded(report_allocation(180, 0, TTMON_DRAM, 1));
    assert_eq!(ledger.live(180, kind::DRAM), (0, 1), "a buffer of no bytes is one");
}
