//! One rule per topic.

use std::collections::BTreeMap;

use ttmon_model::attributes::ATTRIBUTES;
use ttmon_model::identity::Bdf;
use ttmon_model::snapshot::{Health, Location, State, Status};
use ttmon_model::units::{UnixTime, Version, size};
use ttmon_model::{Arch, Device, Snapshot};

use super::facts::{Facts, Service};
use super::finding::{Finding, Verdict};

/// The oldest kernel with `pidfd_open`.
const KERNEL_MIN: Version = Version::new(5, 3, 0);
/// The versions of ttnn that the hook was tested with: docs/ttnn-versions.md.
const TTNN_TRIED: std::ops::RangeInclusive<Version> = Version::new(0, 69, 0)..=Version::new(0, 81, u32::MAX);
/// Approximate size of TT-Metal's statistics and the ledgers of a large program.
const SHARED_MEMORY_MIN: u64 = 64 << 20;
/// 2025-01-01. No version of ttmon is older.
const TIME_MIN: UnixTime = UnixTime(1_735_689_600_000_000_000);

/// Rescans the bus for devices that left it.
const RESCAN: &str = "echo 1 | sudo tee /sys/bus/pci/rescan";

/// Verdict, message and remedy.
type Found = (Verdict, String, Option<String>);
type Rule = fn(&Facts) -> Vec<Found>;

/// The topics with their rules, in the order in which they are printed.
const RULES: &[(&str, Rule)] = &[
    ("driver", driver),
    ("devices", devices),
    ("firmware", firmware),
    ("permissions", nodes),
    ("deep", deep),
    ("permissions", other_users),
    ("iommu", iommu),
    ("hugepages", huge_pages),
    ("kernel", kernel),
    ("shared memory", memory_files),
    ("processes", holders),
    ("containers", containers),
    ("stale memory", stale),
    ("libraries", library),
    ("ttnn", ttnn),
    ("service", service),
    ("clock", clock),
];

/// Applies all rules.
pub(crate) fn examine(facts: &Facts) -> Vec<Finding> {
    let findings = |&(topic, rule): &(&'static str, Rule)| {
        rule(facts).into_iter().map(move |(verdict, message, remedy)| Finding { topic, verdict, message, remedy })
    };
    RULES.iter().flat_map(findings).collect()
}

fn ok(message: impl Into<String>) -> Vec<Found> {
    vec![(Verdict::Ok, message.into(), None)]
}

fn warning(message: impl Into<String>, remedy: impl Into<String>) -> Vec<Found> {
    vec![(Verdict::Warning, message.into(), Some(remedy.into()))]
}

fn problem(message: impl Into<String>, remedy: impl Into<String>) -> Vec<Found> {
    vec![(Verdict::Problem, message.into(), Some(remedy.into()))]
}

/// Formats `1 device`, `2 devices`.
fn count(number: usize, thing: &str) -> String {
    let plural = if thing.ends_with('s') { "es" } else { "s" };
    format!("{number} {thing}{}", if number == 1 { "" } else { plural })
}

fn local(snapshot: &Snapshot) -> impl Iterator<Item = &Device> {
    snapshot.devices.iter().filter(|device| device.location == Location::Local)
}

