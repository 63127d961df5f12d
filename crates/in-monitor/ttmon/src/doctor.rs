//! `ttmon doctor`: checks this machine, prints problems and remedies, and writes a bundle for a bug report.
//!
//! [`Facts`] are read once, from the machine's files and by the program itself. [`examine`] is pure: it applies one rule per topic and
//! returns findings, each with one sentence and a remedy.

mod bundle;
mod facts;
mod finding;
mod rules;

use std::env;
use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ttmon_collect::reads::Sampling;
use ttmon_collect::{Machine, Root};
use ttmon_json::{Layout, SnapshotJson};
use ttmon_model::Snapshot;
use ttmon_print::text;
use ttmon_sim::Simulation;

use crate::cli::{DoctorArgs, GlobalArgs};
use crate::failure::{Failure, print_error};
use crate::invocation::{CliTarget, Context};
use crate::open::{MachineConfig, MachineRequest};
use crate::output::Output;
use crate::run::library;
use crate::server;
use crate::show::{VERSION, now};
use bundle::{Content, Entry, Pseudonyms};
use facts::{Facts, Python, Service};
use finding::{Finding, Verdict};
use rules::examine;

/// Exit code of a usage error, because 2 means "warnings only".
const USAGE: u8 = 64;
/// Longest wait for Python.
const CHILD_TIME: Duration = Duration::from_secs(3);
const CHILD_BYTES_MAX: u64 = 1 << 20;
/// Reads only package metadata, and imports no package.
const ASK_PYTHON: &str = "import importlib.metadata as m, platform; print(platform.python_version()); print(m.version('ttnn'))";
/// Keys of the snapshot that are never in a bundle.
const PRIVATE_KEYS: [&str; 8] = ["user", "uid", "command", "problems", "pod_name", "namespace", "container_name", "job_name"];

pub(crate) fn run(common: &GlobalArgs, args: &DoctorArgs) -> Result<(), Failure> {
    let context = context(common, args).map_err(|failure| if failure.code == 2 { Failure { code: USAGE, ..failure } } else { failure })?;
    let MachineConfig { root, options, simulation } = MachineConfig::new(&context, MachineRequest::new(Sampling::Once))?;
    // The first sample may start a thread, so the files of the bundle are read before, in a process of their own.
    let machine = Machine::new(root.clone(), options);
    let tree = args.bundle.as_ref().map(|_| bundle_tree(&context, &root, simulation.as_ref(), args.full));
    let snapshot = machine.and_then(|mut machine| machine.sample());
    let snapshot = snapshot.map(|sample| Snapshot::derive(&sample, None));
    let mut facts = Facts::read(&root, snapshot, now());
    if matches!(context.target, CliTarget::Real) {
        facts = facts.with_kernel(&root);
        facts.library = Some(library::find());
        facts.python = python();
        facts.service = Some(service(&context));
    }
    let findings = examine(&facts);
    let report = if common.json { document(&findings) } else { lines(&findings, context.terminal.colors) };
    Output::Stdout.write(report.as_bytes())?;
    if let (Some(file), Some(tree)) = (&args.bundle, tree) {
        let (tree, pseudonyms) = tree?;
        pack(file, tree, &facts, &lines(&findings, false), pseudonyms.as_ref())?;
    }
    match findings.iter().map(|finding| finding.verdict).max() {
        Some(Verdict::Problem) => Err(Failure { message: String::new(), code: 1 }),
        Some(Verdict::Warning) => Err(Failure { message: String::new(), code: 2 }),
        Some(Verdict::Ok) | None => Ok(()),
    }
}

fn context(common: &GlobalArgs, args: &DoctorArgs) -> Result<Context, Failure> {
    if args.full && args.bundle.is_none() {
        return Err(Failure::usage("--full says what --bundle packs; give --bundle FILE too"));
    }
    Context::new(common, &[])
}

/// Reads the files of a bundle. Returns the replacements of serial numbers too, unless `is_full`.
fn bundle_tree(
    context: &Context,
    root: &Root,
    simulation: Option<&Simulation>,
    is_full: bool,
) -> Result<(Vec<Entry>, Option<Pseudonyms>), Failure> {
    let directory = match (&context.target, simulation) {
        (CliTarget::Below(directory), _) => std::path::absolute(directory).unwrap_or_else(|_| directory.clone()),
        (_, Some(simulation)) => simulation.root().to_owned(),
        (_, None) => PathBuf::from("/"),
    };
    let mut pseudonyms = (!is_full).then(Pseudonyms::default);
    let tree = bundle::tree(root, &directory, context.read_timeout, pseudonyms.as_mut());
    Ok((tree.map_err(|error| Failure::new(format!("cannot read the machine: {error}")))?, pseudonyms))
}

/// Formats one line per finding, with the remedy below it.
fn lines(findings: &[Finding], colors: bool) -> String {
    let mut out = String::new();
    for finding in findings {
        let (on, off) = match finding.verdict {
            _ if !colors => ("", ""),
            Verdict::Ok => ("\x1b[32m", "\x1b[0m"),
            Verdict::Warning => ("\x1b[33m", "\x1b[0m"),
            Verdict::Problem => ("\x1b[31m", "\x1b[0m"),
        };
        let message = text::clean(&finding.message, false);
        let _ = writeln!(out, "{on}{:<8}{off} {}: {message}", finding.verdict.name(), finding.topic);
        if let Some(remedy) = &finding.remedy {
            let _ = writeln!(out, "         try: {}", text::clean(remedy, false));
        }
    }
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let (problems, warnings) = (count(Verdict::Problem), count(Verdict::Warning));
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let _ = writeln!(out, "\n{problems} problem{}, {warnings} warning{}", plural(problems), plural(warnings));
    out
}

