//! Attacks on the API: event streams that are never released, and connections that block other clients.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use ttmon_testing::until;

use crate::host::{API, ATTACKER, Actor, BYSTANDER, HTTP, Host, hold, metric, strength};
use crate::isolation::Pids;
use crate::watch::Watch;
use crate::{Case, Role};

pub(crate) const CASES: &[Case] = &[
    ("streams_with_a_body_are_refused_and_given_back", Pids::Private, streams_with_a_body),
    ("streams_with_a_byte_behind_are_given_back", Pids::Private, streams_with_a_byte_behind),
    ("event_streams_of_one_user_shut_nobody_out", Pids::Private, held_streams),
    ("idle_connections_shut_nobody_out", Pids::Private, idle_connections),
    ("half_requests_shut_nobody_out", Pids::Private, half_requests),
];

pub(crate) const ROLES: &[Role] =
    &[("streams", streams), ("connections", connections), ("stream_once", stream_once), ("held_streams", hold_streams)];

const EVENTS: &str = "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n";
/// Twice as many as the service accepts.
const STREAMS: usize = 512;

fn streams_with_a_body() {
    leak("Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
}

/// A byte after the request hides the end of a connection until the service fails to write a keep-alive line.
fn streams_with_a_byte_behind() {
    leak("\r\nG");
}

/// Opens and closes many streams with this request. Afterwards other users can still open streams.
fn leak(rest: &str) {
    let host = Host::start();
    let watch = Watch::begin(&host);
    for place in [API, HTTP] {
        Actor::start(ATTACKER, "streams", &[place, &STREAMS.to_string(), rest]).finish();
    }
    until("streams given back", || metric("ttmon_http_streams ") == Some(0.0));
    for (uid, place) in [(0, API), (BYSTANDER, API), (BYSTANDER, HTTP)] {
        Actor::start(uid, "stream_once", &[place]).finish();
    }
    watch.finish();
    host.gives_back();
}

/// PLACE COUNT REST: opens event streams one after the other, reads the beginning of each answer and closes it.
fn streams(arguments: &[String]) {
    for _ in 0..arguments[1].parse::<usize>().unwrap() {
        let mut stream = open(&arguments[0]);
        // Send the complete request, so that the kernel does not report unread bytes as an error. If the service has already closed the
        // connection, the stream was refused.
        let _ = stream.write_all(format!("{EVENTS}{}", arguments[2]).as_bytes());
        let mut text = Vec::new();
        while !text.ends_with(b"retry: 2000\n\n\r\n") {
            let mut bytes = [0; 1024];
            match stream.read(&mut bytes) {
                Ok(count @ 1..) => text.extend_from_slice(&bytes[..count]),
                _ => break,
            }
            if text.starts_with(b"HTTP/1.1 503") {
                break;
            }
        }
    }
    println!("ready");
}

/// One user opens more streams than the service accepts, on the socket and over HTTP.
fn held_streams() {
    let host = Host::start();
    let watch = Watch::begin(&host);
    let attackers = [API, HTTP].map(|place| Actor::start(ATTACKER, "held_streams", &[place, &STREAMS.to_string()]));
    for (uid, place) in [(0, API), (BYSTANDER, API), (BYSTANDER, HTTP)] {
        Actor::start(uid, "stream_once", &[place]).finish();
    }
    watch.finish();
    drop(attackers);
    host.gives_back();
}

/// PLACE COUNT: holds event streams with snapshots, and reads none of them.
fn hold_streams(arguments: &[String]) {
    let held: Vec<_> = (0..arguments[1].parse::<usize>().unwrap())
        .map(|_| {
            let mut stream = open(&arguments[0]);
            let _ = write!(stream, "GET /api/v1/events?snapshots=true HTTP/1.1\r\nHost: localhost\r\n\r\n");
            let _ = stream.read(&mut [0; 12]);
            stream
        })
        .collect();
    hold();
    drop(held);
}

/// PLACE: opens an event stream.
fn stream_once(arguments: &[String]) {
    let mut stream = open(&arguments[0]);
    write!(stream, "{EVENTS}\r\n").unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200", "{}", String::from_utf8_lossy(&head));
    println!("ready");
}

fn idle_connections() {
    open_many("");
}

fn half_requests() {
    open_many("GET /metrics HTTP/1.1\r\nHost: ");
}

/// Opens 2,000 connections on the Unix socket and 8,000 over TCP that send only this text.
fn open_many(text: &str) {
    const PER_PROCESS: usize = 2000;
    let host = Host::start();
    let watch = Watch::begin(&host);
    let attacker = |place| Actor::start(ATTACKER, "connections", &[place, &PER_PROCESS.to_string(), text]);
    let attackers = [API, HTTP, HTTP, HTTP, HTTP].map(attacker);
    // All connections are open. Keep them for some more samples.
    let samples = || metric("ttmon_samples_total").unwrap_or_default();
    let before = samples();
    until("sampled on", || samples() >= before + strength(3, 5) as f64);
    assert!(metric("ttmon_http_dropped_total{reason=\"crowded\"}") > Some(0.0));
    watch.finish();
    drop(attackers);
    host.gives_back();
}

/// PLACE COUNT TEXT: sends the text on each connection, and keeps the connections open.
fn connections(arguments: &[String]) {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    let count = arguments[1].parse::<usize>().unwrap();
    let mut held = Vec::new();
    for _ in 0..count {
        let mut stream = open(&arguments[0]);
        // The service may already have closed this connection to make room for others.
        let _ = stream.write_all(arguments[2].as_bytes());
        held.push(stream);
    }
    hold();
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

fn open(place: &str) -> Box<dyn Stream> {
    if place.starts_with('/') { Box::new(UnixStream::connect(place).unwrap()) } else { Box::new(TcpStream::connect(place).unwrap()) }
}
