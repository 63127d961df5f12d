//! The cases of `ttmon_ledger::report`, one by one.

use ttmon_ledger::layout::{Lost, kind, origin};
use ttmon_ledger::report::{FreeTarget, allocate, allocator_of, free, kernel_flags, kernel_type};
use ttmon_ledger::writer::{Buffer, Chip, Key, Stored};

use FreeTarget::{Buffer as ANY, Kind};
use Step::{Allocate, Free};

use crate::made;
use crate::raw::Raw;

const ADDRESS: u64 = 0x1000;

#[derive(Clone, Copy)]
enum Step {
    /// Kind and size.
    Allocate(u8, u64),
    Free(FreeTarget),
}
struct Case {
    name: &'static str,
    steps: &'static [Step],
    /// Kind, size and references of the live buffers afterwards.
    live: &'static [(u8, u64, u32)],
    /// Counts of replaced, ambiguous and unknown.
    counted: [u64; 3],
}

const CASES: &[Case] = &[
    Case { name: "new", steps: &[Allocate(kind::DRAM, 10)], live: &[(kind::DRAM, 10, 1)], counted: [0; 3] },
    Case {
        name: "same kind and size",
        steps: &[Allocate(kind::CB, 10), Allocate(kind::CB, 10)],
        live: &[(kind::CB, 10, 2)],
        counted: [0; 3],
    },
    Case {
        name: "same kind, another size",
        steps: &[Allocate(kind::L1, 10), Allocate(kind::L1, 10), Allocate(kind::L1, 25)],
        live: &[(kind::L1, 25, 1)],
        counted: [1, 0, 0],
    },
    Case {
        name: "one reference less",
        steps: &[Allocate(kind::L1, 10), Allocate(kind::L1, 10), Free(ANY)],
        live: &[(kind::L1, 10, 1)],
        counted: [0; 3],
    },
    Case { name: "last reference", steps: &[Allocate(kind::TRACE, 10), Free(ANY)], live: &[], counted: [0; 3] },
    Case { name: "nothing there", steps: &[Free(ANY), Free(Kind(kind::CB))], live: &[], counted: [0, 0, 2] },
    Case {
        name: "the newer kind is the later one",
        steps: &[Allocate(kind::DRAM, 10), Allocate(kind::L1, 20), Free(ANY)],
        live: &[(kind::DRAM, 10, 1)],
        counted: [0, 1, 0],
    },
    Case {
        name: "the newer kind is the earlier one",
        steps: &[Allocate(kind::L1, 10), Allocate(kind::DRAM, 20), Free(ANY)],
        live: &[(kind::L1, 10, 1)],
        counted: [0, 1, 0],
    },
    Case {
        name: "two buffers below a newer circular buffer",
        steps: &[Allocate(kind::DRAM, 10), Allocate(kind::L1, 20), Allocate(kind::CB, 30), Free(ANY)],
        live: &[(kind::DRAM, 10, 1), (kind::CB, 30, 1)],
        counted: [0, 1, 0],
    },
    Case {
        name: "one buffer below a circular buffer and a kernel",
        steps: &[Allocate(kind::L1, 10), Allocate(kind::CB, 20), Allocate(kind::KERNEL, 30), Free(ANY)],
        live: &[(kind::CB, 20, 1), (kind::KERNEL, 30, 1)],
        counted: [0; 3],
    },
    Case { name: "only a circular buffer", steps: &[Allocate(kind::CB, 20), Free(ANY)], live: &[(kind::CB, 20, 1)], counted: [0, 0, 1] },
    Case {
        name: "a kernel by its kind",
        steps: &[Allocate(kind::L1, 10), Allocate(kind::KERNEL, 20), Free(Kind(kind::KERNEL))],
        live: &[(kind::L1, 10, 1)],
        counted: [0; 3],
    },
];

#[test]
fn reports_mean_what_the_table_says() {
    for case in CASES {
        let writer = made::writer(1 << 10);
        let mut session = writer.session().expect("a session");
        let chip = [Chip { metal_id: 0, unique_id: 0, flags: 0 }];
        let allocator = session.open_allocator(&allocator_of(origin::CLIENT, &chip)).expect("room");
        let key = |kind| Key { allocator, kind, address: ADDRESS };
        let mut counted = [0; 3];
        for step in case.steps {
            match *step {
                Allocate(kind, size) => {
                    let buffer = Buffer { size, ..Buffer::default() };
                    let stored = allocate(&mut session, key(kind), &buffer).expect("room");
                    counted[0] += u64::from(stored == Stored::Replaced);
                }
                Free(target) => match free(&mut session, Some(allocator), target, ADDRESS) {
                    Some(freed) => counted[1] += u64::from(freed.is_ambiguous),
                    None => counted[2] += 1,
                },
            }
        }
        let live = (0..8).filter_map(|kind| session.find(key(kind)).map(|live| (kind, live.size, live.refs)));
        assert_eq!(live.collect::<Vec<_>>(), case.live, "{}", case.name);
        assert_eq!(counted, case.counted, "{}", case.name);
        drop(session);
        let truth = Raw::of(writer.descriptor().expect("a descriptor")).truth();
        let in_ledger = [Lost::Replaced, Lost::AmbiguousFree, Lost::UnknownFree].map(|reason| truth.lost[reason as usize]);
        assert_eq!(in_ledger, case.counted, "{}: counted in the ledger", case.name);
    }
}

#[test]
fn kernel_types_survive_the_flags() {
    assert!((0..=u8::MAX).all(|number| kernel_type(kernel_flags(number)) == number));
}
