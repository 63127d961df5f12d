//! The queries. Each row is also a recording rule: a store with the rule is queried by its name, any other store by its expression.

/// Groups by host: by the store's own label, and by the labels of discovery.
macro_rules! by_host {
    ($expression:literal) => {
        concat!("sum by (instance, rack, partition) (", $expression, ")")
    };
}

/// Sums over the chips of a workload. A chip that two workloads share counts for both.
macro_rules! of_jobs {
    ($expression:literal) => {
        concat!("sum by (slurm_job) (", $expression, " * on (instance, device) group_right () ttmon_workload_info{slurm_job!=\"\"})")
    };
}

macro_rules! of_pods {
    ($expression:literal) => {
        concat!("sum by (namespace, pod) (", $expression, " * on (instance, device) group_right () ttmon_workload_info{pod!=\"\"})")
    };
}

/// The subject of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A host: `instance`, `rack`, `partition`.
    Host,
    /// A Slurm job.
    Job,
    /// A pod.
    Pod,
    /// A chip: its own labels. Only `find` uses it.
    Chip,
}

/// One query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Template {
    /// The subject.
    pub(crate) subject: Subject,
    /// The key of its value in the document.
    pub(crate) key: &'static str,
    /// The name of its recording rule.
    pub(crate) record: &'static str,
    /// Its expression.
    pub(crate) expression: &'static str,
}

const fn row(subject: Subject, key: &'static str, record: &'static str, expression: &'static str) -> Template {
    Template { subject, key, record, expression }
}

/// All templates. Names must not change, because dashboards use them.
pub(crate) const TEMPLATES: &[Template] = &[
    row(Subject::Host, "chips", "instance:ttmon_chips:count", "count by (instance, rack, partition) (ttmon_device_info)"),
    row(
        Subject::Host,
        "unhealthy",
        "instance:ttmon_chips_unhealthy:sum",
        by_host!("max without (health) (ttmon_device_health{health=~\"warning|critical\"} or 0 * ttmon_device_health)"),
    ),
    row(
        Subject::Host,
        "critical",
        "instance:ttmon_chips_critical:sum",
        by_host!("max without (health) (ttmon_device_health{health=\"critical\"} or 0 * ttmon_device_health)"),
    ),
    row(Subject::Host, "held", "instance:ttmon_chips_held:sum", by_host!("ttmon_device_memory_holders > bool 0")),
    row(
        Subject::Host,
        "idle_held",
        "instance:ttmon_chips_idle_held:sum",
        by_host!(
            "(ttmon_device_memory_holders > bool 0) * on (instance, device) group_left () \
             (max_over_time(ttmon_device_pcie_to_device_bytes_per_second[10m]) < bool 4096)"
        ),
    ),
    row(Subject::Host, "untracked", "instance:ttmon_chips_untracked:sum", by_host!("ttmon_device_memory_untracked_processes > bool 0")),
    row(Subject::Host, "dram_total", "instance:ttmon_device_memory_total_bytes:sum", by_host!("ttmon_device_memory_total_bytes")),
    row(Subject::Host, "dram_used", "instance:ttmon_device_memory_used_bytes:sum", by_host!("ttmon_device_memory_used_bytes")),
    row(Subject::Host, "power", "instance:ttmon_device_power_watts:sum", by_host!("ttmon_device_power_watts")),
    row(
        Subject::Host,
        "temperature_max",
        "instance:ttmon_device_temperature_celsius:max",
        "max by (instance, rack, partition) (ttmon_device_temperature_celsius)",
    ),
    row(
        Subject::Host,
        "held_seconds_1h",
        "instance:ttmon_device_held_seconds:increase1h",
        by_host!("increase(ttmon_device_held_seconds_total[1h])"),
    ),
    row(Subject::Job, "chips", "slurm_job:ttmon_chips:count", "count by (slurm_job) (ttmon_workload_info{slurm_job!=\"\"})"),
    row(Subject::Job, "dram_used", "slurm_job:ttmon_device_memory_used_bytes:sum", of_jobs!("ttmon_device_memory_used_bytes")),
    row(Subject::Job, "power", "slurm_job:ttmon_device_power_watts:sum", of_jobs!("ttmon_device_power_watts")),
    row(
        Subject::Job,
        "held_seconds_1h",
        "slurm_job:ttmon_device_held_seconds:increase1h",
        of_jobs!("increase(ttmon_device_held_seconds_total[1h])"),
    ),
    row(Subject::Pod, "chips", "pod:ttmon_chips:count", "count by (namespace, pod) (ttmon_workload_info{pod!=\"\"})"),
    row(Subject::Pod, "dram_used", "pod:ttmon_device_memory_used_bytes:sum", of_pods!("ttmon_device_memory_used_bytes")),
    row(Subject::Pod, "power", "pod:ttmon_device_power_watts:sum", of_pods!("ttmon_device_power_watts")),
    row(
        Subject::Pod,
        "held_seconds_1h",
        "pod:ttmon_device_held_seconds:increase1h",
        of_pods!("increase(ttmon_device_held_seconds_total[1h])"),
    ),
    IDLE_CHIPS,
];

