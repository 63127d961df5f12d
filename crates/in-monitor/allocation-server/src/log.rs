//! Text output to stdout and stderr. A stopped terminal or a full pipe blocks only the writing thread. Lines wait up to a limit; beyond it
//! they are dropped and counted.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::limits::LOG_BYTES_MAX;
use crate::lines::{self, Format};
use crate::work::unix_ns;

/// The log on stdout and stderr.
#[derive(Debug)]
pub struct Log {
    out: Stream,
    errors: Stream,
}

/// One output stream: the lines of this turn, and those that wait for the writing thread.
#[derive(Debug)]
struct Stream {
    format: Format,
    turn: Vec<u8>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// Signals that there is something to write, or that everything is written.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// Bytes that the thread has taken but not written.
    under_way: usize,
    dropped_lines: u64,
    dropped_in_all: u64,
}

impl Log {
    /// Starts a thread for each descriptor.
    pub fn start(out: OwnedFd, errors: OwnedFd, format: Format) -> io::Result<Self> {
        Ok(Self { out: Stream::start("log-out", out, format)?, errors: Stream::start("log-errors", errors, format)? })
    }

    /// The format of the lines.
    pub fn format(&self) -> Format {
        self.out.format
    }

    /// The buffer for stdout, sent with the next [`Log::flush`].
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out.turn
    }

    /// The buffer for stderr, sent with the next [`Log::flush`].
    pub fn errors(&mut self) -> &mut Vec<u8> {
        &mut self.errors.turn
    }

    /// Passes the lines of this turn to the threads.
    pub fn flush(&mut self) {
        self.out.flush();
        self.errors.flush();
    }

    /// Number of lines dropped so far.
    pub fn dropped(&self) -> u64 {
        self.out.shared.lock().dropped_in_all + self.errors.shared.lock().dropped_in_all
    }

    /// Waits until everything is written, for at most `patience`.
    pub fn finish(&mut self, patience: Duration) {
        self.flush();
        let end = Instant::now() + patience;
        for stream in [&self.out, &self.errors] {
            let mut waiting = stream.shared.lock();
            while waiting.under_way > 0 || !waiting.bytes.is_empty() {
                let rest = end.saturating_duration_since(Instant::now());
                if rest.is_zero() {
                    break;
                }
                waiting = stream.shared.changed.wait_timeout(waiting, rest).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stream {
    fn start(thread: &str, descriptor: OwnedFd, format: Format) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        // The thread is not joined: a write may block forever.
        thread::Builder::new().name(thread.to_owned()).spawn(move || write_all(&of_thread, &descriptor))?;
        Ok(Self { format, turn: Vec::new(), shared })
    }

    fn flush(&mut self) {
        if self.turn.is_empty() {
            return;
        }
        let mut waiting = self.shared.lock();
        let room = LOG_BYTES_MAX.saturating_sub(waiting.bytes.len() + waiting.under_way);
        let fits = if self.turn.len() <= room { self.turn.len() } else { whole_lines(&self.turn[..room]) };
        if waiting.dropped_lines > 0 && fits > 0 {
            let count = std::mem::take(&mut waiting.dropped_lines);
            let message = format!("⚠ {count} lines were dropped: nobody read them");
            lines::note(&mut waiting.bytes, self.format, unix_ns(), "warning", &message);
        }
        let (kept, dropped) = self.turn.split_at(fits);
        waiting.bytes.extend_from_slice(kept);
        let lines = dropped.iter().filter(|byte| **byte == b'\n').count() as u64;
        waiting.dropped_lines += lines;
        waiting.dropped_in_all += lines;
        self.turn.clear();
        self.shared.changed.notify_all();
    }
}

/// Length of the complete lines in `bytes`.
fn whole_lines(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
}

fn write_all(shared: &Shared, descriptor: &OwnedFd) {
    let mut bytes = Vec::new();
    loop {
        {
            let mut waiting = shared.lock();
            waiting.under_way = 0;
            shared.changed.notify_all();
            while waiting.bytes.is_empty() {
                waiting = shared.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
            bytes.clear();
            std::mem::swap(&mut bytes, &mut waiting.bytes);
            waiting.under_way = bytes.len();
        }
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            match rustix::io::write(descriptor, rest) {
                Ok(written) => rest = &rest[written..],
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => thread::sleep(Duration::from_millis(10)),
                // The reader has closed the pipe, or the disk is full. These lines are lost; later ones may not be.
                Err(_) => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn pipes(format: Format) -> (Log, io::PipeReader, io::PipeReader) {
        let (out, out_end) = io::pipe().expect("pipe");
        let (errors, errors_end) = io::pipe().expect("pipe");
        (Log::start(out_end.into(), errors_end.into(), format).expect("threads"), out, errors)
    }

    #[test]
    fn lines_come_out_in_order() {
        let (mut log, mut out, mut errors) = pipes(Format::Text);
        log.out().extend_from_slice(b"one\n");
        log.errors().extend_from_slice(b"bad\n");
        log.flush();
        log.out().extend_from_slice(b"two\n");
        log.finish(Duration::from_secs(5));
        let mut text = [0; 8];
        out.read_exact(&mut text).expect("both");
        assert_eq!(&text, b"one\ntwo\n");
        errors.read_exact(&mut text[..4]).expect("one");
        assert_eq!(&text[..4], b"bad\n");
    }

    #[test]
    fn lines_that_are_not_read_are_dropped_and_counted() {
        let (mut log, mut out, _errors) = pipes(Format::Json);
        let line = [b'x'; 1023];
        for _ in 0..LOG_BYTES_MAX / 1024 + 200 {
            log.out().extend_from_slice(&line);
            log.out().push(b'\n');
            log.flush();
        }
        let dropped = log.dropped();
        assert!((100..=200).contains(&dropped), "{dropped}");
        // If a turn exceeds the remaining space, as many lines as fit are kept.
        let (mut other, _out, _errors) = pipes(Format::Text);
        (0..LOG_BYTES_MAX / 1024 + 200).for_each(|_| other.out().extend_from_slice(&[&line[..], b"\n"].concat()));
        other.flush();
        assert_eq!(other.dropped(), 200);
        // With a reader the log continues and reports the number of dropped lines.
        let reader = thread::spawn(move || {
            let mut text = Vec::new();
            let mut chunk = [0; 65536];
            while !text.ends_with(b"the end\n") {
                let length = out.read(&mut chunk).expect("pipe");
                text.extend_from_slice(&chunk[..length]);
            }
            String::from_utf8_lossy(&text).into_owned()
        });
        log.finish(Duration::from_secs(5));
        log.out().extend_from_slice(b"the end\n");
        log.finish(Duration::from_secs(5));
        let text = reader.join().expect("text");
        let line_found = text.lines().find(|line| line.contains(&format!("⚠ {dropped} lines were dropped")));
        assert!(line_found.is_some_and(|line| line.starts_with("{\"time\":") && line.ends_with('}')), "{line_found:?}");
    }
}
