//! `cargo xtask header`: generates the C headers with cbindgen from the exported functions of the libraries.

use std::fs;
use std::path::Path;

use crate::docs::difference;
use crate::project::{Project, output};
use crate::stop::Stop;
use crate::tools::Tool;

/// Another version may format the same declarations differently.
pub(crate) const CBINDGEN: Tool = Tool { name: "cbindgen", version: "0.29.4" };

/// A header. All paths are relative to the root of the workspace.
struct Header {
    config: &'static str,
    source: &'static str,
    path: &'static str,
}

const HEADERS: &[Header] = &[
    Header { config: "crates/client/cbindgen.toml", source: "crates/client/src/exports.rs", path: "crates/client/include/ttmon.h" },
    Header {
        config: "crates/monitor/cbindgen.toml",
        source: "crates/monitor/src/exports.rs",
        path: "crates/monitor/include/ttmon_monitor.h",
    },
];

pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Stop> {
    let cbindgen = || CBINDGEN.have(project);
    match arguments {
        [] => Ok(write(project, &cbindgen()?)?),
        [flag] if flag == "--check" => Ok(check(project, &cbindgen()?)?),
        _ => Err(Stop::Usage(format!("header takes --check or nothing, not {}", arguments.join(" ")))),
    }
}

fn write(project: &Project, cbindgen: &Path) -> Result<(), String> {
    for header in HEADERS.iter().filter(|header| header.is_made(project)) {
        let text = header.text(project, cbindgen)?;
        let path = project.root.join(header.path);
        if fs::read_to_string(&path).ok().as_ref() != Some(&text) {
            fs::write(&path, text).map_err(|error| format!("{}: {error}", header.path))?;
            println!("header: wrote {}", header.path);
        }
    }
    Ok(())
}

/// Lists the headers that differ from what `header` would write now.
pub(crate) fn check(project: &Project, cbindgen: &Path) -> Result<(), String> {
    let mut stale = Vec::new();
    for header in HEADERS.iter().filter(|header| header.is_made(project)) {
        let fresh = header.text(project, cbindgen)?;
        let written = fs::read_to_string(project.root.join(header.path)).ok();
        if let Some(difference) = difference(written.as_deref(), &fresh) {
            println!("{}{difference}", header.path);
            stale.push(header.path);
        }
    }
    if stale.is_empty() { Ok(()) } else { Err(format!("stale: {}; renew with: cargo xtask header", stale.join(", "))) }
}

impl Header {
    /// Whether the crate exists with its configuration. Prints a message if not.
    fn is_made(&self, project: &Project) -> bool {
        let has_config = project.root.join(self.config).exists();
        if !has_config {
            println!("NOT CHECKED: {}, as {} does not exist", self.path, self.config);
        }
        has_config
    }

    fn text(&self, project: &Project, cbindgen: &Path) -> Result<String, String> {
        // Its many warnings are about items that are not exported.
        output(&mut project.command(cbindgen, &["--quiet", "--config", self.config, self.source]))
    }
}
