//! Restricts unsafe code to some crates.

use super::code::words;
use super::{File, Finding};

/// The interfaces to shared memory, C and other programs; and fuzzing, whose macros expand to unsafe code.
const HOMES: &[&str] = &[
    "crates/ledger/",
    "crates/client/",
    "crates/hook/",
    "crates/pystack/",
    "crates/stub/",
    "crates/monitor/",
    "crates/sys/",
    "crates/deep/",
    "fuzz/",
];

pub(super) fn is_home(path: &str) -> bool {
    HOMES.iter().any(|home| path.starts_with(home))
}

pub(super) fn unsafe_outside(file: &File) -> Vec<Finding> {
    if is_home(&file.path) {
        return Vec::new();
    }
    let found = words(&file.code).filter(|(_, word)| *word == "unsafe");
    found
        .map(|(at, _)| {
            file.finding(file.line_of(at), "unsafe code lives in ledger, client, hook, pystack, stub, monitor, sys and deep only")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::said;
    use super::*;

    const TEXT: &str = "//! No unsafe code.\n#![forbid(unsafe_code)]\nfn a() { unsafe { b() } }\n";

    #[test]
    fn unsafe_is_found_outside_its_crates() {
        let said = said(&unsafe_outside(&File::new("crates/source/src/lib.rs", TEXT)));
        assert_eq!(
            said,
            ["crates/source/src/lib.rs:3: unsafe code lives in ledger, client, hook, pystack, stub, monitor, sys and deep only"]
        );
        assert_eq!(unsafe_outside(&File::new("crates/ledger/src/map.rs", TEXT)), []);
        assert_eq!(unsafe_outside(&File::new("fuzz/frame.rs", TEXT)), []);
    }
}
