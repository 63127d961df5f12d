//! A command behaves under `ttmon run` as it does without.

use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use ttmon_testing::until;

use crate::Case;
use crate::tools::{Running, file, is_alive, ran, reported, run, scripted};

pub(crate) const CASES: &[Case] = &[
    ("exit_codes_pass_through", exit_codes_pass_through),
    ("a_command_that_cannot_be_started", a_command_that_cannot_be_started),
    ("deaths_by_signal_pass_through", deaths_by_signal_pass_through),
    ("input_and_output_pass_through", input_and_output_pass_through),
    ("arguments_and_environment_pass_through", arguments_and_environment_pass_through),
    ("libraries_that_are_not_there", libraries_that_are_not_there),
    ("useless_flags", useless_flags),
    ("another_directory", another_directory),
    ("closed_standard_files", closed_standard_files),
    ("nothing_else_differs", nothing_else_differs),
    ("too_few_files", too_few_files),
    ("a_script_without_an_interpreter", a_script_without_an_interpreter),
    ("a_static_program", a_static_program),
    ("children_that_outlive_the_command", children_that_outlive_the_command),
    ("nothing_is_left_behind", nothing_is_left_behind),
    ("a_killed_ttmon_takes_the_command_along", a_killed_ttmon_takes_the_command_along),
    ("lines_for_a_shell", lines_for_a_shell),
];

fn exit_codes_pass_through() {
    for code in [0, 1, 2, 3, 42, 122, 123, 125, 126, 127, 128, 130, 255] {
        for script in ["", "a 0 10 1; "] {
            let ran = ran(&mut scripted(&["--quiet"], &format!("{script}exit {code}")));
            assert_eq!((ran.code(), ran.stdout.as_str(), ran.stderr.as_str()), (Some(code), "", ""), "{script}");
        }
    }
}

