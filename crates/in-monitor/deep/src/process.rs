//! The process that reads one chip. It can be left behind, because a read of a chip under reset may never return.
//!
//! The standard input is a socket. The process answers each byte with a sample, and ends when the socket is closed. Between requests it
//! checks whether another process holds the chip, to know for how long none did.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use ttmon_model::Arch;
use ttmon_model::limits::PIDS_BYTES_MAX;
use ttmon_os::time::boot_time;

use crate::client::ChipFiles;
use crate::image::Image;
use crate::kernel::Kernel;
use crate::session::{IsHeld, Session};
use crate::transport::Transport;
use crate::wire::encode;

/// The name of a reading process: its first argument and its `/proc/PID/comm`.
pub const READER_NAME: &str = "ttmon-deep";
/// The last argument, if the chip is simulated.
pub(crate) const SIMULATED: &str = "simulated";
/// Interval of the check whether a process holds the chip.
const CHECK_EVERY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
const GRACE_BYTES_MAX: usize = 64;

/// Reads a chip if this process was started for that, and returns when it is done. The program must call this first in `main`.
pub fn run_as_reader() -> Option<ExitCode> {
    let mut words = env::args_os();
    if words.next().is_none_or(|name| name != READER_NAME) {
        return None;
    }
    let is_served = arguments(words).is_some_and(|chip| serve(&chip).is_ok());
    Some(if is_served { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn arguments(mut words: impl Iterator<Item = OsString>) -> Option<ChipFiles> {
    let mut path = || words.next().map(PathBuf::from);
    let (node, pids, grace) = (path()?, path()?, path()?);
    let arch = words.next()?.to_str().and_then(Arch::from_name)?;
    let is_simulated = words.next().is_some_and(|word| word == SIMULATED);
    Some(ChipFiles { node, pids, grace, arch, is_simulated })
}

fn serve(chip: &ChipFiles) -> io::Result<()> {
    // Ctrl-C is sent to the whole foreground group. This process must end only when the other end closes the socket.
    // Both fail only if there is nothing to do: it leads a session already, or has the name.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"ttmon-deep");
    let mut stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    stream.set_nonblocking(false)?;
    let ChipFiles { node, arch, .. } = chip;
    match chip.is_simulated {
        true => answer(&mut stream, &mut Session::new(Image::new(node, *arch), *arch), chip),
        false => answer(&mut stream, &mut Session::new(Kernel::new(node, *arch), *arch), chip),
    }
}

fn answer<T: Transport>(stream: &mut UnixStream, session: &mut Session<T>, chip: &ChipFiles) -> io::Result<()> {
    loop {
        let is_pending = loop {
            match poll(&mut [PollFd::new(&*stream, PollFlags::IN)], Some(&CHECK_EVERY)) {
                Err(rustix::io::Errno::INTR) => {}
                polled => break polled? > 0,
            }
        };
        let (now, is_held) = (boot_time(), is_held(&chip.pids));
        if !is_pending {
            session.observe(now, is_held);
            continue;
        }
        if stream.read(&mut [0; 1])? == 0 {
            return Ok(());
        }
        encode(&session.sample(now, is_held, grace(&chip.grace, chip.arch))).write_to(stream)?;
    }
}

/// Returns whether the driver's list of users has a process that is not a reader. Our own device is closed at this time.
fn is_held(pids: &Path) -> IsHeld {
    let text = read_text(pids, PIDS_BYTES_MAX)?;
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    // 0 means a process of another pid namespace.
    Some(lines.any(|line| line.parse::<u32>().map_or(true, |pid| pid == 0 || !is_reader(Path::new("/proc"), pid))))
}

/// Returns the driver's time until it powers down an idle chip. Only Wormhole chips have one.
fn grace(file: &Path, arch: Arch) -> Duration {
    let millis = || read_text(file, GRACE_BYTES_MAX)?.trim().parse().ok();
    if arch == Arch::Wormhole { millis().map_or(Duration::ZERO, Duration::from_millis) } else { Duration::ZERO }
}

fn read_text(path: &Path, bytes_max: usize) -> Option<String> {
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(bytes_max as u64).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns whether a process is a reading process of a ttmon. Any process may use the name, so its program must also be a ttmon: this one,
/// or one with that file name that belongs to root or to this user. Returns false if the process cannot be examined.
pub fn is_reader(proc: &Path, pid: u32) -> bool {
    let directory = proc.join(pid.to_string());
    let has_name = read_text(&directory.join("comm"), READER_NAME.len() + 2).is_some_and(|name| name.trim_end() == READER_NAME);
    has_name && is_ttmon(&directory.join("exe")).unwrap_or(false)
}

fn is_ttmon(exe: &Path) -> io::Result<bool> {
    let (theirs, ours) = (fs::metadata(exe)?, fs::metadata("/proc/self/exe")?);
    if (theirs.dev(), theirs.ino()) == (ours.dev(), ours.ino()) {
        return Ok(true);
    }
    let is_named = fs::read_link(exe)?.file_name().is_some_and(|name| name == "ttmon");
    let is_trusted = theirs.uid() == 0 || theirs.uid() == rustix::process::geteuid().as_raw();
    Ok(is_named && is_trusted)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use ttmon_model::Missing;
    use ttmon_os::frame::FrameBuffer;

    use super::*;
    use crate::fake::Fake;
    use crate::wire::{SAMPLE_BYTES_MAX, decode};

    #[test]
    fn readers_are_recognized_by_name_and_program() {
        let directory = tempfile::tempdir().unwrap();
        let process = |pid: u32, name: &str, exe: &str| {
            let path = directory.path().join(pid.to_string());
            fs::create_dir(&path).unwrap();
            fs::write(path.join("comm"), name).unwrap();
            std::os::unix::fs::symlink(exe, path.join("exe")).unwrap();
            is_reader(directory.path(), pid)
        };
        assert!(process(1, "ttmon-deep\n", "/proc/self/exe"));
        assert!(!process(2, "ttmon\n", "/proc/self/exe"));
        assert!(!process(3, "ttmon-deeper\n", "/proc/self/exe"));
        // Another program that uses the name, and one that is gone.
        assert!(!process(4, "ttmon-deep\n", "/proc/1/nonsense"));
        assert!(!process(5, "ttmon-deep\n", "/bin/sh"));
        assert!(!is_reader(directory.path(), 6));
        let other = directory.path().join("ttmon");
        fs::write(&other, "").unwrap();
        assert!(process(7, "ttmon-deep\n", other.to_str().unwrap()));
    }

    #[test]
    fn a_list_of_readers_alone_holds_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let list = directory.path().join("pids");
        assert_eq!(is_held(&list), None);
        for (text, expected) in [("", false), ("\n", false), ("0\n", true), ("1\n", true), ("x\n", true)] {
            fs::write(&list, text).unwrap();
            assert_eq!(is_held(&list), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn only_wormhole_has_a_grace() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("grace");
        assert_eq!(grace(&file, Arch::Wormhole), Duration::ZERO);
        for (text, millis) in [("5000\n", 5000), ("0\n", 0), ("-1\n", 0), ("", 0)] {
            fs::write(&file, text).unwrap();
            assert_eq!(grace(&file, Arch::Wormhole), Duration::from_millis(millis), "{text:?}");
            assert_eq!(grace(&file, Arch::Blackhole), Duration::ZERO);
        }
    }

    #[test]
    fn each_question_is_answered_until_the_other_end_closes() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let pids = directory.path().join("pids");
        fs::write(&pids, "0\n").unwrap();
        let served = std::thread::spawn(move || {
            let chip = ChipFiles { node: "x".into(), pids, grace: "x".into(), arch: Arch::Wormhole, is_simulated: false };
            answer(&mut theirs, &mut Session::new(Fake::new(Arch::Wormhole), Arch::Wormhole), &chip)
        });
        for _ in 0..2 {
            ours.write_all(b"?").unwrap();
            let mut frame = FrameBuffer::default();
            assert_eq!(decode(frame.read_from(&mut ours, SAMPLE_BYTES_MAX).unwrap()), Some(Err(Missing::NoSource)));
        }
        drop(ours);
        served.join().unwrap().unwrap();
    }
}
