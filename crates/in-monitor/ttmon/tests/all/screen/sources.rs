//! Services as sources: they start, stop, hang and send invalid answers, and the screen shows this.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use ttmon_testing::{Service, Signal};

use crate::screen::{start_top, start_top_with};
use crate::start_service;

/// Starts a service of a simulated machine that is sampled twice a second.
fn start_service_of(spec: &str) -> Service {
    start_service(&["--sim", spec, "--interval", "0.5"])
}

/// Two services: the killed one is shown as lost, with the time, while the other continues. After a restart, it is shown again.
#[test]
fn a_host_goes_and_comes_back() {
    let (one, mut other) = (start_service_of("n300"), start_service_of("p150x2"));
    let mut top = start_top(120, 40, &format!("--connect {} --connect {} -r 500", one.url(), other.url()));
    top.wait("both hosts", |text| text.contains("2 hosts  4 devices") && text.contains("p150a") && text.contains("n300 L"));
    top.wait_for("HOST");
    other.kill();
    top.wait_for("NO ANSWER since");
    top.wait_for("cannot be reached");
    top.wait("its last state", |text| text.contains("p150a") && text.contains("n300 L"));
    // Meanwhile keys still work, and the other host is sampled.
    top.expect("2", "the last 60 seconds");
    top.expect("1", "NO ANSWER since");
    let _again = start_service(&["--sim", "p150x2", "--interval", "0.5", "--listen", &format!("127.0.0.1:{}", other.port)]);
    top.wait("it to be back", |text| text.contains("answers again") && !text.contains("NO ANSWER"));
    top.press("\t");
    top.expect("f", "▸");
    top.press("f");
    top.wait("it to unfold", |text| !text.contains('▸'));
    top.press("q");
    assert!(top.end().0.success());
}

/// A service that hangs is reported, and the other one is still updated.
#[test]
fn a_host_that_hangs_holds_nothing_up() {
    let (one, other) = (start_service_of("n300"), start_service_of("p150"));
    let mut top = start_top(120, 40, &format!("--connect {} --connect unix:{} -r 500", one.url(), other.api.display()));
    top.wait("both hosts", |text| text.contains("p150a") && text.contains("n300 L"));
    other.signal(Signal::STOP);
    top.expect("2", "the last 60 seconds");
    top.expect("1", "does not answer in time");
    other.signal(Signal::CONT);
    top.wait("it to be back", |text| text.contains("answers again") && !text.contains("NO ANSWER"));
}

/// An address without a service, and a server that is not ttmon.
#[test]
fn foreign_services_are_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for (count, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            let (mut stream, mut request) = (stream, [0; 1024]);
            let _ = stream.read(&mut request);
            let answer: &[u8] = if count.is_multiple_of(2) {
                b"HTTP/1.0 200 OK\r\n\r\n{\"schema\": 1, \"devices\": [7]}"
            } else {
                b"\x1b]0;boo\x07\xff\r\n\r\n"
            };
            let _ = stream.write_all(answer);
        }
    });
    let mut top = start_top(120, 40, &format!("--connect http://127.0.0.1:{port} -r 500"));
    top.wait_for("answers in another way");
    top.wait_for("something that is not text");
    top.expect("?", "show or hide this help");
    let (status, after) = start_top(80, 24, "--connect nonsense").end();
    assert!(!status.success() && after.text.contains("http://HOST:PORT"), "{after:?}");
}

/// The service of this machine is the source while it runs, and the charts begin with its history. When the service stops or hangs, the
/// machine is read directly. The service is used again when it answers.
#[test]
fn the_service_of_this_machine() {
    let mut service = start_service_of("n300");
    let api = service.api.display().to_string();
    let top = start_top_with(160, 40, "-r 500", &[("TTMON_API", &api)]);
    top.wait_for("[SIMULATED]");
    service.signal(Signal::STOP);
    top.wait_for("does not answer in time: reading here");
    service.signal(Signal::CONT);
    top.wait_for("is back");
    service.kill();
    // This machine has no device, and the message says so.
    top.wait_for("cannot be reached (Connection refused): reading here; no");
}

/// The history of a service is on the screen before `top` has two samples.
#[test]
fn the_past_of_a_service() {
    let service = start_service_of("n300");
    let temperatures = || {
        let history = service.json("/api/v1/history?fields=temperature");
        let column = history["devices"][0]["fields"]["temperature"].as_array().cloned().unwrap_or_default();
        column.iter().filter(|value| value.is_number()).count()
    };
    service.until("a past", || temperatures() >= 7);
    let mut top = start_top(120, 40, &format!("--connect {} -r 60000", service.url()));
    top.wait_for("R via 0");
    top.expect("2", "the last 60 seconds");
    let dots = |text: &str| text.chars().filter(|character| ('\u{2801}'..='\u{28ff}').contains(character)).count();
    top.wait("a line, not a dot", |text| dots(text) > 12);
}
