//! Runs the tests of python/ttmon with this library and the interpreter of this machine.

use std::path::Path;
use std::process::Command;

#[test]
fn the_python_package_passes_its_tests() {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("SKIPPED: no python3 on this machine, so python/ttmon was not tested");
        return;
    }
    let test = std::env::current_exe().expect("a test has a path");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../python/tests");
    let mut python = Command::new("python3");
    python.args(["-B", "-m", "unittest", "discover", "-s"]).arg(folder);
    let output = python.env("TTMON_LIB", test.parent().expect("and a folder")).output().expect("python3 starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
