//! Reads UMD's cluster descriptor, a YAML file named by the user.

pub(crate) mod search;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use ttmon_model::cluster::{Cluster, ClusterChip, ClusterPlace};
use ttmon_model::limits::CLUSTER_BYTES_MAX;
use ttmon_model::product::Arch;
use yaml_rust2::parser::{Event, MarkedEventReceiver, Parser};
use yaml_rust2::scanner::Marker;
use yaml_rust2::{Yaml, YamlLoader};

/// Maximum number of `[` and `{`. A descriptor has only a few empty lists.
const FLOW_MARKS_MAX: usize = 4096;

/// Reads a cluster descriptor from a file.
pub fn read_cluster(path: &Path) -> io::Result<Cluster> {
    let bytes = ttmon_os::read(path, CLUSTER_BYTES_MAX)?;
    parse_cluster(&String::from_utf8_lossy(&bytes))
}

/// Parses the text of a cluster descriptor. YAML aliases are refused: descriptors never use them, and they can make a small file huge.
pub fn parse_cluster(text: &str) -> io::Result<Cluster> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let other = |why: &str| invalid(format!("not a cluster descriptor: {why}"));
    let syntax = |error: yaml_rust2::ScanError| invalid(format!("not YAML: {error}"));
    if is_too_deep(text) {
        return Err(other("it is nested too deeply"));
    }
    let mut aliases = AliasFinder(false);
    Parser::new_from_str(text).load(&mut aliases, true).map_err(syntax)?;
    if aliases.0 {
        return Err(other("it uses YAML aliases"));
    }
    let documents = YamlLoader::load_from_str(text).map_err(syntax)?;
    let root = documents.first().unwrap_or(&Yaml::BadValue);
    let arch = root["arch"].as_hash().into_iter().flatten();
    let mut chips: Vec<ClusterChip> = arch.filter_map(|(chip, arch)| chip_of(root, u32_of(chip)?, arch)).collect();
    if chips.is_empty() {
        return Err(other("it has no chips under `arch:`"));
    }
    chips.sort_by_key(|chip| chip.chip);
    Ok(Cluster { chips, links: links(root) })
}

/// Returns whether the text could overflow the stack of the parser, which calls itself for each level. A descriptor has four.
fn is_too_deep(text: &str) -> bool {
    const LEVEL_MARKS_MAX: usize = 64;
    let marks = |line: &str| line.chars().take_while(|character| matches!(character, ' ' | '-' | '?' | ':' | '\t')).count();
    let flow = text.matches(['[', '{']).count();
    text.lines().any(|line| marks(line) > LEVEL_MARKS_MAX) || flow > FLOW_MARKS_MAX
}

fn chip_of(root: &Yaml, chip: u32, arch: &Yaml) -> Option<ClusterChip> {
    let board = root["boards"].as_vec().and_then(|boards| boards.iter().find(|board| board_has(board, chip)));
    Some(ClusterChip {
        chip,
        arch: arch.as_str().and_then(Arch::from_name),
        unique_id: of_chip(root, "chip_unique_ids", chip).and_then(u64_of),
        device: root["chips_with_mmio"].as_vec().and_then(|list| list.iter().find_map(|pair| of_key(pair, chip).and_then(u32_of))),
        bdf: of_chip(root, "chip_pci_bdfs", chip).and_then(|bdf| bdf.as_str()?.parse().ok()),
        board_id: board.and_then(|board| board_value(board, "board_id")).and_then(u64_of),
        board_type: board.and_then(|board| board_value(board, "board_type")?.as_str().map(str::to_owned)),
        location: of_chip(root, "asic_locations", chip).and_then(u32_of),
        place: of_chip(root, "chips", chip).and_then(place_of),
    })
}

/// Parses `[x, y, rack, shelf]`.
fn place_of(value: &Yaml) -> Option<ClusterPlace> {
    let numbers: Vec<u16> = value.as_vec()?.iter().map(|number| u16::try_from(u64_of(number)?).ok()).collect::<Option<_>>()?;
    let [x, y, rack, shelf] = numbers.as_slice() else { return None };
    Some(ClusterPlace { rack: *rack, shelf: *shelf, y: *y, x: *x })
}

/// Counts the links between two chips. Each entry of `ethernet_connections` is a list of two ends, `{chip, chan}`.
fn links(root: &Yaml) -> Vec<(u32, u32, u32)> {
    let mut links: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for connection in root["ethernet_connections"].as_vec().into_iter().flatten() {
        let ends: Vec<u32> = connection.as_vec().into_iter().flatten().filter_map(|end| u32_of(&end["chip"])).collect();
        if let [one, other] = ends.as_slice() {
            *links.entry((*one.min(other), *one.max(other))).or_default() += 1;
        }
    }
    links.into_iter().map(|((one, other), count)| (one, other, count)).collect()
}

