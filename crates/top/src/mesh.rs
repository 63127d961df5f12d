//! Where chips are: by the boards they sit on and the boxes these come in. What wires them is known only of such
//! products; anything else is a plain row of boards.

use ttmon_model::snapshot::Location;
use ttmon_model::{Device, DeviceId, Snapshot};

/// Chips on a grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mesh {
    /// In words: `t3k, 2x4`.
    pub(crate) origin: String,
    pub(crate) rows: u16,
    pub(crate) columns: u16,
    pub(crate) tiles: Vec<Tile>,
    /// Columns of the screen between trays.
    pub(crate) tray_gap: u16,
}

/// One chip's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tile {
    pub(crate) device: DeviceId,
    pub(crate) row: u16,
    pub(crate) column: u16,
    /// Which tray of a Galaxy.
    pub(crate) tray: Option<u16>,
}

impl Mesh {
    /// How many trays there are beside the first.
    pub(crate) fn trays(&self) -> u16 {
        self.tiles.iter().filter_map(|tile| tile.tray).max().unwrap_or(0)
    }
}

const GALAXY_CHIPS: usize = 32;
/// A tray has eight chips: two columns of four.
const TRAY: (u16, u16) = (4, 2);

/// The mesh of a machine, by its product.
pub(crate) fn of(snapshot: &Snapshot) -> Mesh {
    let devices = &snapshot.devices;
    let is_galaxy = devices.iter().all(|device| board(device).starts_with("galaxy"));
    if devices.len() == GALAXY_CHIPS && is_galaxy {
        return galaxy(devices);
    }
    let is_n300 = devices.iter().all(|device| board(device) == "n300");
    if is_n300 && !devices.is_empty() {
        return boards_of_two(devices);
    }
    plain(devices)
}

fn board(device: &Device) -> &str {
    device.board.as_deref().unwrap_or("")
}

/// Four trays beside each other, chips in the order of their ids.
fn galaxy(devices: &[Device]) -> Mesh {
    let place = |(index, device): (u16, &Device)| {
        let (tray, inside) = (index / (TRAY.0 * TRAY.1), index % (TRAY.0 * TRAY.1));
        Tile { device: device.id, row: inside % TRAY.0, column: tray * TRAY.1 + inside / TRAY.0, tray: Some(tray) }
    };
    Mesh {
        origin: "galaxy, 4 trays of 8, by id".to_owned(),
        rows: TRAY.0,
        columns: 4 * TRAY.1,
        tiles: (0..).zip(devices).map(place).collect(),
        tray_gap: 1,
    }
}

/// Local chips above, the chip behind each below it.
fn boards_of_two(devices: &[Device]) -> Mesh {
    let local: Vec<&Device> = devices.iter().filter(|device| device.location == Location::Local).collect();
    let mut tiles: Vec<Tile> = (0..).zip(&local).map(|(column, device)| Tile { device: device.id, row: 0, column, tray: None }).collect();
    let mut rows = 1;
    for device in devices.iter().filter(|device| device.location == Location::Remote) {
        let above = local.iter().position(|gateway| Ok(gateway.id) == device.via).unwrap_or(local.len());
        let column = u16::try_from(above).unwrap_or(0);
        let row = u16::try_from(tiles.iter().filter(|tile| tile.column == column).count()).unwrap_or(1);
        rows = rows.max(row + 1);
        tiles.push(Tile { device: device.id, row, column, tray: None });
    }
    let columns = tiles.iter().map(|tile| tile.column + 1).max().unwrap_or(1);
    let name = if local.len() == 4 { "t3k (4 x n300)".to_owned() } else { format!("{} x n300", local.len()) };
    Mesh { origin: format!("{name}, {rows}x{columns}, R behind its L"), rows, columns, tiles, tray_gap: 0 }
}

/// Nothing is known of wires: boards in the order of their ids, as square as a screen likes them.
fn plain(devices: &[Device]) -> Mesh {
    let count = u16::try_from(devices.len()).unwrap_or(u16::MAX).max(1);
    let columns = match count {
        1..=8 => count.min(4),
        9..=32 => 8,
        _ => 16,
    };
    let tiles =
        (0..).zip(devices).map(|(index, device)| Tile { device: device.id, row: index / columns, column: index % columns, tray: None });
    Mesh { origin: "boards by id, wires not known".to_owned(), rows: count.div_ceil(columns), columns, tiles: tiles.collect(), tray_gap: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::machine;

    #[test]
    fn every_chip_has_a_place_of_its_own() {
        for (name, snapshot) in machine::all() {
            let mesh = of(&snapshot);
            assert_eq!(mesh.tiles.len(), snapshot.devices.len(), "{name}");
            for (index, tile) in mesh.tiles.iter().enumerate() {
                assert!(tile.row < mesh.rows && tile.column < mesh.columns, "{name}: {tile:?}");
                let is_same = |other: &Tile| (other.row, other.column) == (tile.row, tile.column);
                assert!(!mesh.tiles[..index].iter().any(is_same), "{name}: {tile:?}");
            }
        }
    }

    #[test]
    fn a_galaxy_has_trays_and_an_n300_its_second_chip_below() {
        let galaxy = of(&machine::galaxy());
        assert_eq!((galaxy.rows, galaxy.columns, galaxy.trays()), (4, 8, 3));
        let pair = of(&machine::n300());
        assert_eq!((pair.rows, pair.columns), (2, 1));
    }
}
