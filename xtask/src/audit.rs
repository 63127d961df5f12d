//! `cargo xtask audit`: what we hired from outside, held against deny.toml.
//!
//! Apart from `ci`, because the tool takes minutes to build.

use crate::project::{self, Project};
use crate::stop::{Stop, no_arguments};

/// The version whose answers we know; another may ask for another form of deny.toml.
const VERSION: &str = "0.20.2";

pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Stop> {
    no_arguments(arguments)?;
    let tools = project.metadata()?.target.join("tools");
    let deny = tools.join("bin/cargo-deny");
    if !deny.exists() {
        eprintln!("audit: building cargo-deny {VERSION} into {}, which takes minutes", tools.display());
        let mut install = project.cargo(&["install", "cargo-deny", "--locked", "--version", VERSION, "--root"]);
        project::run(install.arg(&tools))?;
    }
    // Offline cargo-deny can only look at sources that are already here.
    project::run(&mut project.cargo(&["fetch", "--locked"]))?;
    let checked = project::run(&mut project.command(&deny, &["--offline", "check", "licenses", "bans", "sources"]));
    eprintln!("audit: NOT CHECKED: security advisories; their database needs the network: cargo deny check advisories");
    Ok(checked?)
}
