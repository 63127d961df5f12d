//! Reads and writes files. An error names the path.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

/// Returns the conversion of an error of this path to text.
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

pub(crate) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(at(path))
}

pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), String> {
    fs::write(path, content).map_err(at(path))
}

pub(crate) fn write_with_mode(path: &Path, content: impl AsRef<[u8]>, mode: u32) -> Result<(), String> {
    write(path, content)?;
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).map_err(at(path))
}

pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to).map(drop).map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))
}

pub(crate) fn fresh(folder: &Path) -> Result<(), String> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(at(folder))?;
    }
    fs::create_dir_all(folder).map_err(at(folder))
}

/// Creates a folder that is removed when the value is dropped.
pub(crate) fn temporary() -> Result<TempDir, String> {
    tempfile::tempdir().map_err(|error| format!("no directory: {error}"))
}
