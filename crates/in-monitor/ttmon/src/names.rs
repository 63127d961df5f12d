//! Other names of the program, and spellings of other tools that ttmon accepts.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A name of an earlier tool, which `ttmon alias` links to this program.
pub(crate) struct Name {
    pub(crate) name: &'static str,
    /// The words that the name replaces.
    means: &'static [&'static str],
    /// The words that the name replaces with `-w`, if they differ.
    watched: Option<&'static [&'static str]>,
    /// Flags of that tool that are ignored, because ttmon does the same without them.
    pub(crate) needless_flags: &'static [&'static str],
    /// A flag, its other spelling, and its default value. If `watched` is set, the default applies only with `-w`.
    default: Option<[&'static str; 3]>,
    /// The flags of that tool, by their ids in the definition of the command line. Its help lists them first.
    pub(crate) flags: &'static [&'static str],
}

const PLAIN: Name = Name { name: "", means: &[], watched: None, needless_flags: &[], default: None, flags: &[] };

pub(crate) const NAMES: &[Name] = &[
    Name { name: "tt_smi", flags: &["watch", "refresh"], ..PLAIN },
    Name {
        name: "tt_smi_umd",
        watched: Some(&["top"]),
        needless_flags: &["--sysfs"],
        // The default of that tool; `top` refreshes once per second.
        default: Some(["-r", "--refresh", "500"]),
        flags: &["watch", "refresh"],
        ..PLAIN
    },
    Name { name: "tt-nvtop", means: &["top"], flags: &["refresh", "view"], ..PLAIN },
    Name {
        name: "allocation_server_poc",
        means: &["serve"],
        // A client that refreshes every 500 ms gets a new sample each time.
        default: Some(["--interval", "--interval", "0.5"]),
        flags: &["quiet"],
        ..PLAIN
    },
    Name {
        name: "allocation_monitor_client",
        means: &["mem", "-w", "-a"],
        needless_flags: &["-w", "--watch", "-a", "--all"],
        flags: &["device", "all", "refresh"],
        ..PLAIN
    },
];

impl Name {
    pub(crate) fn of(program: &OsStr) -> Option<&'static Self> {
        let called = Path::new(program).file_name()?;
        NAMES.iter().find(|name| called == name.name)
    }

    /// Returns the sub-command that the name replaces.
    pub(crate) fn command(&self) -> Option<&'static str> {
        self.means.first().copied()
    }

    pub(crate) fn is_own_command(&self, word: &OsStr) -> bool {
        [Some(self.means), self.watched].into_iter().flatten().any(|words| words.first().is_some_and(|own| word == *own))
    }

    /// Returns the command that the name replaces, and the command with `-w` if that is different.
    pub(crate) fn stands_for(&self) -> (String, Option<String>) {
        let spelled = |typed: &[&str]| {
            let words = self.words(typed.iter().map(OsString::from).collect());
            ["ttmon".into()].into_iter().chain(words).map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        (spelled(&[]), self.watched.map(|_| spelled(&["-w"])))
    }

    /// Returns the words of the name, followed by the typed words without those that they replace.
    fn words(&self, rest: Vec<OsString>) -> Vec<OsString> {
        let mut rest: Vec<OsString> = rest.into_iter().flat_map(apart).collect();
        rest.retain(|argument| !self.needless_flags.iter().any(|flag| argument == flag));
        let is_watch = |argument: &OsString| argument == "-w" || argument == "--watch";
        let watched = self.watched.filter(|_| rest.iter().any(is_watch));
        if watched.is_some() {
            rest.retain(|argument| !is_watch(argument));
        }
        let is_default = watched.is_some() == self.watched.is_some();
        let default = self.default.filter(|[short, long, _]| {
            let names = |argument: &OsString| argument.to_str().is_some_and(|text| text.starts_with(short) || text.starts_with(long));
            is_default && !rest.iter().any(names)
        });
        let default = default.map_or_else(Vec::new, |[flag, _, value]| vec![flag, value]);
        watched.unwrap_or(self.means).iter().copied().chain(default).map(OsString::from).chain(rest).collect()
    }
}

