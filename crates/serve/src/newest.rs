//! Results of the sampler: the newest snapshot, and its documents.
//!
//! Readers take the newest one and never wait for the sampler; a hundred of them cost one sampling.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::body::Bytes;
use ttmon_model::{Sample, Snapshot};
use ttmon_reads::boot_time;
use ttmon_source::Departed;
use ttmon_source::ledgers::OpenLedger;

use crate::access::View;
use crate::limits::READY_MAX;
use crate::metrics::{Dialect, Scope};

/// One sample and what it means.
#[derive(Debug)]
pub struct Published {
    /// Counts up from 1.
    pub number: u64,
    /// What it means.
    pub snapshot: Snapshot,
    /// What the machine said.
    pub sample: Sample,
    /// Ledgers of that time: their buffers are read on request.
    pub ledgers: Vec<Arc<OpenLedger>>,
    /// Recently closed ledgers, so that their followers see the end.
    pub departed: Vec<Arc<Departed>>,
    ready: Mutex<HashMap<(Form, View), Bytes>>,
}

/// A text that is made once for each snapshot and view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    Snapshot,
    Devices,
    Processes,
    Metrics(Dialect, Scope),
    /// Compressed, to be followed by the service's own series.
    Deflated(Dialect, Scope),
}

impl Published {
    pub(crate) fn new(
        number: u64,
        snapshot: Snapshot,
        sample: Sample,
        ledgers: Vec<Arc<OpenLedger>>,
        departed: Vec<Arc<Departed>>,
    ) -> Self {
        Self { number, snapshot, sample, ledgers, departed, ready: Mutex::default() }
    }

    /// The text, made now if nobody asked for it before.
    pub(crate) fn text<T: Into<Bytes>>(&self, form: Form, view: View, make: impl FnOnce(&Snapshot) -> T) -> Bytes {
        let key = (form, view);
        if let Some(text) = self.ready().get(&key) {
            return text.clone();
        }
        // Made without the lock: two that come at once make it twice, and nobody waits for a large one to get a small one.
        let text = make(&self.snapshot).into();
        let mut ready = self.ready();
        if ready.len() < READY_MAX {
            ready.insert(key, text.clone());
        }
        text
    }

    /// How long ago it was taken.
    pub fn age(&self) -> Duration {
        boot_time().saturating_sub(self.sample.at)
    }

    /// How long ago processes and their memory were read.
    pub(crate) fn scan_age(&self) -> Duration {
        boot_time().saturating_sub(self.sample.scanned_at())
    }

    fn ready(&self) -> std::sync::MutexGuard<'_, HashMap<(Form, View), Bytes>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
