//! A Unix connection that receives no descriptors, on kernels that cannot refuse them (before Linux 6.16).
//!
//! Closing the last reference to a received descriptor may take as long as its sender wants, and blocks the receiver. So no descriptor is
//! received, and a connection is closed by a separate thread.

use std::io::{self, IoSliceMut};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::thread;

use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, recvmsg};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::UnixStream;

pub(crate) struct DescriptorGuard<P: Send + 'static> {
    /// The stream, and a value that is dropped after the stream is closed. `None` only after the end.
    inner: Option<(UnixStream, P)>,
}

impl<P: Send + 'static> DescriptorGuard<P> {
    pub(crate) fn new(stream: UnixStream, slot: P) -> Self {
        Self { inner: Some((stream, slot)) }
    }

    fn stream(&mut self) -> io::Result<&mut UnixStream> {
        self.inner.as_mut().map(|(stream, _)| stream).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

/// Peeks at the input. A peeked descriptor is never the last reference.
fn peek(stream: &UnixStream) -> io::Result<()> {
    let mut none = RecvAncillaryBuffer::default();
    let seen = recvmsg(stream, &mut [IoSliceMut::new(&mut [0; 1])], &mut none, RecvFlags::DONTWAIT | RecvFlags::PEEK)?;
    if seen.flags.contains(ReturnFlags::CTRUNC) { Err(io::ErrorKind::InvalidData.into()) } else { Ok(()) }
}

impl<P: Send + Unpin + 'static> AsyncRead for DescriptorGuard<P> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let stream = self.stream()?;
        loop {
            ready!(stream.poll_read_ready(context))?;
            match stream.try_io(Interest::READABLE, || peek(stream)) {
                Ok(()) => return Pin::new(&mut *stream).poll_read(context, buffer),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl<P: Send + Unpin + 'static> AsyncWrite for DescriptorGuard<P> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(self.stream()?).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream()?).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream()?).poll_shutdown(context)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, context: &mut Context<'_>, parts: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(self.stream()?).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

impl<P: Send + 'static> Drop for DescriptorGuard<P> {
    fn drop(&mut self) {
        let Some((stream, slot)) = self.inner.take() else { return };
        let Ok(stream) = stream.into_std() else { return };
        // If no thread can be started, the stream is closed here.
        let _ = thread::Builder::new().name("close-stream".to_owned()).spawn(move || {
            drop(stream);
            drop(slot);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::mem::MaybeUninit;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream as Peer;

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    use super::*;

    fn read(send: impl FnOnce(&mut Peer)) -> io::Result<Vec<u8>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
        runtime.block_on(async {
            let (ours, mut theirs) = Peer::pair().expect("a pair");
            ours.set_nonblocking(true).expect("no waiting");
            send(&mut theirs);
            let mut guarded = DescriptorGuard::new(UnixStream::from_std(ours)?, ());
            let mut bytes = [0; 16];
            let mut buffer = ReadBuf::new(&mut bytes);
            std::future::poll_fn(|context| Pin::new(&mut guarded).poll_read(context, &mut buffer)).await?;
            Ok(buffer.filled().to_vec())
        })
    }

    #[test]
    fn bytes_are_received_and_descriptors_are_refused() {
        assert_eq!(read(|peer| peer.write_all(b"GET /").expect("a write")).expect("bytes"), b"GET /");
        let error = read(|peer| {
            let file = std::fs::File::open("/dev/null").expect("a file");
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let descriptors = [file.as_fd()];
            assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
            sendmsg(&*peer, &[io::IoSlice::new(b"GET /")], &mut control, SendFlags::empty()).expect("a message");
        });
        assert_eq!(error.map_err(|error| error.kind()), Err(io::ErrorKind::InvalidData));
    }

    /// Without data, the reader waits and then continues.
    #[test]
    fn a_reader_without_data_waits() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
        runtime.block_on(async {
            let (ours, mut theirs) = Peer::pair().expect("a pair");
            ours.set_nonblocking(true).expect("no waiting");
            let mut guarded = DescriptorGuard::new(UnixStream::from_std(ours).expect("a stream"), ());
            let writing = tokio::spawn(async move {
                tokio::task::yield_now().await;
                theirs.write_all(b"x").map(|()| theirs)
            });
            let mut bytes = [0; 4];
            let mut buffer = ReadBuf::new(&mut bytes);
            std::future::poll_fn(|context| Pin::new(&mut guarded).poll_read(context, &mut buffer)).await.expect("bytes");
            assert_eq!(buffer.filled(), b"x");
            assert!(writing.await.expect("an end").is_ok());
        });
    }
}
