//! A service of this machine, asked instead of reading the machine here. If anything is wrong with it, we go on without it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ttmon_ask::{Events, Roots, Service, ServicePlace, Trouble};
use ttmon_model::Snapshot;
use ttmon_reads::Pace;
use ttmon_source::Reach;
use ttmon_source::ledgers::{Detail, OpenLedger};

use crate::failure::{Failure, complain};
use crate::invocation::{CliTarget, Context};
use crate::open::{OpenMachine, choose};
use crate::serve::{api_places, token};

/// A service that lives answers in milliseconds; one that hangs is not waited for much longer than a machine's own files.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
/// A list of all live buffers takes it a while.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// A service that samples more rarely (`--interval`), or no longer, answers with the past: a device that was free a minute ago may be
/// held now.
const AGE_MAX: Duration = Duration::from_secs(5);
/// A stream with nothing to say says so every 15 seconds.
const SILENCE_MAX: Duration = Duration::from_secs(40);

/// What is to be seen, of a service or of the machine itself.
pub(crate) struct SampleRequest {
    pub(crate) pace: Pace,
    pub(crate) processes: bool,
    pub(crate) detail: Detail,
    pub(crate) reach: Reach,
    /// The path of the service's document.
    pub(crate) path: String,
}

impl SampleRequest {
    /// The snapshot that everybody sees.
    pub(crate) fn snapshot(pace: Pace, processes: bool) -> Self {
        Self { pace, processes, detail: Detail::Totals, reach: Reach::Holders, path: "/api/v1/snapshot".to_owned() }
    }
}

/// Where snapshots come from: a service while it answers, else the machine itself, opened when it is first needed.
pub(crate) struct Snapshots<'a> {
    context: &'a Context,
    asked: SampleRequest,
    /// Those that may still be asked, the best first.
    servers: Vec<Service>,
    opened: Option<OpenMachine>,
}

impl<'a> Snapshots<'a> {
    /// Prepares to look; nothing is opened yet.
    pub(crate) fn new(context: &'a Context, asked: SampleRequest) -> Self {
        Self { context, asked, servers: services(context), opened: None }
    }

    /// The machine, read here without asking a service.
    pub(crate) fn read_here(context: &'a Context, asked: SampleRequest) -> Self {
        Self { context, asked, servers: Vec::new(), opened: None }
    }

    /// One snapshot of the devices asked for.
    pub(crate) fn next(&mut self) -> Result<Snapshot, Failure> {
        let snapshot = self.whole()?;
        choose(&self.context.selection, snapshot)
    }

