//! Output at the end: summary, report, checks.

use std::fs;
use std::os::unix::process::ExitStatusExt;

use serde_json::{Value, json};
use ttmon_testing::until;

use crate::Case;
use crate::program::SCRIPT;
use crate::tools::{Running, ran, reported, run, scripted, timeless};

pub(crate) const CASES: &[Case] = &[
    ("peaks_and_what_made_them", peaks_and_what_made_them),
    ("left_buffers_are_reported", left_buffers_are_reported),
    ("figures_of_the_hook_are_reported", figures_of_the_hook_are_reported),
    ("host_memory_that_grows", host_memory_that_grows),
    ("a_trace_that_overwrites_buffers", a_trace_that_overwrites_buffers),
    ("refusals_among_events", refusals_among_events),
    ("refusals_of_a_saved_report", refusals_of_a_saved_report),
    ("every_key_is_there", every_key_is_there),
    ("the_cost_of_tracking_is_reported", the_cost_of_tracking_is_reported),
    ("many_short_lived_children", many_short_lived_children),
    ("a_program_that_becomes_another", a_program_that_becomes_another),
    ("a_program_that_forks", a_program_that_forks),
    ("a_program_that_closes_all_its_files", a_program_that_closes_all_its_files),
    ("leaks_fail", leaks_fail),
    ("growth_fails", growth_fails),
    ("limits_fail", limits_fail),
    ("a_failing_command_keeps_its_code", a_failing_command_keeps_its_code),
    ("checks_with_nothing_to_judge_fail", checks_with_nothing_to_judge_fail),
    ("checks_that_did_not_see_everything_fail", checks_that_did_not_see_everything_fail),
    ("a_run_inside_a_run", a_run_inside_a_run),
    ("nothing_to_report", nothing_to_report),
    ("a_report_that_cannot_be_written", a_report_that_cannot_be_written),
    ("a_report_into_a_pipe", a_report_into_a_pipe),
    ("a_report_that_nobody_takes_can_be_ended", a_report_that_nobody_takes_can_be_ended),
];

fn peaks_and_what_made_them() {
    let (ran, report) =
        reported("t load; a 0 6000000 1; t layer 1; a 0 1000000 2; t layer 2; a 0 1100000 3; f 0 1; f 0 2; f 0 3; a 1 500 9 1; f 1 9");
    let text = timeless(&ran.stderr);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("ttmon: ") && lines[0].contains("exit 0 after") && lines[0].ends_with("4 allocations"), "{lines:?}");
    assert!(lines[1].starts_with("  chip 0  DRAM peak 7.7MB at TIME") && lines[1].ends_with("free at end: all"), "{lines:?}");
    assert!(lines[2].contains("chip 1  L1 peak 500B"), "{lines:?}");
    assert_eq!(lines[3], "  at the DRAM peak of chip 0:   5.7MB tag \"load\"   2.0MB tag \"layer *\" (2 buffers)");
    let device = &report["devices"][0];
    assert_eq!(
        (&device["unmapped"], &device["kinds"]["dram"]["peak"], &device["kinds"]["dram"]["at_end"]),
        (&json!("0"), &json!(8_100_000), &json!(0))
    );
    assert!(device["kinds"]["dram"]["peak_time_s"].as_f64().unwrap() < 600.0 && device["kinds"]["dram"]["peak_allocated"].is_null());
    let set: Vec<(&str, u64)> = report["peak_set"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|group| group["kind"] == "dram")
        .map(|group| (group["tag"].as_str().unwrap(), group["bytes"].as_u64().unwrap()))
        .collect();
    assert_eq!(set, [("load", 6_000_000), ("layer 2", 1_100_000), ("layer 1", 1_000_000)]);
    assert_eq!((&report["leaks"], &device["kinds"]["dram"]["peak_is_at_least"]), (&json!([]), &json!(false)));
}

