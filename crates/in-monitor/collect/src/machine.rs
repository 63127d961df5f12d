//! The whole machine: what is read, and in which order.

mod deep;
mod devices;
mod granted;
mod numbers;
mod readers;
mod remembered;
mod scan;
mod slots;
mod tracking;

pub use devices::DeviceList;
pub use scan::Scanned;
pub use tracking::{Departed, End};

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ttmon_model::cluster::Cluster;
use ttmon_model::sample::{Origin, Problem};
use ttmon_model::units::UnixTime;
use ttmon_model::{Missing, Sample};
use ttmon_os::time::unix_nanos;

use crate::ledgers::{LedgerDetail, OpenLedger};
use crate::reads::{Failure, LaneReply, Sampling, boot_time};
use crate::root::Root;
use devices::{Devices, Listed};
pub(crate) use readers::Readers;
use scan::Scan;

/// How a machine is read.
#[derive(Clone, Debug)]
pub struct Options {
    /// Maximum time to wait for one file.
    pub read_timeout: Duration,
    /// Whether the machine is sampled once or repeatedly.
    pub sampling: Sampling,
    /// Where reads that may hang are done.
    pub isolation: Isolation,
    /// Whether the machine is real or simulated.
    pub origin: Origin,
    /// The cluster descriptor that the user named.
    pub cluster: Option<Cluster>,
    /// Whether to read processes and memory.
    pub processes: bool,
    /// Which ledgers to search for, and how much of them to read.
    pub ledgers: Ledgers,
    /// The file that stores the device numbers. Programs that start while a device is missing read it. Only the service sets it.
    pub slots: Option<PathBuf>,
    /// The program that is started to read the chips directly (`--deep`). Its `main` must call [`ttmon_deep::run_as_reader`]. With `None`,
    /// the devices are not opened.
    pub deep: Option<PathBuf>,
}

/// Which ledgers to search for, and how much of them to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ledgers {
    /// How much of each ledger to read.
    pub detail: LedgerDetail,
    /// The processes whose ledgers are searched.
    pub scope: LedgerScope,
    /// The machine of the ledgers: 0, or the mark of a simulated machine.
    pub machine: u64,
}

/// The processes whose ledgers are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerScope {
    /// Processes that hold a device.
    Holders,
    /// Every process, with or without a device. A machine without devices is then no error.
    Everybody,
    /// Processes that hold a device, and the process with this pid.
    Process(u32),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            read_timeout: Duration::from_millis(200),
            sampling: Sampling::Once,
            isolation: Isolation::Process,
            origin: Origin::Local,
            cluster: None,
            processes: true,
            ledgers: Ledgers { detail: LedgerDetail::Totals, scope: LedgerScope::Holders, machine: 0 },
            slots: None,
            deep: None,
        }
    }
}

/// Where reads that may hang are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// In a forked process, so that this process can always exit. The calling program must have a single thread.
    Process,
    /// In threads of this process.
    Threads,
}

/// Why no sample could be taken. A single bad device never causes this.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No Tenstorrent device on the PCI bus.
    #[error("no Tenstorrent device found: none is on the PCI bus; try a simulated machine with --sim t3k")]
    NoDevice,
    /// There are devices on the bus, but the driver does not list them.
    #[error("no Tenstorrent device found: {devices} on the PCI bus, but the kernel driver {}", without_device(*.is_loaded))]
    DriverNotLoaded {
        /// How many devices there are.
        devices: usize,
        /// Whether the driver is loaded and lists none of the devices.
        is_loaded: bool,
    },
    /// The driver's directory cannot be read.
    #[error("cannot list devices: /sys/class/tenstorrent: {0}; check the permissions of /sys")]
    Class(io::Error),
    /// A directory or file that shows which devices there are cannot be read.
    #[error("cannot list devices: {}: {reason}: {}; try again", .file.display(), .reason.explanation())]
    Unreadable {
        /// Its path.
        file: PathBuf,
        /// Why.
        reason: Missing,
    },
    /// The reading process could not be started or died.
    #[error("cannot read the machine: the reading process failed: {0}; try again")]
    Reader(io::Error),
}

/// Returns why the kernel driver lists no device.
fn without_device(is_loaded: bool) -> &'static str {
    if is_loaded { "has none of them; see: sudo dmesg | grep tenstorrent" } else { "is not loaded; try: sudo modprobe tenstorrent" }
}

