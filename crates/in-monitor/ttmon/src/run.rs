//! `ttmon run`: runs a command with its memory tracked, and otherwise as if it had been started without ttmon.
//!
//! ttmon adds its library to `LD_PRELOAD`. The command and its children send their ledgers to a socket of ttmon. When the
//! command has ended, ttmon prints a summary on standard error, writes the file of `--report`, and ends in the same way as the command.

mod child;
mod collect;
mod embedded;
mod epilogue;
pub(crate) mod library;
mod program;
mod source;
#[cfg(test)]
mod tests;
mod tool_environment;

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::low_level::signal_name;
use ttmon_buffer_history::Trace;
use ttmon_buffer_history::{CommandEnd, RunSummary};
use ttmon_collect::read_cluster;
use ttmon_collect::reads::Sampling;
use ttmon_json::Layout;
use ttmon_model::Sample;
use ttmon_model::units::UnixTime;
use ttmon_os::Existing;
use ttmon_print::Style;

use crate::cli::{ExportFormat, GlobalArgs, RunArgs};
use crate::failure::{Failure, print_error};
use crate::invocation::{CliTarget, Context, refuse};
use crate::open::{MachineRequest, OpenMachine};
use crate::output::Output;
use crate::show::{VERSION, now};
use crate::terminal::columns_of_stderr;

use child::{Child, Command, Signals};
use collect::{Collected, Collector};
use program::Linkage;
use source::SourceTexts;

/// Ledgers of ended processes are read when no ledger arrived for this time. `LONG_QUIET` applies if no process had ended last time.
const QUIET: Duration = Duration::from_millis(20);
const LONG_QUIET: Duration = Duration::from_millis(999);

/// Exit code if ttmon itself failed, normally before the command was started.
const FAILED: u8 = 125;
/// Exit code if the command exists but cannot be started.
const NOT_EXECUTABLE: u8 = 126;
/// Exit code if the command does not exist.
const NOT_FOUND: u8 = 127;
/// Exit code if the command succeeded, but a check failed.
const NOT_HELD: u8 = 123;

/// Runs the command. Does not return if a signal killed the command.
pub(crate) fn run(common: &GlobalArgs, args: &RunArgs) -> Result<(), Failure> {
    check(common, args)?;
    let context = &Context::new(common, &[])?;
    if !matches!(context.target, CliTarget::Real) {
        return Err(Failure::usage("TTMON_SIM and TTMON_ROOT name another machine; run starts a program on this one: unset them"));
    }
    if let Some(path) = &context.cluster {
        // The file is read again at the end. Report an error before the run, not after it.
        read_cluster(path).map_err(|error| failed(format!("--cluster {}: {error}", path.display())))?;
    }
    let program = args.command.first().ok_or_else(|| Failure::usage("there is no command to run; give one after --"))?;
    let path = tool_environment::search_path();
    let linkage = program::linkage(program, path.as_deref());
    let library = library::find().map_err(failed)?;
    let output = args.report.as_deref().map(prepare).transpose()?;
    args.snapshot.as_deref().map(prepare).transpose()?;
    // Take over signals before creating anything that a killed ttmon would leave behind.
    let signals = Signals::take().map_err(|error| cannot("take over signals", &error, "run the command without ttmon"))?;
    let mut collector =
        Collector::open().map_err(|error| cannot("make a socket for ledgers", &error, "set TMPDIR to a writable folder"))?;
    let words: Vec<String> = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(snapshot) = &args.snapshot {
        collector.trace_into(crate::export::empty(Some(snapshot), words.join(" ")));
    }
    let command = command(args, path.as_deref(), linkage, &library, collector.path());
    let began = now().0;
    let child = match Child::start(&command, &signals) {
        Ok(child) => child,
        Err(error) => return Err(not_started(program, path.as_deref(), &error)),
    };
    collector.make_room();
    let end = wait_for_child(&child, &signals, &mut collector)?;
    let span = (began, now().0);
    let Collected { summaries, unread, has_foreign, trace } = collector.finish();
    // The command has ended. Writing the results may block on a pipe or a slow disk, so signals may end ttmon again.
    signals.let_go();
    let machine = if summaries.is_empty() { None } else { machine(context) };
    let mut run = RunSummary::new(words, end, span, summaries, machine.as_ref());
    (run.unread, run.has_foreign_ledgers, run.untracked) = (unread, has_foreign, linkage.reason());
    report_run(context, args, &run, output, trace)
}

