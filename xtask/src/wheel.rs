//! `cargo xtask wheel`: one wheel with python/ttmon and the libraries inside, put together by xtask/wheel/build.py.

use std::fs;
use std::path::{Path, PathBuf};

use crate::libs::{self, Profile};
use crate::project::{Project, output};
use crate::stop::{Stop, no_arguments};

const BUILDER: &str = "xtask/wheel/build.py";
const LICENSE: &str = "LICENSE";

pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Stop> {
    no_arguments(arguments)?;
    println!("{}", build(project)?.display());
    Ok(())
}

/// The wheel as the tree is now, below the target directory.
pub(crate) fn build(project: &Project) -> Result<PathBuf, String> {
    let libraries = libs::build(project, Profile::Release)?;
    let folder = project.metadata()?.target.join("wheel");
    // What an earlier version left would be taken for this one's.
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let (libraries, folder) = (text(&libraries), text(&folder));
    let version = version(project)?;
    let arguments = ["-B", BUILDER, "python", LICENSE, &version, &libraries, &folder];
    Ok(output(&mut project.command("python3", &arguments))?.trim().into())
}

/// What the workspace calls itself.
fn version(project: &Project) -> Result<String, String> {
    let manifest = project.root.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).map_err(|error| format!("{}: {error}", manifest.display()))?;
    let package = text.split_once("[workspace.package]").map_or("", |(_, package)| package);
    let line = package.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    Ok(line.ok_or("Cargo.toml has no version of the workspace")?.to_owned())
}