fn driver(facts: &Facts) -> Vec<Found> {
    let foreign = facts.bus.iter().filter_map(|device| Some((device.bdf, device.driver.as_deref().filter(|name| *name != "tenstorrent")?)));
    let mut findings: Vec<Found> = foreign
        .flat_map(|(bdf, name)| {
            let remedy = format!("echo {bdf} | sudo tee /sys/bus/pci/drivers/{name}/unbind && sudo modprobe tenstorrent");
            warning(format!("device {bdf} belongs to the driver {name}"), remedy)
        })
        .collect();
    findings.extend(match &facts.snapshot {
        Err(_) if !facts.is_driver_loaded && facts.bus.is_empty() => {
            problem("no Tenstorrent device is on the PCI bus", "check seating and power of the card, then: lspci -d 1e52:")
        }
        Err(_) if !facts.is_driver_loaded => {
            let message = format!("{} on the PCI bus, and the driver is not loaded", count(facts.bus.len(), "device"));
            problem(message, "sudo modprobe tenstorrent; if there is no such module: sudo apt install tenstorrent-dkms")
        }
        Err(_) if facts.bus.is_empty() => problem("the driver is loaded, and no Tenstorrent device is on the PCI bus", RESCAN),
        Err(reason) => {
            let unbound = facts.bus.iter().find(|device| device.driver.is_none());
            let remedy = unbound.map_or_else(|| "sudo dmesg | grep -i tenstorrent".to_owned(), |found| bind(found.bdf));
            problem(reason.to_string(), remedy)
        }
        Ok(snapshot) => version(snapshot),
    });
    findings
}

/// Lists values that this driver does not publish, and the first driver that does.
fn version(snapshot: &Snapshot) -> Vec<Found> {
    const UPDATE: &str = "sudo apt install --only-upgrade tenstorrent-dkms; or build tt-kmd";
    let Ok(text) = &snapshot.driver else { return warning("the driver is loaded and its version is unknown", UPDATE) };
    let Some(driver) = Version::parse(text) else { return warning(format!("driver {text} is unknown"), UPDATE) };
    let archs: Vec<_> = local(snapshot).filter_map(|device| device.arch.ok()).collect();
    let newer = ATTRIBUTES.iter().filter_map(|row| {
        let since = archs.iter().filter_map(|arch| row.since_on(*arch)).filter(|since| *since > driver).min()?;
        Some((since, row.file))
    });
    let newer: Vec<(Version, &str)> = newer.collect();
    match newer.iter().map(|(since, _)| *since).max() {
        None => ok(format!("version {text}, which publishes every value ttmon shows")),
        Some(since) => {
            let files: Vec<&str> = newer.iter().map(|(_, file)| *file).collect();
            let message = format!("version {text} does not publish {}; {}.{} does", files.join(", "), since.major, since.minor);
            warning(message, UPDATE)
        }
    }
}

fn devices(facts: &Facts) -> Vec<Found> {
    let Ok(snapshot) = &facts.snapshot else { return Vec::new() };
    let mut findings = Vec::new();
    for device in &snapshot.devices {
        let id = device.id;
        let reasons = device.health_reasons.join(", ");
        // A remote chip has the state of its gateway.
        if device.location == Location::Remote {
            continue;
        }
        let reload = "sudo modprobe -r tenstorrent && sudo modprobe tenstorrent";
        findings.extend(match (device.state, device.health) {
            (State::Gone, _) => problem(format!("device {id}: {reasons}"), bring_back(facts, device)),
            (State::Resetting, _) => warning(format!("device {id}: {reasons}"), "wait for the end of the reset, then: ttmon doctor"),
            (State::Starting, _) => warning(format!("device {id}: {reasons}"), format!("wait two minutes; then {reload}")),
            (State::Unreadable, _) => problem(
                format!("device {id}: {reasons}"),
                format!("sudo dmesg | grep -i tenstorrent; then, with no program on it: tt-smi -r {id}"),
            ),
            (State::Unknown, _) => warning(format!("device {id} publishes no telemetry"), "update the driver and the firmware: tt-flash"),
            (State::Ok, Health::Critical) => {
                problem(format!("device {id}: {reasons}"), format!("stop its program and check cooling: ttmon who {id}"))
            }
            (State::Ok, Health::Warning) => warning(format!("device {id}: {reasons}"), format!("ttmon -q -d {id}")),
            (State::Ok, Health::Ok | Health::Unknown) => Vec::new(),
        });
    }
    let readable = local(snapshot).filter(|device| device.state == State::Ok).count();
    let remote = snapshot.devices.len() - local(snapshot).count();
    let remote = if remote > 0 { format!(", and {} behind them", count(remote, "remote chip")) } else { String::new() };
    findings.extend(ok(format!("{} on PCIe can be read{remote}", count(readable, "device"))));
    findings
}

