//! The service of one host: a sampler, its history, and an API to read them, on a Unix socket and over HTTP.
//!
//! ```text
//!  devices ──► sampler ──► newest snapshot ──┬─► /api/v1, /metrics    at any number of readers, none of which
//!              (thread)    history           ├─► streams of events     touches the machine
//!                                            └─► alerts (thread) ──► receivers (a thread each)
//!  processes ──► scan ──► sampler
//!                (thread)
//! ```
//!
//! [`Host::prepare`] opens the machine and the sockets, and forks the reading processes. It must be called before any thread is started.
//! [`Host::start`] starts the threads: the sampler, the scan, the alerts, and the HTTP server; [`Running::stop`] ends them. This is the
//! only crate that uses async, and only inside [`Host::start`].

mod access;
mod alerting;
mod body;
mod chips;
mod connections;
mod deltas;
mod descriptor_guard;
mod ended_processes;
mod endpoints;
#[cfg(test)]
mod fixture;
mod history;
mod http;
mod limits;
mod metrics;
mod newest;
mod page;
mod problem;
mod response_queue;
mod routes;
mod sampler;
mod scans;
mod service;
mod service_events;
mod shares;
mod texts;
mod tls;
mod write_deadline;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use ttmon_allocation_server::Handle;
use ttmon_collect::reads::descriptors;
use ttmon_collect::{DeviceReader, Error, Machine, Root, Scanner};

pub use access::{Token, TokenError};
pub use alerting::{SILENCES, deliver};
#[cfg(fuzzing)]
pub use http::response_bytes;
pub use metrics::Detail as MetricsDetail;
pub use page::report_page;
pub use routes::{fields_document as fields, mesh_document as mesh};
pub use texts::{TextResponse, serve_texts};

use endpoints::{UnixEndpoint, may_listen, open_tcp};
use http::Endpoints;
use metrics::PageAddress;
use service::Service;
use ttmon_os::bound_socket::of_pid;

/// Options of the service.
#[derive(Debug)]
pub struct Options {
    /// Version of the program.
    pub version: &'static str,
    /// The sample interval.
    pub interval: Duration,
    /// Whether other hosts may connect.
    pub allow_remote: bool,
    /// The token that gives access to all data.
    pub token: Option<Token>,
    /// Files of the certificate and the key for HTTPS.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// How many series the metrics have.
    pub metrics_detail: MetricsDetail,
    /// Whether there are metrics per process, except at the endpoint for metrics.
    pub process_metrics: bool,
    /// State directory of the allocation socket, if there is one. /readyz reports when it is full. It also has the silences.
    pub state: Option<PathBuf>,
    /// The store with data of other hosts.
    pub fleet: Option<ttmon_hosts::fleet::Store>,
    /// Alert rules and receivers.
    pub alerts: ttmon_alerts::Config,
    /// Prints one line for the administrator.
    pub complain: fn(&str),
}

/// The sockets of the service.
#[derive(Debug, Default)]
pub struct Sockets {
    /// The Unix socket of the API.
    pub api: Option<Socket<PathBuf, UnixListener>>,
    /// The HTTP server.
    pub http: Option<Socket<SocketAddr, TcpListener>>,
    /// Serves only metrics, to every host.
    pub metrics: Option<Socket<SocketAddr, TcpListener>>,
}

/// A socket to open, or one that the service manager opened.
#[derive(Debug)]
pub enum Socket<A, L> {
    /// The address to listen at.
    At(A),
    /// The listener.
    Inherited(L),
}

impl Socket<SocketAddr, TcpListener> {
    fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::At(address) => Ok(*address),
            Self::Inherited(listener) => listener.local_addr(),
        }
    }

    fn open(self) -> Result<TcpListener, StartError> {
        match self {
            Self::At(address) => open_tcp(address),
            Self::Inherited(listener) => Ok(listener.set_nonblocking(true).map(|()| listener)?),
        }
    }
}

/// Why the service cannot start.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the texts document the causes")]
pub enum StartError {
    #[error(transparent)]
    Machine(#[from] Error),
    #[error(
        "--listen {0}: other hosts could read this host's processes there; it takes {1} too, or a proxy with TLS in front of 127.0.0.1"
    )]
    Exposed(SocketAddr, String),
    #[error("cannot serve HTTPS: {0}: {1}")]
    Certificate(PathBuf, String),
    #[error(
        "cannot serve HTTPS: this build of ttmon has no TLS; build it with --features tls, or put a proxy with TLS in front of 127.0.0.1"
    )]
    NoTls,
    #[error("cannot serve at {path}: another ttmon serve has it{}; stop that one, or give another --api", of_pid(*.pid))]
    Taken { path: PathBuf, pid: Option<u32> },
    #[error("cannot serve at {0}: there is something that is no socket; remove it, or give another --api")]
    Foreign(PathBuf),
    #[error("cannot serve at {0}: {1}; give another place with --api")]
    Socket(PathBuf, io::Error),
    #[error("cannot listen on {0}: {1}; give another ADDR:PORT, or leave it out (--listen off)")]
    Port(SocketAddr, io::Error),
    #[error("cannot start the service's threads: {0}; check the limit on processes")]
    Threads(#[from] io::Error),
}

/// Why the service ended by itself.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the texts document the causes")]
pub enum EndError {
    #[error("cannot answer: {0}; start it again")]
    Answer(io::Error),
    #[error("a part of the service failed, which is a defect of ttmon; start it again")]
    Defect,
}

/// A service with open sockets that does not serve yet.
pub struct Host {
    devices: DeviceReader,
    scanner: Scanner,
    service: Arc<Service>,
    endpoints: Endpoints,
}

