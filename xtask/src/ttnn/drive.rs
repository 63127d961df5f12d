//! Runs one case: starts the script, and at each step reads the view from outside and compares before the script continues.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::case::{Case, Started};
use super::chips::Chips;
use super::compare::{self, Scene};
use super::environment::Environment;
use super::outside::{REPORT, Tracking};
use super::tree::Tree;
use super::{lines, region, report, timeout};
use crate::files;
use crate::project::Project;

/// A longer step is considered hung. A failed compilation of a kernel makes ttnn wait forever.
const STEP_LIMIT: Duration = Duration::from_secs(60);

/// Older allocators have no virtual functions by which the hook could detect them when a mesh opens.
const EMPTY_SINCE: u32 = 70;

/// What all cases of one version share.
pub(super) struct Driver<'a> {
    pub(super) project: &'a Project,
    pub(super) environment: &'a Environment,
    pub(super) tracking: &'a Tracking,
    /// The Python of the environment with the installed wheel.
    pub(super) fresh: Option<PathBuf>,
}

/// A running script, and the files that it will leave behind.
struct Running {
    child: Child,
    folder: PathBuf,
    lines: Receiver<String>,
    segments: BTreeSet<PathBuf>,
}

impl Driver<'_> {
    /// Runs a case. Returns how many steps and figures were equal and other results, or the first step that differs.
    pub(super) fn run(&self, case: &Case) -> Result<String, String> {
        let chips = Chips::read(self.project, case.chips)?;
        let folder = files::temporary()?;
        region::remove(chips.unique_ids.values().copied());
        let mut running = self.start(case, &chips, folder.path())?;
        let result = self.follow(&mut running, case, &chips);
        timeout::kill(&mut running.child);
        region::remove(chips.unique_ids.values().copied());
        for segment in &running.segments {
            let _gone = fs::remove_file(segment);
        }
        result.map_err(|why| format!("{why}{}", last_words(&folder.path().join("stderr"))))
    }

    fn start(&self, case: &Case, chips: &Chips, folder: &Path) -> Result<Running, String> {
        let python = match (case.started, &self.fresh) {
            (Started::ByWheel, Some(python)) => python,
            (Started::ByWheel, None) => return Err("there is no environment with our wheel".to_owned()),
            _ => &self.environment.python,
        };
        let mut python = self.environment.command(python, chips, folder);
        let script = self.project.root.join("xtask/ttnn/scripts").join(case.script);
        python.arg(&script).args(case.arguments).envs(case.variables.iter().copied());
        let mut command = self.tracking.tracked(python, case.started);
        let log = File::create(folder.join("stderr")).map_err(|error| format!("stderr: {error}"))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = timeout::start(&mut command)?;
        let output = child.stdout.take().ok_or("no pipe from the script")?;
        let (sender, lines) = mpsc::channel();
        // The thread ends with the script, or when the receiver is dropped.
        thread::spawn(move || BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Ok(Running { child, folder: folder.to_path_buf(), lines, segments: BTreeSet::new() })
    }

    fn follow(&self, running: &mut Running, case: &Case, chips: &Chips) -> Result<String, String> {
        let tree = case.tree.map(Tree::make).transpose()?;
        let rows = tree.as_ref().map(|tree| (tree, chips));
        let mut scene = Scene::new(chips, has_regions(self.environment, case), self.environment.minor() >= EMPTY_SINCE);
        let mut last = Value::Null;
        loop {
            let line = match running.lines.recv_timeout(STEP_LIMIT) {
                Ok(line) => line,
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => return Err(format!("no step within {} s", STEP_LIMIT.as_secs())),
            };
            let step: Value = serde_json::from_str(&line).map_err(|error| format!("{line}: {error}"))?;
            let name = step["step"].as_str().unwrap_or_default().to_owned();
            self.look(running, &mut scene, case, rows, &step).map_err(|why| format!("at \"{name}\": {why}"))?;
            let answer = running.child.stdin.as_mut().map(|stdin| stdin.write_all(b"go\n").and_then(|()| stdin.flush()));
            answer.transpose().map_err(|error| format!("after \"{name}\": {error}"))?;
            last = step;
        }
        let status = timeout::wait(&mut running.child, STEP_LIMIT)?;
        if last["killed"] == true {
            if status.signal() != Some(9) {
                return Err(format!("it should have died of signal 9: {status}"));
            }
            scene.after_death(&last, |pid| self.tracking.memory(pid, rows))?;
        } else if !status.success() || scene.steps == 0 {
            return Err(format!("{} steps, then {status}", scene.steps));
        }
        if case.started == Started::ByRun {
            let report = read(&running.folder.join(REPORT))?;
            let mut differences = report::compare(&report, &scene.refused, &scene.clashes);
            differences.extend(report::unmet(&report, &last["report"]));
            let summary = fs::read(running.folder.join("stderr")).map_err(|error| format!("the summary: {error}"))?;
            differences.extend(report::unprinted(&String::from_utf8_lossy(&summary), &last["prints"]));
            if !differences.is_empty() {
                return Err(differences.join("; "));
            }
        }
        Ok(scene.summary())
    }

    fn look(&self, running: &mut Running, scene: &mut Scene<'_>, case: &Case, rows: Rows<'_>, step: &Value) -> Result<(), String> {
        let pid = step["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).ok_or("a step without its pid")?;
        running.segments.extend(region::segments(pid));
        let outside = self.tracking.memory(pid, rows)?;
        let mut differences = match case.started {
            Started::Untracked => scene.control(&outside),
            _ => scene.compare(step, &outside),
        };
        if let Some(child) = step["child"].as_u64().and_then(|child| u32::try_from(child).ok()) {
            differences.extend(compare::child(&self.tracking.memory(child, rows)?));
        }
        if let Some(least) = step["lines"].as_u64() {
            match lines::compare(&self.tracking.events(pid)?, least) {
                Ok((right, all)) => scene.lines.push(format!("{} {right} of {all}", step["step"].as_str().unwrap_or_default())),
                Err(why) => differences.push(why),
            }
        }
        if step["reporter"] == true {
            let ours = running.folder.join("ours");
            self.tracking.reports(pid, &ours)?;
            differences.extend(report::files(&running.folder.join("generated/reports"), &ours));
        }
        if differences.is_empty() { Ok(()) } else { Err(differences.join("; ")) }
    }
}

/// A tree with rows, and the descriptor that identifies the chips.
type Rows<'a> = Option<(&'a Tree, &'a Chips)>;

fn read(path: &Path) -> Result<Value, String> {
    let text = fs::read(path).map_err(|error| format!("the report: {error}"))?;
    serde_json::from_slice(&text).map_err(|error| format!("the report: {error}"))
}

/// Whether TT-Metal publishes statistics. It does from 0.70 on, unless disabled.
fn has_regions(environment: &Environment, case: &Case) -> bool {
    environment.minor() >= 70 && !case.variables.iter().any(|(name, _)| *name == "TT_METAL_SHM_TRACKING_DISABLED")
}

/// Returns the end of the script's error output.
fn last_words(path: &Path) -> String {
    let text = fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let tail = &lines[lines.len().saturating_sub(12)..];
    if tail.is_empty() { String::new() } else { format!("\n    its stderr ends:\n    {}", tail.join("\n    ")) }
}
