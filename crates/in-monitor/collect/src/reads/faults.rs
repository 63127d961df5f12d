//! Injects faults that a regular file cannot produce, for tests and simulations: `EIO`, `ENODATA`, a read that hangs.
//!
//! A root other than `/` may have a file `.ttmon-faults`. Each line is a path below the root, a tab, and an errno name, `hang` or
//! `slow:MILLISECONDS`. The line of a directory covers everything below it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;

/// An injected fault of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The read fails with this error number.
    Errno(i32),
    /// The read never returns.
    Hang,
    /// The read is delayed by this time.
    Slow(Duration),
}

/// The injected faults of a root. Empty for a real machine.
#[derive(Clone, Debug, Default)]
pub struct Faults(Vec<(PathBuf, Fault)>);

impl Faults {
    /// Loads the faults of a root. A missing file or an invalid line injects nothing.
    pub fn load(base: &Path) -> Self {
        // Most machines of tests have no faults.
        let text = fs::read_to_string(base.join(".ttmon-faults")).unwrap_or_default();
        Self(text.lines().filter_map(|line| parse_line(base, line)).collect())
    }

    /// Returns the fault of a path.
    pub fn find(&self, path: &Path) -> Option<Fault> {
        self.0.iter().find(|(prefix, _)| path.starts_with(prefix)).map(|(_, fault)| *fault)
    }
}

fn parse_line(base: &Path, line: &str) -> Option<(PathBuf, Fault)> {
    let (path, fault) = line.split_once('\t')?;
    Some((base.join(path.trim_start_matches('/')), parse_fault(fault)?))
}

fn parse_fault(word: &str) -> Option<Fault> {
    if let Some(millis) = word.strip_prefix("slow:") {
        return millis.parse().ok().map(|millis| Fault::Slow(Duration::from_millis(millis)));
    }
    let errno = match word {
        "hang" => return Some(Fault::Hang),
        "ENOENT" => Errno::NOENT,
        "ENODEV" => Errno::NODEV,
        "ENODATA" => Errno::NODATA,
        "EACCES" => Errno::ACCESS,
        "EPERM" => Errno::PERM,
        "EIO" => Errno::IO,
        "EINVAL" => Errno::INVAL,
        "EMFILE" => Errno::MFILE,
        "EOPNOTSUPP" => Errno::OPNOTSUPP,
        _ => return None,
    };
    Some(Fault::Errno(errno.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let base = Path::new("/base");
        let parse = |line| parse_line(base, line).map(|(path, fault)| (path.display().to_string(), fault));
        assert_eq!(parse("sys/x\thang"), Some(("/base/sys/x".into(), Fault::Hang)));
        assert_eq!(parse("/sys/x\tslow:20"), Some(("/base/sys/x".into(), Fault::Slow(Duration::from_millis(20)))));
        assert_eq!(parse("sys/x\tEIO"), Some(("/base/sys/x".into(), Fault::Errno(5))));
        for bad in ["", "sys/x", "sys/x\tEWHAT", "sys/x\tslow:x"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_directory_covers_what_is_below_it() {
        let faults = Faults(vec![("/b/sys/dir".into(), Fault::Hang)]);
        assert_eq!(faults.find(Path::new("/b/sys/dir/file")), Some(Fault::Hang));
        assert_eq!(faults.find(Path::new("/b/sys/dir2/file")), None);
    }
}
