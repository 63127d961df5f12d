//! Simulated machines, with real processes.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use ttmon_testing::{KilledOnDrop, until};

use crate::program::run::{command, ran, ttmon};

#[test]
fn a_machine_with_memory_and_processes() {
    let json = ttmon("--sim t3k --json").json();
    assert_eq!((&json["origin"], json["devices"].as_array().unwrap().len()), (&"sim".into(), 8));
    assert!(json["devices"].as_array().unwrap().iter().any(|device| device["memory"]["used"].as_u64() > Some(1 << 20)));
    let processes = json["processes"].as_array().unwrap();
    let statuses: Vec<&str> = processes.iter().map(|process| process["status"].as_str().unwrap()).collect();
    assert!(statuses.contains(&"reported") && statuses.contains(&"open"), "{statuses:?}");
    assert!(ttmon("--sim t3k").stdout.contains("SIMULATED"));
}

/// Banks of simulated programs: the blocks fill the bank, used bytes fit, and the totals equal TT-Metal's statistics.
#[test]
fn banks_and_circular_buffers() {
    for spec in ["n300", "p150", "galaxy"] {
        let json = ttmon(&format!("mem --sim {spec} --banks --blocks --buffers --json")).json();
        let (allocators, blocks) = (json["allocators"].as_array().unwrap(), json["blocks"].as_array().unwrap());
        assert!(!allocators.is_empty(), "{spec}");
        for allocator in allocators {
            for kind in ["dram", "l1", "l1_small", "trace"] {
                let number = |name: &str| allocator["kinds"][kind][name].as_u64().unwrap_or_else(|| panic!("{spec} {kind} {name}"));
                let (banks, bank_bytes) = (number("banks"), number("bank_bytes"));
                assert!(number("used") <= number("allocated") && number("allocated") <= banks * bank_bytes, "{spec} {kind}");
                let is_mine = |block: &&Value| block["allocator"] == allocator["id"] && block["kind"] == kind;
                let sum: u64 = blocks.iter().filter(is_mine).map(|block| block["size"].as_u64().unwrap()).sum();
                assert_eq!(sum, bank_bytes, "{spec} {kind}");
            }
            assert!(allocator["kinds"]["cb"]["used"].as_u64() > Some(0) && allocator["kinds"]["cb"]["programs"] == 1, "{spec}");
            let processes = json["processes"].as_array().unwrap();
            assert!(processes.iter().all(|process| process["overlap_bytes"].as_u64().unwrap_or(0) == 0), "{spec}");
        }
    }
}

/// The same seed gives the same machine, except for pids and times.
#[test]
fn deterministic() {
    let machine = |arguments: &str| {
        let mut json = ttmon(arguments).json();
        for key in ["time", "processes"] {
            json.as_object_mut().unwrap().remove(key);
        }
        for device in json["devices"].as_array_mut().unwrap() {
            device.as_object_mut().unwrap().remove("processes");
        }
        json
    };
    assert_eq!(machine("--sim t3k --seed 7 --json"), machine("--sim t3k --seed 7 --json"));
    assert_ne!(machine("--sim t3k --seed 7 --json"), machine("--sim t3k --seed 8 --json"));
}

/// If a card is missing when ttmon starts, its ids and those of the chips behind it stay reserved.
#[test]
fn ids_belong_to_their_slots() {
    let chips = |spec: &str| {
        let json = ttmon(&format!("--sim {spec} --json --read-timeout 60")).json();
        let devices = json["devices"].as_array().unwrap().clone();
        let chip = |device: &Value| (device["id"].as_u64().unwrap(), device["via"].clone(), device["serial"].clone());
        (devices.iter().map(chip).collect::<Vec<_>>(), json["problems"].clone())
    };
    let (whole, _) = chips("t3k,idle");
    for gone in 0..4 {
        let (now, problems) = chips(&format!("t3k,idle,fault=gone:{gone}"));
        for (id, via, serial) in now.iter().filter(|(id, ..)| ![gone, gone + 4].contains(id)) {
            assert!(whole.contains(&(*id, via.clone(), serial.clone())), "{gone}: {id} {via} {serial} {problems}");
        }
        let ids: Vec<u64> = now.iter().map(|(id, ..)| *id).collect();
        assert!((0..8).filter(|id| ![gone, gone + 4].contains(id)).all(|id| ids.contains(&id)), "{gone}: {ids:?}");
    }
}

