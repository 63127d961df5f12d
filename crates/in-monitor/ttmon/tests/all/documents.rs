//! The documents: their commands run, on a simulated machine and with `true` as the program, and their links lead somewhere.
//! `cli/documents.rs` of the program tests that every command parses.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use ttmon_testing::{CommandBuilder, DocumentedCommand, KilledOnDrop, Service, Terminal};

use crate::TTMON;

/// Its chips are read with `--deep` at once. An idle Wormhole chip is left alone for seconds first.
const MACHINE: &str = "p150x8";
const IDLE_MACHINE: &str = "p150x8,idle";

const REPORT: &str = "memory.json";
const RECORDING: &str = "night.ttmon";

/// Debug builds start slowly. More at once gain nothing on few processors.
const RUNNERS: usize = 4;

/// How a documented command is tried.
#[derive(Debug, PartialEq, Eq)]
enum Trial {
    /// It ends with one of these codes.
    Ends(&'static [i32]),
    /// It prints until it is killed.
    Prints,
    /// It draws on a terminal until it is killed.
    Draws,
    /// It is a service that becomes ready.
    Serves,
    /// It needs another host, the service of this host, its receivers or its processes.
    OnlyParsed,
}

/// Returns how to try a command, and the command with everything replaced that a test does not have.
fn plan(documented: &[String]) -> (Trial, Vec<String>) {
    let mut words: Vec<String> = documented[1..].to_vec();
    let command = words.first().filter(|word| !word.starts_with('-')).cloned().unwrap_or_default();
    let has = |flags: &[&str]| words.iter().any(|word| flags.contains(&word.as_str()));
    let trial = match command.as_str() {
        _ if has(&["PID", "4242", "--connect", "--fleet", "--tls-cert"]) => Trial::OnlyParsed,
        "fleet" | "sd" | "token" | "alias" | "export" => Trial::OnlyParsed,
        "alerts" if words.len() > 1 => Trial::OnlyParsed,
        "serve" => Trial::Serves,
        "top" => Trial::Draws,
        _ if has(&["-w", "--watch"]) => Trial::Draws,
        "dmon" | "pmon" => Trial::Prints,
        _ if has(&["-l", "--loop", "--follow"]) => Trial::Prints,
        "doctor" => Trial::Ends(&[0, 1, 2]),
        // Nothing is tracked in `true`, so checks fail.
        "run" if has(&["--max-dram", "--max-l1", "--fail-on-growth", "--fail-on-leak"]) => Trial::Ends(&[123]),
        _ => Trial::Ends(&[0]),
    };
    match command.as_str() {
        "run" => {
            let program = words.iter().position(|word| word == "--").map_or(1, |at| at + 1);
            words.splice(program.., ["true".to_owned()]);
        }
        "record" => words.extend(["--duration", "1"].map(String::from)),
        _ => {}
    }
    for word in &mut words {
        // The ports of the documents may be in use.
        if word.starts_with("0.0.0.0:") || word.starts_with("127.0.0.1:") {
            *word = "127.0.0.1:0".to_owned();
        }
    }
    let reads_no_machine = ["run", "help", "man", "completions", "env", "report"].contains(&command.as_str());
    let reads_a_file = words.iter().any(|word| word == "--replay" || (command == "oom" && word.ends_with(".json")));
    if !reads_no_machine && !reads_a_file && !words.iter().any(|word| ["--sim", "--version"].contains(&word.as_str())) {
        let machine = if ["wait", "check"].contains(&command.as_str()) { IDLE_MACHINE } else { MACHINE };
        words.extend(["--sim", machine].map(String::from));
    }
    (trial, words)
}

/// Runs a command in a folder of its own, with the report or the recording that it reads. Returns what is wrong.
fn run(documented: &DocumentedCommand, files: &Path) -> Result<(), String> {
    let (trial, words) = plan(&documented.words);
    let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
    let folder = tempfile::tempdir().unwrap();
    if ["oom", "report", "top"].contains(&arguments[0]) {
        for name in &arguments {
            let kinds = [(".json", REPORT), (".ttmon", RECORDING)];
            if let Some((_, file)) = kinds.iter().find(|(ending, _)| name.ends_with(ending)) {
                fs::copy(files.join(file), folder.path().join(name)).unwrap();
            }
        }
    }
    let mut command: Command = crate::command(&arguments);
    command.current_dir(folder.path()).env("TTMON_LIB", files).env_remove("LD_PRELOAD");
    match trial {
        Trial::OnlyParsed => {}
        Trial::Ends(codes) => {
            let output = command.output().unwrap();
            if !output.status.code().is_some_and(|code| codes.contains(&code)) {
                return Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)));
            }
        }
        Trial::Prints => {
            let mut child = KilledOnDrop(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
            if child.0.stdout.take().unwrap().read(&mut [0]).unwrap() == 0 {
                let mut error = String::new();
                child.0.stderr.take().unwrap().read_to_string(&mut error).unwrap();
                return Err(format!("printed nothing: {error}"));
            }
        }
        Trial::Draws => {
            let mut command = CommandBuilder::new(TTMON);
            command.args(&arguments);
            command.cwd(folder.path());
            command.env("TERM", "xterm-256color");
            let text = Terminal::run(command, 100, 30).wait("a screen", |text| !text.trim().is_empty());
            if text.starts_with("ttmon:") {
                return Err(text);
            }
        }
        Trial::Serves => drop(Service::start(Path::new(TTMON), &arguments[1..])),
    }
    Ok(())
}

#[test]
fn documented_commands_run() {
    let files = tempfile::tempdir().unwrap();
    ttmon_testing::add_hook(files.path());
    fs::copy(ttmon_testing::repository("docs/screens/t3k.ttmon"), files.path().join(RECORDING)).unwrap();
    let mut report = crate::command(&["run", "--report", REPORT, "--", "true"]);
    let output = report.current_dir(files.path()).env("TTMON_LIB", files.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");

    let mut commands = ttmon_testing::documented_commands();
    commands.sort_by(|one, other| one.words.cmp(&other.words));
    commands.dedup_by(|one, other| one.words == other.words);
    // Those with --deep come first. They take longest.
    let (waiting, wrong) = (Mutex::new(commands.into_iter()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..RUNNERS {
            scope.spawn(|| {
                while let Some(command) = { waiting.lock().unwrap().next() } {
                    if let Err(error) = run(&command, files.path()) {
                        wrong.lock().unwrap().push(format!("{}: {}: {error}", command.place, command.words.join(" ")));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn links_of_the_documents_lead_somewhere() {
    let single =
        ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "python/README.md", "deploy/README.md", "fuzz/README.md"];
    let pages = single.map(str::to_owned).into_iter().chain(["docs", "docs/decisions"].into_iter().flat_map(ttmon_testing::pages_of));
    let broken: Vec<String> = pages.flat_map(|page| ttmon_testing::broken_links(&page)).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
