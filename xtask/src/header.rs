//! `cargo xtask header`: generates the C headers with cbindgen from the exported functions of the libraries.

use crate::generated::{self, Generated};
use crate::project::{Project, output};
use crate::stop::{NotPassed, Stop, untested};
use crate::tools::Tool;

const NAME: &str = "header";
/// Another version may format the same declarations differently.
const CBINDGEN: Tool = Tool { name: "cbindgen", version: "0.29.4" };

/// Configuration, source and header, below the root of the workspace.
const HEADERS: [[&str; 3]; 2] = [
    ["crates/client/cbindgen.toml", "crates/client/src/exports.rs", "crates/client/include/ttmon.h"],
    ["crates/monitor/cbindgen.toml", "crates/monitor/src/exports.rs", "crates/monitor/include/ttmon_monitor.h"],
];

pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Stop> {
    generated::run(project, NAME, arguments, || headers(project))
}

/// The stage `header`. Without cbindgen it is skipped.
pub(crate) fn check(project: &Project) -> Result<(), NotPassed> {
    CBINDGEN.have(project).map_err(untested("the C headers were not compared"))?;
    Ok(generated::check(project, NAME, &headers(project)?)?)
}

fn headers(project: &Project) -> Result<Vec<Generated>, String> {
    let cbindgen = CBINDGEN.have(project)?;
    // Its many warnings are about items that are not exported.
    let text = |config, source| output(&mut project.command(&cbindgen, &["--quiet", "--config", config, source]));
    HEADERS.into_iter().map(|[config, source, path]| Ok((path, text(config, source)?))).collect()
}
