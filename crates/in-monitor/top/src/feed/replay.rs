//! Plays a recording at its own speed, faster, slower, or step by step.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use ttmon_json::recording::{Error, Reader};
use ttmon_model::select::Selection;
use ttmon_model::units::UnixTime;

use super::{FeedError, FeedMessage, Request, chosen, no_variables, unix_time};
use crate::keys::Step;
use crate::update::bounded;

/// Speeds, in quarters of the original speed.
const SPEEDS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const SPEED_OWN: usize = 2;
/// The longest wait between two frames; longer gaps in the recording are shortened.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// The length of a jump, also in the history of a live machine.
pub(crate) const JUMP_NANOS: u64 = 60 * 1_000_000_000;
/// How long a frame without a readable time is shown.
const PAUSE_UNKNOWN: Duration = Duration::from_secs(1);
/// Frames that are sent together after a jump, so that charts have data.
const LEAD_IN: usize = 60;

/// A recording.
#[derive(Debug)]
pub struct Replay {
    reader: Reader<BufReader<File>>,
    selection: Selection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplayPosition {
    /// Index of the frame, from 0.
    pub(crate) at: usize,
    pub(crate) count: usize,
    /// In quarters of the original speed.
    pub(crate) speed: u32,
    pub(crate) is_paused: bool,
    pub(crate) is_cut: bool,
}

impl Replay {
    /// Opens a recording and selects devices.
    pub fn open(path: &Path, selection: Selection) -> Result<Self, Error> {
        Ok(Self { reader: Reader::new(BufReader::new(ttmon_os::open(path)?))?, selection })
    }

    pub(super) fn run(mut self, requests: &Receiver<Request>, send: impl Fn(FeedMessage) -> bool) {
        let count = self.reader.len();
        let first = self.first();
        let mut position = ReplayPosition { at: first, count, speed: SPEEDS[SPEED_OWN], is_paused: false, is_cut: self.reader.is_cut() };
        let mut shown = None;
        loop {
            if shown != Some(position.at) {
                // After a jump, earlier frames are sent too, once.
                let is_next = shown.is_none_or(|shown: usize| shown + 1 == position.at);
                let from = if is_next { position.at } else { position.at.saturating_sub(LEAD_IN) };
                if !(from..=position.at).all(|number| self.frame(number).into_iter().all(&send)) {
                    return;
                }
                shown = Some(position.at);
            }
            position.is_paused |= position.at + 1 == count;
            if !send(FeedMessage::Position(position)) {
                return;
            }
            let next = if position.is_paused { None } else { Some(Instant::now() + self.until_next(&position)) };
            let before = position;
            // Requests that do not concern a recording do not delay the next frame.
            while position == before {
                match wait(requests, next) {
                    Ok(None) => {
                        position.at = self.following(position.at);
                        // The frames in between are unknown.
                        shown = position.at.checked_sub(1);
                    }
                    Ok(Some(Request::Environment(process))) => {
                        send(no_variables(process, "variables of processes are not recorded"));
                    }
                    Ok(Some(request)) => self.obey(&request, &mut position),
                    Err(()) => return,
                }
            }
        }
    }

    /// Returns the index of the first readable frame, or 0 if none is readable.
    fn first(&mut self) -> usize {
        let mut number = 0;
        while number < self.reader.len() {
            if self.time(number).is_some() {
                return number;
            }
            number = self.reader.behind_frame_of(number);
        }
        0
    }

    /// Returns the next frame. An unreadable zstd frame is reported once and then skipped.
    fn following(&mut self, number: usize) -> usize {
        let next = if self.reader.line(number).is_ok() { number + 1 } else { self.reader.behind_frame_of(number) };
        next.min(self.reader.len() - 1)
    }

    fn stepped(&mut self, number: usize, step: Step) -> usize {
        if step == Step::Before { number.saturating_sub(1) } else { self.following(number) }
    }

    /// Returns the first frame at or after a time that follows the frame `behind`.
    fn not_before(&mut self, time: UnixTime, behind: usize) -> usize {
        let last = self.reader.len() - 1;
        let mut number = self.reader.number_at(time).max(self.following(behind));
        while number < last && self.time(number).is_none_or(|then| then < time) {
            number = self.following(number);
        }
        number
    }

