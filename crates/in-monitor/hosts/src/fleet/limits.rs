//! Limits, each with its reason.

use std::time::Duration;

/// Largest answer of a store. 10,000 hosts with long labels have 4 MB.
pub(crate) const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Maximum number of series of one answer: 10,000 hosts, and as many workloads.
pub(crate) const SERIES_MAX: usize = 20_000;
/// Longest text of one series.
pub(crate) const SERIES_BYTES_MAX: usize = 64 << 10;
/// Maximum number of labels of one series. Queries group by at most five.
pub(crate) const LABELS_MAX: usize = 32;
/// Longest text of a label.
pub(crate) const LABEL_BYTES_MAX: usize = 1024;
/// Timeout of one query. The store's own limit is often two minutes, which is too long for a screen.
pub(crate) const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of queries to a store at the same time. Their answers are in memory together.
pub(crate) const QUERIES_AT_ONCE: usize = 4;
/// Default number of hosts in one document. A screen has fewer lines, and the totals include all hosts.
pub const HOSTS_SHOWN: usize = 1_000;
/// Maximum number of workloads and of alerts in one document.
pub(crate) const ROWS_MAX: usize = 1_000;
/// Maximum number of bytes of the labels of all hosts in a list, because one line may give long labels to many hosts.
pub(crate) const TARGET_LABEL_BYTES_MAX: usize = 64 << 20;
/// Memory that a label takes besides its text, approximately.
pub(crate) const LABEL_OVERHEAD: usize = 64;
/// Longest name of a host: the limit of DNS.
pub(crate) const NAME_BYTES_MAX: usize = 253;
/// Maximum number of hosts in a list.
pub(crate) const TARGETS_MAX: usize = 100_000;
