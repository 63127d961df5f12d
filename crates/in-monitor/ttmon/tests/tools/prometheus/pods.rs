//! Scrapes a process in a pod with the configuration that the Prometheus operator generates for a PodMonitor. The target's own `namespace`,
//! `pod` and `container` are added to every series. With `honor_labels`, the labels of the workload are kept.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use ttmon_testing::Service;

use super::{SPEC, expect_clean_metrics, expect_values, start_prometheus};
use crate::engines::Prometheus;
use crate::{machine, start_service};

const UID: &str = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";
const STAT: &str =
    "4242 (python3) S 1 4242 4242 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 3 0 9999 1000000 512 18446744073709551615 1 1 0 0 0";
/// Labels of the workload, and those of the exporter.
const WORKLOAD: &str = r#"namespace="ml",pod="vllm-0",container="server""#;
const EXPORTER: &str = r#"namespace="monitoring",pod="ttmon-abcde",container="ttmon""#;

/// Starts a service on a machine whose device 0 is held by a process of a pod.
fn start() -> (Service, TempDir) {
    let root = machine(SPEC);
    write_pod(root.path()).unwrap();
    (start_service(&["--root", root.path().to_str().unwrap(), "--process-metrics"]), root)
}

fn scrape(service: &Service, is_honored: bool) -> Prometheus {
    let relabel = [("namespace", "monitoring"), ("pod", "ttmon-abcde"), ("container", "ttmon")]
        .map(|(label, value)| format!("  - {{target_label: {label}, replacement: {value}}}\n"))
        .concat();
    start_prometheus(&format!(
        "- job_name: ttmon\n  honor_labels: {is_honored}\n  static_configs:\n  - targets: ['127.0.0.1:{}']\n  relabel_configs:\n{relabel}",
        service.port
    ))
}

fn write_pod(root: &Path) -> std::io::Result<()> {
    let id = "4f5e".repeat(16);
    let write = |path: String, text: &str| -> std::io::Result<()> {
        let path = root.join(path);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, text)
    };
    write("proc/4242/stat".to_owned(), STAT)?;
    write("proc/4242/status".to_owned(), "Name:\tpython3\nUid:\t1000\t1000\t1000\t1000\n")?;
    write("proc/4242/cmdline".to_owned(), "python3\0serve.py\0")?;
    let slice = format!("kubepods-burstable-pod{}.slice", UID.replace('-', "_"));
    write("proc/4242/cgroup".to_owned(), &format!("0::/kubepods.slice/kubepods-burstable.slice/{slice}/cri-containerd-{id}.scope\n"))?;
    write(format!("var/log/pods/ml_vllm-0_{UID}/server/0.log"), "")?;
    write(format!("var/log/containers/vllm-0_ml_server-{id}.log"), "")?;
    write("proc/driver/tenstorrent/0/pids".to_owned(), "4242\n")
}

#[test]
#[ignore = "needs Prometheus: cargo xtask ci --only prometheus"]
fn promtool_accepts_the_metrics_of_a_pod() {
    let (service, _root) = start();
    expect_clean_metrics(&service);
}

#[test]
#[ignore = "needs Prometheus: cargo xtask ci --only prometheus"]
fn honored_labels_are_those_of_the_workload() {
    let (service, _root) = start();
    let workload = format!(r#"count(ttmon_workload_info{{{WORKLOAD},pod_uid="{UID}",container_id="4f5e4f5e4f5e"}})"#);
    let process = format!("count(ttmon_process_info{{{WORKLOAD}}})");
    // A series of a device has no labels of its own for these, and gets the exporter's.
    let device = format!(r#"count(ttmon_device_power_watts{{{EXPORTER},device="0"}})"#);
    // The join in docs/metrics.md.
    let join =
        r#"count(ttmon_device_power_watts * on (instance, device, asic_id) group_right () ttmon_workload_info{job="ttmon",pod!=""})"#;
    let queries = [(&*workload, 1.0), (&process, 1.0), (&device, 1.0), (r#"count({exported_pod=~".+"}) or vector(0)"#, 0.0), (join, 1.0)];
    expect_values(&scrape(&service, true), &queries);
}

#[test]
#[ignore = "needs Prometheus: cargo xtask ci --only prometheus"]
fn without_honor_labels_the_exporter_replaces_those_of_the_workload() {
    let (service, _root) = start();
    let replaced = format!(r#"count(ttmon_workload_info{{{EXPORTER},exported_pod="vllm-0",exported_namespace="ml"}})"#);
    expect_values(&scrape(&service, false), &[(&replaced, 1.0)]);
}
