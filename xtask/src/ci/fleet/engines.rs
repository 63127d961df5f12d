//! Starts the engines with the scrape and rule files of deploy/, with short intervals.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::super::prometheus::Tools;
use crate::project::Project;
use crate::service::{self, Ended, until};

/// Interval of scrapes and of the evaluation of rules.
const INTERVAL: &str = "5s";

/// Returns a free port.
pub(in crate::ci) fn free_port() -> Result<u16, String> {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| error.to_string())
}

/// Starts an engine and discards its output.
pub(in crate::ci) fn spawn(command: &mut Command) -> Result<Ended, String> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map(Ended)
        .map_err(|error| format!("{command:?}: {error}"))
}

/// Copies the rule files with a short interval. Returns their paths.
fn rules(project: &Project, directory: &Path) -> Result<Vec<PathBuf>, String> {
    let copied = |name: &str| {
        let text = fs::read_to_string(project.root.join("deploy/rules").join(name)).map_err(|error| format!("{name}: {error}"))?;
        let path = directory.join(name);
        fs::write(&path, text.replace("interval: 30s", &format!("interval: {INTERVAL}"))).map_err(|error| format!("{name}: {error}"))?;
        Ok(path)
    };
    ["ttmon-records.yml", "ttmon-alerts.yml"].into_iter().map(copied).collect()
}

/// Returns the scrape configuration. Prometheus has the interval between two reads of the list here, VictoriaMetrics in a flag.
fn scrapes(sd_port: u16, refresh: &str) -> String {
    format!(
        "scrape_configs:\n- job_name: ttmon\n  honor_labels: true\n  http_sd_configs: [{{url: 'http://127.0.0.1:{sd_port}/sd'{refresh}}}]\n"
    )
}

/// A Prometheus that can be killed.
pub(super) struct Store {
    pub(super) port: u16,
    process: Option<Ended>,
    directory: PathBuf,
}

impl Store {
    pub(super) fn start(project: &Project, tools: &Tools, directory: &Path, sd_port: u16, alertmanager: u16) -> Result<Self, String> {
        let files: Vec<String> = rules(project, directory)?.iter().map(|path| path.display().to_string()).collect();
        let config = format!(
            "global: {{scrape_interval: {INTERVAL}, scrape_timeout: {INTERVAL}, evaluation_interval: {INTERVAL}}}\nrule_files: {files:?}\n\
             alerting: {{alertmanagers: [{{static_configs: [{{targets: ['127.0.0.1:{alertmanager}']}}]}}]}}\n{}",
            scrapes(sd_port, ", refresh_interval: 2s")
        );
        fs::write(directory.join("prometheus.yml"), config).map_err(|error| format!("prometheus.yml: {error}"))?;
        let mut store = Self { port: free_port()?, process: None, directory: directory.to_owned() };
        store.restart(project, tools)?;
        Ok(store)
    }

    /// Starts it again with its data.
    pub(super) fn restart(&mut self, project: &Project, tools: &Tools) -> Result<(), String> {
        let mut command = project.command(&tools.prometheus, &[]);
        command.arg(format!("--config.file={}", self.directory.join("prometheus.yml").display()));
        command.arg(format!("--storage.tsdb.path={}", self.directory.join("prometheus").display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{}", self.port));
        self.process = Some(spawn(&mut command)?);
        until("ready (Prometheus)", || service::get(self.port, "/-/ready", "").is_ok_and(|answer| answer.status == 200))
    }

    /// Kills it with SIGKILL.
    pub(super) fn kill(&mut self) {
        self.process = None;
    }
}

/// A VictoriaMetrics that scrapes, and a vmalert that evaluates the rules on it.
pub(super) struct Victoria {
    pub(super) port: u16,
    _processes: [Ended; 2],
}

impl Victoria {
    pub(super) fn start(project: &Project, programs: &Path, directory: &Path, sd_port: u16, alertmanager: u16) -> Result<Self, String> {
        let (port, alert_port) = (free_port()?, free_port()?);
        let config = directory.join("scrape.yml");
        fs::write(&config, format!("global: {{scrape_interval: {INTERVAL}, scrape_timeout: {INTERVAL}}}\n{}", scrapes(sd_port, "")))
            .map_err(|error| format!("scrape.yml: {error}"))?;
        let mut engine =
            project.command(programs.join("victoria-metrics"), &["-promscrape.httpSDCheckInterval=2s", "-search.latencyOffset=0s"]);
        engine.arg(format!("-httpListenAddr=127.0.0.1:{port}")).arg(format!("-promscrape.config={}", config.display()));
        engine.arg(format!("-storageDataPath={}", directory.join("victoria").display()));
        let engine = spawn(&mut engine)?;
        until("ready (VictoriaMetrics)", || service::get(port, "/health", "").is_ok_and(|answer| answer.status == 200))?;
        let mut alert = project.command(programs.join("vmalert"), &[]);
        for path in rules(project, directory)? {
            alert.arg(format!("-rule={}", path.display()));
        }
        let store = format!("http://127.0.0.1:{port}");
        alert.args([format!("-datasource.url={store}"), format!("-remoteWrite.url={store}"), format!("-evaluationInterval={INTERVAL}")]);
        alert.args([format!("-notifier.url=http://127.0.0.1:{alertmanager}"), format!("-httpListenAddr=127.0.0.1:{alert_port}")]);
        Ok(Self { port, _processes: [engine, spawn(&mut alert)?] })
    }
}
