//! Socket paths that another process uses. The service runs without them and tries again.

use std::path::PathBuf;
use std::time::Instant;

use rustix::event::epoll::{self, EventData, EventFlags};

use super::{LISTENER, Server};
use crate::limits::LISTEN_PAUSE;
use crate::listen::Listener;

/// Path and mode of each socket, and the time of the next attempt.
#[derive(Debug)]
pub(super) struct Unbound {
    places: Vec<(PathBuf, u32)>,
    again: Option<Instant>,
}

impl Unbound {
    pub(super) fn new(places: Vec<(PathBuf, u32)>) -> Self {
        let again = (!places.is_empty()).then(|| Instant::now() + LISTEN_PAUSE);
        Self { places, again }
    }

    pub(super) fn len(&self) -> u64 {
        self.places.len() as u64
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.again
    }
}

impl Server {
    /// Tries again to bind the paths, if it is time.
    pub(super) fn listen_again(&mut self, now: Instant) {
        if self.unbound.again.is_none_or(|at| now < at) {
            return;
        }
        let mut left = Vec::new();
        for (path, mode) in std::mem::take(&mut self.unbound.places) {
            let bound = Listener::bind(&path, mode).ok().filter(|listener| {
                let data = EventData::new_u64(LISTENER | self.listeners.len() as u64);
                epoll::add(&self.epoll, listener, data, EventFlags::IN).is_ok()
            });
            if let Some(listener) = bound {
                self.say(&format!("   Listening on: {}", path.display()));
                self.listeners.push(listener);
            } else {
                self.counters.listen_failures += 1;
                left.push((path, mode));
            }
        }
        self.unbound = Unbound::new(left);
    }
}
