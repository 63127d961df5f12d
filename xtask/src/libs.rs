//! `cargo xtask libs`: all libraries in one folder, beside the program: client, hook, stub, monitor.
//!
//! The stub is no member of the workspace, since it has no unwinding: it is built apart, always optimised, and put beside them.

use std::fs;
use std::path::PathBuf;

use crate::project::{self, Project};
use crate::stop::Stop;

const STUB: &str = "libttmon_stub.so";
const STUB_MANIFEST: &str = "crates/stub/Cargo.toml";
const PACKAGES: [&str; 3] = ["ttmon-client", "ttmon-hook", "ttmon-monitor"];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    Debug,
    Release,
}

pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Stop> {
    let profile = match arguments {
        [] => Profile::Debug,
        [flag] if flag == "--release" => Profile::Release,
        _ => return Err(Stop::Usage(format!("libs takes --release or nothing, not {}", arguments.join(" ")))),
    };
    println!("{}", build(project, profile)?.display());
    Ok(())
}

/// The folder that has them all.
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
        // A crate that is a Rust library too is not optimised with what it uses, and an event takes a tenth longer; so each is built once
        // more as what is loaded alone.
        for package in PACKAGES {
            cargo(&["rustc", "--quiet", "--release", "--package", package, "--crate-type", "cdylib"])?;
        }
    }
    let target = project.metadata()?.target;
    let folder = target.join(if profile == Profile::Release { "release" } else { "debug" });
    stub(project, &target.join("stub"), &folder)?;
    Ok(folder)
}

fn stub(project: &Project, target: &std::path::Path, folder: &std::path::Path) -> Result<(), String> {
    let mut build = project.cargo(&["build", "--quiet", "--release", "--locked", "--manifest-path", STUB_MANIFEST, "--target-dir"]);
    project::run(build.arg(target))?;
    let (from, to) = (target.join("release").join(STUB), folder.join(STUB));
    // Not in place: a program may have it mapped.
    let new = folder.join(format!("{STUB}.new"));
    let copied = fs::copy(&from, &new).and_then(|_| fs::rename(&new, &to));
    copied.map_err(|error| format!("{}: {error}", to.display()))
}
