//! Where chips are: at the coordinates of a cluster descriptor where the user gave one, else by the boards they sit on and the
//! boxes these come in; anything else is a plain row of boards. What wires them only a descriptor tells.

mod wires;

use crate::cluster::{Cluster, ClusterPlace};
use crate::snapshot::Location;
use crate::{Device, DeviceId, Snapshot};

/// Chips on a grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mesh {
    /// In words: `t3k, 2x4`.
    pub origin: String,
    /// Rows of the grid.
    pub rows: u16,
    /// Columns of the grid.
    pub columns: u16,
    /// Every device, once.
    pub tiles: Vec<Tile>,
    /// What wires them, where a descriptor says so.
    pub links: Vec<Link>,
}

/// Ethernet between two chips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The devices that it joins.
    pub ends: (DeviceId, DeviceId),
    /// How many links there are.
    pub count: u32,
}

/// One chip's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Which chip.
    pub device: DeviceId,
    /// From 0, at the top.
    pub row: u16,
    /// From 0, at the left.
    pub column: u16,
    /// Which tray of a Galaxy.
    pub tray: Option<u16>,
}

impl Mesh {
    /// The tile of a device.
    pub fn tile(&self, device: DeviceId) -> Option<&Tile> {
        self.tiles.iter().find(|tile| tile.device == device)
    }

    /// Two chips beside or below each other, the left or upper one first; `None` for chips further apart.
    pub fn neighbours(&self, link: &Link) -> Option<(&Tile, &Tile)> {
        let (one, other) = (self.tile(link.ends.0)?, self.tile(link.ends.1)?);
        let (first, second) = if (one.row, one.column) <= (other.row, other.column) { (one, other) } else { (other, one) };
        let (down, right) = (second.row - first.row, second.column.abs_diff(first.column));
        (down + right == 1).then_some((first, second))
    }

    /// How many trays there are beside the first.
    pub fn trays(&self) -> u16 {
        self.tiles.iter().filter_map(|tile| tile.tray).max().unwrap_or(0)
    }
}

const GALAXY_CHIPS: usize = 32;
/// A tray has eight chips: two columns of four.
const TRAY: (u16, u16) = (4, 2);

/// The mesh of a machine: as its descriptor has it, else by its product.
pub fn of(snapshot: &Snapshot, cluster: Option<&Cluster>) -> Mesh {
    let links = cluster.map_or_else(Vec::new, |cluster| links(snapshot, cluster));
    let mesh = cluster.and_then(|cluster| described(snapshot, cluster)).or_else(|| by_wires(snapshot, &links));
    let mesh = mesh.unwrap_or_else(|| by_product(snapshot, &links));
    Mesh { links, ..mesh }
}

/// Neighbours are wired: where they are on the mesh, if not which end is up.
fn by_wires(snapshot: &Snapshot, links: &[Link]) -> Option<Mesh> {
    let devices: Vec<DeviceId> = snapshot.devices.iter().map(|device| device.id).collect();
    let (columns, placed) = wires::grid(&devices, links)?;
    let place = |index: usize| Some((u16::try_from(index / columns).ok()?, u16::try_from(index % columns).ok()?));
    let tile = |(index, device): (usize, &DeviceId)| place(index).map(|(row, column)| Tile { device: *device, row, column, tray: None });
    let tiles: Vec<Tile> = placed.iter().enumerate().map(tile).collect::<Option<_>>()?;
    let (rows, columns) = (u16::try_from(placed.len() / columns).ok()?, u16::try_from(columns).ok()?);
    Some(Mesh { origin: format!("{rows}x{columns} by the descriptor's links"), rows, columns, tiles, links: Vec::new() })
}

fn by_product(snapshot: &Snapshot, links: &[Link]) -> Mesh {
    let devices = &snapshot.devices;
    let is_galaxy = devices.iter().all(|device| board(device).starts_with("galaxy"));
    if devices.len() == GALAXY_CHIPS && is_galaxy {
        return galaxy(devices);
    }
    let is_n300 = devices.iter().all(|device| board(device) == "n300");
    if is_n300 && !devices.is_empty() {
        return boards_of_two(devices);
    }
    plain(devices, links)
}

