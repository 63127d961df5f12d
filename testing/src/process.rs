//! Starts other programs.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Variables for outputs that are the same everywhere.
pub(crate) const VARIABLES: &[(&str, &str)] = &[("LANG", "C.UTF-8"), ("TZ", "UTC")];

/// Returns the variables of this environment that change what `ttmon` does.
pub(crate) fn removed_variables() -> impl Iterator<Item = OsString> {
    let known = ["NO_COLOR", "COLUMNS", "LC_ALL", "LC_CTYPE", "COLORTERM", "COLORFGBG"].map(OsString::from);
    std::env::vars_os().map(|(name, _)| name).filter(|name| name.to_string_lossy().starts_with("TTMON")).chain(known)
}

/// Returns a command without input, and with an environment in which outputs are the same everywhere.
#[must_use]
pub fn command(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    for name in removed_variables() {
        command.env_remove(name);
    }
    command.envs(VARIABLES.iter().copied());
    command
}

/// Copies a program into a directory, unless it is there, for users who may not reach it where it was built. Returns the copy's path.
#[must_use]
pub fn copied(program: &Path, directory: &Path) -> PathBuf {
    let copy = directory.join(program.file_name().unwrap());
    if copy.exists() {
        return copy;
    }
    // Another process writes the copy. If this one did, a process that another thread starts meanwhile would inherit the open file,
    // and the copy could not be executed.
    let status = Command::new("cp").arg(program).arg(&copy).status().unwrap();
    assert!(status.success(), "cp {} {}: {status}", program.display(), copy.display());
    copy
}

/// Adds a library under the name of the hook to a folder, for `TTMON_LIB`. It is one that every program loads anyway. So it can be
/// preloaded and does nothing, and no test has to build the hook.
pub fn add_hook(folder: &Path) {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mut loaded = maps.lines().filter_map(|line| Some(&line[line.find('/')?..]));
    let library = loaded.find(|path| path.contains("libc.so") || path.contains("/libc-")).expect("this program uses the C library");
    symlink(library, folder.join("libttmon_hook.so")).unwrap();
}

/// Tells the process of [`is_alone`] what it is.
const ALONE: &str = "TTMON_TESTING_ALONE";

/// Starts this program again for one of its tests, after a change of the command. Returns true in the new process, which has to run the
/// test, and false in the first one, where the test has passed.
///
/// For tests that need a process without other threads, other variables or other limits.
#[must_use]
pub fn is_alone(test: &str, change: impl FnOnce(&mut Command)) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact"]).env(ALONE, "1");
    change(&mut command);
    let output = command.output().unwrap();
    let [text, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success() && text.contains("test result: ok. 1 passed"), "{test}: {}\n{text}\n{errors}", output.status);
    false
}

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub struct KilledOnDrop(pub Child);

impl KilledOnDrop {
    /// Starts a program without input and output.
    #[must_use]
    pub fn spawn(command: &mut Command) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self(child.unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// Returns the process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