    /// Returns the last frame at or before a time, or the first frame.
    fn not_after(&mut self, time: UnixTime) -> usize {
        let mut number = self.reader.number_at(time);
        loop {
            let next = self.following(number);
            if next == number || self.time(next).is_none_or(|then| then > time) {
                return number;
            }
            number = next;
        }
    }

    fn frame(&mut self, number: usize) -> Vec<FeedMessage> {
        let line = self.reader.line(number).map_err(|error| error.to_string());
        match line.and_then(|line| ttmon_json::read_frame(line).map_err(|error| error.to_string())) {
            Ok((snapshot, events)) => match chosen(&self.selection, snapshot) {
                Ok(snapshot) => vec![FeedMessage::Snapshot(Box::new(snapshot)), FeedMessage::BufferEvents(events)],
                Err(error) => vec![FeedMessage::Error(error)],
            },
            Err(why) => {
                let message = format!("frame {} of the recording: {why}", number + 1);
                vec![FeedMessage::Error(FeedError { message, is_no_device: false, since: unix_time() })]
            }
        }
    }

    fn time(&mut self, number: usize) -> Option<UnixTime> {
        ttmon_json::time_of(self.reader.line(number).ok()?)
    }

    fn until_next(&mut self, position: &ReplayPosition) -> Duration {
        let (now, next) = (self.time(position.at), self.time(position.at + 1));
        let pause = now.zip(next).map_or(PAUSE_UNKNOWN, |(now, next)| Duration::from_nanos(next.0.saturating_sub(now.0)));
        (pause.min(PAUSE_MAX) * SPEEDS[SPEED_OWN]) / position.speed
    }

    fn obey(&mut self, request: &Request, position: &mut ReplayPosition) {
        let last = position.count - 1;
        match request {
            Request::Pause => {
                // At the end, start again from the beginning.
                if position.is_paused && position.at == last {
                    position.at = 0;
                }
                position.is_paused = !position.is_paused;
            }
            Request::Step(step) => {
                position.is_paused = true;
                position.at = self.stepped(position.at, *step);
            }
            Request::Jump(step) => {
                position.at = match (step, self.time(position.at)) {
                    (step, None) => self.stepped(position.at, *step),
                    (Step::Before, Some(now)) => self.not_after(UnixTime(now.0.saturating_sub(JUMP_NANOS))).min(position.at),
                    (Step::After, Some(now)) => self.not_before(UnixTime(now.0.saturating_add(JUMP_NANOS)), position.at),
                };
            }
            Request::Speed(step) => {
                let place = SPEEDS.iter().position(|speed| *speed == position.speed).unwrap_or(SPEED_OWN);
                position.speed = SPEEDS[bounded(place, *step, SPEEDS.len())];
            }
            Request::Deep(_) | Request::Interval(_) | Request::Now | Request::Buffers(_) | Request::Environment(_) => {}
        }
    }
}

/// Waits for a request. Returns `None` at the given time, and an error if the sender was dropped.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::mpsc::channel;
    use ttmon_json::recording::Writer;

    const SECOND: u64 = 1_000_000_000;

    /// Creates a recording with one zstd frame per group of times, in seconds. One zstd frame may be damaged.
    fn replay(groups: &[&[u64]], damaged: Option<usize>) -> Replay {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, "0.1.0", UnixTime(0)).unwrap();
        for group in groups {
            for second in *group {
                let mut snapshot = crate::tests::machine::n300();
                snapshot.time = UnixTime((1000 + second) * SECOND);
                let time = snapshot.time;
                writer.push(&crate::line_of(snapshot, "0.1.0", &[]), time).unwrap();
            }
            writer.flush().unwrap();
        }
        drop(writer);
        if let Some(damaged) = damaged {
            // The marks have the offsets of the zstd frames. The first mark is the header's.
            let mut offset = 0;
            for _ in 0..damaged {
                offset += 28 + usize::try_from(u64::from_le_bytes(bytes[offset + 8..offset + 16].try_into().unwrap())).unwrap();
            }
            bytes[offset + 40..offset + 70].fill(0xff);
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        Replay { reader: Reader::new(BufReader::new(file)).unwrap(), selection: Selection::default() }
    }