fn left_buffers_are_reported() {
    let (ran, report) = reported("t layer 7; a 0 67108864 77594624; a 0 100 1; a 0 200 2; a 0 300 3; a 0 400 4; f 0 4");
    let text = timeless(&ran.stderr);
    let left = text.lines().find(|line| line.contains("left at exit")).unwrap();
    assert!(left.starts_with("  left at exit on chip 0:  64.0MB DRAM 0x4a00000 tag \"layer 7\" age TIME"), "{left}");
    assert!(left.ends_with("1 more") && ran.stderr.contains("LEFT 64.0MB in 4 buffers"), "{}", ran.stderr);
    assert_eq!((leaked_sizes(&report), &report["leaked"]), (vec![67_108_864, 300, 200, 100], &json!({"count": 4, "bytes": 67_109_464})));
    // A device is closed while it has buffers.
    let (ran, report) = reported("a 0 4096 1; a 0 100 2; f 0 2; close 0");
    assert!(ran.stderr.contains("LEFT 4.0KB in 1 buffer"), "{}", ran.stderr);
    assert_eq!((&report["leaks"][0]["address"], &report["devices"][0]["kinds"]["dram"]["at_end"]), (&json!("0x1"), &json!(4096)));
    // Every chip is listed, the chip with the most bytes first, although its buffers are smaller.
    let (ran, _) = reported("a 0 500 1; a 1 400 1; a 1 300 2; a 2 1 1; a 1 9 3 1; a 1 8 4; close 2");
    let text = timeless(&ran.stderr);
    let left: Vec<&str> = text.lines().filter(|line| line.contains("left at exit")).collect();
    assert_eq!(
        left,
        [
            "  left at exit on chip 1:  400B DRAM 0x1 age TIME   300B DRAM 0x2 age TIME   9B L1 0x3 age TIME   1 more",
            "  left at exit on chip 0:  500B DRAM 0x1 age TIME",
            "  left at exit on chip 2:  1B DRAM 0x1 age TIME",
        ]
    );
}

fn figures_of_the_hook_are_reported() {
    let (ran, report) = reported("hook");
    let text = timeless(&ran.stderr);
    let lines: Vec<&str> = text.lines().collect();
    let expected = [
        "  chips 0,1  DRAM peak 14.0MB of 12.0GB (<1%) at TIME   L1 peak 6.0KB of 64.0MB (<1%) at TIME   LEFT 7.0MB in 4 buffers",
        "  at the DRAM peak of chip 0:   8.0MB tag \"load\"   6.0MB tag \"layer *\" (2 buffers)",
    ];
    assert_eq!(lines[1..3], expected, "{}", ran.stderr);
    let refused = "  asked 32.0MB L1 on chips 0,1 (512.0KB in each of 64 banks): \
        700.0KB free per bank, largest block 410.0KB: would fit if not fragmented";
    assert!(lines.contains(&refused), "{}", ran.stderr);
    assert!(ran.stderr.contains("    largest there:  4.0KB 0x40   2.0KB 0x80"), "{}", ran.stderr);
    assert!(ran.stderr.contains("  circular buffers of a program clash with L1 on chips 0,1: Statically allocated"), "{}", ran.stderr);
    assert!(lines.contains(&"  not followed here: dataflow_buffers (unknown layout)") && lines.len() <= 24, "{}", ran.stderr);
    let oom = &report["oom"][0];
    assert_eq!((&oom["asked"], &oom["per_bank"], &oom["banks"]), (&json!(32 << 20), &json!(512 << 10), &json!(64)));
    assert_eq!((&oom["free_per_bank"], &oom["largest_free_per_bank"]), (&json!(700 << 10), &json!(410 << 10)));
    assert_eq!((&oom["fits_without_fragmentation"], &oom["top"][0]["size"]), (&json!(true), &json!(4096)));
    assert_eq!((report["oom"].as_array().unwrap().len(), report["clashes"].as_array().unwrap().len()), (1, 1));
    assert_eq!((&report["cache"][0]["size"], report["cache"].as_array().unwrap().len()), (&json!(4096), 1));
    let dram = &report["devices"][0]["kinds"]["dram"];
    assert_eq!((&dram["peak"], &dram["peak_allocated"], &dram["capacity"]), (&json!(14 << 20), &json!(36 << 20), &json!(12_u64 << 30)));
    // Since the mark, 8 MiB were freed and 1 MiB was allocated.
    assert_eq!(report["growth_bytes"], json!(-7 * (1 << 20)));
    assert_eq!(report["coverage"]["dataflow_buffers"], json!({"state": "stepped_aside", "hits": 0, "reason": "unknown layout"}));
    assert_eq!(report["coverage"]["allocate_buffer"]["state"], "found");
}