#[test]
fn faults() {
    let check = |fault: &str, state: &str, field: &str, reason: &str| {
        let json = ttmon(&format!("--sim p150x2,fault={fault}:0 --json --read-timeout 60")).json();
        let (ill, well) = (&json["devices"][0], &json["devices"][1]);
        assert_eq!((&ill["state"], &ill["missing"][field]), (&state.into(), &Value::from(reason)), "{fault}");
        assert_eq!(well["state"], "ok", "{fault}");
    };
    check("hang", "unreadable", "temperature", "timeout");
    check("gone", "gone", "temperature", "gone");
    check("reset", "resetting", "temperature", "resetting");
    check("eacces", "unreadable", "temperature", "no_permission");
    check("eio", "unreadable", "temperature", "io_error");
    check("unplug", "gone", "temperature", "gone");
    check("starting", "starting", "temperature", "no_source");
    check("link", "ok", "pcie_gen_max", "no_source");
    check("garbage", "unreadable", "temperature", "out_of_range");
    let unloaded = ttmon("--sim n150,fault=unload:0");
    assert_eq!(unloaded.code, 3, "{}", unloaded.stderr);
    assert!(unloaded.stderr.contains("the kernel driver is not loaded"), "{}", unloaded.stderr);
    let health = |fault: &str| ttmon(&format!("--sim p150x2,fault={fault}:0 --json")).json()["devices"][0]["health"].clone();
    assert_eq!((health("hot"), health("throttle")), ("critical".into(), "warning".into()));
    let throttled = ttmon("--sim n300,fault=throttle:0 --json").json();
    assert!(throttled["devices"][0]["health_reasons"].to_string().contains("throttling: AI clock 800 of 1000 MHz"), "{throttled}");
    assert!(ttmon("--sim n300,fault=throttle:0").stdout.contains("THROTTLE"));
    let stale = ttmon("--sim p150x2,fault=stale:0 --json").json();
    assert!(stale["devices"][0]["memory"]["stale_bytes"].as_u64() > Some(0));
}

#[test]
fn firmware_that_is_not_ready_is_starting() {
    let spec = "n300x2,idle,fault=starting:0";
    let table = ttmon(&format!("--sim {spec}")).stdout;
    let row = table.lines().find(|line| line.contains("n300 L")).unwrap();
    assert!(row.contains("START"), "{table}");
    assert!(table.contains("device 0: the firmware does not answer yet; the driver waits up to 120 s for it"), "{table}");
    let query = ttmon(&format!("--sim {spec} -q -i 0")).stdout;
    for line in ["state: starting", "temperature: N/A (no_source: the firmware does not answer yet)", "pcie_width: 16"] {
        assert!(query.contains(line), "{line}: {query}");
    }
    assert!(ttmon(&format!("--sim {spec} who 0")).stdout.contains("starting"));
}

