//! `ttmon oom`: explains the refused allocations of processes or of a saved report, and how to free enough memory.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use serde_json::Value;
use ttmon_buffer_history::Recorder;
use ttmon_collect::reads::Sampling;
use ttmon_hosts::{RequestError, Service};
use ttmon_json::{Document, Layout, ReadError};
use ttmon_model::event::{BufferEvent, Op};
use ttmon_model::limits::DOCUMENT_BYTES_MAX;
use ttmon_model::units::size;
use ttmon_print::Style;

use crate::failure::Failure;
use crate::invocation::{Context, OutputFormat};
use crate::mem::nothing_of;
use crate::open::{MachineRequest, OpenMachine};
use crate::output::Output;
use crate::server;
use crate::show::VERSION;

/// Maximum number of processes that are requested one by one.
const PROCESSES_MAX: usize = 64;
const REFUSALS_MAX: usize = 65_536;
/// Maximum number of lines that are listed below a refusal.
const LINES: usize = 8;

/// Explains the refusals of a process or of a report. A number is a pid, unless a file with that name exists.
pub(crate) fn run(context: &Context, target: Option<&str>) -> Result<(), Failure> {
    let refusals = match target.map(|target| (Path::new(target), target.parse::<u32>())) {
        None => of_all(context)?,
        Some((path, Ok(pid))) if !path.exists() => of_process(context, pid)?,
        Some((path, _)) => of_report(path)?,
    };
    if context.format == OutputFormat::Json {
        let text = ttmon_json::to_string(&Value::from(refusals), Layout::Pretty);
        return Output::Stdout.write(format!("{text}\n").as_bytes());
    }
    let style = Style { ascii: context.terminal.ascii, ..Style::plain(VERSION) };
    let mut text = String::new();
    for refusal in &refusals {
        describe(refusal, &style, &mut text);
    }
    if refusals.is_empty() {
        text = "no allocation was refused\n".to_owned();
    }
    Output::Stdout.write(text.as_bytes())
}

fn of_report(path: &Path) -> Result<Vec<Value>, Failure> {
    let failed = |why: String| Failure::new(format!("{}: {why}; give a process or a file of `ttmon run --report`", path.display()));
    let text = ttmon_os::read_text(path, DOCUMENT_BYTES_MAX).map_err(|error| failed(error.to_string()))?;
    let document = Document::read(&text, None).map_err(|error| failed(format!("no report: {error}")))?;
    if !["command", "oom", "clashes"].iter().all(|list| document.has_list(list)) {
        return Err(failed("no report of a run".to_owned()));
    }
    let mut refusals = Vec::new();
    let mut take = |value: &Value| {
        refusals.push(value.clone());
        Ok::<(), ReadError>(())
    };
    for list in ["oom", "clashes"] {
        document.each(list, REFUSALS_MAX, &mut take).map_err(|error| failed(error.to_string()))?;
    }
    refusals.sort_by(|a, b| a["time_s"].as_f64().unwrap_or(0.0).total_cmp(&b["time_s"].as_f64().unwrap_or(0.0)));
    Ok(refusals)
}

fn of_all(context: &Context) -> Result<Vec<Value>, Failure> {
    let pids: BTreeSet<u32> = events(context, None)?.iter().filter(|event| is_refusal(event)).map(|event| event.pid).collect();
    let mut refusals = Vec::new();
    for pid in pids.into_iter().take(PROCESSES_MAX) {
        refusals.extend(of_process(context, pid)?);
    }
    refusals.sort_by(|a, b| a["time"].as_str().cmp(&b["time"].as_str()));
    Ok(refusals)
}

fn of_process(context: &Context, pid: u32) -> Result<Vec<Value>, Failure> {
    let refusals = events(context, Some(pid))?.into_iter().filter(is_refusal);
    let documents = refusals.map(|event| serde_json::from_str(&ttmon_json::event_line(&event)));
    documents.collect::<Result<_, _>>().map_err(|error| Failure::new(format!("cannot describe an event: {error}")))
}

