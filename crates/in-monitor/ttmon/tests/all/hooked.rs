//! Tests a process with a ledger in the format of the hook, from outside. The process is this program, started again with `HOOKED_CHILD`.
//! It writes what the hook would write for a mesh and a submesh on one chip, one step per input line.
#![allow(clippy::cast_possible_truncation, reason = "small numbers")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use ttmon_ledger::layout::{Coverage, Refused, WriterKind, kind};
use ttmon_ledger::writer::{AllocatorSpec, Buffer, Chip, Circular, ClockChoice, Config, Failure, Key, KindGeometry, Writer};
use ttmon_testing::KilledOnDrop;

const CHILD: &str = "HOOKED_CHILD";

static WRITER: Writer =
    Writer::new(Config { kind: WriterKind::Hook, version: "test", clock: ClockChoice::Auto, machine: 0, on_created: None });

const DRAM: KindGeometry = KindGeometry { banks: 12, alignment: 32, bank_bytes: 1 << 30, base: 0x10_0040 };
const L1: KindGeometry = KindGeometry { banks: 64, alignment: 32, bank_bytes: 1 << 20, base: 0x1_9D60 };

/// Not a test. The code of the child process; does nothing without the variable.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let mut kinds = [KindGeometry::default(); 6];
    (kinds[usize::from(kind::DRAM)], kinds[usize::from(kind::L1)]) = (DRAM, L1);
    let chips = [Chip { metal_id: 0, unique_id: 77, flags: 0 }];
    let open = |given_id, mesh| {
        let spec = AllocatorSpec { given_id, origin: 2, mesh, kinds, chips: &chips };
        WRITER.session().unwrap().open_allocator(&spec).unwrap()
    };
    let allocators = [open(0, (1, 1)), open(1, (1, 1))];
    WRITER.session().unwrap().cover(0, "launches", Coverage::Found, "");
    println!("\nready");
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let words: Vec<u64> = line.split(' ').skip(1).map(|word| word.parse().unwrap()).collect();
        let mut session = WRITER.session().unwrap();
        let key = || Key { allocator: allocators[usize::try_from(words[0]).unwrap()], kind: words[1] as u8, address: words[2] };
        match line.split(' ').next().unwrap() {
            "alloc" => session.insert(key(), &Buffer { size: words[3], per_bank: words[4] as u32, ..Buffer::default() }).unwrap(),
            "free" => drop(session.remove(key()).unwrap()),
            "program" => {
                let cores = [0, 0, words[2] as u8, 0];
                let one = Circular {
                    allocator: allocators[0],
                    chip: None,
                    program: words[0] as u32,
                    address: 0x1_9D60,
                    size: words[1] as u32,
                    cores,
                    is_dataflow: true,
                    is_global: false,
                };
                session.add_circular(&one).unwrap();
            }
            "launch" => (0..words[0]).for_each(|_| WRITER.launched_on(&[0])),
            "oom" => session.failed(&Failure {
                what: Refused::OutOfMemory,
                allocator: allocators[0],
                kind: kind::DRAM,
                size: words[0],
                per_bank: words[0] / 12,
                banks: 12,
                free_per_bank: 1,
                largest_free_per_bank: 1,
                tag: 0,
                operation: 0,
                stack: 0,
                message: "Out of Memory",
            }),
            "close" => session.close_allocator(allocators[1]),
            other => panic!("{other}"),
        }
        drop(session);
        println!("done");
    }
}

struct Hooked {
    process: KilledOnDrop,
    answers: BufReader<std::process::ChildStdout>,
}

impl Hooked {
    fn start() -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["hooked::child", "--exact", "--nocapture"]).env(CHILD, "1");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut hooked = Self { process: KilledOnDrop(child), answers };
        while hooked.answer() != "ready" {}
        hooked
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        assert!(self.answers.read_line(&mut line).unwrap() > 0, "it ended");
        line.trim().to_owned()
    }

    fn does(&mut self, lines: &[&str]) {
        for line in lines {
            writeln!(self.process.0.stdin.as_mut().unwrap(), "{line}").unwrap();
            assert_eq!(self.answer(), "done", "{line}");
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = crate::command(arguments);
        command.args(["--pid", &self.process.id().to_string()]);
        command
    }

    fn ttmon(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn mem(&self, arguments: &[&str]) -> Value {
        let arguments: Vec<&str> = ["mem", "--json"].iter().chain(arguments).copied().collect();
        let ran = self.ttmon(&arguments);
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        serde_json::from_slice(&ran.stdout).unwrap()
    }
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} in {value}"))
}

