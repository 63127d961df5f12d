//! Formats the metrics of a simulated host, as its service would.

use std::time::Duration;

use ttmon_model::Snapshot;

use crate::chips::Chips;
use crate::metrics::{self, Counters, Detail, Dialect, PageAddress, Scope, ServiceFigures};
use crate::service::Figures;
use crate::texts::{TextAnswer, TextRequest};

/// State of a simulated host between two scrapes.
#[derive(Debug, Default)]
pub struct SimulatedHost {
    chips: Chips,
    samples: u64,
}

impl SimulatedHost {
    /// Formats the metrics of the host at a time since the start. Alerts are left to the store, because no rules are evaluated for this
    /// host.
    pub fn scrape(
        &mut self,
        at: Duration,
        snapshot: &Snapshot,
        version: &'static str,
        detail: Detail,
        request: TextRequest<'_>,
    ) -> TextAnswer {
        self.chips.record(at, snapshot);
        self.samples += 1;
        let dialect = Dialect::negotiate(request.accept);
        let own = ServiceFigures {
            version,
            origin: snapshot.origin.name(),
            // The value of a service that other hosts can reach.
            page: Some(PageAddress { address: ([0, 0, 0, 0], 9477).into(), is_tls: true }),
            is_fresh: true,
            age: Some(Duration::ZERO),
            scan_age: Some(Duration::ZERO),
            interval: Duration::from_secs(1),
            sampler: Figures { samples: self.samples, ..Figures::default() },
            problems: Some(snapshot.problems.len()),
            ..ServiceFigures::default()
        };
        let machine = metrics::machine(snapshot, &self.chips, dialect, Scope { detail, has_processes: false });
        let own = own.text(&Counters::default(), dialect, Detail::Lean) + dialect.end();
        let body = match request.takes_gzip {
            true => metrics::gzip_of(machine.as_bytes(), &metrics::deflated(machine.as_bytes()), &own),
            false => (machine + &own).into_bytes(),
        };
        TextAnswer { content_type: dialect.content_type(), body, is_gzip: request.takes_gzip }
    }
}
