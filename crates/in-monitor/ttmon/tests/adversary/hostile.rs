//! A service, and a report, that try to exhaust the memory of the program that reads them.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

use crate::host::{ATTACKER, Actor};
use crate::isolation::{Pids, TTMON};
use crate::{Case, Role};

pub(crate) const CASES: &[Case] = &[
    ("hostile_service_takes_little_memory", Pids::Private, service),
    ("hostile_report_takes_little_memory", Pids::Private, report),
    ("hostile_store_takes_little_memory", Pids::Private, store),
];

pub(crate) const ROLES: &[Role] = &[("hostile", hostile)];

const PLACE: &str = "127.0.0.1:9999";
const ANSWER_BYTES: usize = 60 << 20;
/// Limit of the program's address space, which includes its code and the stacks of its threads.
const ADDRESS_SPACE_KIB: usize = 1 << 20;
const STORE_ADDRESS_SPACE_KIB: usize = 256 << 10;
/// The same small piece repeated at different positions of a document: name, prefix, repeated piece and suffix.
const ATTACKS: &[(&str, [&str; 3])] = &[
    ("devices", ["\"processes\":[],\"devices\":[", "{\"id\":0},", "{\"id\":0}]"]),
    ("processes", ["\"devices\":[],\"processes\":[", "{\"pid\":1,\"devices\":[]},", "{\"pid\":1,\"devices\":[]}]"]),
    ("uses", ["\"devices\":[],\"processes\":[{\"pid\":1,\"devices\":[", "{\"id\":0},", "{\"id\":0}]}]"]),
    ("objects", ["\"devices\":[],\"processes\":[],\"driver\":{\"a\":[", "{\"\":0},", "{\"\":0}]}"]),
    ("levels", ["\"devices\":[],\"processes\":[],\"blocks\":", "[", "0"]),
];

/// The attacks that use parts of a document that `--diff` reads.
const REPORTS: [&str; 2] = ["processes", "levels"];

/// Attacks by answers of a store of many hosts, which are shorter.
const STORE_BYTES: usize = 15 << 20;
const STORE_ATTACKS: &[(&str, [&str; 3])] = &[
    ("store-keys", ["{\"x\":[", "{\"\":0},", "0]}"]),
    ("store-series", ["{\"data\":{\"resultType\":\"vector\",\"result\":[", "{\"\":0},", "0]}}"]),
    (
        "store-labels",
        ["{\"data\":{\"resultType\":\"vector\",\"result\":[{\"value\":[0,\"1\"],\"metric\":{", "\"\":\"\",", "\"a\":\"\"}}]}}"],
    ),
];

/// How many repetitions are written at once, because a write a repetition takes most of the time of this program.
const PIECE_REPEATS: usize = 4096;

fn write_repeated(out: impl Write, bytes: usize, [before, repeated, after]: [&str; 3]) -> std::io::Result<()> {
    let mut out = BufWriter::new(out);
    let count = bytes / repeated.len();
    let piece = repeated.repeat(PIECE_REPEATS);
    out.write_all(before.as_bytes())?;
    for _ in 0..count / PIECE_REPEATS {
        out.write_all(piece.as_bytes())?;
    }
    out.write_all(repeated.repeat(count % PIECE_REPEATS).as_bytes())?;
    out.write_all(after.as_bytes())?;
    out.flush()
}

fn write_document(out: impl Write, [before, repeated, after]: [&str; 3]) -> std::io::Result<()> {
    let before = format!("{{\"schema\":1,\"host\":\"h\",\"time\":\"2026-11-16T00:00:00Z\",{before}");
    write_repeated(out, ANSWER_BYTES, [&before, repeated, &format!("{after}}}")])
}

/// Answers the health request correctly, and every other request with the document of an attack.
fn hostile(arguments: &[String]) {
    let attack = |attacks: &[(&str, [&'static str; 3])]| attacks.iter().find(|(name, _)| *name == arguments[0]).map(|(_, attack)| *attack);
    let (document, answer) = (attack(ATTACKS), attack(STORE_ATTACKS));
    let listener = TcpListener::bind(PLACE).unwrap();
    println!("ready");
    for mut stream in listener.incoming().map_while(Result::ok) {
        let mut request = [0; 1024];
        let length = stream.read(&mut request).unwrap_or(0);
        let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n");
        if String::from_utf8_lossy(&request[..length]).contains("/healthz") {
            let _ = stream.write_all(b"ok");
        } else if let Some(document) = document {
            let _ = write_document(stream, document);
        } else {
            let _ = write_repeated(stream, STORE_BYTES, answer.unwrap());
        }
    }
}

fn ttmon(words: &str) -> Output {
    limited(ADDRESS_SPACE_KIB, words)
}

fn limited(kib: usize, words: &str) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {kib} && exec {TTMON} {words}")]).env("TTMON_API", format!("http://{PLACE}"));
    command.env_remove("TTMON_SIM").env_remove("TTMON_ROOT").stdin(Stdio::null()).output().unwrap()
}

/// The command reads the machine itself instead, which has no device.
fn service() {
    for (name, _) in ATTACKS {
        let attacker = Actor::start(ATTACKER, "hostile", &[name]);
        let output = ttmon("mem --json --buffers");
        assert_eq!(output.status.code(), Some(3), "{name}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
        drop(attacker);
    }
}

/// A command with little memory queries a hostile store of many hosts.
fn store() {
    for (name, _) in STORE_ATTACKS {
        let attacker = Actor::start(ATTACKER, "hostile", &[name]);
        let output = limited(STORE_ADDRESS_SPACE_KIB, &format!("fleet --json --store http://{PLACE}"));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code().is_some_and(|code| code != 101), "{name}: {}: {errors}", output.status);
        let text = String::from_utf8_lossy(&output.stdout);
        let reason = if *name == "store-series" { "more than 20000 series" } else { "Prometheus's HTTP API" };
        assert!(format!("{text}{errors}").contains(reason), "{name}: {text}{errors}");
        drop(attacker);
    }
}

fn report() {
    for (name, attack) in ATTACKS.iter().filter(|(name, _)| REPORTS.contains(name)) {
        write_document(File::create("/tmp/report.json").unwrap(), *attack).unwrap();
        let output = ttmon("--no-server mem --diff /tmp/report.json");
        assert_eq!(output.status.code(), Some(1), "{name}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
}
