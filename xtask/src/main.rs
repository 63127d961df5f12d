//! The commands of this repository, in Rust: `cargo xtask` lists them.
//!
//! This file finds the command in a table, calls it and chooses the exit code.

mod audit;
mod bench;
mod ci;
mod files;
mod fuzz;
mod header;
mod libs;
mod package;
mod project;
mod sbom;
mod stop;
mod tidy;
mod tools;
mod ttnn;
mod web;

use std::process::ExitCode;

use ci::Tier;
use project::Project;
use stop::{Stop, no_arguments};

struct Command {
    name: &'static str,
    arguments: &'static str,
    help: &'static str,
    run: Run,
}

type Run = fn(&Project, &[String]) -> Result<(), Stop>;

const fn command(name: &'static str, arguments: &'static str, help: &'static str, run: Run) -> Command {
    Command { name, arguments, help, run }
}

const STAGES: &str = "[--only STAGE]... [--skip STAGE]... [--allow-skip]";

const COMMANDS: &[Command] = &[
    command("check", STAGES, "what needs only Rust, before every commit: format, rules, lints, tests", |project, arguments| {
        ci::run(project, Tier::Check, arguments)
    }),
    command("ci", STAGES, "check, and what needs root or another tool: the whole gate", |project, arguments| {
        ci::run(project, Tier::Ci, arguments)
    }),
    command(
        "nightly",
        STAGES,
        "what takes long: packages, all versions of ttnn, attacks at full strength, fuzzing, benches",
        |project, arguments| ci::run(project, Tier::Nightly, arguments),
    ),
    command("tidy", "", "what a review would say about the tree: arrows, lengths, leftovers", tidy::run),
    command("docs", "", "write the generated files of docs/, deploy/ and web/: UPDATE=1 cargo test --lib --bins generated", docs),
    command(
        "web",
        "[--check | --picture]",
        "build the page into the program's files, or say which are stale, or draw its picture",
        web::run,
    ),
    command("header", "[--check]", "write the C headers (installs cbindgen once), or say which are stale", header::run),
    command(
        "libs",
        "[--release]",
        "client, hook, stub and monitor in one folder beside the program: what `ttmon run` and the wheel take",
        libs::run,
    ),
    command("fuzz", "[--seconds N] [TARGET]", "throw nonsense at what reads the files of others (installs cargo-fuzz once)", fuzz::run),
    command("sbom", "", "list the crates of the program in target/package/ttmon.cdx.json (CycloneDX)", sbom::run),
    command("audit", "", "licences, bans and sources of the dependencies (installs cargo-deny once)", audit::run),
    command(
        "ttnn",
        ttnn::ARGUMENTS,
        "compare ttmon with the real ttnn on mock chips: installs it and runs the tests; --all for all versions and cases",
        ttnn::run,
    ),
    command(
        "package",
        package::ARGUMENTS,
        "what people install, below target/package: wheel, deb, rpm and tar.gz, or those named",
        package::run,
    ),
    command(
        "bench",
        bench::ARGUMENTS,
        "what a snapshot, an event of the ledger, the hook or the server costs, beside its limits; without NAME: which there are",
        bench::run,
    ),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_command = |(name, _): &(&String, &[String])| !matches!(name.as_str(), "help" | "--help" | "-h");
    let Some((name, rest)) = arguments.split_first().filter(is_command) else {
        print!("{}", list());
        return ExitCode::SUCCESS;
    };
    match dispatch(name, rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Usage(why)) => {
            eprint!("xtask: {why}\n\n{}", list());
            ExitCode::from(2)
        }
        Err(Stop::Failed(why)) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
        Err(Stop::AlreadyPrinted) => ExitCode::FAILURE,
    }
}

fn dispatch(name: &str, arguments: &[String]) -> Result<(), Stop> {
    let command = COMMANDS.iter().find(|command| command.name == name);
    let command = command.ok_or_else(|| Stop::Usage(format!("there is no command {name}")))?;
    (command.run)(&Project::find()?, arguments)
}

/// Tests compare the generated files.
fn docs(project: &Project, arguments: &[String]) -> Result<(), Stop> {
    no_arguments(arguments)?;
    Ok(project::run(project.cargo(&["test", "--lib", "--bins", "generated"]).env("UPDATE", "1"))?)
}

fn list() -> String {
    let mut text = String::from("usage: cargo xtask COMMAND\n\n");
    for Command { name, arguments, help, .. } in COMMANDS {
        let call = format!("{name} {arguments}");
        text += &format!("  {call:<46} {help}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_listed_once_and_says_what_it_does() {
        let list = list();
        for command in COMMANDS {
            assert!(list.contains(command.help) && !command.help.is_empty(), "{}", command.name);
            assert_eq!(COMMANDS.iter().filter(|other| other.name == command.name).count(), 1);
        }
    }
}
