//! The newest snapshot of the sampler, and its documents.
//!
//! Readers take the newest snapshot and never wait for the sampler. The cost of a sample is independent of the number of readers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::body::Bytes;
use ttmon_collect::Departed;
use ttmon_collect::ledgers::OpenLedger;
use ttmon_collect::reads::boot_time;
use ttmon_model::{Sample, Snapshot};
use ttmon_os::lock;

use crate::access::Visibility;
use crate::limits::READY_MAX;
use crate::metrics::{Dialect, Scope};

#[derive(Debug)]
pub(crate) struct Published {
    /// Number of the snapshot, from 1.
    pub(crate) number: u64,
    pub(crate) snapshot: Snapshot,
    pub(crate) sample: Sample,
    /// Ledgers at that time. Their buffers are read on request.
    pub(crate) ledgers: Vec<Arc<OpenLedger>>,
    /// Recently closed ledgers, so that their followers see the end.
    pub(crate) departed: Vec<Arc<Departed>>,
    ready: Mutex<HashMap<(Form, Visibility), Bytes>>,
}

/// A text that is computed once for each snapshot and visibility.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    Snapshot,
    Devices,
    Processes,
    Metrics(Dialect, Scope),
    /// Compressed metrics, to be followed by the service's own series.
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

    /// Returns the text. Computes it if it was not requested before.
    pub(crate) fn text<T: Into<Bytes>>(&self, form: Form, visibility: Visibility, make: impl FnOnce(&Snapshot) -> T) -> Bytes {
        let key = (form, visibility);
        if let Some(text) = lock(&self.ready).get(&key) {
            return text.clone();
        }
        // Compute without the lock. Two concurrent requests compute the text twice, but a small text never waits for a large one.
        let text = make(&self.snapshot).into();
        let mut ready = lock(&self.ready);
        if ready.len() < READY_MAX {
            ready.insert(key, text.clone());
        }
        text
    }

    pub(crate) fn age(&self) -> Duration {
        boot_time().saturating_sub(self.sample.at)
    }

    /// Returns the time since processes and their memory were read.
    pub(crate) fn scan_age(&self) -> Duration {
        boot_time().saturating_sub(self.sample.scanned_at())
    }
}