/// A running service.
#[derive(Debug)]
pub struct Running {
    service: Arc<Service>,
    stop_sampler: Option<mpsc::Sender<()>>,
    stop_http: Option<oneshot::Sender<()>>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

/// Descriptors for all connections and the processes behind them. The kernel's table of this size takes 64 KiB.
const DESCRIPTORS: u64 = 8192;
/// Time for threads to end. A thread that reads a hanging chip may need longer; the program does not wait for it.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

impl Host {
    /// Opens the machine and the sockets. Forks, so it must be called while the program has one thread.
    pub fn prepare(root: Root, reading: ttmon_collect::Options, options: Options, sockets: Sockets) -> Result<Self, StartError> {
        if let Some(http) = &sockets.http {
            may_listen(http.address()?, options.allow_remote, options.token.is_some(), options.tls.is_some())?;
        }
        // Each connection needs a descriptor, and a process that reports on the allocation socket needs two more. The usual limit is 1,024,
        // although the kernel would allow many more.
        descriptors::allow(u64::MAX);
        descriptors::expect(DESCRIPTORS, io::stderr());
        let tls = options.tls.as_ref().map(|(certificate, key)| tls::Acceptor::new(certificate, key)).transpose()?;
        let cluster = reading.cluster.clone();
        // This forks. A socket that is already open would stay open in the reading process after the service is killed.
        let (devices, scanner) = Machine::new(root, reading).and_then(Machine::split)?;
        let unix = match sockets.api {
            Some(Socket::Inherited(listener)) => Some(UnixEndpoint::inherited(listener)?),
            Some(Socket::At(path)) => Some(UnixEndpoint::open(&path)?),
            None => None,
        };
        let http = sockets.http.map(Socket::open).transpose()?;
        let metrics = sockets.metrics.map(Socket::open).transpose()?;
        let address = http.as_ref().map(TcpListener::local_addr).transpose()?;
        let page = address.map(|address| PageAddress { address, is_tls: tls.is_some() });
        let service = Arc::new(Service::new(options, cluster, page));
        Ok(Self { devices, scanner, service, endpoints: Endpoints { unix, http, metrics, tls } })
    }

    /// Returns the address of HTTP. If port 0 was requested, it has the port that the kernel chose.
    pub fn address(&self) -> Option<SocketAddr> {
        self.service.page.map(|page| page.address)
    }

    /// Returns the address that serves only metrics.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        // An open socket has an address.
        self.endpoints.metrics.as_ref()?.local_addr().ok()
    }

    /// Starts sampling and serving. The allocation server has the ledgers of processes that ended before a scan. Each of `ends` is dropped
    /// when its thread ends, for any reason: the sampler, the HTTP server, and the evaluation of alerts.
    pub fn start<E: Send + 'static>(self, allocation_server: Option<Handle>, ends: [E; 3]) -> Result<Running, StartError> {
        let Self { devices, scanner, service, endpoints } = self;
        service.connect(allocation_server);
        let (stop_sampler, sampler_stopped) = mpsc::channel();
        let (stop_http, http_stopped) = oneshot::channel();
        let [sampler_end, http_end, alerts_end] = ends;
        let (samples, mut threads) = alerting::start(&service)?;
        let of_alerts = Arc::clone(&service);
        threads.push(spawn("alerts", alerts_end, move || alerting::run(&of_alerts, &samples))?);
        let of_sampler = Arc::clone(&service);
        threads.push(spawn("sampler", sampler_end, move || sampler::run(devices, scanner, &of_sampler, &sampler_stopped))?);
        let of_http = Arc::clone(&service);
        threads.push(spawn("http", http_end, move || http::run(endpoints, &of_http, http_stopped))?);
        Ok(Running { service, stop_sampler: Some(stop_sampler), stop_http: Some(stop_http), threads })
    }
}

impl Running {
    /// Ends the threads and closes the sockets. Returns the reason if a thread ended before by itself.
    pub fn stop(mut self) -> Result<(), EndError> {
        let mut ended = Ok(());
        drop(self.stop_sampler.take());
        drop(self.stop_http.take());
        self.service.alerting.stop();
        let deadline = Instant::now() + STOP_TIMEOUT;
        for thread in self.threads.drain(..) {
            while !thread.is_finished() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(2));
            }
            if thread.is_finished() {
                match thread.join() {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => ended = Err(EndError::Answer(error)),
                    Err(_) => ended = Err(EndError::Defect),
                }
            }
        }
        ended
    }
}

/// Starts a thread. `end` is dropped when the thread ends, also after a panic.
fn spawn<E: Send + 'static>(
    name: &str,
    end: E,
    work: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> io::Result<JoinHandle<io::Result<()>>> {
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _end = end;
        work()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If one of its threads ends, the service ends: the waiting caller gets the reason.
    #[test]
    fn an_ended_thread_is_reported() {
        let service = || Arc::new(fixture::service());
        let end_of = |work: fn() -> io::Result<()>| {
            let (end, ended) = mpsc::channel::<()>();
            let thread = spawn("part", end, work).expect("a thread");
            assert_eq!(ended.recv(), Err(mpsc::RecvError));
            Running { service: service(), stop_sampler: None, stop_http: None, threads: vec![thread] }.stop()
        };
        assert!(end_of(|| Ok(())).is_ok());
        assert!(end_of(|| Err(io::ErrorKind::NotConnected.into())).is_err_and(|why| why.to_string().starts_with("cannot answer: ")));
        assert!(end_of(|| panic!("a defect")).is_err_and(|why| why.to_string().contains("a defect of ttmon")));
    }
}
