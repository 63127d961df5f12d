//! Idle processes. They are killed when the value is dropped.

use std::process::Command;

use crate::service::Ended;

/// If this program is killed, they end after this time.
const LIFE_SECONDS: &str = "3600";

pub(super) struct Sleepers(Vec<Ended>);

impl Sleepers {
    pub(super) fn start(count: usize) -> Result<Self, String> {
        (0..count).map(|_| Ended::spawn(Command::new("sleep").arg(LIFE_SECONDS))).collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().map(|sleep| sleep.0.id())
    }
}
