//! The allocation socket of the service: its paths, its machine, its thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use ttmon_allocation_server::{Control, Format, Handle, Listener, Log, Server, Settings, Sources, Store, make_directory};
use ttmon_collect::handover::Receiver;
use ttmon_collect::{Error, LedgerScope, Machine};
use ttmon_model::Snapshot;

use super::systemd::InheritedSockets;
use super::{Stopper, banner, cannot, paths};
use crate::cli::ServeArgs;
use crate::failure::{Failure, print_error};
use crate::invocation::{CliTarget, Context, variable};
use crate::open::MachineConfig;
use crate::show::VERSION;

/// The action in the error about inherited sockets.
const INHERITED: &str = "use a socket that the service manager opened";

pub(super) struct Running {
    handle: Handle,
    thread: JoinHandle<io::Result<()>>,
}

/// Opens the machine as the server reads it, without the server's own entries. This forks, and the forked process keeps all open files,
/// so no listening socket may be open before. Returns `None` for a machine below a directory without `--socket`, which has no allocation
/// socket.
pub(super) fn open(context: &Context, args: &ServeArgs, placed: &MachineConfig) -> Result<Option<Machine>, Failure> {
    if matches!(context.target, CliTarget::Below(_)) && args.socket.is_none() {
        return Ok(None);
    }
    let mut root = placed.root.clone();
    // The server reads its own entries from memory.
    root.served.clear();
    // With `--deep`, the sampler of the service reads the chips, not this machine.
    let mut options = ttmon_collect::Options { deep: None, ..placed.options.clone() };
    options.ledgers.scope = LedgerScope::Holders;
    Ok(Some(Machine::new(root, options)?))
}

/// Reads the machine once, for the banner. This may start a thread, so it comes after all forks.
fn first_snapshot(machine: &mut Machine) -> Option<Snapshot> {
    let sample = match machine.sample() {
        // Without devices, read all processes that can be found instead of only those that hold a device.
        Err(Error::NoDevice | Error::DriverNotLoaded { .. }) => {
            machine.include_everybody();
            machine.sample()
        }
        sample => sample,
    };
    // The server reports later samples that fail.
    sample.ok().map(|sample| Snapshot::derive(&sample, None))
}

/// Opens the state directory and the sockets, and starts the server. Dropping `end` stops the service.
pub(super) fn start(
    context: &Context,
    args: &ServeArgs,
    placed: &MachineConfig,
    mut machine: Machine,
    opened: InheritedSockets,
    end: Stopper,
) -> Result<Running, Failure> {
    let snapshot = first_snapshot(&mut machine);
    let own = own_directory(context, placed);
    let state = state(context, args, placed);
    make_parent(&state)?;
    let machine_mark = placed.options.ledgers.machine;
    let store = Store::open(&state, machine_mark, VERSION).map_err(|why| Failure::new(format!("cannot keep state: {why}")))?;
    if !store.is_in_memory() {
        print_error(&format!(
            "--state-dir {} is not on tmpfs: every event is slower; use a directory below /run or /dev/shm",
            state.display()
        ));
    }
    let Sockets { listeners, unbound } = sockets(context, args, own.as_deref(), opened.streams)?;
    let handover = match opened.datagram {
        Some(socket) => Some(Receiver::inherited(socket).map_err(|error| cannot(INHERITED, &error))?),
        None => handover(args, own.as_deref(), matches!(context.target, CliTarget::Real))?,
    };
    let paths: Vec<&Path> = listeners.iter().map(Listener::path).collect();
    let banner = banner::text(snapshot.as_ref(), &paths, store.path(), handover.as_ref().map(Receiver::path));
    let (format, is_quiet) = (args.log, args.quiet);
    let failed = |error: io::Error| cannot("start the server", &error);
    let dup = |descriptor: BorrowedFd<'_>| descriptor.try_clone_to_owned().map_err(failed);
    let mut log = Log::start(dup(io::stdout().as_fd())?, dup(io::stderr().as_fd())?, format).map_err(failed)?;
    if format == Format::Text && !is_quiet {
        log.out().extend_from_slice(banner.as_bytes());
        log.out().push(b'\n');
    }
    let mut is_restricted = false;
    let sampler = Box::new(move || {
        // This thread opens files that other users wrote.
        if !std::mem::replace(&mut is_restricted, true) {
            machine.restrict_thread();
        }
        let sample = machine.sample()?;
        Ok(Sources { sample, ledgers: machine.ledgers().to_vec() })
    });
    let settings = Settings { listeners, unbound, store, handover, sampler, log, is_quiet };
    let (mut server, handle) = Server::new(settings).map_err(failed)?;
    if format == Format::Json && !is_quiet {
        for line in banner.lines() {
            server.print_line(line.trim());
        }
    }
    let thread = thread::Builder::new().name("intake".to_owned()).spawn(move || {
        // When this thread ends, the service ends, and the service manager starts it again.
        let _end = end;
        server.run()
    });
    Ok(Running { handle, thread: thread.map_err(failed)? })
}

