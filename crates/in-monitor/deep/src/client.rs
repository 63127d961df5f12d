//! Starts the reading processes and requests samples from them.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ttmon_model::deep::DeepSample;
use ttmon_model::{Arch, Missing, Reading};
use ttmon_os::frame::FrameBuffer;

use crate::process::{READER_NAME, SIMULATED};
use crate::wire::{SAMPLE_BYTES_MAX, decode};

/// A reading process that ended unexpectedly is started again after this time.
const RESTART_AFTER: Duration = Duration::from_secs(10);
/// Additional time for the first answer, because the process has to start.
const START: Duration = Duration::from_secs(1);

/// The paths and properties of a chip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChipFiles {
    /// The device node.
    pub node: PathBuf,
    /// The driver's list of processes that use the chip.
    pub pids: PathBuf,
    /// The driver's file with the time until it powers down an idle chip.
    pub grace: PathBuf,
    /// The architecture.
    pub arch: Arch,
    /// Whether the node is an [image](crate::image) of a simulated chip.
    pub is_simulated: bool,
}

/// The reading processes, one for each chip.
#[derive(Debug)]
pub struct Readers {
    program: PathBuf,
    timeout: Duration,
    readers: BTreeMap<PathBuf, Reader>,
}

impl Readers {
    /// Creates readers that run `program`. Its `main` must call [`run_as_reader`](crate::run_as_reader). No reader is started yet.
    pub fn new(program: PathBuf, timeout: Duration) -> Self {
        Self { program, timeout, readers: BTreeMap::new() }
    }

    /// Samples these chips, all at the same time. A chip that does not answer in time is `timeout`, and gets no further request until it
    /// answers. Readers of other chips end.
    pub fn sample(&mut self, chips: &[ChipFiles]) -> Vec<Reading<DeepSample>> {
        let start = Instant::now();
        self.readers.retain(|node, reader| chips.iter().any(|chip| chip.node == *node && chip.arch == reader.chip.arch));
        for chip in chips {
            let reader =
                self.readers.entry(chip.node.clone()).or_insert_with(|| Reader { chip: chip.clone(), running: None, failed: None });
            reader.request(&self.program);
        }
        let answer = |chip: &ChipFiles| match self.readers.get_mut(&chip.node) {
            Some(reader) => reader.take(start, self.timeout),
            None => Err(Missing::IoError),
        };
        chips.iter().map(answer).collect()
    }
}

#[derive(Debug)]
struct Reader {
    chip: ChipFiles,
    running: Option<Running>,
    failed: Option<Instant>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    stream: UnixStream,
    /// Whether a request has no answer yet.
    is_pending: bool,
    /// Whether the request belongs to an earlier sample, so that its answer is dropped.
    is_late: bool,
    answer: FrameBuffer,
    has_answered: bool,
}

impl Reader {
    fn request(&mut self, program: &Path) {
        if self.running.is_none() && self.failed.is_none_or(|at| at.elapsed() >= RESTART_AFTER) {
            // If that fails, the readings have an I/O error as reason, and it is started again later.
            self.running = Running::start(program, &self.chip).ok();
            self.failed = self.running.is_none().then(Instant::now);
        }
        let Some(running) = &mut self.running else { return };
        running.is_late = running.is_pending;
        if !running.is_pending {
            running.is_pending = running.stream.write_all(b"?").is_ok();
        }
    }

    fn take(&mut self, start: Instant, timeout: Duration) -> Reading<DeepSample> {
        let Some(running) = &mut self.running else { return Err(Missing::IoError) };
        let timeout = match () {
            () if running.is_late => Duration::ZERO,
            () if running.has_answered => timeout,
            () => timeout + START,
        };
        match running.take(start, timeout) {
            Ok(Some(sample)) => sample,
            Ok(None) => Err(Missing::Timeout),
            Err(_) => {
                self.running = None;
                self.failed = Some(Instant::now());
                Err(Missing::IoError)
            }
        }
    }
}

