//! Programs of other projects that the checks run, built once for each version.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::files;
use crate::project::{self, Project};

/// File in which `cargo install` lists the installed programs.
const CARGO_LIST: &str = ".crates.toml";

/// A program that `cargo install` builds, in the version whose output is known.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
}

impl Tool {
    /// Returns the path of the program, and installs it if needed. The error explains why it is not available here.
    pub(crate) fn find_or_install(&self, project: &Project) -> Result<PathBuf, String> {
        let Self { name, version } = self;
        // The path is the same for every checkout. Cargo derives the crate names of the workspace from the path of cargo-auditable, so
        // another path would change the released program.
        let tools = project::cache()?.join("tools");
        let program = tools.join("bin").join(name);
        let installed = fs::read_to_string(tools.join(CARGO_LIST)).unwrap_or_default();
        if program.exists() && is_listed(&installed, name, version) {
            return Ok(program);
        }
        eprintln!("xtask: building {name} {version} into {}, which takes minutes", tools.display());
        let mut install = project.cargo(&["install", name, "--locked", "--force", "--version", version, "--root"]);
        project::run(install.arg(&tools)).map_err(|error| format!("{name} {version} cannot be had: {error}"))?;
        Ok(program)
    }
}

/// Checks that a program exists. Root installs its Debian package if it is missing.
pub(crate) fn installed(project: &Project, program: &str, package: &str) -> Result<(), String> {
    let mut probe = project.command(program, &["--version"]);
    if probe.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok() {
        return Ok(());
    }
    eprintln!("xtask: installing Debian's package {package}");
    let apt = |arguments: &[&str]| project::run(project.command("apt-get", arguments).env("DEBIAN_FRONTEND", "noninteractive"));
    let install = ["--quiet", "--yes", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", "install", package];
    // A new machine has no lists of packages yet.
    let result = apt(&install).or_else(|_| apt(&["--quiet", "update"]).and_then(|()| apt(&install)));
    result.map_err(|error| format!("no {program} here: {error}; install {package} as root"))
}

/// Unpacks a Debian package below the target directory without installing it. Returns the folder that contains `usr`. The error explains
/// why it is not available here.
pub(crate) fn debian(project: &Project, package: &str) -> Result<PathBuf, String> {
    let folder = project.target()?.join("tools").join(package);
    once(&folder.join("unpacked"), "", || {
        eprintln!("xtask: fetching Debian's package {package} into {}", folder.display());
        files::fresh(&folder)?;
        let archive = download(project, package, &folder)?;
        project::run(project.command("dpkg-deb", &["-x"]).arg(&archive).arg(&folder))
    })?;
    Ok(folder)
}

/// Installs packages of PyPI into a separate environment in this folder.
pub(crate) fn python(project: &Project, folder: &Path, packages: &[&str]) -> Result<(), String> {
    python_with(project, Path::new("python3"), folder, packages)
}

/// As [`python`], with this Python.
pub(crate) fn python_with(project: &Project, python: &Path, folder: &Path, packages: &[&str]) -> Result<(), String> {
    let packages = packages.join(" ");
    once(&folder.join("complete"), &packages, || {
        eprintln!("xtask: installing {packages} into {}", folder.display());
        project::run(project.command(python, &["-m", "venv", "--clear"]).arg(folder))?;
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        project::run(project.command(folder.join("bin/python"), &install).args(packages.split(' ')).stdout(Stdio::null()))
    })
}

/// Installs something, unless the file `mark` already has this content.
pub(crate) fn once(mark: &Path, content: &str, install: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    if fs::read_to_string(mark).is_ok_and(|written| written == content) {
        return Ok(());
    }
    install()?;
    // Written last, so that an interrupted installation is repeated.
    files::write(mark, content)
}

fn download(project: &Project, package: &str, folder: &Path) -> Result<PathBuf, String> {
    let mut fetch = project.command("apt-get", &["--quiet", "download", package]);
    fetch.current_dir(folder);
    // A new machine has no lists of packages yet.
    if project::run(&mut fetch).is_err() {
        project::run(&mut project.command("apt-get", &["--quiet", "update"]))?;
        project::run(&mut fetch)?;
    }
    let files = fs::read_dir(folder).map_err(files::at(folder))?;
    let mut archives = files.flatten().map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|ending| ending == "deb"));
    archives.next().ok_or_else(|| format!("apt-get left no package {package} behind"))
}

/// Whether cargo's list of installed programs has this one. Not every program prints its version.
fn is_listed(list: &str, name: &str, version: &str) -> bool {
    list.lines().any(|line| line.starts_with(&format!("\"{name} {version} ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_a_whole_word() {
        let list = "[v1]\n\"cargo-fuzz 0.13.1 (registry+https://github.com/rust-lang/crates.io-index)\" = [\"cargo-fuzz\"]\n";
        assert!(is_listed(list, "cargo-fuzz", "0.13.1"));
        assert!(!is_listed(list, "cargo-fuzz", "0.13.10") && !is_listed(list, "cargo-fuzz", "0.13"));
        assert!(!is_listed("", "cargo-fuzz", "0.13.1"));
    }
}
