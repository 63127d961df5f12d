//! A new environment with only our wheel; it uses ttnn of another environment by its path.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::environment::Environment;
use super::timeout;
use crate::project::{Project, succeeded};

const LIMIT: Duration = Duration::from_secs(120);

/// A Python with the wheel installed.
pub(crate) struct Fresh {
    pub(crate) python: PathBuf,
}

impl Fresh {
    /// Creates the environment again each time, because the installation is tested.
    pub(crate) fn make(project: &Project, environment: &Environment, wheel: &Path) -> Result<Self, String> {
        let folder = project.metadata()?.target.join("ttnn").join(format!("{}-fresh", environment.version));
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let python = folder.join("bin/python");
        let mut venv = project.command(&environment.python, &["-m", "venv", "--without-pip"]);
        done(venv.arg(&folder))?;
        let mut install = project.command(&environment.python, &["-m", "pip", "--python"]);
        install.arg(&python).args(["install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]).arg(wheel);
        done(&mut install)?;
        let packages = |python: &Path| {
            let mut ask = project.command(python, &["-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"]);
            timeout::output(&mut ask, LIMIT).map(|said| PathBuf::from(String::from_utf8_lossy(&said.stdout).trim()))
        };
        let lent = packages(&python)?.join("lent.pth");
        fs::write(&lent, format!("{}\n", packages(&environment.python)?.display()))
            .map_err(|error| format!("{}: {error}", lent.display()))?;
        Ok(Self { python })
    }
}

fn done(command: &mut Command) -> Result<(), String> {
    let said = timeout::output(command, LIMIT)?;
    succeeded(command, said.status).map_err(|why| format!("{why}: {}", String::from_utf8_lossy(&said.stderr).trim()))
}
