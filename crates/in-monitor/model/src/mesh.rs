//! Layout of chips on a grid. It follows the coordinates of a cluster descriptor if there is one, else the boards and known boxes, else it
//! is a row of boards. Only a descriptor has the links between boards.

mod wires;

use std::ops::Range;

use crate::cluster::{Cluster, ClusterPlace};
use crate::identity::ChipPosition;
use crate::snapshot::Location;
use crate::{Device, DeviceId, Snapshot};

/// Chips on a grid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mesh {
    /// Description of the layout: `t3k, 2x4`.
    pub origin: String,
    /// Rows of the grid.
    pub rows: u16,
    /// Columns of the grid.
    pub columns: u16,
    /// Every device, once.
    pub tiles: Vec<Tile>,
    /// Boards or trays from left to right, each drawn with a frame.
    pub frames: Vec<Frame>,
    /// The links between chips, if a descriptor has them.
    pub links: Vec<Link>,
}

/// A board or a tray. It spans these columns of the grid and all rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The title: a board and its number, or a tray.
    pub name: String,
    /// The columns.
    pub columns: Range<u16>,
}

/// Type of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// On a board, or within a tray.
    Internal,
    /// From one board or tray to another.
    Cable,
}

/// Ethernet links between two chips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The devices at its ends.
    pub ends: (DeviceId, DeviceId),
    /// Number of links, or `None` if the board type implies them.
    pub count: Option<u32>,
}

/// Position of one chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The chip.
    pub device: DeviceId,
    /// Row, from 0 at the top.
    pub row: u16,
    /// Column, from 0 at the left.
    pub column: u16,
    /// The tray of a Galaxy.
    pub tray: Option<u16>,
}

impl Mesh {
    /// Returns the tile of a device.
    pub fn tile(&self, device: DeviceId) -> Option<&Tile> {
        self.tiles.iter().find(|tile| tile.device == device)
    }

    /// Returns two adjacent chips, the left or upper one first. Returns `None` if the chips are not adjacent.
    pub fn neighbours(&self, link: &Link) -> Option<(&Tile, &Tile)> {
        let (one, other) = (self.tile(link.ends.0)?, self.tile(link.ends.1)?);
        let (first, second) = if (one.row, one.column) <= (other.row, other.column) { (one, other) } else { (other, one) };
        let (down, right) = (second.row - first.row, second.column.abs_diff(first.column));
        (down + right == 1).then_some((first, second))
    }

    /// Returns the frame that contains a column of the grid.
    pub fn frame_at(&self, column: u16) -> Option<usize> {
        self.frames.iter().position(|frame| frame.columns.contains(&column))
    }

    /// Returns the type of a link. Links within a frame are internal.
    pub fn kind(&self, link: &Link) -> LinkKind {
        let frame = |device| self.tile(device).and_then(|tile| self.frame_at(tile.column));
        match (frame(link.ends.0), frame(link.ends.1)) {
            (Some(one), Some(other)) if one == other => LinkKind::Internal,
            _ => LinkKind::Cable,
        }
    }
}

const GALAXY_CHIPS: usize = 32;
/// A tray has eight chips: two columns of four.
const TRAY: (u16, u16) = (4, 2);

/// Returns the mesh of a machine, from its descriptor or else by its product.
pub fn of(snapshot: &Snapshot, cluster: Option<&Cluster>) -> Mesh {
    let links = cluster.map_or_else(Vec::new, |cluster| links(snapshot, cluster));
    let mesh = cluster.and_then(|cluster| described(snapshot, cluster)).or_else(|| by_wires(snapshot, &links));
    let mesh = mesh.unwrap_or_else(|| by_product(snapshot, &links));
    // Without a descriptor, the links of the mesh are those that the boards imply.
    if links.is_empty() { mesh } else { Mesh { links, ..mesh } }
}

/// Places chips so that neighbours are linked. This determines positions on the mesh, but not its orientation.
fn by_wires(snapshot: &Snapshot, links: &[Link]) -> Option<Mesh> {
    let devices: Vec<DeviceId> = snapshot.devices.iter().map(|device| device.id).collect();
    let (columns, placed) = wires::grid(&devices, links)?;
    let place = |index: usize| Some((u16::try_from(index / columns).ok()?, u16::try_from(index % columns).ok()?));
    let tile = |(index, device): (usize, &DeviceId)| place(index).map(|(row, column)| Tile { device: *device, row, column, tray: None });
    let tiles: Vec<Tile> = placed.iter().enumerate().map(tile).collect::<Option<_>>()?;
    let (rows, columns) = (u16::try_from(placed.len() / columns).ok()?, u16::try_from(columns).ok()?);
    Some(Mesh { origin: format!("{rows}x{columns} by the descriptor's links"), rows, columns, tiles, ..Mesh::default() })
}

fn by_product(snapshot: &Snapshot, links: &[Link]) -> Mesh {
    let devices = &snapshot.devices;
    let is_galaxy = devices.iter().all(|device| board(device).starts_with("galaxy"));
    if devices.len() == GALAXY_CHIPS && is_galaxy {
        return galaxy(devices);
    }
    boards_of_two(devices).unwrap_or_else(|| plain(devices, links))
}

