//! Finds the libraries that are preloaded, and adds them to the command's environment.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::{env, fs};

use super::embedded;

/// Records the memory of the program. The stub loads this library at the first call of TT-Metal.
const HOOK: &str = "libttmon_hook.so";
/// Has a few kilobytes and costs almost nothing in programs that never use TT-Metal.
const STUB: &str = "libttmon_stub.so";

pub(crate) const PRELOAD: &str = "LD_PRELOAD";

/// Returns the library to preload: the first one that is found, or else the one inside this program.
pub(crate) fn find() -> Result<PathBuf, String> {
    let mut places = places();
    if !places.iter().any(|place| place.join(HOOK).is_file()) {
        places.extend(embedded::folder()?);
    }
    find_in(&places)
}

/// Returns the possible folders of the libraries, the preferred one first.
fn places() -> Vec<PathBuf> {
    let named = env::var_os("TTMON_LIB").filter(|value| !value.is_empty()).map(PathBuf::from);
    let program = env::current_exe().ok();
    let own = program.as_deref().and_then(Path::parent);
    let prefix = own.and_then(Path::parent);
    let installed = prefix.map(|prefix| prefix.join("lib/ttmon"));
    let wheels = prefix.map(python_packages).unwrap_or_default().into_iter().map(|packages| packages.join("ttmon"));
    named.into_iter().chain(own.map(Path::to_owned)).chain(installed).chain(wheels).collect()
}

/// Returns the folders of Python packages below a prefix: `lib*/python3*/site-packages`, and Debian's `dist-packages`.
pub(super) fn python_packages(prefix: &Path) -> Vec<PathBuf> {
    let matching = |folder: &Path, start: &str| -> Vec<PathBuf> {
        let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.filter(|name| name.as_bytes().starts_with(start.as_bytes())).map(|name| folder.join(name)).collect()
    };
    let pythons = matching(prefix, "lib").into_iter().flat_map(|folder| matching(&folder, "python3"));
    let packages = pythons.flat_map(|python| ["site-packages", "dist-packages"].map(|name| python.join(name)));
    let mut found: Vec<PathBuf> = packages.filter(|folder| folder.is_dir()).collect();
    found.sort();
    found
}

/// Returns the stub if the hook is beside it, or else the hook itself.
fn find_in(places: &[PathBuf]) -> Result<PathBuf, String> {
    let Some(folder) = places.iter().find(|place| place.join(HOOK).is_file()) else {
        let searched: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        return Err(format!(
            "{HOOK} not found in {}; build it with `cargo xtask libs`, or name its folder in TTMON_LIB",
            searched.join(", ")
        ));
    };
    let stub = folder.join(STUB);
    let library = if stub.is_file() { stub } else { folder.join(HOOK) };
    // The command may run in another directory.
    let library = std::path::absolute(&library).unwrap_or(library);
    // The dynamic linker cannot escape characters in `LD_PRELOAD`.
    match library.as_os_str().as_bytes().iter().find_map(|byte| Some(*byte).zip(meaning(*byte))) {
        Some((byte, meaning)) => Err(format!(
            "{:?} cannot be preloaded: the dynamic linker takes {:?} in its path for {meaning}; \
             put the libraries elsewhere and name the folder in TTMON_LIB",
            library,
            char::from(byte)
        )),
        None => Ok(library),
    }
}

/// Returns the meaning of a character that is special in `LD_PRELOAD`.
fn meaning(byte: u8) -> Option<&'static str> {
    match byte {
        b' ' | b'\t' | b'\n' | b':' | b';' => Some("the end of a name"),
        // $ORIGIN, $LIB, $PLATFORM
        b'$' => Some("the beginning of a variable"),
        _ => None,
    }
}

/// Returns the new value of `LD_PRELOAD`. Existing entries are kept and come first, because some libraries (sanitizers) require it.
pub(crate) fn preload(present: Option<&OsStr>, library: &Path) -> OsString {
    let present = present.map_or(&b""[..], OsStr::as_bytes);
    let is_there = present.split(|byte| b" \t\n:;".contains(byte)).any(|name| name == library.as_os_str().as_bytes());
    let mut value = present.to_vec();
    if !is_there {
        if !value.is_empty() {
            value.push(b':');
        }
        value.extend_from_slice(library.as_os_str().as_bytes());
    }
    OsString::from_vec(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(present: &str, expected: &str) {
        assert_eq!(preload(Some(OsStr::new(present)), Path::new("/l/libttmon_stub.so")), expected);
    }

    #[test]
    fn earlier_preloaded_libraries_stay() {
        assert_eq!(preload(None, Path::new("/l/libttmon_stub.so")), "/l/libttmon_stub.so");
        check("", "/l/libttmon_stub.so");
        check("/a.so", "/a.so:/l/libttmon_stub.so");
        check("/a.so /b.so", "/a.so /b.so:/l/libttmon_stub.so");
        check("/a.so:/l/libttmon_stub.so", "/a.so:/l/libttmon_stub.so");
        check("/a.so:/l/libttmon_stub.so.old", "/a.so:/l/libttmon_stub.so.old:/l/libttmon_stub.so");
    }

    #[test]
    fn the_stub_goes_before_the_hook_and_never_alone() {
        let directory = tempfile::tempdir().unwrap();
        let (first, second) = (directory.path().join("first"), directory.path().join("second"));
        for (folder, name) in [(&first, STUB), (&second, HOOK)] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join(name), "").unwrap();
        }
        let places = [first.clone(), second.clone()];
        assert_eq!(find_in(&places).unwrap(), second.join(HOOK), "a stub without a hook is of no use");
        fs::write(second.join(STUB), "").unwrap();
        assert_eq!(find_in(&places).unwrap(), second.join(STUB));
        let missing = find_in(std::slice::from_ref(&first)).unwrap_err();
        assert!(missing.contains(&first.display().to_string()) && missing.contains("cargo xtask libs"), "{missing}");
    }

    #[test]
    fn a_path_that_the_linker_would_take_apart() {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("my libs", "' ' in its path for the end"),
            ("my:libs", "':' in its path for the end"),
            ("my\nlibs", r"'\n' in its path for the end"),
            ("$LIB", "'$' in its path for the beginning of a variable"),
        ] {
            let folder = directory.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join(HOOK), "").unwrap();
            let refused = find_in(&[folder]).unwrap_err();
            assert!(refused.contains(text) && refused.lines().count() == 1, "{refused}");
        }
    }

    #[test]
    fn packages_of_any_python_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let folders = ["lib/python3.10/site-packages", "lib/python3/dist-packages", "lib64/python3.12/site-packages"];
        folders.iter().for_each(|folder| fs::create_dir_all(directory.path().join(folder)).unwrap());
        fs::create_dir_all(directory.path().join("lib/ruby/site-packages")).unwrap();
        let mut expected = folders.map(|folder| directory.path().join(folder));
        expected.sort();
        assert_eq!(python_packages(directory.path()), expected);
    }
}