    fn position(at: usize, count: usize) -> ReplayPosition {
        ReplayPosition { at, count, speed: SPEEDS[SPEED_OWN], is_paused: true, is_cut: false }
    }

    #[test]
    fn a_minute_is_a_minute() {
        let mut replay = replay(&[&[0, 1, 2, 3, 4], &[5, 58, 59, 60, 61], &[700, 701]], None);
        let mut jump = |at, step| {
            let mut position = position(at, 12);
            replay.obey(&Request::Jump(step), &mut position);
            position.at
        };
        assert_eq!(jump(0, Step::After), 8, "at 60 s");
        assert_eq!(jump(2, Step::After), 10, "over the gap");
        assert_eq!(jump(11, Step::After), 11);
        assert_eq!(jump(9, Step::Before), 1, "at 1 s");
        assert_eq!(jump(10, Step::Before), 9, "over the gap");
        assert_eq!(jump(3, Step::Before), 0);
    }

    #[test]
    fn a_damaged_beginning_is_skipped() {
        // The first document has its own zstd frame, independent of the next.
        let replay = replay(&[&[0], &[1, 2, 3]], Some(1));
        let (sender, requests) = channel();
        let received = std::cell::RefCell::new(Vec::new());
        // The receiver is dropped after the first position.
        replay.run(&requests, |message| {
            let is_position = matches!(message, FeedMessage::Position(_));
            received.borrow_mut().push(message);
            !is_position
        });
        drop(sender);
        let received = received.into_inner();
        assert!(matches!(&received[0], FeedMessage::Snapshot(snapshot) if snapshot.time == UnixTime(1001 * SECOND)), "{received:?}");
        assert!(matches!(received.last(), Some(FeedMessage::Position(ReplayPosition { at: 1, count: 4, .. }))));
    }

    /// Returns all messages of a replay for these requests. The replay stops at its end.
    fn messages(replay: Replay, sent: &[Request]) -> Vec<FeedMessage> {
        let (sender, requests) = channel();
        for request in sent {
            sender.send(request.clone()).unwrap();
        }
        drop(sender);
        let received = std::cell::RefCell::new(Vec::new());
        replay.run(&requests, |message| {
            received.borrow_mut().push(message);
            true
        });
        received.into_inner()
    }

    #[test]
    fn only_selected_devices_are_sent() {
        let with = |list: &str| Replay { selection: Selection::parse(list).unwrap(), ..replay(&[&[0]], None) };
        let one = messages(with("1"), &[]);
        let ids = |snapshot: &ttmon_model::Snapshot| snapshot.devices.iter().map(|device| device.id.0).collect::<Vec<_>>();
        assert!(matches!(&one[0], FeedMessage::Snapshot(snapshot) if ids(snapshot) == [1]), "{one:?}");
        let none = messages(with("7"), &[]);
        assert!(
            matches!(&none[0], FeedMessage::Error(error) if error.is_no_device && error.message.contains("no device 7 (available: 0-1)")),
            "{none:?}"
        );
    }

    #[test]
    fn variables_are_reported_as_absent() {
        let process = crate::tests::machine::n300().processes[0].key;
        let received = messages(replay(&[&[0]], None), &[Request::Now, Request::Environment(process)]);
        let Some(FeedMessage::Environment(of, Err(why))) = received.last() else { panic!("{received:?}") };
        assert!(*of == process && why.to_string().contains("not recorded"), "{why}");
        assert_eq!(received.iter().filter(|message| matches!(message, FeedMessage::Position(_))).count(), 1, "nothing has moved");
    }

    #[test]
    fn a_damaged_part_is_one_stop_and_takes_its_time() {
        let mut replay = replay(&[&[0], &[1], &[2, 3, 4], &[5]], Some(3));
        assert_eq!(replay.following(1), 2);
        assert_eq!(replay.following(2), 5);
        assert_eq!(replay.until_next(&position(2, 6)), PAUSE_UNKNOWN);
        assert_eq!(replay.until_next(&position(0, 6)), Duration::from_secs(1));
    }
}
