//! `cargo xtask ci`: all checks, the same for developers and for a machine with only Rust.
//!
//! A stage is a row of [`STAGES`]. Stages are independent: all of them run, and the command fails if one failed. If a stage cannot run on
//! this machine, this is printed prominently. Tests are counted from their output.

mod deploy;
mod package;
mod python;
mod tally;
mod tools;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::files;
use crate::libs::{self, Profile};
use crate::project::{self, Project, called};
use crate::stop::{NotPassed, Stop, no_arguments, untested};
use crate::stream::Voice;
use crate::{fuzz, header, tidy, ttnn, web};
use tally::Tally;

type Outcome = Result<(), NotPassed>;

struct Stage {
    name: &'static str,
    kind: Kind,
    run: fn(&mut Gate) -> Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Only Rust. The stage is part of `cargo xtask check`.
    Check,
    /// More than Rust. If the stage is skipped, the command fails, unless `--allow-skip` is given.
    Required,
    /// Something that is not available everywhere.
    Optional,
}

/// The stages in order. Fast stages with easy fixes come first.
const STAGES: &[Stage] = &[
    Stage {
        name: "fmt",
        kind: Kind::Check,
        run: |gate| Ok(gate.component("rustfmt", "fmt").and_then(|()| gate.cargo(&["fmt", "--all", "--check"]))?),
    },
    Stage {
        name: "clippy",
        kind: Kind::Check,
        run: |gate| {
            let lints = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
            Ok(gate.component("clippy", "clippy").and_then(|()| gate.cargo(&lints))?)
        },
    },
    Stage { name: "build", kind: Kind::Required, run: |gate| Ok(package::as_installed(gate.project).map(drop)?) },
    Stage { name: "test", kind: Kind::Check, run: |gate| Ok(gate.tests(&["test", "--workspace", "--no-fail-fast"], &[])?) },
    Stage { name: "tidy", kind: Kind::Check, run: |gate| Ok(tidy::check(gate.project)?) },
    Stage { name: "msrv", kind: Kind::Optional, run: oldest_rust },
    Stage { name: "doc", kind: Kind::Required, run: rustdoc },
    Stage { name: "loom", kind: Kind::Required, run: loom },
    Stage { name: "header", kind: Kind::Required, run: |gate| header::check(gate.project) },
    Stage { name: "python", kind: Kind::Required, run: python::run },
    Stage { name: "stub", kind: Kind::Required, run: stub },
    Stage { name: "root", kind: Kind::Required, run: as_root },
    Stage { name: "adversary", kind: Kind::Required, run: adversary },
    Stage { name: "prometheus", kind: Kind::Optional, run: |gate| tools::run(gate, "prometheus") },
    Stage { name: "alertmanager", kind: Kind::Required, run: |gate| tools::run(gate, "alertmanager") },
    Stage { name: "fleet", kind: Kind::Required, run: |gate| tools::run(gate, "fleet") },
    Stage { name: "api", kind: Kind::Optional, run: |gate| tools::run(gate, "api") },
    Stage { name: "page", kind: Kind::Required, run: page },
    Stage { name: "tls", kind: Kind::Optional, run: |gate| tools::run(gate, "tls") },
    Stage { name: "shells", kind: Kind::Optional, run: |gate| tools::run(gate, "shells") },
    Stage { name: "ttnn", kind: Kind::Optional, run: compare_ttnn },
    Stage { name: "package", kind: Kind::Required, run: package::run },
    Stage { name: "deploy", kind: Kind::Optional, run: deploy::run },
    Stage { name: "systemd", kind: Kind::Optional, run: |gate| tools::run(gate, "systemd") },
    Stage { name: "fuzz", kind: Kind::Optional, run: fuzz_briefly },
];

struct Gate<'a> {
    project: &'a Project,
    tally: Tally,
}

struct Row {
    name: &'static str,
    result: String,
    took: Duration,
}

pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Stop> {
    let names: Vec<&str> = STAGES.iter().map(|stage| stage.name).collect();
    let (allowed, arguments): (Vec<String>, Vec<String>) = arguments.iter().cloned().partition(|argument| argument == "--allow-skip");
    let chosen = choose(&names, &arguments).map_err(Stop::Usage)?;
    run_stages(project, &chosen, !allowed.is_empty())
}

pub(crate) fn check(project: &Project, arguments: &[String]) -> Result<(), Stop> {
    no_arguments(arguments)?;
    run_stages(project, &STAGES.iter().filter(|stage| stage.kind == Kind::Check).map(|stage| stage.name).collect(), false)
}

fn run_stages(project: &Project, chosen: &BTreeSet<&str>, may_skip: bool) -> Result<(), Stop> {
    let mut gate = Gate { project, tally: Tally::default() };
    let mut rows = Vec::new();
    let mut failures = Vec::new();
    for stage in STAGES.iter().filter(|stage| chosen.contains(stage.name)) {
        println!("== {}", stage.name);
        let started = Instant::now();
        let result = match (stage.run)(&mut gate) {
            Ok(()) => "passed".to_owned(),
            Err(NotPassed::Skipped(why)) => {
                println!("SKIPPED: {why}");
                if stage.kind != Kind::Optional && !may_skip {
                    failures.push(format!("stage {} is required and was skipped (--allow-skip lets it pass): {why}", stage.name));
                }
                format!("SKIPPED: {why}")
            }
            Err(NotPassed::Failed(why)) => {
                println!("FAILED: {why}");
                failures.push(format!("stage {} failed: {why}", stage.name));
                "FAILED".to_owned()
            }
        };
        rows.push(Row { name: stage.name, result, took: started.elapsed() });
    }
    print!("\n{}", summary(&rows));
    for why in &failures {
        println!("\nci: {why}");
    }
    println!("\nci: {}", gate.tally);
    // The count is the last line, so that programs that read the output find it.
    if failures.is_empty() { Ok(()) } else { Err(Stop::Told) }
}

impl Gate<'_> {
    fn cargo(&self, arguments: &[&str]) -> Result<(), String> {
        let mut command = self.project.cargo(arguments);
        println!("$ {}", called(&command));
        project::run(&mut command)
    }

    /// Checks for the toolchain component of `cargo SUBCOMMAND`, which a minimal installation of Rust lacks.
    fn component(&self, component: &str, subcommand: &str) -> Result<(), String> {
        let add = || project::run(&mut self.project.command("rustup", &["component", "add", component]));
        project::probe(&mut self.project.cargo(&[subcommand, "--version"])).or_else(|_| add())
    }

    /// Builds the program with more arguments for cargo, and returns its path.
    fn ttmon(&self, more: &[&str]) -> Result<PathBuf, String> {
        self.cargo(&[&["build", "--quiet", "--package", "ttmon"], more].concat())?;
        Ok(self.project.target()?.join("debug/ttmon"))
    }

    /// Counts a whole stage as one test.
    fn count(&mut self, checked: Result<(), String>) -> Outcome {
        self.tally.add(u64::from(checked.is_ok()), u64::from(checked.is_err()));
        Ok(checked?)
    }

    /// Runs `cargo test`. Its output passes through and is counted.
    fn tests(&mut self, arguments: &[&str], variables: &[(&str, &str)]) -> Result<(), String> {
        let mut command = self.project.cargo(arguments);
        command.envs(variables.iter().copied());
        println!("$ {}", called(&command));
        self.tally.stream(&mut command, Voice::Stdout)
    }
}

fn oldest_rust(gate: &mut Gate) -> Outcome {
    let text = files::read(&gate.project.root.join("Cargo.toml"))?;
    let promised = text.lines().find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"'));
    let version = promised.ok_or_else(|| "Cargo.toml has no rust-version".to_owned())?;
    let rustup = |arguments: &[&str]| project::run(&mut gate.project.command("rustup", arguments));
    let installed = rustup(&["toolchain", "install", version, "--profile", "minimal"]);
    installed.map_err(untested(&format!("nothing was compiled with Rust {version}")))?;
    Ok(rustup(&["run", version, "cargo", "check", "--workspace", "--target-dir", "target/msrv"])?)
}

