//! Ledgers that the service writes for other processes: as exact as a process's own, and taken over after the service was killed.

use std::fs::File;
use std::os::unix::fs::FileExt;

use ttmon_ledger::layout::{CIRCULARS, CODES, Coverage, Lost, WriterKind, header, kind};
use ttmon_ledger::writer::{
    AllocatorId, AllocatorSpec, Buffer, Chip, Circular, ClockChoice, Config, Hosted, Key, KindGeometry, Owner, VisibleDevicesVariable,
};
use ttmon_ledger_reader::Region;
use ttmon_model::ledger::{LedgerWriter, VisibleDevices};

const CONFIG: Config = Config { kind: WriterKind::Service, version: "test", clock: ClockChoice::Auto, machine: 7, on_created: None };

fn file() -> File {
    tempfile::tempfile().unwrap()
}

fn owner(seen: VisibleDevicesVariable<'_>) -> Owner<'_> {
    Owner { pid: 4242, start_ticks: 99, program: b"model.py", seen, is_mock: false }
}

fn open(hosted: &mut Hosted, device: u32) -> AllocatorId {
    let chips = [Chip { metal_id: device, unique_id: 0, flags: 0 }];
    let spec = AllocatorSpec { given_id: device, origin: 3, mesh: (0, 0), kinds: [KindGeometry::default(); 6], chips: &chips };
    hosted.open_allocator(&spec).unwrap()
}

fn put(hosted: &mut Hosted, allocator: AllocatorId, address: u64, size: u64) {
    if !hosted.has_room() {
        hosted.make_room().unwrap();
    }
    let key = Key { allocator, kind: kind::DRAM, address };
    hosted.session().insert(key, &Buffer { size, ..Buffer::default() }).unwrap();
}

#[test]
fn the_header_names_the_owner() {
    for (seen, expected) in [
        (VisibleDevicesVariable::All, VisibleDevices::All),
        (VisibleDevicesVariable::Only(b"1,2"), VisibleDevices::Only("1,2".to_owned())),
        (VisibleDevicesVariable::Unknown, VisibleDevices::Cut),
    ] {
        let file = file();
        let hosted = Hosted::create(file.try_clone().unwrap(), &CONFIG, &owner(seen)).unwrap();
        let region = Region::open(file).unwrap();
        let identity = region.identity();
        assert_eq!((identity.owner_pid, identity.owner_start_ticks, identity.machine), (4242, 99, 7));
        assert_eq!((identity.pid, identity.writer), (std::process::id(), LedgerWriter::Service));
        assert_eq!(identity.program, "model.py");
        assert_eq!(region.figures().unwrap().visible_devices, expected);
        assert_eq!(hosted.owner(), (4242, 99));
    }
}

/// A page must not be written before the file system has allocated it. Holes stay holes.
#[test]
fn nothing_is_written_where_no_room_was_made() {
    let file = file();
    let mut hosted = Hosted::create(file.try_clone().unwrap(), &CONFIG, &owner(VisibleDevicesVariable::All)).unwrap();
    let zero = open(&mut hosted, 0);
    for round in 0..3 {
        for address in 0..500 {
            put(&mut hosted, zero, address + round * 250, 10);
        }
        hosted.session().free_all(zero);
    }
    let circular =
        Circular { allocator: zero, chip: None, program: 1, address: 0, size: 32, cores: [0; 4], is_dataflow: false, is_global: false };
    hosted.make_room().unwrap();
    assert_eq!(hosted.session().add_circular(&circular), Err(Lost::NoMemory));
    hosted.session().cover(1, "launches", Coverage::Found, "");
    assert_eq!(hosted.session().code("a.py", "f", 1), None);
    assert_eq!(hosted.session().add_stack(1, &[], false), 0);
    let (from, to) = (CIRCULARS.offset, CODES.end());
    let mut bytes = vec![1; usize::try_from(to - from).unwrap()];
    file.read_exact_at(&mut bytes, from).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 0));
    let closed = Region::open(file).unwrap().figures().unwrap().allocators[0].rows[0].at_close.unwrap();
    assert_eq!((closed.all, closed.last), ((1500, 15_000), (500, 5000)), "still counted");
}

#[test]
fn a_hosted_ledger_is_read_as_written() {
    let file = file();
    let mut hosted = Hosted::create(file.try_clone().unwrap(), &CONFIG, &owner(VisibleDevicesVariable::All)).unwrap();
    let (zero, far) = (open(&mut hosted, 0), open(&mut hosted, 300));
    for address in 0..5000 {
        put(&mut hosted, zero, address, 10);
    }
    put(&mut hosted, far, 1, 70);
    for address in 0..1000 {
        hosted.session().remove(Key { allocator: zero, kind: kind::DRAM, address }).unwrap();
    }
    assert_eq!((hosted.live_entries(), hosted.live_of(zero, kind::DRAM), hosted.live_of(far, kind::L1)), (4001, (40_000, 4000), (0, 0)));
    let listing = Region::open(file).unwrap().live_events().unwrap();
    assert_eq!(listing.live.len(), 4001);
    assert_eq!(listing.ledger.allocators.iter().map(|one| one.given_id).collect::<Vec<_>>(), [0, 300]);
    assert_eq!(listing.ledger.allocators[0].rows[0].used, 40_000);
}

