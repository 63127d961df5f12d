//! Encodes a sample for the transfer from the reading process to its parent.

use std::time::Duration;

use ttmon_model::deep::{Counters, DeepSample, Dispatch, Queue, SubDevice};
use ttmon_model::{Missing, Reading};
use ttmon_os::frame::{FrameBuffer, FrameInput};

/// Maximum length of a sample. 29 tags and 3 queues need less than 2 KiB.
pub(crate) const SAMPLE_BYTES_MAX: usize = 64 * 1024;

/// Encodes a sample.
pub fn encode(sample: &Reading<DeepSample>) -> FrameBuffer {
    let mut out = FrameBuffer::default();
    out.begin();
    let Some(sample) = put_reading(&mut out, sample) else { return out };
    out.number(nanos(sample.age));
    out.length(sample.tags.len());
    for (tag, value) in &sample.tags {
        out.number(u64::from(*tag));
        out.number(u64::from(*value));
    }
    let Some(dispatch) = put_reading(&mut out, &sample.dispatch) else { return out };
    put_option(&mut out, dispatch.worker_cores.map(u64::from));
    put_option(&mut out, dispatch.elapsed.map(nanos));
    out.length(dispatch.queues.len());
    for queue in &dispatch.queues {
        put_counters(&mut out, &queue.now);
        put_option(&mut out, queue.before.as_ref().map(|_| 1));
        if let Some(before) = &queue.before {
            put_counters(&mut out, before);
        }
    }
    out
}

/// Decodes the result of [`encode`]. Returns `None` for anything else.
pub fn decode(mut input: FrameInput<'_>) -> Option<Reading<DeepSample>> {
    let input = &mut input;
    if let Some(reason) = reason(input)? {
        return Some(Err(reason));
    }
    let age = Duration::from_nanos(input.number()?);
    let tags = list(input, |input| Some((input.number()?.try_into().ok()?, word(input)?)))?;
    if let Some(reason) = reason(input)? {
        return Some(Ok(DeepSample { age, tags, dispatch: Err(reason) }));
    }
    let worker_cores = option(input, word)?;
    let elapsed = option(input, |input| input.number())?.map(Duration::from_nanos);
    let queues = list(input, |input| {
        let now = counters(input)?;
        let has_before = option(input, |input| input.number())?.is_some();
        Some(Queue { now, before: if has_before { Some(counters(input)?) } else { None } })
    })?;
    input.0.is_empty().then_some(Ok(DeepSample { age, tags, dispatch: Ok(Dispatch { worker_cores, elapsed, queues }) }))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn put_option(out: &mut FrameBuffer, number: Option<u64>) {
    out.byte(u8::from(number.is_some()));
    if let Some(number) = number {
        out.number(number);
    }
}

/// Writes that a value follows, or the reason why it is missing. Returns the value.
fn put_reading<'a, T>(out: &mut FrameBuffer, reading: &'a Reading<T>) -> Option<&'a T> {
    let reason = reading.as_ref().err().and_then(|reason| Missing::ALL.iter().position(|known| known == reason));
    out.byte(reason.map_or(0, |index| u8::try_from(index + 1).unwrap_or(u8::MAX)));
    reading.as_ref().ok()
}

fn put_counters(out: &mut FrameBuffer, counters: &Counters) {
    let Counters { blocked, unblocked, programs, timestamp, average_runtime, busy, busy_since, sub_devices } = counters;
    for number in [u64::from(*blocked), u64::from(*unblocked), u64::from(*programs), *timestamp, *average_runtime, *busy, *busy_since] {
        out.number(number);
    }
    out.length(sub_devices.len());
    for part in sub_devices {
        for number in [u64::from(part.workers), u64::from(part.completed), part.launched, part.runtime] {
            out.number(number);
        }
    }
}

fn word(input: &mut FrameInput<'_>) -> Option<u32> {
    input.number()?.try_into().ok()
}

fn option<T>(input: &mut FrameInput<'_>, take: impl FnOnce(&mut FrameInput<'_>) -> Option<T>) -> Option<Option<T>> {
    match input.byte()? {
        0 => Some(None),
        1 => take(input).map(Some),
        _ => None,
    }
}

/// Reads a list. Each element takes at least one byte, so a wrong count cannot cause a large allocation.
fn list<T>(input: &mut FrameInput<'_>, mut take: impl FnMut(&mut FrameInput<'_>) -> Option<T>) -> Option<Vec<T>> {
    let count = input.length().filter(|count| *count <= input.0.len())?;
    (0..count).map(|_| take(input)).collect()
}

fn reason(input: &mut FrameInput<'_>) -> Option<Option<Missing>> {
    match input.byte()? {
        0 => Some(None),
        index => Missing::ALL.get(usize::from(index) - 1).copied().map(Some),
    }
}

fn counters(input: &mut FrameInput<'_>) -> Option<Counters> {
    Some(Counters {
        blocked: word(input)?,
        unblocked: word(input)?,
        programs: word(input)?,
        timestamp: input.number()?,
        average_runtime: input.number()?,
        busy: input.number()?,
        busy_since: input.number()?,
        sub_devices: list(input, |input| {
            Some(SubDevice { workers: word(input)?, completed: word(input)?, launched: input.number()?, runtime: input.number()? })
        })?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_counters() -> impl Strategy<Value = Counters> {
        let part = (any::<u32>(), any::<u32>(), any::<u64>(), any::<u64>());
        let part = part.prop_map(|(workers, completed, launched, runtime)| SubDevice { workers, completed, launched, runtime });
        let times = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
        (any::<[u32; 3]>(), times, prop::collection::vec(part, 0..9)).prop_map(|([blocked, unblocked, programs], times, sub_devices)| {
            let (timestamp, average_runtime, busy, busy_since) = times;
            Counters { blocked, unblocked, programs, timestamp, average_runtime, busy, busy_since, sub_devices }
        })
    }

    fn any_reason() -> impl Strategy<Value = Missing> {
        prop::sample::select(Missing::ALL.to_vec())
    }

    fn sample() -> impl Strategy<Value = DeepSample> {
        let queue = (any_counters(), prop::option::of(any_counters())).prop_map(|(now, before)| Queue { now, before });
        let dispatch = (prop::option::of(any::<u32>()), prop::option::of(any::<u64>()), prop::collection::vec(queue, 0..4))
            .prop_map(|(worker_cores, elapsed, queues)| Dispatch { worker_cores, elapsed: elapsed.map(Duration::from_nanos), queues });
        let dispatch = prop_oneof![dispatch.prop_map(Ok), any_reason().prop_map(Err)];
        (any::<u64>(), prop::collection::vec(any::<(u16, u32)>(), 0..40), dispatch).prop_map(|(age, tags, dispatch)| DeepSample {
            age: Duration::from_nanos(age),
            tags,
            dispatch,
        })
    }

    proptest! {
        #[test]
        fn samples_round_trip(sample in prop_oneof![sample().prop_map(Ok), any_reason().prop_map(Err)]) {
            let frame = encode(&sample);
            prop_assert!(frame.body().0.len() <= SAMPLE_BYTES_MAX);
            prop_assert_eq!(decode(frame.body()), Some(sample));
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode(FrameInput(&bytes));
        }
    }
}
