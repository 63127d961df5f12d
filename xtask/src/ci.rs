//! `cargo xtask ci`: all checks, the same for developers and for a machine with only Rust.
//!
//! A stage is a row of [`STAGES`]. Stages are independent: all of them run, and the command fails if one failed. If a stage cannot run on
//! this machine, this is printed prominently. Tests are counted from their output.

mod alertmanager;
mod api;
mod deploy;
mod driver_vm;
mod fleet;
mod loom;
mod package;
mod page;
mod prometheus;
mod python;
mod shells;
mod stub;
mod systemd;
mod tally;
mod tls;
mod ttnn;

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::project::{self, Project, called};
use crate::stop::Stop;
use crate::stream::Voice;
use crate::{docs, fuzz, header, screens, tidy};
use tally::Tally;

struct Stage {
    name: &'static str,
    kind: Kind,
    run: fn(&mut Gate) -> Outcome,
}

/// The requirements of a stage.
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
        run: |gate| gate.component("rustfmt", "fmt").and_then(|()| gate.cargo(&["fmt", "--all", "--check"])).into(),
    },
    Stage {
        name: "clippy",
        kind: Kind::Check,
        run: |gate| {
            let lints = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
            gate.component("clippy", "clippy").and_then(|()| gate.cargo(&lints)).into()
        },
    },
    Stage { name: "build", kind: Kind::Required, run: |gate| package::as_installed(gate.project).map(drop).into() },
    Stage { name: "test", kind: Kind::Check, run: |gate| gate.tests(&["test", "--workspace", "--no-fail-fast"], &[]).into() },
    Stage { name: "tidy", kind: Kind::Check, run: |gate| tidy::check(gate.project).into() },
    Stage { name: "msrv", kind: Kind::Optional, run: oldest_rust },
    Stage { name: "docs", kind: Kind::Check, run: |gate| docs::check(gate.project).into() },
    Stage { name: "screens", kind: Kind::Required, run: |gate| screens::check(gate.project).into() },
    Stage { name: "doc", kind: Kind::Required, run: rustdoc },
    Stage { name: "loom", kind: Kind::Required, run: loom::run },
    Stage { name: "header", kind: Kind::Required, run: headers },
    Stage { name: "python", kind: Kind::Required, run: python::run },
    Stage { name: "stub", kind: Kind::Required, run: stub::run },
    Stage { name: "root", kind: Kind::Required, run: as_root },
    Stage { name: "adversary", kind: Kind::Required, run: adversary },
    Stage { name: "prometheus", kind: Kind::Optional, run: prometheus::run },
    Stage { name: "alertmanager", kind: Kind::Required, run: alertmanager::run },
    Stage { name: "fleet", kind: Kind::Required, run: fleet::run },
    Stage { name: "api", kind: Kind::Optional, run: api::run },
    Stage { name: "page", kind: Kind::Required, run: page::run },
    Stage { name: "tls", kind: Kind::Optional, run: tls::run },
    Stage { name: "shells", kind: Kind::Optional, run: shells::run },
    Stage { name: "ttnn", kind: Kind::Optional, run: ttnn::run },
    Stage { name: "driver-vm", kind: Kind::Optional, run: driver_vm::run },
    Stage { name: "package", kind: Kind::Required, run: package::run },
    Stage { name: "deploy", kind: Kind::Optional, run: deploy::run },
    Stage { name: "systemd", kind: Kind::Optional, run: systemd::run },
    Stage { name: "fuzz", kind: Kind::Optional, run: fuzz_briefly },
];

enum Outcome {
    Passed,
    /// The stage could not run on this machine, with the reason.
    Skipped(String),
    Failed(String),
}

impl From<Result<(), String>> for Outcome {
    fn from(result: Result<(), String>) -> Self {
        result.map_or_else(Self::Failed, |()| Self::Passed)
    }
}

/// One run of the stages.
struct Gate<'a> {
    project: &'a Project,
    tally: Tally,
}

/// A line of the summary.
struct Row {
    name: &'static str,
    result: String,
    took: Duration,
}

/// `cargo xtask ci`
pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Stop> {
    let names: Vec<&str> = STAGES.iter().map(|stage| stage.name).collect();
    let (allowed, arguments): (Vec<String>, Vec<String>) = arguments.iter().cloned().partition(|argument| argument == "--allow-skip");
    let chosen = choose(&names, &arguments).map_err(Stop::Usage)?;
    run_stages(project, &chosen, !allowed.is_empty())
}

