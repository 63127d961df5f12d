//! Commands that use a service, and that work without it if it is gone, hangs, or gives invalid answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use ttmon_testing::{KilledOnDrop, Service, TOKEN};

use crate::start_service;

fn command(api: &Path, arguments: &[&str]) -> Command {
    let mut command = crate::command(arguments);
    command.env("TTMON_API", api);
    command
}

fn ttmon(api: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = command(api, arguments).output().expect("ttmon");
    (output.status.code(), String::from_utf8(output.stdout).expect("text"))
}

/// Returns the output of a command that uses the service. Repeats the command, because commands have short deadlines and may fall back
/// under load.
fn printed_by_service(service: &Service, arguments: &[&str], is_expected: impl Fn(&str) -> bool) -> String {
    let mut text = String::new();
    service.until(&format!("printed_by_service: {arguments:?}"), || {
        let (code, printed) = ttmon(&service.api, arguments);
        text = printed;
        code == Some(0) && is_expected(&text)
    });
    text
}

fn is_simulated(text: &str) -> bool {
    text.contains("\"origin\": \"sim\"")
}

/// Returns the only process of a simulated machine.
fn only_pid(service: &Service) -> u64 {
    service.unix("/api/v1/processes").json()["processes"][0]["pid"].as_u64().expect("a pid")
}

