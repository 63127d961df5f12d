//! Valid and invalid command lines, and exit codes.

use std::io::Read;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use crate::TTMON;
use crate::program::run::{command, ran, root, ttmon, ttmon_at};

/// Checks an invalid command line: exit code 2, nothing on stdout, and a line that shows what to do.
fn refuses(arguments: &str, message: &str) {
    let ran = ttmon(arguments);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{arguments}: {}", ran.stderr);
    assert!(ran.stderr.contains(message), "{arguments}: {}", ran.stderr);
    assert!(ran.stderr.starts_with("ttmon: ") && ran.stderr.lines().count() == 1, "{arguments}: {}", ran.stderr);
}

#[test]
fn flags_that_contradict() {
    refuses("--sim t3k --root /", "give one of them");
    refuses("--seed 5", "goes with --sim");
    refuses("--json -L", "--json and -L");
    refuses("--fields id --query-gpu=index", "two forms of output");
    refuses("-w -l 1", "both repeat");
    refuses("-l 1 -lms 100", "both name an interval");
    refuses("--format csv", "--fields, --query-gpu");
    refuses("--fields id --format json", "begins with csv");
    refuses("--fields id --format csv,nohead", "unknown word");
    refuses("--fields id,nonsense", "--help-fields");
    refuses("--query-gpu=nonsense", "--help-query-gpu");
    refuses("-l 0", "at least 50 ms");
    refuses("-l -1", "");
    refuses("-l 1e19", "at most a day");
    refuses("-q -d ECC", "TEMPERATURE");
    refuses("-w --sim t3k -f out", "> FILE");
    refuses("--read-timeout 0", "1 to 60000");
    refuses("-d x", "board:NAME");
    refuses("--sim nothing", "n300");
    refuses("wait --idle --json --sim n150", "exit code");
    refuses("wait", "--idle");
    refuses("-w who", "do not go with a sub-command");
    refuses("man --json", "reads no machine");
    refuses("alias --sim t3k", "reads no machine");
    refuses("--nonsense", "--nonsense");
}

/// `-r` resets boards in tt-smi, and must never have another effect without an error.
#[test]
fn r_never_resets() {
    for arguments in ["-r", "-r 0", "-r 0,1", "-r all", "-w -r 49", "-r 1000000000000000000000", "-w -r -5"] {
        refuses(arguments, "never resets a device");
    }
    refuses("-r 500", "give -w too");
}

#[test]
fn exit_codes() {
    assert_eq!(ttmon("--version").code, 0);
    assert_eq!(ttmon("--help").code, 0);
    let empty = tempfile::tempdir().unwrap();
    let nothing = ttmon_at(empty.path(), "");
    assert_eq!((nothing.code, nothing.stdout.as_str()), (3, ""));
    assert!(nothing.stderr.contains("--sim t3k"), "{}", nothing.stderr);
    assert_eq!(nothing.stderr.lines().count(), 1);
    for command in ["mem", "mem --banks", "mem --csv /nonexistent", "events"] {
        assert_eq!(ttmon_at(empty.path(), command).code, 3, "{command}");
    }

    let n300 = root("n300");
    assert_eq!(ttmon_at(n300.path(), "-d 7").code, 3);
    assert_eq!(ttmon_at(n300.path(), "-d 0").code, 0);
    assert_eq!(ttmon("--root /nonexistent").code, 1);
    assert_eq!(ttmon_at(n300.path(), "--cluster /nonexistent").code, 1);
    std::fs::write(n300.path().join(".ttmon-faults"), "sys/class/tenstorrent\tEACCES\n").unwrap();
    assert_eq!(ttmon_at(n300.path(), "").code, 1);
}

