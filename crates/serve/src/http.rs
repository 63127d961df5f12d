//! Connections: how many, how slow, how large. One thread serves them all.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Semaphore, oneshot};

use crate::access::Door;
use crate::body::Body;
use crate::doors::{TcpDoor, UnixDoor};
use crate::guarded::Guarded;
use crate::limits::{HEADER_BYTES_MAX, HEADER_TIMEOUT, HEADERS_MAX, TCP_CONNECTIONS_MAX, TURNS_AT_ONCE, UNIX_CONNECTIONS_MAX};
use crate::patience::Patient;
use crate::routes::{self, Question};
use crate::service::Service;
use crate::tls::Acceptor;

/// Where to listen.
pub(crate) struct Doors {
    pub(crate) unix: Option<UnixDoor>,
    pub(crate) tcp: Option<TcpDoor>,
    pub(crate) tls: Option<Acceptor>,
}

/// Threads for documents that take their time, two for those that cost little and those that cost much have their own. More would only
/// wait for each other, and the sampler with them.
const ASIDE_THREADS: usize = 2 + TURNS_AT_ONCE;
/// After the kernel refused a connection, descriptors being used up for one.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long answers that are on their way may take when the service stops.
const STOP_TIMEOUT: Duration = Duration::from_millis(500);

/// Serves until told to stop, or whoever could tell is gone.
pub(crate) fn run(doors: Doors, service: &Arc<Service>, stop: oneshot::Receiver<()>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(ASIDE_THREADS).build()?;
    let Doors { unix, tcp, tls } = doors;
    let served = runtime.block_on(async {
        if let Some(door) = &unix {
            let listener = UnixListener::from_std(door.listener.try_clone()?)?;
            tokio::spawn(serve_unix(listener, door.refuses_descriptors, Arc::clone(service)));
        }
        if let Some(door) = &tcp {
            let listener = TcpListener::from_std(door.listener.try_clone()?)?;
            let kind = if door.address().ip().is_loopback() { Door::Loopback } else { Door::Remote };
            tokio::spawn(serve_tcp(listener, kind, tls, Arc::clone(service)));
        }
        let _ = stop.await;
        Ok(())
    });
    runtime.shutdown_timeout(STOP_TIMEOUT);
    served
}

async fn serve_unix(listener: UnixListener, refuses_descriptors: bool, service: Arc<Service>) {
    let places = Arc::new(Semaphore::new(UNIX_CONNECTIONS_MAX));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            // A peer that cannot be told is nobody, who sees least.
            Ok((stream, _)) => {
                let uid = stream.peer_cred().map_or(u32::MAX, |peer| peer.uid());
                let (door, service) = (Door::Unix(uid), Arc::clone(&service));
                if refuses_descriptors {
                    tokio::spawn(converse(stream, door, service, place));
                } else {
                    tokio::spawn(converse(Guarded::new(stream, place), door, service, ()));
                }
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn serve_tcp(listener: TcpListener, door: Door, tls: Option<Acceptor>, service: Arc<Service>) {
    let places = Arc::new(Semaphore::new(TCP_CONNECTIONS_MAX));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let _ = stream.set_nodelay(true);
                let service = Arc::clone(&service);
                match tls.clone() {
                    None => drop(tokio::spawn(converse(stream, door, service, place))),
                    Some(acceptor) => drop(tokio::spawn(async move {
                        if let Some(stream) = acceptor.accept(stream).await {
                            converse(stream, door, service, place).await;
                        }
                    })),
                }
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// One connection, until it ends or takes too long.
async fn converse<S: AsyncRead + AsyncWrite + Unpin + Send>(stream: S, door: Door, service: Arc<Service>, _place: impl Send) {
    let _open = service.counters.connection();
    let stream = TokioIo::new(Patient::new(stream, Arc::clone(&service)));
    let answering = service_fn(|request| reply(request, door, Arc::clone(&service)));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADER_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(stream, answering);
    if connection.await.is_err_and(|error| error.is_timeout()) {
        service.counters.slow.add_one();
    }
}

async fn reply(request: Request<Incoming>, door: Door, service: Arc<Service>) -> Result<Response<Body>, Infallible> {
    let uri = request.uri();
    let question = Question {
        door,
        authority: uri.authority().map(hyper::http::uri::Authority::as_str),
        method: request.method(),
        path: uri.path(),
        query: uri.query().unwrap_or_default(),
        headers: request.headers(),
    };
    Ok(routes::answer(&service, question).await)
}
