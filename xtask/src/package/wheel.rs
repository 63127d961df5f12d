//! Builds the Python package with xtask/wheel/build.py. `uvx`, `pipx` and `pip` install the program too.

use std::path::{Path, PathBuf};

use super::output;
use super::payload::{Payload, VERSION};
use crate::files;
use crate::project::{self, Project};

const BUILDER: &str = "xtask/wheel/build.py";
const LICENSE: &str = "LICENSE";

pub(super) fn make(project: &Project, payload: &Payload, output: &Path) -> Result<PathBuf, String> {
    let folder = output.join("wheel");
    // Files of an earlier version would be packed too.
    files::fresh(&folder)?;
    let mut command = project.command("python3", &["-B", BUILDER, "python", LICENSE, VERSION]);
    Ok(project::output(command.arg(&payload.root).arg(&folder))?.trim().into())
}

pub(crate) fn build(project: &Project) -> Result<PathBuf, String> {
    make(project, &Payload::stage(project)?, &output(project)?)
}