    /// One snapshot of all devices.
    pub(crate) fn whole(&mut self) -> Result<Snapshot, Failure> {
        while let Some(service) = self.servers.first() {
            match self.ask(service) {
                Ok(mut snapshot) => {
                    if !self.asked.processes {
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

    /// The machine itself. It forks, and so has to be opened before there is a second thread: a service may leave later.
    pub(crate) fn open(&mut self) -> Result<&mut OpenMachine, Failure> {
        match &mut self.opened {
            Some(opened) => Ok(opened),
            none => {
                let SampleRequest { pace, processes, detail, reach, .. } = self.asked;
                Ok(none.insert(OpenMachine::with_ledgers(self.context, pace, processes, detail, reach)?))
            }
        }
    }

    fn ask(&self, service: &Service) -> Result<Snapshot, String> {
        let told = |trouble: Trouble| trouble.to_string();
        let patience = patience(service, &self.asked.path).map_err(told)?;
        let (mut snapshot, age) = service.aged_document(&self.asked.path, patience).map_err(told)?;
        ttmon_source::resolve_snapshot(&mut snapshot);
        // Processes may be of an older scan.
        let age = age + if self.asked.processes { snapshot.scan_age } else { Duration::ZERO };
        if age >= AGE_MAX {
            return Err(format!("last looked {} s ago", age.as_secs()));
        }
        if self.context.deep && !snapshot.is_deep() {
            return Err("does not read the chips themselves (serve --deep)".to_owned());
        }
        match self.asked.reach {
            // It may have just been started.
            Reach::Process(pid) if !snapshot.processes.iter().any(|process| process.key.pid == pid) => {
                Err(format!("does not know process {pid}"))
            }
            _ => Ok(snapshot),
        }
    }

    /// The ledgers that can be read here, also where snapshots come from a service of this machine.
    pub(crate) fn ledgers(&mut self) -> Result<Vec<Arc<OpenLedger>>, Failure> {
        let is_served = self.is_served();
        let opened = self.open()?;
        if is_served {
            opened.whole()?;
        }
        Ok(opened.machine.ledgers().to_vec())
    }

    /// Whether a process of that number runs, as far as the machine itself was read.
    pub(crate) fn has_process(&self, pid: u32) -> bool {
        self.opened.as_ref().is_some_and(|opened| opened.has_process(pid))
    }

    /// Whether the next snapshot comes from a service. Such a one has its rates by itself: the service has looked before.
    pub(crate) fn is_served(&self) -> bool {
        !self.servers.is_empty()
    }
}

/// Time for an answer. What may take a while is asked of a service that has just shown that it lives.
fn patience(service: &Service, path: &str) -> Result<Duration, Trouble> {
    if !path.contains('?') {
        return Ok(ANSWER_TIMEOUT);
    }
    service.get("/healthz", ANSWER_TIMEOUT)?;
    Ok(LIST_TIMEOUT)
}

/// Events of a service. Those that go on may be silent for longer.
pub(crate) fn events(service: &Service, path: &str, goes_on: bool) -> Result<Events, Trouble> {
    let patience = patience(service, path)?;
    service.events(path, patience, if goes_on { SILENCE_MAX } else { LIST_TIMEOUT })
}

/// Its snapshot, to know which devices are meant.
pub(crate) fn snapshot(service: &Service) -> Result<Snapshot, Trouble> {
    service.snapshot(ANSWER_TIMEOUT)
}

/// Printed on a terminal: the answer is as good as without a service.
pub(crate) fn report_fallback(service: &Service, why: &str) {
    if io::stderr().is_terminal() {
        complain(&format!("the service at {} {why}; reading the machine here", service.place()));
    }
}

/// Services of this machine that may be asked, if they run: flags that say how to read the machine mean that it is read here.
pub(crate) fn services(context: &Context) -> Vec<Service> {
    let is_named = named().is_some();
    let is_there = |service: &Service| match service.place() {
        ServicePlace::Unix(path) => is_named || path.exists(),
        ServicePlace::Tcp { .. } => true,
    };
    possible_services(context).into_iter().filter(is_there).collect()
}

/// The same as [`services`], those that may begin to run later too.
pub(crate) fn possible_services(context: &Context) -> Vec<Service> {
    let may_ask = matches!(context.place, CliTarget::Real) && !context.no_server && context.cluster.is_none();
    if !may_ask {
        return Vec::new();
    }
    let here = |path| Service::new(ServicePlace::Unix(path), None, None);
    named().map_or_else(|| api_places().into_iter().map(here).collect(), |named| vec![service(&named)])
}

/// The services of `--connect`, each with the token, which is sent over private connections alone.
pub(crate) fn services_of(
    places: &[(String, ServicePlace)],
    token_file: Option<&Path>,
    ca: Option<&Path>,
) -> Result<Vec<Service>, Failure> {
    let token = token(token_file)?;
    let mut roots = None;
    let mut services = Vec::new();
    for (text, place) in places {
        if token.is_some() && !place.is_private() {
            let why = "the token could be read on its way; use https://, or an SSH tunnel and http://localhost";
            return Err(Failure::usage(format!("--connect {text}: {why}")));
        }
        if text.starts_with("https:") && roots.is_none() {
            roots = Some(Roots::read(ca).map_err(|why| Failure::new(format!("--connect {text}: {why}")))?);
        }
        services.push(Service::new(place.clone(), token.as_ref().map(|token| token.reveal().to_owned()), roots.clone()));
    }
    Ok(services)
}

/// What the environment names.
fn named() -> Option<OsString> {
    env::var_os("TTMON_API").filter(|value| !value.is_empty())
}

/// A socket, or a URL (of this host, or with the system's certificates). Without a token that can be read it answers what every user may
/// know.
fn service(named: &OsStr) -> Service {
    let place = named.to_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| ServicePlace::Unix(PathBuf::from(named)));
    let roots = matches!(place, ServicePlace::Tcp { is_secret: true, .. }).then(|| Roots::read(None).ok()).flatten();
    let token = if place.is_private() { token(None).ok().flatten() } else { None };
    Service::new(place, token.map(|token| token.reveal().to_owned()), roots)
}
