//! Builds Debian's package with dpkg-deb.

use std::path::{Path, PathBuf};

use super::payload::{Payload, VERSION, write};
use crate::files;
use crate::project::{self, Project};

/// Files of packaging/deb that are copied into `DEBIAN/`, with their modes.
const CONTROL: &[(&str, u32)] = &[("control", 0o644), ("postinst", 0o755), ("prerm", 0o755), ("postrm", 0o755)];

pub(super) fn make(project: &Project, payload: &Payload, output: &Path) -> Result<PathBuf, String> {
    let tree = output.join("deb");
    files::fresh(&tree)?;
    project::run(project.command("cp", &["--recursive", "--preserve=mode"]).arg(&payload.root).arg(tree.join("usr")))?;
    for (name, mode) in CONTROL {
        write(&tree.join("DEBIAN").join(name), &payload.template(project, &format!("packaging/deb/{name}"))?, *mode)?;
    }
    let file = output.join(format!("ttmon_{VERSION}_amd64.deb"));
    let mut command = project.command("dpkg-deb", &["--root-owner-group", "-Zxz", "--build"]);
    command.arg(&tree).arg(&file).env("SOURCE_DATE_EPOCH", &payload.time).stdout(std::process::Stdio::null());
    project::run(&mut command)?;
    Ok(file)
}
