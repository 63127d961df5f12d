//! Files that never answer: any file, link or directory of a machine, one at a time and all together. Each sample comes, and what is
//! missing in it has the reason `timeout`. The list comes from walking the tree. The kernel's own `/proc` is left out.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use ttmon_collect::reads::Sampling;
use ttmon_collect::{Error, Isolation, Machine, Options, Root};
use ttmon_model::attributes::ATTRIBUTES;
use ttmon_model::{Missing, Sample};

use crate::tree::{GALAXY_CHIP, N300, Tree};

const READ_TIMEOUT: Duration = Duration::from_millis(100);
/// For files that answer, on a machine under any load.
const LONG: Duration = Duration::from_secs(60);
/// Cases that wait for their files at the same time.
const WORKERS: usize = 32;
const CONTAINER: &str = "4f5e4f5e4f5e4f5e4f5e4f5e4f5e4f5e4f5e4f5e4f5e4f5e4f5e4f5e4f5e4f5e";
const POD: &str = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";

/// A machine with every kind of file that is read: two devices that the driver lists, one without a board type, one that the driver does
/// not list, one that was there before, a holder in a container, statistics, names.
fn machine() -> Tree {
    let tree = Tree::new("2.9.0");
    for (id, bdf, files) in [(0, "0000:c1:00.0", N300), (1, "0000:06:00.0", GALAXY_CHIP), (2, "0000:07:00.0", N300)] {
        tree.device(id, bdf);
        tree.files(id, files);
        tree.pids(id, "4242\n");
        symlink("../../../../bus/pci/drivers/tenstorrent", tree.path(&format!("sys/bus/pci/devices/{bdf}/driver"))).unwrap();
    }
    tree.remove("sys/class/tenstorrent/tenstorrent!2/tt_card_type");
    for (bdf, vendor) in [("0000:08:00.0", "0x1e52"), ("0000:09:00.0", "0x8086")] {
        let pci = format!("sys/devices/pci0000:00/0000:00:01.0/{bdf}");
        for (file, text) in [("vendor", vendor), ("device", "0x401e"), ("subsystem_device", "0x0014")] {
            tree.put(&format!("{pci}/{file}"), text);
        }
        symlink(Path::new("../../../..").join(pci), tree.path(&format!("sys/bus/pci/devices/{bdf}"))).unwrap();
    }
    tree.put("sys/devices/pci0000:00/0000:00:01.0/current_link_speed", "16.0 GT/s PCIe");
    tree.process(4242, "python3", Duration::from_secs(60));
    tree.put("proc/4242/cgroup", &format!("0::/kubepods.slice/kubepods-pod{POD}.slice/cri-containerd-{CONTAINER}.scope"));
    tree.region("dev/shm", (2 << 32) | 0x5172_208F, &[(4242, "python3", 1 << 30, 0)]);
    tree.put("etc/passwd", "ana:x:1000:1000::/home/ana:/bin/sh");
    tree.put(&format!("var/log/pods/ml_vllm-0_{POD}/server/0.log"), "");
    tree.put(&format!("var/lib/docker/containers/{CONTAINER}/config.v2.json"), r#"{"Name":"/"}"#);
    tree.put("var/lib/containers/storage/overlay-containers/containers.json", "[]");
    tree.put("run/containers/storage/overlay-containers/volatile-containers.json", "[]");
    tree.put("proc/sys/kernel/random/boot_id", "3f1c-a");
    tree.put("run/ttmon/state/devices", "ttmon-devices 1 3f1c-a 0\n7 0000:0a:00.0 n150");
    tree.put("etc/ttmon/cluster_descriptor.yaml", "arch: 5");
    tree
}

/// Returns all files, links and directories below a directory, relative to it, without the kernel's own files in `proc`.
fn walk(base: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![base.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(base).unwrap().to_owned();
            if path.is_dir() && !path.is_symlink() {
                pending.push(path);
            }
            let is_of_kernel = name.starts_with("proc") && !name.starts_with("proc/driver");
            if !is_of_kernel && name != Path::new(".ttmon-faults") {
                found.push(name);
            }
        }
    }
    found.sort();
    found
}