/// Returns the value of a key of a board. A board is a list of one-entry maps: `board_id`, `board_type`, `chips`.
fn board_value<'a>(board: &'a Yaml, key: &str) -> Option<&'a Yaml> {
    board.as_vec()?.iter().map(|entry| &entry[key]).find(|value| !value.is_badvalue())
}

fn board_has(board: &Yaml, chip: u32) -> bool {
    board_value(board, "chips").and_then(Yaml::as_vec).is_some_and(|chips| chips.iter().any(|id| u32_of(id) == Some(chip)))
}

fn of_chip<'a>(root: &'a Yaml, section: &str, chip: u32) -> Option<&'a Yaml> {
    of_key(&root[section], chip)
}

fn of_key(map: &Yaml, chip: u32) -> Option<&Yaml> {
    map.as_hash()?.get(&Yaml::Integer(i64::from(chip)))
}

fn u32_of(value: &Yaml) -> Option<u32> {
    u64_of(value).and_then(|number| u32::try_from(number).ok())
}

/// Numbers of 2^63 and above do not fit the parser's integers. The parser returns them as real numbers with their original text.
fn u64_of(value: &Yaml) -> Option<u64> {
    match value {
        Yaml::Integer(number) => u64::try_from(*number).ok(),
        Yaml::Real(text) | Yaml::String(text) => text.parse().ok(),
        _ => None,
    }
}

struct AliasFinder(bool);

impl MarkedEventReceiver for AliasFinder {
    fn on_event(&mut self, event: Event, _: Marker) {
        self.0 |= matches!(event, Event::Alias(_));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const N300: &str = "
arch:
  0: wormhole_b0
  1: wormhole_b0
chips:
  0: [2, 5, 0, 1]
  1:
    - 3
    - 5
    - 0
ethernet_connections:
  -
    - chip: 1
      chan: 0
    - chip: 0
      chan: 8
  -
    - chip: 0
      chan: 9
    - chip: 1
      chan: 1
  - nonsense
chip_unique_ids:
  1: 14251245764
  0: 9956278468
chips_with_mmio:
  - 0: 1
boards:
  -
    - board_id: 72058990194901188
    - board_type: n300
    - chips:
        - 1
        - 0
asic_locations:
  0: 0
  1: 1
chip_pci_bdfs:
  0: 0000:41:00.0
";

    #[test]
    fn an_n300() {
        let cluster = parse_cluster(N300).unwrap();
        let [left, right] = cluster.chips.as_slice() else { panic!("{cluster:?}") };
        assert_eq!((left.chip, left.device, left.unique_id), (0, Some(1), Some(9_956_278_468)));
        assert_eq!(left.bdf, "0000:41:00.0".parse().ok());
        assert_eq!((right.device, right.location, right.board_type.as_deref()), (None, Some(1), Some("n300")));
        assert_eq!(cluster.gateway_of(right).map(|chip| chip.chip), Some(0));
        assert_eq!((left.place, right.place), (Some(ClusterPlace { rack: 0, shelf: 1, y: 5, x: 2 }), None), "one number is missing");
        assert_eq!(cluster.links, [(0, 1, 2)]);
    }

    #[test]
    fn large_ids() {
        let text = "arch:\n  0: blackhole\nchip_unique_ids:\n  0: 17293822569102704640\n";
        assert_eq!(parse_cluster(text).unwrap().chips[0].unique_id, Some(17_293_822_569_102_704_640));
    }

    #[test]
    fn invalid_descriptors_are_refused_with_the_reason() {
        let why = |text: &str| parse_cluster(text).unwrap_err().to_string();
        for text in ["", "arch: 5", "arch:\n  x: y"] {
            assert_eq!(why(text), "not a cluster descriptor: it has no chips under `arch:`");
        }
        assert!(why("a: [1").starts_with("not YAML: "));
        for deep in ["? ".repeat(30_000), "- ".repeat(30_000), "[".repeat(30_000), format!("{}a: 1", " ".repeat(100))] {
            assert_eq!(why(&deep), "not a cluster descriptor: it is nested too deeply");
        }
        assert_eq!(why("a: &x [1]\nb: [*x, *x]"), "not a cluster descriptor: it uses YAML aliases");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-z0-9:\\- \\n\\[\\]{}&*]{0,120}") {
            let _ = parse_cluster(&text);
        }
    }
}
