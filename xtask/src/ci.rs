//! `cargo xtask check`, `ci` and `nightly`: all checks, the same for developers and for a machine with only Rust.
//!
//! A stage is a row of [`STAGES`]. Stages are independent: all of them run, and the command fails if one failed. If a stage cannot run on
//! this machine, this is printed prominently.

mod deploy;
mod package;
mod tools;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::libs::{self, Profile};
use crate::project::{self, FEATURES, Project, called};
use crate::stop::{NotPassed, Stop, untested};
use crate::ttnn::{self, Cases};
use crate::{audit, bench, files, fuzz, header, tidy, web};

type Outcome = Result<(), NotPassed>;
type Run = fn(&mut Gate) -> Outcome;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    /// What needs only Rust, before every commit. Part of `ci`.
    Check,
    Ci,
    /// What takes long. Not part of `ci`.
    Nightly,
}

struct Stage {
    name: &'static str,
    tier: Tier,
    run: Run,
    /// If false, the command can pass without this stage, because what it needs is not available everywhere.
    is_required: bool,
}

const fn required(name: &'static str, tier: Tier, run: Run) -> Stage {
    Stage { name, tier, run, is_required: true }
}

const fn optional(name: &'static str, tier: Tier, run: Run) -> Stage {
    Stage { name, tier, run, is_required: false }
}

/// The stages in order. Fast stages with easy fixes come first.
const STAGES: &[Stage] = &[
    required("fmt", Tier::Check, format),
    required("tidy", Tier::Check, |gate| Ok(tidy::check(gate.project)?)),
    required("clippy", Tier::Check, clippy),
    required("test", Tier::Check, |gate| gate.tests(&mut gate.project.tests(&["--no-fail-fast"]))),
    required("doc", Tier::Ci, rustdoc),
    required("header", Tier::Ci, |gate| header::check(gate.project)),
    required("loom", Tier::Ci, loom),
    required("stub", Tier::Ci, stub),
    required("python", Tier::Ci, python),
    required("root", Tier::Ci, as_root),
    required("adversary", Tier::Ci, |gate| adversary(gate, &[])),
    optional("prometheus", Tier::Ci, |gate| tools::run(gate, "prometheus")),
    required("alertmanager", Tier::Ci, |gate| tools::run(gate, "alertmanager")),
    optional("tls", Tier::Ci, |gate| tools::run(gate, "tls")),
    optional("shells", Tier::Ci, |gate| tools::run(gate, "shells")),
    optional("systemd", Tier::Ci, |gate| tools::run(gate, "systemd")),
    optional("api", Tier::Ci, |gate| tools::run(gate, "api")),
    required("page", Tier::Ci, page),
    optional("ttnn", Tier::Ci, |gate| compare_ttnn(gate, &ttnn::PINNED[..1], Cases::Ci)),
    optional("fuzz", Tier::Ci, |gate| fuzz_for(gate, 5)),
    optional("msrv", Tier::Nightly, oldest_rust),
    required("package", Tier::Nightly, package::run),
    optional("deploy", Tier::Nightly, deploy::run),
    optional("audit", Tier::Nightly, |gate| Ok(audit::check(gate.project)?)),
    required("attacks", Tier::Nightly, |gate| adversary(gate, &[("TTMON_ADVERSARY_FULL", "1")])),
    required("properties", Tier::Nightly, properties),
    optional("fleet", Tier::Nightly, |gate| tools::run(gate, "fleet")),
    optional("versions", Tier::Nightly, |gate| compare_ttnn(gate, ttnn::VERSIONS, Cases::All)),
    optional("fuzzing", Tier::Nightly, |gate| fuzz_for(gate, 60)),
    optional("benches", Tier::Nightly, |gate| Ok(bench::all(gate.project)?)),
];

struct Gate<'a> {
    project: &'a Project,
    passed: u64,
    failed: u64,
}

