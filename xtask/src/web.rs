//! `cargo xtask web`: builds the page of `web/` into `crates/in-monitor/serve/page`, whose files are part of the program. `cargo build`
//! needs no node, because the built files are committed; the stage `page` compares them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::files;
use crate::project::{self, Project};
use crate::stop::{Stop, has_flag};
use crate::tools;

pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Stop> {
    if arguments == ["--picture"] {
        return Ok(picture(project)?);
    }
    let is_check = has_flag("web", "--check", arguments)?;
    Ok(build(project, if is_check { &["--check"] } else { &[] })?)
}

/// Draws docs/screens/page.png from a recording, and writes its layout, which the stage `page` compares.
fn picture(project: &Project) -> Result<(), String> {
    project::run(Browser::find_or_install(project)?.command(project, &project.debug_program()?).arg("--picture"))
}

/// Checks the types and builds the page, or compares it with the committed files.
pub(crate) fn build(project: &Project, arguments: &[&str]) -> Result<(), String> {
    let folder = packages(project)?;
    let compiler = folder.join("node_modules/typescript/bin/tsc");
    let node = |file: &str, arguments: &[&str]| project::run(project.command("node", &[file]).args(arguments).current_dir(&folder));
    node("build.mjs", arguments)?;
    node(&compiler.to_string_lossy(), &["-p", "."])
}

/// The tools for testing the page: node's packages, Chromium, and the fonts with which its texts are measured.
pub(crate) struct Browser {
    folder: PathBuf,
    pub(crate) fonts: PathBuf,
}

impl Browser {
    /// Returns the tools. The error explains what is not available here.
    pub(crate) fn find_or_install(project: &Project) -> Result<Self, String> {
        let folder = packages(project)?;
        tools::installed(project, "chromium", "chromium")?;
        let fonts = tools::debian(project, "fonts-dejavu-core")?.join("usr/share/fonts/truetype/dejavu");
        Ok(Self { folder, fonts })
    }

    /// Returns the command for the tests of the page with this program.
    pub(crate) fn command(&self, project: &Project, program: &Path) -> Command {
        let mut command = project.command("node", &["test/page.mjs"]);
        command.arg(program).current_dir(&self.folder).env("PAGE_FONTS", &self.fonts);
        command
    }
}

/// Returns the folder of the page, with its packages in the versions of the lock file.
fn packages(project: &Project) -> Result<PathBuf, String> {
    tools::installed(project, "npm", "npm")?;
    let folder = project.root.join("web");
    let mark = folder.join("node_modules/.complete");
    tools::once(&mark, &files::read(&folder.join("package-lock.json"))?, || {
        let install = ["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"];
        project::run(project.command("npm", &install).current_dir(&folder))
    })?;
    Ok(folder)
}
