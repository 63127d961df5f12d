//! The baseline: only open, read and close of every file that a monitor needs.
//!
//! It runs in this process, so it includes no exec and no linking, and the list of files is made beforehand. A monitor also lists
//! directories, reads processes and prints, so its figure is larger.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Directories of the kernel driver and TT-Metal, below the root of a machine.
const PUBLISHED: &[&str] = &["sys", "proc/driver", "dev/shm"];

pub(super) struct Files(Vec<PathBuf>);

/// Wall time and processor time of reading everything once.
pub(super) type PlainRead = (Duration, Duration);

impl Files {
    pub(super) fn below(root: &Path) -> Result<Self, String> {
        let mut files = Vec::new();
        for directory in PUBLISHED.iter().map(|part| root.join(part)).filter(|directory| directory.exists()) {
            walk(&directory, &mut files).map_err(|error| format!("{}: {error}", directory.display()))?;
        }
        Ok(Self(files))
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn read(&self) -> Result<PlainRead, String> {
        let mut buffer = [0; 16 * 1024];
        let cpu = thread_cpu();
        let started = Instant::now();
        for path in &self.0 {
            read_once(path, &mut buffer).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok((started.elapsed(), thread_cpu().saturating_sub(cpu)))
    }
}

fn read_once(path: &Path, buffer: &mut [u8]) -> io::Result<()> {
    let mut file = File::open(path)?;
    while file.read(buffer)? > 0 {}
    Ok(())
}

/// Lists all files. Links of sysfs are skipped, because they lead to directories that are listed anyway.
fn walk(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(&entry.path(), files)?;
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}

fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("processor time is not negative")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_once_and_processes_are_not_among_them() {
        let root = tempfile::tempdir().unwrap();
        for path in ["sys/devices/a", "proc/driver/tenstorrent/0", "dev/shm", "proc/12"] {
            fs::create_dir_all(root.path().join(path)).unwrap();
        }
        for path in ["sys/devices/a/tt_aiclk", "proc/driver/tenstorrent/0/pids", "dev/shm/region", "proc/12/stat"] {
            fs::write(root.path().join(path), "1\n").unwrap();
        }
        std::os::unix::fs::symlink("devices/a", root.path().join("sys/link")).unwrap();
        let files = Files::below(root.path()).unwrap();
        assert_eq!(files.count(), 3);
        assert!(files.read().is_ok());
    }
}
