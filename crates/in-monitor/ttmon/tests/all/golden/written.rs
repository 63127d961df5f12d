//! Files that the program writes: exports, recordings, reports.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;

use ttmon_json::recording;
use ttmon_model::units::UnixTime;
use ttmon_testing::{FIRST_PID, Terminal};

use super::machine::Fixed;
use super::normal::host;
use super::{check, program};

/// 2100-01-01T00:00:10Z.
const RECORDED: u64 = 4_102_444_810;

/// Bytes as text, in lines.
fn escaped(bytes: &[u8]) -> String {
    bytes.chunks(80).map(|line| format!("{}\n", line.escape_ascii())).collect()
}

/// A recording of three frames, made from one document.
fn record(path: &Path, document: &str) {
    let document = document.replace(&format!("\"host\":\"{}\"", host()), "\"host\":\"HOST\"");
    let (before, after) = document.split_once("\"time\":\"").unwrap();
    let rest = &after[after.find('"').unwrap()..];
    let at = |second: u64| UnixTime((RECORDED + second) * 1_000_000_000);
    let mut writer = recording::Writer::new(File::create(path).unwrap(), "0.1.0", at(0)).unwrap();
    for second in 0..3 {
        // In the second frame, each buffer is the one of the first frame. In the third one, each is new.
        let rest = if second == 1 { rest.replace("\"age_s\":0.0", "\"age_s\":1.0") } else { rest.to_owned() };
        writer.push(&format!("{before}\"time\":\"{}{rest}", at(second).rfc3339()), at(second)).unwrap();
    }
    writer.flush().unwrap();
}

#[test]
fn generated_exports_and_recordings() {
    let machine = Fixed::with_ledgers("n150,procs=2");
    check("written/process.chrome.json", &machine.output(&format!("export {FIRST_PID} --to chrome -o -")));
    let pickle = machine.command(&format!("export {FIRST_PID} --to memory-viz -o -")).output().unwrap();
    check("written/process.pickle.txt", &escaped(&pickle.stdout));
    machine.output("record night --duration 50ms -r 50");
    let recorded = zstd::decode_all(File::open(machine.folder().join("night")).unwrap()).unwrap();
    let lines: Vec<&str> = str::from_utf8(&recorded).unwrap().lines().collect();
    check("written/recording.jsonl", &lines[..2].join("\n").replace(",\"", ",\n\""));
    let fixed = machine.folder().join("fixed");
    record(&fixed, lines[1]);
    check("written/recording.chrome.json", &machine.output("export fixed --to chrome -o -"));
    assert!(super::command("report fixed -o report.html", machine.folder()).status().unwrap().success());
    let page = fs::read_to_string(machine.folder().join("report.html")).unwrap();
    // The rest of the page is that of the service.
    let (_, data) = page.split_once("id=\"data\">").unwrap();
    check("written/report.json", &data[..data.find("</script>").unwrap()].replace(",\"", ",\n\""));
    let path = fixed.to_str().unwrap();
    let mut top = Terminal::start(&program(), 120, 40, &["top", "--replay", path, "--ascii"], &[]);
    top.wait_for("PAUSED");
    let mut screens = String::new();
    // The last row is drawn last, and differs from view to view.
    for (key, text) in [("3", "Up Down Scroll"), ("4", "g Group")] {
        let screen = top.expect(key, text);
        screens.extend(screen.lines().map(str::trim_end).chain(["========"]).flat_map(|line| [line, "\n"]));
    }
    check("written/replay.txt", &screens.replace(path, "fixed"));
}

const SCRIPT: &str = "GOLDEN_SCRIPT";

/// Not a test. The code of the program that is run: a model that leaves a buffer, and whose phase grows.
#[test]
fn a_program() {
    if std::env::var_os(SCRIPT).is_none() {
        return;
    }
    let tag = ttmon_client::tag("load");
    for layer in 0..4 {
        ttmon_client::report_allocation(0, 6_000_000, 0, 0x1000 + layer);
    }
    drop(tag);
    ttmon_client::mark();
    for step in 0..3 {
        let _tag = ttmon_client::tag(&format!("layer {step}"));
        ttmon_client::report_allocation(0, 1_000_000 + step, 0, 0x2000 + step);
        ttmon_client::report_allocation(1, 4096, 1, 0x3000 + step);
        ttmon_client::report_cb_allocation(1, 65_536, 0x1a000);
        ttmon_client::report_kernel_load(1, 57_344, 1, 0x77);
        ttmon_client::report_deallocation(1, 0x3000 + step);
    }
    for layer in 0..4 {
        ttmon_client::report_deallocation(0, 0x1000 + layer);
    }
}

#[test]
fn generated_report_of_a_run() {
    let folder = tempfile::tempdir().unwrap();
    symlink(std::env::current_exe().unwrap(), folder.path().join("program")).unwrap();
    let library = folder.path().join("lib");
    fs::create_dir(&library).unwrap();
    ttmon_testing::add_hook(&library);
    let line = "run --report report.json -- ./program golden::written::a_program --exact";
    let mut output = super::command(line, folder.path()).env(SCRIPT, "1").env("TTMON_LIB", &library).output().unwrap();
    // The program's own output has the number of tests.
    output.stdout.clear();
    let report = fs::read_to_string(folder.path().join("report.json")).unwrap();
    check("written/run.txt", &super::transcript(line, &output));
    check("written/run.json", &report);
}