/// Host memory grows with each request, and device memory does not (tt-inference-server 4430).
fn host_memory_that_grows() {
    let (ran, report) = reported("request 16777216; request 16777216; request 16777216; request 16777216");
    let text = timeless(&ran.stderr);
    let line = text.lines().find(|line| line.starts_with("  phase request: 4 times in ")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("   DRAM peak 4.0KB   host memory +6"), "{line}");
    assert!(text.contains("free at end: all"), "{text}");
    let phase = &report["phases"][0];
    assert_eq!((&phase["change"]["dram"], &phase["count"]), (&json!(0), &json!(4)));
    let change = phase["host_rss_change"].as_i64().unwrap();
    assert!((64 << 20..72 << 20).contains(&change), "{change}");
}

fn a_trace_that_overwrites_buffers() {
    let (ran, report) = reported("trace");
    let sentence = "  UNSAFE trace 3: replayed once while 1.0MB of buffers were live that came after its capture, \
        and may be overwritten: 1 buffer of /me/model.py:42 forward";
    assert!(ran.stderr.contains(sentence), "{}", ran.stderr);
    let lines = &report["trace_unsafe"][0]["lines"];
    assert_eq!((&lines[0]["line"]["line"], &lines[0]["bytes"]), (&json!(42), &json!(1 << 20)));
}

fn refusals_among_events() {
    let mut running = Running::start(&mut scripted(&["--quiet"], "hook; pid; flush; wait"));
    let pid = running.line();
    let events = |flags: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ttmon"));
        ran(command.args(["events", "--pid", &pid]).args(flags).env_remove("TTMON_SIM").env("LANG", "C.UTF-8")).stdout
    };
    let text = events(&[]);
    let refused = format!(
        "  {pid:>7}  oom       asked 32.0MB L1 on chips on no device here (512.0KB in each of 64 banks): \
         700.0KB free per bank, largest block 410.0KB: would fit if not fragmented"
    );
    assert!(text.lines().any(|line| line.ends_with(&refused)), "{text}");
    assert!(text.contains(&format!("  {pid:>7}  clash     circular buffers of a program clash with L1")), "{text}");
    let json = events(&["--json"]);
    let of = |op: &str| json.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).find(|event| event["op"] == op).unwrap();
    let oom = of("oom");
    assert_eq!(
        (&oom["free_per_bank"], &oom["largest_free_per_bank"], &oom["size"]),
        (&json!(700 << 10), &json!(410 << 10), &json!(32 << 20))
    );
    assert_eq!((&oom["fits_without_fragmentation"], &oom["top"][0]["address"]), (&json!(true), &json!("0x40")));
    assert_eq!((&of("clash")["kind"], &of("clash")["fits_without_fragmentation"]), (&json!("l1"), &Value::Null));
    let explained = explain(&pid, &[]);
    assert!(explained.contains(&format!("  process {pid}  asked 32.0MB L1 on chips on no device here (512.0KB in each")), "{explained}");
    assert!(explained.contains("  largest live buffers of that kind:\n        4.0KB  0x40  (no line)"), "{explained}");
    let listed: Value = serde_json::from_str(&explain(&pid, &["--json"])).unwrap();
    assert_eq!((&listed[0]["op"], &listed[1]["op"], &listed[0]["verdict"]), (&json!("oom"), &json!("clash"), &json!("fragmented")));
    running.end();
}

/// Returns the output of `ttmon oom`.
fn explain(target: &str, flags: &[&str]) -> String {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ttmon"));
    ran(command.args(["oom", target]).args(flags).env_remove("TTMON_SIM").env("LANG", "C.UTF-8")).stdout
}

fn refusals_of_a_saved_report() {
    let (_, report) = reported("hook");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("report.json");
    let path = file.to_str().unwrap();
    fs::write(&file, report.to_string()).unwrap();
    let text = explain(path, &[]);
    assert!(text.contains("s  asked 32.0MB L1 on chips 0,1 (512.0KB in each of 64 banks)"), "{text}");
    assert!(text.contains("s  circular buffers of a program clash with L1 on chips 0,1"), "{text}");
    for wrong in ["", "no JSON", "{}", r#"{"command": [], "oom": {}, "clashes": []}"#] {
        fs::write(&file, wrong).unwrap();
        assert_eq!(explain(path, &[]), "", "{wrong}");
    }
}