/// Returns the command that restores a device which is on the bus without a driver, or not on the bus.
fn bring_back(facts: &Facts, device: &Device) -> String {
    match device.bdf {
        Ok(bdf) if facts.bus.iter().any(|found| found.bdf == bdf) => bind(bdf),
        _ => RESCAN.to_owned(),
    }
}

fn bind(bdf: Bdf) -> String {
    format!("echo {bdf} | sudo tee /sys/bus/pci/drivers/tenstorrent/bind")
}

fn firmware(facts: &Facts) -> Vec<Found> {
    let Ok(snapshot) = &facts.snapshot else { return Vec::new() };
    let mut versions: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for device in local(snapshot) {
        if let (Ok(bundle), Ok(arch)) = (&device.firmware, device.arch) {
            versions.entry((arch.name().to_owned(), bundle.clone())).or_default().push(device.id.to_string());
        }
    }
    let archs: Vec<&String> = versions.keys().map(|(arch, _)| arch).collect();
    let listed: Vec<String> = versions.iter().map(|((_, bundle), ids)| format!("{bundle} on {}", ids.join(","))).collect();
    match () {
        () if versions.is_empty() => Vec::new(),
        () if archs.windows(2).any(|pair| pair[0] == pair[1]) => {
            warning(format!("boards have different firmware: {}", listed.join("; ")), "flash one bundle on all boards: tt-flash")
        }
        () => ok(format!("bundle {}", listed.join("; "))),
    }
}

fn nodes(facts: &Facts) -> Vec<Found> {
    let denied: Vec<String> = facts.nodes.iter().filter(|node| !node.is_accessible).map(|node| node.id.to_string()).collect();
    let mode = facts.nodes.iter().find(|node| !node.is_accessible).map_or(0, |node| node.mode);
    match () {
        () if facts.nodes.is_empty() => Vec::new(),
        () if denied.is_empty() => ok(format!("this user may open {}", count(facts.nodes.len(), "device"))),
        () => {
            let message = format!("programs of this user cannot open device {} (mode {mode:04o})", denied.join(","));
            problem(message, "install the driver's udev rule, then: sudo udevadm control --reload && sudo udevadm trigger")
        }
    }
}

/// Whether `--deep` would work, and what it would show. It is optional, so there is no warning.
fn deep(facts: &Facts) -> Vec<Found> {
    /// The first driver that lets programs map device memory (windows).
    const DRIVER_MIN: Version = Version::new(1, 32, 0);
    let Ok(snapshot) = &facts.snapshot else { return Vec::new() };
    let driver = snapshot.driver.as_deref().ok().and_then(Version::parse);
    if facts.nodes.is_empty() || local(snapshot).next().is_none() {
        return Vec::new();
    }
    if driver.is_none_or(|driver| driver < DRIVER_MIN) {
        return ok("ttmon --deep needs driver 1.32");
    }
    if let Some(node) = facts.nodes.iter().find(|node| !node.is_accessible) {
        return ok(format!("ttmon --deep needs the right to open /dev/tenstorrent/{}: sudo ttmon --deep", node.id));
    }
    let lacks: Vec<String> = local(snapshot).filter_map(lacking_firmware).collect();
    match lacks.is_empty() {
        true => ok("ttmon --deep can read every chip on PCIe, and the utilization of TT-Metal 0.75 and later"),
        false => ok(format!("ttmon --deep: {}", lacks.join("; "))),
    }
}