fn document(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Over HTTP, buffers need the token, from a file or from the environment.
#[test]
fn a_token_opens_what_is_asked_over_http() {
    let service = start_service(&["--sim", "n300"]);
    let api = PathBuf::from(service.url());
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("token");
    std::fs::write(&file, TOKEN).expect("a token");
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("a mode");
    let printed_by_service = |variables: &[(&str, &Path)]| {
        let mut command = command(&api, &["mem", "--json", "--buffers"]);
        let output = command.envs(variables.iter().copied()).output().expect("ttmon");
        is_simulated(&String::from_utf8_lossy(&output.stdout))
    };
    service.until("answered with the variable", || printed_by_service(&[("TTMON_TOKEN", Path::new(TOKEN))]));
    service.until("answered with the file", || printed_by_service(&[("TTMON_TOKEN_FILE", &file)]));
    assert!(!printed_by_service(&[]) && !printed_by_service(&[("TTMON_TOKEN", Path::new("another-token-0123456789"))]));
}

/// An old sample does not show which process holds a device now, so it is not used.
#[test]
fn an_old_look_is_done_without() {
    let service = start_service(&["--sim", "n300", "--interval", "3600"]);
    service.until("old", || service.metric("ttmon_sample_age_seconds") > 5.0);
    assert!(!is_simulated(&ttmon(&service.api, &["--json"]).1));
    assert!(!ttmon(&service.api, &["who"]).1.contains("SIMULATED"));
}

/// The age of a sample is the one that the service reports: the clock of another host may be wrong, and a slow transfer does not make a
/// list older.
#[test]
fn a_look_is_as_old_as_its_service_says() {
    let service = start_service(&["--sim", "n300"]);
    let directory = tempfile::tempdir().expect("a directory");
    let mut document = document(&service.unix("/api/v1/snapshot").body);
    document["time"] = "2001-02-03T04:05:06.000Z".into();
    let answered = |age: u64| {
        let path = directory.path().join(age.to_string());
        let answer = format!("HTTP/1.1 200 OK\r\nAge: {age}\r\n\r\n{document}");
        impostor(&path, move |stream| {
            take_question(stream);
            let _ = stream.write_all(answer.as_bytes());
        });
        path
    };
    let (young, old) = (answered(4), answered(5));
    service.until("answered by the young one", || is_simulated(&ttmon(&young, &["--json"]).1));
    assert!(!is_simulated(&ttmon(&old, &["--json"]).1));
}

/// Holders of devices come from the scan of processes, which another user can delay.
#[test]
fn an_old_scan_of_processes_is_done_without() {
    let service = start_service(&["--sim", "n300,idle"]);
    let directory = tempfile::tempdir().expect("a directory");
    let mut document = document(&service.unix("/api/v1/snapshot").body);
    let mut answered = |age: f64| {
        document["processes_age_s"] = age.into();
        let path = directory.path().join(age.to_string());
        let answer = format!("HTTP/1.1 200 OK\r\nAge: 0\r\n\r\n{document}");
        impostor(&path, move |stream| {
            take_question(stream);
            let _ = stream.write_all(answer.as_bytes());
        });
        path
    };
    let (young, old) = (answered(1.0), answered(60.0));
    service.until("answered by the young one", || ttmon(&young, &["who"]).1.contains("SIMULATED"));
    assert!(!ttmon(&old, &["who"]).1.contains("SIMULATED"));
}

/// The message for a live process that is tracked on other devices says neither that the process is missing nor that it has no device.
#[test]
fn a_process_on_another_device_is_said() {
    let service = start_service(&["--sim", "t3k"]);
    let processes = service.unix("/api/v1/processes").json()["processes"].clone();
    let devices = |process: &Value| {
        process["devices"].as_array().map_or_else(Vec::new, |all| all.iter().filter_map(|one| one["id"].as_u64()).collect())
    };
    let is_partly = |process: &&Value| process["source"] == "ledger" && devices(process).len() < 8;
    let process = processes.as_array().and_then(|all| all.iter().find(is_partly)).unwrap_or_else(|| panic!("{processes}"));
    let other = (0..8).find(|id| !devices(process).contains(id)).expect("a device").to_string();
    let (device, pid) = (devices(process)[0], process["pid"].to_string());
    printed_by_service(&service, &["mem", "--pid", &pid, "-d", &device.to_string()], |text| text.contains(&pid));
    service.until("the message", || {
        let output = command(&service.api, &["mem", "--pid", &pid, "-d", &other]).output().expect("ttmon");
        let message = format!("process {pid} has no memory on device {other}");
        output.status.code() == Some(1) && String::from_utf8_lossy(&output.stderr).contains(&message)
    });
}

/// Commands use a running service, mark this in the output, and continue without a service that hangs or is gone.
#[test]
fn commands_ask_a_service_and_do_without_one() {
    let service = start_service(&["--sim", "n300"]);
    let ttmon = |arguments: &[&str]| ttmon(&service.api, arguments);
    let document = document(&printed_by_service(&service, &["--json"], is_simulated));
    assert_eq!(document["devices"].as_array().map(Vec::len), Some(2));
    assert_eq!(printed_by_service(&service, &["-L", "-d", "0"], |text| !text.is_empty()).lines().count(), 1);
    assert_eq!(ttmon(&["-L", "-d", "9"]).0, Some(3));
    printed_by_service(&service, &["who"], |text| text.contains("SIMULATED"));
    // This machine usually has no device of that kind.
    let here = ttmon(&["--no-server", "-L"]);
    printed_by_service(&service, &["-L"], |text| text != here.1);
    service.signal(Signal::STOP);
    assert_eq!(ttmon(&["-L"]), here);
    service.signal(Signal::KILL);
    assert_eq!(ttmon(&["-L"]), here);
}

/// Whether an item belongs to this simulation. Processes of other programs on this machine may start and end meanwhile.
fn is_of(pid: u64) -> impl Fn(&Value) -> bool {
    move |item| item["pid"] == pid
}

#[test]
fn memory_events_and_idleness_are_asked_for() {
    let service = start_service(&["--sim", "n150,procs=1,buffers=3"]);
    let pid = only_pid(&service);
    let number = pid.to_string();
    for arguments in [&["mem"][..], &["mem", "--buffers"], &["mem", "--banks"], &["mem", "--pid", &number]] {
        printed_by_service(&service, arguments, |text| text.contains("[SIMULATED]") && text.contains(&number));
    }
    let text = printed_by_service(&service, &["events", "--json", "--pid", &number], |text| !text.is_empty());
    let events: Vec<Value> = text.lines().map(document).collect();
    assert!(events.iter().all(is_of(pid)), "{text}");
    assert!(events.iter().filter(|event| event["op"] == "alloc").count() >= 3, "{text}");
    printed_by_service(&service, &["events"], |text| text.contains(&format!("{pid:>7}  alloc")));
    assert_eq!(ttmon(&service.api, &["events", "-d", "9"]).0, Some(3));
    // A process holds the device until the simulation ends.
    service.until("busy", || ttmon(&service.api, &["wait", "--idle", "--timeout", "0.3"]).0 == Some(4));
    let idle = start_service(&["--sim", "n150,idle"]);
    idle.until("idle", || ttmon(&idle.api, &["wait", "--idle", "--timeout", "5"]).0 == Some(0));
}

/// Keeps only values that do not depend on the time of the sample, the reading program, or earlier samples.
fn settled(mut document: Value) -> Value {
    let mut processes: Vec<Value> = Vec::new();
    let pids: Vec<String> = document["processes"].as_array().expect("processes").iter().map(|process| process["pid"].to_string()).collect();
    let place = |pid: &str| pids.iter().position(|known| known == pid).map_or(Value::Null, Value::from);
    let named = |text: &str| text.split_once('.').map_or(Value::Null, |(pid, rest)| format!("{}.{rest}", place(pid)).into());
    for process in document["processes"].as_array_mut().expect("processes") {
        processes.push(serde_json::json!([process["name"], process["status"], process["source"], process["kinds"], process["devices"]]));
    }
    let mut kept = serde_json::json!({"processes": processes});
    let devices = document["devices"].as_array().expect("devices").iter().map(|device| {
        let mut memory = device["memory"].clone();
        // Only a service has the peak of a device.
        for kind in memory["kinds"].as_object_mut().expect("kinds").values_mut() {
            kind["peak"] = Value::Null;
        }
        serde_json::json!([device["id"], device["asic_id"], device["board"], memory])
    });
    kept["devices"] = devices.collect();
    for list in ["allocators", "buffers", "blocks"] {
        let mut items = document[list].as_array().cloned().unwrap_or_default();
        for item in &mut items {
            item["pid"] = place(&item["pid"].to_string());
            for name in ["id", "allocator"] {
                item[name] = item[name].as_str().map_or(Value::Null, named);
            }
        }
        items.sort_by_key(|item| [&item["pid"], &item["id"], &item["allocator"], &item["kind"], &item["address"]].map(Value::to_string));
        kept[list] = items.into();
    }
    without_times(&mut kept);
    kept
}

fn without_times(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for name in ["age_s", "peak_time", "missing"] {
                map.remove(name);
            }
            map.values_mut().for_each(without_times);
        }
        Value::Array(items) => items.iter_mut().for_each(without_times),
        _ => {}
    }
}

