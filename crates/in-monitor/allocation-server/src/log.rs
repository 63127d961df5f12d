//! Text output to stdout and stderr. A stopped terminal or a full pipe blocks only the writing thread. Lines wait up to a limit; beyond it
//! they are dropped and counted.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use ttmon_os::time::unix_nanos;

use crate::limits::LOG_BYTES_MAX;
use crate::lines::{self, Format};

/// The log on stdout and stderr.
#[derive(Debug)]
pub struct Log {
    out: Stream,
    errors: Stream,
}

/// One output stream: the lines of this turn, and the thread that writes those of earlier turns.
#[derive(Debug)]
struct Stream {
    format: Format,
    turn: Vec<u8>,
    lines: Sender<Vec<u8>>,
    /// Bytes that the thread has received but not written.
    unwritten: Arc<AtomicUsize>,
    /// Reports that fewer bytes are unwritten.
    written: Receiver<()>,
    /// Lines that were dropped since the last line, and in all.
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
        self.out.dropped_in_all + self.errors.dropped_in_all
    }

    /// Waits until everything is written, for at most `patience`.
    pub fn finish(&mut self, patience: Duration) {
        self.flush();
        let end = Instant::now() + patience;
        for stream in [&self.out, &self.errors] {
            let is_done = || stream.unwritten.load(Ordering::Acquire) == 0;
            while !is_done() && stream.written.recv_timeout(end.saturating_duration_since(Instant::now())).is_ok() {}
        }
    }
}

impl Stream {
    fn start(thread: &str, descriptor: OwnedFd, format: Format) -> io::Result<Self> {
        let (lines, received) = channel();
        let (report, written) = sync_channel(1);
        let unwritten = Arc::new(AtomicUsize::new(0));
        let of_thread = Arc::clone(&unwritten);
        // The thread is not joined: a write may block forever.
        thread::Builder::new().name(thread.to_owned()).spawn(move || write_all(&received, &descriptor, &of_thread, &report))?;
        Ok(Self { format, turn: Vec::new(), lines, unwritten, written, dropped_lines: 0, dropped_in_all: 0 })
    }

    fn flush(&mut self) {
        if self.turn.is_empty() {
            return;
        }
        let room = LOG_BYTES_MAX.saturating_sub(self.unwritten.load(Ordering::Acquire));
        let fits = if self.turn.len() <= room { self.turn.len() } else { whole_lines(&self.turn[..room]) };
        let (kept, dropped) = self.turn.split_at(fits);
        if !kept.is_empty() {
            let mut bytes = Vec::new();
            if self.dropped_lines > 0 {
                let message = format!("⚠ {} lines were dropped: nobody read them", std::mem::take(&mut self.dropped_lines));
                lines::note(&mut bytes, self.format, unix_nanos(), "warning", &message);
            }
            bytes.extend_from_slice(kept);
            self.unwritten.fetch_add(bytes.len(), Ordering::AcqRel);
            // Fails only if the thread has panicked.
            let _ = self.lines.send(bytes);
        }
        let dropped = dropped.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.dropped_lines += dropped;
        self.dropped_in_all += dropped;
        self.turn.clear();
    }
}

/// Length of the complete lines in `bytes`.
fn whole_lines(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
}

fn write_all(lines: &Receiver<Vec<u8>>, descriptor: &OwnedFd, unwritten: &AtomicUsize, report: &SyncSender<()>) {
    while let Ok(mut bytes) = lines.recv() {
        // One write for everything that waits.
        lines.try_iter().for_each(|more| bytes.extend(more));
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
        unwritten.fetch_sub(bytes.len(), Ordering::AcqRel);
        // If the queue is full, [`Log::finish`] has a report to receive already.
        let _ = report.try_send(());
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
