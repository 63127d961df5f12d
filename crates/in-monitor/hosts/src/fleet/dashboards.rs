//! The Grafana dashboards of deploy/grafana. They were never rendered in Grafana.

use serde_json::{Value, json};

use crate::fleet::templates::tests::records;

#[test]
fn generated_dashboards_are_up_to_date() {
    for dashboard in DASHBOARDS {
        ttmon_testing::generated(&format!("deploy/grafana/{}.json", dashboard.name), &dashboard.document());
    }
}

struct Dashboard {
    /// The name of its file, without the extension; also its uid.
    name: &'static str,
    title: &'static str,
    /// Names of label variables, each with the query of its values.
    variables: &'static [(&'static str, &'static str)],
    panels: &'static [Panel],
}

/// Title, Grafana unit, kind, query.
type Panel = (&'static str, &'static str, Kind, &'static str);

#[derive(PartialEq, Eq)]
enum Kind {
    Graph,
    Number,
    Table,
}

use Kind::{Graph, Number, Table};

const HOST: (&str, &str) = ("instance", "label_values(ttmon_up, instance)");
const JOB: (&str, &str) = ("slurm_job", "label_values(ttmon_workload_info, slurm_job)");
const POD: (&str, &str) = ("pod", "label_values(ttmon_workload_info, pod)");

/// All dashboards. Power is that of core rails, not of boards.
const DASHBOARDS: &[Dashboard] = &[
    Dashboard {
        name: "ttmon-fleet",
        title: "ttmon: fleet",
        variables: &[],
        panels: &[
            ("Hosts", "short", Number, "count(ttmon_up == 1)"),
            ("Chips", "short", Number, "sum(instance:ttmon_chips:count)"),
            ("Chips held", "short", Number, "sum(instance:ttmon_chips_held:sum)"),
            ("Unhealthy chips", "short", Number, "sum(instance:ttmon_chips_unhealthy:sum)"),
            ("Alerts", "short", Number, "count(ALERTS{alertstate=\"firing\",alertname=~\"Ttmon.*\"}) or vector(0)"),
            ("DRAM used by rack", "bytes", Graph, "rack:ttmon_device_memory_used_bytes:sum"),
            ("Core-rail power by rack", "watt", Graph, "rack:ttmon_device_power_watts:sum"),
            ("Held chips by rack", "short", Graph, "rack:ttmon_chips_held:sum"),
            ("Worst hosts", "short", Table, "topk(20, instance:ttmon_chips_unhealthy:sum > 0)"),
            ("Hottest hosts", "celsius", Table, "topk(20, instance:ttmon_device_temperature_celsius:max)"),
            ("Held without traffic for 10 minutes", "short", Table, "topk(20, instance:ttmon_chips_idle_held:sum > 0)"),
        ],
    },
    Dashboard {
        name: "ttmon-host",
        title: "ttmon: host",
        variables: &[HOST],
        panels: &[
            ("Sample age", "s", Number, "ttmon_sample_age_seconds{instance=~\"$instance\"}"),
            ("Chips by health", "short", Table, "count by (health) (ttmon_device_health{instance=~\"$instance\"} == 1)"),
            ("Temperature", "celsius", Graph, "ttmon_device_temperature_celsius{instance=~\"$instance\"}"),
            ("Core-rail power", "watt", Graph, "ttmon_device_power_watts{instance=~\"$instance\"}"),
            ("AI clock", "hertz", Graph, "ttmon_device_aiclk_hertz{instance=~\"$instance\"}"),
            ("DRAM used", "bytes", Graph, "ttmon_device_memory_used_bytes{instance=~\"$instance\"}"),
            ("PCIe to device", "Bps", Graph, "ttmon_device_pcie_to_device_bytes_per_second{instance=~\"$instance\"}"),
            ("Processes", "short", Graph, "ttmon_device_processes{instance=~\"$instance\"}"),
            ("Firmware", "short", Table, "ttmon_device_firmware_info{instance=~\"$instance\"}"),
        ],
    },
    Dashboard {
        name: "ttmon-job",
        title: "ttmon: jobs and pods",
        variables: &[JOB, POD],
        panels: &[
            ("Chips by job", "short", Graph, "slurm_job:ttmon_chips:count{slurm_job=~\"$slurm_job\"}"),
            ("DRAM of the chips of a job", "bytes", Graph, "slurm_job:ttmon_device_memory_used_bytes:sum{slurm_job=~\"$slurm_job\"}"),
            ("Core-rail power of the chips of a job", "watt", Graph, "slurm_job:ttmon_device_power_watts:sum{slurm_job=~\"$slurm_job\"}"),
            (
                "Held time of the chips of a job in the last hour",
                "s",
                Table,
                "slurm_job:ttmon_device_held_seconds:increase1h{slurm_job=~\"$slurm_job\"}",
            ),
            ("Chips by pod", "short", Graph, "pod:ttmon_chips:count{pod=~\"$pod\"}"),
            ("DRAM of the chips of a pod", "bytes", Graph, "pod:ttmon_device_memory_used_bytes:sum{pod=~\"$pod\"}"),
            ("Core-rail power of the chips of a pod", "watt", Graph, "pod:ttmon_device_power_watts:sum{pod=~\"$pod\"}"),
        ],
    },
    Dashboard {
        name: "ttmon-memory",
        title: "ttmon: device memory",
        variables: &[HOST],
        panels: &[
            (
                "DRAM used",
                "percentunit",
                Graph,
                "ttmon_device_memory_used_bytes{instance=~\"$instance\"} \
             / ttmon_device_memory_total_bytes{instance=~\"$instance\"}",
            ),
            ("Used by kind", "bytes", Graph, "sum by (instance, kind) (ttmon_memory_used_bytes{instance=~\"$instance\"})"),
            (
                "Largest free block of DRAM per bank",
                "bytes",
                Graph,
                "ttmon_memory_largest_free_per_bank_bytes{instance=~\"$instance\",kind=\"dram\"}",
            ),
            ("Refusals in 5 minutes", "short", Graph, "increase(ttmon_device_memory_refusals_total{instance=~\"$instance\"}[5m])"),
            ("Left by ended processes", "bytes", Table, "ttmon_device_memory_stale_bytes{instance=~\"$instance\"} > 0"),
            ("Holders that are not tracked", "short", Table, "ttmon_device_memory_untracked_processes{instance=~\"$instance\"} > 0"),
        ],
    },
    Dashboard {
        name: "ttmon-serving",
        title: "ttmon: serving",
        variables: &[POD],
        panels: &[
            ("Requests under way (vLLM)", "short", Graph, "sum by (namespace, pod) (vllm:num_requests_running{pod=~\"$pod\"})"),
            ("Tokens a second (vLLM)", "short", Graph, "sum by (namespace, pod) (rate(vllm:generation_tokens_total{pod=~\"$pod\"}[1m]))"),
            (
                "Tokens a second and watt of core rails",
                "short",
                Graph,
                "sum by (namespace, pod) (rate(vllm:generation_tokens_total{pod=~\"$pod\"}[1m])) \
             / on (namespace, pod) pod:ttmon_device_power_watts:sum{pod=~\"$pod\"}",
            ),
            (
                "KV cache (vLLM) beside DRAM of the pod's chips",
                "bytes",
                Graph,
                "pod:ttmon_device_memory_used_bytes:sum{pod=~\"$pod\"} \
             and on (namespace, pod) max by (namespace, pod) (vllm:num_requests_running)",
            ),
            (
                "Requests a second (media server)",
                "short",
                Graph,
                "sum by (namespace, pod) (rate({__name__=~\"tt_media_server_.*requests.*_total\",pod=~\"$pod\"}[1m]))",
            ),
            ("Core-rail power of the pod's chips", "watt", Graph, "pod:ttmon_device_power_watts:sum{pod=~\"$pod\"}"),
        ],
    },
];

impl Dashboard {
    /// Returns the whole file.
    fn document(&self) -> String {
        const COLUMNS: usize = 3;
        let source = json!({"type": "prometheus", "uid": "${datasource}"});
        let panel = |(index, (title, unit, kind, query)): (usize, &Panel)| {
            let place = json!({"w": 8, "h": 8, "x": index % COLUMNS * 8, "y": index / COLUMNS * 8});
            let (kind_name, format) = match kind {
                Graph => ("timeseries", "time_series"),
                Number => ("stat", "time_series"),
                Table => ("table", "table"),
            };
            json!({
                "id": index + 1,
                "type": kind_name,
                "title": title,
                "datasource": source,
                "gridPos": place,
                "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
                "targets": [{"refId": "A", "expr": query, "instant": *kind != Graph, "format": format}],
            })
        };
        let variable = |(name, query): &(&str, &str)| {
            json!({
                "name": name,
                "type": "query",
                "datasource": source,
                "query": query,
                "refresh": 2,
                "includeAll": true,
                "multi": true,
                "allValue": ".*",
                "current": {"text": "All", "value": "$__all"},
            })
        };
        let datasource = json!({"name": "datasource", "type": "datasource", "query": "prometheus"});
        let variables: Vec<Value> = [datasource].into_iter().chain(self.variables.iter().map(variable)).collect();
        let document = json!({
            "uid": self.name,
            "title": self.title,
            "tags": ["ttmon", "tenstorrent"],
            "schemaVersion": 38,
            "version": 1,
            "refresh": "30s",
            "time": {"from": "now-1h", "to": "now"},
            "templating": {"list": variables},
            "panels": self.panels.iter().enumerate().map(panel).collect::<Vec<_>>(),
        });
        format!("{document:#}\n")
    }
}

/// Every record in a query is a recording rule, and every variable belongs to its dashboard.
/// No title calls the power of core rails that of a board.
#[test]
fn queries_use_known_records_and_variables() {
    for dashboard in DASHBOARDS {
        for (title, _, _, query) in dashboard.panels {
            assert!(!title.contains("ower") || title.contains("ore-rail") || title.contains("ore rails"), "{title}");
            for word in query.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != ':') {
                let is_record = word.matches(':').count() == 2;
                assert!(!is_record || records().iter().any(|(record, _)| *record == word), "{title}: {word}");
            }
            for variable in query.split('$').skip(1) {
                assert!(dashboard.variables.iter().any(|(name, _)| variable.starts_with(name)), "{title}: {variable}");
            }
        }
    }
}
