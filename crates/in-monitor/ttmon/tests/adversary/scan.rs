//! Attacks on the scan of processes: huge numbers of ledgers, open files, statistics and mappings.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::MemfdFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use ttmon_model::PerKind;
use ttmon_model::region::{Region, Slot};
use ttmon_model::units::UnixTime;
use ttmon_sim::{Machine, Spec};
use ttmon_testing::until;

use crate::host::{ALLOCATIONS, API, ATTACKER, Actor, BYSTANDER, HANDOVER, Host, STATE, ask, hold, metric, rss, strength};
use crate::isolation::{PROGRAM, Pids, TTMON};
use crate::watch::Watch;
use crate::{Case, Role};

pub(crate) const CASES: &[Case] = &[
    ("open_files_of_one_user_are_cut", Pids::Private, open_files),
    ("pids_in_statistics_of_one_user_are_cut", Pids::Private, statistics),
    ("statistics_of_one_user_hide_no_others", Pids::Private, statistics_of_others),
    ("mappings_of_one_user_are_cut", Pids::Private, mappings),
    ("names_in_containers_of_one_user_are_cut", Pids::Private, containers),
    ("hanging_file_systems_delay_no_device_sample", Pids::Private, hanging_file_systems),
];

pub(crate) const ROLES: &[Role] = &[
    ("descriptors", descriptors),
    ("regions", regions),
    ("own_region", own_region),
    ("mapped", mapped),
    ("contained", contained),
    ("hanging", hanging),
    ("held", |_| hold()),
];

pub(crate) const MACHINE: &str = "/run/machine";
const RSS_MAX: u64 = 256 << 20;
/// Starts a service of simulated devices that sees the processes of this namespace.
pub(crate) fn start() -> Host {
    fs::create_dir(MACHINE).unwrap();
    Machine::new(&Spec::parse("n300,idle").unwrap(), 1).unwrap().write(Path::new(MACHINE), 0, &[]).unwrap();
    let shared = Path::new(MACHINE).join("dev/shm");
    fs::create_dir_all(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    let mount = |arguments: &[&str]| assert!(Command::new("mount").args(arguments).status().unwrap().success(), "{arguments:?}");
    // The driver's list of users. It is beside the directories of processes.
    mount(&["-t", "tmpfs", "none", "/proc/driver"]);
    fs::create_dir_all("/proc/driver/tenstorrent/0").unwrap();
    fs::write("/proc/driver/tenstorrent/0/pids", "").unwrap();
    let proc = format!("{MACHINE}/proc");
    fs::create_dir_all(&proc).unwrap();
    mount(&["--rbind", "/proc", &proc]);
    Host::with(&["--root", MACHINE, "--socket", ALLOCATIONS, "--handover", HANDOVER, "--state-dir", STATE, "--api", API])
}

/// Which readers exceed the limit.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum By {
    /// The service and commands.
    Everybody,
    /// Only commands, which read everything in one scan. The service has already read older processes.
    Commands,
}

/// Runs an attack. The limit applies to the attacker and `problems` names the attacker, root's commands stay within their memory, and all
/// resources are released at the end.
pub(crate) fn attack(attackers: impl FnOnce() -> Vec<Actor>, of_what: &str, by: By) {
    let host = start();
    let watch = Watch::begin(&host);
    let attackers = attackers();
    let named = format!("user {ATTACKER}");
    let is_named = |text: &str| text.contains(&named) && text.contains(of_what);
    let scans = || metric("ttmon_samples_total").unwrap_or_default();
    let before = scans();
    if by == By::Everybody {
        until("the user named", || ask(API, "/api/v1/snapshot").is_ok_and(|(_, text)| is_named(&text)));
        assert!(metric("ttmon_scan_cut_total").is_some_and(|cut| cut > 0.0));
    }
    until("sampled on", || scans() >= before + strength(3, 5) as f64);
    for arguments in [&["mem"][..], &["mem", "--json"], &["who"], &["--json"]] {
        let (output, most) = command(arguments);
        println!("  {arguments:?}: {} MB", most >> 20);
        assert!(most <= RSS_MAX, "{arguments:?} took {} MB", most >> 20);
        assert!(!arguments.starts_with(&["mem", "--json"]) || is_named(&output), "{arguments:?} does not name the user");
    }
    println!("  scan: {:.1} s old", metric("ttmon_scan_age_seconds").unwrap());
    watch.finish();
    drop(attackers);
    for entry in fs::read_dir(format!("{MACHINE}/dev/shm")).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    until("over", || ask(API, "/api/v1/snapshot").is_ok_and(|(_, text)| !text.contains(&named)));
    host.gives_back();
}

