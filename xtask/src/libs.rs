//! `cargo xtask libs`: builds all libraries into one folder, beside the program: client, hook, stub, monitor.
//!
//! The stub is not a member of the workspace, because it has no unwinding. It is built separately, always optimised, and copied beside
//! them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::files;
use crate::project::{self, Project};
use crate::stop::{Stop, has_flag};

const STUB: &str = "libttmon_stub.so";
pub(crate) const STUB_MANIFEST: &str = "crates/in-program/stub/Cargo.toml";
const PACKAGES: [&str; 3] = ["ttmon-client", "ttmon-hook", "ttmon-monitor"];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    Debug,
    Release,
}

pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Stop> {
    let is_release = has_flag("libs", "--release", arguments)?;
    println!("{}", build(project, if is_release { Profile::Release } else { Profile::Debug })?.display());
    Ok(())
}

pub(crate) fn build(project: &Project, profile: Profile) -> Result<PathBuf, String> {
    let mut arguments = vec!["build", "--quiet"];
    if profile == Profile::Release {
        arguments.push("--release");
    }
    for package in PACKAGES {
        arguments.extend(["--package", package]);
    }
    let cargo = |arguments: &[&str]| project::run(&mut project.cargo(arguments));
    cargo(&arguments)?;
    if profile == Profile::Release {
        // A crate that is also a Rust library is not optimised together with its dependencies, and an event takes 10 % longer. So each
        // crate is built again as a dynamic library only.
        for package in PACKAGES {
            cargo(&["rustc", "--quiet", "--release", "--package", package, "--crate-type", "cdylib"])?;
        }
    }
    let target = project.target()?;
    let folder = target.join(if profile == Profile::Release { "release" } else { "debug" });
    stub(project, &target.join("stub"), &folder)?;
    Ok(folder)
}

fn stub(project: &Project, target: &Path, folder: &Path) -> Result<(), String> {
    let mut build = project.cargo(&["build", "--quiet", "--release", "--locked", "--manifest-path", STUB_MANIFEST, "--target-dir"]);
    project::run(build.arg(target))?;
    let (from, to) = (target.join("release").join(STUB), folder.join(STUB));
    // Write a new file, because a program may have the old one mapped.
    let new = folder.join(format!("{STUB}.new"));
    files::copy(&from, &new)?;
    fs::rename(&new, &to).map_err(files::at(&to))
}