fn a_command_that_cannot_be_started() {
    let folder = tempfile::tempdir().unwrap();
    let plain = file(folder.path(), "plain", "#!/bin/sh\n", 0o644);
    let garbage = file(folder.path(), "garbage", "\x7fELF nonsense", 0o755);
    let lost = file(folder.path(), "lost", "#!/no/such/interpreter\n", 0o755);
    let check = |command: &str, code: i32, words: &str| {
        let ran = ran(&mut run(&["--", command]));
        assert_eq!(ran.code(), Some(code), "{command}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("ttmon: ") && ran.stderr.lines().count() == 1 && ran.stderr.contains(words), "{}", ran.stderr);
    };
    check("no-such-command-anywhere", 127, "not found");
    check("/no/such/command", 127, "not found");
    check("", 127, "not found");
    check(lost.to_str().unwrap(), 127, "it needs /no/such/interpreter, which does not exist");
    let from_elsewhere = file(folder.path(), "from-elsewhere", "#!/bin/sh\r\nexit 0\r\n", 0o755);
    check(from_elsewhere.to_str().unwrap(), 127, r"it needs /bin/sh\r, which");
    check(folder.path().to_str().unwrap(), 126, "Permission denied");
    // Root may open anything, but execute only files that are executable for some user.
    check(plain.to_str().unwrap(), 126, "Permission denied");
    // A file that the kernel cannot execute is passed to the shell, as usual; the shell prints the error.
    let shell = ran(&mut run(&["--quiet", "--", garbage.to_str().unwrap()]));
    assert!(matches!(shell.code(), Some(2 | 126 | 127)), "{:?} {}", shell.code(), shell.stderr);
    let ran = ran(&mut run(&[]));
    assert_eq!(ran.code(), Some(2), "{}", ran.stderr);
}

fn deaths_by_signal_pass_through() {
    for signal in [1, 2, 3, 6, 8, 9, 10, 11, 13, 14, 15, 24] {
        let ran = ran(&mut scripted(&[], &format!("a 0 10 1; die {signal}")));
        assert_eq!((ran.output.status.signal(), ran.output.status.core_dumped()), (Some(signal), false), "{}", ran.stderr);
        let name = signal_hook_name(signal);
        assert!(ran.stderr.lines().next().unwrap().contains(&format!(": {name} after")), "{}", ran.stderr);
    }
}

fn signal_hook_name(signal: i32) -> String {
    let kill = std::process::Command::new("sh").args(["-c", &format!("kill -l {signal}")]).output().unwrap();
    format!("SIG{}", String::from_utf8(kill.stdout).unwrap().trim())
}

fn input_and_output_pass_through() {
    let mut running = Running::start(&mut scripted(&["--quiet"], "say hello; flush; echo; a 0 10 1; say bye"));
    assert_eq!(running.line(), "hello");
    writeln!(running.child.stdin.as_mut().unwrap(), "from outside").unwrap();
    assert_eq!((running.line(), running.line()), ("from outside".to_owned(), "bye".to_owned()));
    assert_eq!(running.end().stderr, "");
    // The reader of the output closes the pipe.
    let mut running = Running::start(&mut run(&["--quiet", "--", "yes"]));
    assert_eq!(running.line(), "y");
    assert_eq!(running.leave().signal(), Some(13));
}

fn arguments_and_environment_pass_through() {
    let echo = ran(&mut run(&["--quiet", "printf", "%s|", "-lms", "--json", "a b", "", "--", "-d"]));
    assert_eq!(echo.stdout, "-lms|--json|a b||--|-d|");
    let plain = ran(run(&["--quiet", "--", "env"]).env("LD_PRELOAD", "").env("KEPT", "yes"));
    let variables: Vec<&str> = plain
        .stdout
        .lines()
        .filter(|line| line.starts_with("TTMON") || line.starts_with("LD_PRELOAD") || line.starts_with("KEPT"))
        .collect();
    let names: Vec<&str> = variables.iter().filter_map(|line| line.split('=').next()).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, ["KEPT", "LD_PRELOAD", "TTMON_HANDOVER", "TTMON_LIB", "TTMON_STACKS", "TTMON_TRACKING"], "{variables:?}");
    let library = |line: &str| line.starts_with("LD_PRELOAD=/") && line.ends_with("/libttmon_hook.so");
    assert!(variables.iter().any(|line| library(line)), "{variables:?}");
    // An existing library in LD_PRELOAD is kept and stays first.
    let libc =
        fs::read_link(format!("{}/libttmon_hook.so", plain.stdout.lines().find_map(|line| line.strip_prefix("TTMON_LIB=")).unwrap()))
            .unwrap();
    let both = ran(run(&["--quiet", "--ops", "--", "env"]).env("LD_PRELOAD", &libc));
    assert!(both.stdout.contains(&format!("LD_PRELOAD={}:/", libc.display())) && both.stdout.contains("TTMON_OPS=1\n"), "{}", both.stdout);
}

/// Without its libraries, the program lists where it searched. It finds them in `../lib/ttmon`.
fn libraries_that_are_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let (program, libraries) = (folder.path().join("bin/ttmon"), folder.path().join("lib/ttmon"));
    fs::create_dir(folder.path().join("bin")).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_ttmon"), &program).unwrap();
    let installed = |words: &[&str]| {
        let mut command = std::process::Command::new(&program);
        command.args(words).env("TTMON_LIB", "/no/such/folder").env_remove("LD_PRELOAD").env_remove("TTMON_SIM");
        ran(&mut command)
    };
    for (words, code) in [(&["run", "--", "echo", "started"][..], 125), (&["env"], 1)] {
        let ran = installed(words);
        assert_eq!((ran.code(), ran.stdout.as_str()), (Some(code), ""));
        for place in ["/no/such/folder", program.parent().unwrap().to_str().unwrap(), libraries.to_str().unwrap(), "cargo xtask libs"] {
            assert!(ran.stderr.contains(place) && ran.stderr.lines().count() == 1, "{place}: {}", ran.stderr);
        }
    }
    fs::create_dir_all(&libraries).unwrap();
    let any = run(&[]).get_envs().find(|(name, _)| *name == "TTMON_LIB").and_then(|(_, value)| value).unwrap().to_owned();
    fs::copy(std::path::Path::new(&any).join("libttmon_hook.so"), libraries.join("libttmon_hook.so")).unwrap();
    assert_eq!(installed(&["run", "--quiet", "--", "echo", "started"]).stdout, "started\n");
}

