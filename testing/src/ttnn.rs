//! The versions of ttnn that `cargo xtask ttnn` installed, and programs of them on mock chips.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The variable with the Python of each version.
pub const PYTHON: &str = "TTMON_TTNN_PYTHON";
/// The variable with the Pythons that have our wheel.
const WHEEL_PYTHON: &str = "TTMON_TTNN_WHEEL_PYTHON";

/// Older versions crash on mock chips with fast dispatch, tracked or not.
const FAST_DISPATCH_SINCE: u32 = 77;

/// An installed version of ttnn.
#[derive(Debug)]
pub struct Version {
    /// Such as 0.81.1.
    pub name: String,
    /// The Python that has it.
    pub python: PathBuf,
    /// A Python that has our wheel, and uses the same ttnn.
    pub wheel_python: Option<PathBuf>,
}

/// Returns the installed versions, from the variables that `cargo xtask ttnn` sets: lists of `VERSION=PATH`, separated by colons.
#[must_use]
pub fn versions() -> Vec<Version> {
    let with_wheel = pythons(WHEEL_PYTHON);
    let wheel_python = |name: &str| with_wheel.iter().find(|(version, _)| version == name).map(|(_, python)| python.clone());
    pythons(PYTHON).into_iter().map(|(name, python)| Version { wheel_python: wheel_python(&name), name, python }).collect()
}

fn pythons(variable: &str) -> Vec<(String, PathBuf)> {
    let list = env::var(variable).unwrap_or_default();
    let entry = |entry: &str| {
        let (version, python) = entry.split_once('=').unwrap_or_else(|| panic!("{variable} has {entry}, which is not VERSION=PATH"));
        (version.to_owned(), python.into())
    };
    list.split(':').filter(|text| !text.is_empty()).map(entry).collect()
}

impl Version {
    /// Returns the minor version: 81 for 0.81.1.
    #[must_use]
    pub fn minor(&self) -> u32 {
        self.name.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or_else(|| panic!("{} is no version of ttnn", self.name))
    }

    /// Makes the command run on mock chips in a folder of its own. It prints little, and has no variables of the caller that would change
    /// its behaviour.
    pub fn on_mock_chips(&self, command: &mut Command, descriptor: &Path, folder: &Path) {
        command.current_dir(folder).stdin(Stdio::null());
        let foreign = |name: &str| ["TT_", "TTMON", "TTNN_", "PYTHON", "LD_PRELOAD", "OMPI_"].iter().any(|prefix| name.starts_with(prefix));
        for (name, _) in env::vars_os() {
            if name.to_str().is_some_and(foreign) {
                command.env_remove(name);
            }
        }
        // Compiled kernels stay beside this Python for the next run.
        let cache = self.python.parent().and_then(Path::parent).unwrap().join("cache");
        command.env("TT_METAL_MOCK_CLUSTER_DESC_PATH", descriptor).env("TT_METAL_CACHE", cache);
        command.env("TT_METAL_LOGS_PATH", folder).env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONWARNINGS", "ignore");
        if self.minor() < FAST_DISPATCH_SINCE {
            command.env("TT_METAL_SLOW_DISPATCH_MODE", "1");
        }
        command.envs([("TT_LOGGER_LEVEL", "fatal"), ("TT_METAL_LOGGER_LEVEL", "fatal"), ("LOGURU_LEVEL", "ERROR")]);
    }
}
