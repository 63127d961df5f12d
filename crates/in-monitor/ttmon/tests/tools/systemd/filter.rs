//! The service and its reading processes under the filter of their unit. libseccomp loads the filter, as the service manager does.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use ttmon_testing::Service;

use super::UNITS;
use crate::{TTMON, authorization, repository, run};

/// Names of the reading processes and of the scanning thread.
const RESTRICTED: [&str; 2] = ["ttmon-reader", "scan"];

/// The paths that are requested from the service, each as a document.
const PATHS: &[&str] = &[
    "/healthz",
    "/readyz",
    "/metrics",
    "/api/v1/snapshot",
    "/api/v1/devices",
    "/api/v1/processes",
    "/api/v1/buffers",
    "/api/v1/memory?buffers=true&banks=true&blocks=true",
    "/api/v1/memory/events",
    "/api/v1/history",
    "/api/v1/events",
    "/api/v1/openapi.json",
];

/// Starts a service that may make only the system calls of its unit. Every other one fails with EPERM.
fn start() -> Service {
    let unit = fs::read_to_string(repository("packaging/systemd").join(UNITS[0])).unwrap();
    let allowed: Vec<String> = allowed_calls(&unit).into_iter().collect();
    let service = Service::start_with(Path::new(TTMON), &["--sim", "n300"], |command| {
        let mut filtered = Command::new("python3");
        filtered.args(["-c", include_str!("filter.py")]).arg(rustix::io::Errno::PERM.raw_os_error().to_string()).arg(allowed.join(","));
        filtered.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => filtered.env(name, value),
                None => filtered.env_remove(name),
            };
        }
        *command = filtered;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    });
    let status = fs::read_to_string(format!("/proc/{}/status", service.pid())).unwrap();
    assert!(status.contains("Seccomp:\t2"), "{status}");
    service
}

/// Returns the system calls of a set of systemd, such as `@system-service`.
fn calls(set: &str) -> BTreeSet<String> {
    let text = run(Command::new("systemd-analyze").args(["syscall-filter", set]));
    let mut names = BTreeSet::new();
    for name in text.lines().skip(1).map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if name.starts_with('@') {
            names.append(&mut calls(name));
        } else {
            names.insert(name.to_owned());
        }
    }
    names
}

/// Returns the system calls that a unit allows, by its SystemCallFilter lines.
fn allowed_calls(unit: &str) -> BTreeSet<String> {
    let mut allowed = BTreeSet::new();
    for list in unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        let (is_denied, list) = list.strip_prefix('~').map_or((false, list), |list| (true, list));
        for word in list.split_whitespace() {
            let set = if word.starts_with('@') { calls(word) } else { BTreeSet::from([word.to_owned()]) };
            allowed = if is_denied { &allowed - &set } else { &allowed | &set };
        }
    }
    // The service manager also allows the calls that it needs to start the program.
    allowed.extend(["execve", "exit", "exit_group", "rt_sigreturn"].map(str::to_owned));
    allowed
}

/// Returns the reading processes of a service and its scanning thread, and whether each has its own filter and only capabilities for
/// reading. `None` if one of them has just ended.
fn restricted(service: u32) -> Option<Vec<(String, bool)>> {
    /// CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE, CAP_CHECKPOINT_RESTORE.
    const KEPT: u64 = 1 << 2 | 1 << 19 | 1 << 40;
    let children = fs::read_to_string(format!("/proc/{service}/task/{service}/children")).ok()?;
    let children = children.split_whitespace().map(|pid| format!("/proc/{pid}/status"));
    let threads = fs::read_dir(format!("/proc/{service}/task")).ok()?.flatten().map(|entry| format!("{}/status", entry.path().display()));
    let filters = |text: &str| -> Option<u32> { text.lines().find_map(|line| line.strip_prefix("Seccomp_filters:\t"))?.parse().ok() };
    let own = filters(&fs::read_to_string(format!("/proc/{service}/status")).ok()?)?;
    let mut found = Vec::new();
    for text in children.chain(threads).filter_map(|path| fs::read_to_string(path).ok()) {
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(":\t"));
        let name = value("Name")?;
        if RESTRICTED.contains(&name) {
            let has_filters = filters(&text) == Some(own + 1);
            let capabilities = u64::from_str_radix(value("CapEff")?, 16).ok()?;
            found.push((name.to_owned(), has_filters && capabilities & !KEPT == 0));
        }
    }
    Some(found)
}

#[test]
#[ignore = "needs systemd, python3 and libseccomp: cargo xtask ci --only systemd"]
fn every_path_answers_under_the_filter_of_the_unit() {
    let service = start();
    let headers = format!("{}\r\nAccept: application/json\r\n", authorization());
    service.until("a tracked process", || service.with("/api/v1/processes", &headers).body.contains("\"status\":\"tracked\""));
    for path in PATHS {
        let response = service.with(path, &headers);
        assert_eq!(response.status, 200, "{path}: {}", response.body);
    }
}

#[test]
#[ignore = "needs systemd, python3 and libseccomp: cargo xtask ci --only systemd"]
fn the_allocation_socket_answers_under_the_filter_of_the_unit() {
    let service = start();
    let mut stream = UnixStream::connect(service.path("alloc.sock")).unwrap();
    stream.write_all(b"\n").unwrap();
    let mut dump = String::new();
    stream.read_to_string(&mut dump).unwrap();
    assert!(dump.contains("REMAINING ALLOCATED BUFFERS"), "{dump:?}");
}

#[test]
#[ignore = "needs systemd, python3 and libseccomp: cargo xtask ci --only systemd"]
fn readers_restrict_themselves_under_the_filter_of_the_unit() {
    let service = start();
    let has_all = |all: &[(String, bool)]| RESTRICTED.iter().all(|name| all.iter().any(|(found, _)| found == name));
    service.until("readers with filters of their own and few capabilities", || {
        restricted(service.pid()).is_some_and(|all| has_all(&all) && all.iter().all(|(_, is_restricted)| *is_restricted))
    });
}