fn rustdoc(gate: &mut Gate) -> Outcome {
    let mut command = gate.project.cargo(&["doc", "--workspace", "--no-deps"]);
    Ok(project::run(command.env("RUSTDOCFLAGS", "-D warnings"))?)
}

/// Runs each fuzz target long enough for the corpus and similar inputs. `cargo xtask fuzz` runs longer.
fn fuzz_briefly(gate: &mut Gate) -> Outcome {
    // With this time, 12 targets take as long as 11 targets with 30 seconds.
    const SECONDS: u64 = 27;
    let targets = fuzz::targets(gate.project)?;
    let fuzzer = fuzz::Fuzzer::prepare(gate.project).map_err(untested("nothing was fuzzed"))?;
    Ok(fuzzer.run(&targets, SECONDS, &["-verbosity=0"])?)
}

/// Runs tests that need processes of other users or unreadable files, which only root can create.
fn as_root(gate: &mut Gate) -> Outcome {
    needs_root("these tests need root")?;
    let mut tests = vec!["test", "--package", "ttmon", "--package", "ttmon-symbols"];
    tests.extend(["lines", "all", "tracked", "running"].into_iter().flat_map(|test| ["--test", test]));
    // Some tests copy a program and start it. A fork in another thread would keep the copy open for writing.
    tests.extend(["--", "--ignored", "--test-threads=1"]);
    Ok(gate.tests(&tests, &[])?)
}

/// Runs attacks by an ordinary user on a service of root, in private namespaces created by `unshare`.
fn adversary(gate: &mut Gate) -> Outcome {
    needs_root("no attack was tried: that needs root")?;
    let namespaces = project::probe(&mut gate.project.command("unshare", &["--mount", "--net", "--ipc", "--pid", "--fork", "true"]));
    namespaces.map_err(untested("no attack was tried: private namespaces cannot be made here"))?;
    Ok(gate.tests(&["test", "--package", "ttmon", "--test", "adversary", "--", "--ignored"], &[])?)
}

fn needs_root(why: &str) -> Outcome {
    let is_root = rustix::process::geteuid().is_root();
    if is_root { Ok(()) } else { Err(NotPassed::Skipped(format!("{why}, and this is another user"))) }
}

/// Tests the ledger's protocol with loom: every order in which a reader may see the writer's stores.
fn loom(gate: &mut Gate) -> Outcome {
    gate.cargo(&["fetch"]).map_err(untested("the orders of stores were not tried"))?;
    // A separate target directory, because cargo rebuilds everything if flags change.
    let target = gate.project.target()?.join("loom");
    let before = gate.tally.total();
    let tests = ["test", "--package", "ttmon-ledger", "--lib", "--target-dir", &target.to_string_lossy(), "protocol"];
    gate.tests(&tests, &[("RUSTFLAGS", "--cfg loom")])?;
    if gate.tally.total() > before { Ok(()) } else { Err("there are no tests of the protocol".to_owned().into()) }
}

/// Checks the stub, which is not a member of the workspace: its format, its lints, and the hook's tests with the stub preloaded.
fn stub(gate: &mut Gate) -> Outcome {
    gate.cargo(&["fmt", "--manifest-path", libs::STUB_MANIFEST, "--check"])?;
    let target = gate.project.target()?.join("stub");
    let target = target.to_string_lossy();
    gate.cargo(&["clippy", "--manifest-path", libs::STUB_MANIFEST, "--target-dir", &target, "--", "-D", "warnings"])?;
    let stub = libs::build(gate.project, Profile::Debug)?.join("libttmon_stub.so");
    let stub = stub.to_string_lossy();
    Ok(gate.tests(&["test", "--package", "ttmon-hook", "--test", "stand_in"], &[("TTMON_TEST_PRELOAD", &stub)])?)
}

