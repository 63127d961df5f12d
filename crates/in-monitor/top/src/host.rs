//! One monitored machine: its newest snapshot, its history, and whether it still answers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ttmon_model::event::BufferEvent;
use ttmon_model::units::UnixTime;
use ttmon_model::{Device, DeviceId, Snapshot};

use crate::alerts::Alerts;
use crate::feed::FeedError;
use crate::history::History;
use crate::marks::Marks;

#[derive(Clone, Debug)]
pub(crate) struct Frozen {
    /// How many samples before the newest one the shown sample is.
    pub(crate) back: usize,
    pub(crate) snapshot: Arc<Snapshot>,
    /// The time of the newest sample when the display was paused. Charts end there.
    pub(crate) until: UnixTime,
}

#[derive(Debug, Default)]
pub(crate) struct Host {
    /// Address of its service; `None` for this machine or a recording.
    pub(crate) address: Option<String>,
    pub(crate) is_recording: bool,
    pub(crate) live: Option<Arc<Snapshot>>,
    pub(crate) frozen: Option<Frozen>,
    pub(crate) history: History,
    pub(crate) alerts: Alerts,
    pub(crate) marks: Marks,
    /// The selected device; the first one by default.
    pub(crate) device: Option<DeviceId>,
    /// Events of buffers, newest last.
    pub(crate) buffer_events: VecDeque<BufferEvent>,
    /// Why there are no new snapshots.
    pub(crate) error: Option<FeedError>,
    /// Time since the last message, if it is too long; otherwise zero.
    pub(crate) silent_for: Duration,
    /// With several machines: show only its name and sums.
    pub(crate) is_folded: bool,
    pub(crate) has_namesake: bool,
}

/// Marks machines that have the same host name. They are shown by their address.
pub(crate) fn make_names_unique(hosts: &mut [Host]) {
    for index in 0..hosts.len() {
        let Some(live) = &hosts[index].live else { continue };
        let is_same = |host: &Host| host.live.as_ref().is_some_and(|other| other.host == live.host);
        hosts[index].has_namesake = hosts.iter().filter(|host| is_same(host)).count() > 1;
    }
}

impl Host {
    /// Returns the host name, or the address if the host name is unknown or not unique.
    pub(crate) fn name(&self) -> &str {
        match (&self.live, &self.address) {
            (Some(snapshot), None) => &snapshot.host,
            (Some(snapshot), Some(_)) if !self.has_namesake => &snapshot.host,
            (_, Some(address)) => address,
            (None, None) => "",
        }
    }

    pub(crate) fn shown(&self) -> Option<&Arc<Snapshot>> {
        self.frozen.as_ref().map(|frozen| &frozen.snapshot).or(self.live.as_ref())
    }

    pub(crate) fn back(&self) -> usize {
        self.frozen.as_ref().map_or(0, |frozen| frozen.back)
    }

    pub(crate) fn now(&self) -> UnixTime {
        self.live.as_ref().map_or(UnixTime(0), |snapshot| snapshot.time)
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.error.is_some() || !self.silent_for.is_zero()
    }

    pub(crate) fn chosen<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a Device> {
        self.device.and_then(|id| snapshot.device(id)).or(snapshot.devices.first())
    }
}
