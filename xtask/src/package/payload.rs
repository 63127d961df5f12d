//! The files of a package, staged below `target/package/root` as they lie below `/usr`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{fresh, output, program};
use crate::libs::{self, Profile};
use crate::project::{self, Project};

/// The version of every crate and package, from Cargo.toml of the workspace.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The staged tree.
pub(super) struct Payload {
    pub(super) root: PathBuf,
    /// The time of every packed file, in seconds since 1970: that of the commit, so that two builds give the same bytes.
    pub(super) time: String,
}

enum From {
    /// The static program.
    Program,
    /// A library beside it.
    Library,
    /// A file of the repository. `@VERSION@` in its text is the version.
    Repository(&'static str),
    /// What the program prints when called with these arguments.
    Printed(&'static [&'static str]),
}

/// Each file below `/usr`, and where it comes from.
const ITEMS: &[(&str, From)] = &[
    ("bin/ttmon", From::Program),
    ("lib/ttmon/libttmon_client.so", From::Library),
    ("lib/ttmon/libttmon_hook.so", From::Library),
    ("lib/ttmon/libttmon_monitor.so", From::Library),
    ("lib/ttmon/libttmon_stub.so", From::Library),
    ("lib/pkgconfig/ttmon-client.pc", From::Repository("packaging/pkgconfig/ttmon-client.pc")),
    ("lib/pkgconfig/ttmon-monitor.pc", From::Repository("packaging/pkgconfig/ttmon-monitor.pc")),
    ("include/ttmon.h", From::Repository("crates/client/include/ttmon.h")),
    ("include/ttmon.hpp", From::Repository("crates/client/include/ttmon.hpp")),
    ("include/ttmon_monitor.h", From::Repository("crates/monitor/include/ttmon_monitor.h")),
    ("include/ttmon_monitor.hpp", From::Repository("crates/monitor/include/ttmon_monitor.hpp")),
    ("include/tt-metalium/allocation_client.hpp", From::Repository("packaging/include/tt-metalium/allocation_client.hpp")),
    ("share/bash-completion/completions/ttmon", From::Printed(&["completions", "bash"])),
    ("share/zsh/site-functions/_ttmon", From::Printed(&["completions", "zsh"])),
    ("share/fish/vendor_completions.d/ttmon.fish", From::Printed(&["completions", "fish"])),
    ("share/doc/ttmon/copyright", From::Repository("LICENSE")),
];

/// Every file of the one goes to the other.
const UNITS: (&str, &str) = ("packaging/systemd", "lib/systemd/system");

/// Below `/usr`, one page for the program and one for each of its commands.
const MANUAL: &str = "share/man/man1";

impl Payload {
    /// Builds everything and lays it out.
    pub(super) fn stage(project: &Project) -> Result<Self, String> {
        let program = program::build(project)?;
        let libraries = libs::build(project, Profile::Release)?;
        let root = output(project)?.join("root");
        fresh(&root)?;
        for (to, from) in ITEMS {
            let to = root.join(to);
            let content = match from {
                From::Program => read(&program)?,
                From::Library => read(&libraries.join(to.file_name().ok_or("a library has a name")?))?,
                From::Repository(path) => with_version(read(&project.root.join(path))?),
                From::Printed(arguments) => project::output(&mut project.command(&program, arguments))?.into_bytes(),
            };
            write(&to, &content, if matches!(from, From::Program) { 0o755 } else { 0o644 })?;
        }
        let units = project.root.join(UNITS.0);
        for unit in fs::read_dir(&units).map_err(|error| format!("{}: {error}", units.display()))?.flatten() {
            write(&root.join(UNITS.1).join(unit.file_name()), &read(&unit.path())?, 0o644)?;
        }
        let manual = root.join(MANUAL);
        fs::create_dir_all(&manual).map_err(|error| format!("{}: {error}", manual.display()))?;
        project::run(project.command(&program, &["man", "--dir"]).arg(&manual))?;
        let commit = || project::output(&mut project.command("git", &["log", "-1", "--format=%ct"]));
        let time = std::env::var("SOURCE_DATE_EPOCH").or_else(|_| commit())?.trim().to_owned();
        Ok(Self { root, time })
    }
}

/// Text files of ours may name the version; nothing else has this word.
pub(super) fn with_version(content: Vec<u8>) -> Vec<u8> {
    match String::from_utf8(content) {
        Ok(text) => text.replace("@VERSION@", VERSION).into_bytes(),
        Err(error) => error.into_bytes(),
    }
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// A file, and the folders above it.
pub(super) fn write(path: &Path, content: &[u8], mode: u32) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let folder = path.parent().ok_or("a file has a folder")?;
    fs::create_dir_all(folder).map_err(failed)?;
    fs::write(path, content).map_err(failed)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed)
}
