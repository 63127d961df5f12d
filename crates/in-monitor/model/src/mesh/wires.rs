//! Layout of chips by their links only. Descriptors of large boxes have links but no coordinates.

use std::collections::{BTreeMap, BTreeSet};

use crate::DeviceId;

use super::Link;

/// Maximum number of steps of the search. A mesh is found in a few hundred steps.
const STEPS_MAX: u32 = 20_000;

/// Finds a grid in which neighbours are linked, as square as possible. Returns the number of columns and the chips, row by row. There may
/// be additional links, around or across. The first corner has the chip with the lowest number that can be in a corner.
pub(super) fn grid(devices: &[DeviceId], links: &[Link]) -> Option<(usize, Vec<DeviceId>)> {
    let mut wired: BTreeMap<DeviceId, BTreeSet<DeviceId>> = BTreeMap::new();
    for Link { ends: (one, other), .. } in links.iter().filter(|link| link.ends.0 != link.ends.1) {
        wired.entry(*one).or_default().insert(*other);
        wired.entry(*other).or_default().insert(*one);
    }
    let count = devices.len();
    let mut steps = 0;
    let shapes = (2..count).rev().filter(|rows| count.is_multiple_of(*rows) && rows * rows <= count);
    for columns in shapes.map(|rows| count / rows) {
        for first in devices {
            let mut search = Search { wired: &wired, columns, placed: vec![*first], count, steps: &mut steps };
            if search.finish() {
                return Some((columns, search.placed));
            }
        }
    }
    None
}

struct Search<'a> {
    wired: &'a BTreeMap<DeviceId, BTreeSet<DeviceId>>,
    columns: usize,
    placed: Vec<DeviceId>,
    count: usize,
    steps: &'a mut u32,
}

impl Search<'_> {
    /// Places the next chip next to its left neighbour and below its upper neighbour, then all later chips.
    fn finish(&mut self) -> bool {
        let at = self.placed.len();
        if at == self.count {
            return true;
        }
        *self.steps += 1;
        if *self.steps > STEPS_MAX {
            return false;
        }
        let left = (!at.is_multiple_of(self.columns)).then(|| self.placed[at - 1]);
        let above = at.checked_sub(self.columns).map(|above| self.placed[above]);
        let (Some(first), other) = (left.or(above), above.filter(|_| left.is_some())) else { return false };
        let Some(near) = self.wired.get(&first) else { return false };
        let is_wired = |chip: &DeviceId| other.is_none_or(|other| self.wired.get(&other).is_some_and(|near| near.contains(chip)));
        let choices: Vec<DeviceId> = near.iter().copied().filter(|chip| is_wired(chip) && !self.placed.contains(chip)).collect();
        for chip in choices {
            self.placed.push(chip);
            if self.finish() {
                return true;
            }
            self.placed.pop();
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the links of a mesh with renumbered chips, optionally with links around its ends.
    fn links(rows: u32, columns: u32, around: bool) -> Vec<Link> {
        let id = |row: u32, column: u32| DeviceId((row * columns + column) * 7 % (rows * columns));
        let mut links = Vec::new();
        for row in 0..rows {
            for column in 0..columns {
                if column + 1 < columns || around {
                    links.push(Link { ends: (id(row, column), id(row, (column + 1) % columns)), count: Some(4) });
                }
                if row + 1 < rows {
                    links.push(Link { ends: (id(row + 1, column), id(row, column)), count: Some(4) });
                }
            }
        }
        links
    }

    #[test]
    fn a_mesh_is_found_again() {
        for (rows, columns, around) in [(4u32, 8u32, false), (4, 8, true), (2, 4, false), (3, 5, true)] {
            let links = links(rows, columns, around);
            let devices: Vec<DeviceId> = (0..rows * columns).map(DeviceId).collect();
            let (found, placed) = grid(&devices, &links).unwrap();
            assert_eq!(found, usize::try_from(columns).unwrap(), "{rows}x{columns}");
            let are_wired =
                |one: DeviceId, other: DeviceId| links.iter().any(|link| link.ends == (one, other) || link.ends == (other, one));
            for (index, chip) in placed.iter().enumerate() {
                assert!(index % found == 0 || are_wired(placed[index - 1], *chip));
                assert!(index < found || are_wired(placed[index - found], *chip));
            }
        }
    }

    #[test]
    fn links_without_a_mesh_give_no_grid() {
        let devices: Vec<DeviceId> = (0..32).map(DeviceId).collect();
        assert_eq!(grid(&devices, &[]), None);
        assert_eq!(grid(&devices[..7], &links(1, 7, true)), None, "a ring is no mesh");
        let star: Vec<Link> = (1..32).map(|other| Link { ends: (DeviceId(0), DeviceId(other)), count: Some(1) }).collect();
        assert_eq!(grid(&devices, &star), None);
    }
}