/// Returns what the firmware of a device lacks for `--deep`. Bundles numbered 80.x are older than 18.x.
fn lacking_firmware(device: &Device) -> Option<String> {
    let (telemetry, utilization) = match device.arch.ok()? {
        Arch::Wormhole => (Version::new(18, 4, 0), Version::new(19, 13, 0)),
        Arch::Blackhole => (Version::new(0, 0, 0), Version::new(19, 12, 0)),
        Arch::Grayskull => return Some(format!("device {} cannot be read: it is a Grayskull chip", device.id)),
    };
    let id = device.id;
    let Some(bundle) = device.firmware.as_deref().ok().and_then(Version::parse) else {
        return Some(format!("device {id} has an unknown firmware bundle"));
    };
    let is_older = |than: Version| bundle < than || bundle.major >= 80;
    match () {
        () if is_older(telemetry) => Some(format!("device {id} needs firmware bundle {}.{}", telemetry.major, telemetry.minor)),
        () if is_older(utilization) => {
            Some(format!("device {id} needs firmware bundle {}.{} for utilization, the rest works", utilization.major, utilization.minor))
        }
        () => None,
    }
}

fn other_users(facts: &Facts) -> Vec<Found> {
    match facts.snapshot.as_ref().map(|snapshot| snapshot.denied_processes) {
        Ok(denied @ 1..) => {
            let message = format!("{denied} processes of other users cannot be examined: their memory is unknown");
            warning(message, "sudo ttmon; or run the service: sudo systemctl enable --now ttmon")
        }
        _ => Vec::new(),
    }
}

/// Counts the devices without a translating IOMMU. Programs need 1 GB pages for them.
fn untranslated(facts: &Facts) -> usize {
    let translates = |kind: &Option<String>| kind.as_deref().is_some_and(|kind| kind.starts_with("DMA"));
    facts.bus.iter().filter(|device| !translates(&device.iommu)).count()
}

fn iommu(facts: &Facts) -> Vec<Found> {
    if facts.bus.is_empty() || untranslated(facts) > 0 {
        return Vec::new();
    }
    ok("the IOMMU translates for every device; 1 GB pages are not needed")
}

fn huge_pages(facts: &Facts) -> Vec<Found> {
    let untranslated = untranslated(facts);
    match facts.huge_pages {
        _ if untranslated == 0 => Vec::new(),
        None => Vec::new(),
        Some(pages) if pages >= untranslated as u64 => ok(format!("{pages} pages of 1 GB for {}", count(untranslated, "device"))),
        Some(pages) => problem(
            format!("{pages} pages of 1 GB for {} without IOMMU: programs cannot start", count(untranslated, "device")),
            "install tt-system-tools, then: sudo systemctl enable --now tenstorrent-hugepages.service 'dev-hugepages\\x2d1G.mount'",
        ),
    }
}

fn kernel(facts: &Facts) -> Vec<Found> {
    let mut findings = match facts.kernel {
        None => Vec::new(),
        Some(version) if version < KERNEL_MIN => {
            let message = format!("Linux {}.{} has no pidfd; the ends of processes are noticed late", version.major, version.minor);
            problem(message, "boot Linux 5.3 or newer")
        }
        Some(version) => ok(format!("Linux {}.{}", version.major, version.minor)),
    };
    if let Some(scope @ 2..) = facts.ptrace_scope {
        let message = format!("yama.ptrace_scope is {scope}: a user without root cannot read every ledger of the own programs");
        findings.extend(warning(message, "sudo sysctl kernel.yama.ptrace_scope=1"));
    }
    findings
}

fn memory_files(facts: &Facts) -> Vec<Found> {
    if let Some(Err(reason)) = &facts.memfd {
        return problem(
            format!("memfd_create fails: {reason}; no program can be tracked"),
            "allow memfd_create in the container's seccomp profile",
        );
    }
    match facts.shared_memory {
        None => Vec::new(),
        Some(space) if space.free < SHARED_MEMORY_MIN => {
            let message = format!("{} of {} are free in /dev/shm", size(space.free), size(space.total));
            warning(message, "sudo mount -o remount,size=2G /dev/shm; in a container: --shm-size=2g")
        }
        Some(space) => ok(format!("{} of {} are free in /dev/shm", size(space.free), size(space.total))),
    }
}

