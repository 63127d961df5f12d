//! Starts the engines with the scrape and rule files of deploy/, with short intervals.

use std::path::{Path, PathBuf};

use super::super::prometheus::Tools;
use crate::files;
use crate::project::Project;
use crate::service::{Ended, free_port, is_ok, until};

const INTERVAL: &str = "5s";

fn rules(project: &Project, directory: &Path) -> Result<Vec<PathBuf>, String> {
    let copied = |name: &str| {
        let text = files::read(&project.root.join("deploy/rules").join(name))?;
        let path = directory.join(name);
        files::write(&path, text.replace("interval: 30s", &format!("interval: {INTERVAL}")))?;
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
        files::write(&directory.join("prometheus.yml"), config)?;
        let mut store = Self { port: free_port()?, process: None, directory: directory.to_owned() };
        store.restart(project, tools)?;
        Ok(store)
    }

    pub(super) fn restart(&mut self, project: &Project, tools: &Tools) -> Result<(), String> {
        let at = |name: &str| self.directory.join(name);
        self.process = Some(tools.start(project, &at("prometheus.yml"), &at("prometheus"), self.port, &[])?);
        until("ready (Prometheus)", || is_ok(self.port, "/-/ready", ""))
    }

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
        let text = format!("global: {{scrape_interval: {INTERVAL}, scrape_timeout: {INTERVAL}}}\n{}", scrapes(sd_port, ""));
        files::write(&config, text)?;
        let engine = victoria(project, programs, &config, &directory.join("victoria"), port)?;
        until("ready (VictoriaMetrics)", || is_ok(port, "/health", ""))?;
        let mut alert = project.command(programs.join("vmalert"), &[]);
        for path in rules(project, directory)? {
            alert.arg(format!("-rule={}", path.display()));
        }
        let store = format!("http://127.0.0.1:{port}");
        alert.args([format!("-datasource.url={store}"), format!("-remoteWrite.url={store}"), format!("-evaluationInterval={INTERVAL}")]);
        alert.args([format!("-notifier.url=http://127.0.0.1:{alertmanager}"), format!("-httpListenAddr=127.0.0.1:{alert_port}")]);
        Ok(Self { port, _processes: [engine, Ended::spawn(&mut alert)?] })
    }
}

pub(in crate::ci) fn victoria(project: &Project, programs: &Path, config: &Path, data: &Path, port: u16) -> Result<Ended, String> {
    let flags = ["-promscrape.httpSDCheckInterval=2s", "-search.latencyOffset=0s"];
    let mut engine = project.command(programs.join("victoria-metrics"), &flags);
    engine.arg(format!("-httpListenAddr=127.0.0.1:{port}")).arg(format!("-promscrape.config={}", config.display()));
    Ended::spawn(engine.arg(format!("-storageDataPath={}", data.display())))
}