struct Row {
    name: &'static str,
    result: Outcome,
    is_required: bool,
    took: Duration,
}

/// Runs the stages of a tier, or those that the arguments name.
pub(crate) fn run(project: &Project, tier: Tier, arguments: &[String]) -> Result<(), Stop> {
    let (allowing, arguments): (Vec<_>, Vec<_>) = arguments.iter().map(String::as_str).partition(|argument| *argument == "--allow-skip");
    let mut gate = Gate { project, passed: 0, failed: 0 };
    let mut rows = Vec::new();
    for stage in choose(tier, &arguments).map_err(Stop::Usage)? {
        println!("\n== {}", stage.name);
        let started = Instant::now();
        let result = (stage.run)(&mut gate);
        match &result {
            Ok(()) => {}
            Err(NotPassed::Skipped(why)) => println!("SKIPPED: {why}"),
            Err(NotPassed::Failed(why)) => println!("FAILED: {why}"),
        }
        rows.push(Row { name: stage.name, result, is_required: stage.is_required && allowing.is_empty(), took: started.elapsed() });
    }
    let failures = rows.iter().filter(|row| row.is_failure()).count();
    print!("\n{}", summary(&rows));
    // The count is the last line, so that programs that read the output find it.
    println!("\ntests: {} passed, {} failed", gate.passed, gate.failed.max(failures as u64));
    if failures == 0 { Ok(()) } else { Err(Stop::AlreadyPrinted) }
}

/// Returns the stages of a tier, or those of `--only`, without those of `--skip`.
fn choose(tier: Tier, arguments: &[&str]) -> Result<Vec<&'static Stage>, String> {
    let (mut only, mut skipped) = (Vec::new(), Vec::new());
    let mut arguments = arguments.iter();
    while let Some(flag) = arguments.next() {
        let list = match *flag {
            "--only" => &mut only,
            "--skip" => &mut skipped,
            _ => return Err(format!("unexpected argument {flag}")),
        };
        let names = || STAGES.iter().map(|stage| stage.name).collect::<Vec<_>>().join(", ");
        let wanted = arguments.next().ok_or_else(|| format!("{flag} wants a stage: {}", names()))?;
        let stage = STAGES.iter().find(|stage| stage.name == *wanted);
        list.push(stage.ok_or_else(|| format!("there is no stage {wanted}; there are: {}", names()))?.name);
    }
    let is_of_tier = |stage: &Stage| stage.tier == tier || (tier == Tier::Ci && stage.tier == Tier::Check);
    let is_chosen = |stage: &&Stage| if only.is_empty() { is_of_tier(stage) } else { only.contains(&stage.name) };
    Ok(STAGES.iter().filter(is_chosen).filter(|stage| !skipped.contains(&stage.name)).collect())
}

impl Row {
    fn is_failure(&self) -> bool {
        match self.result {
            Ok(()) => false,
            Err(NotPassed::Skipped(_)) => self.is_required,
            Err(NotPassed::Failed(_)) => true,
        }
    }
}

/// Returns the table of the stages.
fn summary(rows: &[Row]) -> String {
    let mut text = format!("{:<12} {:>7}  result\n", "stage", "seconds");
    let mut line = |name: &str, took: Duration, result: &str| text += &format!("{name:<12} {:>7.1}  {result}\n", took.as_secs_f64());
    for row in rows {
        let result = match &row.result {
            Ok(()) => "passed".to_owned(),
            Err(NotPassed::Skipped(why)) if row.is_required => format!("SKIPPED, but required (--allow-skip lets it pass): {why}"),
            Err(NotPassed::Skipped(why)) => format!("SKIPPED: {why}"),
            Err(NotPassed::Failed(why)) => format!("FAILED: {why}"),
        };
        line(row.name, row.took, &result);
    }
    line("all", rows.iter().map(|row| row.took).sum(), "");
    text
}

