//! Command lines that users of nvidia-smi, tt-smi, nvtop and htop type, and the answers of ttmon.

use std::fs;
use std::process::Command;

use crate::program::run::{command, root, ttmon, ttmon_at};
use crate::{TTMON, start_service};

/// The command line, the exit code, and texts that the answer must contain. `@` means a simulated machine.
const HABITS: &[(&str, i32, &[&str])] = &[
    // nvidia-smi
    ("@", 0, &["ID Board", "n300 L", "Processes:"]),
    ("-h", 0, &["Usage: ttmon"]),
    ("--version", 0, &["ttmon 0."]),
    ("-L @", 0, &["Device 0: n300 L (Wormhole_B0)"]),
    ("--list-gpus @", 0, &["Device 1: n300 R"]),
    ("-q @", 0, &["temperature_limit:", "memory.used:"]),
    ("-q -d MEMORY,TEMPERATURE @", 0, &["memory.free:", "temperature:"]),
    ("-q -i 0 -d POWER @", 0, &["device 0:", "power_limit:"]),
    ("-i 0 @", 0, &["n300 L"]),
    ("--query-gpu=index,name,memory.used,memory.total --format=csv @", 0, &["index, name, memory.used [MiB]", "Wormhole_B0", " MiB"]),
    ("--query-gpu=utilization.gpu,utilization.memory --format=csv,noheader,nounits @", 0, &["N/A, N/A"]),
    ("--query-gpu=clocks.sm,temperature.gpu,power.draw,pstate --format=csv @", 0, &["clocks.current.sm [MHz]", " MHz, "]),
    ("--query-compute-apps=pid,process_name,used_memory --format=csv @", 0, &["used_gpu_memory [MiB]", "python3"]),
    ("--help-query-gpu", 0, &["utilization.gpu", "memory.used", "TTMON FIELD"]),
    ("--help-query-compute-apps", 0, &["used_memory", "process_name"]),
    ("dmon -c 1 @", 0, &["# dev", "temp", "# Idx"]),
    ("dmon -s pucvmt -d 0.1 -c 2 -o DT -i 0 @", 0, &["# Date", "utilization", "beat"]),
    ("dmon -s z @", 2, &["letters are p, u, c, v, m, t"]),
    ("dmon -d n300 @", 2, &["name devices with -i"]),
    ("pmon -c 1 @", 0, &["# dev      pid user", "tracked", "python3 serve.py"]),
    ("topo -m @", 0, &["dev0  dev1", "X     ETH", "NUMA"]),
    ("nvlink --status", 2, &["ttmon topo"]),
    ("--query-gpu=memory.usde @", 2, &["no field \"memory.usde\"; similar: memory.total, memory.used, memory.free; --help-query-gpu"]),
    ("-q -x", 2, &["use --json"]),
    ("-pm 1", 2, &["changes no setting"]),
    ("-pl 150 -i 0", 2, &["changes no setting"]),
    ("--gpu-reset -i 0", 2, &["never resets a device"]),
    ("-ac 877,1530", 2, &["-ac is nvidia-smi's; ttmon changes no setting"]),
    ("-lgc 1000", 2, &["-lgc is nvidia-smi's", "ttmon -q -d CLOCK"]),
    ("mig -lgi", 2, &["changes no setting"]),
    ("pmon -s um @", 2, &["ttmon pmon prints all its columns"]),
    ("dmon -f log.txt @", 2, &["ttmon dmon > FILE"]),
    ("topo -p2p r @", 2, &["ttmon topo prints all connections"]),
    ("--query-apps=pid @", 2, &["--query-compute-apps"]),
    ("--csv @", 2, &["--fields"]),
    ("-f - @", 0, &["ID Board"]),
    // tt-smi
    ("-s", 2, &["use --json"]),
    ("-s -f snapshot.json", 2, &["use --json, with -f FILE"]),
    ("-ls", 2, &["use -L"]),
    ("-v", 2, &["use -V"]),
    ("--snapshot_no_tty", 2, &["use --json"]),
    ("-r 0,1", 2, &["never resets a device"]),
    ("--reset 0", 2, &["never resets a device"]),
    ("-glx_reset", 2, &["never resets a device"]),
    ("--compact", 2, &["fits its tables"]),
    ("flash", 2, &["changes no firmware"]),
    // nvtop, nvitop
    ("-C @", 2, &["use --color never"]),
    ("--no-color @", 2, &["use --color never"]),
    ("--json @", 0, &["\"schema\": 1"]),
    ("-1 @", 2, &["one snapshot without a flag"]),
    ("top --once @", 2, &["one snapshot without a flag"]),
    // htop, systemd, docker, git
    ("-u ana @", 2, &["ttmon who"]),
    ("-p 1 @", 2, &["mem --pid"]),
    ("ps @", 2, &["use ttmon who"]),
    ("kill 1", 2, &["ttmon top", "F9"]),
    ("list", 2, &["use ttmon -L"]),
    ("watch", 2, &["use ttmon -w"]),
    ("daemon", 2, &["use ttmon serve"]),
    ("-w 1 @", 2, &["-w takes no value; use -l 1"]),
    ("top -b -n 1 @", 2, &["use ttmon -l SEC"]),
    ("top --delay 1 @", 2, &["top -r MS"]),
    ("status", 2, &["ttmon check"]),
    ("memory", 2, &["use ttmon mem"]),
    ("processes", 2, &["use ttmon who"]),
    ("temp", 2, &["-d TEMPERATURE"]),
    ("logs", 2, &["use ttmon events"]),
    ("dashboard", 2, &["http://127.0.0.1:9477/"]),
    ("serve -p 80", 2, &["--listen 127.0.0.1:PORT"]),
    ("attach 1", 2, &["ttmon run"]),
    ("version", 2, &["use ttmon -V"]),
    ("who @", 0, &["PID", "USER", "DEVICES", "python3 serve.py"]),
    ("help", 0, &["Usage: ttmon [OPTIONS] [COMMAND]"]),
    ("help events", 0, &["Usage: ttmon events", "--since"]),
    ("help nothing", 2, &["no command \"nothing\""]),
    ("help alerts nothing", 2, &["no command \"nothing\"; see ttmon alerts --help"]),
    ("alerts --no-server", 0, &["RULE", "dram-full"]),
    ("alerts silence", 2, &["see ttmon alerts silence --help"]),
    ("events -n 2 --since 5m @", 0, &["alloc"]),
    ("mem --blocks @", 0, &["  used", "  free"]),
    // Spellings of a machine.
    ("-L --sim T3K,idle", 0, &["Device 7: n300 R"]),
    ("-L --sim t3000,idle", 0, &["Device 7: n300 R"]),
    // Times.
    ("wait --idle --timeout 1m --sim n150,idle", 0, &[]),
    ("wait --idle --timeout 100ms @", 4, &["still not idle"]),
    ("wait --idle --timeout soon @", 2, &["30s, 5m", "see ttmon wait --help"]),
    // Errors point to the help of the command.
    ("events --nothing", 2, &["see ttmon events --help"]),
    ("mem --nothing", 2, &["see ttmon mem --help"]),
    ("--nothing", 2, &["see ttmon --help"]),
];

