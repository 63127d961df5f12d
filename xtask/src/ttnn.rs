//! `cargo xtask ttnn`: installs versions of ttnn, and runs the tests that compare ttmon with them (crates/in-monitor/ttmon/tests/ttnn).
//!
//! Each version is in a venv below the target directory, with a stand-in for its kernel compiler ([`compiler`]). Another venv has our
//! wheel, and uses the ttnn of the first one.

mod compiler;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::libs::{self, Profile};
use crate::project::{self, Project};
use crate::stop::Stop;
use crate::{files, package, tools};

pub(crate) const ARGUMENTS: &str = "[--all] [VERSION]... [-- ARGUMENT...]";

/// One version for each memory layout that the hook supports, from the oldest on.
pub(crate) const VERSIONS: &[&str] = &["0.69.0", "0.73.1", "0.77.0", "0.79.0", "0.81.1"];
/// The versions of the gate: the newest, and the last version whose buffers had no getters.
pub(crate) const PINNED: &[&str] = &["0.81.1", "0.77.0"];

/// The Python versions for which wheels of ttnn exist.
const PYTHONS: &[&str] = &["3.12", "3.10"];

/// A version of ttnn and the Python that has it.
pub(crate) type Installed = (String, PathBuf);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cases {
    /// Those of the gate.
    Ci,
    /// All, with those that need our wheel, which takes minutes to build.
    All,
}

pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Stop> {
    let at = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let (flags, versions): (Vec<&str>, Vec<&str>) = arguments[..at].iter().map(String::as_str).partition(|word| word.starts_with('-'));
    let (cases, versions) = match (flags.as_slice(), versions.as_slice()) {
        ([], []) => (Cases::Ci, PINNED),
        ([], versions) => (Cases::Ci, versions),
        (["--all"], []) => (Cases::All, VERSIONS),
        (["--all"], versions) => (Cases::All, versions),
        _ => return Err(Stop::Usage(format!("ttnn wants {ARGUMENTS}"))),
    };
    let installed = install(project, versions)?;
    let mut command = tests(project, &installed, cases)?;
    Ok(project::run(command.args(arguments.iter().skip(at + 1)))?)
}

/// Installs these versions. The error explains why one is not available here.
pub(crate) fn install(project: &Project, versions: &[&str]) -> Result<Vec<Installed>, String> {
    versions.iter().map(|version| Ok(((*version).to_owned(), python(project, version)?))).collect()
}

/// Returns the tests of the installed versions, as a command that accepts more arguments of a test program.
pub(crate) fn tests(project: &Project, installed: &[Installed], cases: Cases) -> Result<Command, String> {
    libs::build(project, Profile::Debug)?;
    let mut command = project.tests(&["--test", "ttnn", "--"]);
    command.env("TTMON_TTNN_PYTHON", list(installed));
    if cases == Cases::All {
        let wheel = package::wheel::build(project)?;
        let with_wheel = |(version, python): &Installed| Ok((version.clone(), add_wheel(project, version, python, &wheel)?));
        let with_wheel: Vec<Installed> = installed.iter().map(with_wheel).collect::<Result<_, String>>()?;
        command.env("TTMON_TTNN_WHEEL_PYTHON", list(&with_wheel)).arg("--include-ignored");
    }
    Ok(command)
}

fn list(installed: &[Installed]) -> String {
    installed.iter().map(|(version, python)| format!("{version}={}", python.display())).collect::<Vec<_>>().join(":")
}

/// Returns a Python that has this version of ttnn and can open mock chips. It is installed once.
pub(crate) fn python(project: &Project, version: &str) -> Result<PathBuf, String> {
    if version.is_empty() || !version.chars().all(|character| character.is_ascii_digit() || character == '.') {
        return Err(format!("{version} is no version of ttnn, such as 0.81.1"));
    }
    let folder = project.target()?.join("ttnn").join(version);
    tools::python_with(project, &find_python()?, &folder, &[&format!("ttnn=={version}")])?;
    let python = folder.join("bin/python");
    let package = packages(project, &python)?.join("ttnn");
    compiler::install(&package).map_err(files::at(&package))?;
    Ok(python)
}

/// Returns the Python of a new venv with our wheel alone, which finds ttnn in the folder of another Python. The venv is created each time,
/// because the installation is tested.
fn add_wheel(project: &Project, version: &str, python: &Path, wheel: &Path) -> Result<PathBuf, String> {
    let folder = project.target()?.join("ttnn").join(format!("{version}-wheel"));
    files::fresh(&folder)?;
    let own = folder.join("bin/python");
    project::run(project.command(python, &["-m", "venv", "--without-pip"]).arg(&folder))?;
    let mut install = project.command(python, &["-m", "pip", "--python"]);
    install.arg(&own).args(["install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]).arg(wheel);
    project::run(&mut install)?;
    files::write(&packages(project, &own)?.join("ttnn.pth"), format!("{}\n", packages(project, python)?.display()))?;
    Ok(own)
}

/// Returns the folder of a Python's installed packages.
fn packages(project: &Project, python: &Path) -> Result<PathBuf, String> {
    let text = project::output(&mut project.command(python, &["-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"]))?;
    Ok(text.trim().into())
}

/// Finds a Python for which ttnn has wheels: in PATH, or among pyenv's.
fn find_python() -> Result<PathBuf, String> {
    let pyenv = env::var_os("PYENV_ROOT").map(PathBuf::from).or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".pyenv")));
    let entries = pyenv.and_then(|pyenv| fs::read_dir(pyenv.join("versions")).ok()).into_iter().flatten().flatten();
    let in_path = PYTHONS.iter().map(|version| format!("python{version}").into()).chain([PathBuf::from("python3")]);
    let candidates: Vec<PathBuf> = in_path.chain(entries.map(|entry| entry.path().join("bin/python3"))).collect();
    // pyenv has shims for versions that it cannot run, so the program's answer decides.
    let is_version = |python: &Path, version: &str| {
        let mut ask = Command::new(python);
        ask.args(["-c", "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"]).stdin(Stdio::null());
        ask.output().is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == version)
    };
    let found = PYTHONS.iter().find_map(|version| candidates.iter().find(|python| is_version(python, version)));
    found.cloned().ok_or_else(|| format!("no Python {} with venv in PATH or below ~/.pyenv/versions", PYTHONS.join(" or ")))
}
