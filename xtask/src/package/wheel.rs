//! The Python package, put together by xtask/wheel/build.py: `uvx`, `pipx` and `pip` give the program too.

use std::path::{Path, PathBuf};

use super::payload::{Payload, VERSION};
use super::{fresh, output};
use crate::project::{self, Project};

const BUILDER: &str = "xtask/wheel/build.py";
const LICENSE: &str = "LICENSE";

pub(super) fn make(project: &Project, payload: &Payload, output: &Path) -> Result<PathBuf, String> {
    let folder = output.join("wheel");
    // What an earlier version left would be taken for this one's.
    fresh(&folder)?;
    let mut command = project.command("python3", &["-B", BUILDER, "python", LICENSE, VERSION]);
    Ok(project::output(command.arg(&payload.root).arg(&folder))?.trim().into())
}

/// The wheel as the tree is now.
pub(crate) fn build(project: &Project) -> Result<PathBuf, String> {
    make(project, &Payload::stage(project)?, &output(project)?)
}
