//! `ttmon-VERSION-x86_64-linux.tar.gz`: unpack anywhere, run `bin/ttmon`.

use std::path::{Path, PathBuf};

use super::payload::{Payload, VERSION};
use crate::project::{self, Project};

pub(super) fn make(project: &Project, payload: &Payload, output: &Path) -> Result<PathBuf, String> {
    let name = format!("ttmon-{VERSION}-x86_64-linux");
    let file = output.join(format!("{name}.tar.gz"));
    let mut command = project.command("tar", &["--create", "--use-compress-program=gzip -9n"]);
    command.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]).arg("--file").arg(&file);
    command.arg("--directory").arg(&payload.root);
    command.arg(format!("--mtime=@{}", payload.time)).arg(format!("--transform=s,^[.],{name},")).arg(".");
    project::run(&mut command)?;
    Ok(file)
}