fn holders(facts: &Facts) -> Vec<Found> {
    let Ok(snapshot) = &facts.snapshot else { return Vec::new() };
    let held = local(snapshot).filter(|device| device.memory.holders.is_ok_and(|holders| holders > 0)).count();
    let mut findings = if held == 0 {
        ok("no process holds a device")
    } else {
        ok(format!("{} held; ttmon who lists the processes", count(held, "device")))
    };
    for process in &snapshot.processes {
        let pid = process.key.pid;
        let devices: Vec<String> = process.devices.iter().map(|used| used.device.to_string()).collect();
        let devices = devices.join(",");
        match process.status {
            Status::Open => {
                let message = format!("process {pid} on device {devices} is not tracked: its memory is unknown");
                findings.extend(warning(message, "start it with: ttmon run -- COMMAND"));
            }
            Status::Dead => {
                let message = format!("process {pid} has exited and another process keeps device {devices} open");
                findings.extend(warning(message, format!("ttmon who {devices}")));
            }
            Status::Tracked | Status::Connected | Status::Reported | Status::NoPermission => {}
        }
    }
    findings
}

fn containers(facts: &Facts) -> Vec<Found> {
    let hidden =
        facts.snapshot.as_ref().map_or(0, |snapshot| local(snapshot).map(|device| device.memory.hidden_processes).max().unwrap_or(0));
    if hidden == 0 {
        return Vec::new();
    }
    warning(
        "processes outside this container hold devices and cannot be named",
        "run ttmon on the host, or start the container with --pid=host",
    )
}

fn stale(facts: &Facts) -> Vec<Found> {
    let Ok(snapshot) = &facts.snapshot else { return Vec::new() };
    let stale = snapshot.devices.iter().filter(|device| device.memory.stale_bytes > 0);
    let (ids, bytes): (Vec<String>, Vec<u64>) = stale.map(|device| (device.id.to_string(), device.memory.stale_bytes)).unzip();
    if ids.is_empty() {
        return Vec::new();
    }
    let message = format!("processes that ended left {} in the statistics of device {}", size(bytes.iter().sum()), ids.join(","));
    warning(message, "while no program runs on these devices: rm /dev/shm/tt_device_*_memory")
}

fn library(facts: &Facts) -> Vec<Found> {
    match &facts.library {
        None => Vec::new(),
        Some(Ok(path)) => ok(format!("ttmon run preloads {}", path.display())),
        Some(Err(reason)) => problem(
            format!("ttmon run does not work: {reason}"),
            "install ttmon as a package, or set TTMON_LIB to the folder of libttmon_hook.so",
        ),
    }
}

fn ttnn(facts: &Facts) -> Vec<Found> {
    let Some(python) = &facts.python else { return Vec::new() };
    let Some(ttnn) = &python.ttnn else { return ok(format!("no ttnn in Python {}", python.version)) };
    match Version::parse(ttnn) {
        Some(version) if TTNN_TRIED.contains(&version) => ok(format!("ttnn {ttnn} in Python {}, which ttmon run knows", python.version)),
        _ => {
            let message = format!("ttnn {ttnn} was not tried with this ttmon: some memory may not be tracked");
            warning(message, "the report of ttmon run lists what is covered; update ttmon")
        }
    }
}

fn service(facts: &Facts) -> Vec<Found> {
    match &facts.service {
        None => Vec::new(),
        Some(Service::None) => ok("no ttmon serve runs; it is needed for history, metrics and alerts only"),
        Some(Service::Answers { place }) => ok(format!("answers at {place}")),
        Some(Service::Silent { place, reason }) => {
            problem(format!("{place} {reason}"), "systemctl status ttmon; sudo systemctl restart ttmon")
        }
    }
}

fn clock(facts: &Facts) -> Vec<Found> {
    if facts.time.0 >= TIME_MIN.0 {
        return Vec::new();
    }
    problem(format!("the time of day is wrong: {}", facts.time.rfc3339()), "sudo timedatectl set-ntp true")
}

#[cfg(test)]
mod tests {
    use super::super::facts::{Node, Python, Space};
    use super::*;
    use ttmon_model::identity::DeviceId;