fn useless_flags() {
    for (words, why) in [
        (&["--sim", "t3k", "--", "true"][..], "--sim"),
        (&["--root", "/tmp", "--", "true"], "--root"),
        (&["--json", "--", "true"], "--report FILE"),
        (&["-d", "0", "--", "true"], "TT_VISIBLE_DEVICES"),
        (&["--report", "-", "--", "true"], "/dev/stderr"),
        (&["--max-dram", "ten", "--", "true"], "--max-dram"),
        (&["--max-l1", "101%", "--", "true"], "--max-l1"),
        (&["--max-dram=+5%", "--", "true"], "without a sign"),
        (&["--max-dram=-0%", "--", "true"], "without a sign"),
        (&["--seed", "1", "--", "true"], "--seed"),
        (&["--fail-on-leak=x", "--", "true"], "--fail-on-leak"),
        (&["--fail-on-growth=-1", "--", "true"], "--fail-on-growth"),
        (&["--no-such-flag", "--", "true"], "--no-such-flag"),
    ] {
        let ran = ran(&mut run(words));
        assert_eq!(ran.code(), Some(2), "{words:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(why), "{words:?}: {}", ran.stderr);
    }
    // Flags that `run` refuses are not listed.
    let help = ran(&mut run(&["--help"])).stdout;
    for flag in ["--sim", "--seed", "--root", "--json", "--device", "--id"] {
        assert!(!help.contains(&format!("{flag} ")) && !help.contains(&format!("{flag}\n")), "{flag}: {help}");
    }
    assert!(help.contains("--report <FILE>") && help.contains("--cluster <FILE>"), "{help}");
    let simulated = ran(run(&["--", "true"]).env("TTMON_SIM", "t3k"));
    assert!(simulated.code() == Some(2) && simulated.stderr.contains("TTMON_SIM"), "{}", simulated.stderr);
}

/// A relative path of the report refers to the directory in which ttmon was started.
fn another_directory() {
    let folder = tempfile::tempdir().unwrap();
    let ran = ran(scripted(&["--report", "report.json"], "cd /; a 0 10 1").current_dir(folder.path()));
    assert_eq!(ran.code(), Some(0), "{}", ran.stderr);
    assert!(fs::read_to_string(folder.path().join("report.json")).unwrap().contains("\"peak\": 10"));
}

fn closed_standard_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let program = std::env::current_exe().unwrap();
    let words = format!("exec '{}' <&- >&- 2>&-", program.display());
    let mut command = run(&["--report", path.to_str().unwrap(), "--", "sh", "-c", &words]);
    let ran = ran(command.env(crate::program::SCRIPT, "a 0 10 1; threads; exit 4"));
    assert_eq!(ran.code(), Some(4), "{}", ran.stderr);
    assert!(fs::read_to_string(&path).unwrap().contains("\"allocations\": 5"));
}

/// A user without permission for a needed file gets a remedy.
fn too_few_files() {
    let mut refused = 0;
    for limit in 4..16 {
        let ttmon = run(&["--quiet", "--", "true"]);
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &format!("ulimit -n {limit}; exec \"$@\""), "sh"]).arg(ttmon.get_program()).args(ttmon.get_args());
        command.envs(ttmon.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let ran = ran(&mut command);
        if ran.stderr.contains("error while loading") || ran.code() == Some(0) {
            continue;
        }
        assert_eq!(ran.code(), Some(125), "{limit}: {}", ran.stderr);
        assert!(ran.stderr.contains("(ulimit -n)"), "{limit}: {}", ran.stderr);
        refused += 1;
    }
    assert!(refused > 0);
}