/// Returns all paths by which the reader may name a file: its own, and those through the links of the class and of the bus.
fn names(base: &Path, file: &Path) -> Vec<PathBuf> {
    let mut names = vec![file.to_owned()];
    for links in ["sys/class/tenstorrent", "sys/bus/pci/devices"] {
        for link in fs::read_dir(base.join(links)).unwrap().map(|entry| entry.unwrap().path()) {
            let link = link.strip_prefix(base).unwrap();
            for way in [link.to_owned(), link.join("device"), link.join("device/..")] {
                let Ok(place) = fs::canonicalize(base.join(&way)) else { continue };
                let place = place.strip_prefix(base).unwrap().to_owned();
                names.extend(file.strip_prefix(place).ok().filter(|rest| *rest != Path::new("")).map(|rest| way.join(rest)));
            }
        }
    }
    names
}

/// How a program samples.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// A snapshot.
    Once,
    /// `-l` and `top`, with files that hang after the first sample.
    Repeated,
    /// The service, which scans in another thread.
    Service,
}

const WAYS: [Way; 3] = [Way::Once, Way::Repeated, Way::Service];

/// Takes the sample, after `change` of the tree.
fn sample(root: Root, way: Way, read_timeout: Duration, change: impl FnOnce()) -> Result<Sample, Error> {
    let sampling = if matches!(way, Way::Once) { Sampling::Once } else { Sampling::Repeated };
    let options = Options { isolation: Isolation::Threads, read_timeout, sampling, ..Options::default() };
    let mut machine = Machine::new(root, options).unwrap();
    match way {
        Way::Once => {
            change();
            machine.sample()
        }
        Way::Repeated => {
            // On a busy machine, a file that answers may be late.
            while machine.sample().is_err() {}
            change();
            machine.sample().and_then(|_| machine.sample())
        }
        Way::Service => {
            change();
            let (mut devices, mut scanner) = machine.split().unwrap();
            let scope = devices.list()?;
            let scanned = scanner.scan(&scope)?;
            let mut sample = devices.sample()?;
            scanned.complete(&mut sample);
            devices.number_chips(&mut sample);
            Ok(sample)
        }
    }
}

/// Returns what is wrong with a sample in which some files did not answer.
fn complaint(healthy: &Sample, taken: &Result<Sample, Error>) -> Option<String> {
    let taken = match taken {
        Ok(taken) => taken,
        Err(Error::Unreadable { reason: Missing::Timeout, .. }) => return None,
        Err(error) => return Some(error.to_string()),
    };
    let mut is_less = false;
    let mut says = taken.problems.iter().any(|problem| problem.reason == Missing::Timeout);
    for well in &healthy.devices {
        let Some(ill) = taken.devices.iter().find(|device| device.id == well.id) else {
            is_less = true;
            continue;
        };
        for attr in ATTRIBUTES.iter().map(|attribute| attribute.attr) {
            match (well.attributes.get(attr), ill.attributes.get(attr)) {
                (Ok(_), Err(Missing::Timeout)) => (is_less, says) = (true, true),
                (Ok(well), Ok(ill)) if well == ill => {}
                (Ok(_), other) => return Some(format!("device {}: {attr:?} is {other:?}", well.id)),
                (Err(_), _) => {}
            }
        }
        is_less |= well.bdf != ill.bdf || well.users != ill.users;
        says |= ill.bdf == Err(Missing::Timeout) || ill.users == Err(Missing::Timeout);
    }
    let content = |sample: &Sample| {
        let users: Vec<_> = sample.processes.iter().map(|process| process.facts.as_ref().map(|facts| facts.user.clone())).collect();
        let workloads: Vec<_> = sample.processes.iter().map(|process| process.workload.clone()).collect();
        let regions: Vec<_> = sample.regions.iter().map(|region| (region.unique_id, region.content.is_ok())).collect();
        format!("{users:?} {workloads:?} {regions:?} {:?}", sample.driver)
    };
    is_less |= content(healthy) != content(taken);
    let is_driver = taken.driver == Err(Missing::Timeout);
    (is_less && !says && !is_driver).then(|| format!("something is missing without a word: {:?}", taken.problems))
}

