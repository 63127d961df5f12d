//! Sends alerts of a simulated host to Alertmanager. A receiver that never answers and a command run beside it.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use ttmon_testing::{KilledOnDrop, Service, free_port, until};

use crate::webhook::Webhook;
use crate::{Tool, get, is_ok, machine, output, private, repository, run, start_service, ttmon};

/// The folder of `alertmanager` and `amtool`.
const ALERTMANAGER: Tool = Tool { variable: "TTMON_TEST_ALERTMANAGER", stage: "alertmanager" };
/// Temperatures above and below the limit of the simulated chip, in thousandths of a degree.
const HOT: &str = "145000\n";
const COOL: &str = "40000\n";
const SAMPLES: &str = "ttmon_samples_total";

/// An Alertmanager that tells a webhook everything. It is killed when this is dropped.
pub(crate) struct Alertmanager {
    pub(crate) port: u16,
    webhook: u16,
    process: Option<(KilledOnDrop, TempDir)>,
}

impl Alertmanager {
    pub(crate) fn start(webhook: &Webhook) -> Self {
        let mut alertmanager = Self { port: free_port(), webhook: webhook.port, process: None };
        alertmanager.start_anew();
        alertmanager
    }

    /// Starts another one at the same address, without any state.
    fn start_anew(&mut self) {
        self.process = None;
        let directory = tempfile::tempdir().unwrap();
        let config = format!(
            "route: {{receiver: hook, group_wait: 1s, group_interval: 1s, repeat_interval: 1h}}\n\
             receivers: [{{name: hook, webhook_configs: [{{url: 'http://127.0.0.1:{}/', send_resolved: true}}]}}]\n",
            self.webhook
        );
        let file = private(directory.path(), "am.yml", &config);
        let mut command = ALERTMANAGER.program("alertmanager");
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.path={}", directory.path().join("data").display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{}", self.port)).arg("--cluster.listen-address=");
        self.process = Some((KilledOnDrop::spawn(&mut command), directory));
        until("an Alertmanager that is ready", || is_ok(self.port, "/-/ready"));
    }

    fn fires(&self, name: &str) -> bool {
        get(self.port, "/api/v2/alerts?active=true").is_ok_and(|response| response.body.contains(&format!("\"alertname\":\"{name}\"")))
    }
}

/// An Alertmanager, a receiver that never answers and a command, with a configuration of `ttmon` that names all three.
struct Receivers {
    alertmanager: Alertmanager,
    webhook: Webhook,
    config: PathBuf,
    /// What the command has read.
    read: PathBuf,
    _silent: TcpListener,
    _directory: TempDir,
}

impl Receivers {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let webhook = Webhook::start();
        let alertmanager = Alertmanager::start(&webhook);
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let read = directory.path().join("read");
        let text = format!(
            "[[alerts.rule]]\nname = \"hot\"\nclear_for = \"10s\"\n\
             [[alerts.alertmanager]]\nurl = \"http://127.0.0.1:{}\"\nresend = \"10s\"\n\
             [[alerts.webhook]]\nurl = \"http://{}/never\"\n\
             [[alerts.command]]\nargv = [\"/usr/bin/tee\", \"{}\"]\n",
            alertmanager.port,
            silent.local_addr().unwrap(),
            read.display()
        );
        let config = private(directory.path(), "config.toml", &text);
        Self { alertmanager, webhook, config, read, _silent: silent, _directory: directory }
    }
}

/// A service on a simulated machine that is hot, which tells the receivers.
struct Hot {
    service: Service,
    receivers: Receivers,
    sensor: PathBuf,
    _root: TempDir,
}

impl Hot {
    /// Returns after the alert has reached Alertmanager.
    fn start() -> Self {
        let receivers = Receivers::start();
        let root = machine("n150,idle");
        let sensor = find(root.path(), "temp1_input").expect("the simulated machine has a temperature");
        fs::write(&sensor, HOT).unwrap();
        let service = start_service(&["--root", root.path().to_str().unwrap(), "--config", receivers.config.to_str().unwrap()]);
        service.until("an alert that Alertmanager knows", || receivers.alertmanager.fires("TtmonHot"));
        Self { service, receivers, sensor, _root: root }
    }
}

fn find(directory: &Path, name: &str) -> Option<PathBuf> {
    let entries: Vec<PathBuf> = fs::read_dir(directory).ok()?.flatten().map(|entry| entry.path()).collect();
    let is_directory = |path: &&PathBuf| path.is_dir() && !path.is_symlink();
    let here = entries.iter().find(|path| path.ends_with(name)).cloned();
    here.or_else(|| entries.iter().filter(is_directory).find_map(|path| find(path, name)))
}

#[test]
#[ignore = "needs Alertmanager: cargo xtask ci --only alertmanager"]
fn an_alert_and_its_end_are_announced() {
    let hot = Hot::start();
    let Hot { service, receivers, sensor, .. } = &hot;
    service.until("an announcement", || receivers.webhook.has_received("firing"));
    service.until("a command that has read the alert", || {
        fs::read_to_string(&receivers.read).is_ok_and(|text| text.contains("\"rule\":\"hot\""))
    });
    fs::write(sensor, COOL).unwrap();
    service.until("an announced end", || receivers.webhook.has_received("resolved") && !receivers.alertmanager.fires("TtmonHot"));
}

#[test]
#[ignore = "needs Alertmanager: cargo xtask ci --only alertmanager"]
fn an_alertmanager_that_has_lost_its_state_learns_the_alert_again() {
    let mut hot = Hot::start();
    let Hot { service, receivers, .. } = &mut hot;
    receivers.alertmanager.start_anew();
    service.until("an alert that the new Alertmanager knows", || receivers.alertmanager.fires("TtmonHot"));
}

#[test]
#[ignore = "needs Alertmanager: cargo xtask ci --only alertmanager"]
fn a_receiver_that_never_answers_loses_its_own_messages_and_no_sample() {
    let hot = Hot::start();
    let Hot { service, receivers, .. } = &hot;
    service.until("an announcement", || receivers.webhook.has_received("firing"));
    let silent = || {
        let document = service.json("/api/v1/alerts");
        let receivers = document["receivers"].as_array().unwrap();
        (receivers.iter().find(|receiver| receiver["name"] == "webhook-1").unwrap().clone(), document["samples_dropped"].clone())
    };
    let before = service.metric(SAMPLES);
    service.until("a failure of the receiver", || silent().0["failed"].as_u64() > Some(0));
    service.until("another sample", || service.metric(SAMPLES) > before);
    let (receiver, dropped) = silent();
    assert_eq!((&receiver["sent"], dropped), (&0.into(), 0.into()), "{receiver}");
}

#[test]
#[ignore = "needs Alertmanager: cargo xtask ci --only alertmanager"]
fn a_test_alert_reports_the_answer_of_each_receiver() {
    let receivers = Receivers::start();
    let tested = output(&mut ttmon(&["alerts", "test", "hot", "--config", receivers.config.to_str().unwrap()]));
    let text = String::from_utf8(tested.stdout).unwrap();
    let is_reported = text.contains("alertmanager-1: sent") && text.contains("webhook-1: failed: does not answer in time");
    assert!(tested.status.code() == Some(1) && is_reported, "{}: {text}", tested.status);
}

#[test]
#[ignore = "needs Alertmanager: cargo xtask ci --only alertmanager"]
fn amtool_accepts_the_deployed_configuration() {
    run(ALERTMANAGER.program("amtool").arg("check-config").arg(repository("deploy/alertmanager/alertmanager.yml")));
}
