//! All supported interpreters of this machine, in their usual form and in unusual ones.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use ttmon_testing::pythons::{Installed, installed, print};

/// The library among the examples of this build.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(Path::parent).expect("target/PROFILE/deps").join("examples/libprobe.so")
}

fn known() -> impl Iterator<Item = Installed> {
    installed().into_iter().filter(Installed::is_known)
}

/// Runs a command that must succeed, and returns its output.
#[track_caller]
fn succeeds(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {status}\n{text}");
    text
}

fn compare_frames(python: &mut Command) -> String {
    succeeds(python.arg("-X").arg("faulthandler").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/frames.py")).arg(library()))
}

#[test]
fn frames_are_those_that_python_gives() {
    for python in known() {
        println!("{}", compare_frames(&mut Command::new(&python.path)));
    }
}

#[test]
fn an_unknown_interpreter_is_said() {
    let script = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).pystack_probe(None, 0))";
    for python in installed().iter().filter(|python| !python.is_known()) {
        let text = succeeds(Command::new(&python.path).args(["-c", script]).arg(library()));
        assert_eq!(text.trim(), "-2", "{python:?}");
    }
}

/// Returns a build variable of an interpreter.
fn variable(python: &Installed, name: &str) -> String {
    print(&python.path, &format!("__import__('sysconfig').get_config_var('{name}') or ''")).unwrap()
}

fn has_tool(name: &str) -> bool {
    let is_there = Command::new(name).arg("--version").output().is_ok();
    if !is_there {
        eprintln!("SKIPPED: no {name} on this machine");
    }
    is_there
}

/// `strip` leaves only the dynamic symbols, which are sufficient.
#[test]
fn a_stripped_python_has_lines() {
    if !has_tool("strip") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for python in known() {
        let variable = |name| variable(&python, name);
        if variable("Py_ENABLE_SHARED") != "1" {
            continue;
        }
        let name = variable("INSTSONAME");
        let stripped = folder.path().join(&name);
        succeeds(Command::new("strip").arg("--strip-all").arg("-o").arg(&stripped).arg(Path::new(&variable("LIBDIR")).join(&name)));
        let preloaded = || {
            let mut command = Command::new(&python.path);
            command.env("LD_PRELOAD", &stripped);
            command
        };
        let maps = succeeds(preloaded().arg("-c").arg("print(open('/proc/self/maps').read())"));
        let used: Vec<&str> = maps.lines().filter(|line| line.contains("libpython3.")).collect();
        assert!(!used.is_empty() && used.iter().all(|line| line.ends_with(stripped.to_str().unwrap())), "{used:?}");
        println!("stripped {}", compare_frames(&mut preloaded()));
    }
}

/// Compiles the program that embeds Python; `None` if this Python cannot be linked.
fn embedded(python: &Installed, is_static: bool, into: &Path) -> Option<Command> {
    let variable = |name| variable(python, name);
    let (headers, name) = (PathBuf::from(variable("INCLUDEPY")), variable("LDVERSION"));
    let [shared, archive] =
        [("LIBDIR", "so"), ("LIBPL", "a")].map(|(folder, end)| Path::new(&variable(folder)).join(format!("libpython{name}.{end}")));
    let library = if is_static { archive } else { shared };
    if !headers.join("Python.h").exists() || !library.exists() {
        eprintln!("SKIPPED: Python {name} has no headers, or no {}", library.display());
        return None;
    }
    let program = into.join(format!("embedded{name}-{is_static}"));
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-isystem"]).arg(headers).arg("-o").arg(&program);
    compiler.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/embedded.c")).arg(&library);
    compiler.arg(format!("-Wl,-rpath,{}", library.parent().unwrap().display())).args(["-lm", "-ldl", "-lutil"]);
    if is_static {
        // No symbol remains visible.
        compiler.args(["-no-pie", "-Wl,--no-export-dynamic", "-s"]);
        compiler.args(["LIBS", "SYSLIBS", "MODLIBS"].map(variable).join(" ").split_whitespace());
    }
    succeeds(&mut compiler);
    let mut command = Command::new(program);
    command.arg(self::library()).arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/embedded.py"));
    command.env("PYTHONHOME", print(&python.path, "__import__('sys').base_prefix").unwrap()).env("PYTHONDONTWRITEBYTECODE", "1");
    Some(command)
}

/// The cases of embedded.c, and the owner of the frames that they find. Since 3.12 a sub-interpreter has its own cell in a thread. Before
/// that, it is the cell of the first interpreter in the thread.
fn cases(minor: u32, is_static: bool) -> BTreeSet<String> {
    let by_version = |old: &'static str| if minor < 12 { old } else { "own" };
    let mut cases = vec![
        ("before the start", "none"),
        ("no frames", "none"),
        ("a thread without Python", "none"),
        ("after the end", "none"),
        ("plain", "own"),
        ("plain again", "own"),
        ("a thread", "own"),
        ("a sub-interpreter", by_version("none")),
        ("a sub-interpreter in a thread", by_version("none")),
    ];
    if !is_static {
        cases.push(("run_string", by_version("outer")));
    }
    if minor >= 12 {
        cases.extend([("a sub-interpreter with its own lock", "own"), ("a sub-interpreter with its own lock in a thread", "own")]);
    }
    cases.into_iter().map(|(case, frames)| format!("{case}: {}", if is_static { "none" } else { frames })).collect()
}

fn compare_embedded(is_static: bool) {
    if !has_tool("cc") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for python in known() {
        let Some(mut command) = embedded(&python, is_static, folder.path()) else { continue };
        let found: BTreeSet<String> = succeeds(&mut command).lines().map(str::to_owned).collect();
        assert_eq!(found, cases(python.version.1, is_static), "{python:?}");
    }
}

/// Frames belong to the interpreter itself (`own`), to the one around a sub-interpreter (`outer`), or are missing (`none`). They never
/// belong to any other.
#[test]
fn an_embedded_python_and_its_sub_interpreters_are_walked() {
    compare_embedded(false);
}

/// A Python that is linked into a program and stripped cannot be found, so there are no lines.
#[test]
fn a_static_python_without_symbols_has_no_lines() {
    compare_embedded(true);
}