#[test]
fn banks_follow_what_the_program_does() {
    let mut hooked = Hooked::start();
    let dram = |hooked: &Hooked| hooked.mem(&["--banks"])["allocators"][0]["kinds"]["dram"].clone();
    let figures =
        |item: &Value| ["allocated_per_bank", "free_per_bank", "largest_free_per_bank", "blocks", "count"].map(|name| number(item, name));
    assert_eq!(figures(&dram(&hooked)), [0, 1 << 30, 1 << 30, 1, 0], "open, and nothing in it");
    hooked.does(&["alloc 0 0 1048640 5000 512", "alloc 0 0 1049152 5000 1024", "alloc 0 0 1050176 5000 2048"]);
    assert_eq!(figures(&dram(&hooked)), [3584, (1 << 30) - 3584, (1 << 30) - 3584, 4, 3]);
    hooked.does(&["free 0 0 1049152"]);
    let item = dram(&hooked);
    assert_eq!(figures(&item), [2560, (1 << 30) - 2560, (1 << 30) - 3584, 4, 2]);
    assert!(item["fragmentation"].as_f64().unwrap() >= 0.0);
    let document = hooked.mem(&["--banks", "--blocks"]);
    let blocks = document["blocks"].as_array().unwrap();
    let id = format!("{}.0.1", hooked.process.0.id());
    let of_dram = blocks.iter().filter(|block| block["allocator"] == id.as_str() && block["kind"] == "dram");
    let blocks: Vec<_> = of_dram.map(|block| (block["address"].as_str().unwrap(), number(block, "size"), block["free"] == true)).collect();
    assert_eq!(
        blocks,
        [("0x100040", 512, false), ("0x100240", 1024, true), ("0x100640", 2048, false), ("0x100e40", (1 << 30) - 3584, true)]
    );
    let text = String::from_utf8(hooked.ttmon(&["mem", "--banks"]).stdout).unwrap();
    assert!(text.contains("dram        12     1.0GB     2.5KB"), "{text}");
    assert!(text.contains("not tracked: cb, kernel"), "{text}");
}

/// Small L1 buffers have a bank only if a program requests it. Without the bank, their size is known to be 0.
#[test]
fn a_kind_without_a_bank_is_empty() {
    let hooked = Hooked::start();
    let document = hooked.mem(&["--banks"]);
    let small = &document["allocators"][0]["kinds"]["l1_small"];
    assert_eq!(["used", "allocated", "free", "count", "banks", "bank_bytes", "blocks"].map(|name| number(small, name)), [0; 7], "{small}");
    let process = &document["processes"][0]["unmapped"][0];
    assert_eq!(process["kinds"]["l1_small"]["used"], 0, "{process}");
    let text = String::from_utf8(hooked.ttmon(&["mem"]).stdout).unwrap();
    assert!(text.contains("not tracked: cb, kernel") && text.contains("    l1_small           0B           0B"), "{text}");
}

#[test]
fn an_overlapping_submesh_is_always_reported() {
    let mut hooked = Hooked::start();
    hooked.does(&["alloc 0 0 1048640 5000 512"]);
    assert_eq!(hooked.mem(&[])["processes"][0]["overlap_bytes"], 0);
    hooked.does(&["alloc 1 0 1048896 5000 512"]);
    let document = hooked.mem(&[]);
    assert_eq!(document["processes"][0]["overlap_bytes"], 256 * 12);
    let problems = document["problems"].to_string();
    assert!(problems.contains("3072 bytes of chip 0 belong to two live buffers"), "{problems}");
    assert_eq!(document["processes"][0]["unmapped"][0]["kinds"]["dram"]["used"], 10_000, "bytes are added, capacities never");
    hooked.does(&["close"]);
    assert_eq!(hooked.mem(&[])["processes"][0]["overlap_bytes"], 0);
}

