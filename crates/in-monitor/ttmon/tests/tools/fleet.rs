//! Many simulated hosts with Prometheus, Alertmanager and VictoriaMetrics: discovery by http_sd, the deployed rules and queries, alerts,
//! and a store that is killed and started again.
//!
//! `TTMON_TEST_HOSTS` is the number of hosts: a few in the stage `prometheus`, a hundred in the stage `fleet`.

mod page;
mod queries;
mod simulated;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tempfile::TempDir;
use ttmon_testing::{KilledOnDrop, until};

use self::simulated::Simulated;
use crate::alertmanager::Alertmanager;
use crate::engines::{Prometheus, Victoria, series, values};
use crate::webhook::Webhook;
use crate::{output, repository, start_service, ttmon};

static HOSTS: LazyLock<usize> = LazyLock::new(|| std::env::var("TTMON_TEST_HOSTS").map_or(4, |count| count.parse().unwrap()));
/// Seconds between two scrapes, two evaluations of the rules, and two reads of the list. Many hosts take longer.
static INTERVAL_S: LazyLock<u32> = LazyLock::new(|| if *HOSTS > 10 { 5 } else { 1 });
/// A port at which nothing listens, for engines whose alerts are not received.
const NO_RECEIVER: u16 = 9;

fn interval() -> String {
    format!("{}s", *INTERVAL_S)
}

