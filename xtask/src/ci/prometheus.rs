//! A real Prometheus scrapes a simulated host, and the results of PromQL must equal the API. `promtool` lints the text format.

mod pods;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use ttmon_sim::{Machine, Spec};

use super::{Gate, Outcome};
use crate::files;
use crate::project::{self, Project};
use crate::service::{self, Ended, Service, free_port};
use crate::stop::untested;
use crate::tools;

/// Both architectures, a remote chip, and a process with known memory.
const SPEC: &str = "n300,p150";

pub(super) struct Tools {
    pub(super) prometheus: PathBuf,
    pub(super) promtool: PathBuf,
}

pub(super) fn run(gate: &mut Gate) -> Outcome {
    let tools = tools(gate.project).map_err(untested("NO PROMETHEUS SCRAPED ANYTHING"))?;
    let checked = check(gate, &tools);
    gate.count(checked)
}

impl Tools {
    pub(super) fn start(&self, project: &Project, config: &Path, data: &Path, port: u16, more: &[String]) -> Result<Ended, String> {
        let mut command = project.command(&self.prometheus, &[]);
        command.arg(format!("--config.file={}", config.display())).arg(format!("--storage.tsdb.path={}", data.display()));
        Ended::spawn(command.arg(format!("--web.listen-address=127.0.0.1:{port}")).args(more))
    }
}

pub(super) fn series(port: u16, query: &str) -> Result<Vec<Value>, String> {
    let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let answer = service::get(port, &format!("/api/v1/query?query={encoded}"), "")?;
    let mut document: Value = serde_json::from_str(&answer.body).map_err(|error| format!("{query}: {error}: {}", answer.body))?;
    match document["data"]["result"].take() {
        Value::Array(found) => Ok(found),
        _ => Err(format!("{query}: {}", answer.body)),
    }
}

/// Returns the installed programs, or else Debian's package.
pub(super) fn tools(project: &Project) -> Result<Tools, String> {
    let at = |place: &Path| Tools { prometheus: place.join("prometheus"), promtool: place.join("promtool") };
    let works = |program: &Path| project::probe(&mut project.command(program, &["--version"])).is_ok();
    let installed = at(Path::new(""));
    if works(&installed.promtool) && works(&installed.prometheus) {
        return Ok(installed);
    }
    let unpacked = tools::debian(project, "prometheus").map_err(|error| format!("neither installed nor to be had: {error}"))?;
    Ok(at(&unpacked.join("usr/bin")))
}

fn check(gate: &Gate, tools: &Tools) -> Result<(), String> {
    let program = gate.ttmon(&[])?;
    let simulated = Service::start(&program, &["--sim", "t3k", "--process-metrics"])?;
    lint(gate.project, tools, &simulated.get("/metrics")?.body)?;
    drop(simulated);
    // A static machine, so that both sources can be read one after the other.
    let root = files::temporary()?;
    let machine = Spec::parse(SPEC).and_then(|spec| Machine::new(&spec, 1)).map_err(|error| error.to_string())?;
    machine.write(root.path(), 240, &vec![None; machine.process_count()]).map_err(|error| format!("no machine: {error}"))?;
    let service = Service::start(&program, &["--root", &root.path().to_string_lossy()])?;
    let config = format!("- job_name: ttmon\n  static_configs:\n  - targets: ['127.0.0.1:{}']\n", service.port);
    let prometheus = Prometheus::start(gate.project, tools, &config)?;
    prometheus.compare(&service.json("/api/v1/snapshot")?)?;
    drop((prometheus, service));
    pods::check(gate.project, tools, &program, root.path())
}

fn lint(project: &Project, tools: &Tools, scrape: &str) -> Result<(), String> {
    let mut command = project.command(&tools.promtool, &["check", "metrics"]);
    let mut child = command.stdin(Stdio::piped()).spawn().map_err(|error| format!("promtool: {error}"))?;
    child.stdin.take().ok_or("promtool takes nothing")?.write_all(scrape.as_bytes()).map_err(|error| format!("promtool: {error}"))?;
    let status = child.wait().map_err(|error| format!("promtool: {error}"))?;
    println!("promtool check metrics: {} lines, {status}", scrape.lines().count());
    project::succeeded(&command, status)
}