/// Separates joined short flags that take no value: `-wr 100` becomes `-w -r 100`.
fn apart(argument: OsString) -> Vec<OsString> {
    let joined = argument.to_str().and_then(|text| {
        let (flag, rest) = text.split_at_checked(2)?;
        let is_joined = ["-w", "-a"].contains(&flag) && rest.starts_with(|first: char| first.is_ascii_alphabetic());
        is_joined.then(|| (OsString::from(flag), OsString::from(format!("-{rest}"))))
    });
    match joined {
        Some((flag, rest)) => [flag].into_iter().chain(apart(rest)).collect(),
        None => vec![argument],
    }
}

/// Translates arguments to the spelling of ttmon.
pub(crate) fn translate(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments = arguments.into_iter();
    let program = arguments.next().unwrap_or_else(|| "ttmon".into());
    // The words of a command that ttmon starts are not translated.
    let arguments: Vec<OsString> = arguments.collect();
    let own = arguments.iter().position(|argument| argument == "--" || argument == "run").unwrap_or(arguments.len());
    let (own, foreign) = arguments.split_at(own);
    let own = own.iter().map(spell).collect();
    let own = match Name::of(&program) {
        Some(name) => name.words(own),
        None => own,
    };
    ["ttmon".into()].into_iter().chain(own).chain(foreign.iter().cloned()).collect()
}

