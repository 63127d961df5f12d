//! A version of ttnn on mock chips, for other commands that run a program there.

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
    /// Installs it if it is not there. An error says why it cannot be had here.
    pub(crate) fn have(project: &Project, version: &str) -> Result<Self, String> {
        Ok(Self { environment: Environment::have(project, version)?, root: project.root.clone() })
    }

    /// Its Python, on mock chips, in that folder.
    pub(crate) fn command(&self, chips: &str, folder: &Path) -> Result<Command, String> {
        let chips = Chips::below(&self.root, chips)?;
        Ok(self.environment.command(&self.environment.python, &chips, folder))
    }

    /// A file of this repository.
    pub(crate) fn script(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

/// What a command printed, or an error if it was not done in time.
pub(crate) fn output(command: &mut Command, limit: Duration) -> Result<Output, String> {
    timeout::output(command, limit)
}