/// The names of all values, in any depth, except for the elements of long lists.
fn shape(value: &Value, path: &str, names: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().filter(|(name, _)| *name != "missing").for_each(|(name, value)| {
            names.push(format!("{path}.{name}"));
            shape(value, &format!("{path}.{name}"), names);
        }),
        Value::Array(items) => items.iter().for_each(|item| shape(item, path, names)),
        _ => {}
    }
}

/// The same simulated machine has the same names and figures, read by the command itself and by a service.
#[test]
fn figures_are_the_same_with_and_without_a_service() {
    const SPEC: &str = "n300,p150,procs=3,buffers=4";
    let service = start_service(&["--sim", SPEC, "--seed", "7"]);
    let names = |document: &Value| {
        let mut names = Vec::new();
        shape(document, "", &mut names);
        names.sort();
        names.dedup();
        names
    };
    for parts in [&[][..], &["--buffers"], &["--banks", "--blocks", "--buffers"]] {
        // These are two simulations. On a busy machine one may be a step behind the other.
        service.until(&format!("the same figures: {parts:?}"), || {
            let printed_by_service = document(&printed_by_service(&service, &[&["mem", "--json"], parts].concat(), is_simulated));
            let read = document(&ttmon(Path::new("/nowhere"), &[&["mem", "--json", "--sim", SPEC, "--seed", "7"], parts].concat()).1);
            assert_eq!(names(&printed_by_service), names(&read), "{parts:?}");
            settled(printed_by_service) == settled(read)
        });
    }
    let lines = |text: String| -> Vec<String> {
        let line = |line: &str| {
            let mut event = document(line);
            (event["pid"], event["time"]) = (Value::Null, Value::Null);
            event["allocator"] =
                event["allocator"].as_str().and_then(|name| name.split_once('.')).map_or(Value::Null, |(_, rest)| rest.into());
            event.to_string()
        };
        let mut lines: Vec<String> = text.lines().map(line).collect();
        lines.sort();
        lines
    };
    let first = service.unix("/api/v1/processes").json()["processes"][0]["pid"].to_string();
    let printed_by_service = lines(printed_by_service(&service, &["events", "--json"], |text| text.contains(&first)));
    let read = lines(ttmon(Path::new("/nowhere"), &["events", "--json", "--sim", SPEC, "--seed", "7"]).1);
    assert_eq!(printed_by_service, read);
    assert!(!printed_by_service.is_empty());
}

