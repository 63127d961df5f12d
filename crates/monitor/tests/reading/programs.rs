//! The C ABI from C, C++ and Python: each prints what it sees, and that must be what `ttmon` itself would say.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use ttmon_source::Reach;

use crate::lines::lines;
use crate::machine::{Made, snapshot, track};

const STRICT: [&str; 6] = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-pthread"];

/// Cargo builds the library in all its forms beside the test's own program.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap().to_owned();
    assert!(folder.join("libttmon_monitor.so").exists(), "no libttmon_monitor.so in {}", folder.display());
    folder
}

/// False, loudly, where there is no such program.
fn has(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        eprintln!("SKIPPED: no {program} on this machine, so what it is needed for was not tested");
    }
    is_there
}

fn build(folder: &TempDir, source: &Path, more: &[&str]) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let is_c = source.extension().is_some_and(|extension| extension == "c");
    let built = folder.path().join(format!("{}.program", source.file_name().unwrap().display()));
    let mut compiler = Command::new(if is_c { "cc" } else { "c++" });
    compiler.args(STRICT).args(if is_c { ["-std=c11", "-D_GNU_SOURCE"] } else { ["-std=c++17", "-D_GNU_SOURCE"] });
    compiler.arg("-I").arg(here.join("include")).arg("-o").arg(&built).arg(source).args(more);
    let libraries = libraries();
    compiler.arg("-L").arg(&libraries).arg(format!("-Wl,-rpath,{}", libraries.display())).arg("-lttmon_monitor");
    let output = compiler.output().unwrap();
    assert!(output.status.success(), "{compiler:?}\n{}", String::from_utf8_lossy(&output.stderr));
    built
}

fn program(folder: &TempDir, name: &str) -> PathBuf {
    build(folder, &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name), &[])
}

#[track_caller]
fn succeeds(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let said = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {status}\n{said}");
    assert_eq!(said, "", "a guest is silent");
    String::from_utf8(stdout).unwrap()
}

/// A machine with a tracked, a reported and an untracked process, two of them on a card with a remote chip.
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
    let expected = lines(&snapshot(made.path(), Reach::Holders), &made.pids());
    assert!(expected.contains("source=ledger") && expected.contains("source=shm") && expected.contains("remote_chip"), "{expected}");
    for source in ["figures.c", "figures.cpp"] {
        let said = succeeds(Command::new(program(&folder, source)).arg(made.path()).args(made.pids().iter().map(u32::to_string)));
        assert_eq!(said, expected, "{source}");
    }
}

#[test]
fn a_guests_manners() {
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
    // Beside the other library's header, whose names begin the same.
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("../client/include");
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
    assert_eq!(exported.iter().filter(|name| name.starts_with("ttmon_monitor_")).count(), 16);
}

/// A name, so that who is linked with it by path finds it elsewhere; and it is not unloaded while its threads may be on their way.
#[test]
fn the_library_has_a_name_and_is_not_unloaded() {
    if !has("readelf") {
        return;
    }
    let said = succeeds(Command::new("readelf").env("LC_ALL", "C").arg("--dynamic").arg(libraries().join("libttmon_monitor.so")));
    assert!(said.contains("Library soname: [libttmon_monitor.so]") && said.contains("NODELETE"), "{said}");
}

#[test]
fn python_sees_what_ttmon_sees() {
    if !has("python3") {
        return;
    }
    let made = full_machine();
    let expected = lines(&snapshot(made.path(), Reach::Holders), &made.pids());
    let file = made.path().join("expected");
    std::fs::write(&file, expected).unwrap();
    let pids: Vec<String> = made.pids().iter().map(u32::to_string).collect();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/tests");
    let mut python = Command::new("python3");
    python.args(["-B", "-m", "unittest", "discover", "-p", "test_monitor.py", "-s"]).arg(tests);
    python.env("TTMON_LIB", libraries()).env("TTMON_TEST_TREE", made.path()).env("TTMON_TEST_EXPECTED", file);
    let output = python.env("TTMON_TEST_PIDS", pids.join(" ")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("skipped"), "{said}");
}
