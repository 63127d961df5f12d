//! Accepts connections, with limits for number, time and size. One thread serves all connections.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener as StdListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::oneshot;

use crate::access::RequestOrigin;
use crate::body::Body;
use crate::connections::{ConnectionSlot, Connections, Holder, ResponseInProgress};
use crate::descriptor_guard::DescriptorGuard;
use crate::endpoints::UnixEndpoint;
use crate::limits::{
    HEADER_BYTES_MAX, HEADER_TIMEOUT, HEADERS_MAX, RESPONSES_AT_ONCE, STORE_RESPONSES_AT_ONCE, TCP_CONNECTIONS_MAX, UNIX_CONNECTIONS_MAX,
};
use crate::routes::{self, RequestHead};
use crate::service::Service;
use crate::tls::Acceptor;
use crate::write_deadline::WriteDeadline;

pub(crate) struct Endpoints {
    pub(crate) unix: Option<UnixEndpoint>,
    pub(crate) http: Option<StdListener>,
    /// The port that serves only metrics.
    pub(crate) metrics: Option<StdListener>,
    pub(crate) tls: Option<Acceptor>,
}

/// Threads for slow documents: two for ordinary documents, and separate ones for expensive documents. More threads would only compete with
/// each other and with the sampler.
const ASIDE_THREADS: usize = 2 + RESPONSES_AT_ONCE + STORE_RESPONSES_AT_ONCE;
/// Pause after the kernel refused a connection, for example because no descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time for responses in progress when the service stops.
const STOP_TIMEOUT: Duration = Duration::from_millis(500);

/// Serves until it is stopped, or until the sender of `stop` is dropped.
pub(crate) fn run(endpoints: Endpoints, service: &Arc<Service>, stop: oneshot::Receiver<()>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(ASIDE_THREADS).build()?;
    let Endpoints { unix, http, metrics, tls } = endpoints;
    let served = runtime.block_on(async {
        if let Some(endpoint) = &unix {
            let listener = UnixListener::from_std(endpoint.listener.try_clone()?)?;
            tokio::spawn(serve_unix(listener, endpoint.refuses_descriptors, Arc::clone(service)));
        }
        if let Some(listener) = http {
            let kind = if listener.local_addr()?.ip().is_loopback() { RequestOrigin::Loopback } else { RequestOrigin::Remote };
            tokio::spawn(serve_tcp(TcpListener::from_std(listener)?, kind, tls.clone(), Arc::clone(service)));
        }
        if let Some(listener) = metrics {
            tokio::spawn(serve_tcp(TcpListener::from_std(listener)?, RequestOrigin::Metrics, tls, Arc::clone(service)));
        }
        // A sender that was dropped also stops the server.
        let _ = stop.await;
        Ok(())
    });
    runtime.shutdown_timeout(STOP_TIMEOUT);
    served
}