/// A machine that is sampled repeatedly.
#[derive(Debug)]
pub struct Machine {
    devices: Devices,
    scan: Scan,
    readers: Readers,
}

/// Base keys of lanes. Devices are added by id, processes by pid.
const LANE_OF_DRIVER: u64 = 1 << 40;
const LANE_OF_REGIONS: u64 = 2 << 40;
const LANE_OF_PROCESS: u64 = 3 << 40;
const LANE_OF_COUNTERS: u64 = 4 << 40;
const LANE_OF_USERS: u64 = 5 << 40;
const LANE_OF_STATS: u64 = 6 << 40;
const LANE_OF_SWEEP: u64 = 7 << 40;
const LANE_OF_SLOW: u64 = 8 << 40;
const LANE_OF_LISTS: u64 = 9 << 40;
const LANE_OF_ENTRY: u64 = 10 << 40;
pub(crate) const LANE_OF_NAMES: u64 = 11 << 40;
/// Addresses of PCI devices have 56 bits.
const LANE_OF_BUS: u64 = 1 << 60;

impl Machine {
    /// Opens a machine for reading. Forks if the options select [`Isolation::Process`].
    pub fn new(root: Root, options: Options) -> Result<Self, Error> {
        if options.sampling == Sampling::Repeated {
            keep_memory();
        }
        let readers = Readers::new(&root, &options)?;
        Ok(Self { devices: Devices::new(&root, &options), scan: Scan::new(root, options), readers })
    }

    /// Reads everything once.
    pub fn sample(&mut self) -> Result<Sample, Error> {
        let Self { devices, scan, readers } = self;
        again_without_reader(|| {
            // A list that is the same as before needs no batch of its own.
            let is_settled = devices.is_settled();
            if !is_settled {
                devices.find(readers)?;
            }
            let mut batch = FirstBatch::read(devices, scan, readers, is_settled)?;
            if is_settled && devices.has_changed(batch.of_devices.pop()) {
                devices.find(readers)?;
                batch = FirstBatch::read(devices, scan, readers, false)?;
            }
            let FirstBatch { now, listed, of_devices, of_scan } = batch;
            let mut problems = Vec::new();
            devices.take(readers, &mut of_devices.into_iter(), &mut problems)?;
            let mut sample = devices.sample(now, problems);
            let device_list = DeviceList { devices: listed, driver: sample.driver.clone() };
            scan.take(readers, &device_list, &mut of_scan.into_iter(), now)?.complete(&mut sample);
            devices.number_chips(&mut sample);
            Ok(sample)
        })
    }

    /// Forks, and splits the machine into two parts for two threads. The devices are then read even if the scan is blocked.
    pub fn split(self) -> Result<(DeviceReader, Scanner), Error> {
        let Self { devices, scan, readers } = self;
        let other = Readers::new(&scan.root, &scan.options)?;
        Ok((DeviceReader { devices, readers }, Scanner { scan, readers: other }))
    }

    /// Permanently restricts the calling thread to reading files. It can no longer write, connect or start programs. It keeps only the
    /// capabilities to read other users' processes. Other threads keep their rights. Returns false if the
    /// system refuses a part of this.
    pub fn restrict_thread(&mut self) -> bool {
        self.scan.restrict_thread()
    }

    /// From the next sample on, searches the ledgers of holders and of this process ([`LedgerScope::Process`]).
    pub fn include_process(&mut self, pid: u32) {
        self.devices.is_device_needed = false;
        self.scan.include_process(pid);
    }

    /// From the next sample on, searches the ledgers of all processes ([`LedgerScope::Everybody`]).
    pub fn include_everybody(&mut self) {
        self.devices.is_device_needed = false;
        self.scan.options.ledgers.scope = LedgerScope::Everybody;
    }

    /// Sets how much of ledgers is read from the next sample on.
    pub fn set_detail(&mut self, detail: LedgerDetail) {
        self.scan.options.ledgers.detail = detail;
    }

    /// From the next sample on, starts this program to read the chips directly, or stops doing so if `None`. See [`Options::deep`].
    pub fn set_deep(&mut self, program: Option<&Path>) {
        self.devices.set_deep(program);
    }

