//! Lists of hosts to scrape, in the format of Prometheus's `file_sd` and `http_sd`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::fleet::limits::{LABEL_BYTES_MAX, LABEL_OVERHEAD, NAME_BYTES_MAX, TARGET_LABEL_BYTES_MAX, TARGETS_MAX};

/// One target: its address and labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `HOST:PORT`.
    pub address: String,
    /// Labels of all its series.
    pub labels: BTreeMap<String, String>,
}

/// Why a list of hosts cannot be used. Lines have numbers.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the texts document the causes")]
pub enum SdError {
    #[error("line {0}: {1:?} is no LABEL=VALUE")]
    Label(usize, String),
    #[error("line {0}: {1:?} is no host, and no list such as tt[01-16]")]
    Hosts(usize, String),
    #[error("line {0}: {1:?} is no host")]
    Host(usize, String),
    #[error("line {0}: no node and partition; use sinfo --noheader --Node --format \"%N %R %f\"")]
    NoNode(usize),
    #[error("{0}; use kubectl get nodes -o json")]
    Json(#[from] serde_json::Error),
    #[error("{0}; use kubectl get nodes -o json")]
    Kubernetes(&'static str),
    #[error("more than {TARGETS_MAX} hosts, or {} MiB of labels", TARGET_LABEL_BYTES_MAX >> 20)]
    TooMany,
}

/// Returns the JSON of a list.
pub fn document(targets: &[Target]) -> Value {
    targets.iter().map(|target| json!({"targets": [target.address], "labels": target.labels})).collect()
}

/// Parses a list of hosts: one per line, `NAME[:PORT] [LABEL=VALUE]...`; `tt[01-16]` means sixteen hosts, `#` begins a comment.
pub fn hosts(text: &str, port: u16) -> Result<Vec<Target>, SdError> {
    let (mut targets, mut label_bytes) = (Vec::new(), 0);
    for (number, line) in (1..).zip(text.lines()) {
        let mut words = line.split_once('#').map_or(line, |(words, _)| words).split_whitespace();
        let Some(name) = words.next() else { continue };
        let labels =
            words.map(|word| label(word).ok_or_else(|| SdError::Label(number, word.to_owned()))).collect::<Result<BTreeMap<_, _>, _>>()?;
        let line_bytes: usize = labels.iter().map(|(name, value)| name.len() + value.len() + LABEL_OVERHEAD).sum();
        for name in expanded(name).ok_or_else(|| SdError::Hosts(number, name.to_owned()))? {
            targets.push(Target { address: addressed(&name, port), labels: labels.clone() });
            label_bytes += line_bytes;
            if targets.len() > TARGETS_MAX || label_bytes > TARGET_LABEL_BYTES_MAX {
                return Err(SdError::TooMany);
            }
        }
    }
    Ok(targets)
}

/// Parses the output of `sinfo --noheader --Node --format "%N %R %f"`: node, partition, features. A node in several partitions is listed
/// once, with their names joined by commas. A feature `rack=r1` or `rack:r1` becomes the label `rack`.
pub fn slurm(text: &str, port: u16) -> Result<Vec<Target>, SdError> {
    let mut nodes: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let mut words = line.split_whitespace();
        let (Some(node), Some(partition)) = (words.next(), words.next()) else {
            return Err(SdError::NoNode(number));
        };
        if !is_host(node) {
            return Err(SdError::Host(number, node.to_owned()));
        }
        let labels = nodes.entry(node.to_owned()).or_default();
        let partitions = labels.entry("partition".to_owned()).or_default();
        if partitions.split(',').all(|known| known != partition) {
            partitions.push_str(if partitions.is_empty() { "" } else { "," });
            partitions.push_str(partition.trim_end_matches('*'));
        }
        let features = words.next().map(|features| features.split(','));
        let rack = features.and_then(|mut all| all.find_map(|one| one.strip_prefix("rack=").or(one.strip_prefix("rack:"))));
        labels.extend(rack.map(|rack| ("rack".to_owned(), rack.to_owned())));
    }
    if nodes.len() > TARGETS_MAX {
        return Err(SdError::TooMany);
    }
    Ok(nodes.into_iter().map(|(node, labels)| Target { address: addressed(&node, port), labels }).collect())
}

/// Parses the output of `kubectl get nodes -o json`: nodes with Tenstorrent cards, by their internal address. The label `rack` is the
/// node's label `topology.kubernetes.io/rack`, and `partition` is its `node.kubernetes.io/instance-type`.
pub fn kubernetes(text: &str, port: u16) -> Result<Vec<Target>, SdError> {
    let document: Value = serde_json::from_str(text)?;
    let nodes = document["items"].as_array().ok_or(SdError::Kubernetes("no list of nodes"))?;
    if nodes.len() > TARGETS_MAX {
        return Err(SdError::TooMany);
    }
    let mut targets = Vec::new();
    for node in nodes {
        let known = &node["metadata"]["labels"];
        // Label of node feature discovery: class 1200, vendor 1e52.
        if known["feature.node.kubernetes.io/pci-1200_1e52.present"] != "true" {
            continue;
        }
        let name = node["metadata"]["name"].as_str().ok_or(SdError::Kubernetes("a node without a name"))?;
        let addresses = node["status"]["addresses"].as_array().ok_or(SdError::Kubernetes("a node without addresses"))?;
        let internal = addresses.iter().find(|address| address["type"] == "InternalIP").and_then(|address| address["address"].as_str());
        let address =
            internal.filter(|address| is_host(address) || address.contains(':')).ok_or(SdError::Kubernetes("a node without an address"))?;
        let address = if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") };
        let mut labels = BTreeMap::from([("node".to_owned(), name.to_owned())]);
        for (label, key) in [("rack", "topology.kubernetes.io/rack"), ("partition", "node.kubernetes.io/instance-type")] {
            labels.extend(known[key].as_str().map(|value| (label.to_owned(), value.to_owned())));
        }
        targets.push(Target { address, labels });
    }
    Ok(targets)
}

fn label(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    (is_name && value.len() <= LABEL_BYTES_MAX).then(|| (name.to_owned(), value.to_owned()))
}

fn is_host(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
}

/// Returns the address of `host`, `host:1234` or `[::1]:1234`.
fn addressed(name: &str, port: u16) -> String {
    if name.contains(':') { name.to_owned() } else { format!("{name}:{port}") }
}

/// Expands `tt[01-16]:9478` to sixteen names. A name without brackets, or an IPv6 address, is one name.
fn expanded(name: &str) -> Option<Vec<String>> {
    let has_port = |text: &str| text.parse::<u16>().is_ok();
    if let Some((address, port)) = name.strip_prefix('[').and_then(|rest| rest.split_once("]:")) {
        return (has_port(port) && address.parse::<std::net::Ipv6Addr>().is_ok()).then(|| vec![name.to_owned()]);
    }
    let (bare, port) = name.split_once(':').map_or((name, None), |(bare, port)| (bare, Some(port)));
    if port.is_some_and(|port| !has_port(port)) {
        return None;
    }
    let ending = port.map_or_else(String::new, |port| format!(":{port}"));
    let Some((before, rest)) = bare.split_once('[') else {
        return is_host(bare).then(|| vec![name.to_owned()]);
    };
    let (range, after) = rest.split_once(']')?;
    let (first, last) = range.split_once('-')?;
    let (low, high) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
    let is_sound =
        low <= high && usize::try_from(high - low).is_ok_and(|count| count < TARGETS_MAX) && is_host(&format!("{before}{first}{after}"));
    let width = first.len();
    is_sound.then(|| (low..=high).map(|number| format!("{before}{number:0width$}{after}{ending}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(targets: &[Target]) -> Vec<String> {
        let labels = |target: &Target| target.labels.iter().map(|(name, value)| format!(" {name}={value}")).collect::<String>();
        targets.iter().map(|target| format!("{}{}", target.address, labels(target))).collect()
    }

    #[test]
    fn hosts_are_listed() {
        let text = "# a rack\ntt[08-10] rack=r1 # three\n\nother:1234 rack=r2 partition=debug\n[::1]:9\n";
        let expected = ["tt08:9478 rack=r1", "tt09:9478 rack=r1", "tt10:9478 rack=r1", "other:1234 partition=debug rack=r2", "[::1]:9"];
        assert_eq!(lines(&hosts(text, 9478).expect("hosts")), expected);
        let document = document(&hosts("a x=y", 1).expect("hosts")).to_string();
        assert_eq!(document, r#"[{"labels":{"x":"y"},"targets":["a:1"]}]"#);
    }

    #[test]
    fn bad_lines_are_named() {
        for text in ["a b", "a 1x=y", "a\"b", "tt[1-", "tt[3-1]", "tt[a-b]", "tt[0-4000000000]", "a:port", "[::1", "a/b", "a =x"] {
            assert!(hosts(&format!("ok\n{text}"), 1).is_err_and(|why| why.to_string().starts_with("line 2: ")), "{text}");
        }
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for text in [long.clone(), format!("{long}[0-99999]"), format!("t[{}1-2]", "0".repeat(70_000))] {
            assert!(hosts(&text, 1).is_err_and(|why| why.to_string().starts_with("line 1: ")), "{} bytes", text.len());
        }
        let is_too_many = |text: &str| matches!(hosts(text, 1), Err(SdError::TooMany));
        assert!(is_too_many("t[1-60000]\nt[1-60000]"));
        let short: String = (0..300).map(|number| format!(" l{number}=")).collect();
        assert!(is_too_many(&format!("t[1-99999]{short}")), "30 million labels");
        let labels: String = (0..100).map(|number| format!(" l{number}={}", "x".repeat(1000))).collect();
        assert!(is_too_many(&format!("t[1-1000]{labels}")), "a line of 100 KB stands for 100 MB");
    }

    #[test]
    fn nodes_of_slurm_are_listed_once() {
        let text = "tt01 batch* rack=r1,n300\ntt01 debug rack=r1,n300\ntt02 batch (null)\n";
        assert_eq!(lines(&slurm(text, 9478).expect("nodes")), ["tt01:9478 partition=batch,debug rack=r1", "tt02:9478 partition=batch"]);
        assert!(slurm("tt01\n", 1).is_err_and(|why| why.to_string().starts_with("line 1: ")));
        assert!(slurm("a b c\n\"; b\n", 1).is_err_and(|why| why.to_string().starts_with("line 2: ")));
    }

    #[test]
    fn nodes_of_kubernetes_have_cards() {
        let node = |name: &str, has: &str, address: &str| {
            let labels = json!({"feature.node.kubernetes.io/pci-1200_1e52.present": has, "topology.kubernetes.io/rack": "r1"});
            let addresses = json!([{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": address}]);
            json!({"metadata": {"name": name, "labels": labels}, "status": {"addresses": addresses}})
        };
        let text =
            json!({"items": [node("a", "true", "10.0.0.1"), node("b", "false", "10.0.0.2"), node("c", "true", "fd00::1")]}).to_string();
        assert_eq!(lines(&kubernetes(&text, 9478).expect("nodes")), ["10.0.0.1:9478 node=a rack=r1", "[fd00::1]:9478 node=c rack=r1"]);
        let without = json!({"items": [node("a", "true", "10.0.0.1; rm")]}).to_string();
        let unnamed = text.replace("\"name\"", "\"title\"");
        for text in ["", "[]", "{}", &without, &unnamed] {
            assert!(kubernetes(text, 1).is_err_and(|why| why.to_string().ends_with("use kubectl get nodes -o json")), "{text}");
        }
    }
}