/// Compares everything that a process inherits, started directly and with `ttmon run`, from callers with different settings.
fn nothing_else_differs() {
    let folder = tempfile::tempdir().unwrap();
    let habits = [
        "",
        "trap '' PIPE",
        "trap '' CHLD",
        "trap '' HUP INT QUIT PIPE CHLD USR1 RTMIN+3; umask 027; ulimit -S -n 99; ulimit -c 0; cd /",
        "exec <&-",
        "exec >&-",
        "exec 2>&-",
        "exec <&- >&- 2>&- 7</dev/null",
        "echo 333 >/proc/self/oom_score_adj; exec 0<>/dev/null",
    ];
    let files = ["status", "stat", "limits", "oom_score_adj", "cgroup", "fd"];
    for habit in habits {
        let state = |tracked: bool| {
            let into = folder.path().join("state");
            let _ = fs::remove_dir_all(&into);
            fs::create_dir(&into).unwrap();
            let tool = run(&["--quiet", "--"]);
            let tool = if tracked { std::iter::once(tool.get_program()).chain(tool.get_args()).collect() } else { Vec::new() };
            // cp copies the files. It is not a shell and has no runtime that changes inherited settings.
            let mut command = std::process::Command::new("bash");
            command.args(["-c", &format!("{habit}\nexec \"$@\""), "bash"]).args(tool).args(["cp", "-rP", "--no-preserve=all"]);
            command.args(files.map(|name| format!("/proc/self/{name}"))).arg(&into);
            command.envs(run(&[]).get_envs().filter_map(|(name, value)| Some((name, value?))));
            let ran = ran(command.stdin(Stdio::null()));
            // The directory of descriptors has one that cp itself has open, and no others of cp.
            assert!(ran.output.status.code().is_some(), "{habit}: {}", ran.stderr);
            inherited(&into)
        };
        let (plain, tracked) = (state(false), state(true));
        assert_eq!(plain, tracked, "{habit}");
        assert!(plain.contains("SigIgn:") && plain.contains("Max open files"), "{plain}");
    }
}

/// Returns the parts of these files, without values that differ between any two processes.
fn inherited(folder: &std::path::Path) -> String {
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let names = [
        "Umask:",
        "Uid:",
        "Gid:",
        "Groups:",
        "SigPnd:",
        "ShdPnd:",
        "SigBlk:",
        "SigIgn:",
        "SigCgt:",
        "Cap",
        "NoNewPrivs:",
        "Seccomp",
        "Cpus_allowed",
    ];
    let status: Vec<String> =
        read("status").lines().filter(|line| names.iter().any(|name| line.starts_with(name))).map(str::to_owned).collect();
    // Process group, session, terminal and its group; nice; policy.
    let stat = read("stat");
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().collect();
    let stat = [2, 3, 4, 5, 15, 16, 37, 38].map(|field| fields[field]).join(" ");
    let mut files: Vec<String> = fs::read_dir(folder.join("fd"))
        .unwrap()
        .map(|file| {
            let file = file.unwrap();
            let target = fs::read_link(file.path()).unwrap().display().to_string();
            let number = |letter: char| letter.is_ascii_digit();
            // Each process has a different pipe, and a descriptor of the directory itself.
            let what = if target.starts_with("/proc") { "itself".to_owned() } else { target.replace(number, "") };
            format!("{} {what}", file.file_name().display())
        })
        .collect();
    files.sort();
    [status.join("\n"), stat, read("limits"), read("oom_score_adj"), read("cgroup"), files.join("\n")].join("\n")
}

fn a_script_without_an_interpreter() {
    let folder = tempfile::tempdir().unwrap();
    let script = file(folder.path(), "script", "exit 9\n", 0o755);
    assert_eq!(ran(&mut run(&["--quiet", "--", script.to_str().unwrap()])).code(), Some(9));
}

/// A program without a dynamic linker, or for another processor, runs, and a message explains why it is not tracked.
fn a_static_program() {
    // The smallest possible program: exit(7).
    let code = [0xbf, 7, 0, 0, 0, 0xb8, 60, 0, 0, 0, 0x0f, 5];
    let words: [u64; 15] = [
        0x0001_0102_464c_457f,
        0,
        0x0000_0001_003e_0002,
        0x40_0078,
        64,
        0,
        0x0038_0040_0000_0000,
        1,
        0x0000_0005_0000_0001,
        0,
        0x40_0000,
        0x40_0000,
        132,
        132,
        0x1000,
    ];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).chain(code).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("static");
    fs::write(&path, &bytes).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let check = |code: i32, words: &str| {
        let ran = ran(&mut run(&["--", path.to_str().unwrap()]));
        assert_eq!(ran.code(), Some(code), "{}", ran.stderr);
        assert!(ran.stderr.lines().count() == 1 && ran.stderr.contains(words), "{}", ran.stderr);
    };
    if cfg!(target_arch = "x86_64") {
        check(7, "nothing was tracked: it is statically linked");
    } else {
        check(126, "cannot be executed");
    }
}