fn every_key_is_there() {
    let keys = |report: &Value| report.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let (_, tracked) = reported("hook");
    let (_, untracked) = reported("exit 3");
    assert_eq!(keys(&tracked), keys(&untracked));
    for key in [
        "command",
        "exit",
        "signal",
        "duration_s",
        "events",
        "lost",
        "overhead_ratio",
        "coverage",
        "processes",
        "devices",
        "peak_set",
        "leaks",
        "cache",
        "growth_bytes",
        "growth_by_line",
        "oom",
        "clashes",
    ] {
        assert!(tracked.get(key).is_some(), "{key}");
    }
    assert_eq!((&untracked["exit"], &untracked["signal"], &untracked["growth_bytes"]), (&json!(3), &Value::Null, &Value::Null));
    assert_eq!((&tracked["overhead_ratio"], &tracked["missing"]["overhead_ratio"]), (&Value::Null, &json!("no_source")));
    let (_, killed) = reported("a 0 1 1; die 15");
    assert_eq!((&killed["exit"], &killed["signal"], &killed["signal_name"]), (&Value::Null, &json!(15), &json!("SIGTERM")));
}

/// The mean of the measured calls is used for all calls. With too few measured calls, the overhead is unknown.
fn the_cost_of_tracking_is_reported() {
    let (ran, report) = reported("hook; cost 40 1000");
    let head = ran.stderr.lines().next().unwrap();
    assert!(head.contains(" time in tracking (10,040 calls, 10ms)"), "{head}");
    let overhead = &report["overhead"];
    assert_eq!((&overhead["calls"], &overhead["measured_calls"], &overhead["ns_per_call"]), (&json!(10_040), &json!(40), &json!(1000)));
    let (ratio, seconds) = (report["overhead_ratio"].as_f64().unwrap(), report["duration_s"].as_f64().unwrap());
    assert!((ratio * seconds - 0.01004).abs() < ratio * 0.002 && report["missing"] == json!({}), "{report}");
    let (ran, report) = reported("hook; cost 7 1000");
    assert!(!ran.stderr.contains("time in tracking") && report["overhead"].is_null(), "{}", ran.stderr);
}

/// A hundred children at once, each too short-lived to be found by a scan. None is lost.
fn many_short_lived_children() {
    let (ran, report) = reported("spawn 100");
    assert_eq!(ran.code(), Some(0), "{}", ran.stderr);
    assert_eq!((report["processes"].as_array().unwrap().len(), &report["allocations"]), (100, &json!(100)), "{}", ran.stderr);
    assert_eq!((&report["devices"][0]["kinds"]["dram"]["peak"], &report["exact"]), (&json!(100), &json!(true)));
    let (_, report) = reported("spawn 100; spawn 100; spawn 100");
    assert_eq!(report["processes"].as_array().unwrap().len(), 300);
}

/// `exec` keeps the pid; both programs are reported.
fn a_program_that_becomes_another() {
    let (_, report) = reported("a 0 111 1; exec");
    let processes = report["processes"].as_array().unwrap();
    assert_eq!((processes.len(), &processes[0]["pid"]), (2, &processes[1]["pid"]), "{report}");
    assert_eq!(leaked_sizes(&report), [222, 111]);
}

fn leaked_sizes(report: &Value) -> Vec<u64> {
    report["leaks"].as_array().unwrap().iter().map(|leak| leak["size"].as_u64().unwrap()).collect()
}

/// Parent and child have separate ledgers, whether the parent had one before or not.
fn a_program_that_forks() {
    for (script, sizes) in [("a 0 111 1; fork; a 0 222 2; exit 4", &[333, 222, 111][..]), ("fork; a 0 222 2; exit 4", &[333, 222])] {
        let (ran, report) = reported(script);
        let pids: Vec<&Value> = report["processes"].as_array().unwrap().iter().map(|process| &process["pid"]).collect();
        assert_eq!((ran.code(), leaked_sizes(&report).as_slice(), pids.len()), (Some(4), sizes, 2), "{script}: {report}");
        assert_ne!(pids[0], pids[1]);
        // Both had memory at the same time, so the peak of their sum is only a lower bound.
        assert_eq!(report["devices"][0]["kinds"]["dram"]["peak_is_at_least"], true);
    }
}