/// `cargo xtask check`
pub(crate) fn check(project: &Project, arguments: &[String]) -> Result<(), Stop> {
    if let Some(unexpected) = arguments.first() {
        return Err(Stop::Usage(format!("unexpected argument {unexpected}")));
    }
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
            Outcome::Passed => "passed".to_owned(),
            Outcome::Skipped(why) => {
                println!("SKIPPED: {why}");
                if stage.kind != Kind::Optional && !may_skip {
                    failures.push(format!("stage {} is required and was skipped (--allow-skip lets it pass): {why}", stage.name));
                }
                format!("SKIPPED: {why}")
            }
            Outcome::Failed(why) => {
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
        let mut probe = self.project.cargo(&[subcommand, "--version"]);
        probe.stdout(Stdio::null()).stderr(Stdio::null());
        if project::run(&mut probe).is_ok() {
            return Ok(());
        }
        project::run(&mut self.project.command("rustup", &["component", "add", component]))
    }

    /// Runs `cargo test`. Its output passes through and is counted.
    fn tests(&mut self, arguments: &[&str], variables: &[(&str, &str)]) -> Result<(), String> {
        let mut command = self.project.cargo(arguments);
        command.envs(variables.iter().copied());
        println!("$ {}", called(&command));
        self.tally.stream(&mut command, Voice::Stdout)
    }
}

/// Compiles everything with the oldest Rust version in Cargo.toml.
fn oldest_rust(gate: &mut Gate) -> Outcome {
    let text = match std::fs::read_to_string(gate.project.root.join("Cargo.toml")) {
        Ok(text) => text,
        Err(error) => return Outcome::Failed(format!("Cargo.toml: {error}")),
    };
    let promised = text.lines().find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"'));
    let Some(version) = promised else { return Outcome::Failed("Cargo.toml has no rust-version".to_owned()) };
    if let Err(why) = project::run(&mut gate.project.command("rustup", &["toolchain", "install", version, "--profile", "minimal"])) {
        return Outcome::Skipped(format!("nothing was compiled with Rust {version}: {why}"));
    }
    let check = ["run", version, "cargo", "check", "--workspace", "--target-dir", "target/msrv"];
    project::run(&mut gate.project.command("rustup", &check)).into()
}

fn rustdoc(gate: &mut Gate) -> Outcome {
    let mut command = gate.project.cargo(&["doc", "--workspace", "--no-deps"]);
    project::run(command.env("RUSTDOCFLAGS", "-D warnings")).into()
}

fn headers(gate: &mut Gate) -> Outcome {
    match header::CBINDGEN.have(gate.project) {
        Ok(cbindgen) => header::check(gate.project, &cbindgen).into(),
        Err(why) => Outcome::Skipped(format!("the C headers were not compared: {why}")),
    }
}

/// Runs each fuzz target long enough for the corpus and similar inputs. `cargo xtask fuzz` runs longer.
fn fuzz_briefly(gate: &mut Gate) -> Outcome {
    // With this time, 12 targets take as long as 11 targets with 30 seconds.
    const SECONDS: u64 = 27;
    match (fuzz::targets(gate.project), fuzz::Fuzzer::prepare(gate.project)) {
        (Err(why), _) => Outcome::Failed(why),
        (Ok(_), Err(why)) => Outcome::Skipped(format!("nothing was fuzzed: {why}")),
        (Ok(targets), Ok(fuzzer)) => fuzzer.run(&targets, SECONDS, &["-verbosity=0"]).into(),
    }
}

/// Runs tests that need processes of other users or unreadable files, which only root can create.
fn as_root(gate: &mut Gate) -> Outcome {
    if !rustix::process::geteuid().is_root() {
        return Outcome::Skipped("these tests need root, and this is another user".to_owned());
    }
    gate.tests(
        &[
            "test",
            "--package",
            "ttmon",
            "--package",
            "ttmon-symbols",
            "--test",
            "lines",
            "--test",
            "as_root",
            "--test",
            "tracked",
            "--test",
            "running",
            "--test",
            "serve",
            "--test",
            "host",
            "--",
            "--ignored",
            // Some tests copy a program and start it. A fork in another thread would keep the copy open for writing.
            "--test-threads=1",
        ],
        &[],
    )
    .into()
}

/// Runs attacks by an ordinary user on a service of root, in private namespaces created by `unshare`.
fn adversary(gate: &mut Gate) -> Outcome {
    if !rustix::process::geteuid().is_root() {
        return Outcome::Skipped("no attack was tried: that needs root, and this is another user".to_owned());
    }
    let mut probe = gate.project.command("unshare", &["--mount", "--net", "--ipc", "--pid", "--fork", "true"]);
    if project::run(probe.stdout(Stdio::null()).stderr(Stdio::null())).is_err() {
        return Outcome::Skipped("no attack was tried: private namespaces cannot be made here (unshare failed)".to_owned());
    }
    gate.tests(&["test", "--package", "ttmon", "--test", "adversary", "--", "--ignored"], &[]).into()
}

/// Returns the stages that the command line selects.
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
