//! Processes that track their memory, seen from outside. This program is its own guinea pig: started again with
//! `TRACKED_CHILD` set it is a program that reports buffers, one step for each line it is told.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

const CHILD: &str = "TRACKED_CHILD";
/// In a pid namespace of its own; set by the stage that has root.
const UNSHARED: &str = "TTMON_TEST_ROOT";

type Case = (&'static str, fn());

const CASES: &[Case] = &[
    ("every_buffer_is_seen", every_buffer_is_seen),
    ("references_and_peaks", references_and_peaks),
    ("buffers_are_sorted_and_cut", buffers_are_sorted_and_cut),
    ("what_changed", what_changed),
    ("events_are_told", events_are_told),
    ("an_overrun_is_told", an_overrun_is_told),
    ("a_child_is_not_its_parent", a_child_is_not_its_parent),
    ("another_program_takes_over", another_program_takes_over),
    ("words_that_make_no_sense", words_that_make_no_sense),
    ("c_and_cpp_programs_are_seen", c_and_cpp_programs_are_seen),
    ("a_process_in_its_own_namespace", a_process_in_its_own_namespace),
];

fn main() {
    if let Ok(role) = std::env::var(CHILD) {
        return child(&role);
    }
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let mut passed = 0;
    for (name, case) in CASES.iter().filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str()))) {
        // A failing case panics, which ends the program with an error and its message.
        case();
        println!("test {name} ... ok");
        passed += 1;
    }
    println!("\ntest result: ok. {passed} passed; 0 failed");
}

/// The tracked program: `a DEVICE SIZE ID`, `f DEVICE ID`, `t TAG`, `many N`, `fork`, `exec`.
fn child(role: &str) {
    println!("ready");
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words[index].parse::<u64>().unwrap();
        match words[0] {
            "a" => drop(ttmon_client::report_allocation(i32::try_from(number(1)).unwrap(), number(2), 0, number(3))),
            "f" => drop(ttmon_client::report_deallocation(i32::try_from(number(1)).unwrap(), number(2))),
            "t" => std::mem::forget(ttmon_client::tag(words[1])),
            "many" => (0..number(1)).for_each(|id| {
                ttmon_client::report_allocation(0, 64, 1, id);
                ttmon_client::report_deallocation(0, id);
            }),
            "exec" => {
                use std::os::unix::process::CommandExt;
                println!("{role}");
                panic!("{}", Command::new("sleep").arg("1000").exec());
            }
            other => panic!("{other}"),
        }
        println!("done");
    }
}

struct Tracked {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Tracked {
    fn start() -> Self {
        Self::start_as(Command::new(std::env::current_exe().unwrap()))
    }