/// Words of other tools that ttmon does not accept, and what to type instead. A row with two words applies to one sub-command and is
/// checked first.
const FLAGS_OF_OTHER_TOOLS: &[(&str, &str)] = &[
    ("-s", "-s is tt-smi's and nvtop's snapshot; use --json, with -f FILE to write it to a file"),
    ("--snapshot", "--snapshot is tt-smi's; use --json, with -f FILE to write it to a file"),
    ("--snapshot_no_tty", "--snapshot_no_tty is tt-smi's; use --json, which never draws progress bars"),
    ("-ls", "-ls is tt-smi's list of devices; use -L"),
    ("-v", "-v is tt-smi's version; use -V"),
    ("-x", "-x is nvidia-smi's XML; use --json, with -q for everything as text"),
    ("--xml-format", "--xml-format is nvidia-smi's XML; use --json, with -q for everything as text"),
    ("-C", "-C is nvtop's; use --color never"),
    ("--no-color", "--no-color is nvtop's; use --color never"),
    ("--csv", "there is no --csv; use --fields F,F, which prints CSV, or --json"),
    ("--xml", "there is no XML; use --json"),
    ("--yaml", "there is no YAML; use --json"),
    ("-o", "-o is not taken here; use --json, with -f FILE to write it to a file"),
    ("--output", "there is no --output; use --json, with -f FILE to write it to a file"),
    ("--interval", "use -l SEC for a snapshot every SEC seconds, or -w -r MS to refresh in place"),
    ("--delay", "use -l SEC for a snapshot every SEC seconds, or -w -r MS to refresh in place"),
    ("top --interval", "use top -r MS, milliseconds"),
    ("top --delay", "use top -r MS, milliseconds"),
    ("top -b", "-b is top's batch mode; use ttmon -l SEC, or ttmon dmon"),
    ("top -n", "-n is top's; use ttmon dmon -c N, or ttmon -l SEC"),
    ("--query-apps", "--query-apps is nvidia-smi's; use --query-compute-apps"),
    ("--query-accounted-apps", "ttmon keeps no accounts of ended processes; use --query-compute-apps, or ttmon run"),
    ("-u", "-u is htop's; ttmon who shows the user of each process, and ttmon top filters by user with /"),
    ("-p", "-p is htop's; use ttmon mem --pid PID, or ttmon who"),
    ("serve -p", "use serve --listen 127.0.0.1:PORT"),
    ("serve --port", "use serve --listen 127.0.0.1:PORT"),
    ("topo -p2p", "-p2p is nvidia-smi's; ttmon topo prints all connections"),
    ("pmon -s", "-s is nvidia-smi's; ttmon pmon prints all its columns"),
    ("dmon -f", "-f is nvidia-smi's; send standard output to a file: ttmon dmon > FILE"),
    ("pmon -f", "-f is nvidia-smi's; send standard output to a file: ttmon pmon > FILE"),
    ("-compact", "-compact is tt-smi's; ttmon fits its tables to the terminal"),
    ("--compact", "--compact is tt-smi's; ttmon fits its tables to the terminal"),
    ("--generate_reset_json", "--generate_reset_json is tt-smi's; ttmon never resets a device"),
    ("-t", "-t is htop's tree; in ttmon top press t"),
    ("-g", "-g is tt-smi's; ttmon never resets a device"),
    ("-glx_reset", "-glx_reset is tt-smi's; ttmon never resets a device"),
    ("--gpu-reset", "--gpu-reset is nvidia-smi's; ttmon never resets a device"),
    ("-pm", "-pm is nvidia-smi's; ttmon changes no setting of a device"),
    ("-pl", "-pl is nvidia-smi's; ttmon changes no setting of a device; limits are in ttmon -q -d POWER"),
    ("-lgc", "-lgc is nvidia-smi's; ttmon changes no setting of a device; clocks are in ttmon -q -d CLOCK"),
    ("-ac", "-ac is nvidia-smi's; ttmon changes no setting of a device; clocks are in ttmon -q -d CLOCK"),
    ("-am", "-am is nvidia-smi's; ttmon changes no setting of a device; ttmon run accounts for a command"),
    ("mig", "mig is nvidia-smi's; ttmon changes no setting of a device"),
    ("drain", "drain is nvidia-smi's; ttmon changes no setting of a device"),
    ("clocks", "clocks is nvidia-smi's; use ttmon -q -d CLOCK, or ttmon dmon"),
    ("flash", "ttmon changes no firmware; versions are in ttmon -q -d FIRMWARE"),
    ("nvlink", "nvlink is nvidia-smi's; use ttmon topo"),
    ("stats", "stats is nvidia-smi's; use ttmon dmon, or ttmon record"),
    ("snapshot", "there is no snapshot command; ttmon alone prints one, ttmon --json as JSON"),
    ("ps", "there is no ps command; use ttmon who"),
    ("--reset", "ttmon never resets a device"),
    ("reset", "ttmon never resets a device"),
    ("-c", "-c is tt-smi's and dmon's; ttmon fits its tables to the terminal, and ttmon dmon -c N ends after N rounds"),
    ("-n", "-n is top's; use ttmon dmon -c N, or ttmon -l SEC"),
    ("-1", "-1 is nvitop's; ttmon prints one snapshot without a flag"),
    ("--once", "ttmon prints one snapshot without a flag"),
    ("-a", "-a is nvitop's; ttmon shows all devices without a flag"),
    ("list", "there is no list command; use ttmon -L"),
    ("kill", "there is no kill command; ttmon top sends signals with F9"),
    ("watch", "there is no watch command; use ttmon -w, or ttmon top"),
    ("monitor", "there is no monitor command; use ttmon top"),
    ("daemon", "there is no daemon command; use ttmon serve"),
    ("log", "there is no log command; use ttmon events, or ttmon record"),
    ("logs", "there is no logs command; use ttmon events, or ttmon record"),
    ("status", "there is no status command; use ttmon alone, ttmon check or ttmon doctor"),
    ("info", "there is no info command; use ttmon -q"),
    ("memory", "there is no memory command; use ttmon mem"),
    ("users", "there is no users command; use ttmon who"),
    ("proc", "there is no proc command; use ttmon who"),
    ("processes", "there is no processes command; use ttmon who"),
    ("temp", "there is no temp command; use ttmon -q -d TEMPERATURE, or ttmon dmon"),
    ("temperature", "there is no temperature command; use ttmon -q -d TEMPERATURE, or ttmon dmon"),
    ("power", "there is no power command; use ttmon -q -d POWER, or ttmon dmon"),
    ("start", "there is no start command; use ttmon serve, or ttmon run -- CMD"),
    ("attach", "a running process cannot be tracked from outside; start it with ttmon run -- CMD"),
    ("replay", "there is no replay command; use ttmon top --replay FILE"),
    ("web", "there is no web command; ttmon serve has the page at http://127.0.0.1:9477/"),
    ("page", "there is no page command; ttmon serve has the page at http://127.0.0.1:9477/"),
    ("dashboard", "there is no dashboard command; ttmon serve has the page at http://127.0.0.1:9477/"),
    ("gui", "there is no gui command; use ttmon top, or the page of ttmon serve at http://127.0.0.1:9477/"),
    ("htop", "there is no htop command; use ttmon top"),
    ("version", "there is no version command; use ttmon -V"),
];

