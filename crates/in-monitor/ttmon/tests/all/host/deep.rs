//! `serve --deep` on simulated chips: one reading process serves the API, the metrics and other ttmon commands.

use crate::start_service;

#[test]
fn utilization_is_in_the_api_the_metrics_and_the_history() {
    let service = start_service(&["--sim", "p150,procs=1", "--deep", "--interval", "0.5"]);
    let device = || service.get("/api/v1/snapshot").json()["devices"][0].clone();
    service.until("utilization", || device()["utilization"].is_number());
    let metrics = service.get("/metrics").body;
    for name in ["ttmon_device_utilization_ratio", "ttmon_device_core_efficiency_ratio", "ttmon_device_board_power_watts"] {
        let value = metrics.lines().find(|line| line.starts_with(name)).and_then(|line| line.rsplit(' ').next());
        assert!(value.is_some_and(|value| value.parse::<f64>().is_ok()), "{name}: {value:?}");
    }
    let known = service.get("/api/v1/fields").body;
    assert!(known.contains("utilization"), "{known}");
    // The page draws its charts from the history.
    service.until("history", || service.get("/api/v1/history?fields=utilization").body.contains("0."));
}

#[test]
fn without_the_flag_there_is_no_reader() {
    let service = start_service(&["--sim", "p150,procs=1", "--interval", "0.5"]);
    let device = service.get("/api/v1/snapshot").json()["devices"][0].clone();
    assert_eq!(device["missing"]["utilization"], "needs_deep");
    assert_eq!(readers_below(service.pid()), 0);
    let service = start_service(&["--sim", "p150,procs=1", "--deep", "--interval", "0.5"]);
    service.until("one reader", || readers_below(service.pid()) == 1);
}

/// Returns the number of reading processes that a process has started.
fn readers_below(parent: u32) -> usize {
    let names = std::fs::read_dir("/proc").expect("processes").flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let is_reader = |pid: &String| {
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
        let Some((name, rest)) = stat.rsplit_once(") ") else { return false };
        name.ends_with("(ttmon-deep") && rest.split(' ').nth(1) == Some(&parent.to_string())
    };
    names.filter(is_reader).count()
}
