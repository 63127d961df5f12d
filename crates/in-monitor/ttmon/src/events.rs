//! `ttmon events`: prints the recorded events of tracked processes, from a service or from the ledgers of this machine.

use std::collections::{HashMap, VecDeque};
use std::io::{self, IsTerminal};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ttmon_buffer_history::Recorder;
use ttmon_collect::reads::Sampling;
use ttmon_hosts::{RequestError, Service};
use ttmon_model::DeviceId;
use ttmon_model::event::{BufferEvent, Op};
use ttmon_model::units::UnixTime;
use ttmon_print::Style;

use crate::cli::EventsArgs;
use crate::failure::{Failure, print_error};
use crate::invocation::{Context, OutputFormat};
use crate::mem::nothing_of;
use crate::open::{MachineRequest, OpenMachine, choose};
use crate::output::Output;
use crate::server::{self, ServiceEvents};
use crate::show::VERSION;

/// Interval between two reads with `--follow`.
const INTERVAL: Duration = Duration::from_millis(100);
/// Text is written in pieces of this size.
const TEXT_BYTES: usize = 64 * 1024;

/// Prints the recorded events, and with `--follow` new ones.
pub(crate) fn run(context: &Context, args: &EventsArgs) -> Result<(), Failure> {
    let mut page = Page::new(context, args);
    for service in &server::services(context) {
        match ask(context, args, service, &mut page) {
            Ok(()) => return Ok(()),
            Err(ServiceError::Without(why)) => server::report_fallback(service, &why),
            Err(ServiceError::Failed(failure)) => return Err(failure),
        }
    }
    read_here(context, args, &mut page)
}

/// Why the answer of a service was not complete.
enum ServiceError {
    /// The service did not answer, or stopped. The ledgers can be read here instead.
    Without(String),
    Failed(Failure),
}

impl From<RequestError> for ServiceError {
    fn from(error: RequestError) -> Self {
        Self::Without(error.to_string())
    }
}

impl From<Failure> for ServiceError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Prints the events of a service. It finds new processes at its own interval, and also has some ended processes.
fn ask(context: &Context, args: &EventsArgs, service: &Service, page: &mut Page<'_>) -> Result<(), ServiceError> {
    let snapshot = server::snapshot(service)?;
    let devices: Vec<DeviceId> = match context.selection.is_empty() {
        true => Vec::new(),
        false => choose(&context.selection, snapshot)?.devices.iter().map(|device| device.id).collect(),
    };
    let Some(mut events) = server::events(service, args.pid, &devices, args.follow)? else {
        // The process may still be found by reading here.
        let why = args.pid.map_or("knows no tracked process".to_owned(), |pid| format!("does not know process {pid}"));
        return Err(ServiceError::Without(why));
    };
    if io::stderr().is_terminal() {
        print_error(&format!("from the service at {}", service.address()));
    }
    print_events(&mut events, page, args.follow)
}

fn print_events(events: &mut ServiceEvents, page: &mut Page<'_>, follow: bool) -> Result<(), ServiceError> {
    loop {
        let event = match events.next() {
            Ok(Some(event)) => event,
            Ok(None) => return Ok(page.flush()?),
            Err(why) => {
                page.flush()?;
                return Err(why.into());
            }
        };
        page.note(&event);
        page.add(&event)?;
        if page.has_ended {
            return Ok(page.flush()?);
        }
        if follow && !events.has_more() {
            page.flush()?;
        }
    }
}

fn read_here(context: &Context, args: &EventsArgs, page: &mut Page<'_>) -> Result<(), Failure> {
    let sampling = if args.follow { Sampling::Repeated } else { Sampling::Once };
    let mut opened = OpenMachine::new(context, MachineRequest::with_ledgers_of(sampling, args.pid))?;
    let mut recorder = Recorder::default();
    loop {
        let snapshot = opened.snapshot()?;
        let news = opened.with_scene(&snapshot, args.pid, |scene, selected| (recorder.read_new(scene), selected.to_vec()));
        let Some((news, selected)) = news else { return Err(Failure::new("no machine was opened")) };
        // A running process may start to track its memory later.
        let may_begin = args.follow && args.pid.is_none_or(|pid| opened.has_process(pid));
        if recorder.is_empty() && !may_begin {
            let failure = opened.with_scene(&snapshot, args.pid, |scene, _| nothing_of(args.pid, scene.snapshot, &opened));
            return failure.filter(|_| !page.has_announced).map_or(Ok(()), Err);
        }
        for event in news.events(&selected) {
            if !page.has(&event) {
                page.add(&event)?;
            }
        }
        page.flush()?;
        if !args.follow || page.has_ended {
            return Ok(());
        }
        thread::sleep(INTERVAL);
    }
}

