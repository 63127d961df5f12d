//! Another user's file at the path of the allocation socket in /tmp, which every user may create.

use std::fs;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;

use ttmon_sim::{Machine, Spec};
use ttmon_testing::until;

use crate::host::{ALLOCATIONS, ATTACKER, Actor, Host, hold, metric};
use crate::isolation::Pids;
use crate::watch::Watch;
use crate::{Case, Role};

const SOCKET: &str = "/tmp/tt_allocation_server.sock";

pub(crate) const CASES: &[Case] = &[
    ("directory_in_place_of_the_socket_stops_nothing_else", Pids::Private, directory),
    ("socket_of_another_user_stops_nothing_else", Pids::Private, socket),
];

pub(crate) const ROLES: &[Role] = &[("squat", squat)];

fn directory() {
    stays_up("directory");
}

fn socket() {
    stays_up("socket");
}

/// HOW: occupies the path until its input ends, then removes the file.
fn squat(arguments: &[String]) {
    let _listener = match arguments[0].as_str() {
        "directory" => {
            fs::create_dir(SOCKET).unwrap();
            None
        }
        _ => Some(UnixListener::bind(SOCKET).unwrap()),
    };
    hold();
    let _ = fs::remove_dir(SOCKET).or_else(|_| fs::remove_file(SOCKET));
}

/// Runs a service with all default paths on a machine with a simulated /sys.
fn stays_up(how: &str) {
    fs::create_dir("/run/machine").unwrap();
    let machine = Machine::new(&Spec::parse("n300,idle").unwrap(), 1).unwrap();
    machine.write(Path::new("/run/machine"), 0, &[]).unwrap();
    assert!(Command::new("mount").args(["--bind", "/run/machine/sys", "/sys"]).status().unwrap().success());
    let squatter = Actor::start(ATTACKER, "squat", &[how]);
    let mut host = Host::with(&[]);
    let watch = Watch::begin(&host);
    let failures = || metric("ttmon_allocation_socket_total{what=\"listen_failures\"}").unwrap_or_default();
    until("tried again", || failures() >= 2.0);
    assert!(UnixStream::connect(ALLOCATIONS).is_ok(), "the recommended place is there");
    squatter.finish();
    until("listening in /tmp", || host_listens(host.pid()));
    assert!(host.is_alive());
    watch.finish();
    host.gives_back();
}

/// Whether the service created and locked the socket in /tmp.
fn host_listens(pid: u32) -> bool {
    let has_lock = |entry: fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|to| to == Path::new(SOCKET).with_extension("sock.lock"));
    let mut descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    descriptors.any(has_lock) && UnixStream::connect(SOCKET).is_ok()
}
