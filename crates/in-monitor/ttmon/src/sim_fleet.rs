//! `ttmon sim-fleet`: serves the metrics of many simulated hosts from one process.
//!
//! A few machines are simulated and read like real machines, at several times. Each host is a copy of one of these machines with its own
//! ids. So thousands of hosts cost only the time to write their metrics.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use ttmon_collect::reads::{Sampling, descriptors};
use ttmon_collect::{Isolation, Options, Root};
use ttmon_model::fields::{DeviceField, PROCESS, Value};
use ttmon_model::sample::Origin;
use ttmon_model::{Device, Process, Snapshot};
use ttmon_serve::{MetricsDetail, SimulatedHost, TextAnswer, serve_texts};
use ttmon_sim::{Machine, Spec};

use crate::failure::{Failure, complain};
use crate::invocation::{HostFault, SimFleetRequest};
use crate::sd::listener;
use crate::show::VERSION;

/// Number of simulated machines. The last one is idle, so that a quarter of the fleet is free.
const VARIANTS: u64 = 4;
/// Number of frames of each machine. Frames are `TICKS_PER_FRAME` ticks apart.
const FRAMES: u64 = 6;
const TICKS_PER_FRAME: u64 = 20;
const TICK: Duration = Duration::from_millis(250);
const RACK_HOSTS: u64 = 8;
const PARTITIONS: [&str; 3] = ["batch", "debug", "serving"];

/// The snapshots of a machine, one per frame.
type Frames = Vec<Snapshot>;

struct Fleet {
    hosts: u64,
    variants: Vec<Frames>,
    faults: Vec<(HostFault, Frames)>,
    memory: Vec<Mutex<SimulatedHost>>,
    detail: MetricsDetail,
    started: Instant,
}

/// Serves metrics until a signal ends the program.
pub(crate) fn run(request: &SimFleetRequest) -> Result<(), Failure> {
    descriptors::allow(u64::MAX);
    let (hosts, seed, spec) = (u64::from(request.hosts), request.seed, &request.spec);
    let (listener, at) = listener(request.listen)?;
    let variants = (0..VARIANTS).map(|variant| frames(&spec_of(spec, variant), seed + variant, variant)).collect::<Result<_, _>>()?;
    let with_frames = |fault: &HostFault| {
        let variant = fault.host % VARIANTS;
        let frames = frames(&format!("{},{}", spec_of(spec, variant), fault.text), seed + variant, variant)?;
        Ok((fault.clone(), frames))
    };
    let fleet = Fleet {
        hosts,
        variants,
        faults: request.faults.iter().map(with_frames).collect::<Result<_, Failure>>()?,
        memory: (0..hosts).map(|_| Mutex::default()).collect(),
        detail: request.detail,
        started: Instant::now(),
    };
    complain(&format!("serving {hosts} simulated hosts at http://{at}/sd"));
    let answer = move |asked: ttmon_serve::TextRequest<'_>| {
        if asked.path == "/sd" {
            let host = if asked.host.is_empty() { at.to_string() } else { asked.host.to_owned() };
            let body = fleet.list(&host).into_bytes();
            return Some(TextAnswer { content_type: "application/json", body, is_gzip: false });
        }
        let number = asked.path.strip_prefix("/hosts/host-").and_then(|rest| rest.strip_suffix("/metrics")?.parse::<u64>().ok());
        number.filter(|number| *number < fleet.hosts).map(|number| fleet.scrape(number, asked))
    };
    serve_texts(listener, answer).map_err(|error| Failure::new(format!("cannot serve: {error}")))
}

/// Returns the spec of one machine. The last of four machines is idle, unless the spec sets the number of processes.
fn spec_of(spec: &str, variant: u64) -> String {
    let has_processes = spec.split(',').any(|item| item == "idle" || item.starts_with("procs="));
    if variant == VARIANTS - 1 && !has_processes { format!("{spec},idle") } else { spec.to_owned() }
}

/// Simulates a machine and reads it at several times, like a real one.
fn frames(spec: &str, seed: u64, host: u64) -> Result<Frames, Failure> {
    let usage = |error: ttmon_sim::SpecError| Failure::usage(format!("--spec {spec}: {error}"));
    let machine = Spec::parse(spec).and_then(|spec| Machine::new(&spec, seed)).map_err(usage)?;
    let directory = std::env::temp_dir().join(format!("ttmon-sim-fleet-{}", std::process::id()));
    let frames = frames_below(&directory, &machine, host);
    // A directory that stays is among the temporary files.
    let _ = std::fs::remove_dir_all(&directory);
    frames
}

