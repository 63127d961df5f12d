//! Traces of a program, and the buffers that were allocated after the capture of a trace and live at its replay.
//!
//! A trace writes to the addresses that were free at its capture. A buffer that was allocated there since is overwritten.

use std::collections::{BTreeMap, HashMap};

use ttmon_ledger_reader::Lines;
use ttmon_model::phase::UnsafeTrace;
use ttmon_model::room::HeldByLine;

use crate::live::{LiveBuffer, RowKey};

/// Maximum number of traces at a time. A program has only a few.
const TRACES_MAX: usize = 1024;
/// Maximum number of stacks with overwritten buffers that are stored for each trace.
const STACKS_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Traces {
    traces: Vec<Trace>,
    /// Buffers that were allocated while a trace existed, by the event of the allocation.
    young: BTreeMap<u64, (RowKey, LiveBuffer)>,
}

#[derive(Debug)]
struct Trace {
    allocator: u16,
    id: u64,
    /// The event at which its capture ended.
    captured: Option<u64>,
    /// The event of the last replay.
    replayed: u64,
    replays: u64,
    is_released: bool,
    /// Count and bytes of overwritten buffers, by stack.
    overwritten: HashMap<u32, (u64, u64)>,
}

impl Traces {
    pub(crate) fn begin(&mut self, allocator: u16, id: u64) {
        self.release(allocator, id);
        if self.traces.len() < TRACES_MAX {
            let (captured, replayed, replays, is_released) = (None, 0, 0, false);
            self.traces.push(Trace { allocator, id, captured, replayed, replays, is_released, overwritten: HashMap::new() });
        }
    }

    pub(crate) fn end(&mut self, allocator: u16, id: u64, event: u64) {
        if let Some(trace) = active(&mut self.traces, allocator, id) {
            trace.captured = Some(event);
        }
    }

    pub(crate) fn replay(&mut self, allocator: u16, id: u64, event: u64) {
        let Self { traces, young } = self;
        let Some(trace) = active(traces, allocator, id) else { return };
        trace.replays += 1;
        let Some(captured) = trace.captured else { return };
        // Buffers that are older than the last replay were counted there.
        let from = captured.max(trace.replayed) + 1;
        for (row, buffer) in young.range(from..event).map(|(_, young)| young) {
            if row.0 == allocator && (trace.overwritten.len() < STACKS_MAX || trace.overwritten.contains_key(&buffer.stack)) {
                let (count, bytes) = trace.overwritten.entry(buffer.stack).or_default();
                (*count, *bytes) = (*count + 1, bytes.saturating_add(buffer.size));
            }
        }
        trace.replayed = event;
    }

    pub(crate) fn release(&mut self, allocator: u16, id: u64) {
        if let Some(trace) = active(&mut self.traces, allocator, id) {
            trace.is_released = true;
        }
        if !self.traces.iter().any(|trace| !trace.is_released) {
            self.young.clear();
        }
    }

    pub(crate) fn added(&mut self, row: RowKey, buffer: &LiveBuffer) {
        if self.traces.iter().any(|trace| !trace.is_released && trace.captured.is_some() && trace.allocator == row.0) {
            self.young.insert(buffer.event, (row, *buffer));
        }
    }

    pub(crate) fn removed(&mut self, buffer: &LiveBuffer) {
        self.young.remove(&buffer.event);
    }

    /// Records that events are missing, so the live buffers are unknown.
    pub(crate) fn interrupt(&mut self) {
        self.young.clear();
    }

    pub(crate) fn report(&self, lines: &Lines) -> Vec<UnsafeTrace> {
        let unsafe_traces = self.traces.iter().filter(|trace| !trace.overwritten.is_empty());
        let report = |trace: &Trace| {
            let overwritten = trace.overwritten.iter().map(|(stack, (count, bytes))| (lines.line(*stack), *count, *bytes));
            let lines = HeldByLine::collect(overwritten);
            UnsafeTrace { id: trace.id, slot: trace.allocator, replays: trace.replays, lines }
        };
        unsafe_traces.map(report).collect()
    }
}

fn active(traces: &mut [Trace], allocator: u16, id: u64) -> Option<&mut Trace> {
    traces.iter_mut().rfind(|trace| !trace.is_released && (trace.allocator, trace.id) == (allocator, id))
}
