//! The server in this process, on a machine with the values that a test sets. `ttmon`'s tests run it on a real machine.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ttmon_allocation_server::limits::DUMPS_MAX;
use ttmon_allocation_server::protocol::{DeviceInfo, Request, Size, Type, Usage};
use ttmon_allocation_server::{Control, Format, Handle, Listener, Log, Server, Settings, Sources, Store};
use ttmon_model::attributes::Attributes;
use ttmon_model::sample::{DeviceSample, Origin, Users};
use ttmon_model::units::UnixTime;
use ttmon_model::{DeviceId, Missing, Sample};
use ttmon_testing::{TIMEOUT, until};

struct Running {
    directory: tempfile::TempDir,
    handle: Handle,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Running {
    fn start(mut sampler: impl FnMut() -> Result<Sample, ttmon_collect::Error> + Send + 'static) -> Self {
        // The mode is explicit, because binding a socket temporarily changes the umask of the whole process.
        let mode = Permissions::from_mode(0o755);
        let directory = tempfile::Builder::new().prefix("ttmon-test-").permissions(mode).tempdir_in("/dev/shm").unwrap();
        let at = |name: &str| directory.path().join(name);
        let file = |name: &str| OwnedFd::from(File::create(at(name)).unwrap());
        let settings = Settings {
            unbound: Vec::new(),
            listeners: vec![Listener::bind(&at("alloc.sock"), 0o600).unwrap()],
            store: Store::open(&at("state"), 0, "0.0.0").unwrap(),
            handover: None,
            sampler: Box::new(move || Ok(Sources { sample: sampler()?, ledgers: Vec::new() })),
            log: Log::start(file("out"), file("errors"), Format::Json).unwrap(),
            is_quiet: true,
        };
        let (mut server, handle) = Server::new(settings).unwrap();
        let thread = thread::spawn(move || server.run());
        Self { directory, handle, thread: Some(thread) }
    }

    fn connect(&self) -> Client {
        let stream = UnixStream::connect(self.directory.path().join("alloc.sock")).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Client(stream)
    }

    fn output(&self) -> String {
        fs::read_to_string(self.directory.path().join("out")).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.control(Control::Stop);
        let ended = self.thread.take().unwrap().join();
        assert!(thread::panicking() || ended.is_ok_and(|ended| ended.is_ok()));
    }
}

struct Client(UnixStream);

impl Client {
    fn send(&mut self, requests: &[Request]) -> &mut Self {
        let bytes: Vec<u8> = requests.iter().flat_map(|request| request.encode(Size::B144).as_bytes().to_vec()).collect();
        self.0.write_all(&bytes).unwrap();
        self
    }

    fn query(&mut self, query: Type, device_id: i32) -> [u8; 144] {
        let mut reply = [0; 144];
        self.send(&[Request { device_id, ..Request::new(query) }]).0.read_exact(&mut reply).unwrap();
        reply
    }

    fn usage(&mut self, device_id: i32) -> Usage {
        Usage::decode(&self.query(Type::Query, device_id)).unwrap()
    }

    fn devices(&mut self) -> u32 {
        DeviceInfo::decode(&self.query(Type::DeviceInfoQuery, -1)).unwrap().devices
    }
}

/// A machine with one device without any values.
fn machine() -> Sample {
    let device = DeviceSample {
        id: DeviceId(0),
        bdf: Err(Missing::NotExposed),
        attributes: Attributes::all_missing(Missing::NotExposed),
        was_listed: true,
        counted: None,
        beat: None,
        users: Ok(Users { is_complete: true, ..Users::default() }),
        deep: Err(Missing::NeedsDeep),
    };
    Sample {
        at: Duration::ZERO,
        time: UnixTime(0),
        scan_age: Duration::ZERO,
        host: String::new(),
        origin: Origin::Local,
        driver: Err(Missing::NotExposed),
        cluster: None,
        proven: Vec::new(),
        devices: vec![device],
        processes: Vec::new(),
        regions: Vec::new(),
        ledgers: Vec::new(),
        denied_processes: 0,
        problems: Vec::new(),
    }
}

fn alloc(device_id: i32, buffer_type: u8, buffer_id: u64) -> Request {
    let process_id = i32::try_from(std::process::id()).unwrap();
    Request { device_id, size: 64, buffer_type, process_id, buffer_id, ..Request::new(Type::Alloc) }
}

/// Allocates enough buffers that their dump exceeds a socket's buffer.
fn fill(server: &Running) {
    let mut client = server.connect();
    for device in 0..256 {
        let many = [0, 1, 3, 4].into_iter().flat_map(|kind| (0..10).map(move |id| alloc(device, kind, id)));
        client.send(&many.collect::<Vec<_>>());
    }
    assert_eq!(client.usage(255).dram, 640);
}

/// Sends an empty line and closes the sending side.
fn request_dump(server: &Running) -> UnixStream {
    let mut requester = server.connect().0;
    requester.write_all(b"\n").unwrap();
    requester.shutdown(Shutdown::Write).unwrap();
    requester
}

/// A driver that is loaded and unloaded while the server runs.
#[test]
fn other_sources_are_reported_with_present_values() {
    let is_there = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&is_there);
    let server = Running::start(move || if seen.load(Ordering::SeqCst) { Ok(machine()) } else { Err(ttmon_collect::Error::NoDevice) });
    let mut client = server.connect();
    assert_eq!(client.devices(), 0);
    is_there.store(true, Ordering::SeqCst);
    until("what could not be read at first is read later", || client.devices() == 1);
    is_there.store(false, Ordering::SeqCst);
    until("what cannot be read any more is not answered", || client.devices() == 0);
}

/// A peer that has closed its sending side after the line feed and reads the dump slowly.
#[test]
fn a_dump_comes_once() {
    let server = Running::start(|| Ok(machine()));
    fill(&server);
    let mut requester = request_dump(&server);
    // This line feed may begin a message, so it is answered after the quiet period. By then the period of the first line feed is over, too.
    let mut later = server.connect().0;
    later.write_all(b"\n").unwrap();
    later.read_exact(&mut [0]).unwrap();
    let mut text = String::new();
    requester.read_to_string(&mut text).unwrap();
    assert!(text.ends_with("Total remaining buffers: 10240\n\n"), "{}", text.len());
    assert_eq!(text.matches("REMAINING ALLOCATED BUFFERS").count(), 1);
}

#[test]
fn a_log_of_objects_has_nothing_else_in_it() {
    let server = Running::start(|| Ok(machine()));
    let mut client = server.connect();
    client.send(&[alloc(0, 0, 1), Request::new(Type::DumpRemaining), Request::new(Type::DumpKernels)]);
    until("both dumps", || ["DUMP_REMAINING complete", "DUMP_KERNELS complete"].iter().all(|text| server.output().contains(text)));
    for line in server.output().lines() {
        assert!(line.starts_with("{\"time\":") && line.ends_with('}'), "{line}");
    }
}

#[test]
fn no_more_dumps_wait_for_readers_than_there_is_room_for() {
    let server = Running::start(|| Ok(machine()));
    fill(&server);
    let requesters: Vec<UnixStream> = (0..DUMPS_MAX + 6).map(|_| request_dump(&server)).collect();
    until("the last ones are rejected", || server.handle.counters().peers_dropped == 6);
    let lengths: Vec<usize> = requesters.into_iter().map(|mut requester| requester.read_to_end(&mut Vec::new()).unwrap()).collect();
    assert_eq!(lengths.iter().filter(|length| **length == 0).count(), 6, "{lengths:?}");
}
