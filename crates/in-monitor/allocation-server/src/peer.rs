//! Identifies the peer of a connection, and the processes that a peer names, through the kernel.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::{PeerCredentials, PeerPidfd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use ttmon_collect::{ProcessStat, ProcessStatus};
use ttmon_model::identity::ProcessKey;

use crate::limits::{DESCENDANTS_MAX, DESCENDANTS_WAIT};

/// A process with a pidfd. While the pidfd reports it as alive, its pid cannot belong to another process.
#[derive(Debug)]
pub(crate) struct HeldProcess {
    pub(crate) pidfd: OwnedFd,
    pub(crate) key: ProcessKey,
    pub(crate) namespace_pid: u32,
    /// Real, effective, saved and file system user ids.
    pub(crate) uids: [u32; 4],
    pub(crate) name: String,
}

impl HeldProcess {
    pub(crate) fn uid(&self) -> u32 {
        self.uids[0]
    }
}

#[derive(Debug)]
pub(crate) struct Peer {
    /// 0 if the process is in a pid namespace that is not visible from here.
    pub(crate) pid: u32,
    pub(crate) uid: u32,
    /// `None` if the process has ended.
    pub(crate) pidfd: Option<OwnedFd>,
}

/// Returns the peer of a connection. An error means lack of descriptors or memory, not a property of the peer.
pub(crate) fn at(socket: impl AsFd) -> io::Result<Peer> {
    let socket = socket.as_fd();
    let credentials = getsockopt(&socket, PeerCredentials)?;
    let pid = u32::try_from(credentials.pid()).unwrap_or(0);
    let pidfd = descriptor(pid, getsockopt(&socket, PeerPidfd))?;
    Ok(Peer { pid, uid: credentials.uid(), pidfd })
}

/// Converts the pidfd that the kernel returned. Kernels before 6.5 return none, so the pid is opened immediately instead. On later kernels
/// a peer without a pidfd has ended, and its pid may belong to another process.
fn descriptor(pid: u32, handed_out: Result<OwnedFd, Errno>) -> io::Result<Option<OwnedFd>> {
    match handed_out {
        Ok(pidfd) => Ok(Some(pidfd)),
        Err(Errno::ENOPROTOOPT) => open(pid),
        Err(error @ (Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM)) => Err(error.into()),
        Err(_) => Ok(None),
    }
}

/// Opens a pidfd of the process that has this pid now; `None` if there is no process.
pub(crate) fn open(pid: u32) -> io::Result<Option<OwnedFd>> {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
    if_there(pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from))
}

/// Returns what was opened of a process; `None` if the process has ended or is hidden. An error means lack of descriptors or memory.
fn if_there<T>(opened: io::Result<T>) -> io::Result<Option<T>> {
    use rustix::io::Errno;
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Whether the process has not ended. A zombie has ended.
pub(crate) fn is_alive(pidfd: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(pidfd, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready == 0)
}

/// Returns the process that has this pid now; `None` if there is none.
pub(crate) fn held(pid: u32) -> io::Result<Option<HeldProcess>> {
    open(pid)?.map_or(Ok(None), |pidfd| read_process(pid, pidfd))
}

/// Reads a process from /proc; `None` if it has ended or is hidden.
pub(crate) fn read_process(pid: u32, pidfd: OwnedFd) -> io::Result<Option<HeldProcess>> {
    let (Some(stat), Some(status)) = (file_of(pid, "stat")?, file_of(pid, "status")?) else { return Ok(None) };
    let (Some(stat), Some(status)) = (ProcessStat::parse(&stat), ProcessStatus::parse(&status)) else { return Ok(None) };
    // The process is alive after the reads, so they were about this process.
    Ok(is_alive(pidfd.as_fd()).then(|| HeldProcess {
        pidfd,
        key: ProcessKey { pid, start_ticks: stat.start_ticks },
        namespace_pid: status.namespace_pid.unwrap_or(pid),
        uids: status.uids,
        name: stat.name,
    }))
}

/// A peer, and a pid that it named instead of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedPeer {
    pub(crate) peer: u32,
    /// The user ids of the peer.
    pub(crate) uids: [u32; 4],
    pub(crate) pid: u32,
}