/// A repeated snapshot shows all states while a device vanishes and returns.
#[test]
fn a_device_goes_and_comes_back() {
    for fault in ["gone", "unplug", "unload"] {
        let mut child =
            command(&format!("--sim n300,idle,fault={fault}:0@1-2 --json -lms 100 --no-server")).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut states: Vec<Value> = Vec::new();
        for line in lines.take(600) {
            let json: Value = serde_json::from_str(&line.unwrap()).unwrap();
            let (device, remote) = (&json["devices"][0], &json["devices"][1]);
            assert_eq!((&device["id"], &device["board"], &remote["id"]), (&0.into(), &"n300".into(), &1.into()), "{fault}: {json}");
            // While names are removed or restored one by one, a sample may have either state.
            if states.last() != Some(&device["state"]) {
                states.push(device["state"].clone());
            }
            if states.contains(&"gone".into()) && device["state"] == "ok" {
                break;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((states.first(), states.last()), (Some(&"ok".into()), Some(&"ok".into())), "{fault}: {states:?}");
        assert!(states.contains(&"gone".into()), "{fault}: {states:?}");
    }
}

#[test]
fn idle_and_waiting() {
    assert_eq!(ttmon("--sim n300,idle wait --idle").code, 0);
    let busy = ttmon("--sim n300 wait --idle --timeout 0.3");
    assert_eq!(busy.code, 4, "{}", busy.stderr);
    assert!(busy.stderr.contains("holds device"), "{}", busy.stderr);
    assert!(ttmon("--sim n300,idle who").stdout.contains("free"));
    assert!(ttmon("--sim n300 who").stdout.contains("python3"));
}

/// A simulated process can be killed. The next sample does not have it, and its statistics are stale.
#[test]
fn a_process_is_killed() {
    let mut child = command("--sim n300,procs=1 --json -lms 100").stdout(Stdio::piped()).spawn().unwrap();
    let mut snapshots =
        BufReader::new(child.stdout.take().unwrap()).lines().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let first = snapshots.next().unwrap();
    let pid = first["processes"][0]["pid"].as_u64().unwrap();
    assert!(Path::new(&format!("/proc/{pid}")).exists());
    kill(pid);
    let gone = snapshots.take(50).find(|json| json["processes"].as_array().unwrap().is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    let gone = gone.expect("it stays listed");
    assert_eq!(gone["devices"][0]["memory"]["used"], 0);
    assert!(gone["devices"][0]["memory"]["stale_bytes"].as_u64() > Some(0));
}

/// The simulation leaves no files or processes, however it ends.
#[test]
fn nothing_is_left_behind() {
    for how in ["finished", "killed"] {
        let mut child = command("--sim n300,procs=2 --json -lms 60").stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let json: Value = serde_json::from_str(&line).unwrap();
        let pids: Vec<u64> = json["processes"].as_array().unwrap().iter().map(|process| process["pid"].as_u64().unwrap()).collect();
        assert_eq!(pids.len(), 2);
        if how == "killed" {
            child.kill().unwrap();
        }
        // The closed pipe ends the program.
        drop(child.stdout.take());
        child.wait().unwrap();
        until(&format!("{how}, and no worker lives on"), || !pids.iter().any(|pid| Path::new(&format!("/proc/{pid}")).exists()));
    }
}

fn kill(pid: u64) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// SIGHUP directly after SIGTERM does not end the recording before its samples are written.
#[test]
fn two_signals_end_a_recording_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("recording");
    let mut record = command("record --sim n150,idle");
    let mut child = record.arg(&path).spawn().unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    let tasks = || std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().flatten();
    until("the program handles signals", || tasks().any(|task| name(task) == "signals\n"));
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let status = loop {
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
    };
    assert!(status.success(), "{status}");
    assert!(std::fs::metadata(&path).unwrap().len() > 1000);
}

/// MemoryReporter's files: the current ones, and those to which each program is appended.
#[test]
fn reports_are_those_of_memory_reporter() {
    let directory = tempfile::tempdir().unwrap();
    let csv = |flags: &str| {
        let mut csv = command(&format!("mem --sim n150 {flags} --csv"));
        csv.arg(directory.path());
        csv
    };
    assert_eq!(ran(csv("").output().unwrap()).code, 0);
    let detailed = std::fs::read_to_string(directory.path().join("detailed_memory_usage.csv")).unwrap();
    assert!(detailed.starts_with(",DRAM\n,Total allocatable (B):,"), "{detailed}");
    assert!(detailed.contains("\nFreeListOpt allocator info:\nsegregated free blocks by size:\n  Size class 0: (1024 - 2048) blocks: "));
    assert!(
        detailed.contains("\n       Block      Address         Size       PrevID       NextID    Allocated \n           0            0 ")
    );
    let mut follower = KilledOnDrop(csv("-w -r 50").spawn().unwrap());
    let is_program = |name: &str| name.ends_with("_program_detailed_memory_usage.csv");
    let names = || std::fs::read_dir(directory.path()).unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    until("a file of a program", || {
        assert!(follower.0.try_wait().unwrap().is_none(), "{:?}", names().collect::<Vec<_>>());
        names().any(|name| is_program(&name))
    });
}

/// Drivers before 2.7 print pids of the holder's own namespace, which are verified by its open files. Simulated processes have no open
/// device files.
#[test]
fn an_old_driver_has_no_holder_of_another_container() {
    let ran = ttmon("who --sim n150,driver=2.5,procs=1");
    assert!(ran.code == 0 && !ran.stdout.contains("another container"), "{}", ran.stdout);
}
