//! Compares the current buffers with those of an earlier `ttmon mem --json --buffers`.

use std::io::{BufReader, Read};
use std::path::Path;
use std::time::Duration;

use ttmon_json::SCHEMA;
use ttmon_model::Snapshot;
use ttmon_model::ledger::Buffer;
use ttmon_model::snapshot::Status;
use ttmon_model::units::UnixTime;
use ttmon_print::{Change, Sign};

use crate::earlier::{self, Earlier, EarlierListing};
use crate::failure::Failure;

/// Largest file that is read. It has about two million buffers.
const BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Two start times that differ by at most this belong to the same process. The clock may be corrected between two listings, and no pid is
/// reused that fast.
const START_TOLERANCE: Duration = Duration::from_secs(2);

pub(crate) fn read(path: &Path) -> Result<EarlierListing, Failure> {
    let wrong = |why: String| Failure::new(format!("--diff {}: {why}; make it with: ttmon mem --json --buffers > FILE", path.display()));
    let file = ttmon_os::open(path).map_err(|error| wrong(error.to_string()))?;
    if file.metadata().is_ok_and(|metadata| metadata.len() > BYTES_MAX) {
        return Err(wrong("it has more than 512 MiB".to_owned()));
    }
    let listing = earlier::parse(BufReader::new(file.take(BYTES_MAX)))
        .map_err(|error| wrong(if error.is_data() { error.to_string() } else { format!("not JSON: {error}") }))?;
    match listing.schema {
        Some(schema) if schema != u64::from(SCHEMA) => Err(wrong(format!("it is of schema {schema}, and this ttmon knows {SCHEMA}"))),
        _ if listing.left_out > 0 => Err(wrong(format!("--top left {} buffers out", listing.left_out))),
        _ if listing.buffers.is_none() => Err(wrong("it has no buffers".to_owned())),
        _ => Ok(listing),
    }
}

pub(crate) fn check_host(listing: &EarlierListing, now: &Snapshot) -> Result<(), Failure> {
    match &listing.host {
        Some(host) if *host != now.host => {
            Err(Failure::new(format!("--diff: the file is of host {host}, and this is {}; compare two listings of one host", now.host)))
        }
        _ => Ok(()),
    }
}

/// Largest difference between the clocks of two samples.
const AGE_TOLERANCE: Duration = Duration::from_secs(2);

/// Lists new and gone buffers. A buffer with another size or age at the same address is both. If a process has the pid of an earlier
/// process, all its buffers are new. If a process is running but may not be read, its buffers are not compared.
pub(crate) fn compare<'a>(
    listing: &EarlierListing,
    earlier: impl Iterator<Item = &'a Earlier>,
    now: &Snapshot,
    is_there: impl Fn(u32) -> bool,
) -> Vec<Change> {
    let is_another = |pid: u32| {
        let process = now.processes.iter().find(|process| process.key.pid == pid);
        let starts = process.and_then(|process| process.start_time.ok()).zip(listing.started.get(&pid));
        starts.is_some_and(|(UnixTime(now), UnixTime(then))| u128::from(now.abs_diff(*then)) > START_TOLERANCE.as_nanos())
    };
    let others: Vec<u32> = listing.started.keys().copied().filter(|pid| is_another(*pid)).collect();
    let mut before: Vec<&Earlier> = earlier.collect();
    before.sort_by(|a, b| key_of(a).cmp(&key_of(b)));
    before.dedup_by(|a, b| key_of(a) == key_of(b));
    let mut hidden: Vec<u32> = before.iter().map(|earlier| earlier.pid).collect();
    hidden.dedup();
    hidden.retain(|pid| !others.contains(pid));
    hidden.retain(|pid| match now.processes.iter().find(|process| process.key.pid == *pid) {
        Some(process) => process.status == Status::NoPermission,
        None => now.denied_processes > 0 && is_there(*pid),
    });
    let mut is_found = vec![false; before.len()];
    let mut changes = Vec::new();
    for buffer in &now.buffers {
        let entry = &buffer.buffer;
        let key: Key<'_> = (buffer.process().pid, &buffer.allocator.id, entry.kind.name(), entry.address);
        match before.binary_search_by(|earlier| key_of(earlier).cmp(&key)) {
            Ok(found) if !others.contains(&buffer.process().pid) && is_same(listing, before[found], entry) => is_found[found] = true,
            _ => {
                let line = entry.line().map_or_else(String::new, ToString::to_string);
                changes.push(change(Sign::New, key, entry.size, (entry.tag.as_deref().map_or("", String::as_str), &line)));
            }
        }
    }
    for (earlier, _) in before.iter().zip(is_found).filter(|(_, is_found)| !is_found) {
        let sign = if hidden.contains(&earlier.pid) { Sign::Unknown } else { Sign::Gone };
        changes.push(change(sign, key_of(earlier), earlier.size, (&earlier.tag, &earlier.line)));
    }
    changes.sort_by_key(|change| change.sign);
    changes
}

/// Process, allocator, kind, address.
type Key<'a> = (u32, &'a str, &'a str, u64);

fn key_of(earlier: &Earlier) -> Key<'_> {
    (earlier.pid, &earlier.allocator, &earlier.kind, earlier.address)
}

fn change(sign: Sign, (pid, _, kind, address): Key<'_>, bytes: u64, (tag, line): (&str, &str)) -> Change {
    let (kind, address) = (kind.to_owned(), format!("{address:#x}"));
    Change { sign, pid, kind, address, bytes, tag: tag.to_owned(), line: line.to_owned() }
}

/// Whether a buffer at the same address is the same one: its size is equal, and it is not younger than the earlier listing.
fn is_same(listing: &EarlierListing, earlier: &Earlier, now: &Buffer) -> bool {
    let created = listing.time.zip(earlier.age_s.and_then(|age| Duration::try_from_secs_f64(age).ok()));
    let is_younger = created.is_some_and(|(UnixTime(time), age)| {
        let tolerance = u64::try_from(AGE_TOLERANCE.as_nanos()).unwrap_or(u64::MAX);
        let age = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        now.time.0 > time.saturating_sub(age).saturating_add(tolerance)
    });
    earlier.size == now.size && !is_younger
}
