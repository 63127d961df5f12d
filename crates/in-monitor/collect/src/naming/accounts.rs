//! Names of users that only a directory service has. They are requested from systemd's user database, or else from `getent`. Both may
//! answer late. Only [`Accounts::wait`] waits for them.
//!
//! The static program cannot load the name service of glibc, which may also wait for minutes for a server that hangs.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use ttmon_model::limits::{ACCOUNT_BYTES_MAX, ACCOUNTS_MAX, ACCOUNTS_PENDING_MAX};

use super::text;
use crate::process::user_name;
use crate::reads::boot_time;
use crate::root::Root;

/// Maximum time to wait for an answer of a directory service.
const DEADLINE: Duration = Duration::from_secs(2);
/// A uid without a name is requested again after this time.
const AGAIN_AFTER: Duration = Duration::from_secs(300);

#[derive(Debug, Default)]
pub(super) struct Accounts {
    known: KnownNames,
    pending: Vec<NameQuery>,
    /// Programs that have answered but not ended yet.
    ending: Vec<Child>,
}

#[derive(Debug)]
struct NameQuery {
    uid: u32,
    asked: Duration,
    answer: Vec<u8>,
    lookup: NameLookup,
}

#[derive(Debug)]
enum NameLookup {
    /// systemd's user database.
    Userdb(UnixStream),
    /// `getent` and its output.
    Getent(Child, OwnedFd),
}

impl Accounts {
    /// Returns a user's name, if known. Otherwise requests it for a later call.
    pub(super) fn name(&mut self, root: &Root, uid: u32, now: Duration) -> Option<String> {
        if !self.known.is_due(uid, now) {
            return self.known.name(uid);
        }
        let is_asked = self.pending.iter().any(|query| query.uid == uid);
        if !is_asked && self.pending.len() < ACCOUNTS_PENDING_MAX {
            match NameLookup::ask(root, uid) {
                Some(lookup) => self.pending.push(NameQuery { uid, asked: now, answer: Vec::new(), lookup }),
                None => self.known.learn(uid, now, None),
            }
        }
        None
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Processes the answers that have arrived, and abandons late requests.
    pub(super) fn collect(&mut self, now: Duration) {
        for mut query in std::mem::take(&mut self.pending) {
            match query.read() {
                None if now.saturating_sub(query.asked) < DEADLINE => self.pending.push(query),
                None => {
                    self.known.learn(query.uid, now, None);
                    self.ending.extend(query.lookup.stop());
                }
                Some(name) => {
                    self.known.learn(query.uid, now, name);
                    self.ending.extend(query.lookup.into_child());
                }
            }
        }
        self.ending.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }

    /// Waits for the pending answers, at most for `longest`.
    pub(super) fn wait(&mut self, now: Duration, longest: Duration) {
        let begun = Instant::now();
        while self.is_waiting() {
            let left = longest.saturating_sub(begun.elapsed());
            let Ok(timeout) = Timespec::try_from(left) else { return };
            let mut wanted: Vec<PollFd<'_>> =
                self.pending.iter().map(|query| PollFd::from_borrowed_fd(query.lookup.as_fd(), PollFlags::IN)).collect();
            if left.is_zero() || !poll(&mut wanted, Some(&timeout)).is_ok_and(|count| count > 0) {
                return;
            }
            drop(wanted);
            self.collect(now);
        }
    }
}

/// The names of users, and when they were found. Some users have none.
#[derive(Debug, Default)]
struct KnownNames(BTreeMap<u32, (Duration, Option<String>)>);

impl KnownNames {
    fn name(&self, uid: u32) -> Option<String> {
        self.0.get(&uid)?.1.clone()
    }

    fn is_due(&self, uid: u32, now: Duration) -> bool {
        self.0.get(&uid).is_none_or(|(at, name)| name.is_none() && now.saturating_sub(*at) >= AGAIN_AFTER)
    }

