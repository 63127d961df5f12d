//! The plain snapshot, parsed by hand: the definition of all flags takes as long to make as the files of a device to read.

use std::ffi::OsString;
use std::mem::replace;
use std::path::PathBuf;

use super::{Cli, Everywhere, SnapshotArgs};

/// What was typed, if it is a snapshot with flags that scripts use often. `None` is everything else, mistakes included.
pub(super) fn parse(words: &[OsString]) -> Option<Cli> {
    let (mut snapshot, mut common) = (SnapshotArgs::default(), Everywhere::default());
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next()?.to_str().filter(|value| !value.is_empty() && !value.starts_with('-')).map(str::to_owned);
        let is_repeated = match word.to_str()? {
            "--json" => replace(&mut common.json, true),
            "--no-server" => replace(&mut common.no_server, true),
            "--ascii" => replace(&mut common.ascii, true),
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
    use clap::Parser;

    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(|word| if word == "''" { OsString::new() } else { word.into() }).collect()
    }

    #[test]
    fn what_it_parses_is_what_the_definition_says() {
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