fn a_program_that_closes_all_its_files() {
    let (ran, report) = reported("a 0 111 1; closefds; a 0 222 2; f 0 1; exit 4");
    assert_eq!((ran.code(), leaked_sizes(&report), &report["exact"]), (Some(4), vec![222], &json!(true)), "{}", ran.stderr);
    let (ran, report) = reported("closefds; a 0 222 2; exit 4");
    assert_eq!((ran.code(), leaked_sizes(&report)), (Some(4), vec![222]), "{}", ran.stderr);
}

/// Runs a script with these flags. Checks the exit code and the message.
fn check(flags: &[&str], script: &str, code: i32, words: &str) {
    let ran = ran(&mut scripted(&[&["--quiet"], flags].concat(), script));
    assert_eq!(ran.code(), Some(code), "{flags:?} {script}: {}", ran.stderr);
    assert!(ran.stderr.contains(words) && ran.stderr.is_empty() == words.is_empty(), "{flags:?} {script}: {}", ran.stderr);
}

fn leaks_fail() {
    check(&["--fail-on-leak"], "a 0 100 1; f 0 1", 0, "");
    check(&["--fail-on-leak"], "a 0 100 1", 123, "--fail-on-leak: 100B left in 1 buffer, 0B allowed");
    check(&["--fail-on-leak=100"], "a 0 100 1", 0, "");
    check(&["--fail-on-leak=99"], "a 0 100 1", 123, "99B allowed");
    check(&["--fail-on-leak=1K"], "a 0 600 1; a 1 600 1", 123, "1.2KB left in 2 buffers");
    check(&["--fail-on-leak"], "a 0 100 1; close 0", 123, "100B left in 1 buffer");
    // Buffers of the program cache do not count: 7 MiB and 2 KiB are left on both chips of a mesh, and the cache holds 4 KiB more.
    check(&["--fail-on-leak=7170K"], "hook", 0, "");
    check(&["--fail-on-leak=7169K"], "hook", 123, "7.0MB left in 4 buffers");
}

fn growth_fails() {
    check(&["--fail-on-growth"], "a 0 100 1; mark; a 0 50 2; f 0 2", 0, "");
    check(&["--fail-on-growth"], "a 0 100 1; mark; a 0 50 2", 123, "50B more at the end than at the last mark");
    check(&["--fail-on-growth=50"], "a 0 100 1; mark; a 0 50 2", 0, "");
    check(&["--fail-on-growth"], "a 0 100 1; mark; a 0 50 2; mark", 0, "");
    check(&["--fail-on-growth"], "a 0 100 1; mark; f 0 1", 0, "");
    check(&["--fail-on-growth"], "a 0 100 1; mark; a 0 50 2; close 0", 123, "50B more");
    check(&["--fail-on-growth"], "mark; a 0 50 2", 123, "50B more");
    check(&["--fail-on-growth"], "a 0 50 2", 123, "set no mark");
}

fn limits_fail() {
    check(&["--max-dram", "100"], "a 0 100 1; f 0 1", 0, "");
    check(&["--max-dram", "99"], "a 0 100 1; f 0 1", 123, "--max-dram: the peak on chip 0 was 100B, 99B allowed");
    check(&["--max-l1", "99"], "a 0 100 1; a 0 50 2 1", 0, "");
    check(&["--max-l1", "49"], "a 0 100 1; a 0 50 2 1", 123, "--max-l1");
    // If the size that the allocator took is known, that size counts: 36 MiB of 12 GiB.
    check(&["--max-dram", "36M"], "hook", 0, "");
    check(&["--max-dram", "35M"], "hook", 123, "36.0MB, 35.0MB allowed");
    check(&["--max-dram", "1%"], "hook", 0, "");
    check(&["--max-dram", "0.1%"], "hook", 123, "of 12.0GB allowed");
    check(&["--max-dram", "50%"], "a 0 100 1", 123, "cannot be checked");
    // Two processes at once: the check passes only if the limit is at least the sum of both peaks.
    let two = "a 0 111 1; fork; a 0 222 2";
    check(&["--max-dram", "200"], two, 123, "--max-dram: the peak on chip 0 was");
    check(&["--max-dram", "400"], two, 123, "together between");
    check(&["--max-dram", "700"], two, 0, "");
}