/// Returns the device of a chip in the descriptor.
fn device_of(snapshot: &Snapshot, chip: u32) -> Option<DeviceId> {
    snapshot.devices.iter().find(|device| device.metal_id == Ok(u64::from(chip))).map(|device| device.id)
}

fn links(snapshot: &Snapshot, cluster: &Cluster) -> Vec<Link> {
    let link = |(one, other, count): &(u32, u32, u32)| {
        Some(Link { ends: (device_of(snapshot, *one)?, device_of(snapshot, *other)?), count: Some(*count) })
    };
    cluster.links.iter().filter_map(link).collect()
}

/// Places chips at the coordinates of the descriptor, with the shelves side by side. Returns `None` unless every device has its own
/// position on a mesh that is not mostly empty.
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
        // A descriptor may be wrong. Coordinates that are too far apart for a screen are ignored.
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
    let frames = if shelves.len() > 1 { shelf_frames(&tiles) } else { Vec::new() };
    Some(Mesh { origin: format!("{rows}x{columns} as the descriptor says"), rows, columns, tiles, frames, ..Mesh::default() })
}

/// Returns the columns of each shelf.
fn shelf_frames(tiles: &[Tile]) -> Vec<Frame> {
    let last = tiles.iter().filter_map(|tile| tile.tray).max().unwrap_or(0);
    let columns = |tray: u16| tiles.iter().filter(move |tile| tile.tray == Some(tray)).map(|tile| tile.column);
    let frame = |tray: u16| Some(Frame { name: format!("shelf {tray}"), columns: columns(tray).min()?..columns(tray).max()? + 1 });
    (0..=last).filter_map(frame).collect()
}

fn board(device: &Device) -> &str {
    device.board.as_deref().unwrap_or("")
}

/// Places four trays side by side, with chips in the order of their ids.
fn galaxy(devices: &[Device]) -> Mesh {
    let place = |(index, device): (u16, &Device)| {
        let (tray, inside) = (index / (TRAY.0 * TRAY.1), index % (TRAY.0 * TRAY.1));
        Tile { device: device.id, row: inside % TRAY.0, column: tray * TRAY.1 + inside / TRAY.0, tray: Some(tray) }
    };
    let frame = |tray: u16| Frame { name: format!("tray {}", tray + 1), columns: tray * TRAY.1..(tray + 1) * TRAY.1 };
    Mesh {
        origin: "galaxy, 4 trays of 8, by id".to_owned(),
        rows: TRAY.0,
        columns: 4 * TRAY.1,
        tiles: (0..).zip(devices).map(place).collect(),
        frames: (0..4).map(frame).collect(),
        ..Mesh::default()
    }
}

/// Places the first chip of each board on top and its second chip below. Returns `None` unless every device is on a board of two chips.
fn boards_of_two(devices: &[Device]) -> Option<Mesh> {
    let name = board(devices.first()?);
    let has_two = name == "n300" || name.starts_with("p300");
    if !has_two || devices.iter().any(|device| board(device) != name) {
        return None;
    }
    // Both chips of a p300 are on PCIe and share a serial. The second chip of an n300 is reached through its first.
    let first_of = |device: &Device| match device.location {
        Location::Remote => device.via.ok(),
        Location::Local => {
            // If the position of a chip is not known, the first id is the first chip.
            let is_second = |other: &Device| device.chip.map_or(other.id < device.id, |chip| chip == ChipPosition::Right);
            let is_partner = |other: &&Device| other.serial.is_ok() && other.serial == device.serial && other.id != device.id;
            devices.iter().find(is_partner).filter(|other| is_second(other)).map(|other| other.id)
        }
    };
    let firsts: Vec<&Device> = devices.iter().filter(|device| first_of(device).is_none()).collect();
    let mut tiles: Vec<Tile> = (0..).zip(&firsts).map(|(column, device)| Tile { device: device.id, row: 0, column, tray: None }).collect();
    let (mut rows, mut links) = (1, Vec::new());
    for device in devices {
        let Some(first) = first_of(device) else { continue };
        let above = firsts.iter().position(|other| other.id == first).unwrap_or(firsts.len());
        let column = u16::try_from(above).unwrap_or(0);
        let row = u16::try_from(tiles.iter().filter(|tile| tile.column == column).count()).unwrap_or(1);
        rows = rows.max(row + 1);
        tiles.push(Tile { device: device.id, row, column, tray: None });
        if device.location == Location::Remote {
            links.push(Link { ends: (first, device.id), count: None });
        }
    }
    let columns = tiles.iter().map(|tile| tile.column + 1).max().unwrap_or(1);
    let frames = (0..columns).map(|column| Frame { name: format!("{name} {column}"), columns: column..column + 1 }).collect();
    let title = if firsts.len() == 4 && name == "n300" { "t3k (4 x n300)".to_owned() } else { format!("{} x {name}", firsts.len()) };
    let order = match rows {
        1 => "",
        _ if name == "n300" => ", R below its L",
        _ => ", second chip below the first",
    };
    Some(Mesh { origin: format!("{title}, {rows}x{columns}{order}"), rows, columns, tiles, frames, links })
}

/// Places boards in the order of their ids, as square as possible, ignoring links.
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
        ..Mesh::default()
    }
}