impl Gate<'_> {
    /// Runs tests. Their output passes through and is counted. A filter that matches no test is an error.
    fn tests(&mut self, command: &mut Command) -> Outcome {
        println!("$ {}", called(command));
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| format!("{}: {error}", called(command)))?;
        let before = self.passed + self.failed;
        for line in child.stdout.take().into_iter().flat_map(|output| BufReader::new(output).lines()) {
            let line = line.map_err(|error| format!("the output of the tests: {error}"))?;
            println!("{line}");
            if let Some((passed, failed)) = result_line(&line) {
                self.passed += passed;
                self.failed += failed;
            }
        }
        let status = child.wait().map_err(|error| format!("the tests: {error}"))?;
        project::succeeded(command, status)?;
        if self.passed + self.failed > before { Ok(()) } else { Err(format!("{}: no test ran", called(command)).into()) }
    }
}

/// Parses `test result: ok. 17 passed; 0 failed; ...`, the last line of a test program.
fn result_line(line: &str) -> Option<(u64, u64)> {
    let words: Vec<&str> = line.strip_prefix("test result: ")?.split([' ', ';']).filter(|word| !word.is_empty()).collect();
    let count = |label| words.windows(2).find(|pair| pair[1] == label)?[0].parse().ok();
    Some((count("passed")?, count("failed")?))
}

fn cargo(project: &Project, arguments: &[&str]) -> Result<(), String> {
    run_shown(&mut project.cargo(arguments))
}

/// Prints the command and runs it.
fn run_shown(command: &mut Command) -> Result<(), String> {
    println!("$ {}", called(command));
    project::run(command)
}

/// Checks for the toolchain component of `cargo SUBCOMMAND`, which a minimal installation of Rust lacks.
fn component(project: &Project, component: &str, subcommand: &str) -> Result<(), String> {
    let add = || project::run(&mut project.command("rustup", &["component", "add", component]));
    project::probe(&mut project.cargo(&[subcommand, "--version"])).or_else(|_| add())
}

fn format(gate: &mut Gate) -> Outcome {
    component(gate.project, "rustfmt", "fmt")?;
    cargo(gate.project, &["fmt", "--all", "--check"])?;
    Ok(cargo(gate.project, &["fmt", "--manifest-path", libs::STUB_MANIFEST, "--check"])?)
}

fn clippy(gate: &mut Gate) -> Outcome {
    component(gate.project, "clippy", "clippy")?;
    Ok(cargo(gate.project, &["clippy", "--workspace", FEATURES, "--all-targets", "--", "-D", "warnings"])?)
}

fn rustdoc(gate: &mut Gate) -> Outcome {
    Ok(run_shown(gate.project.cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))?)
}

fn oldest_rust(gate: &mut Gate) -> Outcome {
    let text = files::read(&gate.project.root.join("Cargo.toml"))?;
    let promised = text.lines().find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"'));
    let version = promised.ok_or_else(|| "Cargo.toml has no rust-version".to_owned())?;
    let rustup = |arguments: &[&str]| run_shown(&mut gate.project.command("rustup", arguments));
    let installed = rustup(&["toolchain", "install", version, "--profile", "minimal"]);
    installed.map_err(untested(&format!("nothing was compiled with Rust {version}")))?;
    Ok(rustup(&["run", version, "cargo", "check", "--workspace", "--target-dir", "target/msrv"])?)
}

/// Tests the ledger's protocol with loom: every order in which a reader may see the writer's stores.
fn loom(gate: &mut Gate) -> Outcome {
    cargo(gate.project, &["fetch"]).map_err(untested("the orders of stores were not tried"))?;
    // A separate target directory, because cargo rebuilds everything if flags change.
    let target = gate.project.target()?.join("loom");
    let mut tests = gate.project.cargo(&["test", "--package", "ttmon-ledger", "--lib", "protocol", "--target-dir"]);
    gate.tests(tests.arg(target).env("RUSTFLAGS", "--cfg loom"))
}

