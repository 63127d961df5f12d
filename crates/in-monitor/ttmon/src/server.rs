//! Uses a service of this machine instead of reading the machine. If the service has a problem, the machine is read here.

use std::ffi::OsStr;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ttmon_collect::LedgerScope;
use ttmon_collect::ledgers::OpenLedger;
use ttmon_hosts::{Events, RequestError, Roots, Service, ServiceAddress};
use ttmon_model::event::BufferEvent;
use ttmon_model::{DeviceId, Snapshot};

use crate::cli::values::NamedService;
use crate::failure::{Failure, print_error};
use crate::invocation::{CliTarget, Context, variable};
use crate::open::{MachineRequest, OpenMachine, choose};
use crate::serve::{api_sockets, token};

/// Longest wait for an answer. A working service answers within milliseconds.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
/// Longest wait for a list of all live buffers.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// Oldest sample that is used. A service with a long `--interval`, or one that stopped sampling, has old data: a device that was free a
/// minute ago may be in use now.
const AGE_MAX: Duration = Duration::from_secs(5);
/// Shortest interval at which a service is used.
const INTERVAL_MIN: Duration = Duration::from_millis(500);
/// Longest time without data on a stream. An idle stream sends a message every 15 seconds.
const SILENCE_MAX: Duration = Duration::from_secs(40);

/// Source of snapshots: a service while it answers, otherwise the machine itself, which is opened when it is first needed.
pub(crate) struct Snapshots<'a> {
    context: &'a Context,
    request: MachineRequest,
    /// The path of the same request to a service.
    path: String,
    /// Services that did not fail yet, the preferred one first.
    servers: Vec<Service>,
    opened: Option<OpenMachine>,
}

impl<'a> Snapshots<'a> {
    /// Creates a source with the services of this machine, which return the snapshot that all users may read. Opens nothing yet.
    pub(crate) fn new(context: &'a Context, request: MachineRequest) -> Self {
        Self { context, request, path: "/api/v1/snapshot".to_owned(), servers: services(context), opened: None }
    }

    /// Requests another document of a service.
    pub(crate) fn with_path(self, path: String) -> Self {
        Self { path, ..self }
    }

    /// Prepares for repeated snapshots. A service samples once per second, so faster refreshes read the machine here.
    pub(crate) fn repeated(self, interval: Duration) -> Self {
        if interval < INTERVAL_MIN { self.without_services() } else { self }
    }

    /// Reads the machine here, also if a service runs.
    pub(crate) fn without_services(self) -> Self {
        Self { servers: Vec::new(), ..self }
    }

    pub(crate) fn next(&mut self) -> Result<Snapshot, Failure> {
        let snapshot = self.whole()?;
        choose(&self.context.selection, snapshot)
    }

    pub(crate) fn whole(&mut self) -> Result<Snapshot, Failure> {
        while let Some(service) = self.servers.first() {
            match self.ask(service) {
                Ok(mut snapshot) => {
                    if !self.request.processes {
                        snapshot.processes.clear();
                    }
                    return Ok(snapshot);
                }
                Err(why) => {
                    report_fallback(service, &why);
                    self.servers.remove(0);
                }
            }
        }
        self.open()?.whole()
    }

    /// Opens the machine itself. This forks, so it must be done before a second thread starts, even if a service answers now.
    pub(crate) fn open(&mut self) -> Result<&mut OpenMachine, Failure> {
        match &mut self.opened {
            Some(opened) => Ok(opened),
            none => Ok(none.insert(OpenMachine::new(self.context, self.request)?)),
        }
    }

    fn ask(&self, service: &Service) -> Result<Snapshot, String> {
        let reason = |error: RequestError| error.to_string();
        let timeout = timeout(service, &self.path).map_err(reason)?;
        let (mut snapshot, age) = service.aged_document(&self.path, timeout).map_err(reason)?;
        ttmon_collect::resolve_snapshot(&mut snapshot);
        // The processes may be from an older scan.
        let age = age + if self.request.processes { snapshot.scan_age } else { Duration::ZERO };
        if age >= AGE_MAX {
            return Err(format!("last looked {} s ago", age.as_secs()));
        }
        if self.context.deep && !snapshot.is_deep() {
            return Err("does not read the chips themselves (serve --deep)".to_owned());
        }
        match self.request.scope {
            // The process may be new, so the machine is read here.
            LedgerScope::Process(pid) if !snapshot.processes.iter().any(|process| process.key.pid == pid) => {
                Err(format!("does not know process {pid}"))
            }
            _ => Ok(snapshot),
        }
    }

    /// The ledgers that can be read here, even if snapshots come from a service.
    pub(crate) fn ledgers(&mut self) -> Result<Vec<Arc<OpenLedger>>, Failure> {
        let is_served = self.is_served();
        let opened = self.open()?;
        if is_served {
            opened.whole()?;
        }
        Ok(opened.machine.ledgers().to_vec())
    }

    /// Whether a process with this pid is running. False if the machine was not read here.
    pub(crate) fn has_process(&self, pid: u32) -> bool {
        self.opened.as_ref().is_some_and(|opened| opened.has_process(pid))
    }

