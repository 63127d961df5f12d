//! `cargo xtask audit`: checks the dependencies against deny.toml.
//!
//! It is part of `nightly`, because the tool takes minutes to build.

use crate::project::{self, Project};
use crate::stop::{Stop, no_arguments};
use crate::tools::Tool;

/// Another version may need another format of deny.toml.
const DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2" };

pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Stop> {
    no_arguments(arguments)?;
    Ok(check(project)?)
}

pub(crate) fn check(project: &Project) -> Result<(), String> {
    let deny = DENY.find_or_install(project)?;
    // Offline, cargo-deny can only check sources that are already present.
    project::run(&mut project.cargo(&["fetch", "--locked"]))?;
    let checked = project::run(&mut project.command(&deny, &["--offline", "check", "licenses", "bans", "sources"]));
    let advised = if project::run(&mut project.command(&deny, &["fetch", "db"])).is_ok() {
        project::run(&mut project.command(&deny, &["--offline", "check", "advisories"]))
    } else {
        eprintln!("audit: NOT CHECKED: security advisories: their database is not reachable from here");
        Ok(())
    };
    checked.and(advised)
}