/// Tests the page in a real Chromium: the built files match `web/`, and every view is opened and checked (`web/test/page.mjs`).
fn page(gate: &mut Gate) -> Outcome {
    let browser = web::Browser::have(gate.project).map_err(untested("NO BROWSER OPENED THE PAGE"))?;
    let checked = web::build(gate.project, &["--check"])
        .and_then(|()| gate.ttmon(&[]))
        .and_then(|program| project::run(&mut browser.command(gate.project, &program)));
    gate.count(checked)
}

/// Runs the real ttnn on mock chips, and compares ttmon's figures with the allocators' own.
fn compare_ttnn(gate: &mut Gate) -> Outcome {
    let installed = ttnn::install(gate.project, ttnn::PINNED).map_err(untested("NOTHING WAS COMPARED WITH THE REAL TTNN"))?;
    Ok(gate.tally.stream(&mut ttnn::tests(gate.project, &installed, ttnn::Cases::Ci)?, Voice::Stdout)?)
}

fn choose<'a>(names: &[&'a str], arguments: &[String]) -> Result<BTreeSet<&'a str>, String> {
    let mut only = BTreeSet::new();
    let mut skipped = BTreeSet::new();
    let mut arguments = arguments.iter();
    while let Some(flag) = arguments.next() {
        let list = match flag.as_str() {
            "--only" => &mut only,
            "--skip" => &mut skipped,
            _ => return Err(format!("unexpected argument {flag}")),
        };
        let wanted = arguments.next().ok_or_else(|| format!("{flag} wants a stage: {}", names.join(", ")))?;
        let name = names.iter().find(|name| *name == wanted);
        list.insert(*name.ok_or_else(|| format!("there is no stage {wanted}; there are: {}", names.join(", ")))?);
    }
    let asked = if only.is_empty() { names.iter().copied().collect() } else { only };
    Ok(asked.difference(&skipped).copied().collect())
}

fn summary(rows: &[Row]) -> String {
    let mut text = format!("{:<10} {:>8}  result\n", "stage", "seconds");
    for Row { name, result, took } in rows {
        text += &format!("{name:<10} {:>8.1}  {result}\n", took.as_secs_f64());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 3] = ["fmt", "test", "tidy"];

    fn chosen(arguments: &[&str]) -> Result<Vec<&'static str>, String> {
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        choose(&NAMES, &arguments).map(|names| names.into_iter().collect())
    }

    #[test]
    fn stages_are_chosen_by_name() {
        assert_eq!(chosen(&[]), Ok(vec!["fmt", "test", "tidy"]));
        assert_eq!(chosen(&["--only", "test"]), Ok(vec!["test"]));
        assert_eq!(chosen(&["--skip", "test", "--skip", "fmt"]), Ok(vec!["tidy"]));
        assert_eq!(chosen(&["--only", "fmt", "--only", "tidy", "--skip", "fmt"]), Ok(vec!["tidy"]));
    }

    #[test]
    fn an_unknown_stage_is_answered_with_the_known_ones() {
        assert_eq!(chosen(&["--only", "lint"]), Err("there is no stage lint; there are: fmt, test, tidy".to_owned()));
        assert_eq!(chosen(&["--only"]), Err("--only wants a stage: fmt, test, tidy".to_owned()));
        assert_eq!(chosen(&["test"]), Err("unexpected argument test".to_owned()));
    }

    #[test]
    fn stage_names_are_unique() {
        let names: BTreeSet<&str> = STAGES.iter().map(|stage| stage.name).collect();
        assert_eq!(names.len(), STAGES.len());
    }

    #[test]
    fn the_summary_has_a_line_a_stage() {
        let rows = [
            Row { name: "fmt", result: "passed".to_owned(), took: Duration::from_millis(1234) },
            Row { name: "root", result: "SKIPPED: no".to_owned(), took: Duration::ZERO },
        ];
        assert_eq!(summary(&rows), "stage       seconds  result\nfmt             1.2  passed\nroot            0.0  SKIPPED: no\n");
    }
}