    /// Whether the next snapshot comes from a service. A snapshot of a service already has rates.
    pub(crate) fn is_served(&self) -> bool {
        !self.servers.is_empty()
    }
}

/// The longest wait for an answer. For slow requests, checks first that the service answers at all.
fn timeout(service: &Service, path: &str) -> Result<Duration, RequestError> {
    if !path.contains('?') {
        return Ok(ANSWER_TIMEOUT);
    }
    service.get("/healthz", ANSWER_TIMEOUT)?;
    Ok(LIST_TIMEOUT)
}

/// Buffer events of a service, in the order of arrival.
pub(crate) struct ServiceEvents(Events);

impl ServiceEvents {
    /// Waits for the next event. Returns `None` after the last one.
    pub(crate) fn next(&mut self) -> Result<Option<BufferEvent>, RequestError> {
        let (name, line) = self.0.wait()?;
        if name == "end" {
            return Ok(None);
        }
        ttmon_json::read_event(&line).map(Some).map_err(|error| RequestError::Strange(error.to_string()))
    }

    pub(crate) fn has_more(&self) -> bool {
        self.0.has_more()
    }
}

/// Requests events, limited to a process and to devices if given. Returns `None` if the service tracks no process with this pid.
pub(crate) fn events(
    service: &Service,
    pid: Option<u32>,
    devices: &[DeviceId],
    follow: bool,
) -> Result<Option<ServiceEvents>, RequestError> {
    let mut path = "/api/v1/memory/events?".to_owned();
    if let Some(pid) = pid {
        path += &format!("pid={pid}&");
    }
    if !devices.is_empty() {
        let ids: Vec<String> = devices.iter().map(ToString::to_string).collect();
        path += &format!("device={}&", ids.join(","));
    }
    path += &format!("follow={follow}");
    let mut events = service.events(&path, timeout(service, &path)?, if follow { SILENCE_MAX } else { LIST_TIMEOUT })?;
    // The first message has the number of recorders.
    let first = events.wait()?.1;
    let head = ttmon_json::Document::read(&first, None).map_err(|error| RequestError::Strange(error.to_string()))?.head;
    Ok((head["recorders"] != 0 || follow && pid.is_none()).then_some(ServiceEvents(events)))
}

/// The snapshot of a service, to find the selected devices.
pub(crate) fn snapshot(service: &Service) -> Result<Snapshot, RequestError> {
    service.snapshot(ANSWER_TIMEOUT)
}

/// Prints on a terminal that the service is not used, and why.
pub(crate) fn report_fallback(service: &Service, why: &str) {
    if io::stderr().is_terminal() {
        print_error(&format!("the service at {} {why}; reading the machine here", service.address()));
    }
}

/// Services of this machine that exist now. Empty if a flag selects how to read the machine, because then it is read here.
pub(crate) fn services(context: &Context) -> Vec<Service> {
    let is_named = variable("TTMON_API").is_some();
    let is_there = |service: &Service| match service.address() {
        ServiceAddress::Unix(path) => is_named || path.exists(),
        ServiceAddress::Tcp { .. } => true,
    };
    possible_services(context).into_iter().filter(is_there).collect()
}

/// Like [`services`], but with services that may start later.
pub(crate) fn possible_services(context: &Context) -> Vec<Service> {
    let may_ask = matches!(context.target, CliTarget::Real) && !context.no_server && context.cluster.is_none();
    if !may_ask {
        return Vec::new();
    }
    let here = |path| Service::new(ServiceAddress::Unix(path), None, None);
    variable("TTMON_API").map_or_else(|| api_sockets().into_iter().map(here).collect(), |named| vec![service(&named)])
}

/// The services of `--connect`, each with the token, which is sent only over private connections.
pub(crate) fn services_of(connect: &[NamedService], token_file: Option<&Path>, ca: Option<&Path>) -> Result<Vec<Service>, Failure> {
    let token = token(token_file)?;
    let mut roots = None;
    let mut services = Vec::new();
    for NamedService { text, address } in connect {
        if token.is_some() && !address.is_private() {
            let why = "the token could be read on its way; use https://, or an SSH tunnel and http://localhost";
            return Err(Failure::usage(format!("--connect {text}: {why}")));
        }
        if text.starts_with("https:") && roots.is_none() {
            roots = Some(Roots::read(ca).map_err(|why| Failure::new(format!("--connect {text}: {why}")))?);
        }
        services.push(Service::new(address.clone(), token.as_ref().map(|token| token.reveal().to_owned()), roots.clone()));
    }
    Ok(services)
}

/// The service at a socket or a URL (on this host, or with the system's certificates). Without a readable token, it returns only what all
/// users may read. Without readable certificates, connecting fails.
fn service(named: &OsStr) -> Service {
    let place = named.to_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| ServiceAddress::Unix(PathBuf::from(named)));
    let roots = matches!(place, ServiceAddress::Tcp { is_tls: true, .. }).then(|| Roots::read(None).ok()).flatten();
    let token = if place.is_private() { token(None).ok().flatten() } else { None };
    Service::new(place, token.map(|token| token.reveal().to_owned()), roots)
}
