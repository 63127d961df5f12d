//! The other names ttmon answers to, and the spellings other tools taught people's fingers.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// A name of an earlier tool, which `ttmon alias` links to this program.
pub(crate) struct Name {
    pub(crate) name: &'static str,
    /// The words it stands for.
    means: &'static [&'static str],
    /// Flags of that tool that mean what ttmon does anyway.
    needless_flags: &'static [&'static str],
}

/// All of them.
pub(crate) const NAMES: &[Name] = &[
    Name { name: "tt_smi", means: &[], needless_flags: &[] },
    Name { name: "tt_smi_umd", means: &[], needless_flags: &["--sysfs"] },
    Name { name: "allocation_monitor_client", means: &["mem", "-w"], needless_flags: &[] },
];

/// The arguments as ttmon spells them.
pub(crate) fn translate(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments = arguments.into_iter();
    let program = arguments.next().unwrap_or_else(|| "ttmon".into());
    let called = Path::new(&program).file_name().unwrap_or(OsStr::new("ttmon"));
    let name = NAMES.iter().find(|name| called == name.name);
    let needless = name.map_or(&[][..], |name| name.needless_flags);
    let mut translated = vec![OsString::from("ttmon")];
    translated.extend(name.into_iter().flat_map(|name| name.means).map(OsString::from));
    translated.extend(arguments.filter(|argument| !needless.iter().any(|flag| argument == flag)).map(spell));
    translated
}

/// nvidia-smi's `-lms` is a long flag with one dash, which no parser takes apart in that way.
fn spell(argument: OsString) -> OsString {
    match argument.to_str() {
        Some("-lms") => "--loop-ms".into(),
        Some(text) if text.starts_with("-lms=") => text.replacen("-lms", "--loop-ms", 1).into(),
        _ => argument,
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
        check("tt_smi_umd --sysfs -w", "ttmon -w");
        check("ttmon --sysfs", "ttmon --sysfs");
        check("allocation_monitor_client -d 0 -d 1 -r 500", "ttmon mem -w -d 0 -d 1 -r 500");
    }
}
