//! A small text service over plain HTTP: lists of hosts. It has no users and no secrets.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener as StdListener;
use std::sync::Arc;

use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::body::Body;
use crate::http::protocol;
use crate::limits::TEXT_CONNECTIONS_MAX;

/// A response.
#[derive(Clone, Debug)]
pub struct TextResponse {
    /// Content type.
    pub content_type: &'static str,
    /// Its bytes.
    pub body: Vec<u8>,
}

/// Responds to requests on a port until the program ends. `find` gets a path, and returns `None` if it does not exist.
pub fn serve_texts(listener: StdListener, find: impl Fn(&str) -> Option<TextResponse> + Send + Sync + 'static) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let find = Arc::new(find);
    let slots = Arc::new(Semaphore::new(TEXT_CONNECTIONS_MAX));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener)?;
        loop {
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return Ok(()) };
            let Ok((stream, _)) = listener.accept().await else { continue };
            let find = Arc::clone(&find);
            tokio::spawn(async move {
                let _slot = slot;
                let reply = service_fn(|request| {
                    let response = respond(&request, &*find);
                    async move { Ok::<_, Infallible>(response) }
                });
                // A client may disconnect at any time.
                let _ = protocol().serve_connection(TokioIo::new(stream), reply).await;
            });
        }
    })
}

fn respond(request: &Request<Incoming>, find: &dyn Fn(&str) -> Option<TextResponse>) -> Response<Body> {
    let text = |status: StatusCode, text: String| {
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = status;
        response
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n".to_owned());
    }
    match find(request.uri().path()) {
        None => text(StatusCode::NOT_FOUND, "no such path\n".to_owned()),
        Some(TextResponse { content_type, body }) => {
            let mut response = Response::new(Body::from(Bytes::from(body)));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            response
        }
    }
}
