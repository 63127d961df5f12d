//! Checks that every query returns data, or that it provably has none.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::prometheus::series;
use crate::files;
use crate::project::Project;
use crate::service::until;

/// Prefixes of metrics that simulated hosts do not have: of model servers, and of allocators' blocks, which only tracked programs have.
const NOT_SIMULATED: &[&str] = &["vllm:", "tt_media_server_", "ttmon_memory_largest_free_per_bank_bytes"];

pub(super) fn ask(port: u16, query: &str) -> Result<Vec<f64>, String> {
    Ok(series(port, query)?.iter().filter_map(|one| one["value"][1].as_str()?.parse().ok()).collect())
}

/// Returns the times of the samples of each series, in seconds since 1970. The query is a range: `name[10m]`.
pub(super) fn times(port: u16, query: &str) -> Result<Vec<Vec<f64>>, String> {
    let times = |one: &Value| one["values"].as_array().into_iter().flatten().filter_map(|pair| pair[0].as_f64()).collect();
    Ok(series(port, query)?.iter().map(times).collect())
}

pub(super) fn has(port: u16, query: &str) -> bool {
    ask(port, query).is_ok_and(|found| !found.is_empty())
}

/// Returns the queries of deploy/, one `FILE<TAB>NAME<TAB>QUERY` per line: recording rules, their records, and panels. Each variable of a
/// dashboard is replaced by a pattern that matches everything.
pub(super) fn deployed(project: &Project) -> Result<String, String> {
    let folder = project.root.join("deploy");
    let mut lines = String::new();
    let mut record = String::new();
    for line in files::read(&folder.join("rules/ttmon-records.yml"))?.lines() {
        if let Some(name) = line.trim_start().strip_prefix("- record: ") {
            record = name.to_owned();
        } else if let Some(text) = line.trim_start().strip_prefix("expr: ") {
            let query: String = serde_json::from_str(text).map_err(|error| format!("{record}: {error}"))?;
            lines += &format!("rules\t{record}\t{record}\nrules\t{record}\t{query}\n");
        }
    }
    for name in ["fleet", "host", "job", "memory", "serving"] {
        let text = files::read(&folder.join(format!("grafana/ttmon-{name}.json")))?;
        let dashboard: Value = serde_json::from_str(&text).map_err(|error| format!("{name}: {error}"))?;
        for panel in dashboard["panels"].as_array().into_iter().flatten() {
            let mut query = panel["targets"][0]["expr"].as_str().ok_or_else(|| format!("{name}: a panel has no query"))?.to_owned();
            for variable in dashboard["templating"]["list"].as_array().into_iter().flatten() {
                query = query.replace(&format!("${}", variable["name"].as_str().unwrap_or_default()), ".*");
            }
            lines += &format!("{name}\t{}\t{query}\n", panel["title"].as_str().unwrap_or_default());
        }
    }
    Ok(lines)
}

/// Runs all queries, one `FILE<TAB>NAME<TAB>QUERY` per line. Returns how many had data. On a busy machine a scrape may be late, so a query
/// without data is repeated.
pub(super) fn check(port: u16, lines: &str) -> Result<String, String> {
    let (mut full, mut empty) = (0, Vec::new());
    for line in lines.lines() {
        let [file, name, query] = line.split('\t').collect::<Vec<_>>()[..] else { return Err(format!("not a query: {line}")) };
        if is_provably_empty(port, query)? {
            empty.push(name);
            continue;
        }
        let mut result = ask(port, query).map_err(|why| format!("{file}, {name}: {why}"))?;
        if result.is_empty() {
            until(&format!("answered, {file}, {name}: {query}"), || {
                result = ask(port, query).unwrap_or_default();
                !result.is_empty() || is_provably_empty(port, query).unwrap_or(false)
            })?;
        }
        full += 1;
    }
    Ok(format!("{full} queries have data, {} have none for a reason: {}", empty.len(), empty.join(", ")))
}

/// Whether a query uses a metric that no simulated host has, or selects values above 0 and there are none.
fn is_provably_empty(port: u16, query: &str) -> Result<bool, String> {
    for name in names(query).into_iter().filter(|name| NOT_SIMULATED.iter().any(|begin| name.starts_with(begin))) {
        if ask(port, &format!("count({{__name__=~\"{name}\"}})"))?.is_empty() {
            return Ok(true);
        }
    }
    let without = query.replace(" > 0", "");
    if without == query || !ask(port, query)?.is_empty() {
        return Ok(false);
    }
    let found = ask(port, &without)?;
    Ok(!found.is_empty() && found.iter().all(|value| *value <= 0.0))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_metrics_are_found() {
        let query = "sum by (pod) (rate(vllm:x_total{pod=~\".*\"}[1m])) / on (pod) pod:ttmon_device_power_watts:sum{pod=~\".*\"} > 0";
        assert_eq!(names(query).into_iter().collect::<Vec<_>>(), ["pod:ttmon_device_power_watts:sum", "vllm:x_total"]);
    }
}
