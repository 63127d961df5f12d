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
pub enum Subject {
    /// A host: `instance`, `rack`, `partition`.
    Host,
    /// A rack, from the records of hosts.
    Rack,
    /// A Slurm job.
    Job,
    /// A pod.
    Pod,
    /// A chip: its own labels. Only `find` uses it.
    Chip,
}

/// One query.
#[derive(Clone, Copy, Debug)]
pub struct Template {
    /// The subject.
    pub subject: Subject,
    /// The key of its value in the document.
    pub key: &'static str,
    /// The name of its recording rule.
    pub record: &'static str,
    /// Its expression.
    pub expression: &'static str,
}

const fn row(subject: Subject, key: &'static str, record: &'static str, expression: &'static str) -> Template {
    Template { subject, key, record, expression }
}

/// All templates. Names must not change, because dashboards use them.
pub const TEMPLATES: &[Template] = &[
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
    row(Subject::Rack, "chips", "rack:ttmon_chips:sum", "sum by (rack) (instance:ttmon_chips:count)"),
    row(Subject::Rack, "unhealthy", "rack:ttmon_chips_unhealthy:sum", "sum by (rack) (instance:ttmon_chips_unhealthy:sum)"),
    row(Subject::Rack, "held", "rack:ttmon_chips_held:sum", "sum by (rack) (instance:ttmon_chips_held:sum)"),
    row(
        Subject::Rack,
        "dram_total",
        "rack:ttmon_device_memory_total_bytes:sum",
        "sum by (rack) (instance:ttmon_device_memory_total_bytes:sum)",
    ),
    row(
        Subject::Rack,
        "dram_used",
        "rack:ttmon_device_memory_used_bytes:sum",
        "sum by (rack) (instance:ttmon_device_memory_used_bytes:sum)",
    ),
    row(Subject::Rack, "power", "rack:ttmon_device_power_watts:sum", "sum by (rack) (instance:ttmon_device_power_watts:sum)"),
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
    pub fn query(&self, has_rules: bool) -> &'static str {
        if has_rules { self.record } else { self.expression }
    }
}

/// Returns a query that shows whether the store has the recording rules: their first row.
pub fn probe() -> &'static str {
    "count(instance:ttmon_chips:count)"
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// JSON strings are valid YAML strings.
    #[test]
    fn generated_recording_rules_are_up_to_date() {
        let mut rules = String::from(
            "# Generated by `cargo xtask docs` from crates/in-monitor/hosts/src/fleet/templates.rs. \
             The fleet view and the dashboards read these records.\n\
             groups:\n  - name: ttmon-records\n    interval: 30s\n    rules:\n",
        );
        for row in TEMPLATES {
            rules += &format!("      - record: {}\n        expr: {}\n", row.record, Value::from(row.expression));
        }
        ttmon_testing::generated("deploy/rules/ttmon-records.yml", &rules);
    }

    #[test]
    fn rows_are_sound() {
        for (index, row) in TEMPLATES.iter().enumerate() {
            assert!(TEMPLATES[..index].iter().all(|other| other.record != row.record), "{} twice", row.record);
            assert!(row.expression.matches('(').count() == row.expression.matches(')').count(), "{}", row.record);
            let level = row.record.split(':').next().expect("a level");
            let expected = match row.subject {
                Subject::Host => "instance",
                Subject::Rack => "rack",
                Subject::Job => "slurm_job",
                Subject::Pod => "pod",
                Subject::Chip => "device",
            };
            assert_eq!(level, expected, "{}", row.record);
        }
        assert!(probe().contains(TEMPLATES[0].record));
    }

    /// A rule that reads the record of another rule follows it, so that both are evaluated in one round.
    #[test]
    fn records_come_before_their_readers() {
        for (index, row) in TEMPLATES.iter().enumerate().filter(|(_, row)| row.subject == Subject::Rack) {
            let is_known = TEMPLATES[..index].iter().any(|other| row.expression.contains(other.record));
            assert!(is_known, "{}", row.record);
        }
    }
}
