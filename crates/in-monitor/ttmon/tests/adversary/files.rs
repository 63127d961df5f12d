//! Files that another user has prepared for root: links, FIFOs and devices where root writes and reads.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::fs::{CWD, FileType, Mode, RenameFlags, inotify, mknodat, renameat_with};
use ttmon_sim::{Machine, Spec};

use crate::host::{ATTACKER, Actor, BYSTANDER, hold};
use crate::isolation::{PROGRAMS, Pids, TTMON};
use crate::{Case, Role};

pub(crate) const CASES: &[Case] = &[
    ("foreign_links_are_not_written_through", Pids::Private, writing),
    ("own_links_and_streams_are_written", Pids::Private, own_links),
    ("fifos_and_devices_are_not_read", Pids::Private, reading),
    ("exchanged_region_is_never_opened", Pids::Private, exchanged_region),
];

pub(crate) const ROLES: &[Role] = &[("links", links), ("fifos", fifos), ("exchanger", exchanger)];

const MACHINE: &str = "/run/machine";
const REGION: &str = "/run/machine/dev/shm/tt_device_77_memory";
/// Target of the attacker's links.
const PROTECTED_FILE: &str = "/run/precious/file";
const MISSING: &str = "/run/precious/missing";
/// The attacker's links: to a file, to a missing file and to a directory, in /tmp and in a directory of the attacker.
const LINKS: [(&str, &str); 5] = [
    ("/tmp/snap.json", PROTECTED_FILE),
    ("/tmp/new.json", MISSING),
    ("/tmp/results", "/run/precious"),
    ("/tmp/attacker/snap.json", PROTECTED_FILE),
    ("/tmp/attacker/results", "/run/precious"),
];

fn machine() {
    fs::create_dir(MACHINE).unwrap();
    Machine::new(&Spec::parse("n300,idle").unwrap(), 1).unwrap().write(Path::new(MACHINE), 0, &[]).unwrap();
    fs::create_dir_all("/run/machine/proc").unwrap();
}