fn is_refusal(event: &BufferEvent) -> bool {
    matches!(event.op, Op::OutOfMemory | Op::Clash)
}

/// Returns the events of a service, which also has those of ended processes, or else of the ledgers that can be read here.
fn events(context: &Context, pid: Option<u32>) -> Result<Vec<BufferEvent>, Failure> {
    for service in &server::services(context) {
        match ask(service, pid) {
            Ok(Some(events)) => return Ok(events),
            Ok(None) => {}
            Err(why) => server::report_fallback(service, &why.to_string()),
        }
    }
    let mut opened = OpenMachine::new(context, MachineRequest::with_ledgers_of(Sampling::Once, pid))?;
    let snapshot = opened.snapshot()?;
    let mut recorder = Recorder::default();
    let news = opened.with_scene(&snapshot, pid, |scene, selected| (recorder.read_new(scene), selected.to_vec()));
    let Some((news, selected)) = news else { return Err(Failure::new("no machine was opened")) };
    if recorder.is_empty() {
        return Err(nothing_of(pid, &snapshot, &opened));
    }
    Ok(news.events(&selected).collect())
}

/// Requests events from a service. Returns `None` if the service does not have the process.
fn ask(service: &Service, pid: Option<u32>) -> Result<Option<Vec<BufferEvent>>, RequestError> {
    let Some(mut stream) = server::events(service, pid, &[], false)? else { return Ok(None) };
    let mut events = Vec::new();
    while let Some(event) = stream.next()? {
        if is_refusal(&event) {
            events.push(event);
        }
    }
    Ok(Some(events))
}

/// Prints the explanation, the lines to release, the largest buffers, and the beginning of TT-Metal's own message.
fn describe(refusal: &Value, style: &Style<'_>, out: &mut String) {
    let text = |value: &Value| style.clean(value.as_str().unwrap_or_default());
    let when = match (&refusal["time"], &refusal["time_s"]) {
        (Value::String(time), _) => style.clean(time),
        (_, Value::Number(seconds)) => format!("after {seconds}s"),
        _ => String::new(),
    };
    let process = refusal["pid"].as_u64().map_or_else(String::new, |pid| format!("  process {pid}"));
    let _ = writeln!(out, "{when}{process}  {}", text(&refusal["words"]));
    let list = |out: &mut String, heading: &str, values: &Value, bytes: &str| {
        let Some(values) = values.as_array().filter(|values| !values.is_empty()) else { return };
        let _ = writeln!(out, "  {heading}");
        for value in values.iter().take(LINES) {
            let count = value["count"].as_u64().map_or_else(String::new, |count| format!("  {count} x"));
            let names = [("tag", &value["tag"]), ("op", &value["op"])];
            let names = names.iter().filter_map(|(name, value)| Some(format!("  {name} {}", style.clean(value.as_str()?))));
            let place = value["address"].as_str().map_or_else(String::new, |address| format!("  {}", style.clean(address)));
            let line = line(&value["line"], style);
            let _ = writeln!(out, "    {:>9}{count}{place}  {line}{}", size(value[bytes].as_u64().unwrap_or(0)), names.collect::<String>());
        }
        if values.len() > LINES {
            let _ = writeln!(out, "    and {} more", values.len() - LINES);
        }
    };
    list(out, "held per bank where the room would be, by line:", &refusal["cheapest_window"]["lines"], "bytes");
    list(out, "largest live buffers of that kind:", &refusal["top"], "size");
    if let Some(message) = refusal["message"].as_str().and_then(|message| message.lines().map(str::trim).find(|line| !line.is_empty())) {
        let _ = writeln!(out, "  TT-Metal: {}", style.clean(message));
    }
}

fn line(value: &Value, style: &Style<'_>) -> String {
    let Some(file) = value["file"].as_str() else { return "(no line)".to_owned() };
    let function = value["function"].as_str().unwrap_or_default();
    style.clean(&format!("{file}:{} {function}", value["line"]))
}
