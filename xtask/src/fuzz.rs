//! `cargo xtask fuzz`: fuzzes the code that reads input of others (fuzz/README.md).
//!
//! A run starts with the corpus in the repository and does not change it. New inputs are kept below the target directory for the next run.

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::SystemTime;

use serde_json::Value;

use crate::files;
use crate::project::{self, Project, called};
use crate::stop::Stop;
use crate::tools::Tool;

const CARGO_FUZZ: Tool = Tool { name: "cargo-fuzz", version: "0.13.2" };

const FOLDER: &str = "fuzz";
const MANIFEST: &str = "fuzz/Cargo.toml";
const SECONDS: u64 = 60;
/// An input that takes longer counts as a hang. libFuzzer's own default is 20 minutes.
const INPUT_SECONDS_MAX: u64 = 10;

pub(crate) struct Fuzzer<'a> {
    project: &'a Project,
    program: PathBuf,
    triple: String,
    target: PathBuf,
}

pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Stop> {
    let (seconds, wanted) = wanted(arguments).map_err(Stop::Usage)?;
    let targets = targets(project)?;
    let chosen = match wanted {
        None => targets,
        Some(target) if targets.contains(&target) => vec![target],
        Some(target) => return Err(Stop::Usage(format!("there is no target {target}; there are: {}", targets.join(", ")))),
    };
    Ok(Fuzzer::prepare(project)?.run(&chosen, seconds, &[])?)
}

/// Returns the seconds and the target of the command line.
fn wanted(arguments: &[String]) -> Result<(u64, Option<String>), String> {
    let (mut seconds, mut target) = (SECONDS, None);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        if argument == "--seconds" {
            let text = arguments.next().map_or("", String::as_str);
            // libFuzzer treats 0 as unlimited.
            let parsed = text.parse().ok().filter(|seconds| *seconds > 0);
            seconds = parsed.ok_or_else(|| format!("--seconds wants a number from 1 on, not {text:?}"))?;
        } else if argument.starts_with('-') || target.is_some() {
            return Err(format!("unexpected argument {argument}"));
        } else {
            target = Some(argument.clone());
        }
    }
    Ok((seconds, target))
}

pub(crate) fn targets(project: &Project) -> Result<Vec<String>, String> {
    let text = project::output(&mut project.cargo(&["metadata", "--no-deps", "--format-version", "1", "--manifest-path", MANIFEST]))?;
    parse_targets(&text).ok_or_else(|| format!("{MANIFEST}: cargo metadata is not of the form 1 that we know"))
}

/// Returns the programs with a source in `fuzz_targets/`. Other programs are helpers.
fn parse_targets(text: &str) -> Option<Vec<String>> {
    let document: Value = serde_json::from_str(text).ok()?;
    let packages = document["packages"].as_array()?;
    let programs = packages.iter().filter_map(|package| package["targets"].as_array()).flatten();
    let targets = programs.filter(|program| program["src_path"].as_str().is_some_and(|path| path.contains("/fuzz_targets/")));
    targets.map(|target| target["name"].as_str().map(str::to_owned)).collect()
}

impl<'a> Fuzzer<'a> {
    /// Prepares fuzzing. The error names the missing tool.
    pub(crate) fn prepare(project: &'a Project) -> Result<Self, String> {
        let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
        let runs = project::probe(&mut project.command(&compiler, &["--version"]));
        runs.map_err(|error| format!("libFuzzer needs a C++ compiler: {error}"))?;
        let program = CARGO_FUZZ.find_or_install(project)?;
        let fetch = ["fetch", "--manifest-path", MANIFEST];
        project::run(&mut project.cargo(&fetch)).map_err(|error| format!("the crates of {FOLDER}/ cannot be had: {error}"))?;
        Ok(Self { project, program, triple: triple(project)?, target: project.target()?.join(FOLDER) })
    }

