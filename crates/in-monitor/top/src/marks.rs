//! Changes of a machine between two snapshots: marks on the time axis, and the newest events of the main view.

use std::collections::VecDeque;

use ttmon_model::Snapshot;
use ttmon_model::event::{BufferEvent, Op};
use ttmon_model::snapshot::{Severity, State as DeviceState};
use ttmon_model::units::UnixTime;
use ttmon_print::quantity::size;

const MARKS_MAX: usize = 100;

/// The kind of a mark, in the order of `Glyphs::marks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkKind {
    Started,
    Ended,
    Reset,
    Refused,
}

impl MarkKind {
    pub(crate) fn severity(self) -> Severity {
        match self {
            Self::Started | Self::Ended => Severity::Fine,
            Self::Reset => Severity::Warning,
            Self::Refused => Severity::Critical,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) time: UnixTime,
    pub(crate) kind: MarkKind,
    pub(crate) text: String,
}

#[derive(Debug, Default)]
pub(crate) struct Marks(VecDeque<Mark>);

impl Marks {
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Mark> {
        self.0.iter()
    }

    pub(crate) fn compare(&mut self, before: &Snapshot, after: &Snapshot) {
        let time = after.time;
        let is_in = |snapshot: &Snapshot, key| snapshot.processes.iter().any(|process| process.key == key);
        let name = |process: &ttmon_model::Process| process.title().unwrap_or_else(|_| "?".to_owned());
        for process in after.processes.iter().filter(|process| !is_in(before, process.key)) {
            let text = format!("process {} started: {}", process.key.pid, name(process));
            self.push(Mark { time, kind: MarkKind::Started, text });
        }
        for process in before.processes.iter().filter(|process| !is_in(after, process.key)) {
            let text = format!("process {} ended: {}", process.key.pid, name(process));
            self.push(Mark { time, kind: MarkKind::Ended, text });
        }
        let is_reset = |snapshot: &Snapshot, id| snapshot.device(id).is_some_and(|device| device.state == DeviceState::Resetting);
        for device in after.devices.iter().filter(|device| is_reset(after, device.id) && !is_reset(before, device.id)) {
            self.push(Mark { time, kind: MarkKind::Reset, text: format!("device {} is being reset", device.id) });
        }
    }

    pub(crate) fn note_refusals(&mut self, events: &[BufferEvent], now: UnixTime) {
        for event in events.iter().filter(|event| event.op == Op::OutOfMemory) {
            let bytes = event.size.map_or_else(String::new, |bytes| format!(" {}", size(bytes)));
            let text = format!("process {}: an allocation of{bytes} was refused", event.pid);
            self.push(Mark { time: event.time.unwrap_or(now), kind: MarkKind::Refused, text });
        }
    }

    fn push(&mut self, mark: Mark) {
        if self.0.len() == MARKS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::machine;

    #[test]
    fn starts_ends_and_resets_are_marked() {
        let before = machine::n300();
        let mut after = before.clone();
        let mut new = after.processes[0].clone();
        new.key.pid += 10_000;
        after.processes.remove(0);
        after.processes.push(new);
        after.devices[0].state = DeviceState::Resetting;
        let mut marks = Marks::default();
        marks.compare(&before, &after);
        marks.compare(&after, &after);
        let kinds: Vec<MarkKind> = marks.iter().map(|mark| mark.kind).collect();
        assert_eq!(kinds, [MarkKind::Started, MarkKind::Ended, MarkKind::Reset]);
        for _ in 0..200 {
            marks.compare(&before, &after);
        }
        assert_eq!(marks.iter().count(), MARKS_MAX);
    }
}
