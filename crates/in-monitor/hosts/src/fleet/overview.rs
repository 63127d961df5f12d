//! An overview of all hosts: one row each, worst first, with totals by rack and partition, workloads and alerts.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde_json::{Map, Value, json};
use ttmon_model::Snapshot;
use ttmon_model::fields::DeviceField;
use ttmon_model::snapshot::Health;

use crate::fleet::answer::{Labels, Vector, label};
use crate::fleet::limits::{QUERIES_AT_ONCE, ROWS_MAX, SERIES_MAX};
use crate::fleet::templates::{AGE, ALERTS, MISSING, PAGE, PROBE, Subject, TEMPLATES};

/// Keys of a host's row that are totals over its chips, in the order of documents.
const SUMS: [&str; 8] = ["chips", "unhealthy", "critical", "held", "untracked", "dram_total", "dram_used", "power"];

/// One host. Unknown values have no key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostRow {
    /// Its name in the store, or the name that the host itself reports.
    pub host: String,
    /// Its rack.
    pub rack: String,
    /// Its partition.
    pub partition: String,
    /// Values by the keys of the templates.
    pub values: BTreeMap<&'static str, f64>,
    /// Seconds since its newest sample.
    pub age: Option<f64>,
    /// The address of its own page, if the address is known and other hosts can reach it.
    pub url: Option<String>,
    /// Whether the host was queried directly.
    pub is_direct: bool,
}

/// The state of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreState {
    /// Its address; `None` if no store was given.
    pub url: Option<String>,
    /// Why the store does not answer.
    pub error: Option<String>,
    /// Whether the store has the recording rules.
    pub has_rules: bool,
}

/// All hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overview {
    /// The store of the data.
    pub store: StoreState,
    /// Hosts, worst first.
    pub hosts: Vec<HostRow>,
    /// Hosts that the store had an hour ago and has no sample of now.
    pub missing: Vec<String>,
    /// Workloads: labels (`slurm_job`, or `namespace` and `pod`) and values.
    pub workloads: Vec<(Labels, BTreeMap<&'static str, f64>)>,
    /// Labels of the firing alerts in the store.
    pub alerts: Vec<Labels>,
    /// Queries that failed.
    pub problems: Vec<String>,
}

impl HostRow {
    /// Creates the row of a host that was queried directly.
    pub fn of_snapshot(snapshot: &Snapshot, age: f64) -> Self {
        let devices = &snapshot.devices;
        let numbers = |name: &str| -> Vec<f64> {
            let field = DeviceField::find(name);
            // Unknown values do not count, as in the sums of a store.
            devices.iter().filter_map(|device| field.as_ref()?.number(device).ok()).collect()
        };
        let healths = |wanted: &[Health]| devices.iter().filter(|device| wanted.contains(&device.health)).count() as f64;
        let above_0 = |numbers: Vec<f64>| numbers.iter().filter(|number| **number > 0.0).count() as f64;
        let sum = |numbers: Vec<f64>| numbers.into_iter().reduce(|one, other| one + other);
        let holders = numbers("memory.holders");
        let values = [
            ("chips", Some(devices.len() as f64)),
            ("unhealthy", Some(healths(&[Health::Warning, Health::Critical]))),
            ("critical", Some(healths(&[Health::Critical]))),
            // If the value of one chip is unknown, so is the total.
            ("held", (holders.len() == devices.len()).then(|| above_0(holders))),
            ("untracked", Some(above_0(numbers("memory.untracked_processes")))),
            ("dram_total", sum(numbers("memory.total"))),
            ("dram_used", sum(numbers("memory.used"))),
            ("power", sum(numbers("power"))),
            ("temperature_max", numbers("temperature").into_iter().reduce(f64::max)),
        ];
        let values = values.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        Self { host: snapshot.host.clone(), values, age: Some(age), is_direct: true, ..Self::default() }
    }

    /// Returns a value.
    pub fn value(&self, key: &str) -> Option<f64> {
        self.values.get(key).copied()
    }

    fn badness(&self) -> [f64; 4] {
        ["critical", "unhealthy", "untracked", "temperature_max"].map(|key| self.value(key).unwrap_or(0.0))
    }
}

