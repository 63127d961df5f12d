//! Tests the C ABI from C, C++ and Python. Each program must print the same values as `ttmon`.

use std::path::Path;
use std::process::Command;

use ttmon_collect::LedgerScope;

use crate::lines::lines;
use crate::machine::{Made, snapshot, track};
use crate::tools::{build, has, libraries, program, python_prints, succeeds};

/// Creates a machine with a tracked, a reported and an untracked process. Two of them are on a card with a remote chip.
fn full_machine() -> Made {
    track();
    Made::new("n300,p150,procs=3")
}

#[test]
fn c_and_cpp_see_what_ttmon_sees() {
    if !has("cc") || !has("c++") {
        return;
    }
    let made = full_machine();
    let folder = tempfile::tempdir().unwrap();
    let expected = lines(&snapshot(made.path(), LedgerScope::Holders), &made.pids());
    assert!(expected.contains("source=ledger") && expected.contains("source=shm") && expected.contains("remote_chip"), "{expected}");
    for source in ["figures.c", "figures.cpp"] {
        let output = succeeds(Command::new(program(&folder, source)).arg(made.path()).args(made.pids().iter().map(u32::to_string)));
        assert_eq!(output, expected, "{source}");
    }
}

#[test]
fn the_library_does_not_disturb_its_program() {
    if !has("cc") {
        return;
    }
    let made = full_machine();
    let folder = tempfile::tempdir().unwrap();
    succeeds(Command::new(program(&folder, "manners.c")).env("TREE", made.path()));
}

#[test]
fn headers_compile_alone() {
    if !has("cc") || !has("c++") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let check = |name: &str, text: &str, more: &[&str]| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        build(&folder, &path, more);
    };
    let c = "#include \"ttmon_monitor.h\"\n#include \"ttmon_monitor.h\"\nint main(void) { return TTMON_MONITOR_OK; }\n";
    check("alone.c", c, &[]);
    check("alone99.c", c, &["-std=c99"]);
    let cpp = "#include \"ttmon_monitor.hpp\"\n#include \"ttmon_monitor.hpp\"\nint main() { return 0; }\n";
    check("alone.cpp", cpp, &["-Wshadow"]);
    check("alone20.cpp", cpp, &["-std=c++20"]);
    // Both headers can be included together, although their names have a common prefix.
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../in-program/client/include");
    let both = "#include \"ttmon.hpp\"\n#include \"ttmon_monitor.hpp\"\nint main() { return TTMON_KIND_TRACE - 3; }\n";
    check("both.cpp", both, &["-I", client.to_str().unwrap(), "-fsyntax-only"]);
}

#[test]
fn the_library_exports_its_functions_and_nothing_else() {
    if !has("nm") {
        return;
    }
    let listed = succeeds(Command::new("nm").args(["-D", "--defined-only"]).arg(libraries().join("libttmon_monitor.so")));
    let header = include_str!("../../include/ttmon_monitor.h");
    let exported: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    for name in &exported {
        let is_ours = name.starts_with("ttmon_monitor_") && header.contains(&format!("{name}("));
        assert!(is_ours || *name == "rust_eh_personality", "{name}");
    }
    assert_eq!(exported.iter().filter(|name| name.starts_with("ttmon_monitor_")).count(), 17);
}

/// The library has a soname, so a program that was linked with it by path finds it elsewhere. It is not unloaded, because its threads may
/// still be ending.
#[test]
fn the_library_has_a_name_and_is_not_unloaded() {
    if !has("readelf") {
        return;
    }
    let output = succeeds(Command::new("readelf").env("LC_ALL", "C").arg("--dynamic").arg(libraries().join("libttmon_monitor.so")));
    assert!(output.contains("Library soname: [libttmon_monitor.so]") && output.contains("NODELETE"), "{output}");
}

#[test]
fn python_sees_what_ttmon_sees() {
    let made = full_machine();
    python_prints(made.path(), &made.pids(), &lines(&snapshot(made.path(), LedgerScope::Holders), &made.pids()));
}
