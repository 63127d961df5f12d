//! Every interpreter of this machine that is known, and what is said of others.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Interpreters: those of pyenv, the one of the system, and those that `TTMON_TEST_PYTHONS` names (a list like PATH).
fn interpreters() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let versions = std::fs::read_dir(home.join(".pyenv/versions")).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions.map(|version| version.path().join("bin/python3")).filter(|path| path.is_file()).collect();
    found.push(PathBuf::from("/usr/bin/python3"));
    found.extend(std::env::var_os("TTMON_TEST_PYTHONS").iter().flat_map(std::env::split_paths));
    found.sort();
    found
}

/// Beside the examples of this build.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let examples = test.parent().and_then(Path::parent).expect("target/PROFILE/deps").join("examples");
    examples.join("libprobe.so")
}

fn version(python: &Path) -> Option<(u32, u32)> {
    let output = Command::new(python).args(["-c", "import sys; print(sys.version_info[0], sys.version_info[1])"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().split_once(' ')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[test]
fn frames_are_those_that_python_gives() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/frames.py");
    let mut tried = 0;
    for python in interpreters() {
        let Some((3, 10..=14)) = version(&python) else { continue };
        let mut command = Command::new(&python);
        let output = command.arg("-X").arg("faulthandler").arg(script).arg(library()).stdin(Stdio::null()).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {}\n{said}", python.display(), output.status);
        println!("{said}");
        tried += 1;
    }
    println!("{tried} interpreters");
}

#[test]
fn an_unknown_interpreter_is_said() {
    let script = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).pystack_probe(None, 0))";
    for python in interpreters() {
        if matches!(version(&python), None | Some((3, 10..=14))) {
            continue;
        }
        let output = Command::new(&python).args(["-c", script]).arg(library()).output().expect("it runs");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "-2", "{}", python.display());
    }
}
