//! Reads files whose length other users control, as far as the limits of those users allow.

use super::Error;
use super::readers::Readers;
use crate::budget::{Budget, ProcessCharge, Resource};
use crate::reads::{Failure, Lane, LaneReply, Reply, Request};
use crate::root::Root;

pub(super) struct ProcessReads {
    pub(super) pid: u32,
    pub(super) key: u64,
    pub(super) requests: Vec<Request>,
    /// A long file, read after the others and within the limits. The first line of its reply ends with its length.
    pub(super) long: Option<Request>,
}

pub(super) struct Granted {
    /// The replies. The last reply is that of the long file, if it was requested and granted.
    pub(super) lane: LaneReply,
    /// The user whose limit prevented the read of the long file.
    pub(super) refused: Option<u32>,
}

/// Reads in batches, each with as many long files as their users may read in the worst case. The next batch may use the rest.
pub(super) fn read(
    readers: &mut Readers,
    root: &Root,
    budget: &mut Budget,
    resource: Resource,
    wanted: Vec<ProcessReads>,
) -> Result<Vec<Granted>, Error> {
    let mut read = Vec::with_capacity(wanted.len());
    let mut wanted = wanted.into_iter().peekable();
    while wanted.peek().is_some() {
        let (mut lanes, mut grants, mut has_grant) = (Vec::new(), Vec::new(), false);
        while let Some(next) = wanted.peek() {
            let mut charge = ProcessCharge::new(&root.proc, next.pid, budget);
            let grant = next.long.as_ref().map(|long| charge.take(resource, long.bytes_max as u64).ok_or_else(|| charge.uid()));
            if matches!(grant, Some(Err(_))) && has_grant {
                break;
            }
            let Some(ProcessReads { key, mut requests, long, .. }) = wanted.next() else { break };
            if matches!(grant, Some(Ok(_))) {
                has_grant = true;
                requests.extend(long);
            }
            lanes.push(Lane { key, requests: requests.into() });
            grants.push(grant);
        }
        for (lane, grant) in readers.read(lanes)?.into_iter().zip(grants) {
            if let Some(Ok(grant)) = grant {
                budget.give_back(grant, |most| most - length(lane.replies.last(), most));
            }
            read.push(Granted { lane, refused: grant.and_then(Result::err) });
        }
    }
    Ok(read)
}

/// Returns how many bytes were read. A file that timed out is charged with the maximum.
fn length(reply: Option<&Reply>, most: u64) -> u64 {
    let first = |bytes: &Vec<u8>| std::str::from_utf8(bytes.split(|byte| *byte == b'\n').next()?).ok()?.rsplit(' ').next()?.parse().ok();
    match reply {
        Some(Ok(bytes)) => first(bytes).unwrap_or(0).min(most),
        Some(Err(Failure::Errno(_))) => 0,
        Some(Err(Failure::Timeout | Failure::TooLong)) | None => most,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::{Isolation, Options};
    use super::*;
    use crate::budget::exhausted;
    use crate::ledgers::maps_request;

    /// The lists have 600 bytes each. A list of unknown length is charged with 1 MiB, so the five lists are read one after the other.
    #[test]
    fn unneeded_bytes_are_for_the_next_reads() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at(directory.path());
        let mut readers = Readers::new(&root, &Options { isolation: Isolation::Threads, ..Options::default() }).unwrap();
        let wanted = |pid: u32| ProcessReads { pid, key: pid.into(), requests: Vec::new(), long: Some(maps_request(&root, pid)) };
        for pid in 1..=9 {
            fs::create_dir_all(root.proc.join(pid.to_string())).unwrap();
            fs::write(root.proc.join(format!("{pid}/status")), "Uid:\t1000\t1000\t1000\t1000\n").unwrap();
            fs::write(root.proc.join(format!("{pid}/maps")), "7f-80 rw-p 0 00:00 0 \n".repeat(30)).unwrap();
        }
        let mut budget = exhausted(1000, (1 << 20) + 4 * 660);
        let read = read(&mut readers, &root, &mut budget, Resource::MapBytes, (1..=9).map(wanted).collect()).unwrap();
        let refused: Vec<_> = read.iter().map(|granted| (granted.lane.replies.len(), granted.refused)).collect();
        assert_eq!(refused, [[(1, None); 5].as_slice(), &[(0, Some(1000)); 4]].concat());
    }
}