impl Running {
    /// Starts a process that inherits no open file of this one. This is safe at any time, even if this program has threads.
    fn start(program: &Path, chip: &ChipFiles) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new(program);
        command.arg0(READER_NAME).args([&chip.node, &chip.pids, &chip.grace]).arg(chip.arch.name());
        command.args(chip.is_simulated.then_some(SIMULATED));
        command.env_clear().stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self {
            child: command.spawn()?,
            stream: ours,
            is_pending: false,
            is_late: false,
            answer: FrameBuffer::default(),
            has_answered: false,
        })
    }

    /// Returns the answer, if it arrives in time. An error means that the process cannot be used any more.
    fn take(&mut self, start: Instant, timeout: Duration) -> io::Result<Option<Reading<DeepSample>>> {
        if !self.is_pending {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        // A socket does not accept a timeout of zero. If the time is over, one last read is tried.
        let left = timeout.saturating_sub(start.elapsed()).max(Duration::from_millis(1));
        self.stream.set_read_timeout(Some(left))?;
        // An answer is written in one piece and fits into the socket, so it is read as a whole or not at all.
        match self.answer.read_from(&mut self.stream, SAMPLE_BYTES_MAX) {
            Ok(sample) => {
                (self.is_pending, self.has_answered) = (false, true);
                decode(sample).map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Running {
    /// A healthy process ends at once. It is waited for, so that it leaves no zombie. A stuck one is left behind.
    fn drop(&mut self) {
        // Both fail only if it has already ended.
        let _ = self.stream.shutdown(Shutdown::Both);
        let _ = if self.is_pending { self.child.try_wait() } else { self.child.wait().map(Some) };
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

    use super::*;

    fn chip(directory: &Path) -> ChipFiles {
        ChipFiles {
            node: directory.join("0"),
            pids: directory.join("pids"),
            grace: directory.join("grace"),
            arch: Arch::Wormhole,
            is_simulated: false,
        }
    }

    /// Creates readers with a shell script in place of the reading process. Its standard input is the socket.
    fn readers(directory: &Path, script: &str) -> Readers {
        use std::os::unix::fs::PermissionsExt;
        let program = directory.join("program");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        Readers::new(program, Duration::from_millis(300))
    }

    #[test]
    fn a_process_that_ends_is_an_error_and_is_not_started_again_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let mut readers = readers(directory.path(), "echo x >> $1.starts; exit 1");
        let chip = chip(directory.path());
        for _ in 0..3 {
            assert_eq!(readers.sample(std::slice::from_ref(&chip)), [Err(Missing::IoError)]);
        }
        let starts = std::fs::read_to_string(directory.path().join("0.starts")).unwrap_or_default();
        assert!(starts.len() <= 2, "{starts:?}");
    }

    #[test]
    fn a_process_that_cannot_be_started_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let mut readers = Readers::new(directory.path().join("absent"), Duration::from_millis(100));
        assert_eq!(readers.sample(&[chip(directory.path())]), [Err(Missing::IoError)]);
    }

    #[test]
    fn a_process_that_hangs_is_a_timeout_and_is_left_behind() {
        let directory = tempfile::tempdir().unwrap();
        let mut readers = readers(directory.path(), "exec sleep 30");
        let chip = chip(directory.path());
        assert_eq!(readers.sample(std::slice::from_ref(&chip)), [Err(Missing::Timeout)]);
        assert_eq!(readers.sample(&[chip]), [Err(Missing::Timeout)]);
        let running = readers.readers.values_mut().find_map(|reader| reader.running.as_mut()).unwrap();
        let process = Pid::from_child(&running.child);
        drop(readers);
        kill_process(process, Signal::KILL).expect("it still runs");
        waitpid(Some(process), WaitOptions::empty()).expect("a child of ours");
    }

    #[test]
    fn an_answer_that_is_nonsense_ends_the_process() {
        let directory = tempfile::tempdir().unwrap();
        let mut readers = readers(directory.path(), r"printf '\377\377\377\377' >&0; exec sleep 30");
        assert_eq!(readers.sample(&[chip(directory.path())]), [Err(Missing::IoError)]);
    }
}