#[test]
fn devices_are_chosen() {
    let t3k = root("t3k");
    let ids = |selection: &str| {
        let ran = ttmon_at(t3k.path(), &format!("--fields id --format csv,noheader {selection}"));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.stdout.lines().map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(ids(""), "0 1 2 3 4 5 6 7");
    assert_eq!(ids("-d 0,2-3"), "0 2 3");
    assert_eq!(ids("-i 1 -d 5"), "1 5");
    assert_eq!(ids("-d board:n3"), "0 1 2 3 4 5 6 7");
    let bdf = ttmon_at(t3k.path(), "--fields bdf --format csv,noheader -d 2").stdout;
    assert_eq!(ids(&format!("-d {}", bdf.trim())), "2");
    let serial = ttmon_at(t3k.path(), "--fields serial --format csv,noheader -d 2").stdout;
    assert_eq!(ids(&format!("-d {}", serial.trim())), "2 6");
}

/// Each missing device is listed, with any other flags.
#[test]
fn an_unknown_device_among_known_ones_is_an_error() {
    let t3k = root("t3k");
    let check = |arguments: &str, names: &str| {
        let ran = ttmon_at(t3k.path(), arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (3, ""), "{arguments}: {}", ran.stderr);
        let expected = format!("ttmon: no device {names} (available: 0-7)\n");
        assert_eq!(ran.stderr, expected, "{arguments}");
    };
    check("-d 99", "99");
    check("-d 0,99", "99");
    check("-d 98,0,99 -i 1", "98, 99");
    check("-d 6-9,42", "8-9, 42");
    check("-d 0-4294967295 --json", "8-4294967295");
    check("-d board:n3,board:p150", "board:p150");
    check("-d 0,0000:ff:00.0,00000000DEADBEEF", "0000:ff:00.0, 00000000DEADBEEF");
    for command in ["who 0 99", "wait --idle 0 99", "mem -d 0,99", "events -d 0,99", "-q -i 0,99", "-l 1 -d 0,99"] {
        check(command, "99");
    }
}

/// For flags of other tools, the error message names the flag of ttmon.
#[test]
fn flags_of_other_tools_name_ours() {
    for (typed, flag) in
        [("-s", "--json"), ("-ls", "-L"), ("-x", "--json"), ("-q -x", "--json"), ("-s -f out.json", "--json"), ("-ls --sim n150", "-L")]
    {
        refuses(typed, &format!("use {flag}"));
    }
    assert_eq!(ttmon("-L --sim n150").code, 0);
}

/// An untracked process and a missing process have different messages.
#[test]
fn memory_of_a_process_that_is_not_tracked() {
    let n300 = root("n300");
    let pid = std::process::id();
    symlink(format!("/proc/{pid}"), n300.path().join(format!("proc/{pid}"))).unwrap();
    for json in ["", " --json", " --banks"] {
        let free = ttmon_at(n300.path(), &format!("mem --pid {pid}{json}"));
        assert_eq!((free.code, free.stdout.as_str()), (1, ""), "{}", free.stderr);
        assert!(free.stderr.contains("holds no device"), "{}", free.stderr);
    }
    std::fs::write(n300.path().join("proc/driver/tenstorrent/0/pids"), format!("{pid}\n")).unwrap();
    for json in ["", " --json"] {
        let holder = ttmon_at(n300.path(), &format!("mem --pid {pid}{json}"));
        assert_eq!((holder.code, holder.stdout.as_str()), (1, ""), "{}", holder.stderr);
        assert!(holder.stderr.contains("not_tracked") && holder.stderr.contains("ttmon run -- CMD"), "{}", holder.stderr);
    }
    let none = ttmon_at(n300.path(), "mem --pid 4194304");
    assert_eq!((none.code, none.stdout.as_str()), (3, ""), "{}", none.stderr);
    assert!(none.stderr.contains("no process 4194304"), "{}", none.stderr);
}

/// Variables have the effect of flags, and a flag overrides them.
#[test]
fn the_environment() {
    let n150 = root("n150");
    let sim = ran(command("-L").env("TTMON_SIM", "p100a").output().unwrap());
    assert!(sim.stdout.contains("p100a"), "{}", sim.stderr);
    let rooted = ran(command("-L").env("TTMON_ROOT", n150.path()).output().unwrap());
    assert!(rooted.stdout.contains("n150"), "{}", rooted.stderr);
    let flag = ran(command("-L --sim p100a").env("TTMON_ROOT", n150.path()).output().unwrap());
    assert!(flag.stdout.contains("p100a"), "{}", flag.stderr);
}

/// An error while writing to stderr does not change the exit code.
#[test]
fn an_error_on_stderr_keeps_the_exit_code() {
    let empty = tempfile::tempdir().unwrap();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let status = command("").arg("--root").arg(empty.path()).stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(3));
}

#[test]
fn columns_count_in_a_pipe_too() {
    let n150 = root("n150");
    let wide = ran(command("").arg("--root").arg(n150.path()).env("COLUMNS", "120").output().unwrap());
    assert_eq!(wide.stdout.lines().map(|line| line.chars().count()).max(), Some(120));
}