/// Returns the address of a host's page from the labels of its series. A page that listens only on loopback has no address, unless it is on
/// this host.
fn page_url(labels: &Labels) -> Option<String> {
    let instance = label(labels, "instance");
    let name = instance.rsplit_once(':').map_or(instance.as_str(), |(name, _)| name);
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    let is_reached =
        label(labels, "reach") == "network" || name == "localhost" || name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback());
    let scheme = label(labels, "scheme");
    let port: u16 = label(labels, "port").parse().ok()?;
    (is_name && is_reached && matches!(scheme.as_str(), "http" | "https")).then(|| format!("{scheme}://{name}:{port}/"))
}

/// Adds a value of each host. Each query may return other hosts, so their number is limited here.
fn add_hosts(hosts: &mut BTreeMap<String, HostRow>, key: &'static str, answer: Vector) {
    for (labels, value) in answer.0 {
        let host = label(&labels, "instance");
        if hosts.len() < SERIES_MAX || hosts.contains_key(&host) {
            let row = hosts.entry(host).or_default();
            (row.rack, row.partition) = (label(&labels, "rack"), label(&labels, "partition"));
            row.values.insert(key, value);
        }
    }
}

fn add_workloads(workloads: &mut BTreeMap<Labels, BTreeMap<&'static str, f64>>, key: &'static str, answer: Vector) {
    for (mut labels, value) in answer.0 {
        labels.remove("__name__");
        if workloads.len() < SERIES_MAX || workloads.contains_key(&labels) {
            workloads.entry(labels).or_default().insert(key, value);
        }
    }
}

/// Changes the rows of the known hosts in an answer.
fn each_host(hosts: &mut BTreeMap<String, HostRow>, answer: &Vector, change: impl Fn(&mut HostRow, &Labels, f64)) {
    for (labels, value) in &answer.0 {
        if let Some(row) = hosts.get_mut(&label(labels, "instance")) {
            change(row, labels, *value);
        }
    }
}