    /// Returns the ledgers of the last sample, for callers that read more of them. They can be sent to another thread.
    pub fn ledgers(&self) -> &[Arc<OpenLedger>] {
        &self.scan.ledgers
    }

    /// Returns the ledgers of processes that ended or became other programs since the previous sample. They are still readable.
    pub fn departed(&self) -> &[Arc<Departed>] {
        &self.scan.departed
    }
}

/// The replies about the devices and the first ones of a scan.
struct FirstBatch {
    now: Now,
    listed: Vec<Listed>,
    of_devices: Vec<LaneReply>,
    of_scan: Vec<LaneReply>,
}

impl FirstBatch {
    /// Reads the known devices. With the list of devices, its reply is the last one about devices.
    fn read(devices: &mut Devices, scan: &mut Scan, readers: &mut Readers, has_list: bool) -> Result<Self, Error> {
        let now = Now::new();
        let mut lanes = devices.lanes(now.at);
        lanes.extend(has_list.then(|| devices.list_lane()));
        let count = lanes.len();
        let listed = devices.listed();
        lanes.extend(scan.lanes(&listed));
        let mut of_devices = readers.read(lanes)?;
        let of_scan = of_devices.split_off(count);
        Ok(Self { now, listed, of_devices, of_scan })
    }
}

/// Reads the devices of a machine.
#[derive(Debug)]
pub struct DeviceReader {
    devices: Devices,
    readers: Readers,
}

impl DeviceReader {
    /// Lists the devices. Returns the information that a scan needs.
    pub fn list(&mut self) -> Result<DeviceList, Error> {
        let Self { devices, readers } = self;
        again_without_reader(|| {
            devices.find(readers)?;
            devices.list(readers)
        })
    }

    /// Reads the listed devices. [`Scanned::complete`] completes the sample.
    pub fn sample(&mut self) -> Result<Sample, Error> {
        let Self { devices, readers } = self;
        again_without_reader(|| {
            let now = Now::new();
            let mut problems = Vec::new();
            let lanes = devices.lanes(now.at);
            let replies = readers.read(lanes)?;
            devices.take(readers, &mut replies.into_iter(), &mut problems)?;
            Ok(devices.sample(now, problems))
        })
    }

    /// Adds the known TT-Metal chip numbers to a complete sample.
    pub fn number_chips(&mut self, sample: &mut Sample) {
        self.devices.number_chips(sample);
    }
}

/// Scans a machine for the processes that use its devices.
#[derive(Debug)]
pub struct Scanner {
    scan: Scan,
    readers: Readers,
}

impl Scanner {
    /// Restricts the calling thread like [`Machine::restrict_thread`].
    pub fn restrict_thread(&mut self) -> bool {
        self.scan.restrict_thread()
    }

    /// Scans once.
    pub fn scan(&mut self, device_list: &DeviceList) -> Result<Scanned, Error> {
        let Self { scan, readers } = self;
        again_without_reader(|| {
            let now = Now::new();
            let replies: Vec<LaneReply> = readers.read(scan.lanes(&device_list.devices))?;
            scan.take(readers, device_list, &mut replies.into_iter(), now)
        })
    }

    /// Returns the ledgers of the last scan.
    pub fn ledgers(&self) -> &[Arc<OpenLedger>] {
        &self.scan.ledgers
    }

    /// Returns the ledgers of processes that ended, or became other programs, since the previous scan.
    pub fn departed(&self) -> &[Arc<Departed>] {
        &self.scan.departed
    }
}

/// Repeats `work` if the reading process died or is too slow. Threads of this process then read, so no sample is lost.
fn again_without_reader<T>(mut work: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    match work() {
        Err(Error::Reader(_)) => work(),
        done => done,
    }
}

/// Returns the problem of a file that was not read, and whose values are missing.
pub(crate) fn unread(file: &Path, failure: Failure) -> Problem {
    let reason = Missing::from(failure);
    Problem::new(file.display().to_string(), reason, reason.explanation())
}

/// Raises the threshold above which glibc returns freed memory to the kernel, which each sample would fetch again.
fn keep_memory() {
    const SAMPLE_BYTES: usize = 4 * 1024 * 1024;
    drop(std::hint::black_box(Vec::<u8>::with_capacity(SAMPLE_BYTES)));
}

