//! Runs a hundred simulated hosts with real Prometheus, Alertmanager and VictoriaMetrics of Debian.
//!
//! It checks discovery by http_sd and its reload; a fault that becomes an alert, reaches a webhook and resolves; every query of templates
//! and dashboards on both engines; the page's view of a fleet in a browser; and a store that is killed and started again.

pub(super) mod engines;
mod queries;

use std::path::Path;

use serde_json::Value;

use super::alertmanager::{self, Alertmanager, Hook};
use super::{Gate, Outcome, prometheus};
use crate::files;
use crate::project::{self, Project, output};
use crate::service::{self, Service, serve, until};
use crate::stop::untested;
use crate::{tools, web};
use engines::{Store, Victoria};

/// Number of hosts, and number of hosts that are listed at first.
const HOSTS: usize = 100;
const HOSTS_AT_FIRST: usize = 50;
/// The host with a fault, and the seconds at which the fault begins and ends. The engines must be started before.
const FAULT: &str = "3:hot:0@35-65";

pub(super) fn run(gate: &mut Gate) -> Outcome {
    let untried = untested("NO FLEET WAS TRIED");
    let prometheus = prometheus::tools(gate.project).map_err(&untried)?;
    let alertmanager = alertmanager::alertmanager(gate.project).map_err(&untried)?;
    let victoria = tools::debian(gate.project, "victoria-metrics").map_err(&untried)?;
    let checked = check(gate, &prometheus, &alertmanager, &victoria.join("usr/bin"));
    gate.count(checked)
}

fn check(gate: &Gate, tools: &prometheus::Tools, alertmanager: &alertmanager::Tool, victoria: &Path) -> Result<(), String> {
    let project = gate.project;
    let ttmon = gate.ttmon(&[])?;
    deployed_files(project, tools, alertmanager)?;
    let directory = files::temporary()?;
    let hook = Hook::start()?;
    let peer = Alertmanager::start(project, alertmanager, hook.port, None)?;
    let mut simulated = project.command(&ttmon, &["sim-fleet", "--spec", "t3k", "--listen", "127.0.0.1:0", "--fault", FAULT]);
    let (_simulated, port) = serve(simulated.args(["--hosts", &HOSTS.to_string()]), "http://")?;
    let list: Value = serde_json::from_str(&service::get(port, "/sd", "")?.body).map_err(|error| format!("/sd: {error}"))?;
    let lines: Vec<String> = list.as_array().ok_or("/sd is no list")?.iter().map(line).collect();
    let hosts = directory.path().join("hosts");
    files::write(&hosts, lines[..HOSTS_AT_FIRST].join("\n"))?;
    let mut listing = project.command(&ttmon, &["sd", "--from", "hosts", "--listen", "127.0.0.1:0", "--input"]);
    let (_listing, sd_port) = serve(listing.arg(&hosts), "http://")?;

    let mut store = Store::start(project, tools, directory.path(), sd_port, peer.port)?;
    let victoria = Victoria::start(project, victoria, directory.path(), sd_port, peer.port)?;
    let up = |port: u16, count: usize| {
        move || queries::ask(port, "count(ttmon_up == 1)").is_ok_and(|found| found.first() == Some(&(count as f64)))
    };
    until("scraped, both engines", || up(store.port, HOSTS_AT_FIRST)() && up(victoria.port, HOSTS_AT_FIRST)())?;
    files::write(&hosts, lines.join("\n"))?;
    until("listed again, both engines", || up(store.port, HOSTS)() && up(victoria.port, HOSTS)())?;
    println!("fleet: {HOSTS_AT_FIRST} hosts scraped, then {HOSTS} after the list was changed, by Prometheus and VictoriaMetrics");
    until("announced", || hook.heard("firing"))?;
    println!("fleet: a simulated fault became an alert and reached a webhook");
    until("recorded, both engines", || {
        [store.port, victoria.port].iter().all(|port| queries::has(*port, "slurm_job:ttmon_device_held_seconds:increase1h"))
    })?;
    let deployed = queries::deployed(project)?;
    for (name, port) in [("Prometheus", store.port), ("VictoriaMetrics", victoria.port)] {
        println!("{name}: {}", queries::check(port, &deployed)?);
    }
    commands(project, &ttmon, [store.port, victoria.port])?;
    until("resolved", || hook.heard("resolved"))?;
    println!("fleet: the alert resolved");
    let service = Service::start(&ttmon, &["--sim", "n150,idle", "--fleet", &format!("http://127.0.0.1:{}", store.port)])?;
    let is_whole = |service: &Service| {
        service.json("/api/v1/fleet").is_ok_and(|found| found["host_count"] == HOSTS && found["store"]["error"].is_null())
    };
    until("known to the service", || is_whole(&service))?;
    view(project, &ttmon, store.port)?;
    let killed = now();
    store.kill();
    let down = service.json("/api/v1/fleet")?;
    if down["store"]["error"].is_null() || down["host_count"] != 0 {
        return Err(format!("a dead store, and the service says: {down}"));
    }
    let restarted = now();
    store.restart(project, tools)?;
    until("known again", || is_whole(&service))?;
    println!("fleet: a killed store is named, shows no host, and is used again after its restart");
    until("scraped three times after the restart", || {
        queries::times(store.port, SCRAPES)
            .is_ok_and(|series| series.iter().all(|times| times.iter().filter(|at| **at > restarted).count() >= 3))
    })?;
    println!("fleet: {}", no_gap(&queries::times(store.port, SCRAPES)?, killed, restarted)?);
    Ok(())
}

