//! A service of this machine, asked instead of reading the machine here. Whatever is wrong with it, we go on without it.

use std::env;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

use ttmon_ask::{Place as ServicePlace, Service};
use ttmon_model::Snapshot;
use ttmon_source::read::Pace;

use crate::failure::{Failure, complain};
use crate::meant::{Context, Place};
use crate::open::{Opened, choose};
use crate::serve::api_places;

/// A service that lives answers in milliseconds; one that hangs is not waited for much longer than a machine's own files.
const PATIENCE: Duration = Duration::from_millis(500);

/// Where snapshots come from: a service while it answers, else the machine itself, opened when it is first needed.
pub(crate) struct Snapshots<'a> {
    context: &'a Context,
    pace: Pace,
    processes: bool,
    server: Option<Service>,
    opened: Option<Opened>,
}

impl<'a> Snapshots<'a> {
    /// Prepares to look; nothing is opened yet.
    pub(crate) fn new(context: &'a Context, pace: Pace, processes: bool) -> Self {
        Self { context, pace, processes, server: services(context).into_iter().next(), opened: None }
    }

    /// The machine, read here whatever services there are.
    pub(crate) fn read_here(context: &'a Context, pace: Pace, processes: bool) -> Self {
        Self { server: None, ..Self::new(context, pace, processes) }
    }

    /// One snapshot of the devices asked for.
    pub(crate) fn next(&mut self) -> Result<Snapshot, Failure> {
        if let Some(service) = &self.server {
            match service.snapshot(PATIENCE) {
                Ok(mut snapshot) => {
                    if !self.processes {
                        snapshot.processes.clear();
                    }
                    return choose(&self.context.selection, snapshot);
                }
                Err(why) => {
                    // Said once, to whoever watches: the answer is as good as without a service.
                    if io::stderr().is_terminal() {
                        complain(&format!("the service at {} {why}; reading the machine here", service.place()));
                    }
                    self.server = None;
                }
            }
        }
        if self.opened.is_none() {
            self.opened = Some(Opened::new(self.context, self.pace, self.processes)?);
        }
        self.opened.as_mut().map_or_else(|| Err(Failure::new("no machine was opened")), Opened::snapshot)
    }

    /// Whether the next snapshot has its rates by itself: a service has looked before.
    pub(crate) fn has_rates(&self) -> bool {
        self.server.is_some()
    }
}

/// Services of this machine that may be asked, if they run: flags that say how to read the machine mean that it is read here.
pub(crate) fn services(context: &Context) -> Vec<Service> {
    places(context).into_iter().filter(|path| path.exists()).map(service).collect()
}

/// The same, those that may begin to run later too.
pub(crate) fn services_to_come(context: &Context) -> Vec<Service> {
    places(context).into_iter().map(service).collect()
}

fn places(context: &Context) -> Vec<PathBuf> {
    let may_ask = matches!(context.place, Place::Real) && !context.no_server && context.cluster.is_none();
    let named = env::var_os("TTMON_API").filter(|value| !value.is_empty()).map(PathBuf::from);
    if may_ask { named.map_or_else(api_places, |path| vec![path]) } else { Vec::new() }
}

fn service(path: PathBuf) -> Service {
    Service::new(ServicePlace::Unix(path), None, None)
}
