//! UMD cluster descriptors: the only source for remote chips that differ from the board's standard.

use crate::identity::Bdf;
use crate::product::Arch;

/// A parsed descriptor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    /// Chips by their UMD id, in order.
    pub chips: Vec<ClusterChip>,
    /// Ethernet links between chips, the lower id first, with the number of links.
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
    /// UMD's id, which is TT-Metal's.
    pub chip: u32,
    /// Architecture.
    pub arch: Option<Arch>,
    /// UMD's unique id.
    pub unique_id: Option<u64>,
    /// N of `/dev/tenstorrent/N`, for a chip on PCIe.
    pub device: Option<u32>,
    /// PCI address, if the file has one.
    pub bdf: Option<Bdf>,
    /// Board, by its id.
    pub board_id: Option<u64>,
    /// The board's type, in UMD's words.
    pub board_type: Option<String>,
    /// Position on the board.
    pub location: Option<u32>,
    /// Position, if the file has coordinates.
    pub place: Option<ClusterPlace>,
}

impl Cluster {
    /// The chip on PCIe that shares this chip's board.
    pub fn gateway_of(&self, chip: &ClusterChip) -> Option<&ClusterChip> {
        let board = chip.board_id?;
        self.chips.iter().find(|other| other.board_id == Some(board) && other.device.is_some())
    }
}
