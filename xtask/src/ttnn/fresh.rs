//! A new environment with only our wheel; it uses ttnn of another environment by its path.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::environment::{Environment, packages};
use super::timeout;
use crate::files;
use crate::project::{Project, succeeded};

const LIMIT: Duration = Duration::from_secs(120);

/// Returns its Python. The environment is created again each time, because the installation is tested.
pub(super) fn make(project: &Project, environment: &Environment, wheel: &Path) -> Result<PathBuf, String> {
    let folder = project.target()?.join("ttnn").join(format!("{}-fresh", environment.version));
    files::fresh(&folder)?;
    let python = folder.join("bin/python");
    let mut venv = project.command(&environment.python, &["-m", "venv", "--without-pip"]);
    done(venv.arg(&folder))?;
    let mut install = project.command(&environment.python, &["-m", "pip", "--python"]);
    install.arg(&python).args(["install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]).arg(wheel);
    done(&mut install)?;
    let lent = packages(project, &python)?.join("lent.pth");
    files::write(&lent, format!("{}\n", packages(project, &environment.python)?.display()))?;
    Ok(python)
}

fn done(command: &mut Command) -> Result<(), String> {
    let said = timeout::output(command, LIMIT)?;
    succeeded(command, said.status).map_err(|why| format!("{why}: {}", String::from_utf8_lossy(&said.stderr).trim()))
}
