//! Memory and events of processes with ledgers.

use std::fs;

use ttmon_testing::FIRST_PID;

use super::check;
use super::machine::Fixed;

#[test]
fn generated_memory() {
    let machine = Fixed::with_ledgers("n300x2,procs=3");
    let tables = [
        "mem",
        "mem --all",
        "COLUMNS=200 mem --banks",
        "mem --banks",
        "mem --blocks",
        "mem --buffers",
        "COLUMNS=200 mem --buffers --sort address --top 5",
        "mem --by line",
        "mem --by tag --top 3",
        "mem --by op",
        "mem --by line --since 60",
        "mem --by tag --csv -",
        "oom",
    ];
    check("memory/tables.txt", &machine.transcript(&tables));
    check("memory/memory.json", &machine.output("mem --json --banks --buffers --blocks"));
    check("memory/by-line.json", &machine.output("mem --json --by line"));
    check("memory/oom.json", &machine.output("oom --json"));
    check("memory/events.txt", &machine.transcript(&["events", "events -n 3 -d 1"]));
    check("memory/events.jsonl", &machine.output("events --json"));
}

#[test]
fn generated_files_of_memory_reporter() {
    let machine = Fixed::with_ledgers("n150,procs=2");
    machine.output("mem --csv reports");
    let mut files: Vec<_> = fs::read_dir(machine.folder().join("reports")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let text: String =
        files.iter().map(|path| format!("== {}\n{}\n", path.file_name().unwrap().display(), fs::read_to_string(path).unwrap())).collect();
    check("memory/reports.csv", &text);
}

#[test]
fn generated_difference_of_memory() {
    let machine = Fixed::with_ledgers("n150,procs=2");
    let earlier = machine.output(&format!("mem --json --buffers --pid {FIRST_PID}"));
    // One buffer was not there, and another one had another size.
    let earlier = earlier.replacen("\"address\": \"0x100040\"", "\"address\": \"0x777040\"", 1);
    fs::write(machine.folder().join("earlier.json"), earlier).unwrap();
    check("memory/difference.txt", &machine.transcript(&["mem --diff earlier.json", "mem --diff earlier.json --json"]));
}