/// The device of a descriptor's chip.
fn device_of(snapshot: &Snapshot, chip: u32) -> Option<DeviceId> {
    snapshot.devices.iter().find(|device| device.metal_id == Ok(u64::from(chip))).map(|device| device.id)
}

fn links(snapshot: &Snapshot, cluster: &Cluster) -> Vec<Link> {
    let link = |(one, other, count): &(u32, u32, u32)| {
        Some(Link { ends: (device_of(snapshot, *one)?, device_of(snapshot, *other)?), count: *count })
    };
    cluster.links.iter().filter_map(link).collect()
}

/// Chips at the coordinates of the descriptor, each shelf beside the one before. `None` unless every device has a place of
/// its own, on a mesh that is not mostly holes.
fn described(snapshot: &Snapshot, cluster: &Cluster) -> Option<Mesh> {
    let place = |device: &Device| {
        let chip = cluster.chips.iter().find(|chip| device.metal_id == Ok(u64::from(chip.chip)))?;
        Some((chip.place?, device.id))
    };
    let places: Vec<(ClusterPlace, DeviceId)> = snapshot.devices.iter().map(place).collect::<Option<_>>()?;
    let mut shelves: Vec<(u16, u16)> = places.iter().map(|(place, _)| (place.rack, place.shelf)).collect();
    shelves.sort_unstable();
    shelves.dedup();
    let (mut tiles, mut columns) = (Vec::new(), 0);
    for (tray, shelf) in (0..).zip(&shelves) {
        let here = || places.iter().filter(|(place, _)| (place.rack, place.shelf) == *shelf);
        let (left, top) = (here().map(|(place, _)| place.x).min()?, here().map(|(place, _)| place.y).min()?);
        // Somebody else's numbers: places too far apart for a screen are no places.
        let tile = |(place, device): &(ClusterPlace, DeviceId)| {
            let tray = (shelves.len() > 1).then_some(tray);
            Some(Tile { device: *device, row: place.y - top, column: (place.x - left).checked_add(columns)?, tray })
        };
        let added: Vec<Tile> = here().map(tile).collect::<Option<_>>()?;
        columns = added.iter().map(|tile| tile.column).max()?.checked_add(1)?;
        tiles.extend(added);
    }
    let rows = tiles.iter().map(|tile| tile.row).max()?.checked_add(1)?;
    let is_dense = u32::from(rows) * u32::from(columns) <= 4 * u32::try_from(tiles.len()).ok()?;
    let is_alone = |(index, tile): (usize, &Tile)| !tiles[..index].iter().any(|other| (other.row, other.column) == (tile.row, tile.column));
    if !is_dense || !tiles.iter().enumerate().all(is_alone) {
        return None;
    }
    Some(Mesh { origin: format!("{rows}x{columns} as the descriptor says"), rows, columns, tiles, links: Vec::new() })
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
        links: Vec::new(),
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
    Mesh { origin: format!("{name}, {rows}x{columns}, R behind its L"), rows, columns, tiles, links: Vec::new() }
}

/// Boards in the order of their ids, as square as a screen likes them, whatever wires there are.
fn plain(devices: &[Device], links: &[Link]) -> Mesh {
    let count = u16::try_from(devices.len()).unwrap_or(u16::MAX).max(1);
    let columns = match count {
        1..=8 => count.min(4),
        9..=32 => 8,
        _ => 16,
    };
    let tiles =
        (0..).zip(devices).map(|(index, device)| Tile { device: device.id, row: index / columns, column: index % columns, tray: None });
    Mesh {
        origin: if links.is_empty() { "boards by id, wires not known" } else { "boards by id" }.to_owned(),
        rows: count.div_ceil(columns),
        columns,
        tiles: tiles.collect(),
        links: Vec::new(),
    }
}