#[test]
fn earlier_names() {
    let directory = tempfile::tempdir().unwrap();
    let n150 = root("n150");
    for (name, flags) in [("tt_smi", vec![]), ("tt_smi_umd", vec!["--sysfs"])] {
        let link = directory.path().join(name);
        symlink(TTMON, &link).unwrap();
        let output = Command::new(&link).args(flags).arg("--root").arg(n150.path()).env("LANG", "C.UTF-8").output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("n150"), "{name}: {output:?}");
    }
    let made = ran(command("alias --dir").arg(directory.path()).output().unwrap());
    assert_eq!((made.code, made.stdout.matches("kept").count()), (0, 2), "{}", made.stderr);
    let removed = ran(command("alias --remove --dir").arg(directory.path()).output().unwrap());
    assert_eq!((removed.code, std::fs::read_dir(directory.path()).unwrap().count()), (0, 0));
}

/// The help of a link shows the link's name and first the flags of the earlier tool, then the flags of ttmon.
#[test]
fn earlier_names_have_help_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(ran(command("alias --dir").arg(directory.path()).output().unwrap()).code, 0);
    for (name, flags, foreign) in [
        ("tt_smi", &["-w, --watch", "-r, --refresh", "-h, --help"][..], "--sysfs"),
        ("tt_smi_umd", &["-w, --watch", "-r, --refresh", "--sysfs", "-h, --help"], "--buffers"),
        ("tt-nvtop", &["-r, --refresh", "--view"], "--query-gpu"),
        ("allocation_server_poc", &["-q, --quiet"], "--watch"),
        ("allocation_monitor_client", &["-d, --device", "-a, --all", "-r, --refresh"], "--query-gpu"),
    ] {
        for flag in ["-h", "--help"] {
            let help = ran(Command::new(directory.path().join(name)).arg(flag).output().unwrap());
            assert_eq!((help.code, help.stderr.as_str()), (0, ""), "{name}");
            assert!(help.stdout.contains(&format!("Usage: {name} [OPTIONS]")), "{}", help.stdout);
            let (own, ours) = help.stdout.split_once("Options of ttmon:").unwrap_or_else(|| panic!("{}", help.stdout));
            assert!(flags.iter().all(|flag| own.contains(flag)), "{name}: {}", help.stdout);
            assert!(ours.contains("--sim") && !own.contains("--sim") && !help.stdout.contains(foreign), "{}", help.stdout);
            assert!(!help.stdout.contains("Commands:"), "{}", help.stdout);
        }
        let wrong = ran(Command::new(directory.path().join(name)).arg("--nonsense").output().unwrap());
        assert!(wrong.code == 2 && wrong.stderr.contains(&format!("see {name} --help")), "{}", wrong.stderr);
    }
}

/// A sub-command of ttmon under an earlier name has its own help.
#[test]
fn earlier_names_do_not_hide_the_help_of_commands() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(ran(command("alias --dir").arg(directory.path()).output().unwrap()).code, 0);
    let help = ran(Command::new(directory.path().join("tt_smi")).args(["wait", "--help"]).output().unwrap());
    assert!(help.code == 0 && help.stdout.contains("--idle") && !help.stdout.contains("stands for"), "{}", help.stdout);
}

/// `allocation_monitor_client -d 0` shows device 0 as bars, whether used or not.
#[test]
fn the_monitor_client_draws_bars() {
    let n150 = root("n150");
    let mem = ttmon_at(n150.path(), "mem -a -d 0");
    for title in ["  DRAM ", "  L1 "] {
        assert!(mem.stdout.lines().any(|line| line.starts_with(title) && line.ends_with('%')), "{}", mem.stdout);
    }
}