/// Checks the stub, which is not a member of the workspace: its lints, and the hook's tests with the stub preloaded.
fn stub(gate: &mut Gate) -> Outcome {
    let mut clippy = gate.project.cargo(&["clippy", "--manifest-path", libs::STUB_MANIFEST, "--target-dir"]);
    run_shown(clippy.arg(gate.project.target()?.join("stub")).args(["--", "-D", "warnings"]))?;
    let stub = libs::build(gate.project, Profile::Debug)?.join("libttmon_stub.so");
    let mut tests = gate.project.tests(&["--test", "stand_in"]);
    gate.tests(tests.env("TTMON_TEST_PRELOAD", stub))
}

/// Runs the tests of python/ with the libraries and the program that it uses.
fn python(gate: &mut Gate) -> Outcome {
    const TESTS: &str = "python/tests";
    let project = gate.project;
    let runs = project::probe(&mut project.command("python3", &["--version"]));
    runs.map_err(untested(&format!("no python3 that runs, so {TESTS} was not tried")))?;
    let program = project.debug_program()?;
    let libraries = libs::build(project, Profile::Debug)?;
    let readers = project.target()?.join("python-readers");
    if let Err(why) = project::run(project.command("python3", &["-B", "xtask/python_readers.py"]).arg(&readers)) {
        println!("NOT TRIED: torch's reader of snapshots, or pytest: {why}");
    }
    // Without -B, Python would leave compiled files in the tree.
    let mut python = project.command("python3", &["-B", "-m", "unittest", "discover", "-s", TESTS]);
    python.env("TTMON_PROGRAM", program).env("TTMON_LIB", libraries).env("TTMON_READERS", readers);
    Ok(run_shown(&mut python)?)
}

/// Runs tests that need processes of other users or unreadable files, which only root can create.
fn as_root(gate: &mut Gate) -> Outcome {
    needs_root("these tests need root")?;
    let mut tests = vec!["--bin", "ttmon", "--test", "all", "--test", "tracked", "--test", "running"];
    // Some tests copy a program and start it. A fork in another thread would keep the copy open for writing.
    tests.extend(["--", "--ignored", "--test-threads=1"]);
    gate.tests(&mut gate.project.tests(&tests))
}

/// Runs attacks by an ordinary user on a service of root, in private namespaces created by `unshare`.
fn adversary(gate: &mut Gate, variables: &[(&str, &str)]) -> Outcome {
    needs_root("no attack was tried: that needs root")?;
    let namespaces = project::probe(&mut gate.project.command("unshare", &["--mount", "--net", "--ipc", "--pid", "--fork", "true"]));
    namespaces.map_err(untested("no attack was tried: private namespaces cannot be made here"))?;
    let mut tests = gate.project.tests(&["--test", "adversary", "--", "--ignored"]);
    gate.tests(tests.envs(variables.iter().copied()))
}

fn needs_root(why: &str) -> Outcome {
    let is_root = rustix::process::geteuid().is_root();
    if is_root { Ok(()) } else { Err(NotPassed::Skipped(format!("{why}, and this is another user"))) }
}

/// Tests the page in a real Chromium: the built files match `web/`, and every view is opened and checked (`web/test/page.mjs`).
fn page(gate: &mut Gate) -> Outcome {
    let project = gate.project;
    let browser = web::Browser::find_or_install(project).map_err(untested("NO BROWSER OPENED THE PAGE"))?;
    web::build(project, &["--check"])?;
    Ok(run_shown(&mut browser.command(project, &project.debug_program()?))?)
}

/// Compares ttmon's figures with those of the real ttnn's allocators, on mock chips.
fn compare_ttnn(gate: &mut Gate, versions: &[&str], cases: Cases) -> Outcome {
    let installed = ttnn::install(gate.project, versions).map_err(untested("NOTHING WAS COMPARED WITH THE REAL TTNN"))?;
    gate.tests(&mut ttnn::tests(gate.project, &installed, cases)?)
}