async fn serve_unix(listener: UnixListener, refuses_descriptors: bool, service: Arc<Service>) {
    let connections = Connections::new(UNIX_CONNECTIONS_MAX);
    loop {
        match listener.accept().await {
            // A client that cannot be identified has the least permissions.
            Ok((stream, _)) => {
                let uid = stream.peer_cred().map_or(u32::MAX, |peer| peer.uid());
                let slot = admit(&connections, Holder::User(uid), &service).await;
                let (origin, service) = (RequestOrigin::Unix(uid), Arc::clone(&service));
                if refuses_descriptors {
                    tokio::spawn(async move { slot.run_until_evicted(serve_connection(stream, origin, service, Arc::clone(&slot))).await });
                } else {
                    let stream = DescriptorGuard::new(stream, Arc::clone(&slot));
                    tokio::spawn(async move { slot.run_until_evicted(serve_connection(stream, origin, service, Arc::clone(&slot))).await });
                }
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn serve_tcp(listener: TcpListener, origin: RequestOrigin, tls: Option<Acceptor>, service: Arc<Service>) {
    let connections = Connections::new(TCP_CONNECTIONS_MAX);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Without it, responses are only slower.
                let _ = stream.set_nodelay(true);
                let slot = admit(&connections, peer.ip().into(), &service).await;
                let (service, tls) = (Arc::clone(&service), tls.clone());
                tokio::spawn(async move {
                    let serving = async {
                        match tls {
                            None => serve_connection(stream, origin, service, Arc::clone(&slot)).await,
                            Some(acceptor) => {
                                if let Some(stream) = acceptor.accept(stream).await {
                                    serve_connection(stream, origin, service, Arc::clone(&slot)).await;
                                }
                            }
                        }
                    };
                    slot.run_until_evicted(serving).await
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn admit(connections: &Arc<Connections>, holder: Holder, service: &Service) -> Arc<ConnectionSlot> {
    let (slot, has_evicted) = connections.admit(holder).await;
    if has_evicted {
        service.counters.evictions.add_one();
    }
    Arc::new(slot)
}

/// Serves one connection until it ends or takes too long.
async fn serve_connection<S: AsyncRead + AsyncWrite + Unpin + Send>(
    stream: S,
    origin: RequestOrigin,
    service: Arc<Service>,
    slot: Arc<ConnectionSlot>,
) {
    let _open = service.counters.connections.hold();
    let stream = WriteDeadline::new(stream, Arc::clone(&service));
    let is_request_pending = stream.is_request_pending();
    let responding = service_fn(|request| reply(request, origin, Arc::clone(&service), slot.begin_response()));
    let connection = protocol().serve_connection(TokioIo::new(stream), responding);
    // The header timeout also runs while the client sends no further request. That is not slow.
    if connection.await.is_err_and(|error| error.is_timeout()) && is_request_pending.load(Ordering::Relaxed) {
        service.counters.slow.add_one();
    }
}

/// Returns the settings of HTTP, with limits on the header of a request.
pub(crate) fn protocol() -> http1::Builder {
    let mut protocol = http1::Builder::new();
    protocol.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(HEADER_BYTES_MAX).max_headers(HEADERS_MAX);
    protocol
}

async fn reply(
    request: Request<Incoming>,
    origin: RequestOrigin,
    service: Arc<Service>,
    in_progress: ResponseInProgress,
) -> Result<Response<Body>, Infallible> {
    let uri = request.uri();
    let head = RequestHead {
        origin,
        holder: in_progress.holder(),
        authority: uri.authority().map(hyper::http::uri::Authority::as_str),
        method: request.method(),
        path: uri.path(),
        query: uri.query().unwrap_or_default(),
        headers: request.headers(),
        has_body: !request.body().is_end_stream(),
    };
    Ok(routes::respond(&service, head).await.map(|body| body.during(in_progress)))
}

/// Returns the response of a service with these options to a connection from this host that sends these bytes and ends. For the fuzzer;
/// uses a tokio clock that does not wait.
#[cfg(fuzzing)]
pub fn response_bytes(options: crate::Options, input: &[u8]) -> Vec<u8> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    const LONGEST: Duration = Duration::from_secs(60);

    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let service = Arc::new(Service::new(options, None, None));
        let (ours, mut theirs) = duplex(1 << 20);
        let slot = Arc::new(Connections::new(1).admit(Holder::Loopback).await.0);
        let serving = tokio::spawn(serve_connection(ours, RequestOrigin::Loopback, service, slot));
        let mut response = Vec::new();
        // A connection that the server closes early is a valid response.
        let exchange = async {
            let _ = theirs.write_all(input).await;
            let _ = theirs.shutdown().await;
            let _ = theirs.read_to_end(&mut response).await;
        };
        let _ = tokio::time::timeout(LONGEST, exchange).await;
        serving.abort();
        if let Err(error) = serving.await {
            assert!(error.is_cancelled(), "{error}");
        }
        response
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    /// Returns how many connections were closed as slow after a client behaved like this. Time advances automatically while no task runs.
    fn cut_off<F: Future<Output = DuplexStream>>(peer: impl FnOnce(DuplexStream) -> F) -> u64 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        runtime.block_on(async {
            let service = Arc::new(crate::fixture::service());
            let (ours, theirs) = duplex(256);
            let slot = Arc::new(Connections::new(1).admit(Holder::Loopback).await.0);
            let serving = tokio::spawn(serve_connection(ours, RequestOrigin::Loopback, Arc::clone(&service), slot));
            let _theirs = peer(theirs).await;
            serving.await.expect("an end");
            service.counters.slow.get()
        })
    }

    async fn asks(mut peer: DuplexStream, request: &str) -> DuplexStream {
        peer.write_all(request.as_bytes()).await.expect("a request");
        peer
    }

    async fn takes(mut peer: DuplexStream, bytes: usize) -> DuplexStream {
        peer.read_exact(&mut vec![0; bytes]).await.expect("an answer");
        peer
    }

    const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const LARGE: &str = "GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";

    #[test]
    fn a_client_that_takes_no_answer_is_cut_off() {
        assert_eq!(cut_off(|peer| asks(peer, LARGE)), 1);
        let a_little = |peer| async { takes(asks(peer, LARGE).await, 1000).await };
        assert_eq!(cut_off(a_little), 1);
    }

    #[test]
    fn a_client_that_does_not_end_its_request_is_cut_off() {
        assert_eq!(cut_off(|peer| asks(peer, "GET /healthz HTTP/1.1\r\nHo")), 1);
    }

    /// A scraper that connects once a minute keeps its connection open. Closing it is not counted as slow.
    #[test]
    fn an_idle_client_is_not_slow() {
        assert_eq!(cut_off(|peer| async { takes(asks(peer, HEALTH).await, 17).await }), 0);
        assert_eq!(cut_off(|peer| async { peer }), 0);
    }
}
