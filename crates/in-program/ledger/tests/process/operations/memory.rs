//! The memory that a ledger uses in a process, its kind, and its release.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io::{Read, Seek};

use super::*;
use crate::made;

/// Pages of address space, from a file that may have been opened before /proc became unavailable.
fn pages(statm: &mut fs::File) -> u64 {
    let mut text = String::new();
    statm.rewind().and_then(|()| statm.read_to_string(&mut text)).expect("statm");
    text.split(' ').next().and_then(|pages| pages.parse().ok()).expect("pages")
}

/// Far less than any mapping of a ledger.
const FEW_PAGES: u64 = 256;

/// Makes `path` the root of this process, as its current user. Returns false if that is forbidden.
fn change_root(path: &str) -> bool {
    let path = CString::new(path).expect("no NUL");
    // SAFETY: C strings; only the process of this case changes.
    unsafe {
        (libc::chroot(path.as_ptr()) == 0 || libc::unshare(libc::CLONE_NEWUSER) == 0 && libc::chroot(path.as_ptr()) == 0)
            && libc::chdir(c"/".as_ptr()) == 0
    }
}

/// Without the start time of its process, a ledger could not be attributed.
pub(crate) fn without_proc_there_is_none() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut maps, mut statm) = (fs::File::open("/proc/self/maps").expect("maps"), fs::File::open("/proc/self/statm").expect("statm"));
    let root = fs::File::open("/").expect("root");
    if !change_root(directory.path().to_str().expect("UTF-8")) {
        println!("  not allowed to change the root here");
        return;
    }
    assert_eq!(WRITER.session().err(), Some(Lost::NoMemory));
    let before = pages(&mut statm);
    // The start is attempted ten more times.
    for _ in 0..1024 {
        assert_eq!(WRITER.session().err(), Some(Lost::NoMemory));
    }
    let after = pages(&mut statm);
    assert!(after < before + FEW_PAGES, "{before} pages, then {after}");
    let mut text = String::new();
    maps.read_to_string(&mut text).expect("maps");
    assert!(!text.contains("ttmon-ledger"));
    // SAFETY: reads the flags of a descriptor; the ledger's would be the first from 500 on.
    assert_eq!(unsafe { libc::fcntl(500, libc::F_GETFD) }, -1);
    // SAFETY: our own descriptor, and a C string.
    assert_eq!(unsafe { libc::fchdir(root.as_raw_fd()) + libc::chroot(c".".as_ptr()) }, 0);
    while WRITER.session().is_err() {}
    started();
    assert_eq!(truth().status & status::INEXACT, status::INEXACT, "it says that something is missing");
}

/// A mapping in smaps: its first line, its kilobytes and its flags.
struct Mapping<'a> {
    line: &'a str,
    kilobytes: u64,
    flags: Vec<&'a str>,
}

fn mappings(smaps: &str) -> Vec<Mapping<'_>> {
    let mut found = Vec::new();
    for line in smaps.lines() {
        match line.split_once(':') {
            Some(("Size", size)) => {
                let mapping: &mut Mapping = found.last_mut().expect("a mapping");
                mapping.kilobytes = size.trim().trim_end_matches(" kB").parse().expect("kB");
            }
            Some(("VmFlags", flags)) => found.last_mut().expect("a mapping").flags = flags.split_whitespace().collect(),
            _ if line.split(' ').next().is_some_and(|range| range.contains('-')) => {
                found.push(Mapping { line, kilobytes: 0, flags: Vec::new() });
            }
            _ => {}
        }
    }
    found
}

/// No huge pages, no content in core dumps, and the range that a fork wipes is a page of any kernel.
pub(crate) fn pages_are_small_and_not_dumped() {
    // The memory for all reads is allocated first, because it does not belong to the ledger.
    let [mut before, mut after] = [(); 2].map(|()| String::with_capacity(4 << 20));
    let read = |text: &mut String| fs::File::open("/proc/self/smaps").and_then(|mut file| file.read_to_string(text)).expect("smaps");
    read(&mut before);
    started();
    read(&mut after);
    let known: BTreeSet<&str> = mappings(&before).iter().filter_map(|mapping| mapping.line.split('-').next()).collect();
    let made: Vec<_> =
        mappings(&after).into_iter().filter(|mapping| !known.contains(mapping.line.split('-').next().expect("a range"))).collect();
    assert!(made.iter().any(|mapping| mapping.line.contains("ttmon-ledger")), "the ledger itself");
    let has_huge_pages = fs::exists("/sys/kernel/mm/transparent_hugepage").expect("sys");
    for Mapping { line, flags, .. } in &made {
        assert!(flags.contains(&"dd"), "{line}: {flags:?}");
        assert!(flags.contains(&"nh") || !has_huge_pages, "{line}: {flags:?}");
    }
    let wiped: Vec<u64> = made.iter().filter(|mapping| mapping.flags.contains(&"wf")).map(|mapping| mapping.kilobytes).collect();
    assert_eq!(wiped, [64]);
}

/// Writers that are created and dropped, as in tests and simulation, with all their other mappings.
pub(crate) fn address_space_is_given_back() {
    let mut statm = fs::File::open("/proc/self/statm").expect("statm");
    let mut before = 0;
    for round in 0..50 {
        let writer = made::writer(1024);
        let mut session = writer.session().expect("session");
        let id = open(&mut session, 0);
        session.tag("text");
        session.add_circular(&made::circular(id)).expect("room");
        for number in 0..1025_u64 {
            session.insert(key(id, 0, number * 64), &sized(1)).expect("room");
        }
        drop(session);
        drop(writer);
        if round == 0 {
            before = pages(&mut statm);
        }
    }
    let after = pages(&mut statm);
    assert!(after < before + FEW_PAGES, "{before} pages, then {after}");
    assert_eq!(ledgers_here(), (0, 0));
}
