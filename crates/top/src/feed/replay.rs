//! A recording, played as it was, faster, slower, step by step.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use ttmon_model::units::UnixTime;
use ttmon_wire::recording::{Error, Reader};

use super::{Lost, News, Request, moment, unix_time};
use crate::keys::Step;

/// How fast it may be played, in quarters of its own pace.
const SPEEDS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
/// Its own pace.
const SPEED_OWN: usize = 2;
/// A gap in the recording, when nobody recorded, is not waited through.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// How far a jump goes.
const JUMP_NANOS: u64 = 60 * 1_000_000_000;
/// Moments played at once after a jump, so that charts have something to show.
const LEAD_IN: usize = 60;

/// A recording.
#[derive(Debug)]
pub struct Replay {
    reader: Reader<BufReader<File>>,
}

/// Where a replay is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// Which moment, from 0.
    pub(crate) at: usize,
    pub(crate) count: usize,
    /// In quarters of its own pace.
    pub(crate) speed: u32,
    pub(crate) is_paused: bool,
    pub(crate) is_cut: bool,
}

impl Replay {
    /// Opens a recording.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Ok(Self { reader: Reader::new(BufReader::new(File::open(path)?))? })
    }

    pub(super) fn run(mut self, requests: &Receiver<Request>, tell: impl Fn(News) -> bool) {
        let count = self.reader.len();
        let mut position = Position { at: 0, count, speed: SPEEDS[SPEED_OWN], is_paused: false, is_cut: self.reader.is_cut() };
        let mut shown = None;
        loop {
            if shown != Some(position.at) {
                // After a jump what came before is told too, once.
                let is_next = shown.is_some_and(|shown: usize| shown + 1 == position.at);
                let from = if is_next { position.at } else { position.at.saturating_sub(LEAD_IN) };
                if !(from..=position.at).all(|number| self.moment(number).into_iter().all(&tell)) {
                    return;
                }
                shown = Some(position.at);
            }
            position.is_paused |= position.at + 1 == count;
            if !tell(News::Position(position)) {
                return;
            }
            let next = if position.is_paused { None } else { Some(Instant::now() + self.until_next(&position)) };
            match wait(requests, next) {
                Ok(None) => position.at += 1,
                Ok(Some(request)) => self.obey(&request, &mut position),
                Err(()) => return,
            }
        }
    }

    fn moment(&mut self, number: usize) -> Vec<News> {
        let line = self.reader.line(number).map_err(|error| error.to_string());
        match line.and_then(|line| ttmon_wire::read_moment(line).map_err(|error| error.to_string())) {
            Ok((snapshot, events)) => {
                let happenings = moment::happenings(&snapshot, events);
                vec![News::Snapshot(Box::new(snapshot)), News::Happenings(happenings)]
            }
            Err(why) => {
                let message = format!("moment {} of the recording: {why}", number + 1);
                vec![News::Lost(Lost { message, is_no_device: false, since: unix_time() })]
            }
        }
    }

    fn time(&mut self, number: usize) -> Option<UnixTime> {
        ttmon_wire::time_of(self.reader.line(number).ok()?)
    }

    fn until_next(&mut self, position: &Position) -> Duration {
        let (now, next) = (self.time(position.at), self.time(position.at + 1));
        let nanos = now.zip(next).map_or(0, |(now, next)| next.0.saturating_sub(now.0));
        (Duration::from_nanos(nanos).min(PAUSE_MAX) * SPEEDS[SPEED_OWN]) / position.speed
    }

    fn obey(&mut self, request: &Request, position: &mut Position) {
        let last = position.count - 1;
        match request {
            Request::Pause => {
                // At its end it begins anew.
                if position.is_paused && position.at == last {
                    position.at = 0;
                }
                position.is_paused = !position.is_paused;
            }
            Request::Step(step) => {
                position.is_paused = true;
                position.at = match step {
                    Step::Before => position.at.saturating_sub(1),
                    Step::After => (position.at + 1).min(last),
                };
            }
            Request::Jump(step) => {
                let Some(now) = self.time(position.at) else { return };
                position.at = match step {
                    Step::Before => self.reader.number_at(UnixTime(now.0.saturating_sub(JUMP_NANOS))).min(position.at),
                    Step::After => self.reader.number_at(UnixTime(now.0.saturating_add(JUMP_NANOS))).max((position.at + 1).min(last)),
                };
            }
            Request::Speed(step) => {
                let place = SPEEDS.iter().position(|speed| *speed == position.speed).unwrap_or(SPEED_OWN);
                let place = match step {
                    Step::Before => place.saturating_sub(1),
                    Step::After => (place + 1).min(SPEEDS.len() - 1),
                };
                position.speed = SPEEDS[place];
            }
            Request::Interval(_) | Request::Now | Request::Buffers(_) | Request::Environment(_) => {}
        }
    }
}

/// A request, or none when it is time to go on; an error when nobody is there any more.
fn wait(requests: &Receiver<Request>, until: Option<Instant>) -> Result<Option<Request>, ()> {
    match until {
        None => requests.recv().map(Some).map_err(|_| ()),
        Some(until) => match requests.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(request) => Ok(Some(request)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(()),
        },
    }
}