/// Runs a command of root without the service. Returns its output and its peak memory.
fn command(arguments: &[&str]) -> (String, u64) {
    let out = fs::File::create("/run/output").unwrap();
    let mut child =
        Command::new(TTMON).args(arguments).args(["--root", MACHINE, "--no-server"]).stdin(Stdio::null()).stdout(out).spawn().unwrap();
    let mut most = 0;
    let mut status = None;
    until("an end of the command", || {
        most = most.max(rss(child.id()));
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert!(status.is_some_and(|status| status.success()), "{arguments:?}: {status:?}");
    (fs::read_to_string("/run/output").unwrap(), most)
}

pub(crate) fn many(count: usize, role: &str, arguments: &[&str]) -> Vec<Actor> {
    let mut actors: Vec<Actor> = (0..count).map(|_| Actor::begin(ATTACKER, role, arguments)).collect();
    for actor in &mut actors {
        assert_eq!(actor.line(), "ready", "{role}");
    }
    actors
}

fn open_files() {
    attack(|| many(strength(30, 200), "descriptors", &["19900"]), "descriptors", By::Everybody);
}

/// COUNT: opens this many files.
fn descriptors(arguments: &[String]) {
    let count: u64 = arguments[0].parse().unwrap();
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(count + 100), maximum }).unwrap();
    let file = fs::File::open("/dev/null").unwrap();
    let copies: Vec<_> = (0..count).map(|_| rustix::io::dup(file.as_fd()).unwrap()).collect();
    hold();
    drop(copies);
}

fn statistics() {
    attack(|| vec![Actor::start(ATTACKER, "regions", &["1024"])], "pids in statistics", By::Everybody);
}

/// COUNT: creates this many files of statistics, each with 64 different pids.
fn regions(arguments: &[String]) {
    let count: u64 = arguments[0].parse().unwrap();
    let path = |id: u64| format!("{MACHINE}/dev/shm/tt_device_{id}_memory");
    for id in 0..count {
        let slot = |number: u64| Slot {
            pid: u32::try_from(100_000 + id * 64 + number).unwrap(),
            used: PerKind::default(),
            updated: UnixTime(1),
            name: "x".to_owned(),
        };
        let region = Region { version: 3, device_id: 0, totals: PerKind::default(), slots: (0..64).map(slot).collect() };
        fs::write(path(id), region.encode(id)).unwrap();
    }
    hold();
}

/// Files of other users are read, whether created before or after the attack.
fn statistics_of_others() {
    let host = start();
    let watch = Watch::begin(&host);
    let mut others = vec![Actor::begin(BYSTANDER, "own_region", &["70001"])];
    let pid = others[0].line();
    let is_shown = |pid: &str| ask(API, "/api/v1/processes").is_ok_and(|(_, text)| text.contains(&format!("\"pid\":{pid},")));
    until("shown at all", || is_shown(&pid));
    let attacker = Actor::start(ATTACKER, "regions", &["2000"]);
    others.push(Actor::begin(BYSTANDER, "own_region", &["70002"]));
    let pids = [pid, others[1].line()];
    let named = || ask(API, "/api/v1/snapshot").is_ok_and(|(_, text)| text.contains("files of statistics"));
    until("the attacker cut", named);
    until("both shown", || pids.iter().all(|pid| is_shown(pid)));
    watch.finish();
    drop((attacker, others));
}