/// The buffered output, and the events that it already has.
struct Page<'a> {
    format: OutputFormat,
    args: &'a EventsArgs,
    style: Style<'static>,
    text: String,
    /// Number of the last event of each process that came from a service. If the service stops, the remaining events are read from the
    /// ledgers.
    by_service: HashMap<u32, u64>,
    has_announced: bool,
    /// The requested process has exited. Later, another process may have its pid.
    has_ended: bool,
    /// How many of the first lines to print: only the last ones are kept. `None` after they are printed.
    last: Option<usize>,
    /// The kept lines, oldest first.
    kept: VecDeque<String>,
    zone: TimeZone,
}

impl<'a> Page<'a> {
    fn new(context: &Context, args: &'a EventsArgs) -> Self {
        Self {
            format: context.format,
            args,
            style: Style { ascii: context.terminal.ascii, ..Style::plain(VERSION) },
            text: String::new(),
            by_service: HashMap::new(),
            has_announced: false,
            has_ended: false,
            last: args.lines,
            kept: VecDeque::new(),
            zone: if context.format == OutputFormat::Json { TimeZone::UTC } else { TimeZone::system() },
        }
    }

    /// Records that a service sent this event.
    fn note(&mut self, event: &BufferEvent) {
        if let Some(number) = event.number {
            let last = self.by_service.entry(event.pid).or_default();
            *last = number.max(*last);
        }
    }

    /// Whether a service already sent this event. A process may have two recorders, its ledger and the allocation socket, and each numbers
    /// its events separately.
    fn has(&self, event: &BufferEvent) -> bool {
        event.number.is_some_and(|number| self.by_service.get(&event.pid).is_some_and(|last| number <= *last))
    }

    fn add(&mut self, event: &BufferEvent) -> Result<(), Failure> {
        if matches!(event.op, Op::Exit | Op::Exec) {
            // Later events of this pid belong to another recorder.
            self.by_service.remove(&event.pid);
        }
        self.has_announced = true;
        self.has_ended |= event.op == Op::Exit && Some(event.pid) == self.args.pid;
        if matches!((self.args.since, event.time), (Some(since), Some(time)) if time < since) {
            return Ok(());
        }
        let line = if self.format == OutputFormat::Json { ttmon_json::event_line(event) } else { self.line(event) };
        if let Some(last) = self.last {
            self.kept.push_back(line);
            if self.kept.len() > last {
                self.kept.pop_front();
            }
            return Ok(());
        }
        self.text += &line;
        self.text.push('\n');
        if self.text.len() >= TEXT_BYTES { self.flush() } else { Ok(()) }
    }

    fn line(&self, event: &BufferEvent) -> String {
        // Every `UnixTime` is a valid timestamp.
        let local = |time: UnixTime| Timestamp::from_nanosecond(i128::from(time.0)).unwrap_or_default().to_zoned(self.zone.clone());
        let time = event.time.map_or_else(String::new, |time| local(time).strftime("%H:%M:%S%.3f").to_string());
        ttmon_print::event(event, &time, &self.style)
    }

    fn flush(&mut self) -> Result<(), Failure> {
        if self.last.take().is_some() {
            for line in self.kept.drain(..) {
                self.text += &line;
                self.text.push('\n');
            }
        }
        if !self.text.is_empty() {
            Output::Stdout.write(self.text.as_bytes())?;
            self.text.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(lines: Option<usize>, since: Option<UnixTime>) -> EventsArgs {
        EventsArgs { lines, since, ..EventsArgs::default() }
    }

    fn event(number: u64) -> BufferEvent {
        let line = format!(r#"{{"time": null, "pid": 7, "number": {number}, "op": "mark"}}"#);
        ttmon_json::read_event(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    /// Smaller numbers belong to another recorder, unless they came from a service.
    #[test]
    fn only_events_of_a_service_are_skipped() {
        let context = Context::without_flags();
        let all = arguments(None, None);
        let mut page = Page::new(&context, &all);
        page.add(&event(5)).expect("only kept");
        assert!(!page.has(&event(3)));
        page.note(&event(5));
        page.note(&event(2));
        assert_eq!([3, 5, 6].map(|number| page.has(&event(number))), [true, true, false]);
        assert_eq!(page.text.lines().count(), 1);
    }

    fn at(number: u64, seconds: u64) -> BufferEvent {
        BufferEvent { time: Some(UnixTime(seconds * 1_000_000_000)), ..event(number) }
    }

    #[test]
    fn the_last_lines_since_a_time() {
        let context = Context::without_flags();
        let recent = arguments(Some(2), Some(UnixTime(2_000_000_000)));
        let mut page = Page::new(&context, &recent);
        for number in 1..=5 {
            page.add(&at(number, number)).expect("only kept");
        }
        assert_eq!(page.kept.len(), 2);
        page.add(&at(6, 1)).expect("only kept");
        assert!(page.kept[1].contains(":05."), "{:?}", page.kept);
    }
}
