//! The Python interpreters of this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

/// An installed Python that runs.
#[derive(Debug)]
pub struct Installed {
    /// The program.
    pub path: PathBuf,
    /// Major and minor.
    pub version: (u32, u32),
}

impl Installed {
    /// Whether its frames are supported.
    #[must_use]
    pub fn is_known(&self) -> bool {
        matches!(self.version, (3, 10..=14))
    }
}

/// Returns those of pyenv, the one of the system, and those in `TTMON_TEST_PYTHONS` (a list like PATH).
#[must_use]
pub fn installed() -> Vec<Installed> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let versions = std::fs::read_dir(home.join(".pyenv/versions")).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions.map(|version| version.path().join("bin/python3")).filter(|path| path.is_file()).collect();
    found.push(PathBuf::from("/usr/bin/python3"));
    found.extend(std::env::var_os("TTMON_TEST_PYTHONS").iter().flat_map(std::env::split_paths));
    found.sort();
    found.into_iter().filter_map(|path| Some(Installed { version: version(&path)?, path })).collect()
}

fn version(python: &Path) -> Option<(u32, u32)> {
    let text = print(python, "'%d %d' % __import__('sys').version_info[:2]")?;
    let (major, minor) = text.split_once(' ')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Returns the output of Python for an expression; `None` if it fails.
#[must_use]
pub fn print(python: &Path, expression: &str) -> Option<String> {
    let output = Command::new(python).arg("-c").arg(format!("print({expression}, end='')")).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
