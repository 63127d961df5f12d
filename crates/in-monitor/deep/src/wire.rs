//! Encodes a sample for the transfer from the reading process to its parent.

use std::time::Duration;

use ttmon_model::deep::{Counters, DeepSample, Dispatch, Queue, SubDevice};
use ttmon_model::{Missing, Reading};

/// Maximum length of a sample. 29 tags and 3 queues need less than 2 KiB.
pub(crate) const SAMPLE_BYTES_MAX: usize = 64 * 1024;

/// Encodes a sample.
pub fn encode(sample: &Reading<DeepSample>) -> Vec<u8> {
    let mut out = Output(Vec::new());
    let Some(sample) = out.reading(sample) else { return out.0 };
    out.number(nanos(sample.age));
    out.count(sample.tags.len());
    for (tag, value) in &sample.tags {
        out.number(u64::from(*tag));
        out.number(u64::from(*value));
    }
    let Some(dispatch) = out.reading(&sample.dispatch) else { return out.0 };
    out.option(dispatch.worker_cores.map(u64::from));
    out.option(dispatch.elapsed.map(nanos));
    out.count(dispatch.queues.len());
    for queue in &dispatch.queues {
        out.counters(&queue.now);
        out.option(queue.before.as_ref().map(|_| 1));
        if let Some(before) = &queue.before {
            out.counters(before);
        }
    }
    out.0
}

/// Decodes the result of [`encode`]. Returns `None` for anything else.
pub fn decode(bytes: &[u8]) -> Option<Reading<DeepSample>> {
    let mut input = Input(bytes);
    if let Some(reason) = input.reason()? {
        return Some(Err(reason));
    }
    let age = Duration::from_nanos(input.number()?);
    let tags = input.list(|input| Some((input.small()?, input.word()?)))?;
    if let Some(reason) = input.reason()? {
        return Some(Ok(DeepSample { age, tags, dispatch: Err(reason) }));
    }
    let worker_cores = input.option(Input::word)?;
    let elapsed = input.option(Input::number)?.map(Duration::from_nanos);
    let queues = input.list(|input| {
        let now = input.counters()?;
        let has_before = input.option(Input::number)?.is_some();
        Some(Queue { now, before: if has_before { Some(input.counters()?) } else { None } })
    })?;
    input.0.is_empty().then_some(Ok(DeepSample { age, tags, dispatch: Ok(Dispatch { worker_cores, elapsed, queues }) }))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

struct Output(Vec<u8>);

impl Output {
    fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    fn count(&mut self, count: usize) {
        self.number(count as u64);
    }

    fn option(&mut self, number: Option<u64>) {
        self.0.push(u8::from(number.is_some()));
        if let Some(number) = number {
            self.number(number);
        }
    }

    /// Writes that a value follows, or the reason why it is missing. Returns the value.
    fn reading<'a, T>(&mut self, reading: &'a Reading<T>) -> Option<&'a T> {
        let reason = reading.as_ref().err().and_then(|reason| Missing::ALL.iter().position(|known| known == reason));
        self.0.push(reason.map_or(0, |index| u8::try_from(index + 1).unwrap_or(u8::MAX)));
        reading.as_ref().ok()
    }

    fn counters(&mut self, counters: &Counters) {
        let Counters { blocked, unblocked, programs, timestamp, average_runtime, busy, busy_since, sub_devices } = counters;
        for number in [u64::from(*blocked), u64::from(*unblocked), u64::from(*programs), *timestamp, *average_runtime, *busy, *busy_since] {
            self.number(number);
        }
        self.count(sub_devices.len());
        for part in sub_devices {
            for number in [u64::from(part.workers), u64::from(part.completed), part.launched, part.runtime] {
                self.number(number);
            }
        }
    }
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn word(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    fn small(&mut self) -> Option<u16> {
        self.number()?.try_into().ok()
    }

    fn option<T>(&mut self, take: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.byte()? {
            0 => Some(None),
            1 => take(self).map(Some),
            _ => None,
        }
    }

    /// Reads a list. Each element takes at least one byte, so a wrong count cannot cause a large allocation.
    fn list<T>(&mut self, mut take: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = usize::try_from(self.number()?).ok().filter(|count| *count <= self.0.len())?;
        (0..count).map(|_| take(self)).collect()
    }

    fn reason(&mut self) -> Option<Option<Missing>> {
        match self.byte()? {
            0 => Some(None),
            index => Missing::ALL.get(usize::from(index) - 1).copied().map(Some),
        }
    }

    fn counters(&mut self) -> Option<Counters> {
        Some(Counters {
            blocked: self.word()?,
            unblocked: self.word()?,
            programs: self.word()?,
            timestamp: self.number()?,
            average_runtime: self.number()?,
            busy: self.number()?,
            busy_since: self.number()?,
            sub_devices: self.list(|input| {
                Some(SubDevice { workers: input.word()?, completed: input.word()?, launched: input.number()?, runtime: input.number()? })
            })?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counters() -> impl Strategy<Value = Counters> {
        let part = (any::<u32>(), any::<u32>(), any::<u64>(), any::<u64>());
        let part = part.prop_map(|(workers, completed, launched, runtime)| SubDevice { workers, completed, launched, runtime });
        let times = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
        (any::<[u32; 3]>(), times, prop::collection::vec(part, 0..9)).prop_map(|([blocked, unblocked, programs], times, sub_devices)| {
            let (timestamp, average_runtime, busy, busy_since) = times;
            Counters { blocked, unblocked, programs, timestamp, average_runtime, busy, busy_since, sub_devices }
        })
    }

    fn reason() -> impl Strategy<Value = Missing> {
        prop::sample::select(Missing::ALL.to_vec())
    }

    fn sample() -> impl Strategy<Value = DeepSample> {
        let queue = (counters(), prop::option::of(counters())).prop_map(|(now, before)| Queue { now, before });
        let dispatch = (prop::option::of(any::<u32>()), prop::option::of(any::<u64>()), prop::collection::vec(queue, 0..4))
            .prop_map(|(worker_cores, elapsed, queues)| Dispatch { worker_cores, elapsed: elapsed.map(Duration::from_nanos), queues });
        let dispatch = prop_oneof![dispatch.prop_map(Ok), reason().prop_map(Err)];
        (any::<u64>(), prop::collection::vec(any::<(u16, u32)>(), 0..40), dispatch).prop_map(|(age, tags, dispatch)| DeepSample {
            age: Duration::from_nanos(age),
            tags,
            dispatch,
        })
    }

    proptest! {
        #[test]
        fn samples_round_trip(sample in prop_oneof![sample().prop_map(Ok), reason().prop_map(Err)]) {
            let bytes = encode(&sample);
            prop_assert!(bytes.len() <= SAMPLE_BYTES_MAX);
            prop_assert_eq!(decode(&bytes), Some(sample));
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode(&bytes);
        }
    }
}