fn document(findings: &[Finding]) -> String {
    let row = |finding: &Finding| {
        let Finding { topic, verdict, message, remedy } = finding;
        json!({ "topic": topic, "verdict": verdict.name(), "message": message, "remedy": remedy })
    };
    let worst = findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Ok);
    let rows: Vec<Value> = findings.iter().map(row).collect();
    let document = json!({ "version": VERSION, "verdict": worst.name(), "findings": rows });
    ttmon_json::to_string(&document, Layout::Pretty) + "\n"
}

/// Checks the services of this host. Returns the first that exists.
fn service(context: &Context) -> Service {
    let Some(service) = server::services(context).into_iter().next() else { return Service::None };
    let place = service.address().to_string();
    match service.get("/healthz", Duration::from_secs(1)) {
        Ok(_) => Service::Answers { place },
        Err(error) => Service::Silent { place, reason: error.to_string() },
    }
}

fn python() -> Option<Python> {
    // Python first searches modules in the current directory, where another user may have put some.
    let text = output(Command::new("python3").args(["-c", ASK_PYTHON]).current_dir("/"))?;
    let mut lines = text.lines().map(str::to_owned);
    Some(Python { version: lines.next()?, ttnn: lines.next() })
}

/// Returns the output of a command, or `None` if it takes too long. Standard error is not shown.
fn output(command: &mut Command) -> Option<String> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let stdout = child.stdout.take()?;
    let reader = thread::spawn(move || {
        let mut output = Vec::new();
        // The output before an error is used.
        let _ = stdout.take(CHILD_BYTES_MAX).read_to_end(&mut output);
        String::from_utf8_lossy(&output).into_owned()
    });
    let started = Instant::now();
    while child.try_wait().ok()?.is_none() {
        if started.elapsed() > CHILD_TIME {
            // Fails only if it has just ended.
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
    reader.join().ok()
}

fn pack(file: &Path, tree: Vec<Entry>, facts: &Facts, report: &str, pseudonyms: Option<&Pseudonyms>) -> Result<(), Failure> {
    let kernel_log: String = output(&mut Command::new("dmesg"))
        // Ordinary users may not read the kernel's log.
        .unwrap_or_default()
        .lines()
        .filter(|line| line.contains("tenstorrent"))
        .map(|line| format!("{line}\n"))
        .collect();
    let snapshot = facts.snapshot.as_ref().ok().map(|snapshot| snapshot_text(snapshot, pseudonyms.is_none()));
    let versions = format!("ttmon {VERSION}\n");
    let mut entries: Vec<Entry> = [
        ("doctor.txt", Some(report.to_owned())),
        ("versions.txt", Some(versions)),
        ("snapshot.json", snapshot.transpose()?),
        ("kernel.log", Some(kernel_log).filter(|log| !log.is_empty())),
    ]
    .into_iter()
    .filter_map(|(name, content)| Some((name, clean(&content?, pseudonyms))))
    .map(|(name, content)| Entry { path: name.into(), content: Content::File(content.into_bytes()) })
    .collect();
    entries.extend(tree);
    let failed = |error: std::io::Error| Failure::new(format!("cannot write {}: {error}", file.display()));
    Output::File(file.to_owned()).write(&bundle::pack(&entries).map_err(failed)?)?;
    let texts = entries.iter().filter(|entry| entry.path.components().count() == 1);
    let texts: Vec<String> = texts.map(|entry| entry.path.display().to_string()).collect();
    let hidden = if pseudonyms.is_some() { "host name and serial numbers replaced; " } else { "" };
    print_error(&format!(
        "wrote {}: {}, and {} files of the driver below root/ (see them with: ttmon --root ttmon-bundle/root); \
         {hidden}no user names, command lines or environment",
        file.display(),
        texts.join(", "),
        entries.len() - texts.len()
    ));
    Ok(())
}

/// Serializes the snapshot without private values.
fn snapshot_text(snapshot: &Snapshot, is_full: bool) -> Result<String, Failure> {
    let text = ttmon_json::to_string(&SnapshotJson { snapshot, version: VERSION }, Layout::Line);
    let mut document: Value = serde_json::from_str(&text).map_err(|error| Failure::new(error.to_string()))?;
    hide(&mut document, is_full);
    Ok(ttmon_json::to_string(&document, Layout::Pretty) + "\n")
}

fn hide(value: &mut Value, is_full: bool) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                match key.as_str() {
                    "host" if !is_full => *value = "host".into(),
                    key if PRIVATE_KEYS.contains(&key) => *value = Value::Null,
                    _ => hide(value, is_full),
                }
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(|element| hide(element, is_full)),
        _ => {}
    }
}

/// Removes serial numbers and the name of the home directory from a text.
fn clean(text: &str, pseudonyms: Option<&Pseudonyms>) -> String {
    let home = env::var("HOME").ok().filter(|home| home.len() > 1);
    let text = home.map_or_else(|| text.to_owned(), |home| text.replace(&home, "~"));
    pseudonyms.map_or_else(|| text.clone(), |pseudonyms| pseudonyms.text(&text))
}