/// Runs `ttmon` as a user, in a shell that can redirect. The shell ends after a minute if the command hangs.
fn ttmon(uid: u32, words: &str) -> Output {
    // `run` does not accept --root.
    let place = if words.starts_with("run ") { String::new() } else { format!("--root {MACHINE}") };
    let mut command = Command::new("timeout");
    command.args(["60", "sh", "-c", &format!("{TTMON} --no-server {place} {words}")]);
    command.env("TTMON_LIB", PROGRAMS);
    command.uid(uid).gid(uid).current_dir("/").env_remove("TTMON_SIM").stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn links(_: &[String]) {
    fs::create_dir("/tmp/attacker").unwrap();
    for (link, target) in LINKS {
        symlink(target, link).unwrap();
    }
    hold();
}

fn writing() {
    machine();
    fs::create_dir("/run/precious").unwrap();
    fs::write(PROTECTED_FILE, "precious").unwrap();
    let _attacker = Actor::start(ATTACKER, "links", &[]);
    for (link, target) in LINKS {
        let file = if target == "/run/precious" { format!("{link}/out.json") } else { link.to_owned() };
        for words in [format!("--json -f {file}"), format!("run --report {file} -- true"), format!("record --force --duration 0 {file}")] {
            let output = ttmon(0, &words);
            let message = text(&output.stderr);
            assert!(!output.status.success() && message.contains("link of another user"), "{words}: {message}");
        }
    }
    let names: Vec<_> = fs::read_dir("/run/precious").unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!((names, fs::read_to_string(PROTECTED_FILE).unwrap()), (vec!["file".into()], "precious".to_owned()));
    // A regular file in the attacker's directory is written: the attacker could have copied the data there anyway.
    assert!(ttmon(0, "--json -f /tmp/attacker/plain.json").status.success());
}

/// Links of the user's own still work.
fn own_links() {
    machine();
    fs::set_permissions(MACHINE, fs::Permissions::from_mode(0o755)).unwrap();
    for uid in [0, BYSTANDER] {
        let home = format!("/tmp/home-{uid}");
        fs::create_dir_all(format!("{home}/elsewhere")).unwrap();
        symlink("elsewhere/out.json", format!("{home}/out.json")).unwrap();
        symlink(format!("{home}/elsewhere"), format!("/tmp/short-{uid}")).unwrap();
        for path in [home.clone(), format!("{home}/elsewhere"), format!("{home}/out.json"), format!("/tmp/short-{uid}")] {
            std::os::unix::fs::lchown(path, Some(uid), Some(uid)).unwrap();
        }
        for words in [
            format!("--json -f {home}/out.json"),
            format!("--json -f /tmp/short-{uid}/other.json"),
            "--json -f /dev/null".to_owned(),
            format!("--json -f /dev/stdout > {home}/elsewhere/stdout.json"),
            format!("--json -f /dev/fd/3 3> {home}/elsewhere/third.json"),
            format!("--json -f /dev/stdout | cat > {home}/elsewhere/piped.json"),
            format!("record --duration 0 {home}/elsewhere/recording.zst"),
        ] {
            let output = ttmon(uid, &words);
            assert!(output.status.success(), "{uid}: {words}: {}", text(&output.stderr));
        }
        for name in ["out", "other", "stdout", "third", "piped"] {
            let bytes = fs::read(format!("{home}/elsewhere/{name}.json")).unwrap();
            serde_json::from_slice::<serde_json::Value>(&bytes).unwrap_or_else(|error| panic!("{uid}: {name}: {error}"));
        }
        assert!(fs::symlink_metadata(format!("{home}/out.json")).unwrap().is_symlink());
    }
    fs::create_dir("/run/log").unwrap();
    assert!(ttmon(0, "--json -f /run/log/ttmon.json").status.success());
}

fn fifos(_: &[String]) {
    mknodat(CWD, "/tmp/fifo", FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    symlink("/dev/zero", "/tmp/zero").unwrap();
    fs::write("/tmp/key", "sesame sesame sesame").unwrap();
    fs::set_permissions("/tmp/key", fs::Permissions::from_mode(0o600)).unwrap();
    hold();
}

/// Each file is refused at once and with little memory. The command neither exceeds its time limit (124) nor fails to allocate.
fn reading() {
    machine();
    let _attacker = Actor::start(ATTACKER, "fifos", &[]);
    symlink("/dev/zero", "/run/zero").unwrap();
    mknodat(CWD, "/run/fifo", FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    for path in ["/tmp/fifo", "/tmp/zero", "/run/zero", "/run/fifo"] {
        for words in [format!("--cluster {path}"), format!("mem --diff {path}"), format!("serve --listen off --token-file {path}")] {
            let output = ttmon(0, &words);
            let message = text(&output.stderr);
            let is_told =
                ["link of another user", "it is a FIFO", "it is a device", "other users may read it", "its owner is another user"];
            assert!(matches!(output.status.code(), Some(1 | 2)) && is_told.iter().any(|why| message.contains(why)), "{words}: {message}");
        }
    }
    let output = ttmon(0, "serve --listen off --token-file /tmp/key");
    assert!(text(&output.stderr).contains("its owner is another user"), "{}", text(&output.stderr));
    let output = ttmon(0, "--json -f /tmp/fifo");
    assert!(text(&output.stderr).contains("it is a FIFO"), "{}", text(&output.stderr));
}

/// Repeatedly exchanges the region with a FIFO. The FIFO represents a device, which an ordinary user cannot create.
fn exchanger(_: &[String]) {
    let other = "/run/machine/dev/shm/other";
    fs::write(REGION, [0; 64]).unwrap();
    mknodat(CWD, other, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    println!("ready");
    loop {
        renameat_with(CWD, REGION, CWD, other, RenameFlags::EXCHANGE).unwrap();
    }
}

fn exchanged_region() {
    const RUNS: usize = 200;
    machine();
    fs::create_dir_all("/run/machine/dev/shm").unwrap();
    fs::set_permissions("/run/machine/dev/shm", fs::Permissions::from_mode(0o1777)).unwrap();
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    let attacker = Actor::start(ATTACKER, "exchanger", &[]);
    let is_fifo = |path: &str| fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_file());
    // One of the two names is the FIFO at this time. The watch is on the file itself, independent of its name.
    let found = (0..10_000).any(|_| {
        let path = if is_fifo(REGION) { REGION } else { "/run/machine/dev/shm/other" };
        let place = rustix::fs::open(path, rustix::fs::OFlags::PATH, Mode::empty()).unwrap();
        let is_it = FileType::from_raw_mode(rustix::fs::fstat(&place).unwrap().st_mode) == FileType::Fifo;
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&place));
        is_it && inotify::add_watch(&watch, path, inotify::WatchFlags::OPEN).is_ok()
    });
    assert!(found, "the FIFO is watched");
    for _ in 0..RUNS {
        assert!(ttmon(0, "--json").status.success());
    }
    drop(attacker);
    let opened = rustix::io::read(&watch, &mut [0; 64]);
    assert_eq!(opened.err(), Some(rustix::io::Errno::AGAIN), "the FIFO was opened");
}
