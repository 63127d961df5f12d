//! Runs one case: starts the script, and at each step reads the view from outside and compares before the script continues.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;

use rustix::process::{Pid, kill_process_group};
use serde_json::Value;
use ttmon_testing::ttnn::Version;
use ttmon_testing::{KilledOnDrop, Signal, TIMEOUT, until};

use crate::case::{Case, Started};
use crate::compare::{self, Scene};
use crate::mock::{Chips, Rows};
use crate::outside::{Outside, TTMON};
use crate::{region, report};

pub(crate) const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ttnn/scripts");

/// Report of `ttmon run`, in the folder of a case.
const REPORT: &str = "report.json";

/// Older allocators have no virtual functions by which the hook could detect them when a mesh opens.
const EMPTY_SINCE: u32 = 70;
/// Older versions publish no statistics.
const REGIONS_SINCE: u32 = 70;

/// Runs a case. Returns how many steps and figures were equal and other results, or the first step that differs.
pub(crate) fn run(version: &Version, case: &Case) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let chips = Chips::new(case.chips, folder.path());
    let rows = case.rows.map(Rows::of);
    let shows_empty = version.minor() >= EMPTY_SINCE;
    let outside = Outside { chips: &chips, rows: rows.as_ref(), shows_empty };
    let mut script = Script::start(version, case, &chips, folder.path());
    let has_regions = version.minor() >= REGIONS_SINCE && !case.variables.iter().any(|(name, _)| *name == "TT_METAL_SHM_TRACKING_DISABLED");
    let mut scene = Scene::new(&chips, has_regions, shows_empty);
    let followed = follow(&mut script, &mut scene, case, outside, folder.path());
    followed.map_err(|why| format!("{why}{}", last_lines(&folder.path().join("stderr"))))?;
    Ok(scene.summary())
}

/// A running script. Everything that it leaves behind is removed when this is dropped.
struct Script {
    process: KilledOnDrop,
    input: ChildStdin,
    lines: Receiver<String>,
    segments: BTreeSet<PathBuf>,
}

impl Script {
    fn start(version: &Version, case: &Case, chips: &Chips, folder: &Path) -> Self {
        let libraries = Path::new(TTMON).parent().unwrap();
        let stub = libraries.join("libttmon_stub.so");
        assert!(stub.exists(), "{} is missing; run: cargo xtask libs", stub.display());
        let python = if case.started == Started::ByWheel { version.wheel_python.as_ref().unwrap() } else { &version.python };
        let mut command = Command::new(if case.started == Started::ByRun { Path::new(TTMON) } else { python });
        if case.started == Started::ByRun {
            command.args(["run", "--report", REPORT, "--"]).arg(python);
        }
        version.on_mock_chips(&mut command, &chips.descriptor, folder);
        command.arg(Path::new(SCRIPTS).join(case.script)).args(case.arguments).envs(case.variables.iter().copied());
        match case.started {
            Started::Untracked => &mut command,
            Started::Preloaded => command.env("LD_PRELOAD", stub).env("TTMON_TRACKING", "1"),
            Started::ByRun => command.env("TTMON_LIB", libraries),
            Started::ByWheel => command.env("TT_ALLOC_TRACKING_ENABLED", "1"),
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(folder.join("stderr")).unwrap());
        // In a group of its own, so that all its processes can be killed.
        let mut process = KilledOnDrop(command.process_group(0).spawn().unwrap());
        let (input, output) = (process.0.stdin.take().unwrap(), process.0.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        // The thread ends with the script, or when the receiver is dropped.
        thread::spawn(move || BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { process, input, lines, segments: BTreeSet::new() }
    }

    /// Returns the next step, or `None` at the end of the script.
    fn step(&mut self) -> Result<Option<Value>, String> {
        match self.lines.recv_timeout(TIMEOUT) {
            Ok(line) => serde_json::from_str(&line).map(Some).map_err(|error| format!("{line}: {error}")),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            // A failed compilation of a kernel makes ttnn wait forever.
            Err(RecvTimeoutError::Timeout) => Err(format!("no step within {} s", TIMEOUT.as_secs())),
        }
    }

    fn end(&mut self) -> ExitStatus {
        until("the end of the script", || self.process.0.try_wait().unwrap().is_some());
        self.process.0.wait().unwrap()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        if matches!(self.process.0.try_wait(), Ok(None)) {
            // It may end at this moment.
            let _ = kill_process_group(Pid::from_child(&self.process.0), Signal::KILL);
        }
        for segment in &self.segments {
            // Open MPI may have removed it.
            let _ = fs::remove_file(segment);
        }
    }
}

fn follow(script: &mut Script, scene: &mut Scene<'_>, case: &Case, outside: Outside<'_>, folder: &Path) -> Result<(), String> {
    let mut last = Value::Null;
    while let Some(step) = script.step()? {
        let name = step["step"].as_str().unwrap_or_default();
        let pid = process_id(&step["pid"]).ok_or("a step without its pid")?;
        script.segments.extend(region::segments(pid));
        let differences = compare_step(scene, case, outside, &step, pid, folder).map_err(|why| format!("at \"{name}\": {why}"))?;
        if !differences.is_empty() {
            return Err(format!("at \"{name}\": {}", differences.join("; ")));
        }
        script.input.write_all(b"go\n").map_err(|error| format!("after \"{name}\": {error}"))?;
        last = step;
    }
    let status = script.end();
    if last["killed"] == true {
        if status.signal() != Some(9) {
            return Err(format!("it should have died of signal 9: {status}"));
        }
        scene.after_death(&last, |pid| outside.memory(pid))?;
    } else if !status.success() || scene.steps == 0 {
        return Err(format!("{} steps, then {status}", scene.steps));
    }
    if case.started == Started::ByRun {
        let report: Value = serde_json::from_slice(&fs::read(folder.join(REPORT)).unwrap()).unwrap();
        let summary = fs::read(folder.join("stderr")).unwrap();
        let mut differences = report::compare(&report, &scene.refused, &scene.clashes);
        differences.extend(report::unmet(&report, &last["report"]));
        differences.extend(report::unprinted(&String::from_utf8_lossy(&summary), &last["prints"]));
        if !differences.is_empty() {
            return Err(differences.join("; "));
        }
    }
    Ok(())
}

/// Compares one step. Returns the differences.
fn compare_step(
    scene: &mut Scene<'_>,
    case: &Case,
    outside: Outside<'_>,
    step: &Value,
    pid: u32,
    folder: &Path,
) -> Result<Vec<String>, String> {
    let seen = outside.memory(pid)?;
    let mut differences = if case.started == Started::Untracked { scene.control(&seen) } else { scene.compare(step, &seen) };
    if let Some(child) = process_id(&step["child"]) {
        differences.extend(compare::child(&outside.memory(child)?));
    }
    if let Some(least) = step["lines"].as_u64() {
        match report::lines(&outside.events(pid)?, least) {
            Ok((right, all)) => scene.lines.push(format!("{} {right} of {all}", step["step"].as_str().unwrap_or_default())),
            Err(why) => differences.push(why),
        }
    }
    if step["reporter"] == true {
        let ours = folder.join("ours");
        outside.reports(pid, &ours)?;
        differences.extend(report::files(&folder.join("generated/reports"), &ours));
    }
    Ok(differences)
}

fn process_id(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|pid| u32::try_from(pid).ok())
}

/// Returns the end of the script's error output.
fn last_lines(path: &Path) -> String {
    let text = String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let tail = &lines[lines.len().saturating_sub(12)..];
    if tail.is_empty() { String::new() } else { format!("\n    its stderr ends:\n    {}", tail.join("\n    ")) }
}
