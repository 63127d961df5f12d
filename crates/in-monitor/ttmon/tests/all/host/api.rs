//! Tests which answers each client gets, over HTTP and the Unix socket.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Output;

use serde_json::Value;
use ttmon_testing::{Response, TIMEOUT, TOKEN};

use crate::{command, start_service};

fn refused(arguments: &[&str]) -> Output {
    command(&["serve", "--sim", "n150"]).args(arguments).output().expect("ttmon")
}

#[test]
fn every_path_of_the_description_answers() {
    let mut service = start_service(&["--sim", "n300,p150"]);
    let description = service.get("/api/v1/openapi.json").json();
    let paths: Vec<&String> = description["paths"].as_object().expect("paths").keys().collect();
    assert_eq!(paths.len(), 17, "{paths:?}");
    let (fleet, paths): (Vec<&String>, Vec<&String>) = paths.into_iter().partition(|path| path.contains("/fleet"));
    // Without --fleet there is no store to query.
    assert!(fleet.len() == 2 && fleet.iter().all(|path| service.get(path).problem() == "not-found"));
    for path in paths.iter().filter(|path| !path.ends_with("/events") && !path.ends_with("/buffers")) {
        let answer = service.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        let content = description["paths"][path.as_str()]["get"]["responses"]["200"]["content"].as_object().expect("content");
        assert!(content.keys().any(|media| answer.head.contains(&format!("content-type: {media}"))), "{path}: {}", answer.head);
    }
    let snapshot = service.get("/api/v1/snapshot").json();
    assert_eq!((&snapshot["origin"], snapshot["devices"].as_array().map(Vec::len)), (&"sim".into(), Some(3)));
    let metrics = service.with("/metrics", "Accept: application/openmetrics-text; version=1.0.0\r\n");
    assert!(metrics.body.ends_with("# EOF\n") && metrics.head.contains("openmetrics-text"), "{}", metrics.head);
    assert!(metrics.body.contains("ttmon_device_temperature_celsius{device=\"0\""));
    assert_eq!(service.stop(), Some(0));
}

/// Scrapers on other hosts may use any host name, need no token, and get only devices and workloads.
#[test]
fn metrics_port_has_devices_and_nothing_else() {
    let service = start_service(&["--sim", "n300,procs=2", "--metrics-listen", "127.0.0.1:0", "--process-metrics", "--metrics", "lean"]);
    let port = service.metrics_port.expect("a port for scrapers");
    let ask = |path: &str, headers: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: tt-01.example:9478\r\nConnection: close\r\n{headers}\r\n");
        Response::to(port, &request).expect("a response")
    };
    let scrape = ask("/metrics", "Authorization: Bearer of-another-service\r\n");
    assert_eq!(scrape.status, 200, "{}", scrape.body);
    assert!(
        scrape.body.contains("ttmon_device_temperature_celsius{device=\"0\"") && scrape.body.contains("\nttmon_up 1\n"),
        "{}",
        scrape.body
    );
    for hidden in ["ttmon_process_", "ttmon_http_", "ttmon_allocation_socket", "ttmon_device_voltage", "pid="] {
        assert!(!scrape.body.contains(hidden), "{hidden}");
    }
    service.until("processes scanned", || service.get("/metrics").body.contains("ttmon_process_info"));
    let packed = ask("/metrics", "Accept-Encoding: gzip\r\n");
    assert!(packed.head.contains("content-encoding: gzip") && packed.head.contains("vary: accept, accept-encoding"), "{}", packed.head);
    for path in ["/", "/assets/app.js", "/readyz", "/api/v1/snapshot", "/api/v1/devices", "/api/v1/fleet", "/api/v1/openapi.json"] {
        assert_eq!(ask(path, "").problem(), "not-found", "{path}");
    }
    assert_eq!(ask("/healthz", "").body, "ok\n");
    assert_eq!(ask("/metrics", "Origin: https://evil.example\r\n").problem(), "foreign-origin");
}