/// If the reader of the output closes the pipe, the program succeeds: no message, exit code 0.
#[test]
fn a_closed_pipe() {
    let galaxy = root("galaxy");
    let mut child = command("-q").arg("--root").arg(galaxy.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdout.take().unwrap().read_exact(&mut [0; 10]).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

/// With a full disk, the command fails with exit code 1 and the existing file is unchanged.
#[test]
fn a_full_disk() {
    let n150 = root("n150");
    let full = ran(command("--json -f /dev/full").arg("--root").arg(n150.path()).output().unwrap());
    assert_eq!(full.code, 1);
    assert!(full.stderr.contains("cannot write /dev/full"), "{}", full.stderr);
    let stdout = command("--json").arg("--root").arg(n150.path()).stdout(std::fs::File::create("/dev/full").unwrap()).output().unwrap();
    assert_eq!(stdout.status.code(), Some(1));
}

#[test]
fn pages() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = ttmon(&format!("completions {shell}"));
        assert!(ran.code == 0 && ran.stdout.contains("COMPLETE"), "{shell}");
    }
    assert!(ttmon("man").stdout.contains(".TH"));
    assert!(ttmon("man wait").stdout.contains("idle"));
    assert_eq!(ttmon("man nonsense").code, 2);
    assert!(ttmon("--help-fields").stdout.contains("temperature_limit"));
    for command in [
        "",
        "who",
        "wait",
        "mem",
        "events",
        "serve",
        "top",
        "run",
        "env",
        "record",
        "alias",
        "completions",
        "man",
        "dmon",
        "pmon",
        "topo",
        "help",
    ] {
        let help = ttmon(&format!("{command} --help"));
        assert_eq!((help.code, help.stderr.as_str()), (0, ""), "{command}");
    }
    // A command's own flags are in one group, also those of the snapshot. Flags that a command refuses are not listed.
    let snapshot = ttmon("help all").stdout;
    let (own, common) = snapshot.split_once("Options of every command:").expect("two kinds of flags");
    assert!(own.contains("--watch") && own.contains("--query-gpu") && !own.contains("--sim"), "{snapshot}");
    assert!(common.contains("--sim <SPEC>") && !common.contains("--watch"), "{snapshot}");
    let mem = ttmon("mem --help").stdout;
    let (own, common) = mem.split_once("Options of every command:").expect("two kinds of flags");
    assert!(own.contains("--buffers") && own.contains("--refresh") && !own.contains("--sim"), "{mem}");
    assert!(common.contains("--sim <SPEC>") && common.contains("--json"), "{mem}");
    for (command, flags) in [("wait", &["--json"][..]), ("top", &["--json"]), ("serve", &["--json", "--device"]), ("man", &["--sim"])] {
        let help = ttmon(&format!("{command} --help")).stdout;
        assert!(flags.iter().all(|flag| !help.contains(flag)), "{help}");
    }
}

/// The summary fits 24 lines and 80 columns, followed by examples. It has all commands.
#[test]
fn summary_fits_one_screen() {
    let summary = ttmon("--help").stdout;
    let (screen, _) = summary.split_once("\nEXAMPLES:\n").expect("examples");
    assert!(screen.lines().count() <= 24, "{} lines:\n{summary}", screen.lines().count());
    assert!(summary.lines().all(|line| line.chars().count() <= 80), "{summary}");
    assert_eq!((ttmon("-h").stdout, ttmon("help").stdout), (summary.clone(), summary.clone()));
    for command in COMMANDS {
        assert!(screen.split_whitespace().any(|word| word == *command), "{command} is not in the summary");
    }
}

/// Every help and every manual page has the last sections. `man` renders the pages without a warning.
#[test]
fn help_and_manual_have_all_sections() {
    for command in std::iter::once(&"").chain(COMMANDS) {
        let help = ttmon(&if command.is_empty() { "help all".to_owned() } else { format!("{command} --help") }).stdout;
        let page = ttmon(&format!("man {command}")).stdout;
        for heading in ["EXAMPLES", "EXIT STATUS", "ENVIRONMENT", "FILES"] {
            assert!(help.contains(&format!("\n{heading}:\n")), "{command}: no {heading} in the help");
            assert!(page.contains(&format!("\n.SH \"{heading}\"\n")), "{command}: no {heading} in the manual");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(ttmon(&format!("man --dir {}", folder.path().display())).code, 0);
    for page in std::fs::read_dir(folder.path()).unwrap() {
        let page = page.unwrap().path();
        let Ok(rendered) = Command::new("man").args(["--warnings", "-l"]).arg(&page).env("LC_ALL", "C.UTF-8").output() else {
            println!("NOT RUN: no man on this machine");
            return;
        };
        assert!(
            rendered.status.success() && rendered.stderr.is_empty(),
            "{}: {}",
            page.display(),
            String::from_utf8_lossy(&rendered.stderr)
        );
    }
}

pub(crate) const COMMANDS: &[&str] = &[
    "who",
    "dmon",
    "pmon",
    "topo",
    "wait",
    "doctor",
    "check",
    "alerts",
    "mem",
    "oom",
    "events",
    "serve",
    "top",
    "run",
    "env",
    "fleet",
    "sd",
    "record",
    "alias",
    "completions",
    "man",
    "help",
    "report",
    "export",
    "token",
];

#[test]
fn man_dir_has_a_page_per_command() {
    let folder = tempfile::tempdir().unwrap();
    let ran = ttmon(&format!("man --dir {}", folder.path().display()));
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
    let page = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    assert!(page("ttmon.1").contains(".TH"));
    assert!(page("ttmon-run.1").contains(".TH ttmon-run"));
}