fn frames_below(directory: &Path, machine: &Machine, host: u64) -> Result<Frames, Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("cannot write a simulated machine below {}: {error}", directory.display()));
    let pids = machine.static_pids();
    ttmon_os::Directory::create(directory).map_err(failed)?;
    machine.write(directory, 0, &pids).and_then(|()| machine.write_static_processes(directory, host)).map_err(failed)?;
    let options = Options { isolation: Isolation::Threads, sampling: Sampling::Repeated, origin: Origin::Sim, ..Options::default() };
    let mut reader = ttmon_collect::Machine::new(Root::at(directory), options)?;
    // The first sample has no rates. It is only the base of the next one.
    let mut before = None;
    let mut frames: Frames = Vec::new();
    for frame in 0..=FRAMES {
        let tick = frame * TICKS_PER_FRAME;
        if frame > 0 {
            machine.update(directory, tick, &pids).map_err(failed)?;
        }
        let mut sample = reader.sample()?;
        sample.at = TICK.saturating_mul(u32::try_from(tick).unwrap_or(u32::MAX));
        // Rates use simulated time, not the time that reading took.
        for counted in sample.devices.iter_mut().filter_map(|device| device.counted.as_mut()) {
            counted.elapsed = TICK.saturating_mul(u32::try_from(TICKS_PER_FRAME).unwrap_or(u32::MAX));
        }
        if let Some(before) = &before {
            frames.push(Snapshot::derive(&sample, Some(before)));
        }
        before = Some(sample);
    }
    Ok(frames)
}

impl Fleet {
    fn name(host: u64) -> String {
        format!("host-{host:05}")
    }

    fn list(&self, address: &str) -> String {
        let target = |host: u64| {
            let name = Self::name(host);
            json!({"targets": [address], "labels": {
                "__metrics_path__": format!("/hosts/{name}/metrics"),
                "instance": name,
                "rack": format!("r{:03}", host / RACK_HOSTS),
                "partition": PARTITIONS[usize::try_from(host / RACK_HOSTS).unwrap_or(0) % PARTITIONS.len()],
            }})
        };
        format!("{}\n", (0..self.hosts).map(target).collect::<serde_json::Value>())
    }

    fn scrape(&self, host: u64, asked: ttmon_serve::TextRequest<'_>) -> TextAnswer {
        let at = self.started.elapsed();
        let seconds = at.as_secs();
        let fault = self.faults.iter().find(|(fault, _)| fault.host == host && (fault.from..fault.until).contains(&seconds));
        let frames = fault.map_or(&self.variants[usize::try_from(host % VARIANTS).unwrap_or(0)], |(_, frames)| frames);
        let frame = (seconds / 5 + host) % frames.len() as u64;
        let mut snapshot = frames[usize::try_from(frame).unwrap_or(0)].clone();
        snapshot.host = Self::name(host);
        snapshot.devices.iter_mut().for_each(|device| own(device, host));
        snapshot.processes.iter_mut().for_each(|process| own_workload(process, host));
        let mut memory = self.memory[usize::try_from(host).unwrap_or(0)].lock().unwrap_or_else(PoisonError::into_inner);
        memory.scrape(at, &snapshot, VERSION, self.detail, asked)
    }
}

/// Gives a device the ids of its host, and a slightly different temperature.
fn own(device: &mut Device, host: u64) {
    let id = (host << 16 | u64::from(device.id.0)).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let number = |device: &Device, name| DeviceField::find(name).and_then(|field| field.number(device).ok());
    let (now, limit) = (number(device, "temperature"), number(device, "temperature_limit"));
    let warmer = now.zip(limit).filter(|(now, limit)| *now < 0.8 * limit).map(|(now, _)| now + (id % 5) as f64);
    let values = [
        ("asic_id", Some(Value::Text(format!("{id:016X}")))),
        ("serial", Some(Value::Text(format!("{:016X}", 0x0100_0000_0000_0000 | host)))),
        ("temperature", warmer.map(Value::Float)),
    ];
    for (name, value) in values {
        // Unknown values remain unknown.
        if let (Some(field), Some(value)) = (DeviceField::find(name), value)
            && field.get(device).is_ok()
        {
            field.set(device, Ok(value));
        }
    }
}

/// Gives a process a job or a pod of its host.
fn own_workload(process: &mut Process, host: u64) {
    for name in ["job", "pod_name"] {
        if let Some(field) = PROCESS.iter().find(|field| field.name == name)
            && let Ok(Value::Text(text)) = (field.get)(process)
        {
            (field.set)(process, Ok(Value::Text(format!("{text}-{host}"))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same flags give the same hosts, faults are visible, and memory and workloads are known.
    #[test]
    fn hosts_are_deterministic_and_known() {
        let of = |spec: &str| frames(spec, 1, 7).unwrap();
        let (one, other) = (of("n300"), of("n300"));
        assert_eq!(one.len() as u64, FRAMES);
        let text = |frames: &Frames| frames.iter().map(|frame| format!("{:?}", frame.devices)).collect::<Vec<_>>();
        assert!(text(&one) == text(&other), "two runs differ");
        assert!(one[0].devices[0].memory.dram.used.is_ok_and(|used| used > 0), "{:?}", one[0].devices[0].memory);
        assert!(one[0].processes.iter().any(|process| process.pod_name.is_ok() || process.job.is_ok()), "{:?}", one[0].processes);
        let hot = of("n300,fault=hot:0@1");
        assert!(
            hot.iter().all(|frame| frame.devices[0].health == ttmon_model::snapshot::Health::Critical),
            "{:?}",
            hot[0].devices[0].health
        );
        assert!(frames("n150,fault=nonsense:0@1", 1, 0).is_err());
        let gone = of("n300x2,fault=gone:0@1");
        assert!(gone.iter().all(|frame| frame.devices[0].state == ttmon_model::snapshot::State::Gone), "{:?}", gone[0].devices[0].state);
    }
}