/// If a store does not answer, the answer names it and has no other data instead.
#[test]
fn fleet_names_a_dead_store() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let service = start_service(&["--sim", "n150", "--fleet", &format!("http://{closed}")]);
    let document = service.get("/api/v1/fleet").json();
    assert!(document["store"]["error"].as_str().is_some_and(|why| why.contains("cannot be reached")), "{document}");
    assert_eq!((&document["host_count"], document["hosts"].as_array().map(Vec::len)), (&0.into(), Some(0)));
    assert_eq!(service.get("/api/v1/fleet/find?chips=8&board=n300&free_dram=1").problem(), "stale");
    assert_eq!(service.get("/api/v1/fleet/find?chips=0").problem(), "parameter");
    assert_eq!(service.get("/api/v1/fields").json()["fleet"], true);
}

#[test]
fn the_mesh_has_a_place_for_each_chip() {
    let service = start_service(&["--sim", "t3k"]);
    let mesh = service.get("/api/v1/mesh").json();
    let tiles = mesh["tiles"].as_array().expect("tiles");
    assert_eq!((tiles.len(), mesh["rows"].as_u64(), mesh["columns"].as_u64()), (8, Some(2), Some(4)), "{mesh}");
    assert!(tiles.iter().any(|tile| tile["device"] == 4 && tile["row"] == 1 && tile["column"] == 0 && tile["tray"].is_null()), "{mesh}");
    assert_eq!(mesh["links"].as_array().map(Vec::len), Some(0));
}

#[test]
fn strangers_are_rejected() {
    let service = start_service(&["--sim", "n150"]);
    assert_eq!(service.get("/nonsense").problem(), "not-found");
    let post = format!("POST /metrics HTTP/1.1\r\nHost: localhost:{}\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi", service.port);
    assert_eq!(service.send(&post).problem(), "method");
    let foreign = "GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert_eq!(service.send(foreign).problem(), "foreign-host");
    assert_eq!(service.with("/metrics", "Origin: https://evil.example\r\n").problem(), "foreign-origin");
    assert_eq!(service.with("/metrics", "Authorization: Bearer wrong-wrong-wrong-wrong\r\n").problem(), "wrong-token");
    assert_eq!(service.get("/api/v1/history?since=x").problem(), "parameter");
    // The reason repeats only the beginning of a long name.
    let long = service.get(&format!("/api/v1/fields?{}", "%01".repeat(20_000)));
    assert!(long.problem() == "parameter" && long.body.len() < 16 << 10, "{} bytes", long.body.len());
    assert_eq!(service.get("/api/v1/history?fields=serial").problem(), "parameter");
    assert_eq!(service.send("nonsense\r\n\r\n").status, 400);
    let long = format!("GET / HTTP/1.1\r\nHost: localhost\r\nCookie: {}\r\n\r\n", "x".repeat(300_000));
    assert_eq!(service.send(&long).status, 431);
}

#[test]
fn buffers_and_commands_are_for_those_who_may() {
    let service = start_service(&["--sim", "n150,procs=2,buffers=5"]);
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(service.get("/api/v1/buffers").problem(), "needs-token");
    let listed = || service.with("/api/v1/buffers?limit=3", &token).json();
    service.until("processes scanned", || listed()["count"].as_u64() >= Some(10));
    let whole = listed();
    let count = whole["count"].as_u64().expect("a count");
    assert!(count >= 10 && whole["buffers"].as_array().map(Vec::len) == Some(3), "{whole}");
    // The service and the client have the same user.
    assert_eq!(service.unix("/api/v1/buffers").json()["count"], count);
    let pid = whole["buffers"][0]["pid"].as_u64().expect("a pid");
    let of_one = service.unix(&format!("/api/v1/buffers?pid={pid}")).json();
    assert!(of_one["buffers"].as_array().is_some_and(|buffers| !buffers.is_empty() && buffers.iter().all(|buffer| buffer["pid"] == pid)));
    assert_eq!(service.unix("/api/v1/buffers?pid=1").json()["count"], 0);
    // Rates and peaks of devices, which need more than one sample, are the same with and without buffers.
    for path in ["/api/v1/memory", "/api/v1/memory?banks=true"] {
        service.until("rates", || service.unix(path).json()["processes"][0]["cpu"].is_number());
        let memory = service.unix(path).json();
        assert!(memory["devices"][0]["memory"]["kinds"]["dram"]["peak"].as_u64() > Some(0), "{path}: {}", memory["devices"][0]["memory"]);
    }
    let command_line = |answer: Response| answer.json()["processes"][0]["command"].clone();
    assert_eq!(command_line(service.get("/api/v1/processes")), Value::Null);
    assert!(command_line(service.with("/api/v1/processes", &token)).is_string());
    assert!(command_line(service.unix("/api/v1/processes")).is_string());
    // Omitted values have a reason.
    assert_eq!(service.get("/api/v1/processes").json()["processes"][0]["missing"]["command"], "no_permission");
}

