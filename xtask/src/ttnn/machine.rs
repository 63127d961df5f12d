//! A version of ttnn on mock chips, for other commands that run a program with it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use super::chips::Chips;
use super::environment::Environment;
use super::timeout;
use crate::project::Project;

pub(crate) struct Machine {
    environment: Environment,
    root: PathBuf,
}

impl Machine {
    /// Installs ttnn if needed. The error explains why it is not available here.
    pub(crate) fn have(project: &Project, version: &str) -> Result<Self, String> {
        Ok(Self { environment: Environment::have(project, version)?, root: project.root.clone() })
    }

    /// Returns a command for its Python, on mock chips, in this folder.
    pub(crate) fn command(&self, chips: &str, folder: &Path) -> Result<Command, String> {
        let chips = Chips::below(&self.root, chips)?;
        Ok(self.environment.command(&self.environment.python, &chips, folder))
    }

    /// Returns a file of this repository.
    pub(crate) fn script(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

/// Returns the output of a command, or an error if it exceeds the time limit.
pub(crate) fn output(command: &mut Command, limit: Duration) -> Result<Output, String> {
    timeout::output(command, limit)
}
