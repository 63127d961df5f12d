//! Limited resources of a process: file size, address space, descriptors, memfds, unlocked memory.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;

pub(crate) fn limit(resource: Resource, value: u64) {
    let maximum = getrlimit(resource).maximum;
    setrlimit(resource, Rlimit { current: Some(value.min(maximum.unwrap_or(value))), maximum }).expect("limited");
}

fn capacity() -> u64 {
    Raw::of(WRITER.descriptor().expect("descriptor")).word(0x18 + 5 * 16 + 8) & 0xFFFF_FFFF
}

pub(crate) fn file_size_limit() {
    limit(Resource::Fsize, 21 << 20);
    started();
    assert_eq!(capacity(), 1 << 16);
    assert_eq!(truth().status, 0);
}

pub(crate) fn file_size_limit_below_the_smallest() {
    limit(Resource::Fsize, 1 << 20);
    is_off();
    // The start is attempted again at every 2^k-th session, in case the program raises its limit.
    limit(Resource::Fsize, u64::MAX);
    while WRITER.session().is_err() {}
    started();
    assert_eq!(truth().status & status::INEXACT, status::INEXACT, "it says that something is missing");
}

/// Readers can find only a memfd: without one nothing is recorded or reported.
fn is_off() {
    for _ in 0..10 {
        assert_eq!(WRITER.session().err(), Some(Lost::NoMemory));
    }
    assert!(!WRITER.is_started() && WRITER.descriptor().is_none());
    assert_eq!(HAND_OVERS.load(SeqCst), 0);
    assert_eq!(ledgers_here(), (0, 0));
}

pub(crate) fn address_space_limit() {
    let pages = fs::read_to_string("/proc/self/statm").expect("statm");
    let used = pages.split(' ').next().and_then(|pages| pages.parse::<u64>().ok()).expect("pages") * 4096;
    limit(Resource::As, used + (48 << 20));
    started();
    let capacity = capacity();
    assert!((1024..1 << 18).contains(&capacity), "{capacity}");
    limit(Resource::As, u64::MAX);
    assert_eq!(truth().rows[&0].count, 1);
}

pub(crate) fn no_descriptor_left() {
    let used = fs::read_dir("/proc/self/fd").expect("fd").count() as u64;
    // All numbers below the limit are in use, or the limit is below the open descriptors.
    let held: Vec<_> = (0..64).filter_map(|_| fs::File::open("/dev/null").ok()).collect();
    limit(Resource::Nofile, used.min(held[0].as_raw_fd().unsigned_abs().into()));
    for _ in 0..100 {
        assert_eq!(WRITER.session().err(), Some(Lost::NoMemory));
    }
    limit(Resource::Nofile, 1024);
    // Attempted at every 2^k-th session, so next at the 128th.
    let mut refused = 100;
    while WRITER.session().is_err() {
        refused += 1;
        assert!(refused < 300);
    }
    let truth = truth();
    assert_eq!((truth.lost[Lost::NoMemory as usize], truth.status & status::INEXACT), (refused, status::INEXACT));
}

/// From now on the kernel rejects memfd_create with EPERM, like a sandbox.
fn refuse_memfd() {
    let load = |k| libc::sock_filter { code: 0x20, jt: 0, jf: 0, k };
    let number = u32::try_from(libc::SYS_memfd_create).expect("small");
    let mut program = [
        load(0),
        libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: number },
        libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x0005_0000 | libc::EPERM.unsigned_abs() },
        libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x7FFF_0000 },
    ];
    let filter = libc::sock_fprog { len: 4, filter: program.as_mut_ptr() };
    // SAFETY: the kernel copies the program, which only restricts this child.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter), 0);
    }
}

pub(crate) fn memfd_refused() {
    refuse_memfd();
    is_off();
    assert_eq!(in_child(is_off), 0);
}

fn resident_kb() -> u64 {
    let text = fs::read_to_string("/proc/self/status").expect("status");
    let line = text.lines().find(|line| line.starts_with("VmRSS")).expect("VmRSS");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("kB")
}

pub(crate) fn mlockall_locks_nothing_untouched() {
    // SAFETY: no preconditions.
    if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } != 0 {
        println!("  not allowed to lock memory here: only the events are tried");
    }
    let before = resident_kb();
    let id = started();
    for number in 0..100_u64 {
        WRITER.session().expect("session").insert(key(id, 0, number * 64 + 4096), &sized(1)).expect("room");
    }
    let grown = resident_kb() - before;
    assert!(grown < 1024, "{grown} kB more");
    assert_eq!(truth().rows[&0].count, 101);
}
