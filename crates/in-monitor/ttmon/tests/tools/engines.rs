//! Starts Prometheus and VictoriaMetrics, and queries them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use ttmon_testing::{KilledOnDrop, free_port, until};

use crate::{Tool, get, is_ok, run};

/// The folder of `prometheus` and `promtool`.
pub(crate) const PROMETHEUS: Tool = Tool { variable: "TTMON_TEST_PROMETHEUS", stage: "prometheus" };
/// The folder of `victoria-metrics`, `vmalert` and `vmauth`.
pub(crate) const VICTORIA: Tool = Tool { variable: "TTMON_TEST_VICTORIA", stage: "prometheus" };

pub(crate) fn promtool(arguments: &[&str], path: &Path) -> String {
    run(PROMETHEUS.program("promtool").args(arguments).arg(path))
}

/// A Prometheus. It is killed when this is dropped.
pub(crate) struct Prometheus {
    pub(crate) port: u16,
    process: Option<KilledOnDrop>,
    directory: TempDir,
    arguments: Vec<String>,
}

impl Prometheus {
    /// Starts it with more arguments. Does not wait until it is ready.
    pub(crate) fn spawn(config: &str, arguments: &[String]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("prometheus.yml");
        fs::write(&file, config).unwrap();
        promtool(&["check", "config"], &file);
        let mut prometheus = Self { port: free_port(), process: None, directory, arguments: arguments.to_vec() };
        prometheus.spawn_again();
        prometheus
    }

    pub(crate) fn start(config: &str) -> Self {
        let prometheus = Self::spawn(config, &[]);
        prometheus.wait();
        prometheus
    }

    fn wait(&self) {
        until("a Prometheus that is ready", || is_ok(self.port, "/-/ready"));
    }

    fn spawn_again(&mut self) {
        let at = |name: &str| self.directory.path().join(name).display().to_string();
        let mut command = PROMETHEUS.program("prometheus");
        command.arg(format!("--config.file={}", at("prometheus.yml"))).arg(format!("--storage.tsdb.path={}", at("data")));
        command.arg(format!("--web.listen-address=127.0.0.1:{}", self.port)).args(&self.arguments);
        self.process = Some(KilledOnDrop::spawn(&mut command));
    }

    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    /// Starts it again with the same data, after [`Self::kill`].
    pub(crate) fn start_again(&mut self) {
        self.spawn_again();
        self.wait();
    }
}

/// A VictoriaMetrics that scrapes. It is killed when this is dropped.
pub(crate) struct Victoria {
    pub(crate) port: u16,
    _process: KilledOnDrop,
    _directory: TempDir,
}

impl Victoria {
    pub(crate) fn start(config: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("scrape.yml");
        fs::write(&file, config).unwrap();
        let port = free_port();
        let mut command = VICTORIA.program("victoria-metrics");
        command.args(["-promscrape.httpSDCheckInterval=1s", "-search.latencyOffset=0s"]);
        command.arg(format!("-httpListenAddr=127.0.0.1:{port}")).arg(format!("-promscrape.config={}", file.display()));
        command.arg(format!("-storageDataPath={}", directory.path().join("data").display()));
        let victoria = Self { port, _process: KilledOnDrop::spawn(&mut command), _directory: directory };
        until("a VictoriaMetrics that is ready", || is_ok(port, "/health"));
        victoria
    }

    /// Starts a vmalert that evaluates these rules on it.
    pub(crate) fn alerts(&self, rules: &[PathBuf], interval: &str, alertmanager: u16) -> KilledOnDrop {
        let store = format!("http://127.0.0.1:{}", self.port);
        let mut command = VICTORIA.program("vmalert");
        command.args(rules.iter().map(|path| format!("-rule={}", path.display())));
        command.args([format!("-datasource.url={store}"), format!("-remoteWrite.url={store}"), format!("-evaluationInterval={interval}")]);
        command
            .args(["-remoteWrite.flushInterval=1s", &format!("-notifier.url=http://127.0.0.1:{alertmanager}")])
            .arg(format!("-httpListenAddr=127.0.0.1:{}", free_port()));
        KilledOnDrop::spawn(&mut command)
    }
}

/// Returns the series of a query's answer.
pub(crate) fn series(port: u16, query: &str) -> Result<Vec<Value>, String> {
    let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let response = get(port, &format!("/api/v1/query?query={encoded}")).map_err(|error| error.to_string())?;
    let mut document: Value = serde_json::from_str(&response.body).map_err(|error| format!("{query}: {error}: {}", response.body))?;
    match document["data"]["result"].take() {
        Value::Array(found) => Ok(found),
        _ => Err(format!("{query}: {}", response.body)),
    }
}

/// Returns labels and value of each series.
pub(crate) fn labelled(port: u16, query: &str) -> Result<Vec<(Value, f64)>, String> {
    let pair = |one: Value| Some((one["metric"].clone(), one["value"][1].as_str()?.parse().ok()?));
    series(port, query)?.into_iter().map(|one| pair(one).ok_or_else(|| format!("{query}: no value"))).collect()
}

pub(crate) fn values(port: u16, query: &str) -> Result<Vec<f64>, String> {
    Ok(labelled(port, query)?.into_iter().map(|(_, value)| value).collect())
}