/// Every scrape of the last minutes, including failed ones.
const SCRAPES: &str = "up{job=\"ttmon\"}[10m]";
/// Longest time between two scrapes that is not a gap, in seconds. On a busy machine one or two scrapes are late.
const GAP_S: f64 = 20.0;

fn now() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Checks that the series have exactly one gap, the time in which the store was down.
fn no_gap(series: &[Vec<f64>], killed: f64, restarted: f64) -> Result<String, String> {
    for times in series {
        if let Some(at) = times.iter().find(|at| **at > killed && **at < restarted) {
            return Err(format!("a sample at {at}, while the store was down from {killed} to {restarted}"));
        }
        let is_down = |one: f64, other: f64| one <= killed && other >= restarted;
        if let Some(pair) = times.windows(2).find(|pair| pair[1] - pair[0] > GAP_S && !is_down(pair[0], pair[1])) {
            return Err(format!("a gap from {} to {}; the store was down from {killed} to {restarted}", pair[0], pair[1]));
        }
        if times.first().is_none_or(|first| *first > killed) {
            return Err(format!("the samples from before {killed} are lost"));
        }
    }
    let count: usize = series.iter().map(Vec::len).sum();
    Ok(format!(
        "{count} samples of {} hosts around the restart: the only gap is the {:.1} s without a store",
        series.len(),
        restarted - killed
    ))
}

fn view(project: &Project, ttmon: &Path, port: u16) -> Result<(), String> {
    match web::Browser::have(project) {
        Ok(browser) => {
            let store = format!("http://127.0.0.1:{port}");
            project::run(browser.command(project, ttmon).args(["--store", &store, "--only", "fleet view"]))
        }
        Err(why) => {
            println!("NO BROWSER OPENED THE FLEET VIEW: {why}");
            Ok(())
        }
    }
}

fn line(target: &Value) -> String {
    let labels = target["labels"].as_object().into_iter().flatten();
    let labels = labels.map(|(name, value)| format!(" {name}={}", value.as_str().unwrap_or_default()));
    format!("{}{}", target["targets"][0].as_str().unwrap_or_default(), labels.collect::<String>())
}

fn deployed_files(project: &Project, tools: &prometheus::Tools, alertmanager: &alertmanager::Tool) -> Result<(), String> {
    let file = |path: &str| project.root.join("deploy").join(path);
    let promtool = |arguments: &[&str], path: &str| project::run(project.command(&tools.promtool, arguments).arg(file(path)));
    promtool(&["check", "rules"], "rules/ttmon-records.yml")?;
    promtool(&["check", "rules"], "rules/ttmon-alerts.yml")?;
    promtool(&["test", "rules"], "rules/ttmon-alerts-test.yml")?;
    promtool(&["check", "config"], "prometheus/prometheus.yml")?;
    project::run(project.command(alertmanager.amtool(), &["check-config"]).arg(file("alertmanager/alertmanager.yml")))
}

/// Runs the program's own commands on both engines, which must return the same hosts.
fn commands(project: &Project, ttmon: &Path, ports: [u16; 2]) -> Result<(), String> {
    let ask = |port: u16, arguments: &[&str]| -> Result<Value, String> {
        let mut command = project.command(ttmon, &["fleet"]);
        let text = output(command.args(arguments).args(["--json", "--store", &format!("http://127.0.0.1:{port}")]))?;
        serde_json::from_str(&text).map_err(|error| format!("ttmon fleet: {error}"))
    };
    let names = |document: &Value| {
        let hosts = document["hosts"].as_array().into_iter().flatten();
        let mut names: Vec<String> = hosts.map(|host| host["host"].to_string()).collect();
        names.sort_unstable();
        names
    };
    let is_aged = |document: &Value| document["hosts"].as_array().is_some_and(|hosts| hosts.iter().all(|host| host["age_s"].is_number()));
    // On a busy machine a scrape may be late, so this waits for the next one.
    until("listed by ttmon fleet, all hosts with their ages, from the rules of both engines", || {
        let (Ok(one), Ok(other)) = (ask(ports[0], &[]), ask(ports[1], &[])) else { return false };
        let is_whole = names(&one).len() == HOSTS && names(&one) == names(&other) && is_aged(&one) && is_aged(&other);
        is_whole && one["store"]["has_rules"] == true && other["store"]["has_rules"] == true
    })?;
    let find = ["find", "--chips", "8", "--board", "n300", "--free-dram", "10G"];
    // One in four hosts is idle. The host with the fault counts again after the fault.
    until("found by ttmon fleet find, the same hosts on both engines", || {
        let (Ok(one), Ok(other)) = (ask(ports[0], &find), ask(ports[1], &find)) else { return false };
        names(&one).len() == HOSTS / 4 && names(&one) == names(&other)
    })?;
    println!("fleet: ttmon fleet and fleet find list the same hosts on both engines: {HOSTS}, and {} idle", HOSTS / 4);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gap_beside_the_restart_is_found() {
        let (killed, restarted) = (100.0, 130.0);
        assert!(no_gap(&[vec![90.0, 95.0, 100.0, 131.0, 136.0]], killed, restarted).is_ok());
        for (times, reason) in [
            (vec![60.0, 95.0, 131.0], "a gap from 60"),
            (vec![95.0, 110.0, 131.0], "a sample at 110"),
            (vec![131.0, 136.0], "are lost"),
            (vec![95.0, 131.0, 180.0], "a gap from 131"),
        ] {
            assert!(no_gap(&[times], killed, restarted).unwrap_err().contains(reason), "{reason}");
        }
    }
}