struct Prometheus {
    port: u16,
    _process: Ended,
    _directory: tempfile::TempDir,
}

impl Prometheus {
    fn start(project: &Project, tools: &Tools, jobs: &str) -> Result<Self, String> {
        let directory = files::temporary()?;
        let config = format!("global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n{jobs}");
        let wanted = jobs.matches("job_name:").count();
        let file = directory.path().join("prometheus.yml");
        files::write(&file, config)?;
        project::run(project.command(&tools.promtool, &["check", "config"]).arg(&file))?;
        let port = free_port()?;
        let process = tools.start(project, &file, &directory.path().join("data"), port, &[])?;
        let prometheus = Self { port, _process: process, _directory: directory };
        let is_up = |found: &[(Value, f64)]| found.iter().filter(|(_, value)| *value == 1.0).count() == wanted;
        service::until("scraped", || prometheus.ask("ttmon_up").is_ok_and(|found| is_up(&found)))?;
        Ok(prometheus)
    }

    fn ask(&self, query: &str) -> Result<Vec<(Value, f64)>, String> {
        let pair = |one: Value| Some((one["metric"].clone(), one["value"][1].as_str()?.parse().ok()?));
        series(self.port, query)?.into_iter().map(|one| pair(one).ok_or_else(|| format!("{query}: no value"))).collect()
    }

    /// Checks that PromQL and the API have the same value for each device. A value that is missing in the API has no series.
    fn compare(&self, snapshot: &Value) -> Result<(), String> {
        const PAIRS: [(&str, &str, f64); 8] = [
            ("ttmon_device_temperature_celsius", "/temperature", 1.0),
            ("ttmon_device_power_watts", "/power", 1.0),
            ("ttmon_device_voltage_volts", "/voltage", 1.0),
            ("ttmon_device_current_amperes", "/current", 1.0),
            ("ttmon_device_aiclk_hertz", "/aiclk_mhz", 1e6),
            ("ttmon_device_fan_rpm", "/fan_rpm", 1.0),
            ("ttmon_device_memory_total_bytes", "/memory/total", 1.0),
            ("ttmon_memory_used_bytes{kind=\"dram\"}", "/memory/kinds/dram/used", 1.0),
        ];
        let devices = snapshot["devices"].as_array().ok_or("the snapshot has no devices")?;
        let mut compared = 0;
        for (query, path, factor) in PAIRS {
            let found = self.ask(query)?;
            for device in devices {
                let id = device["id"].to_string();
                let expected = device.pointer(path).and_then(Value::as_f64).map(|value| value * factor);
                let scraped = found.iter().find(|(labels, _)| labels["device"] == id).map(|(_, value)| *value);
                let is_same = match (expected, scraped) {
                    (None, None) => true,
                    (Some(expected), Some(scraped)) => (expected - scraped).abs() <= 1e-3 * factor,
                    _ => false,
                };
                if !is_same {
                    return Err(format!("{query} of device {id}: Prometheus has {scraped:?}, the API {expected:?}"));
                }
                compared += 1;
            }
        }
        let chips = devices.len() as f64;
        for (query, expected) in [
            ("sum(ttmon_device_state)", chips),
            ("sum(ttmon_device_health)", chips),
            ("count(ttmon_device_info)", chips),
            ("count({__name__=~\"ttmon_.*_created\"}) or vector(0)", 0.0),
            ("count(ttmon_device_memory_used_bytes / ttmon_device_memory_total_bytes <= 1)", chips),
            ("sum(ttmon_device_state * on (device, asic_id) group_left (serial) ttmon_device_info)", chips),
        ] {
            let found = self.ask(query)?;
            match found[..] {
                [(_, value)] if value == expected => compared += 1,
                _ => return Err(format!("{query}: expected {expected}, found {found:?}")),
            }
        }
        println!("Prometheus: {compared} answers of PromQL as expected");
        Ok(())
    }
}
