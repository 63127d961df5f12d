//! Writes the Chrome trace format, which Perfetto's page opens: counters by kind, spans of buffers, and refusals.

use std::collections::HashMap;
use std::io::{self, Write};

use serde_json::{Map, Value, json};
use ttmon_json::{Layout, to_string};
use ttmon_model::stack::user_line;
use ttmon_model::units::UnixTime;

use crate::spool::{Action, Record};
use crate::trace::{KINDS, Trace, kind_name};

/// Requested bytes of each kind.
type Used = [i128; KINDS.len()];

/// Writes a trace as JSON.
pub fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let mut file = File { trace, out, is_first: true, spans: HashMap::new(), next: 1 };
    file.out.write_all(b"{\"displayTimeUnit\":\"ms\",\"otherData\":")?;
    let about = about(trace);
    file.out.write_all(to_string(&about, Layout::Line).as_bytes())?;
    file.out.write_all(b",\"traceEvents\":[")?;
    for (chip, traced) in (0..).zip(&trace.chips) {
        file.event(&json!({"ph": "M", "name": "process_name", "pid": chip, "tid": 0, "args": {"name": traced.chip.name}}))?;
        file.event(&json!({"ph": "M", "name": "process_sort_index", "pid": chip, "tid": 0, "args": {"sort_index": traced.chip.number}}))?;
        file.chip(chip)?;
    }
    file.out.write_all(b"\n]}\n")
}

fn about(trace: &Trace) -> Value {
    json!({
        "ttmon": trace.about.version,
        "title": trace.about.title,
        "complete_since": trace.complete_since().map_or_else(|| "start".to_owned(), |time| UnixTime(time).rfc3339()),
        "lost_events": trace.lost(),
        "start_time": UnixTime(trace.span().0).rfc3339(),
        "note": trace.about.note,
    })
}

struct File<'t, 'w> {
    trace: &'t Trace,
    out: &'w mut dyn Write,
    is_first: bool,
    /// Open spans by address: number and name. Numbers must be local to a chip's process, or Perfetto draws them elsewhere.
    spans: HashMap<u64, (u64, String)>,
    next: u64,
}

impl File<'_, '_> {
    fn event(&mut self, event: &Value) -> io::Result<()> {
        self.out.write_all(if std::mem::take(&mut self.is_first) { b"\n" } else { b",\n" })?;
        self.out.write_all(to_string(event, Layout::Line).as_bytes())
    }

    /// Returns the microseconds since the start of the trace.
    fn time(&self, time: u64) -> f64 {
        time.saturating_sub(self.trace.span().0) as f64 / 1000.0
    }

    fn chip(&mut self, chip: u32) -> io::Result<()> {
        let trace = self.trace;
        let mut used = self.at_start(chip)?;
        self.counter(chip, trace.span().0, &used)?;
        // A buffer from before the trace has a span that begins with the trace.
        let (mut before, mut live): (Vec<Record>, HashMap<u64, Record>) = (Vec::new(), HashMap::new());
        trace.spool.each(|record| {
            match record.action {
                _ if !trace.is_on(record, chip) => {}
                Action::Alloc => drop(live.insert(record.address, *record)),
                Action::Free if live.remove(&record.address).is_none() => before.push(*record),
                _ => {}
            }
            Ok(())
        })?;
        before.extend(trace.live_on(chip).into_values().filter(|record| !live.contains_key(&record.address)));
        for record in before {
            self.begin(chip, &record, trace.span().0)?;
        }
        trace.spool.each(|record| {
            let is_here = trace.is_on(record, chip) || record.action == Action::Mark;
            if is_here { self.record(chip, record, &mut used) } else { Ok(()) }
        })?;
        let end = trace.span().1;
        let mut open: Vec<(u64, String)> = std::mem::take(&mut self.spans).into_values().collect();
        // The same trace is always the same file.
        open.sort_unstable();
        for (number, name) in open {
            // The buffer is still live, so its span ends with the trace.
            self.end(chip, number, &name, end)?;
        }
        self.counter(chip, end, &used)
    }

