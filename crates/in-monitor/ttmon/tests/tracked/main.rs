//! Tests processes that track their memory, from outside. The process is this program, started again with `TRACKED_CHILD`. It reports
//! buffers, one step per input line.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod faults;
mod groups;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use ttmon_testing::{KilledOnDrop, TIMEOUT, until};

const CHILD: &str = "TRACKED_CHILD";

type Case = (&'static str, fn());

const CASES: &[Case] = &[
    ("every_buffer_is_seen", every_buffer_is_seen),
    ("references_and_peaks", references_and_peaks),
    ("kernels_have_types", kernels_have_types),
    ("buffers_are_sorted_and_cut", groups::buffers_are_sorted_and_cut),
    ("groups_grow_since_a_mark", groups::groups_grow_since_a_mark),
    ("a_comparison_has_new_and_gone_buffers", a_comparison_has_new_and_gone_buffers),
    ("events_are_reported", events_are_reported),
    ("an_overrun_is_reported", an_overrun_is_reported),
    ("events_of_the_next_program_are_reported", events_of_the_next_program_are_reported),
    ("the_last_events_are_reported", the_last_events_are_reported),
    ("events_of_several_are_merged", events_of_several_are_merged),
    ("events_of_a_device", events_of_a_device),
    ("a_comparison_is_of_what_was_asked_for", a_comparison_is_of_what_was_asked_for),
    ("invalid_files_are_not_compared", invalid_files_are_not_compared),
    ("a_child_is_not_its_parent", a_child_is_not_its_parent),
    ("another_program_takes_over", another_program_takes_over),
    ("invalid_words", invalid_words),
    ("c_and_cpp_programs_are_seen", c_and_cpp_programs_are_seen),
    ("a_child_outlives_its_parent", faults::a_child_outlives_its_parent),
    ("a_pid_that_came_again", faults::a_pid_that_came_again),
    ("a_follower_stopped_and_resumed", faults::a_follower_stopped_and_resumed),
    ("a_program_stopped_while_it_reports", faults::a_program_stopped_while_it_reports),
];

/// Cases that need root.
const ROOT_CASES: &[Case] = &[
    ("a_process_in_its_own_namespace", a_process_in_its_own_namespace),
    ("a_process_with_a_clock_of_its_own", faults::a_process_with_a_clock_of_its_own),
    ("files_that_look_like_ledgers", faults::files_that_look_like_ledgers),
];

fn main() {
    match std::env::var(CHILD) {
        Ok(role) if role == "tracked" => return child(&role),
        Ok(role) => return faults::child(&role),
        Err(_) => {}
    }
    // Use one thread, because the cases fork and share their view of the machine.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    let for_root = ROOT_CASES.iter().map(|case| trial(case).with_ignored_flag(true));
    libtest_mimic::run(&arguments, CASES.iter().map(trial).chain(for_root).collect()).exit();
}

fn trial((name, case): &'static Case) -> Trial {
    Trial::test(*name, move || {
        case();
        Ok(())
    })
}

/// The tracked program. Its commands: `a DEVICE SIZE ID`, `f DEVICE ID`, `k DEVICE SIZE TYPE ID`, `t TAG`, `many N`, `exec` executes
/// another program, `again` executes itself, `quit` reports a buffer and exits at once.
fn child(role: &str) {
    println!("ready");
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words[index].parse::<u64>().unwrap();
        match words[0] {
            "a" => drop(ttmon_client::report_allocation(i32::try_from(number(1)).unwrap(), number(2), 0, number(3))),
            "f" => drop(ttmon_client::report_deallocation(i32::try_from(number(1)).unwrap(), number(2))),
            "k" => {
                let (device, kernel_type) = (i32::try_from(number(1)).unwrap(), u8::try_from(number(3)).unwrap());
                ttmon_client::report_kernel_load(device, number(2), kernel_type, number(4));
            }
            "mark" => drop(ttmon_client::mark()),
            "t" => std::mem::forget(ttmon_client::tag(words[1])),
            "many" => (0..number(1)).for_each(|id| {
                ttmon_client::report_allocation(0, 64, 1, id);
                ttmon_client::report_deallocation(0, id);
            }),
            "again" => panic!("{}", Command::new(std::env::current_exe().unwrap()).exec()),
            "quit" => {
                ttmon_client::report_allocation(5, 999, 0, 999);
                std::process::exit(0);
            }
            "exec" => {
                println!("{role}");
                panic!("{}", Command::new("sleep").arg("1000").exec());
            }
            other => panic!("{other}"),
        }
        println!("done");
    }
}

