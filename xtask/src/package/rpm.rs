//! Builds the package of Fedora and related systems with Debian's rpmbuild. It is built and listed here, never installed.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::payload::{Payload, VERSION, write};
use crate::files;
use crate::project::{self, Project};
use crate::tools;

const SPEC: &str = "packaging/rpm/ttmon.spec";

pub(super) fn make(project: &Project, payload: &Payload, output: &Path) -> Result<PathBuf, String> {
    tools::installed(project, "rpmbuild", "rpm")?;
    let tree = output.join("rpm");
    files::fresh(&tree)?;
    let spec = tree.join("ttmon.spec");
    write(&spec, &payload.template(project, SPEC)?, 0o644)?;
    let define = |name: &str, path: &Path| format!("--define={name} {}", path.display());
    let mut command = project.command("rpmbuild", &["-bb", "--quiet", "--target", "x86_64"]);
    command.args([define("_topdir", &tree), define("payload", &payload.root)]).env("SOURCE_DATE_EPOCH", &payload.time);
    project::run(command.arg(&spec).stdout(Stdio::null()))?;
    let name = format!("ttmon-{VERSION}-1.x86_64.rpm");
    let file = output.join(&name);
    files::copy(&tree.join("RPMS/x86_64").join(&name), &file)?;
    Ok(file)
}
