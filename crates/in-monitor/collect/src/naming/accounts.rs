//! Names of users that only a directory service has. They are requested from systemd's user database, or else from `getent`. Both may
//! answer late, so threads wait for the answers.
//!
//! The static program cannot load the name service of glibc, which may also wait for minutes for a server that hangs.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

use ttmon_model::limits::{ACCOUNT_BYTES_MAX, ACCOUNTS_MAX, ACCOUNTS_PENDING_MAX};

use super::text;
use crate::process::user_name;
use crate::root::Root;

/// A uid without a name is requested again after this time.
const AGAIN_AFTER: Duration = Duration::from_secs(300);

/// The names of users, requested by a thread that may connect and start programs. The calling thread need not.
#[derive(Debug)]
pub(super) struct Accounts {
    requests: Sender<u32>,
    answers: Receiver<(u32, Option<String>)>,
    pending: BTreeSet<u32>,
    /// The names, and when they were found. Some users have none.
    known: BTreeMap<u32, (Duration, Option<String>)>,
}

impl Accounts {
    /// Starts the thread. It abandons each request after `timeout`, and ends after the value is dropped.
    pub(super) fn start(root: &Root, timeout: Duration) -> io::Result<Self> {
        let (requests, requested) = mpsc::channel();
        let (sender, answers) = mpsc::channel();
        let root = root.clone();
        let work = move || {
            for uid in requested {
                let (root, answer) = (root.clone(), sender.clone());
                // The answer is not needed if the value was dropped meanwhile.
                let ask = move || _ = answer.send((uid, look_up(&root, uid, timeout)));
                if thread::Builder::new().name("name".to_owned()).spawn(ask).is_err() {
                    let _ = sender.send((uid, None));
                }
            }
        };
        thread::Builder::new().name("names".to_owned()).spawn(work)?;
        Ok(Self { requests, answers, pending: BTreeSet::new(), known: BTreeMap::new() })
    }

    /// Returns a user's name, if known. Otherwise requests it for a later call.
    pub(super) fn name(&mut self, uid: u32, now: Duration) -> Option<String> {
        let known = self.known.get(&uid);
        let is_due = known.is_none_or(|(at, name)| name.is_none() && now.saturating_sub(*at) >= AGAIN_AFTER);
        if is_due && self.pending.len() < ACCOUNTS_PENDING_MAX && self.pending.insert(uid) && self.requests.send(uid).is_err() {
            self.pending.remove(&uid);
        }
        known?.1.clone()
    }

    /// Takes the answers that have arrived. Waits for the others, at most for `longest`.
    pub(super) fn collect(&mut self, now: Duration, longest: Duration) {
        let end = Instant::now() + longest;
        while !self.pending.is_empty()
            && let Ok((uid, name)) = self.answers.recv_timeout(end.saturating_duration_since(Instant::now()))
        {
            self.pending.remove(&uid);
            if self.known.len() >= ACCOUNTS_MAX {
                self.known.clear();
            }
            self.known.insert(uid, (now, name));
        }
    }
}

/// Asks the user database if it listens, else `getent`. Returns `None` if neither exists or knows the user in time.
fn look_up(root: &Root, uid: u32, timeout: Duration) -> Option<String> {
    let deadline = Instant::now() + timeout;
    match userdb(&root.userdb, uid) {
        Ok(socket) => text::of_key(&read(socket, deadline)?, "userName").filter(|name| !name.is_empty()),
        Err(_) => user_name(&getent(root.getent.as_deref()?, uid, deadline)?, uid),
    }
}

/// Connects without blocking and sends the request, which is shorter than any socket buffer.
fn userdb(path: &Path, uid: u32) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let query = format!(
        "{{\"method\":\"io.systemd.UserDatabase.GetUserRecord\",\"parameters\":{{\"uid\":{uid},\"service\":\"io.systemd.Multiplexer\"}}}}\0"
    );
    if rustix::net::send(&socket, query.as_bytes(), SendFlags::NOSIGNAL)? != query.len() {
        return Err(io::ErrorKind::WriteZero.into());
    }
    Ok(socket)
}

/// Returns the output of `getent`, which is killed if it is late.
fn getent(program: &Path, uid: u32, deadline: Instant) -> Option<String> {
    let mut command = Command::new(program);
    command.args(["passwd", &uid.to_string()]).env_clear().current_dir("/");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let output = child.stdout.take().and_then(|output| read(output, deadline));
    // It may have ended.
    let _ = child.kill();
    let _ = child.wait();
    output
}

