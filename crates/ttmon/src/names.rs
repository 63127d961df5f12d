//! The other names ttmon answers to, and the spellings other tools taught people's fingers.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// A name of an earlier tool, which `ttmon alias` links to this program.
pub(crate) struct Name {
    pub(crate) name: &'static str,
    /// The words it stands for.
    means: &'static [&'static str],
    /// What it stands for instead, `-w` included, when it is told to go on.
    watched: &'static [&'static str],
    /// Flags of that tool that mean what ttmon does anyway.
    needless_flags: &'static [&'static str],
}

/// All of them.
pub(crate) const NAMES: &[Name] = &[
    Name { name: "tt_smi", means: &[], watched: &[], needless_flags: &[] },
    Name { name: "tt_smi_umd", means: &[], watched: &["top"], needless_flags: &["--sysfs"] },
    Name { name: "tt-nvtop", means: &["top"], watched: &[], needless_flags: &[] },
    Name { name: "allocation_server_poc", means: &["serve"], watched: &[], needless_flags: &[] },
    Name { name: "allocation_monitor_client", means: &["mem", "-w"], watched: &["mem", "-w"], needless_flags: &[] },
];

/// The arguments as ttmon spells them.
pub(crate) fn translate(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments = arguments.into_iter();
    let program = arguments.next().unwrap_or_else(|| "ttmon".into());
    let called = Path::new(&program).file_name().unwrap_or(OsStr::new("ttmon"));
    let name = NAMES.iter().find(|name| called == name.name);
    let needless = name.map_or(&[][..], |name| name.needless_flags);
    // Words of a command that ttmon starts are that command's own.
    let arguments: Vec<OsString> = arguments.collect();
    let own = arguments.iter().position(|argument| argument == "--" || argument == "run").unwrap_or(arguments.len());
    let (own, foreign) = arguments.split_at(own);
    let mut rest: Vec<OsString> = own.iter().filter(|argument| !needless.iter().any(|flag| argument == flag)).map(spell).collect();
    let is_watch = |argument: &OsString| argument == "-w" || argument == "--watch";
    let mut means = name.map_or(&[][..], |name| name.means);
    if let Some(name) = name.filter(|name| !name.watched.is_empty() && rest.iter().any(is_watch)) {
        means = name.watched;
        rest.retain(|argument| !is_watch(argument));
    }
    let words = ["ttmon"].iter().chain(means).map(OsString::from);
    words.chain(rest).chain(foreign.iter().cloned()).collect()
}

/// nvidia-smi's `-lms` is a long flag with one dash, which no parser takes apart in that way.
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
        check("tt_smi_umd --sysfs -w -r 500", "ttmon top -r 500");
        check("tt-nvtop --view 2", "ttmon top --view 2");
        check("ttmon --sysfs", "ttmon --sysfs");
        check("ttmon -lms 1 run x -lms 5", "ttmon --loop-ms 1 run x -lms 5");
        check("ttmon run -- x -lms 5", "ttmon run -- x -lms 5");
        check("build/allocation_server_poc --quiet", "ttmon serve --quiet");
        check("allocation_monitor_client -d 0 -d 1 -r 500", "ttmon mem -w -d 0 -d 1 -r 500");
        check("allocation_monitor_client -w -a", "ttmon mem -w -a");
    }
}
