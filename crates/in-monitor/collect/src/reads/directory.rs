//! Lists the names in a directory. The standard library allocates 32 KiB for each directory, which costs more than listing a short one.

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, RawDir};

/// Bytes for about 200 names.
const BUFFER_BYTES: usize = 8 * 1024;

/// Calls `each` for every name in the order of the file system, until it breaks.
pub fn names(path: &Path, mut each: impl FnMut(&OsStr) -> ControlFlow<()>) -> io::Result<()> {
    let directory = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
    let mut entries = RawDir::new(directory, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") && each(OsStr::from_bytes(name)).is_break() {
            break;
        }
    }
    Ok(())
}

/// Calls `each` for at most `most` names.
pub fn first_names(path: &Path, most: usize, mut each: impl FnMut(&OsStr)) -> io::Result<()> {
    let mut seen = 0;
    names(path, |name| {
        each(name);
        seen += 1;
        if seen < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_name_is_handed_over_once() {
        let directory = tempfile::tempdir().unwrap();
        let mut wanted: Vec<String> = (0..1000).map(|number| format!("a-rather-long-name-{number:04}")).collect();
        for name in &wanted {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let (mut seen, mut count) = (Vec::new(), 0);
        names(directory.path(), |name| {
            seen.push(name.to_str().unwrap().to_owned());
            ControlFlow::Continue(())
        })
        .unwrap();
        seen.sort();
        wanted.sort();
        assert_eq!(seen, wanted);
        names(directory.path(), |_| {
            count += 1;
            if count < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
        .unwrap();
        assert_eq!(count, 3);
        assert_eq!(names(&directory.path().join("none"), |_| ControlFlow::Continue(())).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