#[test]
fn command_lines_of_other_tools_are_answered() {
    assert!(HABITS.len() >= 40);
    for (typed, code, words) in HABITS {
        let ran = ttmon(&typed.replace('@', "--sim n300"));
        let output = if *code == 0 { &ran.stdout } else { &ran.stderr };
        assert_eq!(ran.code, *code, "{typed}: {}{}", ran.stdout, ran.stderr);
        for word in *words {
            assert!(output.contains(word), "{typed}: no {word:?} in {output}");
        }
        // An error is exactly one line.
        if *code != 0 {
            assert_eq!((ran.stdout.as_str(), ran.stderr.lines().count()), ("", 1), "{typed}: {}", ran.stderr);
        }
    }
}

/// Returns what a shell offers for the last of these words.
fn completed(words: &[&str]) -> Vec<String> {
    let mut shell = command("--");
    shell.arg("ttmon").args(words).env("COMPLETE", "bash").env("_CLAP_IFS", "\n");
    shell.env("_CLAP_COMPLETE_INDEX", words.len().to_string()).env("_CLAP_COMPLETE_COMP_TYPE", "9");
    String::from_utf8(shell.output().unwrap().stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn shells_complete_values() {
    assert_eq!(completed(&["--sim", "t"]), ["t3k"]);
    assert_eq!(completed(&["--sim", "t3k,fault=ho"]), ["t3k,fault=hot:"]);
    assert_eq!(completed(&["--fields", "id,temperature_l"]), ["id,temperature_limit"]);
    assert_eq!(completed(&["--query-gpu", "utilization.m"]), ["utilization.memory"]);
    assert!(completed(&["dm"]).contains(&"dmon".to_owned()));
    assert!(completed(&["events", "--si"]).contains(&"--since".to_owned()));
    assert_eq!(completed(&["help", "ev"]), ["events"]);
    assert_eq!(completed(&["alerts", "test", "dram"]), ["dram-full"]);
    let script = ttmon("completions bash").stdout;
    let check = Command::new("bash").args(["-n", "-c", &script]).status().unwrap();
    assert!(check.success() && script.contains("complete "), "{script}");
}

/// Tests the completions in bash itself, which splits words at `:` and `=`.
#[test]
fn bash_completes_words_with_breaks() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("ttmon.bash");
    fs::write(&script, ttmon("completions bash").stdout).unwrap();
    std::os::unix::fs::symlink(TTMON, directory.path().join("ttmon")).unwrap();
    let path = format!("{}:{}", directory.path().display(), std::env::var("PATH").unwrap());
    let offered = |typed: &str| {
        let run = ". \"$0\"; COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9; _ttmon ttmon x y 2>/dev/null; printf '%s\\n' \"${COMPREPLY[@]}\"";
        let output = Command::new("bash").args(["-c", run]).arg(&script).arg(typed).env("PATH", &path).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    };
    assert_eq!(offered("ttmon --sim t"), "t3k");
    assert_eq!(offered("ttmon --sim t3k,fault=ho"), "hot:");
    assert_eq!(offered("ttmon --sim=t3k,fault=ho"), "hot:");
    assert_eq!(offered("ttmon alerts silence stale"), "stale-holder");
    assert_eq!(offered("ttmon --fields id,temperature_l"), "id,temperature_limit");
    assert!(offered("ttmon ").lines().any(|word| word == "events"));
}

/// Every command has a help page, with an example or its own flags, under both spellings.
#[test]
fn every_command_has_help() {
    let page = ttmon("help all").stdout;
    let listed = page.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Continuation lines of a description are indented more.
    let commands: Vec<&str> =
        listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).filter(|word| !word.is_empty()).collect();
    assert!(commands.len() >= 20 && commands.contains(&"alerts"), "{commands:?}");
    for command in commands {
        let page = ttmon(&format!("help {command}"));
        assert!(page.code == 0 && page.stdout.contains(&format!("Usage: ttmon {command}")), "{command}: {}{}", page.stdout, page.stderr);
        assert_eq!(page.stdout, ttmon(&format!("{command} --help")).stdout, "{command}");
    }
    assert!(ttmon("help alerts silence").stdout.contains("Usage: ttmon alerts silence"));
}

/// If many files of a device have the same problem, it is reported in one short line.
#[test]
fn problems_of_a_device_are_one_line() {
    let machine = root("n300x2,idle,fault=eacces:1");
    let ran = ttmon_at(machine.path(), "");
    let lines: Vec<&str> = ran.stdout.lines().filter(|line| line.starts_with('!')).collect();
    let [line] = lines.as_slice() else { panic!("{}", ran.stdout) };
    assert!(line.starts_with("! device 1: ") && line.ends_with(" files unreadable: Permission denied"), "{line}");
}

/// A quiet service prints nothing while there is no problem.
#[test]
fn quiet_is_quiet() {
    let mut service = start_service(&["--quiet", "--sim", "n150,idle", "--listen", "off"]);
    assert_eq!(service.stop(), Some(0));
    assert_eq!((service.output(), service.errors()), (String::new(), String::new()));
}