    fn facts() -> Facts {
        Facts {
            snapshot: Err(ttmon_collect::Error::NoDevice),
            is_driver_loaded: true,
            bus: Vec::new(),
            nodes: Vec::new(),
            huge_pages: None,
            kernel: None,
            ptrace_scope: None,
            time: UnixTime(TIME_MIN.0),
            shared_memory: None,
            memfd: None,
            library: None,
            python: None,
            service: None,
        }
    }

    /// Checks the finding of a topic.
    fn check(facts: &Facts, topic: &str, verdict: Verdict, message: &str) {
        let findings = examine(facts);
        let found = findings.iter().find(|finding| finding.topic == topic).unwrap_or_else(|| panic!("no {topic} in {findings:?}"));
        assert_eq!(found.verdict, verdict, "{found:?}");
        assert!(found.message.contains(message), "{found:?}");
        assert_eq!(found.remedy.is_none(), verdict == Verdict::Ok, "{found:?}");
    }

    #[test]
    fn firmware_decides_what_deep_can_read() {
        let lacks = |arch, bundle: &str| {
            lacking_firmware(&Device { arch: Ok(arch), firmware: Ok(bundle.to_owned()), ..Device::absent() }).unwrap_or_default()
        };
        assert_eq!(lacks(Arch::Wormhole, "19.13.0.0"), "");
        assert_eq!(lacks(Arch::Wormhole, "19.12.0.0"), "device 0 needs firmware bundle 19.13 for utilization, the rest works");
        assert_eq!(lacks(Arch::Blackhole, "19.12.0.0"), "");
        assert_eq!(lacks(Arch::Blackhole, "18.5.0.0"), "device 0 needs firmware bundle 19.12 for utilization, the rest works");
        assert_eq!(lacks(Arch::Wormhole, "80.17.0.0"), "device 0 needs firmware bundle 18.4");
        assert!(lacks(Arch::Grayskull, "19.13.0.0").contains("Grayskull"));
    }

    #[test]
    fn facts_of_this_process() {
        use Verdict::{Ok as Fine, Problem, Warning};
        let node = |is_accessible| vec![Node { id: DeviceId(0), is_accessible, mode: 0o600 }];
        check(&Facts { nodes: node(false), ..facts() }, "permissions", Problem, "cannot open device 0 (mode 0600)");
        check(&Facts { nodes: node(true), ..facts() }, "permissions", Fine, "may open 1 device");
        let space = |free| Some(Space { total: 1 << 30, free });
        check(&Facts { shared_memory: space(1 << 20), ..facts() }, "shared memory", Warning, "1.0MB of 1.0GB");
        check(&Facts { shared_memory: space(1 << 29), ..facts() }, "shared memory", Fine, "512.0MB");
        let refused = Some(Err(rustix::io::Errno::PERM));
        check(&Facts { memfd: refused, ..facts() }, "shared memory", Problem, "memfd_create fails");
        check(&Facts { library: Some(Err("not found".to_owned())), ..facts() }, "libraries", Problem, "not found");
        check(&Facts { library: Some(Ok("/usr/lib/ttmon/libttmon_stub.so".into())), ..facts() }, "libraries", Fine, "/usr/lib/ttmon");
        let python = |ttnn: &str| Some(Python { version: "3.12.3".to_owned(), ttnn: Some(ttnn.to_owned()) });
        check(&Facts { python: python("0.81.1"), ..facts() }, "ttnn", Fine, "0.81.1");
        check(&Facts { python: python("0.90.0"), ..facts() }, "ttnn", Warning, "was not tried");
        let silent = Service::Silent { place: "unix:/run/ttmon/api.sock".to_owned(), reason: "does not answer".to_owned() };
        check(&Facts { service: Some(silent), ..facts() }, "service", Problem, "does not answer");
        check(&Facts { service: Some(Service::None), ..facts() }, "service", Fine, "no ttmon serve");
        check(&Facts { time: UnixTime(0), ..facts() }, "clock", Problem, "1970");
    }
}
