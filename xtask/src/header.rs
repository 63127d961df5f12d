//! `cargo xtask header`: generates the C headers with cbindgen from the exported functions of the libraries.

use crate::files;
use crate::project::{Project, output};
use crate::stop::{NotPassed, Stop, has_flag, untested};
use crate::tools::Tool;

const NAME: &str = "header";
/// Another version may format the same declarations differently.
const CBINDGEN: Tool = Tool { name: "cbindgen", version: "0.29.4" };

/// Configuration, source and header, below the root of the workspace.
const HEADERS: [[&str; 3]; 2] = [
    ["crates/in-program/client/cbindgen.toml", "crates/in-program/client/src/exports.rs", "crates/in-program/client/include/ttmon.h"],
    [
        "crates/in-monitor/monitor/cbindgen.toml",
        "crates/in-monitor/monitor/src/exports.rs",
        "crates/in-monitor/monitor/include/ttmon_monitor.h",
    ],
];

pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Stop> {
    if has_flag(NAME, "--check", arguments)? {
        return Ok(compare(project)?);
    }
    for (path, text) in headers(project)? {
        files::write(&project.root.join(path), &text)?;
    }
    Ok(())
}

/// The stage `header`. Without cbindgen it is skipped.
pub(crate) fn check(project: &Project) -> Result<(), NotPassed> {
    CBINDGEN.find_or_install(project).map_err(untested("the C headers were not compared"))?;
    Ok(compare(project)?)
}

fn compare(project: &Project) -> Result<(), String> {
    for (path, text) in headers(project)? {
        if files::read(&project.root.join(path))? != text {
            return Err(format!("{path} is stale; renew it with: cargo xtask {NAME}"));
        }
    }
    Ok(())
}

/// Returns the path and the text of each header.
fn headers(project: &Project) -> Result<Vec<(&'static str, String)>, String> {
    let cbindgen = CBINDGEN.find_or_install(project)?;
    // Its many warnings are about items that are not exported.
    let text = |config, source| output(&mut project.command(&cbindgen, &["--quiet", "--config", config, source]));
    HEADERS.into_iter().map(|[config, source, path]| Ok((path, text(config, source)?))).collect()
}
