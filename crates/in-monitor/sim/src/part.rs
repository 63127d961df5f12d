//! The parts of a simulation that run in other processes, and their messages.
//!
//! A part is this program, started with `TTMON_SIM_PART` in its environment. When it is ready, it writes one byte to its standard output.
//! If it fails, it writes an error text instead. It writes nothing afterwards.

use std::env;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::str::FromStr;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::machine::Machine;
use crate::spec::Spec;
use crate::{engine, worker};

const PART: &str = "TTMON_SIM_PART";
const SPEC: &str = "TTMON_SIM_PART_SPEC";
const SEED: &str = "TTMON_SIM_PART_SEED";
const DIRECTORY: &str = "TTMON_SIM_PART_DIR";
const READY: u8 = 0x06;
/// Longer error texts are truncated.
const ERROR_BYTES_MAX: u64 = 4096;

/// Runs a part of a simulation if this process was started for that. A program that starts simulations must call this first in `main`.
pub fn run_as_part() -> Option<ExitCode> {
    let play = match env::var(PART).ok()?.as_str() {
        "engine" => engine::run,
        "worker" => worker::run,
        _ => return None,
    };
    let Err(error) = play() else { return Some(ExitCode::SUCCESS) };
    // The parent may have ended. The error is then ignored.
    let _ = write!(io::stdout(), "{error}");
    Some(ExitCode::FAILURE)
}

pub(crate) fn command(part: &str) -> Command {
    // The program's path is not used, because the file there may have been replaced.
    let mut command = Command::new("/proc/self/exe");
    command.env(PART, part);
    command
}

#[derive(Clone, Debug)]
pub(crate) struct PartSettings {
    pub(crate) spec: Spec,
    pub(crate) seed: u64,
    pub(crate) directory: PathBuf,
}

impl PartSettings {
    /// Sets the environment of a part. Parts that it starts inherit the environment.
    pub(crate) fn give_to(&self, command: &mut Command) {
        command.env(SPEC, &self.spec.text).env(SEED, self.seed.to_string()).env(DIRECTORY, &self.directory);
    }

    pub(crate) fn from_environment() -> io::Result<Self> {
        let spec = env::var(SPEC).map_err(io::Error::other)?;
        let directory = env::var_os(DIRECTORY).ok_or_else(|| io::Error::other("no directory given"))?;
        let spec = Spec::parse(&spec).map_err(io::Error::other)?;
        Ok(Self { spec, seed: number(SEED)?, directory: directory.into() })
    }

    pub(crate) fn machine(&self) -> io::Result<Machine> {
        Machine::new(&self.spec, self.seed).map_err(io::Error::other)
    }
}

/// Parses a number from the environment.
pub(crate) fn number<T: FromStr>(name: &str) -> io::Result<T> {
    let text = env::var(name).map_err(io::Error::other)?;
    text.parse().map_err(|_| io::Error::other(format!("{name} is not a number")))
}

pub(crate) fn say_ready() -> io::Result<()> {
    let mut stdout = io::stdout();
    stdout.write_all(&[READY])?;
    stdout.flush()
}

/// Waits until a part is ready. Returns its message as the error.
pub(crate) fn await_ready(mut answers: impl Read + AsFd, timeout: Duration) -> io::Result<()> {
    if !wait_readable(&answers, timeout)? {
        return Err(io::Error::other(format!("no message in {} s", timeout.as_secs())));
    }
    let mut byte = [0];
    match answers.read(&mut byte)? {
        0 => return Err(io::Error::other("it ended without a message")),
        _ if byte == [READY] => return Ok(()),
        _ => {}
    }
    let mut text = byte.to_vec();
    answers.take(ERROR_BYTES_MAX).read_to_end(&mut text)?;
    Err(io::Error::other(String::from_utf8_lossy(&text)))
}

/// Waits until the descriptor is readable or closed. Returns false on timeout.
pub(crate) fn wait_readable(fd: impl AsFd, timeout: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            // A signal, for example for a resized terminal, does not end the wait.
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(sent: &[u8]) -> Option<String> {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(sent).unwrap();
        drop(writer);
        await_ready(reader, Duration::from_secs(1)).err().map(|why| why.to_string())
    }

    #[test]
    fn a_part_is_ready_or_reports_why_not() {
        assert_eq!(receive(&[READY]), None);
        assert_eq!(receive(b"no space left").as_deref(), Some("no space left"));
        assert_eq!(receive(b"").as_deref(), Some("it ended without a message"));
        let (reader, _writer) = io::pipe().unwrap();
        let why = await_ready(reader, Duration::ZERO).err().map(|why| why.to_string());
        assert_eq!(why.as_deref(), Some("no message in 0 s"));
    }
}