#[test]
fn another_service_takes_over() {
    let file = file();
    let mut first = Hosted::create(file.try_clone().unwrap(), &CONFIG, &owner(VisibleDevicesVariable::All)).unwrap();
    let id = open(&mut first, 5);
    for address in 0..70_000 {
        put(&mut first, id, address, 3);
    }
    first.session().lose(Lost::UnknownFree);
    let tags = ["pid 1", "pid 2"].map(|text| first.tag(text));
    // Simulates a kill: nothing is closed.
    std::mem::forget(first);
    let mut second = Hosted::adopt(file.try_clone().unwrap(), &CONFIG).unwrap();
    assert_eq!(second.owner(), (4242, 99));
    assert_eq!((second.live_entries(), second.lost(Lost::UnknownFree)), (70_000, 1));
    let again = open(&mut second, 5);
    assert_eq!(again, id, "the device is known");
    assert_eq!(["pid 1", "pid 2"].map(|text| second.tag(text)), tags, "and so are texts");
    put(&mut second, again, 70_000, 3);
    for address in (0..70_000).step_by(2) {
        assert!(second.has_room() || second.make_room().is_ok());
        assert_eq!(second.session().remove(Key { allocator: again, kind: kind::DRAM, address }), Some(3));
    }
    put(&mut second, again, 70_002, 3);
    assert_eq!(second.live_of(again, kind::DRAM), (35_002 * 3, 35_002));
    let listing = Region::open(file).unwrap().live_events().unwrap();
    assert_eq!(listing.live.len(), 35_002);
    assert_eq!(listing.ledger.allocators[0].rows[0].peak, 70_001 * 3);
}

/// A ledger with this capacity.
fn small(file: &File, capacity: u32) -> Hosted {
    drop(Hosted::create(file.try_clone().unwrap(), &CONFIG, &owner(VisibleDevicesVariable::All)).unwrap());
    let table = ttmon_ledger::layout::entries(capacity);
    file.write_all_at(&capacity.to_le_bytes(), header::TABLES + 5 * 16 + 8).unwrap();
    file.write_all_at(&table.end().to_le_bytes(), header::REGION_BYTES).unwrap();
    file.set_len(table.end()).unwrap();
    Hosted::adopt(file.try_clone().unwrap(), &CONFIG).unwrap()
}

/// Only this service would know unlisted entries. A full table is cleared of dead entries first, wherever they are.
#[test]
fn nothing_goes_unlisted_while_the_dead_take_room() {
    const CAPACITY: u32 = 4096;
    let file = file();
    let mut hosted = small(&file, CAPACITY);
    let (zero, one) = (open(&mut hosted, 0), open(&mut hosted, 1));
    (0..3000).for_each(|address| put(&mut hosted, zero, address, 1));
    (3000..u64::from(CAPACITY)).for_each(|address| put(&mut hosted, one, address, 1));
    hosted.session().free_all(one);
    (0..500).for_each(|address| put(&mut hosted, one, address, 1));
    let listing = Region::open(file).unwrap().live_events().unwrap();
    assert_eq!(listing.live.len(), 3500);
    assert!(listing.ledger.allocators.iter().flat_map(|allocator| &allocator.rows).all(|row| row.unlisted_count == 0));
}

#[test]
fn all_texts_and_devices_fit() {
    let file = file();
    let mut hosted = Hosted::create(file.try_clone().unwrap(), &CONFIG, &owner(VisibleDevicesVariable::All)).unwrap();
    for device in 0..256 {
        open(&mut hosted, device);
    }
    let chips = [];
    let spec = AllocatorSpec { given_id: 256, origin: 3, mesh: (0, 0), kinds: [KindGeometry::default(); 6], chips: &chips };
    assert_eq!(hosted.open_allocator(&spec), Err(Lost::NoAllocator));
    assert_eq!(hosted.allocators().len(), 256);
    let tags: Vec<u32> = (0..5000).map(|number| hosted.tag(&format!("pid {number}"))).collect();
    assert_eq!((tags[0], tags[4093], tags[4094], tags[4999]), (1, 4094, 4095, 4095));
    hosted.remove();
    assert!(Region::open(file).is_err(), "its contents are gone");
}

#[test]
fn files_of_others_are_refused() {
    let refused = |file: File| Hosted::adopt(file, &CONFIG).map(|_| ()).unwrap_err().to_string();
    assert!(Hosted::adopt(file(), &CONFIG).is_err());
    let short = file();
    short.set_len(4096).unwrap();
    assert_eq!(refused(short), "no ledger");
    let other = file();
    drop(Hosted::create(other.try_clone().unwrap(), &Config { machine: 8, ..CONFIG }, &owner(VisibleDevicesVariable::All)).unwrap());
    assert_eq!(refused(other.try_clone().unwrap()), "a ledger of another writer");
    other.set_len(8192).unwrap();
    assert_eq!(refused(other), "a ledger of another shape");
}