/// Returns a directory that leads to a tree, so that it can have faults of its own.
fn view(tree: &Tree) -> tempfile::TempDir {
    let view = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(tree.path("")).unwrap() {
        let name = entry.unwrap().file_name();
        symlink(tree.path("").join(&name), view.path().join(name)).unwrap();
    }
    view
}

/// Calls a function for each item, in several threads.
fn for_each<T: Send>(items: Vec<T>, work: impl Fn(T) + Sync) {
    let items = Mutex::new(items);
    let next = || items.lock().unwrap().pop();
    thread::scope(|scope| (0..WORKERS).for_each(|_| _ = scope.spawn(|| std::iter::from_fn(next).for_each(&work))));
}

/// Waits for a result that a defect would delay for ever.
fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(work()));
    match receiver.recv_timeout(ttmon_testing::TIMEOUT) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => panic!("{what}: no answer"),
        Err(RecvTimeoutError::Disconnected) => panic!("{what}: it panicked"),
    }
}

#[test]
fn whatever_hangs_is_missing_with_its_reason() {
    let tree = machine();
    let base = tree.path("");
    let base = fs::canonicalize(&base).unwrap();
    let healthy = sample(Root::at(&base), Way::Once, LONG, || {}).unwrap();
    assert_eq!((healthy.devices.len(), healthy.processes.len(), healthy.regions.len()), (5, 1, 1), "{healthy:#?}");
    let all = walk(&base);
    assert!(all.len() > 100, "{all:?}");
    let files: Vec<PathBuf> = all.iter().filter(|path| base.join(path).is_file()).cloned().collect();
    let mut cases: Vec<(String, Vec<PathBuf>)> = all.iter().map(|path| (path.display().to_string(), vec![path.clone()])).collect();
    cases.push(("all files".to_owned(), files));
    cases.push(("everything".to_owned(), ["sys", "proc/driver", "dev", "etc", "run", "var"].map(PathBuf::from).to_vec()));
    let cases: Vec<(Way, &(String, Vec<PathBuf>))> = WAYS.into_iter().flat_map(|way| cases.iter().map(move |case| (way, case))).collect();
    let complaints = Mutex::new(BTreeSet::new());
    for_each(cases, |(way, (name, paths))| {
        let view = view(&tree);
        let lines: BTreeSet<PathBuf> = paths.iter().flat_map(|path| names(&base, path)).collect();
        let lines: String = lines.iter().map(|path| format!("{}\thang\n", path.display())).collect();
        let (root, faults) = (Root::at(view.path()), view.path().join(".ttmon-faults"));
        let taken = in_time(&format!("{way:?}: {name}"), move || sample(root, way, READ_TIMEOUT, || fs::write(faults, lines).unwrap()));
        let complaint = complaint(&healthy, &taken).map(|complaint| format!("{way:?}: {name}: {complaint}"));
        complaints.lock().unwrap().extend(complaint);
    });
    let complaints = complaints.into_inner().unwrap();
    assert!(complaints.is_empty(), "{} cases:\n{}", complaints.len(), complaints.into_iter().collect::<Vec<_>>().join("\n"));
}

/// An injected fault hangs only what the reader asks for. A FIFO blocks everyone who opens it to read, with or without the reader.
#[test]
fn no_file_is_opened_in_a_way_that_can_wait() {
    let tree = machine();
    let base = tree.path("");
    for file in walk(&base) {
        let path = base.join(&file);
        if !path.is_file() || path.is_symlink() {
            continue;
        }
        let aside = base.join("aside");
        fs::rename(&path, &aside).unwrap();
        mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
        assert!(fs::metadata(&path).unwrap().file_type().is_fifo());
        for way in WAYS {
            let root = Root::at(&base);
            // A FIFO without a writer answers the reader with an empty file, so only the answer counts.
            in_time(&format!("{way:?}: {}", file.display()), move || drop(sample(root, way, READ_TIMEOUT, || {})));
        }
        fs::rename(&aside, &path).unwrap();
    }
}
