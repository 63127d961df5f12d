//! Buffers, allocators and libraries.

use super::*;

#[test]
fn buffers_come_and_go_with_their_blocks() {
    let Some(workshop) = Workshop::open() else { return };
    for shape in ["new", "old"] {
        let mut program = workshop.on_mesh(shape, 2);
        assert_eq!(program.figures(kind::DRAM), (0, 0, 0), "an open device without buffers is a true 0");
        // 40 pages of 100 bytes over 12 banks: 4 pages of 112 bytes per bank. Only the sum, 448, is rounded up to a multiple of 32.
        let first = program.allocate("0 0 4000 100");
        assert_eq!(program.figures(kind::DRAM), (4000, 448 * 12, 1), "{shape}");
        let second = program.allocate("0 1 64 16 2");
        assert_eq!(program.figures(kind::L1), (64, 32 * 64, 1), "{shape}: a block of 16 bytes is rounded up to 32");
        let ledger = program.ledger();
        let buffer = ledger.buffers.iter().find(|buffer| buffer.kind == BufferKind::Of(Kind::L1)).expect("listed");
        let numbers = [buffer.cores, buffer.page_size, buffer.per_bank].map(|number| number.map_or(0, NonZeroU32::get));
        assert_eq!((buffer.layout, numbers), (Some(BufferLayout::HeightSharded), [4, 16, 32]), "{shape}");
        program.send(&format!("free {first}"));
        program.send(&format!("free {second}"));
        assert_eq!((program.figures(kind::DRAM).2, program.figures(kind::L1).2), (0, 0), "{shape}");
        let ledger = program.ledger();
        assert_eq!((ledger.is_exact, ledger.lost), (true, [0; 8]), "{shape}");
        assert_eq!(program.feature("allocations"), (FeatureState::Found, 2, String::new()), "{shape}");
    }
}

#[test]
fn an_allocator_is_described_by_itself() {
    let Some(workshop) = Workshop::open() else { return };
    let program = workshop.on_mesh("new", 3);
    let ledger = program.ledger();
    let [allocator] = &ledger.allocators[..] else { panic!("one allocator") };
    let chips: Vec<_> = allocator.chips.iter().map(|chip| (chip.metal_id, chip.unique_id)).collect();
    assert_eq!(chips, [(Some(0), Some(1000)), (Some(1), Some(1001)), (Some(2), Some(1002))]);
    assert_eq!(allocator.mesh, None, "a mesh whose rows throw has no shape");
    let dram = allocator.geometry[Kind::Dram].expect("known");
    assert_eq!((dram.banks, dram.bank_bytes, dram.base), (12, 1 << 20, 0x1000));
    let small = allocator.geometry[Kind::L1Small].expect("known");
    assert_eq!((small.banks, small.base), (64, 0x1000 + (1 << 16)));
    assert_eq!(allocator.geometry[Kind::Trace], None, "a bank of 2^64 bytes does not exist");
    assert_eq!(program.feature("unique ids").1, 3, "also what came before the ledger is counted");
}

#[test]
fn out_of_memory_reaches_the_program_and_the_ledger() {
    let Some(workshop) = Workshop::open() else { return };
    let mut program = workshop.on_mesh("new", 1);
    assert_eq!(program.send("tag decoder"), "0");
    program.allocate("0 0 24576 256");
    let thrown = program.throws("allocate 0 0 99999744 256");
    assert!(thrown.contains("info:|Out of Memory: Not enough space|backtrace:"), "{thrown}");
    assert_eq!(program.figures(kind::DRAM).2, 1);
    let refusals = program.refusals();
    let [LedgerRefusal { refusal, tag, .. }] = &refusals[..] else { panic!("one refusal") };
    let dram = BufferKind::Of(Kind::Dram);
    assert_eq!((refusal.what, refusal.kind, refusal.size, refusal.banks), (Refused::OutOfMemory, dram, 99_999_744, 12));
    assert_eq!(refusal.message, "Out of Memory: Not enough space");
    assert_eq!(tag.as_deref(), Some("decoder"));
    let free = (1 << 20) - 2048;
    assert_eq!((refusal.per_bank, refusal.free_per_bank, refusal.largest_free_per_bank), (8_333_312, free, free / 2));
    assert_eq!(refusal.largest.len(), 1);
    program.allocate("0 0 64 64");
}