/// Free bytes of each chip that a job could use: no process holds it, its memory is known, and it is usable.
pub(crate) const IDLE_CHIPS: Template = row(
    Subject::Chip,
    "idle_free",
    "device:ttmon_device_memory_free_bytes:idle",
    "ttmon_device_memory_free_bytes and on (instance, device) (ttmon_device_memory_holders == 0) \
     unless on (instance, device) (ttmon_device_state{state=~\"gone|unreadable|resetting|starting\"} == 1) \
     unless on (instance, device) (ttmon_device_health{health=\"critical\"} == 1)",
);

/// Seconds since the newest sample of each host. It has no rule, because a record would have its own timestamp.
pub(crate) const AGE: &str = "time() - timestamp(ttmon_up)";
/// Address of each host's own page. It has no rule, because it is already one series per host.
pub(crate) const PAGE: &str = "ttmon_page_info";
/// Hosts that the store had an hour ago and has no sample of now.
pub(crate) const MISSING: &str = "count by (instance, rack, partition) (ttmon_up offset 1h) unless on (instance) ttmon_up";
/// Firing alerts, if the store evaluates rules.
pub(crate) const ALERTS: &str = "ALERTS{alertstate=\"firing\",alertname=~\"Ttmon.*\"}";

impl Template {
    /// Returns the query for a store with or without the recording rules.
    pub(crate) fn query(&self, has_rules: bool) -> &'static str {
        if has_rules { self.record } else { self.expression }
    }
}

/// Shows whether the store has the recording rules: their first row.
pub(crate) const PROBE: &str = "count(instance:ttmon_chips:count)";

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::Value;

    /// Records of racks, each from a record of hosts. Only dashboards read them.
    const RACKS: &[(&str, &str)] = &[
        ("rack:ttmon_chips:sum", "sum by (rack) (instance:ttmon_chips:count)"),
        ("rack:ttmon_chips_unhealthy:sum", "sum by (rack) (instance:ttmon_chips_unhealthy:sum)"),
        ("rack:ttmon_chips_held:sum", "sum by (rack) (instance:ttmon_chips_held:sum)"),
        ("rack:ttmon_device_memory_total_bytes:sum", "sum by (rack) (instance:ttmon_device_memory_total_bytes:sum)"),
        ("rack:ttmon_device_memory_used_bytes:sum", "sum by (rack) (instance:ttmon_device_memory_used_bytes:sum)"),
        ("rack:ttmon_device_power_watts:sum", "sum by (rack) (instance:ttmon_device_power_watts:sum)"),
    ];

    /// The recording rules, with their expressions. A rule that reads the record of another rule follows it, so that both are
    /// evaluated in one round.
    pub(crate) fn records() -> Vec<(&'static str, &'static str)> {
        let (hosts, others): (Vec<&Template>, Vec<&Template>) = TEMPLATES.iter().partition(|row| row.subject == Subject::Host);
        let pairs = |rows: Vec<&Template>| rows.into_iter().map(|row| (row.record, row.expression)).collect::<Vec<_>>();
        [pairs(hosts), RACKS.to_vec(), pairs(others)].concat()
    }

    /// JSON strings are valid YAML strings.
    #[test]
    fn generated_recording_rules_are_up_to_date() {
        let mut rules = String::from(
            "# Generated by `cargo xtask docs` from crates/in-monitor/hosts/src/fleet/templates.rs. \
             The fleet view and the dashboards read these records.\n\
             groups:\n  - name: ttmon-records\n    interval: 30s\n    rules:\n",
        );
        for (record, expression) in records() {
            rules += &format!("      - record: {record}\n        expr: {}\n", Value::from(expression));
        }
        ttmon_testing::generated("deploy/rules/ttmon-records.yml", &rules);
    }

    #[test]
    fn rows_are_sound() {
        for (index, (record, expression)) in records().into_iter().enumerate() {
            assert!(records()[..index].iter().all(|(other, _)| *other != record), "{record} twice");
            assert!(expression.matches('(').count() == expression.matches(')').count(), "{record}");
        }
        for row in TEMPLATES {
            let expected = match row.subject {
                Subject::Host => "instance",
                Subject::Job => "slurm_job",
                Subject::Pod => "pod",
                Subject::Chip => "device",
            };
            assert_eq!(row.record.split(':').next(), Some(expected), "{}", row.record);
        }
        assert!(PROBE.contains(TEMPLATES[0].record));
    }

    #[test]
    fn records_of_racks_sum_records_of_hosts() {
        for (record, expression) in RACKS {
            let is_known = TEMPLATES.iter().any(|row| row.subject == Subject::Host && expression.contains(row.record));
            assert!(is_known && record.starts_with("rack:"), "{record}");
        }
    }
}
