//! EXAMPLES, EXIT STATUS, ENVIRONMENT and FILES of each command, for its long help and its manual page.

/// A line of a section: a term and its description.
pub(crate) type Row = (&'static str, &'static str);

/// The help of `ttmon --help`: at most 24 lines, then examples. Commands that are used once share a line.
pub(crate) const SUMMARY: &str = "\
ttmon shows Tenstorrent devices: health, clocks, power, memory and processes.
Usage: ttmon [OPTIONS] [COMMAND]        without a command: one snapshot

Options:
  -w, --watch       refresh in place      -L, --list   one line per device
  -l, --loop [SEC]  print every SEC s     -q, --query  all values
  -d, --device DEV  only these devices    --json       JSON

Commands:
  top      interactive monitor            run          track a command's memory
  who      processes on each device       mem          memory of processes
  dmon     one line per device            oom          explain refusals
  pmon     one line per process           events       allocations and frees
  topo     connections of devices         record       record for top --replay
  wait     wait until devices are idle    report       write an HTML report
  check    for monitoring systems         export       write for other viewers
  doctor   find problems                  fleet        hosts of a fleet
  alerts   list, test, silence alerts     help         help of a command
  serve    service with API and page
  set-up:  alias completions env man sd token

More: ttmon help COMMAND (one command), ttmon help all (all options), ttmon man.

EXAMPLES:
  ttmon                        print one snapshot
  ttmon top                    open the interactive monitor
  ttmon run -- python3 a.py    track the device memory of a program
  ttmon --sim t3k              try ttmon without a device
";

const DONE: Row = ("0", "done");
const FAILED: Row = ("1", "failed");
const USAGE: Row = ("2", "usage error");
const NO_DEVICE: Row = ("3", "no such device");

const COMMON_EXIT: &[Row] = &[DONE, FAILED, USAGE, NO_DEVICE];
const PLAIN_EXIT: &[Row] = &[DONE, FAILED, USAGE];

const SIM: Row = ("TTMON_SIM, TTMON_ROOT", "stand for --sim and --root");
const API: Row = ("TTMON_API", "the service to ask: a socket, or a URL");
const TOKEN: Row = ("TTMON_TOKEN_FILE, TTMON_TOKEN", "file with the token, or the token itself");
const TERMINAL: Row = ("NO_COLOR, COLUMNS, TERM", "with their usual meaning; only ASCII is printed if the locale is not UTF-8");
const LIB: Row = ("TTMON_LIB", "folder of the libraries to preload");
const STACKS: Row = ("TTMON_STACKS", "1: record the Python line of each buffer");
const TRACKING: Row = ("TTMON_TRACKING", "1: programs with the client library or the hook track their memory");
const CONFIG: Row = ("TTMON_CONFIG", "stands for --config");
const SOCKET: Row = ("TTMON_SOCKET, TTMON_STATE_DIR", "stand for --socket and --state-dir");
const NO_VARIABLE: Row = ("none", "no variable changes this command");

const MACHINE_ENVIRONMENT: &[Row] = &[SIM, API, TOKEN, TERMINAL];

const DRIVER: Row = ("/sys/class/tenstorrent, /proc/driver/tenstorrent", "values of the driver");
const REGIONS: Row = ("/dev/shm/tt_device_*_memory", "memory statistics of TT-Metal");
const SERVICE: Row = ("/run/ttmon, $XDG_RUNTIME_DIR/ttmon", "sockets, token and state of the service");
const SETTINGS: Row = ("/etc/ttmon/config.toml, $XDG_CONFIG_HOME/ttmon/config.toml", "settings and alerts");
const LIBRARIES: Row = ("$XDG_CACHE_HOME/ttmon", "unpacked libraries");
const NO_FILE: Row = ("none", "reads and writes no file of its own");

const MACHINE_FILES: &[Row] = &[DRIVER, REGIONS, SERVICE];

/// The sections of one command. The program itself has an empty name.
#[derive(Debug)]
pub(crate) struct Sections {
    command: &'static str,
    examples: &'static [Row],
    exit_status: &'static [Row],
    environment: &'static [Row],
    files: &'static [Row],
}

const fn machine(command: &'static str, examples: &'static [Row]) -> Sections {
    Sections { command, examples, exit_status: COMMON_EXIT, environment: MACHINE_ENVIRONMENT, files: MACHINE_FILES }
}

const fn plain(command: &'static str, examples: &'static [Row]) -> Sections {
    Sections { command, examples, exit_status: PLAIN_EXIT, environment: &[NO_VARIABLE], files: &[NO_FILE] }
}