#[test]
fn a_free_that_throws_leaves_the_buffer_there() {
    let Some(workshop) = Workshop::open() else { return };
    let mut program = workshop.on_mesh("new", 1);
    let buffer = program.allocate("0 0 1024 256");
    program.send("call fake_free_throws 0 1");
    assert_eq!(program.throws(&format!("free {buffer}")), "no");
    assert_eq!(program.figures(kind::DRAM).2, 1);
    program.send("call fake_free_throws 0 0");
    program.send(&format!("free {buffer}"));
    assert_eq!(program.figures(kind::DRAM).2, 0);
    let row = &program.ledger().allocators[0].rows[0];
    assert_eq!((row.used, row.count), (0, 0));
    assert_eq!(program.lost(Lost::UnknownFree), 0);
}

#[test]
fn a_stale_buffer_frees_what_lies_at_its_address_now() {
    let Some(workshop) = Workshop::open() else { return };
    let mut program = workshop.on_mesh("new", 1);
    let stale = program.allocate("0 0 1024 256");
    program.send("call fake_free_all 0");
    assert_eq!(program.figures(kind::DRAM).2, 0);
    program.send(&format!("free {stale}"));
    assert_eq!(program.figures(kind::DRAM).2, 0);
    assert_eq!(program.lost(Lost::UnknownFree), 1);
}

#[test]
fn closing_and_opening_again_is_the_same_device() {
    let Some(workshop) = Workshop::open() else { return };
    let mut program = workshop.on_mesh("new", 2);
    for round in 0..20 {
        let mesh = program.send("open 0 2");
        program.allocate(&format!("{mesh} 0 1024 256"));
        assert_eq!(program.figures(kind::DRAM).2, 1, "round {round}");
        program.send(&format!("call fake_close {mesh}"));
        assert_eq!(program.figures(kind::DRAM).2, 0, "round {round}");
    }
    let ledger = program.ledger();
    assert_eq!(ledger.allocators.len(), 2, "slots are used again");
    assert_eq!(ledger.allocators.iter().filter(|allocator| allocator.is_open()).count(), 1);
}

#[test]
fn two_libraries_in_one_process_stay_apart() {
    let Some(workshop) = Workshop::open() else { return };
    let mut program = workshop.on_mesh("new", 1);
    program.load(&workshop.library("copy"));
    let mesh = program.send("open 1 1");
    let (first, second) = (program.send("program 0 1 0 0"), program.send("program 1 2 0 0"));
    program.send(&format!("run {first} 0"));
    program.send(&format!("run {second} {mesh}"));
    program.send(&format!("run {second} {mesh}"));
    // One launch and two circular buffers each: each library's tracker has seen its own.
    assert_eq!((program.send("seen 0"), program.send("seen 1")), ("3".to_owned(), "6".to_owned()));
    program.allocate("0 0 1024 256");
    program.allocate(&format!("{mesh} 0 1024 256"));
    assert_eq!(program.figures(kind::DRAM).2, 2);
    program.send(&format!("call fake_drop {second}"));
    program.send(&format!("call fake_drop {first}"));
}

#[test]
fn a_library_loaded_again_and_again_is_found_each_time() {
    let Some(workshop) = Workshop::open() else { return };
    for is_tracked in [true, false] {
        let mut program = workshop.start(is_tracked);
        let moved = program.send(&format!("reload {} 40", workshop.library("new").display()));
        assert_eq!(moved, "40", "each was unloaded, and the next one lay elsewhere");
        program.load(&workshop.library("new"));
        program.send("open 0 1");
        program.allocate("0 0 1024 256");
        assert_eq!(program.region().is_some(), is_tracked);
    }
}
