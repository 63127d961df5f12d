//! The processes that have a device open.
//!
//! Drivers from 2.5 on list them: `/proc/driver/tenstorrent/N/pids` has a line for each open file, newest first, and `0` for a process of
//! another pid namespace. For older drivers, the links in `/proc/*/fd` are read, as far as this user may.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ttmon_model::identity::DeviceId;
use ttmon_model::limits::PIDS_BYTES_MAX;
use ttmon_model::sample::{Problem, Users};
use ttmon_model::{Missing, Reading};

use crate::budget::Budget;
use crate::examined::{Examined, ListEnd};
use crate::reads::{Reply, Request, Sampling, Want};
use crate::root::Root;

pub(crate) fn request(root: &Root, id: DeviceId, sampling: Sampling) -> Request {
    Request { path: path(root, id), want: Want::Beginning, bytes_max: PIDS_BYTES_MAX, sampling }
}

fn path(root: &Root, id: DeviceId) -> PathBuf {
    root.driver.join(id.to_string()).join("pids")
}

/// Parses the driver's list. Returns `NotExposed` if the driver has no list.
pub(crate) fn take(root: &Root, id: DeviceId, reply: &Reply, problems: &mut Vec<Problem>) -> Reading<Users> {
    let users = reply.as_ref().map_err(|failure| Missing::from(*failure)).and_then(|bytes| parse_pids(bytes));
    if let Err(reason) = users
        && reason.is_problem()
    {
        let detail = format!("the list of processes that hold device {id}: {}", reason.explanation());
        problems.push(Problem { part: path(root, id).display().to_string(), reason, detail });
    }
    users
}

/// Parses `4242
/// 4242
/// 977
/// `, with one line for each open file. If the list is too long, only complete lines are used.
fn parse_pids(bytes: &[u8]) -> Reading<Users> {
    let is_complete = bytes.len() < PIDS_BYTES_MAX;
    let text = String::from_utf8_lossy(bytes);
    let whole = if is_complete { &text[..] } else { text.rsplit_once('\n').map_or("", |(whole, _)| whole) };
    let mut users = Users { is_complete, ..Users::default() };
    for line in whole.lines() {
        match line.trim().parse::<u32>() {
            Ok(0) => users.hidden += 1,
            Ok(pid) if !users.pids.contains(&pid) => users.pids.push(pid),
            Ok(_) => {}
            Err(_) => return Err(Missing::Unparsable),
        }
    }
    Ok(users)
}

/// Keeps only the pids that certainly hold the device. Drivers 2.5 and 2.6 print the pid in the process's own namespace, which may be
/// another process here. A process that does not have the device open is counted as hidden. A process that was not examined because of a
/// limit may hold the device.
pub(crate) fn verify(root: &Root, id: DeviceId, users: &mut Users, examined: &mut Examined, budget: &mut Budget) {
    let all = users.pids.len();
    let mut is_cut = false;
    users.pids.retain(|pid| {
        let files = examined.open_files(root, *pid, budget);
        let holds = files.devices.iter().any(|file| file.device == id);
        let may_hold = !holds && matches!(files.end, ListEnd::Cut(..));
        is_cut |= may_hold;
        holds || may_hold
    });
    users.hidden += (all - users.pids.len()) as u64;
    users.is_complete &= !is_cut;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenFile {
    pub(crate) pid: u32,
    pub(crate) fd: u32,
    pub(crate) device: DeviceId,
}

/// Returns the device files that all processes have open, and whether the list is complete. This is slow.
pub(crate) fn scan(root: &Root, examined: &mut Examined, budget: &mut Budget) -> (Vec<OpenFile>, bool) {
    let Ok(pids) = root.pids() else { return (Vec::new(), false) };
    let mut files = Vec::new();
    let mut is_complete = true;
    for pid in pids {
        let of_process = examined.open_files(root, pid, budget);
        files.extend(&of_process.devices);
        is_complete &= !matches!(of_process.end, ListEnd::Cut(..) | ListEnd::Unreadable(Missing::NoPermission));
    }
    (files, is_complete)
}

/// Parses `/dev/tenstorrent/3`. The kernel also shows this path for a file that was opened through a link in `by-id`.
pub(crate) fn device_of(target: &Path) -> Option<DeviceId> {
    target.to_str()?.strip_prefix("/dev/tenstorrent/")?.parse().ok().map(DeviceId)
}

pub(crate) fn by_device(files: &[OpenFile], is_complete: bool) -> BTreeMap<DeviceId, Users> {
    let mut users: BTreeMap<DeviceId, Users> = BTreeMap::new();
    for file in files {
        let of_device = users.entry(file.device).or_insert_with(|| Users { is_complete, ..Users::default() });
        if !of_device.pids.contains(&file.pid) {
            of_device.pids.push(file.pid);
        }
    }
    users
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pids_are_listed_once_and_hidden_ones_counted() {
        let users = parse_pids(b"4242\n0\n4242\n977\n0\n").unwrap();
        assert_eq!(users, Users { pids: vec![4242, 977], hidden: 2, is_complete: true });
        assert!(parse_pids(b"").unwrap().pids.is_empty());
        for bad in ["x\n", "-1\n", "12 13\n", "99999999999\n", "\n\n"] {
            assert_eq!(parse_pids(bad.as_bytes()), Err(Missing::Unparsable), "{bad:?}");
        }
    }

    #[test]
    fn a_list_without_end_is_cut() {
        let long = "1234567\n".repeat(PIDS_BYTES_MAX / 8 + 1);
        let users = parse_pids(&long.as_bytes()[..PIDS_BYTES_MAX]).unwrap();
        assert_eq!((users.pids.as_slice(), users.is_complete), (&[1_234_567][..], false));
    }

    #[test]
    fn links_name_devices() {
        assert_eq!(device_of(Path::new("/dev/tenstorrent/12")), Some(DeviceId(12)));
        for other in ["/dev/tenstorrent/by-id", "/dev/tenstorrent", "/dev/null", "socket:[1]", "/dev/tenstorrent/1 (deleted)"] {
            assert_eq!(device_of(Path::new(other)), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9\\n x-]{0,60}") {
            let _ = parse_pids(text.as_bytes());
        }
    }
}
