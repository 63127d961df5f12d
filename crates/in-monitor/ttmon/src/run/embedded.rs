//! Libraries inside the program, for an installation that consists only of the program: `cargo install`.
//!
//! They are unpacked to a private folder in the user's cache. At each use they are compared with the program's own copy, byte for byte.

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::{env, process};

use rustix::fs::StatVfsMountFlags;

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// Returns a folder with the libraries, or `None` if the program contains none.
pub(super) fn folder() -> Result<Option<PathBuf>, String> {
    if LIBRARIES.is_empty() {
        return Ok(None);
    }
    let homeless = "the libraries inside ttmon cannot be unpacked: neither XDG_CACHE_HOME nor HOME is set; set TTMON_LIB";
    let cache = cache().ok_or_else(|| homeless.to_owned())?;
    let folder = cache.join("ttmon").join(format!("lib-{}", env!("CARGO_PKG_VERSION")));
    unpack(&folder, LIBRARIES).map_err(|error| {
        let remedy = "name a folder that has them in TTMON_LIB";
        format!("the libraries inside ttmon cannot be unpacked to {}: {error}; {remedy}", folder.display())
    })?;
    Ok(Some(folder))
}

fn cache() -> Option<PathBuf> {
    let named = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    named("XDG_CACHE_HOME").or_else(|| named("HOME").map(|home| home.join(".cache")))
}

fn unpack(folder: &Path, libraries: &[(&str, &[u8])]) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let metadata = fs::symlink_metadata(folder)?;
    let is_private = metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o022 == 0;
    if !is_private {
        return Err(io::Error::other("it is not a folder that only this user may write to"));
    }
    if rustix::fs::statvfs(folder)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return Err(io::Error::other("its file system is mounted noexec, so no program can load a library from there"));
    }
    for (name, content) in libraries {
        let path = folder.join(name);
        if fs::read(&path).is_ok_and(|present| present == *content) {
            continue;
        }
        // Write a new file, because a running program may have the old one mapped.
        let new = folder.join(format!("{name}.{}", process::id()));
        let mut file = fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(content)?;
        fs::rename(&new, &path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn changed_library_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("ttmon/lib-1");
        let libraries: &[(&str, &[u8])] = &[("a.so", b"one"), ("b.so", b"two")];
        for _ in 0..2 {
            unpack(&folder, libraries).unwrap();
            assert_eq!(fs::read(folder.join("a.so")).unwrap(), b"one");
            fs::write(folder.join("a.so"), "changed").unwrap();
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "nothing else is left there");
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn folder_that_others_may_write_to_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let error = unpack(directory.path(), &[("a.so", b"one")]).unwrap_err();
        assert!(error.to_string().contains("only this user"), "{error}");
        assert!(!directory.path().join("a.so").exists());
    }
}
