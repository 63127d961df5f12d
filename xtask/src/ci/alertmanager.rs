//! Sends an alert of a simulated host to Debian's Alertmanager, restarts Alertmanager, sends the alert again, and resolves it. A
//! receiver that never answers and a command run beside it. `promtool` checks the built-in rules as Prometheus rules.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde_json::Value;
use ttmon_sim::{Machine, Spec};

use super::{Gate, Outcome};
use crate::files;
use crate::project::{self, Project};
use crate::service::{self, Ended, Service, free_port, until};
use crate::stop::untested;
use crate::tools;

/// Temperatures above and below the limit of the simulated chip, in thousandths of a degree.
const HOT: &str = "145000\n";
const COOL: &str = "40000\n";
const SAMPLES: &str = "ttmon_samples_total";

pub(super) fn run(gate: &mut Gate) -> Outcome {
    let tool = alertmanager(gate.project).map_err(untested("NO ALERT WAS SENT TO AN ALERTMANAGER"))?;
    let checked = check(gate, &tool);
    gate.count(checked)
}

/// The path of Alertmanager, and the files that it needs below /usr/share if it is not installed.
pub(super) struct Tool {
    program: PathBuf,
    share: Option<PathBuf>,
}

impl Tool {
    /// Returns a command that executes Alertmanager. If it is only unpacked, its templates are mounted over /usr/share in a private
    /// namespace.
    fn command(&self, project: &Project) -> Command {
        let Some(share) = &self.share else { return project.command(&self.program, &[]) };
        let root: &[&str] = if rustix::process::geteuid().is_root() { &[] } else { &["--map-root-user"] };
        let mut command = project.command("unshare", root);
        command.args(["--mount", "sh", "-c", "mount --bind \"$0\" /usr/share && exec \"$@\""]).arg(share).arg(&self.program);
        command
    }

    pub(super) fn amtool(&self) -> PathBuf {
        self.program.with_file_name("amtool")
    }
}

/// Returns the installed Alertmanager, or else Debian's package.
pub(super) fn alertmanager(project: &Project) -> Result<Tool, String> {
    let name = "prometheus-alertmanager";
    let works = |tool: &Tool| project::probe(tool.command(project).arg("--version"));
    let installed = Tool { program: PathBuf::from(name), share: None };
    if works(&installed).is_ok() {
        return Ok(installed);
    }
    let unpacked = tools::debian(project, name).map_err(|error| format!("neither installed nor to be had: {error}"))?;
    let tool = Tool { program: unpacked.join("usr/bin").join(name), share: Some(unpacked.join("usr/share")) };
    works(&tool).map(|()| tool)
}

fn check(gate: &Gate, alertmanager: &Tool) -> Result<(), String> {
    let ttmon = gate.ttmon(&[])?;
    let directory = files::temporary()?;
    let root = directory.path().join("root");
    let machine = Spec::parse("n150,idle").and_then(|spec| Machine::new(&spec, 1)).map_err(|error| error.to_string())?;
    machine.write(&root, 240, &[]).map_err(|error| format!("no machine: {error}"))?;
    let sensor = find(&root, "temp1_input").ok_or("the simulated machine has no temperature")?;
    let set = |text: &str| files::write(&sensor, text);
    let hook = Hook::start()?;
    let silent = TcpListener::bind("127.0.0.1:0").map_err(|error| format!("no port: {error}"))?;
    let mut peer = Alertmanager::start(gate.project, alertmanager, hook.port, None)?;
    let received = directory.path().join("received");
    let config = config(peer.port, silent.local_addr().map_err(|error| error.to_string())?.port(), &received);
    let file = directory.path().join("config.toml");
    files::write(&file, config)?;
    rules(gate.project, &ttmon, directory.path())?;

    set(HOT)?;
    let file = file.to_string_lossy().into_owned();
    let service = Service::start(&ttmon, &["--root", &root.to_string_lossy(), "--config", &file])?;
    until("known to Alertmanager", || peer.fires("TtmonHot"))?;
    until("announced by Alertmanager", || hook.heard("firing"))?;
    until("read by the command", || fs::read_to_string(&received).is_ok_and(|text| text.contains("\"rule\":\"hot\"")))?;
    println!("alertmanager: an alert was received and announced, and a command has read it");
    peer = peer.restarted(gate.project, alertmanager, hook.port)?;
    until("known to the restarted Alertmanager", || peer.fires("TtmonHot"))?;
    println!("alertmanager: after its restart, with nothing remembered, it knows the alert again");
    let samples = service.metric(SAMPLES)?;
    set(COOL)?;
    until("resolved", || hook.heard("resolved") && !peer.fires("TtmonHot"))?;
    println!("alertmanager: the end was received and announced");
    unanswered(&service, samples)?;
    let mut test = gate.project.command(&ttmon, &["alerts", "test", "hot", "--config", &file]);
    let answer = test.output().map_err(|error| format!("ttmon alerts test: {error}"))?;
    let text = String::from_utf8_lossy(&answer.stdout).into_owned();
    let is_reported = text.contains("alertmanager-1: sent") && text.contains("webhook-1: failed: does not answer in time");
    if answer.status.code() != Some(1) || !is_reported {
        return Err(format!("ttmon alerts test: {}: {text}", answer.status));
    }
    print!("ttmon alerts test hot:\n{text}");
    Ok(())
}

