//! Parses the plain snapshot without clap. Building the definition of all flags takes as long as reading the files of a device.

use std::ffi::OsString;
use std::mem::replace;
use std::path::PathBuf;

use super::{Cli, GlobalArgs, SnapshotArgs};

/// Parses a snapshot with flags that scripts use often. Returns `None` for everything else, including errors.
pub(super) fn parse(words: &[OsString]) -> Option<Cli> {
    let (mut snapshot, mut common) = (SnapshotArgs::default(), GlobalArgs::default());
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next()?.to_str().filter(|value| !value.is_empty() && !value.starts_with('-')).map(str::to_owned);
        let is_repeated = match word.to_str()? {
            "--json" => replace(&mut common.json, true),
            "--no-server" => replace(&mut common.no_server, true),
            "--ascii" => replace(&mut common.ascii, true),
            "--deep" => replace(&mut snapshot.deep, true),
            "--no-processes" => replace(&mut snapshot.no_processes, true),
            "-L" | "--list" => replace(&mut snapshot.list, true),
            "-q" | "--query" => replace(&mut snapshot.query, true),
            "--root" => common.root.replace(PathBuf::from(value()?)).is_some(),
            "--sim" => common.sim.replace(value()?).is_some(),
            "--fields" => snapshot.fields.replace(value()?).is_some(),
            "--format" => snapshot.format.replace(value()?).is_some(),
            "--query-gpu" => snapshot.query_gpu.replace(value()?).is_some(),
            "-d" | "--device" => {
                common.device.push(value()?);
                false
            }
            "-i" | "--id" => {
                common.id.push(value()?);
                false
            }
            _ => return None,
        };
        if is_repeated {
            return None;
        }
    }
    Some(Cli { snapshot, common, command: None })
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(|word| if word == "''" { OsString::new() } else { word.into() }).collect()
    }

    #[test]
    fn a_parsed_line_means_the_same_as_by_the_definition() {
        for line in [
            "ttmon",
            "ttmon --json --no-server --ascii --no-processes",
            "ttmon -L",
            "ttmon --list -d 0 --device 1,2 -i 3 --id 4-5",
            "ttmon -q -d MEMORY --root /tmp",
            "ttmon --query --sim t3k,fault=hot:1",
            "ttmon --fields id,temperature --format csv,noheader",
            "ttmon --query-gpu index,name --format csv",
        ] {
            let words = words(line);
            let parsed = parse(&words).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(format!("{parsed:?}"), format!("{:?}", Cli::try_parse_from(&words).unwrap()), "{line}");
        }
    }

    /// Tries each flag of the definition alone, with several values, and all pairs of flags. The result must be the same as clap's.
    #[test]
    fn no_rule_of_the_definition_is_missed() {
        let check = |words: &[&str]| {
            let words: Vec<OsString> = ["ttmon"].iter().chain(words).map(OsString::from).collect();
            let Some(parsed) = parse(&words) else { return false };
            let defined = Cli::try_parse_from(&words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
            assert_eq!(format!("{parsed:?}"), format!("{defined:?}"), "{words:?}");
            true
        };
        let definition = Cli::command();
        let flags: Vec<(String, bool)> = definition
            .get_arguments()
            .filter_map(|flag| Some((format!("--{}", flag.get_long()?), flag.get_action().takes_values())))
            .collect();
        let with = |(flag, takes_value): &(String, bool), value: &'static str| {
            [flag.clone()].into_iter().chain(takes_value.then(|| value.to_owned())).collect::<Vec<_>>()
        };
        let mut parsed = 0;
        for flag in &flags {
            for value in ["0", "x", "-1"] {
                let words = with(flag, value);
                parsed += usize::from(check(&words.iter().map(String::as_str).collect::<Vec<_>>()));
            }
            for other in &flags {
                let words = [with(flag, "0"), with(other, "0")].concat();
                parsed += usize::from(check(&words.iter().map(String::as_str).collect::<Vec<_>>()));
            }
        }
        assert!(parsed > 50, "{parsed}");
    }

    #[test]
    fn the_rest_is_left_to_the_definition() {
        for line in [
            "ttmon --json --json",
            "ttmon --root",
            "ttmon --root ''",
            "ttmon --root -x",
            "ttmon --root /a --root /b",
            "ttmon --root=/a",
            "ttmon -Lq",
            "ttmon -d0",
            "ttmon -w",
            "ttmon who",
            "ttmon --help",
            "ttmon -V",
            "ttmon --jsno",
            "ttmon --",
        ] {
            assert!(parse(&words(line)).is_none(), "{line}");
        }
    }
}