#[test]
fn streams_send_events_and_snapshots() {
    let service = start_service(&["--sim", "n150,fault=gone:0@3", "--interval", "0.2"]);
    let mut stream = TcpStream::connect(("127.0.0.1", service.port)).expect("a connection");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a time-out");
    let request = "GET /api/v1/events?snapshots=true&after=0 HTTP/1.0\r\nHost: localhost\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("a request");
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("text/event-stream")));
    assert!(lines.any(|line| line == "event: started"));
    assert!(lines.any(|line| line == "event: snapshot"));
    let data = lines.find(|line| line.starts_with("data: {\"schema\":1")).expect("a snapshot");
    assert!(serde_json::from_str::<Value>(&data["data: ".len()..]).is_ok());
    assert!(lines.any(|line| line == "event: state"));
}

#[test]
fn one_service_a_socket_and_none_is_left_behind() {
    let mut service = start_service(&["--sim", "n150"]);
    let api = service.api.to_str().expect("text").to_owned();
    let second = refused(&["--listen", "off", "--api", &api]);
    assert_eq!(second.status.code(), Some(1));
    let message = String::from_utf8_lossy(&second.stderr);
    assert!(message.contains(&format!("another ttmon serve has it (pid {})", service.pid())), "{message}");
    let port = format!("127.0.0.1:{}", service.port);
    let second = refused(&["--listen", &port]);
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("cannot listen on"));
    let socket = service.api.clone();
    assert_eq!(service.stop(), Some(0));
    assert!(!socket.exists());
}

#[test]
fn beyond_this_host_is_refused_with_the_reason() {
    let output = refused(&["--listen", "0.0.0.0:0"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(text.contains("--allow-remote, --token-file FILE, --tls-cert FILE --tls-key FILE"), "{text}");
    let directory = tempfile::tempdir().expect("a directory");
    let token = directory.path().join("token");
    std::fs::write(&token, TOKEN).expect("a token");
    let output = refused(&["--token-file", token.to_str().expect("text")]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("chmod 600"), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The metrics include the counters of the allocation socket and refusals.
#[test]
fn the_allocation_socket_is_counted() {
    let service = start_service(&["--sim", "n150,idle"]);
    let has = |what: &str, count: u32| {
        service.get("/metrics").body.contains(&format!("ttmon_allocation_socket_total{{what=\"{what}\"}} {count}\n"))
    };
    assert!(has("messages", 0) && has("memory_refused", 0));
    let mut question = [0; 144];
    question[0] = 3;
    let mut peer = std::os::unix::net::UnixStream::connect(service.path("alloc.sock")).expect("a connection");
    peer.write_all(&question).expect("a question");
    service.until("counted", || has("messages", 1) && has("queries", 1));
}

/// A store that accepts connections and never answers delays only the requests about the fleet.
#[test]
fn hanging_store_delays_no_other_answer() {
    let store = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    let place = format!("http://{}", store.local_addr().expect("an address"));
    let service = start_service(&["--sim", "n150", "--fleet", &place]);
    std::thread::scope(|scope| {
        let fleet = scope.spawn(|| service.unix("/api/v1/fleet").status);
        // The service has sent its query.
        let connection = store.accept().expect("a connection");
        assert_eq!(service.unix("/api/v1/buffers?limit=1").status, 200);
        assert!(!fleet.is_finished(), "the store was waited for");
        drop((connection, store));
        assert_eq!(fleet.join().expect("an answer"), 200, "with the reason");
    });
}
