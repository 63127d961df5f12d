//! The mock machines: cluster descriptors below xtask/ttnn/chips.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::files;
use crate::project::Project;

const FOLDER: &str = "xtask/ttnn/chips";
const UNIQUE_IDS: &str = "chip_unique_ids:";

pub(crate) struct Chips {
    pub(super) path: PathBuf,
    /// Unique ids by metal id, if every chip is visible.
    pub(super) unique_ids: BTreeMap<u64, u64>,
}

impl Chips {
    pub(crate) fn read(project: &Project, name: &str) -> Result<Self, String> {
        let path = project.root.join(FOLDER).join(format!("{name}.yaml"));
        let text = files::read(&path)?;
        let unique_ids = unique_ids(&text).ok_or_else(|| format!("{}: no {UNIQUE_IDS} that can be read", path.display()))?;
        Ok(Self { path, unique_ids })
    }
}

/// Parses the pairs of numbers below the heading, in either of YAML's two notations.
fn unique_ids(text: &str) -> Option<BTreeMap<u64, u64>> {
    let rest = text.split_once(UNIQUE_IDS)?.1;
    let end = rest.find(|character: char| character.is_ascii_alphabetic()).unwrap_or(rest.len());
    let numbers: Vec<u64> =
        rest[..end].split(|character: char| !character.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect();
    let ids: BTreeMap<u64, u64> = numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    (!ids.is_empty()).then_some(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_in_both_forms() {
        let expected = Some(BTreeMap::from([(0, 70), (1, 71)]));
        assert_eq!(unique_ids("arch: {0: a}\nchip_unique_ids: {0: 70, 1: 71}\nchips: {2: 9}\n"), expected);
        assert_eq!(unique_ids("chip_unique_ids:\n  0: 70\n  1: 71\nethernet_connections: [1]\n"), expected);
        assert_eq!(unique_ids("arch: {}\n"), None);
    }
}
