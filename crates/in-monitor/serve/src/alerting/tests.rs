use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::OnceLock;
use std::thread;

use super::*;
use crate::{Options, fixture};
use ttmon_alerts::{Delivery, PostTarget, Receiver, Severity, UrlFrom};
use ttmon_model::units::{Celsius, UnixTime};
use ttmon_model::{Sample, Snapshot};
use ttmon_testing::{TIMEOUT, until};

fn post_target(url: UrlFrom) -> PostTarget {
    PostTarget { url, bearer_file: None, ca: None }
}

fn webhook(address: std::net::SocketAddr) -> Receiver {
    let how = Delivery::Webhook(post_target(UrlFrom::Text(format!("http://{address}/hook"))));
    Receiver { name: "hook".to_owned(), severity: Severity::Warning, how }
}

fn service(receivers: Vec<Receiver>, state: Option<&Path>) -> Arc<Service> {
    let alerts = Config { receivers, ..Config::default() };
    Arc::new(Service::new(Options { alerts, state: state.map(Path::to_owned), ..fixture::options() }, None, None))
}

/// A snapshot at this second, with one chip at this temperature. The limit is 100 degrees.
fn published(second: u64, degrees: f64) -> Arc<Published> {
    static MACHINE: OnceLock<Snapshot> = OnceLock::new();
    let mut snapshot = MACHINE.get_or_init(|| fixture::with_devices(1)).clone();
    let time = UnixTime(1_000_000_000 * (1_700_000_000 + second));
    snapshot.time = time;
    let device = &mut snapshot.devices[0];
    (device.temperature, device.temperature_limit) = (Ok(Celsius(degrees)), Ok(Celsius(100.0)));
    (device.memory.dram.used, device.therm_trip_count) = (Ok(0), Ok(0));
    let sample = Sample { at: Duration::from_secs(1000 + second), time, ..fixture::sample() };
    Arc::new(Published::new(second, snapshot, sample, Vec::new(), Vec::new()))
}

/// Accepts one request, answers it, and returns its body.
fn taken(listener: &TcpListener, answer: &str) -> Value {
    let (mut peer, _) = listener.accept().expect("a peer");
    let text = request(&mut peer);
    peer.write_all(answer.as_bytes()).expect("an answer");
    let (_, body) = text.split_once("\r\n\r\n").expect("a body");
    serde_json::from_str(body).expect("JSON")
}

fn request(peer: &mut TcpStream) -> String {
    let mut text = String::new();
    let mut bytes = [0; 4096];
    loop {
        let count = peer.read(&mut bytes).expect("bytes");
        text.push_str(std::str::from_utf8(&bytes[..count]).expect("text"));
        let length = text.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse::<usize>().ok());
        let body = text.split_once("\r\n\r\n").map(|(_, body)| body.len());
        if count == 0 || (body.is_some() && body == length) {
            return text;
        }
    }
}

#[test]
fn an_alert_reaches_a_webhook_and_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let service = service(vec![webhook(listener.local_addr().expect("an address"))], None);
    let mut evaluator = AlertEvaluator::new(&service);
    (0..=10).for_each(|second| evaluator.evaluate(&service, &published(second, 105.0)));
    let mailbox = Arc::clone(&service.alerting.mailboxes[0]);
    let working = thread::spawn(move || mailbox.work("0", |_, _| {}));
    let message = taken(&listener, "HTTP/1.1 200 OK\r\n\r\n");
    let [alert] = message["alerts"].as_array().expect("alerts").as_slice() else { panic!("{message}") };
    assert_eq!((&alert["rule"], &alert["state"], &alert["device"]), (&json!("hot"), &json!("firing"), &json!(0)));
    assert_eq!((&alert["summary"], &message["test"]), (&json!("temperature 105 °C of 100 °C"), &json!(false)));
    until("sent", || service.alerting.mailboxes[0].figures().sent == 1);
    // Check the API, the metrics and the journal.
    let sender = Sender { version: "0", host: "machine", origin: "sim", is_test: false };
    assert_eq!(service.alerting.document(sender)["alerts"][0]["state"], "firing");
    let scrape =
        String::from_utf8(service.scrape(crate::metrics::Dialect::Text, false, crate::access::RequestOrigin::Loopback)).expect("text");
    assert!(scrape.contains("ttmon_alerts_firing{rule=\"hot\",severity=\"critical\"} 1\n"), "{scrape}");
    assert!(scrape.contains("ttmon_alert_messages_total{receiver=\"hook\",result=\"sent\"} 1\n"), "{scrape}");
    let states = service.events_after(0).into_iter().map(|event| event.json()["state"].clone()).collect::<Vec<_>>();
    assert_eq!(states, ["firing"]);
    (11..=80).for_each(|second| evaluator.evaluate(&service, &published(second, 50.0)));
    assert_eq!(service.alerting.document(sender)["alerts"][0]["state"], "resolved");
    service.alerting.stop();
    working.join().expect("a thread");
}