    /// Returns the bytes in use at the start of the trace: the live bytes at its end, minus the changes of the events.
    fn at_start(&self, chip: u32) -> io::Result<Used> {
        let mut used: Used = [0; KINDS.len()];
        for record in self.trace.live_on(chip).values() {
            add(&mut used, record, 1);
        }
        self.trace.spool.each(|record| {
            match record.action {
                _ if !self.trace.is_on(record, chip) => {}
                Action::Alloc => add(&mut used, record, -1),
                Action::Free => add(&mut used, record, 1),
                _ => {}
            }
            Ok(())
        })?;
        Ok(used)
    }

    fn record(&mut self, chip: u32, record: &Record, used: &mut Used) -> io::Result<()> {
        match record.action {
            Action::Alloc => {
                add(used, record, 1);
                self.begin(chip, record, record.time)?;
                self.counter(chip, record.time, used)
            }
            Action::Free => {
                add(used, record, -1);
                if let Some((number, name)) = self.spans.remove(&record.address) {
                    self.end(chip, number, &name, record.time)?;
                }
                self.counter(chip, record.time, used)
            }
            Action::OutOfMemory | Action::Clash => {
                let name = if record.action == Action::Clash { "clash" } else { "out of memory" };
                let mut args = self.args(record);
                args["largest_free"] = record.free.into();
                let (time, kind) = (self.time(record.time), kind_name(record.kind));
                self.event(&json!({"ph": "i", "s": "p", "name": name, "cat": kind, "pid": chip, "tid": 0, "ts": time, "args": args}))
            }
            Action::Mark => {
                let time = self.time(record.time);
                self.event(&json!({"ph": "i", "s": "p", "name": "mark", "cat": "mark", "pid": chip, "tid": 0, "ts": time}))
            }
        }
    }

    fn counter(&mut self, chip: u32, time: u64, used: &Used) -> io::Result<()> {
        let kinds = KINDS.iter().zip(used).map(|(kind, used)| (kind.name().to_owned(), u64::try_from(*used).unwrap_or(0).into()));
        let kinds: Map<String, Value> = kinds.collect();
        let time = self.time(time);
        self.event(&json!({"ph": "C", "name": "device memory", "pid": chip, "tid": 0, "ts": time, "args": kinds}))
    }

    fn begin(&mut self, chip: u32, record: &Record, time: u64) -> io::Result<()> {
        let (name, args) = (self.name(record), self.args(record));
        let number = self.next;
        self.next += 1;
        let time = self.time(time);
        let id = format!("{number:#x}");
        self.event(
            &json!({"ph": "b", "cat": "buffer", "name": name, "id2": {"local": id}, "pid": chip, "tid": 0, "ts": time, "args": args}),
        )?;
        self.spans.insert(record.address, (number, name));
        Ok(())
    }

    fn end(&mut self, chip: u32, number: u64, name: &str, time: u64) -> io::Result<()> {
        let time = self.time(time);
        let id = format!("{number:#x}");
        self.event(&json!({"ph": "e", "cat": "buffer", "name": name, "id2": {"local": id}, "pid": chip, "tid": 0, "ts": time}))
    }

    /// Returns the name of a span: the line, the tag or the operation that created the buffer, or else its kind.
    fn name(&self, record: &Record) -> String {
        let line = self.trace.stacks.get(record.stack as usize).and_then(|stack| user_line(stack.iter()));
        let text = |number: u32| self.trace.text_of(number).map(str::to_owned);
        let name = line.map(ToString::to_string).or_else(|| text(record.tag)).or_else(|| text(record.operation));
        name.unwrap_or_else(|| kind_name(record.kind).to_owned())
    }

    fn args(&self, record: &Record) -> Value {
        let stack = self.trace.stacks.get(record.stack as usize).filter(|stack| !stack.is_empty());
        let frames =
            stack.map(|stack| stack.iter().map(|line| format!("{}:{} {}", line.file, line.line, line.function)).collect::<Vec<_>>());
        let process = self.trace.processes.get(record.owner as usize);
        json!({
            "kind": kind_name(record.kind),
            "size": record.requested,
            "allocated": record.size,
            "address": format!("{:#x}", record.address),
            "tag": self.trace.text_of(record.tag),
            "op": self.trace.text_of(record.operation),
            "pid": process.map(|process| process.pid),
            "program": process.map(|process| &process.name),
            "stack": frames,
        })
    }
}

fn add(used: &mut Used, record: &Record, sign: i128) {
    if let Some(used) = used.get_mut(usize::from(record.kind)) {
        *used += sign * i128::from(record.requested);
    }
}