/// The time of a sample.
#[derive(Clone, Copy, Debug)]
struct Now {
    /// Monotonic time.
    at: Duration,
    /// Wall clock time.
    time: UnixTime,
    /// When the machine started.
    boot: UnixTime,
}

impl Now {
    fn new() -> Self {
        let (at, real) = (boot_time(), unix_nanos());
        let since_boot = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        Self { at, time: UnixTime(real), boot: UnixTime(real.saturating_sub(since_boot)) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixStream;
    use std::thread;

    use crate::reads::Pool;
    use crate::reads::isolate::{Reader, serve};
    use nix::sched::{CloneFlags, unshare};

    use super::*;

    #[test]
    fn a_dead_reading_process_costs_no_sample() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("sys/class/tenstorrent/tenstorrent!0")).unwrap();
        let options = Options { isolation: Isolation::Threads, ..Options::default() };
        let mut machine = Machine::new(Root::at(directory.path()), options).unwrap();
        let (ours, _) = UnixStream::pair().unwrap();
        machine.readers = Readers::of_reader(Reader::new(ours, 0));
        assert_eq!(machine.sample().unwrap().devices.len(), 1);
        assert!(machine.readers.are_threads());
    }

    /// A device that the driver lists, and one that is only on the bus.
    fn write_machine(base: &Path) {
        let put = |path: &str, text: &str| {
            let path = base.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        };
        for bus in ["01", "02"] {
            put(&format!("sys/devices/0000:{bus}:00.0/vendor"), "0x1e52");
            put(&format!("sys/devices/0000:{bus}:00.0/device"), "0x401e");
            put(&format!("sys/devices/0000:{bus}:00.0/subsystem_device"), "0x0014");
            fs::create_dir_all(base.join("sys/bus/pci/devices")).unwrap();
            let (target, link) = (format!("../../../devices/0000:{bus}:00.0"), format!("sys/bus/pci/devices/0000:{bus}:00.0"));
            symlink(target, base.join(link)).unwrap();
        }
        put("sys/devices/0000:01:00.0/driver/uevent", "");
        put("sys/devices/0000:01:00.0/hwmon/hwmon3/temp1_input", "54312");
        put("sys/class/tenstorrent/tenstorrent!0/tt_aiclk", "500");
        symlink("../../../devices/0000:01:00.0", base.join("sys/class/tenstorrent/tenstorrent!0/device")).unwrap();
        put("sys/module/tenstorrent/version", "2.9.0");
        put("proc/driver/tenstorrent/0/pids", "0");
        put("etc/passwd", "ana:x:1000:1000::/home/ana:/bin/sh");
    }

    /// The machine is below a relative path, and only the thread that answers has a directory from which the path leads there.
    #[test]
    fn files_of_the_driver_and_of_the_bus_are_read_by_the_reader_alone() {
        let directory = tempfile::tempdir().unwrap();
        write_machine(&directory.path().join("machine"));
        let options = || Options { isolation: Isolation::Threads, ..Options::default() };
        let known = |root: Root, readers: Option<Readers>| {
            let mut machine = Machine::new(root, options()).unwrap();
            machine.readers = readers.unwrap_or(machine.readers);
            let Sample { devices, driver, .. } = machine.sample().unwrap();
            (devices, driver, machine.scan.passwd)
        };
        let (stream, theirs) = UnixStream::pair().unwrap();
        let place = directory.path().to_owned();
        thread::spawn(move || {
            unshare(CloneFlags::CLONE_FS).unwrap();
            std::env::set_current_dir(place).unwrap();
            serve(theirs, Pool::new(Duration::from_secs(60), None));
        });
        let through_reader = known(Root::at(Path::new("machine")), Some(Readers::of_reader(Reader::new(stream, 0))));
        let mut plainly = known(Root::at(&directory.path().join("machine")), None);
        assert_eq!((through_reader.0.len(), &through_reader.1), (2, &Ok("2.9.0".to_owned())));
        assert!(through_reader.2.as_ref().is_some_and(|passwd| passwd.starts_with("ana")));
        plainly.0.iter_mut().zip(&through_reader.0).for_each(|(plain, other)| plain.counted.clone_from(&other.counted));
        assert_eq!(through_reader, plainly);
    }
}