/// Starts a command that serves HTTP, and returns its port.
fn serve(arguments: &[&str]) -> (KilledOnDrop, u16) {
    let mut child = ttmon(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.trim().trim_end_matches("/sd").rsplit(':').next().and_then(|port| port.parse().ok());
    (KilledOnDrop(child), port.unwrap_or_else(|| panic!("{arguments:?}: {line}")))
}

/// Simulated hosts, and a list of them that `ttmon sd` serves.
struct Hosts {
    simulated: Arc<Simulated>,
    list: Vec<String>,
    sd_port: u16,
    _sd: KilledOnDrop,
    directory: TempDir,
}

impl Hosts {
    /// Starts all hosts; host 0 may have a fault. The list has the first ones.
    fn start(listed: usize, has_fault: bool) -> Self {
        let (simulated, list) = Simulated::start(has_fault);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("hosts");
        fs::write(&file, list[..listed].join("\n")).unwrap();
        let (sd, sd_port) = serve(&["sd", "--from", "hosts", "--listen", "127.0.0.1:0", "--input", file.to_str().unwrap()]);
        Self { simulated, list, sd_port, _sd: sd, directory }
    }

    fn list_all(&self) {
        fs::write(self.directory.path().join("hosts"), self.list.join("\n")).unwrap();
    }

    /// Writes the deployed rules with a short interval.
    fn rules(&self) -> Vec<PathBuf> {
        let copied = |name: &str| {
            let text = fs::read_to_string(repository("deploy/rules").join(name)).unwrap();
            let path = self.directory.path().join(name);
            fs::write(&path, text.replace("interval: 30s", &format!("interval: {}", interval()))).unwrap();
            path
        };
        ["ttmon-records.yml", "ttmon-alerts.yml"].into_iter().map(copied).collect()
    }

    /// Returns the job of the hosts. Prometheus has the interval between two reads of the list here, VictoriaMetrics in a flag.
    fn scrapes(&self, refresh: &str) -> String {
        let sd = format!("{{url: 'http://127.0.0.1:{}/sd'{refresh}}}", self.sd_port);
        format!("scrape_configs:\n- job_name: ttmon\n  honor_labels: true\n  http_sd_configs: [{sd}]\n")
    }

    fn prometheus(&self, alertmanager: u16) -> Prometheus {
        let rules: Vec<String> = self.rules().iter().map(|path| path.display().to_string()).collect();
        Prometheus::start(&format!(
            "global: {{scrape_interval: {0}, scrape_timeout: {0}, evaluation_interval: {0}}}\nrule_files: {rules:?}\n\
             alerting: {{alertmanagers: [{{static_configs: [{{targets: ['127.0.0.1:{alertmanager}']}}]}}]}}\n{1}",
            interval(),
            self.scrapes(", refresh_interval: 1s")
        ))
    }

    /// Returns a VictoriaMetrics, and the vmalert that evaluates the rules on it.
    fn victoria(&self, alertmanager: u16) -> (Victoria, KilledOnDrop) {
        let scrapes = self.scrapes("");
        let victoria = Victoria::start(&format!("global: {{scrape_interval: {0}, scrape_timeout: {0}}}\n{scrapes}", interval()));
        let alerts = victoria.alerts(&self.rules(), &interval(), alertmanager);
        (victoria, alerts)
    }
}

/// Waits until each engine has scraped this many hosts.
#[track_caller]
fn wait_for_hosts(ports: &[u16], count: usize) {
    let has_all = |port: &u16| values(*port, "count(ttmon_up == 1)") == Ok(vec![count as f64]);
    until("a scrape of all listed hosts", || ports.iter().all(has_all));
}

/// Returns what `ttmon fleet` writes about the hosts of a store.
fn fleet(port: u16, arguments: &[&str]) -> Option<Value> {
    let mut command = ttmon(&[&["fleet"], arguments, &["--json", "--store", &format!("http://127.0.0.1:{port}")]].concat());
    let output = output(&mut command);
    output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
#[ignore = "needs Prometheus and VictoriaMetrics: cargo xtask ci --only prometheus"]
fn hosts_that_are_added_to_the_list_are_scraped() {
    let hosts = Hosts::start(*HOSTS / 2, false);
    let (prometheus, (victoria, _alerts)) = (hosts.prometheus(NO_RECEIVER), hosts.victoria(NO_RECEIVER));
    let ports = [prometheus.port, victoria.port];
    wait_for_hosts(&ports, *HOSTS / 2);
    hosts.list_all();
    wait_for_hosts(&ports, *HOSTS);
}

#[test]
#[ignore = "needs Prometheus, VictoriaMetrics and Alertmanager: cargo xtask ci --only prometheus"]
fn a_fault_becomes_an_alert_that_reaches_a_webhook_and_ends() {
    let hosts = Hosts::start(*HOSTS, false);
    // Each engine has an Alertmanager of its own, so that one does not speak for the other.
    let webhooks = [Webhook::start(), Webhook::start()];
    let alertmanagers = webhooks.each_ref().map(Alertmanager::start);
    let prometheus = hosts.prometheus(alertmanagers[0].port);
    let (victoria, _alerts) = hosts.victoria(alertmanagers[1].port);
    wait_for_hosts(&[prometheus.port, victoria.port], *HOSTS);
    hosts.simulated.set_fault(true);
    let have_received = |status: &str| webhooks.iter().all(|webhook| webhook.has_received(status));
    until("an announcement from both engines", || have_received("firing"));
    hosts.simulated.set_fault(false);
    until("an announced end from both engines", || have_received("resolved"));
}

/// Also on a busy machine, where a scrape may be late, both engines list all hosts at some time.
#[test]
#[ignore = "needs Prometheus and VictoriaMetrics: cargo xtask ci --only prometheus"]
fn the_fleet_commands_list_the_same_hosts_from_both_engines() {
    let hosts = Hosts::start(*HOSTS, true);
    let (prometheus, (victoria, _alerts)) = (hosts.prometheus(NO_RECEIVER), hosts.victoria(NO_RECEIVER));
    let names = |document: &Value| {
        let mut names: Vec<String> = document["hosts"].as_array().unwrap().iter().map(|host| host["host"].to_string()).collect();
        names.sort_unstable();
        names
    };
    let is_whole = |document: &Value| {
        let mut ages = document["hosts"].as_array().unwrap().iter().map(|host| &host["age_s"]);
        document["store"]["has_rules"] == true && ages.all(Value::is_number)
    };
    [prometheus.port, victoria.port].into_iter().for_each(queries::wait_for_records);
    until("all hosts with their ages from the rules of both engines", || {
        let (Some(one), Some(other)) = (fleet(prometheus.port, &[]), fleet(victoria.port, &[])) else { return false };
        names(&one).len() == *HOSTS && names(&one) == names(&other) && is_whole(&one) && is_whole(&other)
    });
    // One in four hosts is idle.
    let find = ["find", "--chips", "8", "--board", "n300", "--free-dram", "10G"];
    until("the same idle hosts from both engines", || {
        let (Some(one), Some(other)) = (fleet(prometheus.port, &find), fleet(victoria.port, &find)) else { return false };
        names(&one).len() == *HOSTS / 4 && names(&one) == names(&other)
    });
}

#[test]
#[ignore = "needs Prometheus and VictoriaMetrics: cargo xtask ci --only prometheus"]
fn every_deployed_query_has_data_on_both_engines_or_none_for_a_reason() {
    let hosts = Hosts::start(*HOSTS, true);
    let (prometheus, (victoria, _alerts)) = (hosts.prometheus(NO_RECEIVER), hosts.victoria(NO_RECEIVER));
    for port in [prometheus.port, victoria.port] {
        queries::check(port, &queries::deployed());
    }
}

#[test]
#[ignore = "needs Prometheus: cargo xtask ci --only prometheus"]
fn a_killed_store_is_named_and_used_again_after_its_restart() {
    let hosts = Hosts::start(*HOSTS, false);
    let mut store = hosts.prometheus(NO_RECEIVER);
    let service = start_service(&["--sim", "n150,idle", "--fleet", &format!("http://127.0.0.1:{}", store.port)]);
    let is_whole = || {
        let fleet = service.json("/api/v1/fleet");
        fleet["host_count"] == *HOSTS && fleet["store"]["error"].is_null()
    };
    service.until("all hosts of the store", is_whole);
    let killed = now();
    store.kill();
    let fleet = service.json("/api/v1/fleet");
    assert!(fleet["store"]["error"].is_string() && fleet["host_count"] == 0, "{fleet}");
    let restarted = now();
    store.start_again();
    service.until("all hosts again", is_whole);
    let times = || times(store.port, SCRAPES);
    until("three scrapes of each host after the restart", || {
        times().iter().all(|times| times.iter().filter(|at| **at > restarted).count() >= 3)
    });
    let times = times();
    assert_eq!(times.len(), *HOSTS);
    assert_eq!(no_other_gap(&times, killed, restarted, longest_gap()), Ok(()));
}

/// Every scrape of the last minutes, including failed ones.
const SCRAPES: &str = "up{job=\"ttmon\"}[10m]";

/// Longest time between two scrapes that is not a gap. On a busy machine some scrapes are late.
fn longest_gap() -> Duration {
    Duration::from_secs(5).max(Duration::from_secs(4) * *INTERVAL_S)
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// Returns the times of the samples of each series, in seconds since 1970. The query is a range: `name[10m]`.
fn times(port: u16, query: &str) -> Vec<Vec<f64>> {
    let times = |one: &Value| one["values"].as_array().unwrap().iter().filter_map(|pair| pair[0].as_f64()).collect();
    series(port, query).unwrap_or_default().iter().map(times).collect()
}

/// Checks that the series have exactly one gap, the time in which the store was down.
fn no_other_gap(series: &[Vec<f64>], killed: f64, restarted: f64, longest: Duration) -> Result<(), String> {
    for times in series {
        if let Some(at) = times.iter().find(|at| **at > killed && **at < restarted) {
            return Err(format!("a sample at {at}, while the store was down from {killed} to {restarted}"));
        }
        let is_down = |one: f64, other: f64| one <= killed && other >= restarted;
        if let Some(pair) = times.windows(2).find(|pair| pair[1] - pair[0] > longest.as_secs_f64() && !is_down(pair[0], pair[1])) {
            return Err(format!("a gap from {} to {}; the store was down from {killed} to {restarted}", pair[0], pair[1]));
        }
        if times.first().is_none_or(|first| *first > killed) {
            return Err(format!("the samples from before {killed} are lost"));
        }
    }
    Ok(())
}

#[test]
fn a_gap_beside_the_restart_is_found() {
    let check = |times: Vec<f64>| no_other_gap(&[times], 100.0, 130.0, Duration::from_secs(20));
    assert_eq!(check(vec![90.0, 95.0, 100.0, 131.0, 136.0]), Ok(()));
    for (times, reason) in [
        (vec![60.0, 95.0, 131.0], "a gap from 60"),
        (vec![95.0, 110.0, 131.0], "a sample at 110"),
        (vec![131.0, 136.0], "are lost"),
        (vec![95.0, 131.0, 180.0], "a gap from 131"),
    ] {
        assert!(check(times).unwrap_err().contains(reason), "{reason}");
    }
}