/// Sends an answer that a service would not send.
type Answer = fn(&mut UnixStream);

/// Answers every connection to a socket in one way, until the test ends.
fn impostor(path: &Path, answer: impl Fn(&mut UnixStream) + Clone + Send + 'static) {
    let listener = UnixListener::bind(path).expect("a socket");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            thread::spawn(move || {
                let mut stream = stream;
                answer(&mut stream);
            });
        }
    });
}

fn take_question(stream: &mut UnixStream) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
        line.clear();
    }
}

/// With any invalid answer, the commands quickly give the same result as without a service.
#[test]
fn commands_work_beside_an_invalid_service() {
    let directory = tempfile::tempdir().expect("a directory");
    let nowhere = directory.path().join("nowhere.sock");
    let impostors: [(&str, Answer); 8] = [
        ("hangs-up", |_| {}),
        ("never-answers", |stream| drop(stream.read_to_end(&mut Vec::new()))),
        ("speaks-garbage", |stream| drop(stream.write_all(&[0xFF, 0, 7, b'\n'].repeat(1000)))),
        ("speaks-no-json", |stream| {
            take_question(stream);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nhello\n");
        }),
        ("is-older", |stream| {
            take_question(stream);
            let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\n\r\n{}");
        }),
        ("is-newer", |stream| {
            take_question(stream);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n{\"schema\": 2, \"everything\": \"else\"}\n");
        }),
        ("trickles", |stream| {
            // The client sends nothing more, so each read takes as long as it may.
            stream.set_read_timeout(Some(Duration::from_millis(50))).expect("a time");
            while stream.write_all(b"H").is_ok() {
                let _ = stream.read(&mut [0]);
            }
        }),
        ("never-ends", |stream| {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            while stream.write_all(&[b' '; 65536]).is_ok() {}
        }),
    ];
    for (name, answer) in impostors {
        let path = directory.path().join(name);
        impostor(&path, answer);
        for arguments in [&["-L"][..], &["mem", "--json", "--pid", "1"], &["events", "--pid", "1"], &["wait", "--idle", "--timeout", "0"]] {
            let without = ttmon(&nowhere, arguments);
            assert_eq!(ttmon(&path, arguments), without, "{name}: {arguments:?}");
        }
    }
}

/// Documents of a service are printed with terminal control characters escaped.
#[test]
fn documents_of_a_service_are_printed_without_controls() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("hostile");
    impostor(&path, |stream| {
        take_question(stream);
        let _ = stream.write_all("HTTP/1.1 200 OK\r\n\r\n{\"host\": \"\u{9b}2J\u{202e}\"}\n".as_bytes());
    });
    let (code, text) = ttmon(&path, &["alerts", "list", "--json"]);
    assert_eq!((code, text.as_str()), (Some(0), "{\n  \"host\": \"\\u009b2J\\u202e\"\n}\n"));
}