fn a_failing_command_keeps_its_code() {
    check(&["--fail-on-leak"], "a 0 100 1; exit 3", 3, "--fail-on-leak");
    check(&["--fail-on-leak"], "exit 3", 3, "nothing to judge");
}

/// A check without data fails, unless the user allows it.
fn checks_with_nothing_to_judge_fail() {
    let message = "the checks had nothing to judge: nothing was tracked: no call of TT-Metal was seen";
    for flags in [&["--fail-on-leak"][..], &["--fail-on-growth"], &["--max-dram", "90%"], &["--max-l1", "1G", "--fail-on-leak"]] {
        check(flags, "exit 0", 123, &format!("{message}; --allow-untracked takes that for success"));
        check(&[flags, &["--allow-untracked"]].concat(), "exit 0", 0, message);
    }
    check(&["--allow-untracked", "--fail-on-leak"], "a 0 100 1", 123, "100B left");
    check(&["--allow-untracked", "--fail-on-leak"], "exit 3", 3, message);
    check(&["--allow-untracked"], "exit 0", 2, "give a check");
    // A program that reports nothing, although it can be tracked.
    let ran = ran(run(&["--quiet", "--fail-on-leak", "--", "env", "-i", "true"]).env("LANG", "C.UTF-8"));
    assert_eq!(ran.code(), Some(123), "{}", ran.stderr);
}

/// A check with incomplete data fails too.
fn checks_that_did_not_see_everything_fail() {
    let partly = "the checks did not judge everything: 1 ledger could not be read";
    let nothing = "the checks had nothing to judge: nothing was tracked: 1 ledger could not be read";
    // A ledger has room for 256 devices.
    let many: String = (0..300).map(|device| format!("a {device} 10 1; f {device} 1; ")).collect();
    let inexact = "the checks did not judge everything: the figures of 1 process are not exact";
    for (script, message) in [("a 0 100 1; f 0 1; nonsense", partly), ("nonsense", nothing), (&many, inexact)] {
        for flags in [&["--fail-on-leak"][..], &["--max-dram", "1G"]] {
            check(flags, script, 123, &format!("{message}; --allow-untracked takes that for success"));
            check(&[flags, &["--allow-untracked"]].concat(), script, 0, message);
        }
    }
    check(&["--allow-untracked", "--fail-on-leak"], "a 0 100 1; nonsense", 123, "--fail-on-leak: 100B left");
    let (ran, report) = reported("a 0 100 1; nonsense; nonsense");
    assert!(ran.stderr.contains("  not exact: 2 ledgers could not be read; --report FILE says more"), "{}", ran.stderr);
    assert_eq!((&report["exact"], &report["unread_processes"]), (&json!(false), &json!(2)));
}

/// Both runs report the command of the inner run.
fn a_run_inside_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let places = ["outer", "middle", "inner"].map(place);
    let ttmon = env!("CARGO_BIN_EXE_ttmon");
    let inside = |report: &str| [ttmon, "run", "--quiet", "--report", report, "--"].map(str::to_owned);
    let program = std::env::current_exe().unwrap();
    let words: Vec<String> = [inside(&places[1]), inside(&places[2])].concat();
    let flags = ["--quiet", "--fail-on-leak=500", "--report", &places[0], "--"];
    let words: Vec<&str> = flags.into_iter().chain(words.iter().map(String::as_str)).chain([program.to_str().unwrap()]).collect();
    let ran = ran(run(&words).env(SCRIPT, "a 0 600 1; spawn 3; fork"));
    assert_eq!(ran.code(), Some(123), "{}", ran.stderr);
    assert!(ran.stderr.contains("--fail-on-leak: 933B left in 2 buffers"), "{}", ran.stderr);
    let pids = |path: &String| {
        let report: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(leaked_sizes(&report), [600, 333], "{path}");
        let mut pids: Vec<u64> = report["processes"].as_array().unwrap().iter().map(|process| process["pid"].as_u64().unwrap()).collect();
        pids.sort_unstable();
        pids
    };
    let found = places.each_ref().map(pids);
    assert_eq!((found[0].len(), &found[0], &found[0]), (5, &found[1], &found[2]));
}