impl Running {
    pub(super) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    pub(super) fn statistics(&self) {
        self.handle.control(Control::Statistics);
    }

    pub(super) fn stop(self) -> Result<(), Failure> {
        self.handle.control(Control::Stop);
        match self.thread.join() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Failure::new(format!("the server failed: {error}; start it again, nothing that was confirmed is lost"))),
            Err(_) => {
                Err(Failure::new("the server failed, which is a defect of ttmon; start it again, nothing that was confirmed is lost"))
            }
        }
    }
}

pub(super) fn state(context: &Context, args: &ServeArgs, placed: &MachineConfig) -> PathBuf {
    let own = own_directory(context, placed);
    let named = args.state_dir.clone().or_else(|| paths::named_state().filter(|_| own.is_none()));
    named.unwrap_or_else(|| own.map_or_else(paths::state, |own| own.join("state")))
}

/// The runtime directory of a simulated machine, or of one below a directory; separate from the real one.
fn own_directory(context: &Context, placed: &MachineConfig) -> Option<PathBuf> {
    match &context.target {
        CliTarget::Simulated(..) => placed.simulation.as_ref().map(|simulation| simulation.root().join("run/ttmon")),
        CliTarget::Below(root) => Some(root.join("run/ttmon")),
        CliTarget::Real => None,
    }
}

/// The allocation sockets, and the paths (with modes) that another process uses.
struct Sockets {
    listeners: Vec<Listener>,
    unbound: Vec<(PathBuf, u32)>,
}

fn sockets(context: &Context, args: &ServeArgs, own: Option<&Path>, given: Vec<UnixListener>) -> Result<Sockets, Failure> {
    let mode = args.socket_mode;
    if !given.is_empty() && args.socket.is_some() {
        return Err(Failure::usage("--socket does not go with sockets that the service manager opened; leave one of them out"));
    }
    let is_real = matches!(context.target, CliTarget::Real);
    let inherited = |listener| Listener::inherited(listener).map_err(|error| cannot(INHERITED, &error));
    let listeners: Vec<Listener> = given.into_iter().map(inherited).collect::<Result<_, _>>()?;
    let asked = args.socket.clone().or_else(|| variable("TTMON_SOCKET").map(PathBuf::from).filter(|_| own.is_none()));
    let named = match (asked, own) {
        _ if !listeners.is_empty() => None,
        (Some(path), _) if !is_real && path == Path::new(paths::SOCKET) => {
            return Err(Failure::usage(format!(
                "a machine that is not this one never takes {}: programs of this machine would report to it; give another --socket",
                paths::SOCKET
            )));
        }
        (None, Some(own)) => Some(own.join("alloc.sock")),
        (asked, _) => asked,
    };
    let mut sockets = Sockets { listeners, unbound: Vec::new() };
    if let Some(path) = named {
        make_parent(&path)?;
        sockets.listeners.push(Listener::bind(&path, mode).map_err(|taken| Failure::new(format!("cannot listen: {taken}")))?);
    } else if is_real {
        sockets.bind_usual(mode);
    }
    Ok(sockets)
}

impl Sockets {
    /// Also listens at the default paths. Any user may block the path in /tmp; that does not stop the rest.
    fn bind_usual(&mut self, mode: u32) {
        let own = paths::runtime().map(|directory| directory.join("alloc.sock"));
        for path in own.into_iter().chain([PathBuf::from(paths::SOCKET)]) {
            if self.listeners.iter().any(|listener| listener.path() == path) {
                continue;
            }
            let bound = make_parent(&path).and_then(|()| Listener::bind(&path, mode).map_err(Failure::new));
            match bound {
                Ok(listener) => self.listeners.push(listener),
                Err(failure) => {
                    print_error(&format!("cannot listen: {}; all else runs, and it is tried again", failure.message));
                    self.unbound.push((path, mode));
                }
            }
        }
    }
}

fn handover(args: &ServeArgs, own: Option<&Path>, is_real: bool) -> Result<Option<Receiver>, Failure> {
    let usual = if is_real { paths::runtime() } else { own.map(Path::to_owned) }.map(|directory| directory.join("handover.sock"));
    let Some(path) = args.handover.clone().or(usual) else { return Ok(None) };
    make_parent(&path)?;
    match Receiver::bind(&path, 0o666) {
        Ok(receiver) => Ok(Some(receiver)),
        Err(error) => {
            let message = format!("--handover {}: {error}; ledgers of short-lived programs are not kept", path.display());
            if args.handover.is_some() {
                return Err(Failure::new(message));
            }
            print_error(&message);
            Ok(None)
        }
    }
}

fn make_parent(path: &Path) -> Result<(), Failure> {
    let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else { return Ok(()) };
    make_directory(parent)
        .map_err(|error| Failure::new(format!("cannot make {}: {error}; make it, or name another place", parent.display())))
}