struct Tracked {
    process: KilledOnDrop,
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
        let mut tracked = Self { process: KilledOnDrop(child), answers };
        assert_eq!(tracked.answer(), "ready");
        tracked
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn order(&mut self, line: &str) -> String {
        writeln!(self.process.0.stdin.as_mut().unwrap(), "{line}").unwrap();
        self.answer()
    }

    fn does(&mut self, lines: &[&str]) {
        for line in lines {
            assert_eq!(self.order(line), "done", "{line}");
        }
    }

    /// Runs `ttmon mem` for this process.
    fn mem(&self, arguments: &str) -> Value {
        let ran = self.ttmon(&format!("mem --json {arguments}"));
        serde_json::from_str(&ran.0).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
    }

    fn ttmon(&self, arguments: &str) -> (String, String, i32) {
        ttmon(&format!("{arguments} --pid {}", self.process.id()))
    }
}

fn command(arguments: &str) -> Command {
    ttmon_testing::command(Path::new(env!("CARGO_BIN_EXE_ttmon")), &arguments.split_ascii_whitespace().collect::<Vec<_>>())
}

fn ttmon(arguments: &str) -> (String, String, i32) {
    let output = command(arguments).output().unwrap();
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
    // The machine has no device with this number, so the memory stays unmapped.
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

/// After a workload, kernels of dispatch and fabric stay. The types are separate in text and in JSON, without any flag.
fn kernels_have_types() {
    let mut program = Tracked::start();
    program.does(&["a 0 64 1", "k 0 1048576 0 16", "k 0 57344 1 17", "k 0 47104 2 18", "k 0 47104 2 19", "k 0 10 77 20"]);
    let types = serde_json::json!({
        "application": {"used": 1_048_576, "count": 1},
        "fabric": {"used": 57_344, "count": 1},
        "dispatch": {"used": 94_208, "count": 2},
        "other": {"used": 10, "count": 1},
    });
    let json = program.mem("");
    assert_eq!(json["allocators"][0]["kinds"]["kernel"]["types"], types, "{json}");
    assert_eq!(json["processes"][0]["unmapped"][0]["kinds"]["kernel"]["types"], types, "{json}");
    assert_eq!(json["processes"][0]["unmapped"][0]["kinds"]["dram"].get("types"), None);
    let json = program.mem("--buffers --sort address");
    let named: Vec<_> = json["buffers"].as_array().unwrap().iter().map(|buffer| buffer["kernel_type"].as_str()).collect();
    assert_eq!(named, [None, Some("application"), Some("fabric"), Some("dispatch"), Some("dispatch"), Some("other")]);
    let (text, _, _) = program.ttmon("mem");
    assert!(text.contains("    kernel: application 1.0MB   fabric 56.0KB   dispatch 92.0KB   other 10B\n"), "{text}");
    let (text, _, _) = program.ttmon("mem --buffers");
    assert_eq!(text.lines().filter(|line| line.ends_with("(dispatch)")).count(), 2, "{text}");
}

fn a_comparison_has_new_and_gone_buffers() {
    let mut program = Tracked::start();
    program.does(&["a 0 10 1", "a 0 20 2"]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("before.json");
    std::fs::write(&file, program.ttmon("mem --json --buffers").0).unwrap();
    program.does(&["f 0 1", "a 0 40 4", "a 0 25 2"]);
    let (text, errors, code) = program.ttmon(&format!("mem --diff {}", file.display()));
    assert_eq!(code, 0, "{errors}");
    let signs: String = text.lines().take(4).map(|line| line.chars().next().unwrap()).collect();
    // A buffer of another size at the same address is another buffer.
    assert_eq!(signs, "++--", "{text}");
    assert!(text.contains("+ 2 new, 65B") && text.contains("- 2 gone, 30B"), "{text}");
    // Cases: the same pid with another start time, another host, another kind of document.
    let mut earlier: Value = serde_json::from_str(&program.ttmon("mem --json --buffers").0).unwrap();
    let count = earlier["buffers"].as_array().unwrap().len();
    let with = |name: &str, value: Value, earlier: &mut Value| {
        let before = std::mem::replace(&mut earlier[name], value);
        std::fs::write(&file, earlier.to_string()).unwrap();
        earlier[name] = before;
        program.ttmon(&format!("mem --diff {}", file.display()))
    };
    let others = serde_json::json!([{"pid": program.process.id(), "start_time": "2001-02-03T04:05:06Z"}]);
    let (text, ..) = with("processes", others, &mut earlier);
    assert!(text.contains(&format!("+ {count} new")) && text.contains(&format!("- {count} gone")), "{text}");
    let (_, errors, code) = with("host", "elsewhere".into(), &mut earlier);
    assert!(code == 1 && errors.contains("of host elsewhere"), "{errors}");
    let (_, errors, _) = with("host", "else\u{1b}[2J\nwhere".into(), &mut earlier);
    assert!(errors.contains("of host else\u{b7}[2J\u{b7}where") && errors.lines().count() == 1, "{errors}");
    let (_, errors, code) = with("schema", 2.into(), &mut earlier);
    assert!(code == 1 && errors.contains("schema 2"), "{errors}");
    std::fs::write(&file, "[]").unwrap();
    assert_eq!(program.ttmon(&format!("mem --diff {}", file.display())).2, 1);
}

fn events_are_reported() {
    let mut program = Tracked::start();
    program.does(&["t load", "a 0 4194304 5", "a 0 4194304 5", "f 0 5", "f 0 5"]);
    let pid = program.process.id();
    let (text, _, _) = program.ttmon("events");
    let expected = format!("  {pid:>7}  alloc        4.0MB  DRAM      chip 0 (on no device here)  0x5  tag \"load\"");
    assert!(text.lines().any(|line| line.ends_with(&expected) && line.as_bytes()[..12][8] == b'.'), "{text}");
    assert!(text.lines().last().unwrap().contains("  free         4.0MB  DRAM"), "{text}");
    assert!(!text.contains('✗'), "{text}");
    let (text, _, _) = program.ttmon("events -n 2 --since 1h");
    assert_eq!(text.lines().map(|line| line.split_whitespace().nth(2).unwrap()).collect::<Vec<_>>(), ["ref", "free"], "{text}");
    assert_eq!(program.ttmon("events --since 2200-01-01T00:00:00Z").0, "");
    let (json, _, _) = program.ttmon("events --json");
    let ops: Vec<String> =
        json.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["op"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ops, ["open", "alloc", "ref", "ref", "free"], "{json}");
    let lines: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for key in ["kind", "address", "size"] {
        assert!(lines[0][key].is_null() && !lines[1][key].is_null(), "{key}: {json}");
    }
    assert_eq!((&lines[1]["unmapped"], &lines[1]["devices"]), (&serde_json::json!(["0"]), &serde_json::json!([])), "{json}");
    program.does(&["t a\u{9b}b", "a 0 1 7"]);
    let (json, _, _) = program.ttmon("events --json");
    assert!(json.contains("a\\u009bb") && !json.contains('\u{9b}'), "{json}");
}

/// `exec` keeps pid and start time, but the new program has a new ledger.
fn events_of_the_next_program_are_reported() {
    let mut program = Tracked::start();
    program.does(&["a 0 11 1", "a 0 12 2"]);
    let mut follower = Follower::start(&program, "events --follow");
    assert!(follower.line_with(" 12B  DRAM").ends_with("0x2"));
    assert!(program.ttmon("events").0.contains(" 11B  DRAM"));
    assert_eq!(program.order("again"), "ready");
    program.does(&["a 0 21 1"]);
    let mut text = String::new();
    until("the second program reports", || {
        text = program.ttmon("events").0;
        text.contains(" 21B  DRAM")
    });
    assert!(!text.contains(" 11B  DRAM"), "{text}");
    assert!(follower.line_with("  exec ").ends_with(&format!("  {:>7}  exec      became another program", program.process.id())));
    follower.line_with(" 21B  DRAM");
}

/// All events of a process that ends are printed.
fn the_last_events_are_reported() {
    for (flags, wanted) in [("", "  exit"), ("--json", "\"op\":\"exit\"")] {
        let mut program = Tracked::start();
        program.does(&["a 0 11 1"]);
        let mut follower = Follower::start(&program, &format!("events --follow {flags}"));
        follower.line_with("0x1");
        program.order("quit");
        program.process.0.wait().unwrap();
        // The program opened that device after the last sample and has ended. Its ledger still has the device.
        let last = follower.line_with("999");
        assert!(last.contains("chip 5") || last.contains(r#""unmapped":["5"]"#), "{last}");
        let line = follower.line_with(wanted);
        match flags {
            "" => assert!(line.ends_with(&format!("  {:>7}  exit", program.process.id())), "{line}"),
            _ => assert!(serde_json::from_str::<Value>(&line).unwrap()["kind"].is_null(), "{line}"),
        }
        // The process has ended, so the follower ends.
        assert!(follower.process.0.wait().unwrap().success());
    }
    let (_, errors, code) = ttmon("events --follow --pid 4194304");
    assert!(code == 3 && errors.contains("no process 4194304"), "{errors}");
}

fn events_of_several_are_merged() {
    let (mut one, mut two) = (Tracked::start(), Tracked::start());
    for step in 1..=3 {
        one.does(&[&format!("a 0 {step}00001 {step}")]);
        two.does(&[&format!("a 0 {step}00002 {step}")]);
    }
    let (text, _, _) = ttmon("events --json");
    let size = |line: &str| serde_json::from_str::<Value>(line).unwrap()["size"].as_u64().map(|size| size.to_string());
    let ours: Vec<String> = text.lines().filter_map(size).filter(|size| size.len() == 6 && size[1..5] == *"0000").collect();
    assert_eq!(ours, ["100001", "100002", "200001", "200002", "300001", "300002"], "{text}");
}

/// Simulated programs use several devices.
fn events_of_a_device() {
    let events = |arguments: &str| -> Vec<Value> {
        let (text, errors, code) = ttmon(&format!("events --sim t3k --json {arguments}"));
        assert_eq!(code, 0, "{errors}");
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let devices = |event: &Value| -> Vec<u64> { event["devices"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect() };
    let all = events("");
    let Some(chosen) = all.iter().filter(|event| event["op"] == "alloc").find_map(|event| devices(event).first().copied()) else {
        println!("NOT RUN: events_of_a_device: no simulated program has a ledger");
        return;
    };
    let some = events(&format!("-d {chosen}"));
    assert!(
        !some.is_empty() && some.iter().filter(|event| event["op"] != "mark").all(|event| devices(event).contains(&chosen)),
        "{some:?}"
    );
    assert!(some.len() < all.len() && some.iter().all(|event| event["allocator"].is_string()), "{some:?}");
}

fn a_comparison_is_of_what_was_asked_for() {
    let (mut one, mut two) = (Tracked::start(), Tracked::start());
    one.does(&["a 0 10 1"]);
    two.does(&["a 0 20 1"]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("before.json");
    std::fs::write(&file, ttmon("mem --json --buffers").0).unwrap();
    let (text, errors, code) = one.ttmon(&format!("mem --diff {}", file.display()));
    assert_eq!(code, 0, "{errors}");
    assert!(text.contains("- 0 gone"), "the other process's are not gone: {text}");
    // The earlier listing is from another machine. If a device is selected, only its buffers are compared.
    let buffer = |device: u32| {
        let address = format!("{device:#x}");
        serde_json::json!({
            "pid": 1, "allocator": "1.0.0", "kind": "dram", "address": address, "size": 5, "devices": [device], "tag": "old",
        })
    };
    std::fs::write(&file, serde_json::json!({"buffers": [buffer(0), buffer(1)]}).to_string()).unwrap();
    let gone = |arguments: &str| {
        let (text, errors, code) = ttmon(&format!("mem --sim t3k --diff {} {arguments}", file.display()));
        assert_eq!(code, 0, "{errors}");
        text.lines().filter(|line| line.starts_with("- ") && line.ends_with("old")).count()
    };
    assert_eq!((gone(""), gone("-d 1"), gone("-d 2")), (2, 1, 0));
}

fn invalid_files_are_not_compared() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let large = directory.path().join("large");
    std::fs::File::create(&large).unwrap().set_len(512 * 1024 * 1024 + 1).unwrap();
    let nameless = directory.path().join("nameless");
    std::fs::write(&nameless, r#"{"buffers": [{"pid": 1}]}"#).unwrap();
    for (path, why) in [
        (pipe.to_str().unwrap(), "it is a FIFO"),
        ("/dev/zero", "it is a device"),
        (directory.path().to_str().unwrap(), "is a directory"),
        (large.to_str().unwrap(), "more than 512 MiB"),
        (nameless.to_str().unwrap(), "not a buffer"),
    ] {
        let (_, errors, code) = ttmon(&format!("mem --diff {path}"));
        assert!(code == 1 && errors.contains(why) && errors.contains("--buffers > FILE"), "{path}: {code} {errors}");
    }
}

/// A running `ttmon`, and its output.
struct Follower {
    process: KilledOnDrop,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Follower {
    fn start(program: &Tracked, arguments: &str) -> Self {
        let mut command = command(arguments);
        let mut child = command.args(["--pid", &program.process.id().to_string()]).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { process: KilledOnDrop(child), lines }
    }

    /// Returns the next line that contains this text.
    fn line_with(&mut self, wanted: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(TIMEOUT).unwrap_or_else(|_| panic!("no line with {wanted}"));
            if line.contains(wanted) {
                return line;
            }
        }
    }
}

fn an_overrun_is_reported() {
    let mut program = Tracked::start();
    program.does(&["many 40000"]);
    let (text, _, _) = program.ttmon("events");
    assert!(text.lines().next().unwrap().contains("earlier events are no longer in the recorder"), "{}", &text[..200]);
    assert!(text.lines().count() > 60_000);
}

/// A forked or executed program has a new ledger.
fn another_program_takes_over() {
    let mut program = Tracked::start();
    program.does(&["a 0 10 1"]);
    assert_eq!(program.mem("")["processes"][0]["status"], "tracked");
    assert_eq!(program.order("exec"), "tracked");
    // The ledger ends with the program that had it. Exit code 1: the process is not tracked. Exit code 3: the machine has no device and
    // no other process.
    until("not tracked", || matches!(program.ttmon("mem").2, 1 | 3));
}

fn a_child_is_not_its_parent() {
    let mut parent = Tracked::start();
    parent.does(&["a 0 10 1"]);
    let mut other = Tracked::start();
    other.does(&["a 0 20 1"]);
    assert_eq!(parent.mem("--buffers")["buffers"][0]["size"], 10);
    assert_eq!(other.mem("--buffers")["buffers"][0]["size"], 20);
    // The real machine never shows simulated processes, and a simulated machine never shows real processes.
    let (sim, _, _) = ttmon("mem --sim n150 --json");
    let pids: Vec<Value> =
        serde_json::from_str::<Value>(&sim).unwrap()["processes"].as_array().unwrap().iter().map(|p| p["pid"].clone()).collect();
    assert!(!pids.contains(&parent.process.id().into()), "{pids:?}");
}

fn invalid_words() {
    for (arguments, code) in [
        ("mem --top 3", 2),
        ("mem -r 100", 2),
        ("mem -r 5 -w", 2),
        ("mem --diff x --json", 2),
        ("mem --diff /nonexistent", 1),
        ("mem --sort x", 2),
        ("mem --sort age", 2),
        ("mem --buffers --top 1 --diff x", 2),
    ] {
        assert_eq!(ttmon(arguments).2, code, "{arguments}");
    }
    assert_eq!(ttmon("mem --pid 1 --sim n150").2, 1);
}

/// On the host, a process of another pid namespace has its host pid.
fn a_process_in_its_own_namespace() {
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child"]).arg(std::env::current_exe().unwrap());
    let mut program = Tracked::start_as(command);
    program.does(&["a 0 77777 1"]);
    let (text, _, _) = ttmon("mem --json --buffers");
    let json: Value = serde_json::from_str(&text).unwrap();
    let buffer = json["buffers"].as_array().unwrap().iter().find(|buffer| buffer["size"] == 77777).expect("it is not seen");
    let pid = buffer["pid"].as_u64().unwrap();
    assert!(pid > 1 && pid != u64::from(program.process.id()));
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    assert!(status.lines().any(|line| line.starts_with("NSpid:") && line.ends_with("\t1")), "{status}");
    let Some(group) = faults::ControlGroup::of_a_container(pid) else {
        println!("NOT RUN: a_process_in_its_own_namespace: no control group could be made, so no container was looked for");
        return;
    };
    let json: Value = serde_json::from_str(&ttmon(&format!("mem --json --pid {pid}")).0).unwrap();
    assert_eq!(json["processes"][0]["container"], group.container, "{json}");
    drop(program);
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

/// Like a daemon, this program closes all its descriptors, including the ledger's.
const CLOSING_PROGRAM: &str = r#"
#include <stdio.h>
#include <unistd.h>
#include "ttmon.h"
int main(void) {
    ttmon_tag_push("closed");
    if (ttmon_report_allocation(2, 4096, TTMON_L1, 64) != 0) return 1;
    for (int fd = 3; fd < 65536; fd++) close(fd);
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

/// Programs that are linked with the library are tracked, and `ttmon mem --json` shows every byte.
fn c_and_cpp_programs_are_seen() {
    let directory = tempfile::tempdir().unwrap();
    for (compiler, standard, name, program, tag) in [
        ("cc", "-std=c11", "program.c", C_PROGRAM, "from C"),
        ("cc", "-std=c11", "closing.c", CLOSING_PROGRAM, "closed"),
        ("c++", "-std=c++17", "program.cpp", CPP_PROGRAM, "from C++"),
    ] {
        if Command::new(compiler).arg("--version").output().is_err() {
            println!("NOT RUN: no {compiler} on this machine, so its programs were not tested");
            continue;
        }
        let source = directory.path().join(name);
        std::fs::write(&source, program).unwrap();
        let libraries = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let headers = concat!(env!("CARGO_MANIFEST_DIR"), "/../../in-program/client/include");
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