struct Follower {
    _process: KilledOnDrop,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Follower {
    fn start(api: &Path, arguments: &[&str]) -> Self {
        let mut child = command(api, arguments).stdout(Stdio::piped()).spawn().expect("ttmon");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        Self { _process: KilledOnDrop(child), lines }
    }

    fn next(&mut self) -> Value {
        document(&self.lines.next().expect("a line").expect("text"))
    }
}

/// `--follow` sees the end of a process through the service, and continues without the service when it stops.
#[test]
fn a_stream_is_followed_to_its_end() {
    let service = start_service(&["--sim", "n150,procs=1,buffers=3", "--interval", "0.2"]);
    let pid = only_pid(&service);
    let mut follower = Follower::start(&service.api, &["events", "--follow", "--json", "--pid", &pid.to_string()]);
    assert_eq!(follower.next()["op"], "open");
    let raw = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).expect("a pid");
    rustix::process::kill_process(raw, Signal::KILL).expect("a signal");
    let mut ops = Vec::new();
    while ops.last().is_none_or(|op| op != "exit") {
        let event = follower.next();
        assert_eq!(event["pid"], pid);
        ops.push(event["op"].as_str().expect("an op").to_owned());
    }
    assert!(ops.iter().filter(|op| *op == "alloc").count() >= 3, "{ops:?}");
}

/// Runs a tracked program and returns its pid after it has ended.
fn ended_program(service: &Service) -> String {
    let mut program = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "host::asking::a_program_that_ends", "--nocapture"])
        .envs([("ENDING", "1"), ("TTMON_TRACKING", "1")])
        .env("TTMON_HANDOVER", service.path("handover.sock"))
        .stdout(Stdio::null())
        .spawn()
        .expect("a program");
    let pid = program.id().to_string();
    assert!(program.wait().expect("an end").success());
    pid
}

/// A service of the real machine never shows processes of a simulated machine, even after they end.
#[test]
fn a_real_service_keeps_no_simulated_process() {
    let service = start_service(&["--interval", "0.2"]);
    let mut command = command(&service.api, &["--sim", "n150,procs=1", "mem", "--json"]);
    let output = command.env("TTMON_HANDOVER", service.path("handover.sock")).output().expect("ttmon");
    let simulated = document(&String::from_utf8_lossy(&output.stdout));
    let simulated = simulated["processes"][0]["pid"].as_u64().expect("a pid").to_string();
    // Messages arrive in order, so when this program is listed, the earlier ones have arrived too.
    let real = ended_program(&service);
    service.until("listed", || ttmon(&service.api, &["mem", "--json", "--pid", &real]).0 == Some(0));
    let (code, text) = ttmon(&service.api, &["mem", "--json", "--pid", &simulated]);
    assert_eq!(code, Some(3), "{text}");
    let (code, text) = ttmon(&service.api, &["events", "--json", "--pid", &simulated]);
    assert_eq!(code, Some(3), "{text}");
}

/// Only the service can show the memory of an ended program.
#[test]
fn an_ended_program_is_listed() {
    let service = start_service(&["--interval", "0.2"]);
    let pid = ended_program(&service);
    let mem = || ttmon(&service.api, &["mem", "--json", "--buffers", "--pid", &pid]);
    service.until("listed", || mem().0 == Some(0));
    let printed_by_service = document(&mem().1);
    assert_eq!(
        (&printed_by_service["origin"], &printed_by_service["processes"][0]["status"]),
        (&"server".into(), &"dead".into()),
        "{printed_by_service}"
    );
    assert_eq!(
        (&printed_by_service["buffers"][0]["size"], &printed_by_service["processes"][0]["kinds"]["dram"]["used"]),
        (&1000.into(), &1000.into()),
        "{printed_by_service}"
    );
    let text = self::printed_by_service(&service, &["events", "--json", "--pid", &pid], |_| true);
    let ops: Vec<Value> = text.lines().map(|line| document(line)["op"].clone()).collect();
    assert_eq!(ops, ["open", "alloc", "exit"]);
    for command in ["mem", "events"] {
        assert_eq!(ttmon(&service.api, &["--no-server", command, "--pid", &pid]).0, Some(3), "{command}");
    }
}

/// Not a test. The code of a child process.
#[test]
fn a_program_that_ends() {
    if std::env::var_os("ENDING").is_some() {
        let _ = ttmon_client::report_allocation(0, 1000, 0, 0x1000);
    }
}
