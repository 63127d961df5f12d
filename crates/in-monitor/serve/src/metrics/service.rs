//! Series about the service itself. They are formatted for each scrape, because ages and counts change between two snapshots.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Detail;
use super::writer::{Dialect, Writer};
use crate::service::Figures;

#[rustfmt::skip] // one row per line
pub(super) mod families {
    use crate::metrics::writer::{Family, SeriesType};

    pub(super) const BUILD_INFO: Family = Family { name: "ttmon_build_info", sort: SeriesType::Info, unit: "", labels: "version, origin", help: "Version of the service, and whether the machine is simulated." };
    pub(super) const PAGE_INFO: Family = Family { name: "ttmon_page_info", sort: SeriesType::Info, unit: "", labels: "scheme, port, reach", help: "Where the page of this host is: http or https, its port, and whether it can be reached from the network or only from its host. No series if there is no page." };
    pub(super) const UP: Family = Family { name: "ttmon_up", sort: SeriesType::Gauge, unit: "", labels: "", help: "1 while there is a fresh snapshot." };
    pub(super) const AGE: Family = Family { name: "ttmon_sample_age_seconds", sort: SeriesType::Gauge, unit: "seconds", labels: "", help: "Age of the newest sample." };
    pub(super) const SCAN_AGE: Family = Family { name: "ttmon_scan_age_seconds", sort: SeriesType::Gauge, unit: "seconds", labels: "", help: "Age of the newest scan of processes and their memory." };
    pub(super) const CUT: Family = Family { name: "ttmon_scan_cut_total", sort: SeriesType::Counter, unit: "", labels: "", help: "Processes, ledgers and lists that a scan did not read because a user is at a limit." };
    pub(super) const DURATION: Family = Family { name: "ttmon_sample_duration_seconds", sort: SeriesType::Gauge, unit: "seconds", labels: "", help: "How long the newest sample took." };
    pub(super) const INTERVAL: Family = Family { name: "ttmon_sample_interval_seconds", sort: SeriesType::Gauge, unit: "seconds", labels: "", help: "Interval between two samples of the machine." };
    pub(super) const SAMPLES: Family = Family { name: "ttmon_samples_total", sort: SeriesType::Counter, unit: "", labels: "", help: "Samples taken." };
    pub(super) const ERRORS: Family = Family { name: "ttmon_sample_errors_total", sort: SeriesType::Counter, unit: "", labels: "", help: "Samples that could not be taken at all." };
    pub(super) const MISSED: Family = Family { name: "ttmon_samples_missed_total", sort: SeriesType::Counter, unit: "", labels: "", help: "Samples left out because the sampler came late." };
    pub(super) const CPU: Family = Family { name: "ttmon_sampler_cpu_seconds_total", sort: SeriesType::Counter, unit: "seconds", labels: "", help: "Processor time of the threads that sample devices and scan processes." };
    pub(super) const PROBLEMS: Family = Family { name: "ttmon_problems", sort: SeriesType::Gauge, unit: "", labels: "", help: "Things that could not be read as they should in the newest sample." };
    pub(super) const HISTORY: Family = Family { name: "ttmon_history_bytes", sort: SeriesType::Gauge, unit: "bytes", labels: "", help: "Memory of the history." };
    pub(super) const EVENTS: Family = Family { name: "ttmon_events_total", sort: SeriesType::Counter, unit: "", labels: "", help: "Things that happened to devices and to the service." };
    pub(super) const REQUESTS: Family = Family { name: "ttmon_http_requests_total", sort: SeriesType::Counter, unit: "", labels: "code", help: "Requests answered, by the class of the answer." };
    pub(super) const CONNECTIONS: Family = Family { name: "ttmon_http_connections", sort: SeriesType::Gauge, unit: "", labels: "", help: "Connections now open." };
    pub(super) const STREAMS: Family = Family { name: "ttmon_http_streams", sort: SeriesType::Gauge, unit: "", labels: "", help: "Event streams now open." };
    pub(super) const DROPPED: Family = Family { name: "ttmon_http_dropped_total", sort: SeriesType::Counter, unit: "", labels: "reason", help: "Connections cut off, by reason: slow, stream_behind, crowded." };
    pub(super) const ALLOCATION_SOCKET: Family = Family { name: "ttmon_allocation_socket_total", sort: SeriesType::Counter, unit: "", labels: "what", help: "What the allocation socket counted, by what: messages, allocations, frees, and all that was refused or odd." };
    pub(super) const ALERTS: Family = Family { name: "ttmon_alerts_firing", sort: SeriesType::Gauge, unit: "", labels: "rule, severity", help: "Devices for which an alert rule fires." };
    pub(super) const MESSAGES: Family = Family { name: "ttmon_alert_messages_total", sort: SeriesType::Counter, unit: "", labels: "receiver, result", help: "Alert messages by result: sent, failed." };
    pub(super) const ALERTS_DROPPED: Family = Family { name: "ttmon_alert_dropped_total", sort: SeriesType::Counter, unit: "", labels: "receiver", help: "Alert changes that were not delivered: the queue of the receiver was full, or its delivery failed." };
    pub(super) const ALERT_SAMPLES_DROPPED: Family = Family { name: "ttmon_alert_samples_dropped_total", sort: SeriesType::Counter, unit: "", labels: "", help: "Samples on which no alert rule was evaluated, because the queue was full." };

