//! UMD cluster descriptors. They are the only source for remote chips that differ from the standard layout of the board.

use crate::identity::Bdf;
use crate::product::Arch;

/// A parsed cluster descriptor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    /// The chips, sorted by their UMD id.
    pub chips: Vec<ClusterChip>,
    /// Ethernet links between two chips: lower id, higher id, and the number of links.
    pub links: Vec<(u32, u32, u32)>,
}

/// Position of a chip in a cluster: rack, shelf, and coordinates on the shelf's mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "they say what they are")]
pub struct ClusterPlace {
    pub rack: u16,
    pub shelf: u16,
    pub y: u16,
    pub x: u16,
}

/// One chip of a descriptor.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterChip {
    /// UMD's id, which TT-Metal uses too.
    pub chip: u32,
    /// Architecture.
    pub arch: Option<Arch>,
    /// UMD's unique id.
    pub unique_id: Option<u64>,
    /// N of `/dev/tenstorrent/N`, for a chip on PCIe.
    pub device: Option<u32>,
    /// PCI address, if the file has one.
    pub bdf: Option<Bdf>,
    /// The id of the board.
    pub board_id: Option<u64>,
    /// The board's type as named by UMD.
    pub board_type: Option<String>,
    /// Position on the board.
    pub location: Option<u32>,
    /// Position in the cluster, if the file has coordinates.
    pub place: Option<ClusterPlace>,
}

impl Cluster {
    /// Returns the chip on PCIe that is on the same board.
    pub fn gateway_of(&self, chip: &ClusterChip) -> Option<&ClusterChip> {
        let board = chip.board_id?;
        self.chips.iter().find(|other| other.board_id == Some(board) && other.device.is_some())
    }
}
