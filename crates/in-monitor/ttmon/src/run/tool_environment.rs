//! Python environments that contain a single tool: `uvx ttmon run -- python model.py`.
//!
//! uvx puts the environment that it created for ttmon first in PATH. `python` would then be the interpreter of that environment, which has
//! no ttnn. So the command is searched and started without that folder in PATH.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

use super::library;

/// Packages in an environment that contains only ttmon: ttmon and installers. Names end at the first dot or dash.
const EXPECTED: [&str; 11] = [
    "ttmon",
    "_ttmon_start",
    "__pycache__",
    "pip",
    "setuptools",
    "_distutils_hack",
    "distutils",
    "pkg_resources",
    "wheel",
    "uv",
    "_virtualenv",
];

/// Returns PATH for the command, without the folder of a tool environment that contains this program.
pub(super) fn search_path() -> Option<OsString> {
    let path = env::var_os("PATH")?;
    let program = env::current_exe().ok();
    let changed = program.and_then(|program| path_without(&program, env::var_os("VIRTUAL_ENV").as_deref(), &path));
    Some(changed.unwrap_or(path))
}

/// Returns PATH without the folder of this program, if that folder is an environment with only ttmon. Returns `None` if PATH needs no
/// change.
fn path_without(program: &Path, active: Option<&OsStr>, path: &OsStr) -> Option<OsString> {
    let bin = program.parent()?;
    let prefix = bin.parent()?;
    // The user activated this environment, so its python is the right one.
    let is_active = active.is_some_and(|active| Path::new(active) == prefix);
    if is_active || !prefix.join("pyvenv.cfg").is_file() || !has_only_ttmon(prefix) {
        return None;
    }
    env::join_paths(env::split_paths(path).filter(|folder| folder != bin)).ok()
}

fn has_only_ttmon(prefix: &Path) -> bool {
    let packages = library::python_packages(prefix);
    let mut names = packages.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten().map(|entry| entry.file_name());
    let is_expected =
        |name: OsString| name.to_str().is_some_and(|name| name.split(['.', '-']).next().is_some_and(|name| EXPECTED.contains(&name)));
    !packages.is_empty() && names.all(is_expected)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// Creates an environment with these distributions. Returns the path of its `ttmon`.
    fn environment(prefix: &Path, distributions: &[&str]) -> PathBuf {
        let packages = prefix.join("lib/python3.12/site-packages");
        for name in distributions {
            fs::create_dir_all(packages.join(format!("{name}-1.0.dist-info"))).unwrap();
        }
        fs::create_dir_all(prefix.join("bin")).unwrap();
        fs::write(prefix.join("pyvenv.cfg"), "").unwrap();
        prefix.join("bin/ttmon")
    }

    #[test]
    fn own_tool_environment_leaves_the_path() {
        let directory = tempfile::tempdir().unwrap();
        let program = environment(directory.path(), &["ttmon"]);
        let own = program.parent().unwrap();
        let path = env::join_paths([own, Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
        assert_eq!(path_without(&program, None, &path), Some("/usr/bin:/bin".into()));
        assert_eq!(path_without(&program, Some(directory.path().as_os_str()), &path), None, "the user activated it");
        assert_eq!(path_without(Path::new("/usr/bin/ttmon"), None, &path), None, "not an environment");
    }

    #[test]
    fn environment_with_other_packages_stays() {
        for other in ["ttnn-0.81.1.dist-info", "uvloop", "a-checkout.pth"] {
            let directory = tempfile::tempdir().unwrap();
            let program = environment(directory.path(), &["pip", "ttmon"]);
            let path = env::join_paths([program.parent().unwrap(), Path::new("/usr/bin")]).unwrap();
            fs::write(directory.path().join("lib/python3.12/site-packages").join(other), "").unwrap();
            assert_eq!(path_without(&program, None, &path), None, "{other}");
        }
    }
}
