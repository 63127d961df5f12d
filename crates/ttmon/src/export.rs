//! `ttmon export`: the memory of a process, a run report or a recording, for the viewers of other projects.

use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};

use ttmon_export::document::{self, DocumentError};
use ttmon_export::{About, LedgerFeed, Spool, Trace};
use ttmon_model::limits::DOCUMENT_BYTES_MAX;
use ttmon_model::units::UnixTime;
use ttmon_reads::Pace;
use ttmon_source::Reach;
use ttmon_source::ledgers::Detail;
use ttmon_wire::recording::{Error, Reader};

use crate::cli::{ExportArgs, ExportFormat, GlobalArgs};
use crate::failure::{Failure, complain};
use crate::invocation::Context;
use crate::mem::no_memory_of;
use crate::open::OpenMachine;
use crate::show::VERSION;

pub(crate) fn run(common: &GlobalArgs, args: &ExportArgs) -> Result<(), Failure> {
    if !common.device.is_empty() || !common.id.is_empty() || common.json {
        return Err(Failure::usage("export writes all devices, in the format of --to; leave -d, -i and --json out"));
    }
    let is_stdout = args.output == Path::new("-");
    if is_stdout && io::stdout().is_terminal() {
        return Err(Failure::usage("-o - would write the file to the terminal; give a file, or a pipe"));
    }
    let pid = args.input.to_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit())).and_then(|text| text.parse::<u32>().ok());
    let mut trace = empty(&args.output, args.input.to_string_lossy().into_owned());
    match pid {
        Some(pid) => add_process(&mut trace, &Context::new(common, &[])?, pid)?,
        None => add_file(&mut trace, Path::new(&args.input)).map_err(|why| Failure::new(format!("{}: {why}", args.input.display())))?,
    }
    if let Some(since) = trace.complete_since().filter(|_| pid.is_some()) {
        complain(&format!(
            "{} events before {} are missing: only the last ones are kept; `ttmon run --snapshot` keeps all",
            trace.lost(),
            UnixTime(since).rfc3339()
        ));
    }
    if is_stdout {
        return crate::output::stream(|out| Ok(write(&trace, args.to, out)?));
    }
    write_file(&trace, args.to, &args.output)
        .map_err(|error| Failure::new(format!("cannot write {}: {error}; nothing was changed", args.output.display())))
}

/// An empty trace. What does not fit into memory goes to a file beside the output, or where temporary files are.
pub(crate) fn empty(output: &Path, title: String) -> Trace {
    let output: PathBuf = output.to_owned();
    let temporary = || -> io::Result<File> { ttmon_files::scratch_beside(&std::env::temp_dir().join("scratch")) };
    let create = move || ttmon_files::scratch_beside(&output).or_else(|_| temporary());
    Trace::new(About { version: VERSION.to_owned(), title, note: None }, Spool::new(Box::new(create)))
}

/// Writes a trace, whole or not at all.
pub(crate) fn write_file(trace: &Trace, format: ExportFormat, path: &Path) -> io::Result<()> {
    ttmon_files::write_with(path, |out| write(trace, format, out))
}

fn write(trace: &Trace, format: ExportFormat, out: &mut dyn Write) -> io::Result<()> {
    match format {
        ExportFormat::MemoryViz => ttmon_export::memory_viz::write(trace, out),
        ExportFormat::Chrome => ttmon_export::chrome::write(trace, out),
    }
}

/// What is live in a process, and the events that its ring still has.
fn add_process(trace: &mut Trace, context: &Context, pid: u32) -> Result<(), Failure> {
    let mut opened = OpenMachine::with_ledgers(context, Pace::Once, true, Detail::Totals, Reach::Process(pid))?;
    let snapshot = opened.whole()?;
    let found: Vec<_> = opened.machine.ledgers().iter().filter(|found| found.owner.pid == pid).cloned().collect();
    if found.is_empty() {
        return Err(no_memory_of(&snapshot, pid, opened.has_process(pid)));
    }
    for ledger in found {
        let mut feed = LedgerFeed::new(trace, &ledger.region, pid);
        feed.finish(trace, &ledger.region, true).map_err(|error| Failure::new(format!("process {pid}: {error}")))?;
    }
    Ok(())
}

fn add_file(trace: &mut Trace, path: &Path) -> Result<(), String> {
    let file = ttmon_files::open(path).map_err(|error| error.to_string())?;
    let added: Result<(), DocumentError> = match Reader::new(BufReader::new(file)) {
        Ok(mut reader) => {
            trace.set_note(document::OF_RECORDING);
            document::add_recording(trace, &mut reader)
        }
        Err(Error::NotOurs | Error::Empty) => {
            let text = ttmon_files::read_text(path, DOCUMENT_BYTES_MAX).map_err(|error| error.to_string())?;
            trace.set_note(document::OF_REPORT);
            document::add_report(trace, &text)
        }
        Err(error) => return Err(error.to_string()),
    };
    added.map_err(|error| error.to_string())
}
