//! Starts other programs.

use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Returns a command without input, and without those variables of this environment that change what `ttmon` does.
#[must_use]
pub fn command(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TTMON")) {
        command.env_remove(name);
    }
    command
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