/// Refuses flags that have no effect here.
fn check(common: &GlobalArgs, args: &RunArgs) -> Result<(), Failure> {
    let checks = args.checks();
    refuse(&[
        (
            common.sim.is_some(),
            "--sim shows a simulated machine; run starts a real program, which has real devices or TT-Metal's mock ones",
        ),
        (common.root.is_some(), "--root shows a machine below a directory; run starts a program on this one"),
        (common.seed.is_some(), "--seed is of a simulated machine; run starts a program on this one"),
        (common.json, "--json is for commands that print; the report of run is JSON: --report FILE"),
        (
            !common.device.is_empty() || !common.id.is_empty(),
            "-d chooses what is shown; run tracks all devices that the program uses (TT_VISIBLE_DEVICES limits those)",
        ),
        (args.snapshot.as_deref() == Some(Path::new("-")), "--snapshot - would mix with the program's own output; give a file"),
        (args.snapshot.is_some() && args.snapshot == args.report, "--snapshot and --report name the same file"),
        (args.report.as_deref() == Some(Path::new("-")), "--report - would mix with the program's own output; give a file, or /dev/stderr"),
        (
            checks.allow_untracked && checks.is_empty(),
            "--allow-untracked says what a check makes of what it cannot judge; give a check: --fail-on-growth, --max-dram ...",
        ),
    ])
}

fn failed(message: impl Into<String>) -> Failure {
    Failure { message: message.into(), code: FAILED }
}

/// A system error before the command was started.
fn cannot(what: &str, error: &io::Error, advice: &str) -> Failure {
    let advice = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE) => "raise the limit of open files (ulimit -n)",
        Some(Errno::NFILE) => "the whole system has too many files open",
        Some(Errno::AGAIN | Errno::NOMEM) => "the system is out of processes or memory",
        _ => advice,
    };
    failed(format!("cannot {what}: {error}; {advice}"))
}

/// Checks before a long run that the report can be written.
fn prepare(path: &Path) -> Result<Output, Failure> {
    // A relative path stays valid: nothing changes the current directory of ttmon.
    let output = Output::File(path.to_owned());
    match output.try_out() {
        Ok(()) => Ok(output),
        Err(error) => Err(failed(format!("cannot write {}: {error}; the command was not started", path.display()))),
    }
}

fn command(args: &RunArgs, path: Option<&OsStr>, linkage: Linkage, library: &Path, handover: &Path) -> Command {
    let mut command = Command::new(&args.command, path);
    command.set("TTMON_TRACKING", "1");
    command.set(collect::HANDOVER, handover);
    if let Some(outer) = collect::outer(env::var_os(collect::HANDOVER), env::var_os(collect::OUTER)) {
        command.set(collect::OUTER, outer);
    }
    if args.ops {
        command.set("TTMON_OPS", "1");
    }
    let unset = || env::var_os("TTMON_STACKS").is_none().then_some(true);
    if let Some(stacks) = args.stacks().or_else(unset) {
        command.set("TTMON_STACKS", if stacks { "1" } else { "0" });
    }
    if linkage.takes_preload() {
        command.set(library::PRELOAD, library::preload(env::var_os(library::PRELOAD).as_deref(), library));
    }
    command
}

fn not_started(program: &OsString, path: Option<&OsStr>, error: &io::Error) -> Failure {
    let name = program.to_string_lossy();
    let interpreter = program::interpreter_of(program, path).map(|path| path.display().to_string().escape_debug().to_string());
    match (error.raw_os_error().map(Errno::from_raw_os_error), interpreter) {
        // Like a shell: 127 if the command or its interpreter is not found.
        (Some(Errno::NOENT), Some(interpreter)) => Failure {
            message: format!("{name}: it needs {interpreter}, which does not exist; install that, or mend its first line"),
            code: NOT_FOUND,
        },
        (Some(Errno::NOENT), None) => Failure { message: format!("{name}: command not found; check its name and PATH"), code: NOT_FOUND },
        (Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE), _) => cannot(&format!("start {name}"), error, ""),
        _ => Failure { message: format!("{name}: cannot be executed: {error}"), code: NOT_EXECUTABLE },
    }
}