/// Finds a named process that the peer forked and that still uses the peer's connection. A process that has changed its user, or for
/// which no descriptor is left, does not qualify. This may take long.
pub(crate) fn descendant(named: NamedPeer) -> Option<HeldProcess> {
    let NamedPeer { peer, uids, pid } = named;
    let opened = open(pid).ok().flatten().filter(|_| is_below(peer, pid));
    let direct = opened.and_then(|pidfd| read_process(pid, pidfd).ok().flatten());
    // Outside containers, the pid in the process's own namespace is its global pid.
    let found = direct.filter(|held| held.namespace_pid == pid).or_else(|| {
        let end = Instant::now() + DESCENDANTS_WAIT;
        below(peer, end)
            .into_iter()
            .take_while(|_| Instant::now() < end)
            .find_map(|other| held(other).ok().flatten().filter(|held| held.namespace_pid == pid && held.key.pid != held.namespace_pid))
    });
    found.filter(|held| held.uids == uids)
}

fn is_below(ancestor: u32, pid: u32) -> bool {
    let mut at = pid;
    for _ in 0..DESCENDANTS_MAX {
        match file_of(at, "stat").map(|stat| Some(ProcessStat::parse(&stat?)?.parent)) {
            Ok(Some(parent)) if parent == ancestor => return true,
            Ok(Some(parent)) if parent > 1 => at = parent,
            _ => return false,
        }
    }
    false
}

/// Returns the descendants of a process that are found before `end`.
fn below(ancestor: u32, end: Instant) -> Vec<u32> {
    let mut found = vec![ancestor];
    let mut at = 0;
    while let Some(pid) = found.get(at).copied() {
        at += 1;
        // Processes and threads may end meanwhile. Then they have no children.
        for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten().take_while(|_| Instant::now() < end) {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            found.extend(children.split_ascii_whitespace().filter_map(|word| word.parse::<u32>().ok()));
        }
        if found.len() > DESCENDANTS_MAX {
            break;
        }
    }
    found.split_off(1)
}

fn file_of(pid: u32, name: &str) -> io::Result<Option<String>> {
    Ok(if_there(fs::read(format!("/proc/{pid}/{name}")))?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn without_a_descriptor_the_pid_is_opened() {
        let mut child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().expect("sleep");
        let found = descriptor(child.id(), Err(Errno::ENOPROTOOPT)).expect("descriptors").expect("alive");
        let held = read_process(child.id(), found).expect("descriptors").expect("alive");
        assert_eq!((held.key.pid, is_alive(held.pidfd.as_fd())), (child.id(), true));
        child.kill().expect("alive");
        child.wait().expect("killed");
        assert!(!is_alive(held.pidfd.as_fd()), "that one reports its end, too");
        assert!(descriptor(child.id(), Err(Errno::ENOPROTOOPT)).expect("descriptors").is_none());
        assert!(descriptor(0, Err(Errno::ENOPROTOOPT)).expect("descriptors").is_none(), "one that cannot be seen from here");
        assert!(descriptor(std::process::id(), Err(Errno::EMFILE)).is_err(), "want of descriptors is not the peer's end");
        for ended in [Errno::ESRCH, Errno::EINVAL, Errno::ENODATA] {
            assert!(descriptor(std::process::id(), Err(ended)).expect("descriptors").is_none(), "the pid was reused: {ended}");
        }
    }

    #[test]
    fn only_a_child_is_a_descendant() {
        let me = held(std::process::id()).expect("descriptors").expect("alive");
        let mut child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().expect("sleep");
        let named = |peer: &HeldProcess, pid| NamedPeer { peer: peer.key.pid, uids: peer.uids, pid };
        let found = descendant(named(&me, child.id())).expect("a child");
        assert_eq!(found.key.pid, child.id());
        assert!(below(me.key.pid, Instant::now() + DESCENDANTS_WAIT).contains(&child.id()));
        assert!(descendant(named(&found, me.key.pid)).is_none());
        assert!(descendant(named(&me, 1)).is_none() || me.key.pid == 1);
        let other_user = NamedPeer { uids: me.uids.map(|uid| uid + 1), ..named(&me, child.id()) };
        assert!(descendant(other_user).is_none(), "another user's is nobody's child");
        child.kill().expect("alive");
        child.wait().expect("killed");
        assert!(!is_alive(found.pidfd.as_fd()));
        assert!(read_process(child.id(), found.pidfd).expect("descriptors").is_none());
    }
}
