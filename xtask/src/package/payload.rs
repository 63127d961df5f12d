//! The files of a package, staged below `target/package/root` as below `/usr`.

use std::fs;
use std::path::{Path, PathBuf};

use super::{output, program};
use crate::files;
use crate::libs::{self, Profile};
use crate::project::{self, Project};

/// The version of every crate and package, from Cargo.toml of the workspace.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(super) struct Payload {
    pub(super) root: PathBuf,
    /// The modification time of every packed file, in seconds since 1970. It is the time of the commit, so that two builds give the same
    /// bytes.
    pub(super) time: String,
    units: Vec<String>,
}

enum From {
    Program,
    /// A library beside it.
    Library,
    /// A file of the repository; see [`Payload::template`].
    Repository(&'static str),
    Printed(&'static [&'static str]),
}

impl From {
    fn mode(&self) -> u32 {
        if matches!(self, Self::Program) { 0o755 } else { 0o644 }
    }
}

const ITEMS: &[(&str, From)] = &[
    ("bin/ttmon", From::Program),
    ("lib/ttmon/libttmon_client.so", From::Library),
    ("lib/ttmon/libttmon_hook.so", From::Library),
    ("lib/ttmon/libttmon_monitor.so", From::Library),
    ("lib/ttmon/libttmon_stub.so", From::Library),
    ("lib/pkgconfig/ttmon-client.pc", From::Repository("packaging/pkgconfig/ttmon-client.pc")),
    ("lib/pkgconfig/ttmon-monitor.pc", From::Repository("packaging/pkgconfig/ttmon-monitor.pc")),
    ("include/ttmon.h", From::Repository("crates/in-program/client/include/ttmon.h")),
    ("include/ttmon.hpp", From::Repository("crates/in-program/client/include/ttmon.hpp")),
    ("include/ttmon_monitor.h", From::Repository("crates/in-monitor/monitor/include/ttmon_monitor.h")),
    ("include/ttmon_monitor.hpp", From::Repository("crates/in-monitor/monitor/include/ttmon_monitor.hpp")),
    ("include/tt-metalium/allocation_client.hpp", From::Repository("packaging/include/tt-metalium/allocation_client.hpp")),
    ("share/bash-completion/completions/ttmon", From::Printed(&["completions", "bash"])),
    ("share/zsh/site-functions/_ttmon", From::Printed(&["completions", "zsh"])),
    ("share/fish/vendor_completions.d/ttmon.fish", From::Printed(&["completions", "fish"])),
    ("share/doc/ttmon/copyright", From::Repository("LICENSE")),
];

/// Every file of the first folder is copied to the second.
const UNITS: (&str, &str) = ("packaging/systemd", "lib/systemd/system");

/// Folder of manual pages below `/usr`: one page for the program and one for each command.
const MANUAL: &str = "share/man/man1";

impl Payload {
    pub(super) fn stage(project: &Project) -> Result<Self, String> {
        let program = program::build(project)?;
        let libraries = libs::build(project, Profile::Release)?;
        let root = output(project)?.join("root");
        files::fresh(&root)?;
        let commit = || project::output(&mut project.command("git", &["log", "-1", "--format=%ct"]));
        let time = std::env::var("SOURCE_DATE_EPOCH").or_else(|_| commit())?.trim().to_owned();
        let this = Self { root, time, units: units(project)? };
        for (to, from) in ITEMS {
            let to = this.root.join(to);
            let content = match from {
                From::Program => read(&program)?,
                From::Library => read(&libraries.join(to.file_name().ok_or("a library has a name")?))?,
                From::Repository(path) => this.template(project, path)?,
                From::Printed(arguments) => project::output(&mut project.command(&program, arguments))?.into_bytes(),
            };
            write(&to, &content, from.mode())?;
            if matches!(from, From::Program | From::Library) {
                // The names of functions are 5 % of a package.
                project::run(project.command("strip", &["--strip-all"]).arg(&to))?;
            }
        }
        for unit in &this.units {
            write(&this.root.join(UNITS.1).join(unit), &read(&project.root.join(UNITS.0).join(unit))?, 0o644)?;
        }
        let manual = this.root.join(MANUAL);
        files::fresh(&manual)?;
        project::run(project.command(&program, &["man", "--dir"]).arg(&manual))?;
        Ok(this)
    }

    /// Returns a file of the repository, with `@VERSION@` and `@UNITS@` replaced by the version and the names of the units.
    pub(super) fn template(&self, project: &Project, path: &str) -> Result<Vec<u8>, String> {
        let text = files::read(&project.root.join(path))?;
        Ok(text.replace("@VERSION@", VERSION).replace("@UNITS@", &self.units.join(" ")).into_bytes())
    }
}

fn units(project: &Project) -> Result<Vec<String>, String> {
    let files = fs::read_dir(project.root.join(UNITS.0)).map_err(|error| format!("{}: {error}", UNITS.0))?;
    let mut names: Vec<String> = files.flatten().map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(files::at(path))
}

/// Writes a file, and creates its parent folders.
pub(super) fn write(path: &Path, content: &[u8], mode: u32) -> Result<(), String> {
    let folder = path.parent().ok_or("a file has a folder")?;
    fs::create_dir_all(folder).map_err(files::at(folder))?;
    files::write_with_mode(path, content, mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of manual pages are those of the commands. The tests of the program compare them.
    #[test]
    fn generated_list_of_packaged_files_is_up_to_date() {
        let items = ITEMS.iter().map(|(path, from)| format!("{:o} {path}\n", from.mode()));
        let units = units(&Project::find().unwrap()).unwrap();
        let units = units.iter().map(|unit| format!("644 {}/{unit}\n", UNITS.1));
        let manual = [format!("644 {MANUAL}/*\n")];
        ttmon_testing::generated("packaging/files.txt", &items.chain(units).chain(manual).collect::<String>());
    }
}
