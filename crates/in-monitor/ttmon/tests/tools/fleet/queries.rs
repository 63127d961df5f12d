//! Checks that every deployed query returns data, or that it provably has none.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;
use ttmon_testing::until;

use crate::engines::values;
use crate::repository;

/// Prefixes of metrics that simulated hosts do not have: of model servers, and of allocators' blocks, which only tracked programs have.
const NOT_SIMULATED: &[&str] = &["vllm:", "tt_media_server_", "ttmon_memory_largest_free_per_bank_bytes"];

/// A query of deploy/.
pub(super) struct Query {
    /// The rule or the panel.
    name: String,
    text: String,
}

/// Returns recording rules, their records, and panels. Each variable of a dashboard is replaced by a pattern that matches everything.
pub(super) fn deployed() -> Vec<Query> {
    let read = |path: &str| fs::read_to_string(repository("deploy").join(path)).unwrap();
    let mut queries = Vec::new();
    let mut record = String::new();
    for line in read("rules/ttmon-records.yml").lines() {
        if let Some(name) = line.trim_start().strip_prefix("- record: ") {
            record = name.to_owned();
            queries.push(Query { name: format!("rules, {name}"), text: name.to_owned() });
        } else if let Some(text) = line.trim_start().strip_prefix("expr: ") {
            queries.push(Query { name: format!("rules, expression of {record}"), text: serde_json::from_str(text).unwrap() });
        }
    }
    for name in ["fleet", "host", "job", "memory", "serving"] {
        let dashboard: Value = serde_json::from_str(&read(&format!("grafana/ttmon-{name}.json"))).unwrap();
        let variables = dashboard["templating"]["list"].as_array().into_iter().flatten();
        let variables: Vec<String> = variables.map(|variable| format!("${}", variable["name"].as_str().unwrap())).collect();
        for panel in dashboard["panels"].as_array().unwrap() {
            let query = panel["targets"][0]["expr"].as_str().unwrap().to_owned();
            let text = variables.iter().fold(query, |query, variable| query.replace(variable, ".*"));
            queries.push(Query { name: format!("{name}, {}", panel["title"].as_str().unwrap_or_default()), text });
        }
    }
    queries
}

/// Waits for the record that is last to have data: it needs two scrapes and two evaluations.
pub(super) fn wait_for_records(port: u16) {
    until("records", || values(port, "slurm_job:ttmon_device_held_seconds:increase1h").is_ok_and(|found| !found.is_empty()));
}

/// Runs all queries. A scrape or an evaluation may be late, so a query without data is repeated.
pub(super) fn check(port: u16, queries: &[Query]) {
    wait_for_records(port);
    let mut empty = Vec::new();
    for Query { name, text } in queries {
        until(&format!("an answer, {name}: {text}"), || {
            let is_empty = is_provably_empty(port, text);
            if is_empty {
                empty.push(name);
            }
            is_empty || values(port, text).is_ok_and(|found| !found.is_empty())
        });
    }
    println!("{} queries have data, {} have none for a reason: {empty:?}", queries.len() - empty.len(), empty.len());
    assert!(empty.len() < queries.len() / 4, "{empty:?}");
}

/// Whether a query uses a metric that no simulated host has, or selects values above 0 and there are none.
fn is_provably_empty(port: u16, query: &str) -> bool {
    let is_simulated = |name: &str| !NOT_SIMULATED.iter().any(|begin| name.starts_with(begin));
    let has_none = |name: &str| values(port, &format!("count({{__name__=~\"{name}\"}})")) == Ok(Vec::new());
    if names(query).into_iter().any(|name| !is_simulated(name) && has_none(name)) {
        return true;
    }
    let without = query.replace(" > 0", "");
    if without == query || values(port, query) != Ok(Vec::new()) {
        return false;
    }
    values(port, &without).is_ok_and(|found| !found.is_empty() && found.iter().all(|value| *value <= 0.0))
}

/// Returns the names of metrics in a query: words with the prefix of ttmon or of model servers.
fn names(query: &str) -> BTreeSet<&str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_:.*".contains(letter);
    let words = query.split(|letter: char| !is_part(letter));
    let is_name = |word: &&str| {
        ["ttmon_", "vllm:", "tt_media_server_", "instance:", "rack:", "slurm_job:", "pod:", "device:"]
            .iter()
            .any(|begin| word.starts_with(begin))
    };
    words.filter(is_name).collect()
}

#[test]
fn names_of_metrics_are_found() {
    let query = "sum by (pod) (rate(vllm:x_total{pod=~\".*\"}[1m])) / on (pod) pod:ttmon_device_power_watts:sum{pod=~\".*\"} > 0";
    assert_eq!(names(query).into_iter().collect::<Vec<_>>(), ["pod:ttmon_device_power_watts:sum", "vllm:x_total"]);
}