const ALL: &[Sections] = &[
    machine(
        "",
        &[
            ("ttmon", "print one snapshot"),
            ("ttmon -w", "refresh in place"),
            ("ttmon --fields id,temperature,power", "print CSV"),
            ("ttmon --json | jq .devices[0].temperature", "read one value in a script"),
        ],
    ),
    machine("who", &[("ttmon who", "list the processes of all devices"), ("ttmon who 0-3", "only of the first four")]),
    machine("dmon", &[("ttmon dmon", "print every second"), ("ttmon dmon -s pu -c 5", "power and utilization, five times")]),
    machine("pmon", &[("ttmon pmon", "print every second"), ("ttmon pmon -c 1", "print once")]),
    machine("topo", &[("ttmon topo", "print the matrix of connections")]),
    Sections {
        exit_status: &[DONE, FAILED, USAGE, NO_DEVICE, ("4", "timeout")],
        ..machine("wait", &[("ttmon wait --idle --timeout 5m && ./train.sh", "start a program when all devices are idle")])
    },
    Sections {
        exit_status: &[("0", "no problem"), ("1", "a problem"), ("2", "warnings only"), ("64", "usage error")],
        ..machine(
            "doctor",
            &[("ttmon doctor", "examine this machine"), ("ttmon doctor --bundle bug.tar.zst", "write the files of a bug report")],
        )
    },
    Sections {
        exit_status: &[("0", "ok"), ("1", "warning"), ("2", "critical"), ("3", "unknown, usage error, or no device")],
        ..machine(
            "check",
            &[("ttmon check", "check the health of all devices"), ("ttmon check --idle --max-temp 80", "check two conditions")],
        )
    },
    Sections {
        environment: &[API, TOKEN, CONFIG],
        files: &[SETTINGS, SERVICE],
        ..machine("alerts", &[("ttmon alerts", "list the alerts of this host"), ("ttmon alerts test hot", "send a test to all receivers")])
    },
    machine(
        "mem",
        &[
            ("ttmon mem", "print the memory of tracked processes"),
            ("ttmon mem --buffers --top 10", "list the ten largest buffers"),
            ("ttmon mem --json --buffers > before.json; ttmon mem --diff before.json", "print what changed"),
        ],
    ),
    machine("oom", &[("ttmon oom", "explain refusals of live processes"), ("ttmon oom run.json", "explain those of a run report")]),
    machine("events", &[("ttmon events --since 5m", "list the events of the last five minutes")]),
    Sections {
        exit_status: PLAIN_EXIT,
        environment: &[SIM, SOCKET, TOKEN, CONFIG],
        files: &[SETTINGS, SERVICE],
        ..machine(
            "serve",
            &[
                ("ttmon serve", "serve this host; the page is at http://127.0.0.1:9477"),
                ("ttmon serve --listen off", "serve on Unix sockets only"),
            ],
        )
    },
    Sections {
        environment: &[SIM, API, TOKEN, CONFIG, TERMINAL],
        files: &[SETTINGS, SERVICE, DRIVER],
        ..machine("top", &[("ttmon top", "monitor this machine"), ("ttmon top --replay monday.ttmon", "play a recording")])
    },
    Sections {
        exit_status: &[
            ("that of the command", "the command ended"),
            ("123", "the command succeeded, but a check failed or was not possible"),
            ("125", "ttmon failed before the command was started"),
            ("126, 127", "the command cannot be executed, or was not found"),
        ],
        environment: &[LIB, STACKS, TRACKING],
        files: &[LIBRARIES, SERVICE],
        ..machine(
            "run",
            &[
                ("ttmon run -- python3 model.py", "print a summary at the end"),
                ("ttmon run --report run.json -- python3 model.py", "write a report too"),
                ("ttmon run --max-dram 10G --fail-on-leak -- pytest", "fail if a limit is exceeded"),
            ],
        )
    },
    Sections {
        environment: &[LIB, STACKS, TRACKING],
        files: &[LIBRARIES],
        ..plain("env", &[("eval \"$(ttmon env)\"", "track all programs of this shell")])
    },
    Sections {
        environment: &[TOKEN],
        files: &[SETTINGS],
        ..plain("fleet", &[("ttmon fleet --store http://prometheus:9090", "list the hosts, worst first")])
    },
    plain(
        "sd",
        &[("ttmon sd --from hosts --input hosts.txt", "print the hosts of a file"), ("ttmon sd --from slurm", "print the hosts of Slurm")],
    ),
    machine("record", &[("ttmon record monday.ttmon", "record until Ctrl-C")]),
    Sections {
        files: &[("the folder of ttmon", "where the links are made, unless --dir is given")],
        ..plain("alias", &[("ttmon alias --dir ~/.local/bin", "make the links there"), ("ttmon alias --remove", "remove them")])
    },
    plain("completions", &[("source <(ttmon completions bash)", "complete words in this shell")]),
    plain("man", &[("ttmon man | man -l -", "read the manual"), ("ttmon man run | man -l -", "read the page of run")]),
    plain("help", &[("ttmon help run", "print the help of run"), ("ttmon help all", "print all options of ttmon")]),
    plain("report", &[("ttmon report run.json -o run.html", "write a run report as a page")]),
    machine(
        "export",
        &[
            ("ttmon export --to memory-viz -o memory.pickle 4242", "write for pytorch.org/memory_viz"),
            ("ttmon export --to chrome -o trace.json run.json", "write for ui.perfetto.dev"),
        ],
    ),
    Sections { environment: &[TOKEN], files: &[SERVICE], ..plain("token", &[("ttmon token", "print the token of this user's service")]) },
];

impl Sections {
    /// Returns the sections of a command, or of the program for an empty name.
    pub(crate) fn of(command: &str) -> Option<&'static Self> {
        ALL.iter().find(|sections| sections.command == command)
    }

    /// The headings with their rows.
    pub(crate) fn all(&self) -> [(&'static str, &'static [Row]); 4] {
        [("EXAMPLES", self.examples), ("EXIT STATUS", self.exit_status), ("ENVIRONMENT", self.environment), ("FILES", self.files)]
    }

    /// The text at the end of a long help.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (heading, rows) in self.all() {
            text += &format!("{}{heading}:\n", if text.is_empty() { "" } else { "\n" });
            for (term, description) in rows {
                text += &format!("  {term}\n      {description}\n");
            }
        }
        text
    }

    /// Formats the sections in roff, for a manual page.
    pub(crate) fn roff(&self) -> String {
        let mut text = String::new();
        for (heading, rows) in self.all() {
            text += &format!(".SH \"{heading}\"\n");
            for (term, description) in rows {
                text += &format!(".TP\n\\fB{}\\fR\n{}\n", escaped(term), escaped(description));
            }
        }
        text
    }
}

/// Escapes a text so that roff prints it literally. None of the texts begins with a dot or an apostrophe.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq")
}