/// Returns what to type instead, if the error is caused by a word of another tool. `command` is the sub-command among the words.
pub(crate) fn of_another_tool(error: &clap::Error, words: &[OsString], command: Option<&str>) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let unknown = match (error.kind(), text(ContextKind::InvalidArg), text(ContextKind::InvalidValue)) {
        (ErrorKind::UnknownArgument, word, _) => word,
        (ErrorKind::InvalidSubcommand, ..) => text(ContextKind::InvalidSubcommand),
        // `-ls` and `-lgc` are parsed as `-l` with a value.
        (ErrorKind::ValueValidation, flag, _) if flag.starts_with("--loop ") => "-l",
        _ => return None,
    };
    let is_watch = |word: &OsString| word == "-w" || word == "--watch";
    if error.kind() == ErrorKind::InvalidSubcommand && unknown.parse::<f64>().is_ok() && words.iter().any(is_watch) {
        return Some(format!("-w takes no value; use -l {unknown} for a snapshot every {unknown} s, or -w -r MS to refresh in place"));
    }
    // The parser splits `-pm` into `-p` and `-m`, so the word as typed is checked first.
    let typed = words.iter().filter_map(|word| word.to_str()).filter(|word| word.starts_with(unknown));
    typed.chain([unknown]).find_map(|word| answer(word, command))
}

fn answer(word: &str, command: Option<&str>) -> Option<String> {
    let find = |word: &str| FLAGS_OF_OTHER_TOOLS.iter().find(|(known, _)| *known == word).map(|(_, answer)| (*answer).to_owned());
    command.and_then(|command| find(&format!("{command} {word}"))).or_else(|| find(word))
}

/// Translates nvidia-smi's `-lms`, a long flag with one dash, which clap cannot parse.
fn spell(argument: &OsString) -> OsString {
    match argument.to_str() {
        Some("-lms") => "--loop-ms".into(),
        Some(text) if text.starts_with("-lms=") => text.replacen("-lms", "--loop-ms", 1).into(),
        _ => argument.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(typed: &str, meant: &str) {
        let arguments = translate(typed.split(' ').map(OsString::from));
        assert_eq!(arguments, meant.split(' ').map(OsString::from).collect::<Vec<_>>());
    }

    #[test]
    fn spellings() {
        check("/usr/bin/ttmon -w -r 100", "ttmon -w -r 100");
        check("ttmon -lms 100", "ttmon --loop-ms 100");
        check("ttmon -lms=100 -l 1", "ttmon --loop-ms=100 -l 1");
        check("./tt_smi -w", "ttmon -w");
        check("tt_smi_umd --sysfs", "ttmon");
        check("tt_smi_umd -w", "ttmon top -r 500");
        check("tt_smi_umd --sysfs -w -r 1000", "ttmon top -r 1000");
        check("tt_smi_umd --watch --refresh=1000", "ttmon top --refresh=1000");
        check("tt-nvtop --view 2", "ttmon top --view 2");
        check("ttmon --sysfs", "ttmon --sysfs");
        check("ttmon -lms 1 run x -lms 5", "ttmon --loop-ms 1 run x -lms 5");
        check("ttmon run -- x -lms 5", "ttmon run -- x -lms 5");
        check("build/allocation_server_poc --quiet", "ttmon serve --interval 0.5 --quiet");
        check("allocation_server_poc --interval 2", "ttmon serve --interval 2");
        check("allocation_monitor_client -d 0 -d 1 -r 500", "ttmon mem -w -a -d 0 -d 1 -r 500");
        check("allocation_monitor_client -w -a", "ttmon mem -w -a");
        check("allocation_monitor_client --all", "ttmon mem -w -a");
        check("allocation_monitor_client -aw", "ttmon mem -w -a");
        check("allocation_monitor_client -war 100 -d 0", "ttmon mem -w -a -r 100 -d 0");
        check("tt_smi_umd -wr 1000", "ttmon top -r 1000");
        check("tt_smi_umd -wr1000", "ttmon top -r1000");
    }
}