    /// All families, in the order of the scrape.
    #[cfg(test)]
    pub(crate) const ALL: [Family; 24] = [
        BUILD_INFO, PAGE_INFO, UP, AGE, SCAN_AGE, INTERVAL, SAMPLES, ERRORS, PROBLEMS, ALERTS,
        CUT, DURATION, MISSED, CPU, HISTORY, EVENTS, REQUESTS, CONNECTIONS, STREAMS, DROPPED, ALLOCATION_SOCKET, MESSAGES, ALERTS_DROPPED, ALERT_SAMPLES_DROPPED,
    ];
}

/// Counters of the sockets. Each is updated and read separately.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Responses with status 2xx, 3xx, 4xx, 5xx.
    responses: [Count; 4],
    pub(crate) connections: Count,
    pub(crate) streams: Count,
    pub(crate) slow: Count,
    pub(crate) behind: Count,
    pub(crate) evictions: Count,
}

#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one until the returned value is dropped.
    pub(crate) fn hold(&self) -> Open<'_> {
        self.add_one();
        Open(&self.0)
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

pub(crate) struct Open<'a>(&'a AtomicU64);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counters {
    pub(crate) fn responded(&self, status: u16) {
        if let Some(count) = self.responses.get(usize::from(status / 100).wrapping_sub(2)) {
            count.add_one();
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PageAddress {
    pub(crate) address: SocketAddr,
    pub(crate) is_tls: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ServiceFigures {
    pub(crate) version: &'static str,
    pub(crate) origin: &'static str,
    pub(crate) page: Option<PageAddress>,
    pub(crate) is_fresh: bool,
    pub(crate) age: Option<Duration>,
    pub(crate) scan_age: Option<Duration>,
    pub(crate) sampler: Figures,
    pub(crate) interval: Duration,
    pub(crate) problems: Option<usize>,
    pub(crate) history_bytes: usize,
    pub(crate) events: u64,
    pub(crate) allocation_counters: Vec<(&'static str, u64)>,
    pub(crate) alerts: AlertFigures,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct AlertFigures {
    /// Each rule: name, severity, number of devices.
    pub(crate) firing: Vec<(String, &'static str, usize)>,
    pub(crate) messages: Vec<MessageFigures>,
    /// Samples that were not evaluated.
    pub(crate) dropped: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct MessageFigures {
    pub(crate) receiver: String,
    pub(crate) sent: u64,
    pub(crate) failed: u64,
    pub(crate) dropped: u64,
}

impl AlertFigures {
    fn write_firing(&self, out: &mut Writer) {
        out.family(&families::ALERTS);
        for (rule, severity, devices) in &self.firing {
            out.value(&[], &[("rule", rule), ("severity", severity)], *devices as f64);
        }
    }

    fn write_messages(&self, out: &mut Writer) {
        out.family(&families::MESSAGES);
        for MessageFigures { receiver, sent, failed, .. } in &self.messages {
            out.value(&[], &[("receiver", receiver), ("result", "sent")], *sent as f64);
            out.value(&[], &[("receiver", receiver), ("result", "failed")], *failed as f64);
        }
        out.family(&families::ALERTS_DROPPED);
        for MessageFigures { receiver, dropped, .. } in &self.messages {
            out.value(&[], &[("receiver", receiver)], *dropped as f64);
        }
        out.one(&families::ALERT_SAMPLES_DROPPED, Some(self.dropped as f64));
    }
}

impl ServiceFigures {
    /// Formats all families in their order. Lean families name no receiver and are written alone or with the rest.
    pub(crate) fn text(&self, counters: &Counters, dialect: Dialect, detail: Detail) -> String {
        let mut out = Writer::new(dialect);
        out.family(&families::BUILD_INFO);
        out.value(&[], &[("version", self.version), ("origin", self.origin)], 1.0);
        if let Some(PageAddress { address, is_tls }) = self.page {
            out.family(&families::PAGE_INFO);
            let scheme = if is_tls { "https" } else { "http" };
            let reach = if address.ip().is_loopback() { "host" } else { "network" };
            out.value(&[("scheme", scheme.to_owned()), ("port", address.port().to_string())], &[("reach", reach)], 1.0);
        }
        out.one(&families::UP, Some(f64::from(u8::from(self.is_fresh))));
        out.one(&families::AGE, self.age.map(|age| age.as_secs_f64()));
        out.one(&families::SCAN_AGE, self.scan_age.map(|age| age.as_secs_f64()));
        out.one(&families::INTERVAL, Some(self.interval.as_secs_f64()));
        out.one(&families::SAMPLES, Some(self.sampler.samples as f64));
        out.one(&families::ERRORS, Some(self.sampler.errors as f64));
        out.one(&families::PROBLEMS, self.problems.map(|problems| problems as f64));
        self.alerts.write_firing(&mut out);
        if detail == Detail::Full {
            self.write_details(&mut out, counters);
        }
        out.into_text()
    }

    fn write_details(&self, out: &mut Writer, counters: &Counters) {
        out.one(&families::CUT, Some(self.sampler.cut as f64));
        out.one(&families::DURATION, self.age.map(|_| self.sampler.duration.as_secs_f64()));
        out.one(&families::MISSED, Some(self.sampler.missed as f64));
        out.one(&families::CPU, Some(self.sampler.cpu.as_secs_f64()));
        out.one(&families::HISTORY, Some(self.history_bytes as f64));
        out.one(&families::EVENTS, Some(self.events as f64));
        out.family(&families::REQUESTS);
        for (class, count) in ["2xx", "3xx", "4xx", "5xx"].iter().zip(&counters.responses) {
            out.value(&[], &[("code", class)], count.get() as f64);
        }
        out.one(&families::CONNECTIONS, Some(counters.connections.get() as f64));
        out.one(&families::STREAMS, Some(counters.streams.get() as f64));
        out.family(&families::DROPPED);
        for (reason, count) in [("slow", &counters.slow), ("stream_behind", &counters.behind), ("crowded", &counters.evictions)] {
            out.value(&[], &[("reason", reason)], count.get() as f64);
        }
        out.family(&families::ALLOCATION_SOCKET);
        for (what, count) in &self.allocation_counters {
            out.value(&[], &[("what", what)], *count as f64);
        }
        self.alerts.write_messages(out);
    }
}
