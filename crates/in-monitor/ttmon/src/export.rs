//! `ttmon export`: writes the memory of a process, a run report or a recording for the viewers of other projects.

use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};

use ttmon_buffer_history::document;
use ttmon_buffer_history::{About, LedgerFeed, Spool, Trace};
use ttmon_collect::reads::Sampling;
use ttmon_json::recording::{Error, Reader};
use ttmon_model::limits::DOCUMENT_BYTES_MAX;
use ttmon_model::units::UnixTime;

use crate::cli::{ExportArgs, ExportFormat, GlobalArgs};
use crate::failure::{Failure, print_error};
use crate::invocation::Context;
use crate::mem::no_memory_of;
use crate::open::{MachineRequest, OpenMachine};
use crate::show::VERSION;

/// Exports a process, or a run report or recording. A number is a pid.
pub(crate) fn run(common: &GlobalArgs, args: &ExportArgs) -> Result<(), Failure> {
    if !common.device.is_empty() || !common.id.is_empty() || common.json {
        return Err(Failure::usage("export writes all devices, in the format of --to; leave -d, -i and --json out"));
    }
    let output = Some(args.output.as_path()).filter(|path| *path != Path::new("-"));
    if output.is_none() && io::stdout().is_terminal() {
        return Err(Failure::usage("-o - would write the file to the terminal; give a file, or a pipe"));
    }
    let input = Path::new(&args.input);
    let pid = args.input.to_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit())).and_then(|text| text.parse::<u32>().ok());
    let mut trace = empty(output, pid.map_or_else(|| input.display().to_string(), |pid| pid.to_string()));
    match pid {
        Some(pid) => {
            add_process(&mut trace, &Context::new(common, &[])?, pid)?;
            if let Some(since) = trace.complete_since() {
                print_error(&format!(
                    "{} events before {} are missing: only the last ones are kept; `ttmon run --snapshot` keeps all",
                    trace.lost(),
                    UnixTime(since).rfc3339()
                ));
            }
        }
        None => add_file(&mut trace, input)?,
    }
    let Some(output) = output else {
        return crate::output::stream(|out| Ok(write(&trace, args.to, out)?));
    };
    write_file(&trace, args.to, output)
        .map_err(|error| Failure::new(format!("cannot write {}: {error}; nothing was changed", output.display())))
}

/// Creates an empty trace. Data that does not fit into memory is written to a file beside the output, or in the temporary directory.
pub(crate) fn empty(output: Option<&Path>, title: String) -> Trace {
    let output: Option<PathBuf> = output.map(Path::to_owned);
    let temporary = || -> io::Result<File> { ttmon_os::scratch_beside(&std::env::temp_dir().join("scratch")) };
    let create = move || match &output {
        Some(output) => ttmon_os::scratch_beside(output).or_else(|_| temporary()),
        None => temporary(),
    };
    Trace::new(About { version: VERSION.to_owned(), title, note: None }, Spool::new(Box::new(create)))
}

/// Writes a trace. The file appears only when it is complete.
pub(crate) fn write_file(trace: &Trace, format: ExportFormat, path: &Path) -> io::Result<()> {
    ttmon_os::write_with(path, |out| write(trace, format, out))
}

fn write(trace: &Trace, format: ExportFormat, out: &mut dyn Write) -> io::Result<()> {
    match format {
        ExportFormat::MemoryViz => ttmon_buffer_history::memory_viz::write(trace, out),
        ExportFormat::Chrome => ttmon_buffer_history::chrome::write(trace, out),
    }
}

/// Adds the live buffers of a process, and the events that are still in its ring.
fn add_process(trace: &mut Trace, context: &Context, pid: u32) -> Result<(), Failure> {
    let mut opened = OpenMachine::new(context, MachineRequest::with_ledgers_of(Sampling::Once, Some(pid)))?;
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

fn add_file(trace: &mut Trace, path: &Path) -> Result<(), Failure> {
    let failed = |why: &dyn std::fmt::Display| Failure::new(format!("{}: {why}", path.display()));
    let file = ttmon_os::open(path).map_err(|error| failed(&error))?;
    let added = match Reader::new(BufReader::new(file)) {
        Ok(mut reader) => {
            trace.set_note(document::OF_RECORDING);
            document::add_recording(trace, &mut reader)
        }
        Err(Error::NotOurs | Error::Empty) => {
            let text = ttmon_os::read_text(path, DOCUMENT_BYTES_MAX).map_err(|error| failed(&error))?;
            trace.set_note(document::OF_REPORT);
            document::add_report(trace, &text)
        }
        Err(error) => return Err(failed(&error)),
    };
    added.map_err(|error| failed(&error))
}
