//! Runs in a separate process, because the umask belongs to the whole process.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::fs::Mode;

#[test]
fn public_files_are_readable_with_any_umask() {
    rustix::process::umask(Mode::from_raw_mode(0o077));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("devices");
    for text in ["first", "second"] {
        ttmon_os::write_public(&path, text.as_bytes()).unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), fs::metadata(&path).unwrap().permissions().mode() & 0o777), (text, 0o644));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
}
