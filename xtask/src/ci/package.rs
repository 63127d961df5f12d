//! Tests the packages as users install them: tar.gz, wheel and rpm on this machine, the deb in new Debian systems.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Gate, Outcome, needs_root, run_shown};
use crate::files;
use crate::project::{self, Project};
use crate::stop::untested;
use crate::{package, tools};

const SUITES: [&str; 2] = ["bookworm", "trixie"];
/// Packages in addition to a minimal Debian: for reading manuals, and for enabling units.
const INCLUDED: &str = "--include=man-db,systemd";
const SCRIPTS: &str = "xtask/package";
const STAND_IN: &str = "crates/in-program/hook/tests/programs";

pub(super) fn run(gate: &mut Gate) -> Outcome {
    for tool in ["c++", "pkg-config", "python3"] {
        project::probe(&mut gate.project.command(tool, &["--version"])).map_err(untested("NO PACKAGE WAS TRIED"))?;
    }
    let folder = prepare(gate.project)?;
    let mut command = gate.project.command("sh", &[]);
    command.arg(folder.join("on-host.sh")).arg(&folder);
    run_shown(&mut command)?;
    needs_root("NO PACKAGE WAS INSTALLED IN A FRESH DEBIAN: that needs root")?;
    for suite in SUITES {
        let base = base(gate.project, suite).map_err(untested(&format!("NO PACKAGE WAS INSTALLED IN A FRESH DEBIAN ({suite})")))?;
        install(gate.project, &base, &folder).map_err(|why| format!("{suite}: {why}"))?;
    }
    Ok(())
}

/// Prepares a folder with the packages, the scripts, the stand-in program, and ttmon as `cargo install` builds it.
fn prepare(project: &Project) -> Result<PathBuf, String> {
    let folder = project.target()?.join("package/try");
    files::fresh(&folder)?;
    let copy = |from: &Path, name: &str| files::copy(from, &folder.join(name));
    for file in package::repeatable(project)? {
        let name = file.file_name().ok_or("a package has a name")?.to_string_lossy();
        copy(&file, if name.ends_with(".deb") { "ttmon.deb" } else { &name })?;
    }
    for name in ["steps.sh", "in-root.sh", "on-host.sh", "reports.cpp"] {
        copy(&project.root.join(SCRIPTS).join(name), name)?;
    }
    copy(&as_installed(project)?, "ttmon")?;
    let library = ["-shared", "-fPIC", "-Wl,-soname,libtt_metal.so"];
    for (source, name, flags) in [("metal.cpp", "libtt_metal.so", &library[..]), ("program.cpp", "program", &["-pthread", "-ldl"])] {
        let mut compile = project.command("c++", &["-std=c++20", "-O1", "-o"]);
        compile.arg(folder.join(name)).arg(project.root.join(STAND_IN).join(source)).args(flags);
        project::run(&mut compile)?;
    }
    Ok(folder)
}

/// Builds the program with embedded libraries, as `cargo install` does, and returns its path. It has little optimization, because that
/// would take minutes; other stages run the released program.
pub(super) fn as_installed(project: &Project) -> Result<PathBuf, String> {
    let mut build = project.cargo(&["build", "--release", "--package", "ttmon", "--features", "tls"]);
    build.envs(
        [("OPT_LEVEL", "1"), ("LTO", "off"), ("CODEGEN_UNITS", "16")].map(|(name, value)| (format!("CARGO_PROFILE_RELEASE_{name}"), value)),
    );
    run_shown(&mut build)?;
    Ok(project.target()?.join("release/ttmon"))
}

/// Returns an archive of a new Debian system, created once by mmdebstrap from the mirror that apt uses here.
fn base(project: &Project, suite: &str) -> Result<PathBuf, String> {
    let folder = project::cache()?.join("roots");
    let archive = folder.join(format!("{suite}.tar"));
    if archive.exists() {
        return Ok(archive);
    }
    tools::installed(project, "mmdebstrap", "mmdebstrap")?;
    fs::create_dir_all(&folder).map_err(files::at(&folder))?;
    let format = ["indextargets", "--format", "$(REPO_URI)", "Origin: Debian", "Label: Debian"];
    let mirrors = project::output(&mut project.command("apt-get", &format)).unwrap_or_default();
    let new = folder.join(format!("{suite}.new.tar"));
    let mut command = project.command("mmdebstrap", &["--variant=essential", INCLUDED, suite]);
    command.arg(&new).args(mirrors.lines().next());
    run_shown(&mut command)?;
    fs::rename(&new, &archive).map_err(files::at(&archive))?;
    Ok(archive)
}

fn install(project: &Project, base: &Path, tried: &Path) -> Result<(), String> {
    let root = files::temporary()?;
    project::run(project.command("tar", &["--extract", "--file"]).arg(base).arg("--directory").arg(root.path()))?;
    let folder = root.path().join("try");
    files::fresh(&folder)?;
    for name in ["ttmon.deb", "steps.sh", "in-root.sh", "libtt_metal.so", "program", "ttmon"] {
        files::copy(&tried.join(name), &folder.join(name))?;
    }
    let mut command = project.command("unshare", &["--mount", "--pid", "--fork", "--kill-child", "chroot"]);
    command.arg(root.path()).args(["sh", "/try/in-root.sh"]).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    run_shown(&mut command)
}