/// A receiver that does not answer delays no sample: messages that do not fit are dropped and counted.
#[test]
fn a_full_queue_and_a_dead_receiver_delay_no_sample() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let service = service(vec![webhook(listener.local_addr().expect("an address"))], None);
    let (samples, threads) = start(&service).expect("threads");
    // No thread evaluates samples: the queue is soon full, and publishing continues.
    for second in 0..100 {
        service.publish(Duration::from_secs(second), published(second, 105.0));
    }
    assert_eq!(service.alerting.figures().dropped, 100 - ALERT_SAMPLES_MAX as u64);
    // The receiver accepts the connection and sends nothing. Evaluation continues.
    let mut evaluator = AlertEvaluator::new(&service);
    (0..=10).for_each(|second| evaluator.evaluate(&service, &published(second, 105.0)));
    let (peer, _) = listener.accept().expect("a peer");
    for second in 11..1000 {
        evaluator.evaluate(&service, &published(second, if second / 100 % 2 == 0 { 105.0 } else { 50.0 }));
    }
    assert_eq!(service.alerting.figures().messages[0].sent, 0);
    drop((samples, peer));
    service.alerting.stop();
    threads.into_iter().for_each(|thread| drop(thread.join().expect("a thread")));
}

/// A failing receiver is reported once, and again when it accepts messages.
#[test]
fn failing_receiver_is_reported() {
    static PRINTED: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("page");
    let how = Delivery::Command { argv: vec![program.display().to_string()], timeout: TIMEOUT };
    let mut service = service(vec![Receiver { name: "page".to_owned(), severity: Severity::Info, how }], None);
    Arc::get_mut(&mut service).expect("the only one").options.complain = |line| lock(&PRINTED).push(line.to_owned());
    let (samples, threads) = start(&service).expect("threads");
    let mut evaluator = AlertEvaluator::new(&service);
    (0..=10).for_each(|second| evaluator.evaluate(&service, &published(second, 105.0)));
    until("failed", || !lock(&PRINTED).is_empty());
    let noted = || {
        let events = service.events_after(0).into_iter().map(|event| event.json());
        events.filter(|event| event["event"] == "receiver").collect::<Vec<Value>>()
    };
    until("noted", || noted().len() == 1);
    assert_eq!((&noted()[0]["state"], &noted()[0]["receiver"]), (&json!("failing"), &json!("page")));
    assert!(lock(&PRINTED)[0].starts_with("alert receiver page: cannot be started: No such file"), "{:?}", lock(&PRINTED));
    fs::write(&program, "#!/bin/sh\nexit 0\n").expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a mode");
    (11..=80).for_each(|second| evaluator.evaluate(&service, &published(second, 50.0)));
    until("delivered", || noted().len() == 2);
    assert_eq!(noted()[1]["state"], "ok");
    assert_eq!(lock(&PRINTED)[1..], ["alert receiver page: delivers again".to_owned()]);
    service.alerting.stop();
    drop(samples);
    threads.into_iter().for_each(|thread| drop(thread.join().expect("a thread")));
}

#[test]
fn a_full_mailbox_drops_the_oldest_and_counts() {
    let service = service(vec![webhook("127.0.0.1:9".parse().expect("an address"))], None);
    let mut evaluator = AlertEvaluator::new(&service);
    (0..=10).for_each(|second| evaluator.evaluate(&service, &published(second, 105.0)));
    let listing = evaluator.engine.listing();
    let alert = listing.firing().next().expect("an alert").clone();
    let (mailbox, seen) = (&service.alerting.mailboxes[0], published(11, 105.0));
    (0..2000).for_each(|_| mailbox.put(&seen.snapshot, std::slice::from_ref(&alert), &listing, &[]));
    let document = mailbox.document();
    assert_eq!(document["waiting"], crate::limits::MAILBOX_EVENTS_MAX);
    assert_eq!(document["dropped"], 2001 - crate::limits::MAILBOX_EVENTS_MAX);
}

#[test]
fn a_restart_announces_nothing_twice() {
    let state = tempfile::tempdir().expect("a directory");
    let first = service(vec![webhook("127.0.0.1:9".parse().expect("an address"))], Some(state.path()));
    let mut before = AlertEvaluator::new(&first);
    (0..=10).for_each(|second| before.evaluate(&first, &published(second, 105.0)));
    assert_eq!(first.alerting.mailboxes[0].document()["waiting"], 1);
    let second = service(vec![webhook("127.0.0.1:9".parse().expect("an address"))], Some(state.path()));
    let mut after = AlertEvaluator::new(&second);
    (20..=60).for_each(|second_of| after.evaluate(&second, &published(second_of, 105.0)));
    assert_eq!(second.alerting.mailboxes[0].document()["waiting"], 0);
    (61..=130).for_each(|second_of| after.evaluate(&second, &published(second_of, 50.0)));
    assert_eq!(second.alerting.mailboxes[0].document()["waiting"], 1, "its end is sent");
}

