//! A Python with a pinned ttnn that runs on mock chips: a venv below the target directory, created once.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::chips::Chips;
use super::{compiler, timeout};
use crate::project::Project;
use crate::{files, tools};

/// The Python versions for which wheels of ttnn exist.
const PYTHONS: &[&str] = &["3.12", "3.10"];
/// Time limit for the download of 670 MB. From a close mirror it takes half a minute.
const INSTALL_LIMIT: Duration = Duration::from_secs(420);
/// Older versions crash on mock chips with fast dispatch, tracked or not.
const FAST_DISPATCH_SINCE: u32 = 77;
const PROBE_LIMIT: Duration = Duration::from_secs(30);

pub(crate) struct Environment {
    pub(crate) version: String,
    pub(crate) python: PathBuf,
    pub(super) folder: PathBuf,
}

impl Environment {
    /// Returns the environment below the target directory, and creates it if needed. The error explains why it is not available here.
    pub(crate) fn have(project: &Project, version: &str) -> Result<Self, String> {
        if version.is_empty() || !version.chars().all(|character| character.is_ascii_digit() || character == '.') {
            return Err(format!("{version} is no version of ttnn, such as 0.81.1"));
        }
        let folder = project.target()?.join("ttnn").join(version);
        let this = Self { version: version.to_owned(), python: folder.join("bin/python"), folder };
        tools::once(&this.folder.join("ready"), version, || {
            this.make(project).inspect_err(|_| {
                // Remove an incomplete installation, which is large and useless.
                let _nothing = fs::remove_dir_all(&this.folder);
            })
        })?;
        Ok(this)
    }

    fn make(&self, project: &Project) -> Result<(), String> {
        let python = find_python()?;
        eprintln!("xtask: ttnn {} with {} into {}", self.version, python.display(), self.folder.display());
        files::fresh(&self.folder)?;
        let mut venv = project.command(&python, &["-m", "venv"]);
        step(venv.arg(&self.folder))?;
        let wheel = format!("ttnn=={}", self.version);
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--timeout", "60", &wheel];
        step(&mut project.command(&self.python, &pip)).map_err(|why| format!("ttnn {} cannot be installed: {why}", self.version))?;
        let package = packages(project, &self.python)?.join("ttnn");
        compiler::install(&package).map_err(files::at(&package))
    }

    /// Whether mock chips open with fast dispatch, as real chips do.
    pub(super) fn is_fast(&self) -> bool {
        self.minor() >= FAST_DISPATCH_SINCE
    }

    /// Returns the minor version: 81 for 0.81.1.
    pub(super) fn minor(&self) -> u32 {
        self.version.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or(0)
    }

    /// Returns a command for this Python, or for one that uses its ttnn, in a separate folder on mock chips. It prints little, and has no
    /// variables of the caller that would change its behaviour.
    pub(crate) fn command(&self, python: &Path, chips: &Chips, folder: &Path) -> Command {
        let mut command = Command::new(python);
        command.current_dir(folder).stdin(Stdio::null());
        let foreign = |name: &str| ["TT_", "TTMON", "TTNN_", "PYTHON", "LD_PRELOAD", "OMPI_"].iter().any(|prefix| name.starts_with(prefix));
        for (name, _) in env::vars_os() {
            if name.to_str().is_some_and(foreign) {
                command.env_remove(name);
            }
        }
        command.env("TT_METAL_MOCK_CLUSTER_DESC_PATH", &chips.path).env("TT_METAL_CACHE", self.folder.join("cache"));
        command.env("TT_METAL_LOGS_PATH", folder).env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONWARNINGS", "ignore");
        if !self.is_fast() {
            command.env("TT_METAL_SLOW_DISPATCH_MODE", "1");
        }
        command.envs([("TT_LOGGER_LEVEL", "fatal"), ("TT_METAL_LOGGER_LEVEL", "fatal"), ("LOGURU_LEVEL", "ERROR")]);
        command
    }
}

/// Returns the folder of a Python's installed packages.
pub(super) fn packages(project: &Project, python: &Path) -> Result<PathBuf, String> {
    let mut ask = project.command(python, &["-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"]);
    let said = timeout::output(&mut ask, PROBE_LIMIT)?;
    Ok(String::from_utf8_lossy(&said.stdout).trim().into())
}

fn step(command: &mut Command) -> Result<(), String> {
    let done = timeout::output(command, INSTALL_LIMIT)?;
    if done.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&done.stderr);
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it does not say why");
    Err(format!("{last} ({})", done.status))
}

/// Finds a Python for which ttnn has wheels: in PATH, or among pyenv's.
fn find_python() -> Result<PathBuf, String> {
    let mut tried = Vec::new();
    for candidate in candidates() {
        let mut ask = Command::new(&candidate);
        ask.args(["-c", "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"]).stdin(Stdio::null());
        // pyenv has shims for versions that it cannot run, so the program's answer decides.
        match timeout::output(&mut ask, PROBE_LIMIT) {
            Ok(said) if PYTHONS.contains(&String::from_utf8_lossy(&said.stdout).trim()) => return Ok(candidate),
            _ => tried.push(candidate.display().to_string()),
        }
    }
    Err(format!("no Python {} with venv: tried {}", PYTHONS.join(" or "), tried.join(", ")))
}

fn candidates() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = env::var_os("TTMON_TEST_PYTHON").map(PathBuf::from).into_iter().collect();
    let pyenv = env::var_os("PYENV_ROOT").map(PathBuf::from).or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".pyenv")));
    for version in PYTHONS {
        found.push(format!("python{version}").into());
        let Some(Ok(entries)) = pyenv.as_ref().map(|pyenv| fs::read_dir(pyenv.join("versions"))) else { continue };
        let installed = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("{version}.")));
        found.extend(installed.map(|entry| entry.path().join("bin/python3")));
    }
    found.push("python3".into());
    found
}