/// ID: creates one file of statistics with the pid of this process. Prints the pid.
fn own_region(arguments: &[String]) {
    let id: u64 = arguments[0].parse().unwrap();
    let updated = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let updated = UnixTime(u64::try_from(updated.as_nanos()).unwrap());
    let mut used = PerKind::default();
    used[ttmon_model::Kind::Dram] = 1 << 20;
    let slot = Slot { pid: std::process::id(), used: used.clone(), updated, name: "adversary".to_owned() };
    let region = Region { version: 3, device_id: 0, totals: used, slots: vec![slot] };
    fs::write(format!("{MACHINE}/dev/shm/tt_device_{id}_memory"), region.encode(id)).unwrap();
    println!("{}", std::process::id());
    hold();
}

fn mappings() {
    // Each process has a list of mappings of more than a megabyte.
    let count = strength(25_000, 65_000).to_string();
    attack(|| many(strength(110, 200), "mapped", &[&count]), "bytes of mappings", By::Commands);
}

/// COUNT: creates this many mappings. Python does it, because this program has no unsafe code.
fn mapped(arguments: &[String]) {
    let script = "import mmap, sys
ways = [mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE]
kept = [mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, ways[n % 2]) for n in range(int(sys.argv[1]))]
print('ready', flush=True)
sys.stdin.read()";
    let error = Command::new("python3").args(["-S", "-c", script, &arguments[0]]).exec();
    panic!("python3: {error}");
}

fn containers() {
    // About 256 KiB of names, which every mount namespace has.
    for number in 0..1100 {
        fs::write(format!("/dev/shm/{number:0>240}"), "").unwrap();
    }
    attack(|| many(strength(120, 1500), "contained", &[]), "bytes of names", By::Commands);
}

/// A process in a separate mount namespace with a file that is named like a ledger.
fn contained(_: &[String]) {
    let _ledger = rustix::fs::memfd_create("ttmon-ledger", MemfdFlags::empty()).unwrap();
    let error = Command::new("unshare").args(["--user", "--mount", PROGRAM, "role", "held"]).exec();
    panic!("unshare: {error}");
}

/// Descriptors on file systems that never answer, which are also the `/dev/shm` of their processes. The kernel hides most FUSE mounts of a
/// user from root; these are open to all users (`user_allow_other`).
fn hanging_file_systems() {
    let host = start();
    let watch = Watch::begin(&host);
    let mut attackers: Vec<Actor> = (0..strength(20, 200)).map(|_| Actor::begin(0, "hanging", &[&ATTACKER.to_string()])).collect();
    for actor in &mut attackers {
        assert_eq!(actor.line(), "ready");
    }
    let scans = || metric("ttmon_samples_total").unwrap_or_default();
    let before = scans();
    until("sampled on", || scans() >= before + strength(5, 10) as f64);
    println!("  scan: {:.1} s old", metric("ttmon_scan_age_seconds").unwrap());
    // A process that starts now is found, so the scan continues.
    let mut other = Actor::begin(BYSTANDER, "own_region", &["70001"]);
    let pid = other.line();
    let is_shown = || ask(API, "/api/v1/processes").is_ok_and(|(_, text)| text.contains(&format!("\"pid\":{pid},")));
    until("shown", is_shown);
    watch.finish();
    drop((attackers, other));
    host.gives_back();
}

/// UID: runs a process of this user in a mount namespace with a `/dev/shm` that never answers. The process has 64 descriptors there and a
/// file that is named like a ledger.
fn hanging(arguments: &[String]) {
    let script = "import ctypes, os, sys
fuse = os.open('/dev/fuse', os.O_RDWR)
options = f'fd={fuse},rootmode=40000,user_id=0,group_id=0,allow_other'.encode()
if ctypes.CDLL(None, use_errno=True).mount(b'none', b'/dev/shm', b'fuse', 0, options) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))
places = [os.open('/dev/shm', os.O_PATH) for _ in range(64)]
ledger = os.memfd_create('ttmon-ledger')
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
print('ready', flush=True)
sys.stdin.read()";
    let error = Command::new("unshare").args(["--mount", "python3", "-S", "-c", script, &arguments[0]]).exec();
    panic!("unshare: {error}");
}