fn config(alertmanager: u16, silent: u16, received: &Path) -> String {
    format!(
        "[[alerts.rule]]\nname = \"hot\"\nclear_for = \"10s\"\n\
         [[alerts.alertmanager]]\nurl = \"http://127.0.0.1:{alertmanager}\"\nresend = \"10s\"\n\
         [[alerts.webhook]]\nurl = \"http://127.0.0.1:{silent}/never\"\n\
         [[alerts.command]]\nargv = [\"/usr/bin/tee\", \"{}\"]\n",
        received.display()
    )
}

/// Checks that the receiver that never answers loses only its own messages, and no sample.
fn unanswered(service: &Service, samples_before: f64) -> Result<(), String> {
    until("sampled on", || service.metric(SAMPLES).is_ok_and(|samples| samples > samples_before))?;
    let document = service.json("/api/v1/alerts")?;
    let receivers = document["receivers"].as_array().ok_or("no receivers")?;
    let silent = receivers.iter().find(|receiver| receiver["name"] == "webhook-1").ok_or("no webhook")?;
    let is_reported = silent["sent"] == 0 && silent["failed"].as_u64() > Some(0);
    println!("a receiver that never answers: {silent}");
    if is_reported && document["samples_dropped"] == 0 { Ok(()) } else { Err(format!("unexpected: {document}")) }
}

fn rules(project: &Project, ttmon: &Path, directory: &Path) -> Result<(), String> {
    let text = project::output(&mut project.command(ttmon, &["alerts", "list", "--json", "--no-server"]))?;
    let document: Value = serde_json::from_str(&text).map_err(|error| format!("ttmon alerts list: {error}"))?;
    let rules = document["rules"].as_array().ok_or("no rules")?;
    let rule = |rule: &Value| serde_json::json!({"alert": rule["alert_name"], "expr": rule["promql"], "for": rule["for"]});
    let groups = serde_json::json!({"groups": [{"name": "ttmon", "rules": rules.iter().map(rule).collect::<Vec<_>>()}]});
    let file = directory.join("rules.yml");
    // JSON is valid YAML.
    files::write(&file, groups.to_string())?;
    let promtool = tools::debian(project, "prometheus")?.join("usr/bin/promtool");
    project::run(project.command(&promtool, &["check", "rules"]).arg(&file))
}

fn find(directory: &Path, name: &str) -> Option<PathBuf> {
    let entries: Vec<PathBuf> = fs::read_dir(directory).ok()?.flatten().map(|entry| entry.path()).collect();
    let is_directory = |path: &&PathBuf| path.is_dir() && !path.is_symlink();
    let here = entries.iter().find(|path| path.ends_with(name)).cloned();
    here.or_else(|| entries.iter().filter(is_directory).find_map(|path| find(path, name)))
}

pub(super) struct Alertmanager {
    pub(super) port: u16,
    process: Ended,
    directory: tempfile::TempDir,
}

impl Alertmanager {
    pub(super) fn start(project: &Project, program: &Tool, hook: u16, port: Option<u16>) -> Result<Self, String> {
        let directory = files::temporary()?;
        let config = format!(
            "route: {{receiver: hook, group_wait: 1s, group_interval: 1s, repeat_interval: 1h}}\n\
             receivers: [{{name: hook, webhook_configs: [{{url: 'http://127.0.0.1:{hook}/', send_resolved: true}}]}}]\n"
        );
        let file = directory.path().join("am.yml");
        files::write(&file, config)?;
        let port = port.map_or_else(free_port, Ok)?;
        let mut command = program.command(project);
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.path={}", directory.path().join("data").display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}")).arg("--cluster.listen-address=");
        let alertmanager = Self { port, process: Ended::spawn(&mut command)?, directory };
        until("ready", || service::is_ok(port, "/-/ready", ""))?;
        Ok(alertmanager)
    }

    /// Starts another Alertmanager at the same address, without any state.
    fn restarted(self, project: &Project, program: &Tool, hook: u16) -> Result<Self, String> {
        let Self { port, process, directory } = self;
        drop((process, directory));
        Self::start(project, program, hook, Some(port))
    }

    fn fires(&self, name: &str) -> bool {
        let Ok(answer) = service::get(self.port, "/api/v2/alerts?active=true", "") else { return false };
        // The body is chunked, so it is searched as text instead of parsed.
        answer.body.contains(&format!("\"alertname\":\"{name}\""))
    }
}

pub(super) struct Hook {
    pub(super) port: u16,
    heard: Arc<Mutex<String>>,
}

impl Hook {
    pub(super) fn start() -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("no port: {error}");
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let heard = Arc::new(Mutex::new(String::new()));
        let hears = Arc::clone(&heard);
        thread::spawn(move || {
            for mut peer in listener.incoming().map_while(Result::ok) {
                let mut bytes = [0; 65_536];
                let mut text = String::new();
                while let Ok(count @ 1..) = peer.read(&mut bytes) {
                    text += &String::from_utf8_lossy(&bytes[..count]);
                    let length = text.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.trim().parse::<usize>().ok());
                    let body = text.split_once("\r\n\r\n").map(|(_, body)| body.len());
                    if body.is_some() && body >= length {
                        break;
                    }
                }
                let _ = peer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                hears.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
            }
        });
        Ok(Self { port, heard })
    }

    pub(super) fn heard(&self, status: &str) -> bool {
        let text = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        text.contains(&format!("\"status\":\"{status}\"")) && text.contains("TtmonHot")
    }
}