impl Overview {
    /// Queries the store through a function that answers a few queries at a time. Stops at the first failure, so that a store that is down
    /// is not queried twenty times.
    pub fn ask<E: std::fmt::Display>(url: &str, mut ask: impl FnMut(&[&'static str]) -> Result<Vec<Vector>, E>) -> Self {
        let mut overview = Self { store: StoreState { url: Some(url.to_owned()), ..StoreState::default() }, ..Self::default() };
        if let Err(error) = overview.fill(&mut ask) {
            overview.store.error = Some(error.to_string());
        }
        overview.sort();
        overview
    }

    fn fill<E>(&mut self, ask: &mut impl FnMut(&[&'static str]) -> Result<Vec<Vector>, E>) -> Result<(), E> {
        let has_rules = ask(&[PROBE])?.iter().any(|answer| !answer.is_empty());
        self.store.has_rules = has_rules;
        let templates = TEMPLATES.iter().filter(|template| template.subject != Subject::Chip);
        let templates = templates.map(|template| (template.query(has_rules), Some(template)));
        let queries: Vec<_> = templates.chain([AGE, PAGE, MISSING, ALERTS].map(|query| (query, None))).collect();
        let mut hosts: BTreeMap<String, HostRow> = BTreeMap::new();
        let mut workloads: BTreeMap<Labels, BTreeMap<&'static str, f64>> = BTreeMap::new();
        let filled = queries.chunks(QUERIES_AT_ONCE).try_for_each(|some| {
            let texts: Vec<&'static str> = some.iter().map(|(query, _)| *query).collect();
            for (query, answer) in some.iter().zip(ask(&texts)?) {
                match *query {
                    (_, Some(template)) if template.subject == Subject::Host => add_hosts(&mut hosts, template.key, answer),
                    (_, Some(template)) => add_workloads(&mut workloads, template.key, answer),
                    (AGE, None) => each_host(&mut hosts, &answer, |row, _, age| row.age = Some(age)),
                    (PAGE, None) => each_host(&mut hosts, &answer, |row, labels, _| row.url = page_url(labels)),
                    (MISSING, None) => self.missing = answer.0.iter().map(|(labels, _)| label(labels, "instance")).collect(),
                    (_, None) => self.alerts = answer.0.into_iter().map(|(labels, _)| labels).collect(),
                }
            }
            Ok(())
        });
        // After a failure, the rows of the earlier answers remain.
        self.hosts = hosts.into_iter().map(|(host, row)| HostRow { host, ..row }).collect();
        self.workloads = workloads.into_iter().collect();
        filled
    }

    /// Adds a host that was queried directly, unless the store has it.
    pub fn add(&mut self, row: HostRow) {
        if self.hosts.iter().all(|known| known.host != row.host) {
            self.hosts.push(row);
            self.sort();
        }
    }

    fn sort(&mut self) {
        self.hosts.sort_by(|one, other| {
            let order = other.badness().partial_cmp(&one.badness()).unwrap_or(std::cmp::Ordering::Equal);
            order.then_with(|| one.host.cmp(&other.host))
        });
        let chips = |values: &BTreeMap<&'static str, f64>| values.get("chips").copied().unwrap_or(0.0);
        self.workloads.sort_by(|(_, one), (_, other)| chips(other).total_cmp(&chips(one)));
    }

    /// Returns totals by rack or partition: name, number of hosts, totals.
    fn groups(&self, name: fn(&HostRow) -> &str) -> Vec<(String, usize, BTreeMap<&'static str, f64>)> {
        let mut groups: BTreeMap<&str, (usize, BTreeMap<&'static str, f64>)> = BTreeMap::new();
        for row in &self.hosts {
            let (hosts, sums) = groups.entry(name(row)).or_default();
            *hosts += 1;
            for key in SUMS {
                if let Some(value) = row.value(key) {
                    *sums.entry(key).or_default() += value;
                }
            }
        }
        groups.into_iter().filter(|(name, _)| !name.is_empty()).map(|(name, (hosts, sums))| (name.to_owned(), hosts, sums)).collect()
    }

    /// Returns the document, with at most this many hosts.
    pub fn document(&self, version: &str, time: &str, hosts_max: usize) -> Value {
        let group = |(name, hosts, sums): (String, usize, BTreeMap<&'static str, f64>)| {
            let mut document = object(&sums);
            document.insert("name".to_owned(), json!(name));
            document.insert("hosts".to_owned(), json!(hosts));
            Value::Object(document)
        };
        let workload = |(labels, values): &(Labels, BTreeMap<&'static str, f64>)| {
            let mut document: Map<String, Value> = labels.iter().map(|(name, text)| (name.clone(), json!(text))).collect();
            // Values are added last, so that no label replaces a value.
            document.extend(object(values));
            Value::Object(document)
        };
        let mut totals = BTreeMap::new();
        for (key, value) in self.hosts.iter().flat_map(|row| &row.values).filter(|(key, _)| SUMS.contains(key)) {
            *totals.entry(*key).or_insert(0.0) += value;
        }
        json!({
            "schema": 1,
            "version": version,
            "time": time,
            "store": {"url": self.store.url, "error": self.store.error, "has_rules": self.store.has_rules},
            "host_count": self.hosts.len(),
            "totals": object(&totals),
            "hosts": self.hosts.iter().take(hosts_max).map(host_document).collect::<Vec<_>>(),
            "missing": self.missing.iter().take(ROWS_MAX).collect::<Vec<_>>(),
            "racks": self.groups(|row| &row.rack).into_iter().map(group).collect::<Vec<_>>(),
            "partitions": self.groups(|row| &row.partition).into_iter().map(group).collect::<Vec<_>>(),
            "workloads": self.workloads.iter().take(ROWS_MAX).map(workload).collect::<Vec<_>>(),
            "alerts": self.alerts.iter().take(ROWS_MAX).collect::<Vec<_>>(),
            "problems": self.problems,
        })
    }
}

fn object(values: &BTreeMap<&'static str, f64>) -> Map<String, Value> {
    values.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect()
}

fn host_document(row: &HostRow) -> Value {
    let mut document = object(&row.values);
    document.extend([
        ("host".to_owned(), json!(row.host)),
        ("rack".to_owned(), json!(row.rack)),
        ("partition".to_owned(), json!(row.partition)),
        ("age_s".to_owned(), json!(row.age)),
        ("source".to_owned(), json!(if row.is_direct { "host" } else { "store" })),
        ("url".to_owned(), json!(row.url)),
    ]);
    Value::Object(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(pairs: &[(&str, &str)], value: f64) -> (Labels, f64) {
        (pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(), value)
    }

    fn answer(query: &str) -> Vector {
        let host = |name, rack, value| series(&[("instance", name), ("rack", rack)], value);
        let hosts = |values: [f64; 2]| Vector(vec![host("a:9478", "r1", values[0]), host("b:9478", "r2", values[1])]);
        match query {
            "instance:ttmon_chips:count" => hosts([32.0, 8.0]),
            "instance:ttmon_chips_unhealthy:sum" => hosts([0.0, 1.0]),
            "slurm_job:ttmon_chips:count" => Vector(vec![series(&[("slurm_job", "7")], 4.0)]),
            AGE => Vector(vec![host("a:9478", "r1", 3.0)]),
            PAGE => Vector(vec![series(&[("instance", "b:9478"), ("scheme", "https"), ("port", "9443"), ("reach", "network")], 1.0)]),
            MISSING => Vector(vec![host("c:9478", "r3", 1.0)]),
            PROBE => Vector(vec![series(&[], 2.0)]),
            _ => Vector::default(),
        }
    }

    #[test]
    fn hosts_remain_if_a_later_query_fails() {
        let overview = Overview::ask("http://store", |queries| {
            let is_late = queries.contains(&ALERTS);
            if is_late { Err("late") } else { Ok(queries.iter().map(|query| answer(query)).collect()) }
        });
        assert_eq!((overview.hosts.len(), overview.workloads.len(), overview.store.error.as_deref()), (2, 1, Some("late")));
    }

    #[test]
    fn worst_host_comes_first() {
        let mut queried = Vec::new();
        let overview = Overview::ask("http://store", |queries| {
            queried.extend(queries.iter().map(|query| (*query).to_owned()));
            Ok::<_, String>(queries.iter().map(|query| answer(query)).collect())
        });
        assert_eq!(overview.hosts.iter().map(|row| row.host.as_str()).collect::<Vec<_>>(), ["b:9478", "a:9478"]);
        assert!(overview.store.has_rules && overview.store.error.is_none());
        assert_eq!((overview.hosts[1].age, overview.hosts[0].age), (Some(3.0), None));
        let document = overview.document("0", "now", 1);
        assert_eq!((&document["host_count"], document["hosts"].as_array().map(Vec::len)), (&json!(2), Some(1)));
        assert_eq!((&document["totals"]["chips"], &document["missing"][0]), (&json!(40.0), &json!("c:9478")));
        assert_eq!((&document["racks"][0]["name"], &document["workloads"][0]["slurm_job"]), (&json!("r1"), &json!("7")));
        assert_eq!((&document["hosts"][0]["url"], &overview.hosts[1].url), (&json!("https://b:9443/"), &None));
        // An unknown value has no key.
        assert!(document["hosts"][0].get("power").is_none());
        assert!(queried.iter().all(|query| !query.starts_with("rack:") && !query.starts_with("device:")));
    }

    /// Scheme and port come from the host's own series. A page that cannot be reached from here has no link.
    #[test]
    fn link_follows_the_page_of_the_host() {
        for (instance, scheme, port, reach, expected) in [
            ("tt-1:9478", "https", "9477", "network", Some("https://tt-1:9477/")),
            ("tt-1", "http", "80", "network", Some("http://tt-1:80/")),
            ("tt-1:9478", "http", "9477", "host", None),
            ("localhost:9478", "http", "9477", "host", Some("http://localhost:9477/")),
            ("127.0.0.1:9478", "https", "9477", "host", Some("https://127.0.0.1:9477/")),
            ("tt-1:9478", "javascript", "9477", "network", None),
            ("tt-1:9478", "https", "", "network", None),
            ("evil/@x:9478", "https", "9477", "network", None),
        ] {
            let (labels, _) = series(&[("instance", instance), ("scheme", scheme), ("port", port), ("reach", reach)], 1.0);
            assert_eq!(page_url(&labels).as_deref(), expected, "{instance} {scheme} {port} {reach}");
        }
    }

    #[test]
    fn dead_store_is_asked_once_and_named() {
        let mut count = 0;
        let mut overview = Overview::ask("http://store", |_| {
            count += 1;
            Err::<Vec<Vector>, _>("cannot be reached")
        });
        assert_eq!((count, overview.store.error.as_deref()), (1, Some("cannot be reached")));
        overview.add(HostRow { host: "x".to_owned(), is_direct: true, ..HostRow::default() });
        assert_eq!(overview.document("0", "now", 10)["hosts"][0]["source"], "host");
    }
}