#[test]
fn programs_and_launches() {
    let mut hooked = Hooked::start();
    let document = hooked.mem(&[]);
    assert_eq!((&document["processes"][0]["launches"], document["allocators"][0]["kinds"].get("cb")), (&0.into(), None));
    hooked.does(&["launch 5", "program 1 4096 1", "program 2 2048 3"]);
    let document = hooked.mem(&[]);
    assert_eq!(document["processes"][0]["launches"], 5);
    assert_eq!(document["processes"][0]["missing"]["launches_per_s"], "first_sample");
    let cb = &document["allocators"][0]["kinds"]["cb"];
    assert_eq!(["used", "programs", "per_core", "count"].map(|name| number(cb, name)), [2 * 4096 + 2 * 2048, 2, 4096, 2]);
    let text = String::from_utf8(hooked.ttmon(&["mem"]).stdout).unwrap();
    assert!(text.contains("cb: 2 programs, at most 4.0KB on a core") && text.contains("launches: 5, the last "), "{text}");
    // The second sample has a rate.
    let mut watch = hooked.command(&["mem", "--json", "-w", "-r", "50"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let rate = lines.by_ref().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap()).nth(1).unwrap();
    assert_eq!(rate["processes"][0]["launches_per_s"], 0.0);
    hooked.does(&["launch 1000"]);
    let is_faster = |line: std::io::Result<String>| {
        let document = serde_json::from_str::<Value>(&line.unwrap()).unwrap();
        document["processes"][0]["launches_per_s"].as_f64().unwrap() > 0.0
    };
    assert!(lines.take(200).any(is_faster));
    watch.kill().unwrap();
    watch.wait().unwrap();
}

#[test]
fn refused_allocations_and_programs_are_events() {
    let mut hooked = Hooked::start();
    hooked.does(&["oom 1000", "program 7 4096 1"]);
    let text = String::from_utf8(hooked.ttmon(&["events"]).stdout).unwrap();
    assert!(text.contains("oom       asked 1000B DRAM on chip 0"), "{text}");
    assert!(text.contains("0x19d60  program 7"), "{text}");
}

#[test]
fn summaries_are_files_written_whole_or_not_at_all() {
    let mut hooked = Hooked::start();
    hooked.does(&["close", "alloc 0 1 105824 4000 64"]);
    let directory = tempfile::tempdir().unwrap();
    let reports = directory.path().join("reports");
    let write = |hooked: &Hooked, arguments: &[&str]| {
        let arguments: Vec<&str> = ["mem", "--csv", reports.to_str().unwrap()].iter().chain(arguments).copied().collect();
        hooked.ttmon(&arguments)
    };
    let ran = write(&hooked, &[]);
    assert!(ran.status.success() && ran.stdout.is_empty() && ran.stderr.is_empty(), "{ran:?}");
    let mut names: Vec<_> = fs::read_dir(&reports).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["detailed_memory_usage.csv", "l1_usage_summary.csv", "memory_blocks.csv", "memory_usage_summary.csv"]);
    let summary = fs::read_to_string(reports.join("memory_usage_summary.csv")).unwrap();
    let lines: Vec<&str> = summary.lines().collect();
    assert_eq!(lines[1..], [",1073741824,0,1073741824,1073741824", ",1048576,64,1048512,1048512", ",0,0,0,0"]);
    let l1 = fs::read_to_string(reports.join("l1_usage_summary.csv")).unwrap();
    assert_eq!(l1.lines().last(), Some(",1048512,67104768"));
    for wrong in ["--json", "--banks"] {
        assert_eq!(write(&hooked, &[wrong]).status.code(), Some(2), "{wrong}");
    }
    fs::remove_file(reports.join("l1_usage_summary.csv")).unwrap();
    fs::create_dir(reports.join("l1_usage_summary.csv")).unwrap();
    hooked.does(&["alloc 0 1 105888 4000 64"]);
    let ran = write(&hooked, &[]);
    let complaint = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(
        ran.status.code() == Some(1) && complaint.starts_with("ttmon: cannot write to ") && complaint.lines().count() == 1,
        "{complaint}"
    );
    assert_eq!(fs::read_to_string(reports.join("memory_usage_summary.csv")).unwrap(), summary, "as it was");
}

#[test]
fn flags_of_mem_combine_or_are_refused() {
    let mut hooked = Hooked::start();
    for arguments in [&["mem", "--diff", "x", "--banks"][..], &["mem", "--diff", "x", "--blocks"]] {
        let ran = hooked.ttmon(arguments);
        assert_eq!(ran.status.code(), Some(2), "{}", String::from_utf8_lossy(&ran.stderr));
    }
    // Overlapping buffers are a problem that is reported once, at the end of the output.
    hooked.does(&["alloc 0 0 1048640 5000 512", "alloc 1 0 1048896 5000 512"]);
    let all = hooked.ttmon(&["mem", "--banks", "--blocks", "--buffers"]);
    let text = String::from_utf8(all.stdout).unwrap();
    for (part, count) in
        [("kind     banks", 2), ("kind            address", 2), ("    PID   dev     kind", 1), ("belong to two live buffers", 1)]
    {
        assert_eq!(text.matches(part).count(), count, "{part}: {text}");
    }
    assert!(text.lines().last().unwrap().contains("belong to two"), "{text}");
}
