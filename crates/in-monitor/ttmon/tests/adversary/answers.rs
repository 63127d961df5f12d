//! Attacks by expensive answers: many large documents at a time, read slowly.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use ttmon_testing::until;

use crate::host::{API, hold, metric, strength};
use crate::isolation::Pids;
use crate::scan::{many, start};
use crate::watch::Watch;
use crate::{Case, Role};

pub(crate) const CASES: &[Case] = &[("costly_answers_of_one_user_are_bounded", Pids::Private, costly_answers)];

pub(crate) const ROLES: &[Role] = &[("costly", costly)];

/// The largest documents that an ordinary user can request.
const QUESTIONS: &[&str] = &[
    "/api/v1/memory?buffers=true&banks=true&blocks=true",
    "/api/v1/buffers?limit=1048576",
    "/api/v1/memory/events?limit=100000",
    "/api/v1/history?since=86400&step=60",
    "/api/v1/snapshot",
];

/// The attacker has as many live buffers as one answer lists per user, and full recorders. It sends each request on connections that it
/// does not read, and repeatedly on connections that it reads completely.
fn costly_answers() {
    let host = start();
    let watch = Watch::begin(&host);
    let ledgers = many(3, "buffers", &["30000"]);
    let attackers = many(4, "costly", &[]);
    let samples = || metric("ttmon_samples_total").unwrap_or_default();
    let before = samples();
    let seconds = strength(8, 30) as f64;
    until("sampled on", || samples() >= before + seconds);
    watch.finish();
    drop((ledgers, attackers));
    host.gives_back();
}

/// Sends every request on 8 connections without reading, then on one connection after the other with reading.
fn costly(_: &[String]) {
    let ask = |question: &str| {
        let mut stream = UnixStream::connect(API).unwrap();
        let _ = write!(stream, "GET {question} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nConnection: close\r\n\r\n");
        stream
    };
    let waiting: Vec<UnixStream> = (0..8).flat_map(|_| QUESTIONS).map(|question| ask(question)).collect();
    std::thread::spawn(move || {
        for question in QUESTIONS.iter().cycle() {
            let mut bytes = [0; 1 << 16];
            let mut stream = ask(question);
            while stream.read(&mut bytes).is_ok_and(|count| count > 0) {}
        }
    });
    hold();
    drop(waiting);
}