/// ttmon does not wait for these children, and prints a message about them.
fn children_that_outlive_the_command() {
    let mut running = Running::start(&mut scripted(&[], "a 0 10 1; daemon; wait; exit 5"));
    assert_eq!(running.line(), "alive");
    let ttmon = running.child.id();
    let daemon = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok()).find(|pid| {
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let handover = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        read("cmdline").contains("running") && handover.windows(6).any(|part| part == b"a 0 77") && pid.parse() != Ok(ttmon)
    });
    let daemon = daemon.expect("the child is there");
    // The child has the pipe open, so waiting for the end of the pipe would block.
    let stderr = running.child.stderr.take().unwrap();
    drop(running.child.stdin.take());
    let status = running.child.wait().unwrap();
    assert_eq!(status.code(), Some(5));
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(stderr)).map_while(Result::ok);
    let warning = lines.find(|line| line.contains("still running"));
    assert!(warning.is_some_and(|line| line.contains(&format!("pid {daemon}"))));
    assert!(is_alive(&daemon));
    let _ = std::process::Command::new("kill").args(["-9", &daemon]).status();
}

fn nothing_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    for script in ["a 0 10 1", "exit 3", "a 0 10 1; die 11"] {
        ran(scripted(&["--quiet"], script).env("TMPDIR", folder.path()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{script}");
    }
    ran(run(&["--", "no-such-command-anywhere"]).env("TMPDIR", folder.path()));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    // A directory that cannot be used must not make the command fail.
    let (long, script) = ("x".repeat(300), "a 0 10 1");
    for unusable in ["/no/such/folder", "/proc", long.as_str()] {
        assert!(ran(scripted(&[], script).env("TMPDIR", unusable)).stderr.contains("1 allocation"));
    }
}

/// The next run removes the directory of a killed run, but not the directory of a run that is still active.
fn a_killed_ttmon_takes_the_command_along() {
    let folder = tempfile::tempdir().unwrap();
    let places = || fs::read_dir(folder.path()).unwrap().count();
    let start = || Running::start(scripted(&[], "pid; flush; sleep").env("TMPDIR", folder.path()));
    let mut running = start();
    let pid = running.line();
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    until("the command ends", || !is_alive(&pid));
    assert_eq!(places(), 1);
    let mut running = start();
    running.line();
    ran(scripted(&[], "exit 0").env("TMPDIR", folder.path()));
    assert_eq!(places(), 1);
    running.send(rustix::process::Signal::TERM);
    running.end();
    assert_eq!(places(), 0);
}

fn lines_for_a_shell() {
    let (_, report) = reported("a 0 10 1");
    assert_eq!(report["exit"], 0);
    let mut command = run(&[]);
    let folder = command.get_envs().find(|(name, _)| *name == "TTMON_LIB").and_then(|(_, value)| value).unwrap().to_owned();
    command = std::process::Command::new("sh");
    let words = format!("eval \"$('{}' env --ops)\"; eval \"$('{0}' env)\"; env", env!("CARGO_BIN_EXE_ttmon"));
    let shell =
        ran(command.args(["-c", &words]).env("TTMON_LIB", &folder).env_remove("LD_PRELOAD").env("TTMON_TRACKING", "").stdin(Stdio::null()));
    let preload = format!("LD_PRELOAD={}/libttmon_hook.so", folder.to_str().unwrap());
    for line in [preload.as_str(), "TTMON_TRACKING=1", "TTMON_OPS=1", "TTMON_STACKS=1"] {
        assert!(shell.stdout.lines().any(|found| found == line), "{line}: {}", shell.stdout);
    }
}