#[test]
fn a_damaged_or_unwritable_list_of_alerts_is_printed() {
    static PRINTED: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let state = tempfile::tempdir().expect("a directory");
    let mut service = service(Vec::new(), Some(state.path()));
    Arc::get_mut(&mut service).expect("nobody else has it").options.complain = |line| lock(&PRINTED).push(line.to_owned());
    let starts = |text: &str| {
        fs::write(state.path().join("alerts.json"), text).expect("a file");
        let evaluator = AlertEvaluator::new(&service);
        assert_eq!(evaluator.saved, []);
        lock(&PRINTED).drain(..).collect::<Vec<String>>()
    };
    let why = "alerts.json: it is no list of alerts; alerts that fire are sent again";
    assert_eq!(starts("{\"firing\": []}"), [""; 0]);
    assert_eq!(starts("[]"), [why]);
    let why = "alerts.json: invalid entries: 2; alerts that fire are sent again";
    assert_eq!(starts("{\"firing\": [{}, {\"rule\": \"../x\", \"device\": 0}]}"), [why]);
    assert_eq!(starts("")[0], "alerts.json: EOF while parsing a value at line 1 column 0; alerts that fire are sent again");
    let mut evaluator = AlertEvaluator::new(&service);
    lock(&PRINTED).clear();
    fs::remove_dir_all(state.path()).expect("ours");
    (0..=10).for_each(|second| evaluator.evaluate(&service, &published(second, 105.0)));
    (11..=200).for_each(|second| evaluator.evaluate(&service, &published(second, 50.0)));
    assert_eq!(lock(&PRINTED).len(), 1, "once for all failures: {:?}", lock(&PRINTED));
}

#[test]
fn silences_that_other_users_can_write_are_not_used() {
    let state = tempfile::tempdir().expect("a directory");
    let folder = state.path().join(SILENCES);
    fs::create_dir(&folder).expect("a directory");
    let silence =
        Silence { rule: Some("hot".to_owned()), device: None, until: UnixTime(4_000_000_000_000_000_000), comment: String::new() };
    let file = folder.join(silence.file_name());
    fs::write(&file, silence.document().to_string()).expect("a file");
    for (mode, is_read) in [(0o600, true), (0o644, true), (0o666, false), (0o620, false)] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("a mode");
        let (silences, problems) = read_silences(state.path());
        assert_eq!((silences.len(), problems.len()), (usize::from(is_read), usize::from(!is_read)), "{mode:o}");
        assert!(problems.iter().all(|problem| problem.ends_with("is not used: other users may write it")), "{problems:?}");
    }
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("a mode");
    let broken = folder.join("broken.json");
    fs::write(&broken, "{").expect("a file");
    let why = format!("silence {} is not used: no JSON: EOF while parsing an object at line 1 column 1", broken.display());
    assert_eq!(read_silences(state.path()), (vec![silence], vec![why.clone()]));
    static PRINTED: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut service = service(vec![webhook("127.0.0.1:9".parse().expect("an address"))], Some(state.path()));
    Arc::get_mut(&mut service).expect("nobody else has it").options.complain = |line| lock(&PRINTED).push(line.to_owned());
    let mut evaluator = AlertEvaluator::new(&service);
    (0..=10).for_each(|second| evaluator.evaluate(&service, &published(second, 105.0)));
    let sender = Sender { version: "0", host: "machine", origin: "sim", is_test: false };
    let document = service.alerting.document(sender);
    assert!(document["alerts"][0]["silenced_until"].is_string() && document["silences"][0]["rule"] == "hot", "{document}");
    assert_eq!(service.alerting.mailboxes[0].document()["waiting"], 0);
    fs::remove_file(&file).expect("no file");
    (11..=15).for_each(|second| evaluator.evaluate(&service, &published(second, 105.0)));
    assert_eq!(service.alerting.mailboxes[0].document()["waiting"], 1, "it goes on, and the silence has ended");
    assert_eq!(*lock(&PRINTED), [why], "printed once");
}

fn run(argv: &[&str], timeout: Duration, body: &str) -> Result<(), String> {
    let argv = argv.iter().map(|&word| word.to_owned()).collect();
    deliver(&Delivery::Command { argv, timeout }, body).map_err(|why| why.to_string())
}