fn nothing_to_report() {
    let ran = ran(&mut run(&["--", "true"]));
    assert_eq!((ran.code(), ran.stdout.as_str()), (Some(0), ""));
    assert!(
        ran.stderr.lines().count() == 1
            && ran.stderr.starts_with("ttmon: true: exit 0 after ")
            && ran.stderr.contains("nothing was tracked"),
        "{}",
        ran.stderr
    );
}

fn a_report_that_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("none/report.json");
    for path in [inside.to_str().unwrap(), folder.path().to_str().unwrap(), "/proc/self/x"] {
        let ran = ran(&mut run(&["--report", path, "--", "echo", "started"]));
        assert_eq!((ran.code(), ran.stdout.as_str()), (Some(125), ""), "{path}");
        assert!(ran.stderr.contains("the command was not started") && ran.stderr.lines().count() == 1, "{}", ran.stderr);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let cluster = ran(&mut run(&["--cluster", "/no/such/file", "--", "echo", "started"]));
    assert_eq!((cluster.code(), cluster.stdout.as_str()), (Some(125), ""), "{}", cluster.stderr);
    // Errors that only occur after the run.
    report_elsewhere();
    // An existing report is replaced completely.
    let path = folder.path().join("report.json");
    fs::write(&path, "old").unwrap();
    assert_eq!(ran(&mut run(&["--quiet", "--report", path.to_str().unwrap(), "--", "true"])).code(), Some(0));
    assert!(fs::read_to_string(&path).unwrap().starts_with('{') && fs::read_dir(folder.path()).unwrap().count() == 1);
}

/// If the report cannot be written after the run, although the check before the run succeeded, it is written to another directory. It is
/// lost only if that fails too.
fn report_elsewhere() {
    let (folder, spare) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let goes = folder.path().join("goes");
    let path = goes.join("report.json");
    let remove = format!("rmdir '{}'; exit 3", goes.display());
    for (words, path, code) in [
        (&["echo", "started"][..], "/dev/full", 0),
        (&["sh", "-c", "exit 4"], "/dev/full", 4),
        (&["sh", "-c", &remove], path.to_str().unwrap(), 3),
    ] {
        fs::create_dir_all(&goes).unwrap();
        let ran = ran(run(&[&["--quiet", "--report", path, "--"], words].concat()).env("TMPDIR", spare.path()));
        assert_eq!(ran.code(), Some(code), "{path}: {}", ran.stderr);
        let saved = fs::read_dir(spare.path()).unwrap().next().unwrap().unwrap().path();
        assert!(ran.stderr.contains(path) && ran.stderr.lines().count() == 1, "{}", ran.stderr);
        assert!(ran.stderr.trim_end().ends_with(&format!("the report is in {}", saved.display())), "{}", ran.stderr);
        let report: Value = serde_json::from_str(&fs::read_to_string(&saved).unwrap()).unwrap();
        assert_eq!(report["exit"], json!(code));
        fs::remove_file(saved).unwrap();
    }
    for (script, code) in [("exit 0", 125), ("exit 5", 5)] {
        let ran = ran(scripted(&["--quiet", "--report", "/dev/full"], script).env("TMPDIR", "/no/such/folder"));
        assert!(ran.code() == Some(code) && ran.stderr.contains("it is lost"), "{:?} {}", ran.code(), ran.stderr);
    }
}

fn a_report_into_a_pipe() {
    let ttmon = env!("CARGO_BIN_EXE_ttmon");
    let mut command = std::process::Command::new("sh");
    let script = format!("{{ '{ttmon}' run --quiet --report /dev/fd/3 -- true; }} 3>&1 | cat");
    let ran = ran(command.args(["-c", &script]).envs(run(&[]).get_envs().filter_map(|(name, value)| Some((name, value?)))));
    let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|why| panic!("{why}: {}{}", ran.stdout, ran.stderr));
    assert_eq!(report["exit"], json!(0));
}

/// After the command has ended, a signal ends ttmon itself.
fn a_report_that_nobody_takes_can_be_ended() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let path = pipe.to_str().unwrap();
    let mut running = Running::start(&mut run(&["--quiet", "--report", path, "--", "sh", "-c", "trap '' TERM; echo done"]));
    assert_eq!(running.line(), "done");
    until("the end", || {
        running.send(rustix::process::Signal::TERM);
        running.child.try_wait().unwrap().is_some()
    });
    assert_eq!(running.leave().signal(), Some(rustix::process::Signal::TERM.as_raw()));
}