    fn learn(&mut self, uid: u32, now: Duration, name: Option<String>) {
        if self.0.len() >= ACCOUNTS_MAX {
            self.0.clear();
        }
        self.0.insert(uid, (now, name));
    }
}

impl Drop for Accounts {
    fn drop(&mut self) {
        self.pending.drain(..).for_each(|query| drop(query.lookup.stop()));
    }
}

/// A thread that sends requests to the directory service on behalf of a restricted thread.
#[derive(Debug)]
pub(super) struct AccountsThread {
    queries: SyncSender<Vec<u32>>,
    answers: Receiver<Vec<(u32, Option<String>)>>,
    is_asking: bool,
    known: KnownNames,
}

impl AccountsThread {
    /// Starts the thread. After the value is dropped, the thread finishes the current request and ends.
    pub(super) fn spawn(root: Root) -> io::Result<Self> {
        let (queries, asked) = mpsc::sync_channel::<Vec<u32>>(1);
        let (answer, answers) = mpsc::channel();
        let work = move || {
            let mut accounts = Accounts::default();
            for uids in asked {
                let now = boot_time();
                uids.iter().for_each(|uid| _ = accounts.name(&root, *uid, now));
                accounts.wait(now, DEADLINE);
                accounts.collect(boot_time());
                let named = uids.into_iter().map(|uid| (uid, accounts.known.name(uid)));
                if answer.send(named.collect()).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("names".to_owned()).spawn(work)?;
        Ok(Self { queries, answers, is_asking: false, known: KnownNames::default() })
    }

    /// Returns the known names, in the order of the uids, and requests the others.
    pub(super) fn names(&mut self, uids: &[u32], now: Duration) -> Vec<Option<String>> {
        if let Ok(answer) = self.answers.try_recv() {
            self.is_asking = false;
            answer.into_iter().for_each(|(uid, name)| self.known.learn(uid, now, name));
        }
        let unknown: BTreeSet<u32> = uids.iter().copied().filter(|uid| self.known.is_due(*uid, now)).collect();
        if !unknown.is_empty() && !self.is_asking {
            self.is_asking = self.queries.try_send(unknown.into_iter().take(ACCOUNTS_PENDING_MAX).collect()).is_ok();
        }
        uids.iter().map(|uid| self.known.name(*uid)).collect()
    }
}

impl NameLookup {
    /// Sends a request to the user database if it listens, else to `getent`. Returns `None` if neither exists.
    fn ask(root: &Root, uid: u32) -> Option<Self> {
        // A user whose name cannot be asked for is shown by number.
        userdb(&root.userdb, uid).map(Self::Userdb).or_else(|_| getent(root.getent.as_deref(), uid)).ok()
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Userdb(stream) => stream.as_fd(),
            Self::Getent(_, output) => output.as_fd(),
        }
    }

    fn into_child(self) -> Option<Child> {
        match self {
            Self::Userdb(_) => None,
            Self::Getent(child, _) => Some(child),
        }
    }

    /// Kills a program that is late.
    fn stop(self) -> Option<Child> {
        let mut child = self.into_child()?;
        // It may have ended.
        let _ = child.kill();
        Some(child)
    }
}

/// Connects without blocking and sends the request, which is shorter than any socket buffer.
fn userdb(path: &Path, uid: u32) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let query = format!(
        "{{\"method\":\"io.systemd.UserDatabase.GetUserRecord\",\"parameters\":{{\"uid\":{uid},\"service\":\"io.systemd.Multiplexer\"}}}}\0"
    );
    if rustix::net::send(&socket, query.as_bytes(), SendFlags::NOSIGNAL)? != query.len() {
        return Err(io::ErrorKind::WriteZero.into());
    }
    Ok(UnixStream::from(socket))
}

fn getent(program: Option<&Path>, uid: u32) -> io::Result<NameLookup> {
    let program = program.ok_or(io::ErrorKind::NotFound)?;
    let mut command = Command::new(program);
    command.args(["passwd", &uid.to_string()]).env_clear().current_dir("/");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let output = OwnedFd::from(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?);
    let flags = rustix::fs::fcntl_getfl(&output)?;
    rustix::fs::fcntl_setfl(&output, flags | OFlags::NONBLOCK)?;
    Ok(NameLookup::Getent(child, output))
}

impl NameQuery {
    /// Returns the answer once it is complete: a name, or `None`.
    fn read(&mut self) -> Option<Option<String>> {
        let mut piece = [0; 1024];
        loop {
            let read = match &mut self.lookup {
                NameLookup::Userdb(stream) => stream.read(&mut piece),
                NameLookup::Getent(_, output) => rustix::io::read(&*output, &mut piece).map_err(io::Error::from),
            };
            match read {
                Ok(0) => return Some(self.parse()),
                Ok(length) => self.answer.extend(&piece[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Some(None),
            }
            // A message of the user database ends with a NUL.
            let is_whole = matches!(self.lookup, NameLookup::Userdb(_)) && self.answer.contains(&0);
            if is_whole || self.answer.len() > ACCOUNT_BYTES_MAX {
                return Some(self.parse());
            }
        }
    }

    fn parse(&self) -> Option<String> {
        let answer = String::from_utf8_lossy(&self.answer);
        match self.lookup {
            NameLookup::Userdb(_) => text::of_key(&answer, "userName").filter(|name| !name.is_empty()),
            NameLookup::Getent(..) => user_name(&answer, self.uid),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::net::UnixListener;

    use super::*;

    const LATER: Duration = Duration::from_secs(9);

    fn root(directory: &Path) -> Root {
        fs::create_dir_all(directory.join("run/systemd/userdb")).unwrap();
        Root::at(directory)
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
        let mut accounts = Accounts::default();
        assert_eq!(accounts.name(&root, 5000, Duration::ZERO), None);
        accounts.collect(Duration::ZERO);
        assert!(accounts.is_waiting(), "nobody has answered");
        let (mut peer, _) = listener.accept().unwrap();
        let mut query = [0; 1024];
        let length = peer.read(&mut query).unwrap();
        assert!(query[..length].ends_with(b"\"uid\":5000,\"service\":\"io.systemd.Multiplexer\"}}\0"));
        peer.write_all(b"{\"parameters\":{\"record\":{\"userName\":\"ana\",\"uid\":5000}}}\0").unwrap();
        accounts.wait(Duration::ZERO, Duration::from_secs(30));
        assert_eq!(accounts.name(&root, 5000, Duration::ZERO).as_deref(), Some("ana"));
    }

    #[test]
    fn a_database_that_does_not_answer_is_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let root = root(directory.path());
        let listener = UnixListener::bind(&root.userdb).unwrap();
        let mut accounts = Accounts::default();
        for uid in 0..2000 {
            assert_eq!(accounts.name(&root, uid, Duration::ZERO), None);
        }
        assert_eq!(accounts.pending.len(), ACCOUNTS_PENDING_MAX, "queries are bounded");
        accounts.collect(DEADLINE);
        assert!(!accounts.is_waiting());
        assert_eq!((accounts.name(&root, 0, LATER), accounts.is_waiting()), (None, false), "and not asked again at once");
        accounts.name(&root, 0, LATER + AGAIN_AFTER);
        assert!(accounts.is_waiting());
        drop(listener);
    }

    #[test]
    fn getent_is_asked_where_there_is_no_database() {
        let directory = tempfile::tempdir().unwrap();
        let root = with_getent(directory.path(), "getent-answers.sh");
        let mut accounts = Accounts::default();
        assert_eq!(accounts.name(&root, 7001, Duration::ZERO), None);
        accounts.wait(Duration::ZERO, Duration::from_secs(30));
        assert_eq!(accounts.name(&root, 7001, Duration::ZERO).as_deref(), Some("bea"));
    }

    #[test]
    fn a_getent_that_hangs_delays_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let root = with_getent(directory.path(), "getent-hangs.sh");
        let mut accounts = Accounts::default();
        accounts.name(&root, 7001, Duration::ZERO);
        let Some(NameQuery { lookup: NameLookup::Getent(child, _), .. }) = accounts.pending.first() else { panic!("{accounts:?}") };
        let pid = rustix::process::Pid::from_child(child);
        accounts.wait(Duration::ZERO, Duration::from_millis(20));
        assert!(accounts.is_waiting());
        accounts.collect(DEADLINE);
        assert!(!accounts.is_waiting());
        while !accounts.ending.is_empty() {
            accounts.collect(DEADLINE);
        }
        assert!(rustix::process::test_kill_process(pid).is_err(), "it was ended");
    }

    #[test]
    fn invalid_answers_give_no_name() {
        for answer in ["{\"error\":\"io.systemd.UserDatabase.NoRecordFound\",\"parameters\":{}}\0", "\0", "nonsense\0"] {
            let directory = tempfile::tempdir().unwrap();
            let root = root(directory.path());
            let listener = UnixListener::bind(&root.userdb).unwrap();
            let mut accounts = Accounts::default();
            accounts.name(&root, 1, Duration::ZERO);
            listener.accept().unwrap().0.write_all(answer.as_bytes()).unwrap();
            accounts.wait(Duration::ZERO, Duration::from_secs(30));
            assert_eq!((accounts.name(&root, 1, Duration::ZERO), accounts.is_waiting()), (None, false), "{answer}");
        }
        let directory = tempfile::tempdir().unwrap();
        let mut accounts = Accounts::default();
        assert_eq!((accounts.name(&root(directory.path()), 1, Duration::ZERO), accounts.is_waiting()), (None, false), "nothing to ask");
    }
}
