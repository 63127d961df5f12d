//! Simulated hosts: a few services, each of which answers for many hosts. So a hundred hosts cost only the time to copy their metrics.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tempfile::TempDir;
use ttmon_serve::{TextResponse, serve_texts};
use ttmon_sim::{Machine, Spec};
use ttmon_testing::{Service, static_pids, write_static_processes};

use super::HOSTS;
use crate::start_service;

/// Hosts with the same number modulo four have the same metrics. The last of them has no processes.
const SPECS: [&str; 4] = ["t3k", "t3k", "t3k", "t3k,idle"];
/// Host 0, which has processes, with a hot chip.
const FAULTY: &str = "t3k,fault=hot:0";
/// A minute after the start, so that programs have their memory.
const TICK: u64 = 240;
const RACK_HOSTS: usize = 8;
const PARTITIONS: [&str; 3] = ["batch", "debug", "serving"];

/// The metrics of [`HOSTS`] hosts, at one port.
pub(super) struct Simulated {
    machines: Vec<SimulatedMachine>,
    faulty: SimulatedMachine,
    /// Whether host 0 has the fault now.
    has_fault: AtomicBool,
}

struct SimulatedMachine {
    // Stopped first, because it reads the files.
    service: Service,
    _files: TempDir,
}

impl Simulated {
    /// Starts the hosts. Returns them with their addresses: lines of a list of hosts.
    pub(super) fn start(has_fault: bool) -> (Arc<Self>, Vec<String>) {
        let machines = (0..).zip(SPECS).map(|(number, spec)| SimulatedMachine::start(spec, number)).collect();
        let faulty = SimulatedMachine::start(FAULTY, 0);
        let hosts = Arc::new(Self { machines, faulty, has_fault: AtomicBool::new(has_fault) });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // The thread does not end, but the services do when the test drops the hosts.
        let served = Arc::downgrade(&hosts);
        thread::spawn(move || serve_texts(listener, move |path| served.upgrade()?.metrics(path)));
        (hosts, (0..*HOSTS).map(|host| line(&address.to_string(), host)).collect())
    }

    /// Gives host 0 a hot chip, or repairs it.
    pub(super) fn set_fault(&self, has_fault: bool) {
        self.has_fault.store(has_fault, Ordering::Relaxed);
    }

    fn metrics(&self, path: &str) -> Option<TextResponse> {
        let host: usize = path.strip_prefix("/hosts/")?.strip_suffix("/metrics")?.parse().ok()?;
        let is_faulty = host == 0 && self.has_fault.load(Ordering::Relaxed);
        let machine = if is_faulty { &self.faulty } else { &self.machines[host % SPECS.len()] };
        // The page of a real host can be reached by others, so that the fleet view has a link to it.
        let text = machine.service.unix("/metrics").body.replace("reach=\"host\"", "reach=\"network\"");
        Some(TextResponse { content_type: "text/plain; version=0.0.4", body: text.into_bytes() })
    }
}

impl SimulatedMachine {
    fn start(spec: &str, seed: u64) -> Self {
        let files = tempfile::tempdir_in("/dev/shm").unwrap();
        let machine = Spec::parse(spec).and_then(|spec| Machine::new(&spec, seed)).unwrap();
        machine.write(files.path(), TICK, &static_pids(machine.process_count())).unwrap();
        write_static_processes(files.path(), &machine.commands(), seed);
        let service = start_service(&["--quiet", "--root", files.path().to_str().unwrap(), "--metrics", "lean"]);
        Self { service, _files: files }
    }
}

/// Returns a host as a line of a list of hosts.
fn line(address: &str, host: usize) -> String {
    let (rack, partition) = (host / RACK_HOSTS, PARTITIONS[host / RACK_HOSTS % PARTITIONS.len()]);
    format!("{address} __metrics_path__=/hosts/{host}/metrics instance=host-{host:05} rack=r{rack:03} partition={partition}")
}
