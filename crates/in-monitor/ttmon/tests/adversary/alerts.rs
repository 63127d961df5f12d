//! Alerts of root's service: an ordinary user cannot silence them, and cannot read the secrets of their receivers.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use ttmon_testing::until;

use crate::host::{ALLOCATIONS, API, ATTACKER, Actor, HANDOVER, HTTP, Host, LOG, STATE, ask};
use crate::isolation::{Pids, TTMON};
use crate::{Case, Role};

pub(crate) const CASES: &[Case] = &[("alerts_of_root_are_not_silenced_and_keep_their_secrets", Pids::Private, alerts)];

pub(crate) const ROLES: &[Role] = &[("reader", reader)];

const URL: &str = "http://127.0.0.1:1/sesame-of-the-path";
const SECRETS: [&str; 3] = ["sesame-of-the-path", "sesame-of-the-bearer", "sesame-of-the-service"];
const CONFIG: &str = "[[alerts.rule]]\nname = \"always\"\nwhen = \"temperature >= 0\"\n\
                      [[alerts.webhook]]\nurl_file = \"/run/url\"\nbearer_file = \"/run/bearer\"\n";

fn document() -> Value {
    ask(API, "/api/v1/alerts").ok().and_then(|(_, text)| serde_json::from_str(&text).ok()).unwrap_or_default()
}

fn alerts() {
    let [url, bearer, token] = ["/run/url", "/run/bearer", "/run/token"];
    for (file, text) in [(url, URL), (bearer, SECRETS[1]), (token, SECRETS[2]), ("/run/config.toml", CONFIG)] {
        fs::write(file, text).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let places = ["--socket", ALLOCATIONS, "--handover", HANDOVER, "--state-dir", STATE, "--api", API];
    let host = Host::with(&[&["--sim", "n300,idle", "--config", "/run/config.toml", "--token-file", token], &places[..]].concat());
    until("failing to deliver", || document()["receivers"][0]["failed"].as_u64().unwrap_or(0) > 0);
    silence();
    let mut attacker = Actor::begin(ATTACKER, "reader", &[&host.pid().to_string()]);
    let read = attacker.line();
    attacker.finish();
    let count: usize = read.parse().unwrap_or_else(|_| panic!("{read}"));
    assert!(count > 1000, "the attacker read something: {count} bytes");
    let log = || fs::read_to_string(LOG).unwrap();
    until("reported in the log", || log().contains("alert receiver"));
    let log = log();
    assert!(!SECRETS.iter().any(|secret| log.contains(secret)), "{log}");
}

/// Tries to silence alerts with the command, with a file, and with requests.
fn silence() {
    for more in [&["--state-dir", STATE][..], &[]] {
        let mut command = Command::new(TTMON);
        command.args(["alerts", "silence", "all"]).args(more).env("XDG_RUNTIME_DIR", "/tmp").uid(ATTACKER).gid(ATTACKER).current_dir("/");
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let mut stream = UnixStream::connect(API).unwrap();
        write!(stream, "{method} /api/v1/alerts HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 405"), "{method}: {answer}");
    }
    // Root can silence an alert, so the empty lists above are meaningful.
    assert_eq!(document()["silences"], serde_json::json!([]));
    let root = Command::new(TTMON).args(["alerts", "silence", "always", "--state-dir", STATE]).stdout(Stdio::null()).status().unwrap();
    assert!(root.success());
    until("silenced by root", || document()["silences"].as_array().is_some_and(|list| list.len() == 1));
}

/// PID: reads all readable files of the service. Prints the number of bytes, or where it found a secret.
fn reader(arguments: &[String]) {
    let mut texts = Vec::new();
    for name in ["cmdline", "environ", "status", "stat", "maps", "comm", "mountinfo", "fdinfo/0", "fd/0", "fd/1", "mem", "io", "stack"] {
        let place = format!("/proc/{}/{name}", arguments[0]);
        texts.extend(fs::read(&place).map(|bytes| (place, bytes)));
    }
    files(Path::new("/run"), &mut texts);
    for path in ["alerts", "snapshot", "processes", "fields", "mesh", "history", "nothing?x=y"].map(|name| format!("/api/v1/{name}")) {
        for place in [API, HTTP] {
            texts.extend(ask(place, &path).map(|(_, text)| (format!("{place}{path}"), text.into_bytes())));
        }
    }
    texts.extend(ask(HTTP, "/metrics").map(|(_, text)| ("metrics".to_owned(), text.into_bytes())));
    let has = |bytes: &[u8]| SECRETS.iter().any(|secret| bytes.windows(secret.len()).any(|window| window == secret.as_bytes()));
    match texts.iter().find(|(_, bytes)| has(bytes)) {
        Some((place, _)) => println!("a secret is in {place}"),
        None => println!("{}", texts.iter().map(|(_, bytes)| bytes.len()).sum::<usize>()),
    }
}

/// Collects the files below a directory, except programs.
fn files(directory: &Path, texts: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() && !path.ends_with("programs") {
            files(&path, texts);
        } else if kind.is_file() {
            texts.extend(fs::read(&path).map(|bytes| (path.display().to_string(), bytes)));
        }
    }
}