    fn start_as(mut command: Command) -> Self {
        command.env(CHILD, "tracked").env("TTMON_TRACKING", "1").env_remove("TTMON_HANDOVER");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut tracked = Self { child, answers };
        assert_eq!(tracked.answer(), "ready");
        tracked
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn tell(&mut self, line: &str) -> String {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
        self.answer()
    }

    fn does(&mut self, lines: &[&str]) {
        for line in lines {
            assert_eq!(self.tell(line), "done", "{line}");
        }
    }

    /// `ttmon mem` of this process.
    fn mem(&self, arguments: &str) -> Value {
        let ran = self.ttmon(&format!("mem --json {arguments}"));
        serde_json::from_str(&ran.0).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
    }

    fn ttmon(&self, arguments: &str) -> (String, String, i32) {
        ttmon(&format!("{arguments} --pid {}", self.child.id()))
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ttmon(arguments: &str) -> (String, String, i32) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ttmon"));
    let output = command.args(arguments.split_ascii_whitespace()).env("LANG", "C.UTF-8").env_remove("TTMON_SIM").output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code().unwrap_or(-1))
}

fn every_buffer_is_seen() {
    let mut program = Tracked::start();
    program.does(&["t weights", "a 0 4096 16", "a 0 8192 8192", "a 3 100 16"]);
    let json = program.mem("--buffers");
    let process = &json["processes"][0];
    assert_eq!((&process["status"], &process["source"]), (&"tracked".into(), &"ledger".into()), "{process}");
    let buffers = json["buffers"].as_array().unwrap();
    let mut seen: Vec<(u64, &str, &str)> =
        buffers.iter().map(|b| (b["size"].as_u64().unwrap(), b["address"].as_str().unwrap(), b["tag"].as_str().unwrap())).collect();
    seen.sort_unstable();
    assert_eq!(seen, [(100, "0x10", "weights"), (4096, "0x10", "weights"), (8192, "0x2000", "weights")]);
    assert_eq!(json["allocators"].as_array().unwrap().len(), 2);
    // The machine has no such device: nothing is guessed.
    assert_eq!(process["unmapped"][0]["kinds"]["dram"]["used"], 12288);
    program.does(&["f 0 16", "f 0 8192", "f 3 16"]);
    let json = program.mem("--buffers");
    assert_eq!((json["buffers"].as_array().unwrap().len(), &json["processes"][0]["unmapped"][0]["kinds"]["dram"]["used"]), (0, &0.into()));
}

fn references_and_peaks() {
    let mut program = Tracked::start();
    program.does(&["a 0 1000 1", "a 0 1000 1", "a 0 500 2", "f 0 2", "f 0 1"]);
    let json = program.mem("--buffers");
    assert_eq!((&json["buffers"][0]["refs"], &json["buffers"][0]["size"]), (&1.into(), &1000.into()));
    let dram = &json["allocators"][0]["kinds"]["dram"];
    assert_eq!((&dram["used"], &dram["peak"], &dram["count"]), (&1000.into(), &1500.into(), &1.into()), "{dram}");
    assert!(dram["allocated"].is_null(), "the client API does not say what the allocator took");
    assert!(dram["peak_time"].is_string());
}

fn buffers_are_sorted_and_cut() {
    let mut program = Tracked::start();
    program.does(&["t b", "a 0 10 300", "t a", "a 0 30 100", "t c", "a 0 20 200"]);
    let order = |arguments: &str| -> Vec<u64> {
        program.mem(&format!("--buffers {arguments}"))["buffers"].as_array().unwrap().iter().map(|b| b["size"].as_u64().unwrap()).collect()
    };
    assert_eq!(order(""), [30, 20, 10]);
    assert_eq!(order("--sort age"), [10, 30, 20]);
    assert_eq!(order("--sort address"), [30, 20, 10]);
    assert_eq!(order("--sort tag"), [30, 10, 20]);
    assert_eq!(order("--top 1"), [30]);
    let (text, _, _) = program.ttmon("mem --buffers --top 2");
    assert_eq!(text.lines().count(), 3, "{text}");
}

fn what_changed() {
    let mut program = Tracked::start();
    program.does(&["a 0 10 1", "a 0 20 2"]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("before.json");
    std::fs::write(&file, program.ttmon("mem --json --buffers").0).unwrap();
    program.does(&["f 0 1", "a 0 40 4", "a 0 25 2"]);
    let (text, errors, code) = program.ttmon(&format!("mem --diff {}", file.display()));
    assert_eq!(code, 0, "{errors}");
    let signs: String = text.lines().take(3).map(|line| line.chars().next().unwrap()).collect();
    assert_eq!(signs, "+-~", "{text}");
    assert!(text.contains("20B -> 25B") && text.contains("+ 1 new, 40B") && text.contains("- 1 gone, 10B"), "{text}");
    std::fs::write(&file, "[]").unwrap();
    assert_eq!(program.ttmon(&format!("mem --diff {}", file.display())).2, 1);
}

fn events_are_told() {
    let mut program = Tracked::start();
    program.does(&["t load", "a 0 4194304 5", "a 0 4194304 5", "f 0 5", "f 0 5"]);
    let pid = program.child.id();
    let (text, _, _) = program.ttmon("events");
    let expected = format!("✓ [PID {pid}] Allocated 4194304 bytes of DRAM on chip 0 (on no device here) (buffer_id=0x5) tag \"load\"");
    assert!(text.lines().any(|line| line == expected), "{text}");
    assert!(text.lines().last().unwrap().starts_with(&format!("✗ [PID {pid}] Freed buffer 0x5")), "{text}");
    let (json, _, _) = program.ttmon("events --json");
    let ops: Vec<String> =
        json.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["op"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ops, ["open", "alloc", "ref", "ref", "free"], "{json}");
}

fn an_overrun_is_told() {
    let mut program = Tracked::start();
    program.does(&["many 40000"]);
    let (text, _, _) = program.ttmon("events");
    assert!(text.starts_with("! [PID") && text.lines().next().unwrap().contains("were overrun"), "{}", &text[..200]);
    assert!(text.lines().count() > 60_000);
}

/// A forked or executed program is another one.
fn another_program_takes_over() {
    let mut program = Tracked::start();
    program.does(&["a 0 10 1"]);
    assert_eq!(program.mem("")["processes"][0]["status"], "tracked");
    assert_eq!(program.tell("exec"), "tracked");
    // Exit 1: not a tracked process; 3 on a machine that has neither a device nor any other one.
    let (text, _, code) = retry(|| program.ttmon("mem"), |ran| ran.2 != 0);
    assert!(matches!(code, 1 | 3), "the ledger went with the program that had it: {text}");
}

fn a_child_is_not_its_parent() {
    let mut parent = Tracked::start();
    parent.does(&["a 0 10 1"]);
    let mut other = Tracked::start();
    other.does(&["a 0 20 1"]);
    assert_eq!(parent.mem("--buffers")["buffers"][0]["size"], 10);
    assert_eq!(other.mem("--buffers")["buffers"][0]["size"], 20);
    // A real machine never shows a simulated one's, nor the other way round.
    let (sim, _, _) = ttmon("mem --sim n150 --json");
    let pids: Vec<Value> =
        serde_json::from_str::<Value>(&sim).unwrap()["processes"].as_array().unwrap().iter().map(|p| p["pid"].clone()).collect();
    assert!(!pids.contains(&parent.child.id().into()), "{pids:?}");
}

fn words_that_make_no_sense() {
    for (arguments, code) in [
        ("mem --top 3", 2),
        ("mem -r 100", 2),
        ("mem -r 5 -w", 2),
        ("mem --diff x --json", 2),
        ("mem --diff /nonexistent", 1),
        ("mem --sort x", 2),
    ] {
        assert_eq!(ttmon(arguments).2, code, "{arguments}");
    }
    assert_eq!(ttmon("mem --pid 1 --sim n150").2, 1);
}

/// From the host, a process of another pid namespace has its host pid.
fn a_process_in_its_own_namespace() {
    if std::env::var_os(UNSHARED).is_none() {
        println!("NOT RUN: a_process_in_its_own_namespace needs root and {UNSHARED}=1 (cargo xtask ci sets it)");
        return;
    }
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child"]).arg(std::env::current_exe().unwrap());
    let mut program = Tracked::start_as(command);
    program.does(&["a 0 77777 1"]);
    let (text, _, _) = ttmon("mem --json --buffers");
    let json: Value = serde_json::from_str(&text).unwrap();
    let buffer = json["buffers"].as_array().unwrap().iter().find(|buffer| buffer["size"] == 77777).expect("it is not seen");
    let pid = buffer["pid"].as_u64().unwrap();
    assert!(pid > 1 && pid != u64::from(program.child.id()));
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    assert!(status.lines().any(|line| line.starts_with("NSpid:") && line.ends_with("\t1")), "{status}");
}

const C_PROGRAM: &str = r#"
#include <stdio.h>
#include "ttmon.h"
int main(void) {
    ttmon_tag_push("from C");
    if (ttmon_report_allocation(2, 4096, TTMON_L1, 64) != 0) return 1;
    puts("ready");
    fflush(stdout);
    return getchar() == EOF ? 0 : 1;
}
"#;

const CPP_PROGRAM: &str = r#"
#include <iostream>
#include "ttmon.hpp"
int main() {
    ttmon::Tag tag("from C++");
    AllocationClient::report_allocation(2, 4096, TTMON_L1, 64);
    std::cout << "ready" << std::endl;
    std::cin.get();
}
"#;

/// Linked with the library, tracked, and seen by `ttmon mem --json` to the byte.
fn c_and_cpp_programs_are_seen() {
    let directory = tempfile::tempdir().unwrap();
    for (compiler, standard, name, program, tag) in
        [("cc", "-std=c11", "program.c", C_PROGRAM, "from C"), ("c++", "-std=c++17", "program.cpp", CPP_PROGRAM, "from C++")]
    {
        if Command::new(compiler).arg("--version").output().is_err() {
            println!("NOT RUN: no {compiler} on this machine, so no program of its was looked at");
            continue;
        }
        let source = directory.path().join(name);
        std::fs::write(&source, program).unwrap();
        let libraries = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let headers = concat!(env!("CARGO_MANIFEST_DIR"), "/../client/include");
        let built = directory.path().join("program");
        let mut command = Command::new(compiler);
        command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", standard, "-I", headers, "-o"]).arg(&built).arg(&source);
        command.arg(libraries.join("libttmon_client.so")).arg(format!("-Wl,-rpath,{}", libraries.display()));
        let compiled = command.output().unwrap();
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        let tracked = Tracked::start_as(Command::new(&built));
        let json = tracked.mem("--buffers");
        let buffer = &json["buffers"][0];
        let seen = (&buffer["kind"], &buffer["size"], &buffer["address"], &buffer["tag"]);
        assert_eq!(seen, (&"l1".into(), &4096.into(), &"0x40".into(), &tag.into()), "{json}");
    }
}

fn retry<T>(mut look: impl FnMut() -> T, is_good: impl Fn(&T) -> bool) -> T {
    for _ in 0..100 {
        let seen = look();
        if is_good(&seen) {
            return seen;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    look()
}
