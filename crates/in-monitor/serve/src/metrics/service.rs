//! Series about the service itself. They are formatted for each scrape, because ages and counts change between two snapshots.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Detail;
use super::writer::{Dialect, Family, Writer};
use crate::service::Figures;

/// A family of series about the service, and the function that writes its series.
pub(super) struct ServiceFamily {
    pub(super) family: Family<'static>,
    write: WriteSeries,
}

type WriteSeries = fn(&mut Writer, &ServiceFigures, &Counters);

const fn row(family: Family<'static>, write: WriteSeries) -> ServiceFamily {
    ServiceFamily { family, write }
}

/// Families that every scrape has, in its order. They name no receiver.
pub(super) const LEAN: &[ServiceFamily] = &[
    row(
        Family::info("ttmon_build_info", "Version of the service, and whether the machine is simulated.").labels("version, origin"),
        |out, of, _| out.value(&[], &[("version", of.version), ("origin", of.origin)], 1.0),
    ),
    row(
        Family::info(
            "ttmon_page_info",
            "Where the page of this host is: http or https, its port, and whether it can be reached from the network or only from its \
             host. No series if there is no page.",
        )
        .labels("scheme, port, reach"),
        write_page,
    ),
    row(Family::gauge("ttmon_up", "1 while there is a fresh snapshot."), |out, of, _| out.one(f64::from(of.is_fresh))),
    row(Family::gauge("ttmon_sample_age_seconds", "Age of the newest sample.").unit("seconds"), |out, of, _| {
        out.one(of.age.map(|age| age.as_secs_f64()));
    }),
    row(Family::gauge("ttmon_scan_age_seconds", "Age of the newest scan of processes and their memory.").unit("seconds"), |out, of, _| {
        out.one(of.scan_age.map(|age| age.as_secs_f64()));
    }),
    row(Family::gauge("ttmon_sample_interval_seconds", "Interval between two samples of the machine.").unit("seconds"), |out, of, _| {
        out.one(of.interval.as_secs_f64());
    }),
    row(Family::counter("ttmon_samples_total", "Samples taken."), |out, of, _| out.one(of.sampler.samples as f64)),
    row(Family::counter("ttmon_sample_errors_total", "Samples that could not be taken at all."), |out, of, _| {
        out.one(of.sampler.errors as f64);
    }),
    row(Family::gauge("ttmon_problems", "Things that could not be read as they should in the newest sample."), |out, of, _| {
        out.one(of.problems.map(|problems| problems as f64));
    }),
    row(Family::gauge("ttmon_alerts_firing", "Devices for which an alert rule fires.").labels("rule, severity"), |out, of, _| {
        for (rule, severity, devices) in &of.alerts.firing {
            out.value(&[], &[("rule", rule), ("severity", severity)], *devices as f64);
        }
    }),
];

/// Further families of a full scrape.
pub(super) const DETAILS: &[ServiceFamily] = &[
    row(
        Family::counter("ttmon_scan_cut_total", "Processes, ledgers and lists that a scan did not read because a user is at a limit."),
        |out, of, _| out.one(of.sampler.cut as f64),
    ),
    row(Family::gauge("ttmon_sample_duration_seconds", "How long the newest sample took.").unit("seconds"), |out, of, _| {
        out.one(of.age.map(|_| of.sampler.duration.as_secs_f64()));
    }),
    row(Family::counter("ttmon_samples_missed_total", "Samples left out because the sampler came late."), |out, of, _| {
        out.one(of.sampler.missed as f64);
    }),
    row(
        Family::counter("ttmon_sampler_cpu_seconds_total", "Processor time of the threads that sample devices and scan processes.")
            .unit("seconds"),
        |out, of, _| out.one(of.sampler.cpu.as_secs_f64()),
    ),
    row(Family::gauge("ttmon_history_bytes", "Memory of the history.").unit("bytes"), |out, of, _| out.one(of.history_bytes as f64)),
    row(Family::counter("ttmon_events_total", "Things that happened to devices and to the service."), |out, of, _| {
        out.one(of.events as f64);
    }),
    row(
        Family::counter("ttmon_http_requests_total", "Requests answered, by the class of the answer.").labels("code"),
        |out, _, counters| {
            for (class, count) in ["2xx", "3xx", "4xx", "5xx"].iter().zip(&counters.responses) {
                out.value(&[], &[("code", class)], count.get() as f64);
            }
        },
    ),
    row(Family::gauge("ttmon_http_connections", "Connections now open."), |out, _, counters| out.one(counters.connections.get() as f64)),
    row(Family::gauge("ttmon_http_streams", "Event streams now open."), |out, _, counters| out.one(counters.streams.get() as f64)),
    row(
        Family::counter("ttmon_http_dropped_total", "Connections cut off, by reason: slow, stream_behind, crowded.").labels("reason"),
        |out, _, counters| {
            for (reason, count) in [("slow", &counters.slow), ("stream_behind", &counters.behind), ("crowded", &counters.evictions)] {
                out.value(&[], &[("reason", reason)], count.get() as f64);
            }
        },
    ),
    row(
        Family::counter(
            "ttmon_allocation_socket_total",
            "What the allocation socket counted, by what: messages, allocations, frees, and all that was refused or odd.",
        )
        .labels("what"),
        |out, of, _| {
            for (what, count) in &of.allocation_counters {
                out.value(&[], &[("what", what)], *count as f64);
            }
        },
    ),
    row(
        Family::counter("ttmon_alert_messages_total", "Alert messages by result: sent, failed.").labels("receiver, result"),
        |out, of, _| {
            for MessageFigures { receiver, sent, failed, .. } in &of.alerts.messages {
                out.value(&[], &[("receiver", receiver), ("result", "sent")], *sent as f64);
                out.value(&[], &[("receiver", receiver), ("result", "failed")], *failed as f64);
            }
        },
    ),
    row(
        Family::counter(
            "ttmon_alert_dropped_total",
            "Alert changes that were not delivered: the queue of the receiver was full, or its delivery failed.",
        )
        .labels("receiver"),
        |out, of, _| {
            for MessageFigures { receiver, dropped, .. } in &of.alerts.messages {
                out.value(&[], &[("receiver", receiver)], *dropped as f64);
            }
        },
    ),
    row(
        Family::counter("ttmon_alert_samples_dropped_total", "Samples on which no alert rule was evaluated, because the queue was full."),
        |out, of, _| out.one(of.alerts.dropped as f64),
    ),
];

/// Writes where the page of this host is, if there is one.
fn write_page(out: &mut Writer, of: &ServiceFigures, _: &Counters) {
    let Some(PageAddress { address, is_tls }) = of.page else { return };
    let scheme = if is_tls { "https" } else { "http" };
    let reach = if address.ip().is_loopback() { "host" } else { "network" };
    out.value(&[("scheme", scheme.to_owned()), ("port", address.port().to_string())], &[("reach", reach)], 1.0);
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
    pub(crate) fn hold(&self) -> CountGuard<'_> {
        self.add_one();
        CountGuard(&self.0)
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

pub(crate) struct CountGuard<'a>(&'a AtomicU64);

impl Drop for CountGuard<'_> {
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

impl ServiceFigures {
    /// Formats all families in their order.
    pub(crate) fn text(&self, counters: &Counters, dialect: Dialect, detail: Detail) -> String {
        let mut out = Writer::new(dialect);
        let details = if detail == Detail::Full { DETAILS } else { &[] };
        for ServiceFamily { family, write } in LEAN.iter().chain(details) {
            out.family(family);
            write(&mut out, self, counters);
        }
        out.into_text()
    }
}
