//! Programs of others that our checks run: built once, by version, below the target directory.

use std::path::PathBuf;

use crate::project::{self, Project};

/// A program that `cargo install` makes, of the version whose answers we know.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
}

impl Tool {
    /// The path of the program. An error says why it cannot be had here.
    pub(crate) fn have(&self, project: &Project) -> Result<PathBuf, String> {
        let Self { name, version } = self;
        let tools = project.metadata()?.target.join("tools");
        let program = tools.join("bin").join(name);
        let says = program.exists().then(|| project::output(&mut project.command(&program, &["--version"])));
        if says.is_some_and(|says| says.is_ok_and(|says| is_version(&says, version))) {
            return Ok(program);
        }
        eprintln!("xtask: building {name} {version} into {}, which takes minutes", tools.display());
        let mut install = project.cargo(&["install", name, "--locked", "--force", "--version", version, "--root"]);
        project::run(install.arg(&tools)).map_err(|error| format!("{name} {version} cannot be had: {error}"))?;
        Ok(program)
    }
}

/// Whether a program that says this of itself, such as `cbindgen 0.29.4`, is the version.
fn is_version(says: &str, version: &str) -> bool {
    says.split_whitespace().any(|word| word == version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_a_whole_word() {
        assert!(is_version("cargo-fuzz 0.13.1\n", "0.13.1"));
        assert!(!is_version("cargo-fuzz 0.13.10\n", "0.13.1"));
        assert!(!is_version("", "0.13.1"));
    }
}