/// Waits for the command to end, and receives ledgers meanwhile.
fn wait_for_child(child: &Child, signals: &Signals, collector: &mut Collector) -> Result<CommandEnd, Failure> {
    // True if all processes with an open ledger are still running, so that no ledger can be closed.
    let mut is_stuck = false;
    let mut followed = Instant::now();
    let mut pause = collector.follow();
    loop {
        if pause.is_none_or(|pause| followed.elapsed() >= pause) {
            (pause, followed) = (collector.follow(), Instant::now());
        }
        let mut wanted = vec![PollFd::new(signals, PollFlags::IN)];
        if collector.is_listening() {
            wanted.push(PollFd::new(&*collector, PollFlags::IN));
        }
        let quiet = collector.is_behind().then_some(if is_stuck { LONG_QUIET } else { QUIET });
        let next = pause.map(|pause| pause.saturating_sub(followed.elapsed()));
        let is_quiet_first = quiet.is_some_and(|quiet| next.is_none_or(|next| quiet <= next));
        let timeout = [quiet, next].into_iter().flatten().min().and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut wanted, timeout.as_ref()) {
            Ok(0) => {
                drop(wanted);
                if is_quiet_first {
                    is_stuck = !collector.close_one();
                }
                continue;
            }
            Ok(_) | Err(Errno::INTR) => {}
            // Probably out of memory for a short time. Returning an error would end the command.
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
        drop(wanted);
        collector.take();
        collector.follow_trace();
        match child.handle_signals(signals) {
            Ok(None) => {}
            Ok(Some(end)) => return Ok(end),
            Err(error) => return Err(Failure::new(format!("lost sight of the command: {error}; how it ended is not known"))),
        }
    }
}

/// Samples the devices of this machine, to assign the figures to them. Without a sample, the program's own ids are used.
fn machine(context: &Context) -> Option<Sample> {
    let request = MachineRequest { processes: false, ..MachineRequest::with_ledgers_of(Sampling::Once, Some(0)) };
    OpenMachine::new(context, request).ok()?.machine.sample().ok()
}

/// Prints the summary, writes the report, evaluates the checks, and ends like the command.
fn report_run(
    context: &Context,
    args: &RunArgs,
    run: &RunSummary,
    output: Option<Output>,
    trace: Option<io::Result<Trace>>,
) -> Result<(), Failure> {
    let checks = args.checks();
    if !args.quiet {
        let style = Style { ascii: context.terminal.ascii, ..Style::plain(VERSION) };
        let lines = epilogue::lines(run, &style, columns_of_stderr());
        let _ = writeln!(io::stderr(), "{}", lines.join("\n"));
    }
    let report = output.is_none_or(|output| write_report(&output, run));
    let snapshot = trace.zip(args.snapshot.as_ref()).is_none_or(|(trace, path)| write_snapshot(trace, path, args.quiet));
    let written = report && snapshot;
    let not_held = checks.failures(run);
    let allowed = checks.not_judged(run).filter(|_| checks.allow_untracked);
    for line in allowed.iter().chain(&not_held) {
        print_error(line);
    }
    match run.end {
        CommandEnd::Signal(signal) => child::die_of(signal),
        CommandEnd::Exit(0) if !not_held.is_empty() => Err(Failure { message: String::new(), code: NOT_HELD }),
        CommandEnd::Exit(0) if !written => Err(failed("")),
        CommandEnd::Exit(0) => Ok(()),
        CommandEnd::Exit(code) => Err(Failure { message: String::new(), code: u8::try_from(code).unwrap_or(u8::MAX) }),
    }
}

/// Writes the snapshot. Returns whether it was written.
fn write_snapshot(trace: io::Result<Trace>, path: &Path, is_quiet: bool) -> bool {
    let format = match path.extension() {
        Some(extension) if extension.eq_ignore_ascii_case("json") => ExportFormat::Chrome,
        _ => ExportFormat::MemoryViz,
    };
    let written = trace.and_then(|trace| crate::export::write_file(&trace, format, path).map(|()| trace.complete_since()));
    match written {
        Ok(None) => {}
        Ok(Some(since)) if !is_quiet => {
            print_error(&format!("--snapshot: events before {} are missing", UnixTime(since).rfc3339()));
        }
        Ok(Some(_)) => {}
        Err(error) => {
            print_error(&format!("--snapshot: cannot write {}: {error}; there is no snapshot", path.display()));
            return false;
        }
    }
    true
}

/// Writes the report, or, if that is not possible any more, writes it to a temporary file. Returns whether it was written.
fn write_report(output: &Output, run: &RunSummary) -> bool {
    let mut document = run.report(VERSION, signal_name);
    SourceTexts::of(run).add_to(&mut document);
    let text = format!("{}\n", ttmon_json::to_string(&document, Layout::Pretty));
    let Err(failure) = output.write(text.as_bytes()) else { return true };
    let instead = env::temp_dir().join(format!("ttmon-report-{}.json", std::process::id()));
    let saved = ttmon_os::create(&instead, Existing::Keep).and_then(|mut file| file.write_all(text.as_bytes()));
    match &saved {
        Ok(()) => print_error(&format!("--report: {}; the report is in {}", failure.message, instead.display())),
        Err(error) => print_error(&format!("--report: {}; nor can {}: {error}; it is lost", failure.message, instead.display())),
    }
    saved.is_ok()
}