    /// Runs each target for this time, with more flags for libFuzzer. Builds all targets first, then runs as many at once as there are
    /// processors. The error has the findings of all targets.
    pub(crate) fn run(&self, targets: &[String], seconds: u64, flags: &[&str]) -> Result<(), String> {
        // The stable compiler has no sanitizers.
        let mut build = self.project.command(&self.program, &["build", "--sanitizer", "none", "--fuzz-dir", FOLDER, "--target-dir"]);
        build.arg(&self.target).args(if let [only] = targets { Some(only) } else { None });
        println!("$ {}", called(&build));
        project::run(&mut build)?;

        let waiting = Mutex::new(targets.iter());
        let found = Mutex::new(Vec::new());
        let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
        let workers = thread::available_parallelism().map_or(1, NonZero::get).min(targets.len());
        thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    while let Some(target) = next() {
                        if let Err(why) = self.run_one(target, seconds, flags) {
                            found.lock().unwrap_or_else(PoisonError::into_inner).push(why);
                        }
                    }
                });
            }
        });
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        if found.is_empty() { Ok(()) } else { Err(found.join("; ")) }
    }

    fn run_one(&self, target: &str, seconds: u64, flags: &[&str]) -> Result<(), String> {
        let learnt = self.target.join("corpus").join(target);
        let corpus = self.project.root.join(FOLDER).join("corpus").join(target);
        let artifacts = self.project.root.join(FOLDER).join("artifacts").join(target);
        for folder in [&learnt, &artifacts] {
            fs::create_dir_all(folder).map_err(files::at(folder))?;
        }

        let mut command = self.project.command(self.target.join(&self.triple).join("release").join(target), &[]);
        // libFuzzer writes to the first folder, and reads the others.
        command.arg(&learnt).args(corpus.exists().then_some(corpus));
        command.arg(format!("-artifact_prefix={}/", artifacts.display()));
        command.args([format!("-max_total_time={seconds}"), format!("-timeout={INPUT_SECONDS_MAX}"), "-print_final_stats=1".to_owned()]);
        command.args(flags);
        let started = SystemTime::now();
        let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{target}: {error}"))?;
        // Print the output as a whole, because other targets run at the same time.
        println!("$ {}\n{}", called(&command), String::from_utf8_lossy(&output.stderr));
        match &files_since(&artifacts, started)[..] {
            _ if output.status.success() => Ok(()),
            [] => Err(format!("{target}: {}", output.status)),
            found => Err(format!("{target} found something: {}; add a test to the crate", found.join(", "))),
        }
    }
}

fn triple(project: &Project) -> Result<String, String> {
    let text = project::output(&mut project.command("rustc", &["--version", "--verbose"]))?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not print its host".to_owned())
}

/// Returns the files of the folder that were written since then, sorted.
fn files_since(folder: &Path, then: SystemTime) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_new = |entry: &fs::DirEntry| entry.metadata().and_then(|metadata| metadata.modified()).is_ok_and(|written| written >= then);
    let mut paths: Vec<String> = entries.filter(is_new).map(|entry| entry.path().display().to_string()).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn asked(arguments: &[&str]) -> Result<(u64, Option<String>), String> {
        wanted(&arguments.iter().map(|&argument| argument.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn seconds_and_target_come_in_any_order() {
        assert_eq!(asked(&[]), Ok((SECONDS, None)));
        assert_eq!(asked(&["a", "--seconds", "5"]), Ok((5, Some("a".to_owned()))));
        assert_eq!(asked(&["--seconds", "5", "a"]), Ok((5, Some("a".to_owned()))));
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(asked(&["--seconds"]), Err("--seconds wants a number from 1 on, not \"\"".to_owned()));
        assert_eq!(asked(&["--seconds", "0"]), Err("--seconds wants a number from 1 on, not \"0\"".to_owned()));
        assert_eq!(asked(&["--fast"]), Err("unexpected argument --fast".to_owned()));
        assert_eq!(asked(&["a", "b"]), Err("unexpected argument b".to_owned()));
    }

    #[test]
    fn targets_are_separated_from_their_helpers() {
        let metadata = r#"{ "packages": [ { "targets": [
            { "name": "region", "src_path": "/w/fuzz/fuzz_targets/region.rs" },
            { "name": "seeds", "src_path": "/w/fuzz/src/seeds.rs" } ] } ] }"#;
        assert_eq!(parse_targets(metadata).unwrap(), ["region"]);
        assert_eq!(parse_targets("{}"), None);
    }

    #[test]
    fn only_new_files_are_findings() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, written: SystemTime| {
            fs::File::create(folder.path().join(name)).unwrap().set_modified(written).unwrap();
        };
        let then = SystemTime::now();
        file("crash-old", then - Duration::from_secs(60));
        file("crash-new", then + Duration::from_secs(1));
        file("crash-again", then);
        let names = files_since(folder.path(), then);
        assert_eq!(names, ["crash-again", "crash-new"].map(|name| folder.path().join(name).display().to_string()));
        assert_eq!(files_since(&folder.path().join("none"), then), [""; 0]);
    }
}
