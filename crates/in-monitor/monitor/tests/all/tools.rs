//! Builds and runs programs in C, C++ and Python with the library.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

const STRICT: [&str; 6] = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-pthread"];

/// Returns the directory of the libraries, which Cargo builds next to the test program.
pub(crate) fn libraries() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap().to_owned();
    assert!(folder.join("libttmon_monitor.so").exists(), "no libttmon_monitor.so in {}", folder.display());
    folder
}

/// Returns whether a program is installed. Prints a message if it is not.
pub(crate) fn has(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        eprintln!("SKIPPED: no {program} on this machine, so what it is needed for was not tested");
    }
    is_there
}

pub(crate) fn build(folder: &TempDir, source: &Path, more: &[&str]) -> PathBuf {
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

pub(crate) fn program(folder: &TempDir, name: &str) -> PathBuf {
    build(folder, &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name), &[])
}

#[track_caller]
pub(crate) fn succeeds(command: &mut Command) -> String {
    // Cargo's own LD_LIBRARY_PATH may contain a directory with an older library.
    let Output { status, stdout, stderr } = command.env_remove("LD_LIBRARY_PATH").output().unwrap();
    let error_output = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {status}\n{error_output}");
    assert_eq!(error_output, "", "a library prints nothing");
    String::from_utf8(stdout).unwrap()
}

/// Runs python/tests/test_monitor.py on a machine.
pub(crate) fn python_prints(tree: &Path, pids: &[u32], expected: &str) {
    if !has("python3") {
        return;
    }
    let file = tree.join("expected");
    std::fs::write(&file, expected).unwrap();
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../python/tests");
    let mut python = Command::new("python3");
    python.args(["-B", "-m", "unittest", "discover", "-p", "test_monitor.py", "-s"]).arg(tests);
    python.env("TTMON_LIB", libraries()).env("TTMON_TEST_TREE", tree).env("TTMON_TEST_EXPECTED", file);
    let output = python.env("TTMON_TEST_PIDS", pids.join(" ")).output().unwrap();
    let error_output = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !error_output.contains("skipped"), "{error_output}");
}
