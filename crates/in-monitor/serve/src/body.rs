//! Bodies of HTTP responses: complete bytes, or a stream.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Bytes, Frame, SizeHint};
use tokio::sync::mpsc;

use crate::connections::ResponseInProgress;

#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) content: Content,
    /// Its response is in progress until the body is dropped.
    _in_progress: Option<ResponseInProgress>,
}

#[derive(Debug)]
pub(crate) enum Content {
    Whole(Option<Bytes>),
    Stream(mpsc::Receiver<Bytes>),
}

impl Body {
    pub(crate) fn stream(parts: mpsc::Receiver<Bytes>) -> Self {
        Self { content: Content::Stream(parts), _in_progress: None }
    }

    pub(crate) fn during(self, response: ResponseInProgress) -> Self {
        Self { _in_progress: Some(response), ..self }
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::from(Bytes::from(text))
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self { content: Content::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())), _in_progress: None }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.get_mut().content {
            Content::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Content::Stream(parts) => parts.poll_recv(context).map(|part| part.map(|part| Ok(Frame::data(part)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.content, Content::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Content::Stream(_) => SizeHint::default(),
        }
    }
}
