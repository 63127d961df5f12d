//! `cargo xtask package [wheel|deb|rpm|tar]...`: builds the packages that users install.
//!
//! The program is static (musl). The libraries use glibc, because they are loaded into other programs. All formats are built from one
//! staged tree, so each file is listed once, in [`payload`].

mod deb;
mod payload;
pub(crate) mod program;
mod rpm;
mod tar;
pub(crate) mod wheel;

use std::fs;
use std::path::{Path, PathBuf};

use crate::files;
use crate::project::Project;
use crate::sbom;
use crate::stop::Stop;
use payload::Payload;

type Make = fn(&Project, &Payload, &Path) -> Result<PathBuf, String>;

const FORMATS: &[(&str, Make)] = &[("wheel", wheel::make), ("deb", deb::make), ("rpm", rpm::make), ("tar", tar::make)];

pub(crate) const ARGUMENTS: &str = "[wheel|deb|rpm|tar]...";

pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Stop> {
    let known = |name: &String| FORMATS.iter().any(|(format, _)| format == name);
    if let Some(unknown) = arguments.iter().find(|name| !known(name)) {
        return Err(Stop::Usage(format!("package makes {ARGUMENTS}, not {unknown}")));
    }
    let formats = FORMATS.iter().filter(|(name, _)| arguments.is_empty() || arguments.iter().any(|argument| argument == name));
    let payload = Payload::stage(project)?;
    let output = output(project)?;
    for (_, make) in formats {
        let file = make(project, &payload, &output)?;
        let bytes = fs::metadata(&file).map_err(files::at(&file))?.len();
        println!("{} ({:.1} MB)", file.display(), bytes as f64 / 1e6);
    }
    Ok(sbom::write(project, &output.join(sbom::FILE))?)
}

/// Builds all packages twice. The same files must give the same bytes.
pub(crate) fn repeatable(project: &Project) -> Result<Vec<PathBuf>, String> {
    let payload = Payload::stage(project)?;
    let output = output(project)?;
    let again = output.join("again");
    files::fresh(&again)?;
    let read = |path: &Path| fs::read(path).map_err(files::at(path));
    let mut files = Vec::new();
    for (name, make) in FORMATS {
        let (first, second) = (make(project, &payload, &output)?, make(project, &payload, &again)?);
        if read(&first)? != read(&second)? {
            return Err(format!("two packings of the {name} differ: {}, {}", first.display(), second.display()));
        }
        files.push(first);
    }
    Ok(files)
}

fn output(project: &Project) -> Result<PathBuf, String> {
    let folder = project.target()?.join("package");
    fs::create_dir_all(&folder).map_err(files::at(&folder))?;
    Ok(folder)
}