#[test]
fn a_command_reads_the_message_without_a_shell() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    // The body is larger than the buffer of a pipe.
    let body = format!("{{\"alerts\": \"{}\"}}", "x".repeat(1 << 20));
    assert_eq!(run(&["/usr/bin/tee", &path("$HOME; touch x")], TIMEOUT, &body), Ok(()));
    assert_eq!(fs::read_to_string(path("$HOME; touch x")).expect("what it read"), body);
    assert_eq!(fs::read_dir(directory.path()).expect("files").count(), 1);
    assert_eq!(run(&["/bin/false"], TIMEOUT, &body), Err("failed: exit status: 1".to_owned()));
    assert!(run(&["/nonexistent/program"], TIMEOUT, "").is_err_and(|why| why.starts_with("cannot be started: ")));
    assert!(run(&[], TIMEOUT, "").is_err());
    // The command gets no secrets of the service.
    assert_eq!(run(&["/bin/sh", "-c", "test -z \"$CARGO_MANIFEST_DIR\" && test -n \"$PATH\" && test \"$(pwd)\" = /"], TIMEOUT, ""), Ok(()));
}

/// A command that hangs is killed together with its children.
#[test]
fn a_command_that_hangs_is_killed() {
    let directory = tempfile::tempdir().expect("a directory");
    let fifo = directory.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0).expect("a FIFO");
    let script = format!("sleep 1000 > {} & sleep 1000", fifo.display());
    let reading = thread::spawn(move || fs::read(&fifo).expect("its end").len());
    let result = run(&["/bin/sh", "-c", &script], Duration::from_secs(1), "");
    assert_eq!(result, Err("took longer than 1 s and was killed".to_owned()));
    assert_eq!(reading.join().expect("a thread"), 0, "the one in the background is gone, too");
}

#[test]
fn secrets_are_read_from_private_files_and_sent_only_encrypted() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str, mode: u32| {
        let path = directory.path().join(name);
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
        path
    };
    let sent = |url: UrlFrom, bearer_file| {
        deliver(&Delivery::Webhook(PostTarget { bearer_file, ..post_target(url) }), "{}").map_err(|why| why.to_string())
    };
    let open = file("open", "http://127.0.0.1:9/", 0o644);
    assert!(sent(UrlFrom::File(open), None).is_err_and(|why| why.starts_with("url_file: other users may read it")));
    let odd = file("odd", "two\nlines", 0o600);
    assert_eq!(sent(UrlFrom::File(odd.clone()), None), Err("url_file: it is not one line of text".to_owned()));
    let token = file("token", "sesame\n", 0o600);
    let far = UrlFrom::Text("http://192.0.2.1/".to_owned());
    assert_eq!(sent(far, Some(token.clone())), Err("the token would be sent unencrypted; use https://".to_owned()));
    assert!(sent(UrlFrom::Text("nonsense".to_owned()), None).is_err_and(|why| why.starts_with("not a URL")));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = file("address", &format!("http://{}/secret\n", listener.local_addr().expect("an address")), 0o600);
    let receiving = thread::spawn(move || {
        let (mut peer, _) = listener.accept().expect("a peer");
        let text = request(&mut peer);
        peer.write_all(b"HTTP/1.1 200 OK\r\n\r\n").expect("an answer");
        text
    });
    assert_eq!(sent(UrlFrom::File(address), Some(token)), Ok(()));
    let text = receiving.join().expect("a request");
    assert!(text.starts_with("POST /secret HTTP/1.1\r\n") && text.contains("\r\nAuthorization: Bearer sesame\r\n"), "{text}");
}

#[test]
fn firing_alerts_are_sent_until_alertmanager_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = UrlFrom::Text(format!("http://{}", listener.local_addr().expect("an address")));
    let how = Delivery::Alertmanager { target: post_target(url), resend: Duration::from_secs(60) };
    let service = service(vec![Receiver { name: "am".to_owned(), severity: Severity::Info, how }], None);
    let mut evaluator = AlertEvaluator::new(&service);
    (0..=10).for_each(|second| evaluator.evaluate(&service, &published(second, 105.0)));
    let mailbox = Arc::clone(&service.alerting.mailboxes[0]);
    let working = thread::spawn(move || mailbox.work("0", |_, _| {}));
    let posted = taken(&listener, "HTTP/1.1 200 OK\r\n\r\n");
    let [alert] = posted.as_array().expect("a list").as_slice() else { panic!("{posted}") };
    assert_eq!(alert["labels"]["alertname"], "TtmonHot");
    assert_eq!((&alert["labels"]["severity"], &alert["labels"]["device"]), (&json!("critical"), &json!("0")));
    let ends = alert["endsAt"].as_str().and_then(UnixTime::parse_rfc3339).expect("a time");
    let left = ends.0.saturating_sub(now().0) / 1_000_000_000;
    assert!((180..=240).contains(&left), "{left} s");
    service.alerting.stop();
    working.join().expect("a thread");
}
