//! A connection with a time limit for clients that do not read their responses.
//!
//! The time spent waiting for a client is added up. Bytes that the client reads reduce this time at the minimum rate. So a client that
//! reads a few bytes now and then is treated like one that reads nothing, and a stream with few writes never exceeds the limit.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::limits::{WRITE_BYTES_PER_S_MIN, WRITE_TIMEOUT};
use crate::service::Service;

pub(crate) struct WriteDeadline<S> {
    stream: S,
    service: Arc<Service>,
    /// Since when the client reads nothing, and the timer of its deadline. `None` while it reads.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
    debt: OverdueTime,
    /// Whether data arrived that was not answered yet.
    is_request_pending: Arc<AtomicBool>,
}

/// Time spent waiting for a client, minus the time for the bytes that it read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OverdueTime(Duration);

impl OverdueTime {
    fn waited(&mut self, time: Duration) {
        self.0 += time;
    }

    fn took(&mut self, bytes: usize) {
        self.0 = self.0.saturating_sub(Duration::from_secs_f64(bytes as f64 / WRITE_BYTES_PER_S_MIN));
    }

    /// Returns the time until the deadline.
    fn left(self) -> Duration {
        WRITE_TIMEOUT.saturating_sub(self.0)
    }
}

impl<S> WriteDeadline<S> {
    pub(crate) fn new(stream: S, service: Arc<Service>) -> Self {
        Self { stream, service, waiting: None, debt: OverdueTime::default(), is_request_pending: Arc::default() }
    }

    /// Whether the client began a request that has no response yet. A client that only keeps a connection open is not slow.
    pub(crate) fn is_request_pending(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_request_pending)
    }

    fn check<T>(&mut self, context: &mut Context<'_>, poll: Poll<io::Result<T>>, bytes: impl Fn(&T) -> usize) -> Poll<io::Result<T>> {
        if let Poll::Ready(result) = &poll {
            let taken = result.as_ref().map_or(0, bytes);
            if taken > 0 {
                self.is_request_pending.store(false, Ordering::Relaxed);
            }
            self.waiting.take().into_iter().for_each(|(since, _)| self.debt.waited(since.elapsed()));
            self.debt.took(taken);
            return poll;
        }
        let left = self.debt.left();
        let (_, waiting) = self.waiting.get_or_insert_with(|| (Instant::now(), Box::pin(sleep(left))));
        if waiting.as_mut().poll(context).is_ready() {
            // Reset the timer, because polling it again after it has expired would panic, and the connection may be polled again before it
            // ends.
            waiting.as_mut().reset(Instant::now() + WRITE_TIMEOUT);
            self.service.counters.slow.add_one();
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteDeadline<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let poll = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.is_request_pending.store(true, Ordering::Relaxed);
        }
        poll
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteDeadline<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check(context, poll, |written| *written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_flush(context);
        self.check(context, poll, |()| 0)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_shutdown(context);
        self.check(context, poll, |()| 0)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, context: &mut Context<'_>, parts: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.check(context, poll, |written| *written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the seconds until a client is cut off that reads this many bytes per interval, or `None` if it is not cut off within an
    /// hour.
    fn cut_off_after(bytes: usize, every: u64) -> Option<u64> {
        let mut debt = OverdueTime::default();
        let mut seconds = 0;
        while seconds < 3600 {
            if debt.left() < Duration::from_secs(every) {
                return Some(seconds + debt.left().as_secs());
            }
            debt.waited(Duration::from_secs(every));
            debt.took(bytes);
            seconds += every;
        }
        None
    }

    #[test]
    fn a_client_that_reads_slowly_is_cut_off() {
        assert_eq!(cut_off_after(0, 3), Some(10));
        assert_eq!(cut_off_after(1, 9), Some(10));
        assert!(cut_off_after(256 * 1024, 3).is_some_and(|seconds| seconds < 20));
        assert_eq!(cut_off_after(1024 * 1024, 3), None);
        assert_eq!(cut_off_after(64 * 1024 * 1024, 9), None);
    }
}
