//! Bounds, each with its reason.

use std::time::Duration;

/// Longest answer of a store that is read: 10,000 hosts with long labels are 4 MB.
pub const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Series of one answer: 10,000 hosts, and as many workloads.
pub(crate) const SERIES_MAX: usize = 20_000;
/// Longest text of one series.
pub(crate) const SERIES_BYTES_MAX: usize = 64 << 10;
/// Labels of one series: queries group by at most five.
pub(crate) const LABELS_MAX: usize = 32;
/// Longest text of a label.
pub(crate) const LABEL_BYTES_MAX: usize = 1024;
/// How long one query may take. The store's own limit is often two minutes; a screen is of no use then.
pub const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
/// Queries that a store is asked at the same time. Their answers are in memory together.
pub(crate) const QUERIES_AT_ONCE: usize = 4;
/// Hosts in one document unless more are asked for: a screen has fewer lines, and the totals have all of them.
pub const HOSTS_SHOWN: usize = 1_000;
/// Workloads and alerts in one document.
pub(crate) const ROWS_MAX: usize = 1_000;
/// Bytes of the labels of all hosts in a list: one line may give long labels to many hosts.
pub(crate) const TARGET_LABEL_BYTES_MAX: usize = 64 << 20;
/// Longest list of hosts that is read.
pub(crate) const TARGETS_MAX: usize = 100_000;
