//! Scrapes a process in a pod with the configuration that the Prometheus operator generates for a PodMonitor. The target's own `namespace`,
//! `pod` and `container` are added to every series. With `honor_labels`, the labels of the workload are kept.

use std::fs;
use std::path::Path;

use super::{Prometheus, Tools};
use crate::project::Project;
use crate::service::Service;

const UID: &str = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";
const STAT: &str =
    "4242 (python3) S 1 4242 4242 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 3 0 9999 1000000 512 18446744073709551615 1 1 0 0 0";

/// Puts a process of a pod on device 0, and queries a Prometheus for it.
pub(super) fn check(project: &Project, tools: &Tools, program: &Path, root: &Path) -> Result<(), String> {
    write_pod(root).map_err(|error| format!("no pod: {error}"))?;
    let service = Service::start(program, &["--root", &root.to_string_lossy(), "--process-metrics"])?;
    super::lint(project, tools, &service.get("/metrics")?.body)?;
    let jobs: String = [true, false].map(|is_honored| job(is_honored, service.port)).concat();
    let prometheus = Prometheus::start(project, tools, &jobs)?;
    let own = r#"namespace="ml",pod="vllm-0",container="server""#;
    let exporter = r#"namespace="monitoring",pod="ttmon-abcde",container="ttmon""#;
    for (query, expected) in [
        // The workload's names and ids are kept.
        (format!(r#"count(ttmon_workload_info{{job="honored",{own},pod_uid="{UID}",container_id="4f5e4f5e4f5e"}})"#), 1.0),
        (format!(r#"count(ttmon_process_info{{job="honored",{own}}})"#), 1.0),
        // Without `honor_labels`, the exporter's labels replace them.
        (format!(r#"count(ttmon_workload_info{{job="plain",{exporter},exported_pod="vllm-0",exported_namespace="ml"}})"#), 1.0),
        // A series of a device has no labels of its own for these, and gets the exporter's.
        (format!(r#"count(ttmon_device_power_watts{{job="honored",{exporter},device="0"}})"#), 1.0),
        (r#"count({job="honored",exported_pod=~".+"}) or vector(0)"#.to_owned(), 0.0),
        // The join in docs/metrics.md.
        (
            r#"count(ttmon_device_power_watts{job="honored"} * on (instance, device, asic_id) group_right () ttmon_workload_info{job="honored",pod!=""})"#
                .to_owned(),
            1.0,
        ),
    ] {
        match prometheus.ask(&query)?[..] {
            [(_, value)] if value == expected => {}
            ref found => return Err(format!("{query}: expected {expected}, found {found:?}")),
        }
    }
    println!("Prometheus: honor_labels keeps namespace, pod and container of a workload");
    Ok(())
}

/// Returns the job as the operator writes it for a PodMonitor.
fn job(is_honored: bool, port: u16) -> String {
    let name = if is_honored { "honored" } else { "plain" };
    let relabel = [("namespace", "monitoring"), ("pod", "ttmon-abcde"), ("container", "ttmon")]
        .map(|(label, value)| format!("  - {{target_label: {label}, replacement: {value}}}\n"))
        .concat();
    format!(
        "- job_name: {name}\n  honor_labels: {is_honored}\n  static_configs:\n  - targets: ['127.0.0.1:{port}']\n  relabel_configs:\n{relabel}"
    )
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
