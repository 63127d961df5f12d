//! A writer or a reader that is stopped at any time and continues later.

use std::env;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use ttmon_model::ledger::Exactness;
use ttmon_testing::until;

use super::killed::{check, start};
use super::{list, live_bytes};
use crate::Region;

/// Set for the process that reads: the path of the ledger.
const ONLOOKER: &str = "TTMON_READER_TEST_ONLOOKER";
/// Number of stops of the onlooker.
const READER_STOPS: u64 = 20;
/// Required number of stops within an event, and maximum number of stops to get them.
const INSIDE: u32 = 20;
const STOPS_MAX: u64 = 3_000;

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("a child of ours");
}

/// Stops the child with all its threads, or returns its exit status.
fn stop(child: &Child) -> Result<(), ExitStatus> {
    send(child, Signal::STOP);
    let (_, status) = waitpid(Some(Pid::from_child(child)), WaitOptions::UNTRACED).expect("a child of ours").expect("it changed");
    if status.stopped() { Ok(()) } else { Err(ExitStatus::from_raw(status.as_raw())) }
}

/// Waits until the writer has made more than this many events.
fn wait_for_events(region: &Region, count: u64) {
    let before = region.last_event().unwrap();
    until("more events", || region.last_event().unwrap() > before + count);
}

/// While a writer is stopped within an event, a reader gets exact figures from the entries.
#[test]
fn a_writer_stopped_inside_an_event_is_read() {
    let (mut child, region) = start();
    let (mut inside, mut stops) = (0, 0);
    while inside < INSIDE && stops < STOPS_MAX {
        wait_for_events(&region, stops * 137 % 1_000);
        assert_eq!(stop(&child), Ok(()));
        let (_, totals) = check(&region, stops);
        assert_eq!(region.figures().unwrap().events, totals.events, "it stands still");
        inside += u32::from(totals.exactness == Exactness::Recounted);
        stops += 1;
        send(&child, Signal::CONT);
    }
    assert!(inside >= INSIDE, "only {inside} of {stops} stops were inside an event");
    // The writer continues normally: no event is lost, and nothing was repaired.
    wait_for_events(&region, 1_000);
    child.kill().unwrap();
    child.wait().unwrap();
    let (_, totals) = check(&region, stops);
    assert!(totals.is_exact);
}

/// Not a test: reads repeatedly until its input ends, and checks the results. Without the variable it does nothing.
#[test]
fn onlooker() {
    let Ok(path) = env::var(ONLOOKER) else { return };
    let region = Region::open(File::open(path).unwrap()).unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || is_over.store(io::stdin().read(&mut [0]).is_ok(), SeqCst)
    });
    let (mut seen, mut exact) = (0, 0);
    while exact == 0 || !is_over.load(SeqCst) {
        let listing = list(&region);
        let listed: u64 = listing.entries.iter().map(|entry| entry.size).sum();
        let unlisted: u64 =
            listing.figures.ledger.allocators.iter().flat_map(|allocator| &allocator.rows).map(|row| row.unlisted_bytes).sum();
        if listing.figures.ledger.exactness != Exactness::Changing {
            assert_eq!(listed + unlisted, live_bytes(&listing.figures.ledger));
            exact += 1;
        }
        let recorded = region.events(seen).unwrap();
        assert_eq!(seen + recorded.overrun + recorded.events.len() as u64, recorded.next, "each event is reported once or as overrun");
        assert!(recorded.events.iter().zip(seen + recorded.overrun + 1..).all(|(event, number)| event.number == number));
        seen = recorded.next;
    }
}

/// A reader that is stopped in the middle of a read, while the writer fills its ring many times, still returns correct results.
#[test]
fn a_reader_stopped_and_resumed_is_not_deceived() {
    let (mut writer, region) = start();
    let descriptor = std::fs::read_dir(format!("/proc/{}/fd", writer.id())).unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        std::fs::read_link(&path).is_ok_and(|link| link.to_string_lossy().contains("ttmon-ledger")).then_some(path)
    });
    let mut reader = Command::new(env::current_exe().unwrap())
        .args(["tests::stopped::onlooker", "--exact", "--nocapture"])
        .env(ONLOOKER, descriptor.unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    for stops in 1..=READER_STOPS {
        assert_eq!(stop(&reader), Ok(()), "what it read was wrong");
        // Every other time, until the ring was overwritten completely.
        wait_for_events(&region, if stops % 2 == 0 { 70_000 } else { 100 });
        send(&reader, Signal::CONT);
        wait_for_events(&region, stops * 331 % 4_000);
    }
    drop(reader.stdin.take());
    let status = reader.wait().unwrap();
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert!(status.success(), "{status}");
}