/// Reads an answer until its end. A message of the user database ends with a NUL. Returns `None` if the answer is late.
fn read(source: impl AsFd, deadline: Instant) -> Option<String> {
    let mut answer = Vec::new();
    let mut piece = [0; 1024];
    loop {
        let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now())).ok()?;
        let mut wanted = [PollFd::new(&source, PollFlags::IN)];
        rustix::io::retry_on_intr(|| poll(&mut wanted, Some(&left))).ok().filter(|ready| *ready > 0)?;
        match rustix::io::read(&source, &mut piece) {
            Ok(0) => break,
            Ok(length) => answer.extend(&piece[..length]),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return None,
        }
        if answer.contains(&0) || answer.len() > ACCOUNT_BYTES_MAX {
            break;
        }
    }
    Some(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    fn root(directory: &Path) -> Root {
        let root = Root::at(directory);
        fs::create_dir_all(root.userdb.parent().unwrap()).unwrap();
        root
    }

    /// Returns a root with a script of this directory in place of `getent`.
    fn with_getent(directory: &Path, script: &str) -> Root {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/naming").join(script);
        Root { getent: Some(path), ..root(directory) }
    }

    #[test]
    fn the_user_database_is_asked_without_waiting() {
        let directory = tempfile::tempdir().unwrap();
        let root = root(directory.path());
        let listener = UnixListener::bind(&root.userdb).unwrap();
        let mut accounts = Accounts::start(&root, LONG).unwrap();
        assert_eq!(accounts.name(5000, Duration::ZERO), None);
        accounts.collect(Duration::ZERO, Duration::ZERO);
        assert!(!accounts.pending.is_empty(), "nobody has answered");
        let (mut peer, _) = listener.accept().unwrap();
        let mut query = [0; 1024];
        let length = peer.read(&mut query).unwrap();
        assert!(query[..length].ends_with(b"\"uid\":5000,\"service\":\"io.systemd.Multiplexer\"}}\0"));
        peer.write_all(b"{\"parameters\":{\"record\":{\"userName\":\"ana\",\"uid\":5000}}}\0").unwrap();
        accounts.collect(Duration::ZERO, LONG);
        assert_eq!(accounts.name(5000, Duration::ZERO).as_deref(), Some("ana"));
    }

    #[test]
    fn a_database_that_does_not_answer_is_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let root = root(directory.path());
        let listener = UnixListener::bind(&root.userdb).unwrap();
        let mut accounts = Accounts::start(&root, Duration::from_millis(1)).unwrap();
        for uid in 0..2000 {
            assert_eq!(accounts.name(uid, Duration::ZERO), None);
        }
        assert_eq!(accounts.pending.len(), ACCOUNTS_PENDING_MAX, "requests are bounded");
        accounts.collect(Duration::ZERO, LONG);
        assert!(accounts.pending.is_empty());
        assert_eq!((accounts.name(0, Duration::ZERO), accounts.pending.len()), (None, 0), "it is not asked again at once");
        accounts.name(0, AGAIN_AFTER);
        assert_eq!(accounts.pending.len(), 1);
        drop(listener);
    }

    #[test]
    fn getent_is_asked_where_there_is_no_database() {
        let directory = tempfile::tempdir().unwrap();
        let root = with_getent(directory.path(), "getent-answers.sh");
        assert_eq!(look_up(&root, 7001, LONG).as_deref(), Some("bea"));
    }

    /// A request that did not kill the program would wait for its end.
    #[test]
    fn a_getent_that_hangs_is_killed() {
        let directory = tempfile::tempdir().unwrap();
        let root = with_getent(directory.path(), "getent-hangs.sh");
        assert_eq!(look_up(&root, 7001, Duration::from_millis(20)), None);
    }

    #[test]
    fn invalid_answers_give_no_name() {
        for answer in ["{\"error\":\"io.systemd.UserDatabase.NoRecordFound\",\"parameters\":{}}\0", "\0", "nonsense\0"] {
            let directory = tempfile::tempdir().unwrap();
            let root = root(directory.path());
            let listener = UnixListener::bind(&root.userdb).unwrap();
            let mut accounts = Accounts::start(&root, LONG).unwrap();
            accounts.name(1, Duration::ZERO);
            listener.accept().unwrap().0.write_all(answer.as_bytes()).unwrap();
            accounts.collect(Duration::ZERO, LONG);
            assert_eq!((accounts.name(1, Duration::ZERO), accounts.pending.len()), (None, 0), "{answer}");
        }
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(look_up(&root(directory.path()), 1, LONG), None, "nothing to ask");
    }
}