/// Runs each fuzz target for this time. A few seconds are enough for the corpus and similar inputs.
fn fuzz_for(gate: &mut Gate, seconds: u64) -> Outcome {
    let targets = fuzz::targets(gate.project)?;
    let fuzzer = fuzz::Fuzzer::prepare(gate.project).map_err(untested("nothing was fuzzed"))?;
    Ok(fuzzer.run(&targets, seconds, &["-verbosity=0"])?)
}

/// Runs the tests that make cases or kill writers at random with many more of them.
fn properties(gate: &mut Gate) -> Outcome {
    let mut tests = gate.project.tests(&["--lib", "--test", "all", "--test", "process", "--no-fail-fast"]);
    gate.tests(tests.env("PROPTEST_CASES", "10000").env("TTMON_KILLS", "500"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(tier: Tier, arguments: &[&str]) -> Result<Vec<&'static str>, String> {
        Ok(choose(tier, arguments)?.into_iter().map(|stage| stage.name).collect())
    }

    #[test]
    fn ci_contains_check_and_nightly_is_the_rest() {
        let (check, ci, nightly) = (chosen(Tier::Check, &[]).unwrap(), chosen(Tier::Ci, &[]).unwrap(), chosen(Tier::Nightly, &[]).unwrap());
        assert_eq!(check, ["fmt", "tidy", "clippy", "test"]);
        assert!(check.iter().all(|name| ci.contains(name)) && nightly.iter().all(|name| !ci.contains(name)));
        assert_eq!(ci.len() + nightly.len(), STAGES.len());
    }

    #[test]
    fn stages_are_chosen_by_name() {
        assert_eq!(chosen(Tier::Ci, &["--only", "package"]), Ok(vec!["package"]));
        assert_eq!(chosen(Tier::Check, &["--skip", "test", "--skip", "fmt"]), Ok(vec!["tidy", "clippy"]));
        assert_eq!(chosen(Tier::Ci, &["--only", "fmt", "--only", "tidy", "--skip", "fmt"]), Ok(vec!["tidy"]));
    }

    #[test]
    fn an_unknown_stage_is_answered_with_the_known_ones() {
        assert!(chosen(Tier::Ci, &["--only", "lint"]).unwrap_err().starts_with("there is no stage lint; there are: fmt, tidy, clippy, "));
        assert!(chosen(Tier::Ci, &["--only"]).unwrap_err().starts_with("--only wants a stage: fmt, "));
        assert_eq!(chosen(Tier::Ci, &["test"]), Err("unexpected argument test".to_owned()));
    }

    #[test]
    fn stage_names_are_unique() {
        for stage in STAGES {
            assert_eq!(STAGES.iter().filter(|other| other.name == stage.name).count(), 1, "{}", stage.name);
        }
    }

    #[test]
    fn the_summary_has_a_line_a_stage() {
        let row = |name, result, is_required, millis| Row { name, result, is_required, took: Duration::from_millis(millis) };
        let skipped = || Err(NotPassed::Skipped("no".to_owned()));
        let rows = [row("fmt", Ok(()), true, 1234), row("tls", skipped(), false, 0), row("root", skipped(), true, 0)];
        let expected = "stage        seconds  result\nfmt              1.2  passed\ntls              0.0  SKIPPED: no\n\
            root             0.0  SKIPPED, but required (--allow-skip lets it pass): no\nall              1.2  \n";
        assert_eq!(summary(&rows), expected);
    }

    #[test]
    fn results_of_test_programs_are_counted() {
        let line = "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        assert_eq!(result_line(line), Some((1, 1)));
        assert_eq!(result_line("test result: \u{1b}[32mok\u{1b}[m. 40 passed; 0 failed; 2 ignored"), Some((40, 0)));
        assert_eq!(result_line("test result: ok."), None);
        assert_eq!(result_line("test prints test result: ok. 1 passed; 0 failed;"), None);
    }
}
