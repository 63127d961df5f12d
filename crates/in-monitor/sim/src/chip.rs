//! The chips of a machine: PCI addresses, device numbers, serials and unique ids.

use ttmon_model::identity::ChipPosition;
use ttmon_model::product::Product;

use crate::board::Board;
use crate::random::{Purpose, Random};
use crate::spec::Spec;

/// One chip. Its `id` is its index in the machine's list.
#[derive(Debug)]
pub(crate) struct Chip {
    pub(crate) id: u32,
    pub(crate) board: &'static Board,
    pub(crate) product: &'static Product,
    pub(crate) serial: u64,
    pub(crate) asic_id: u64,
    /// The id in TT-Metal's statistics.
    pub(crate) unique_id: u64,
    pub(crate) location: Location,
}

#[derive(Debug)]
pub(crate) enum Location {
    /// On PCIe.
    Local(Pci),
    /// Over Ethernet, through the local chip of its board.
    Remote,
}

/// A PCIe address. Every device has its own bridge below a root bus.
#[derive(Debug)]
pub(crate) struct Pci {
    pub(crate) domain: u32,
    root: u32,
    bus: u32,
    port: u32,
    pub(crate) lanes: u32,
    pub(crate) numa_node: i32,
    /// K of the chip's `hwmonK`.
    pub(crate) hwmon: u32,
}

impl Pci {
    pub(crate) fn bdf(&self) -> String {
        format!("{:04x}:{:02x}:00.0", self.domain, self.bus)
    }

    /// Returns the bridge's directory below `sys`.
    pub(crate) fn bridge_path(&self) -> String {
        let Self { domain, root, port, .. } = self;
        format!("devices/pci{domain:04x}:{root:02x}/{domain:04x}:{root:02x}:{port:02x}.0")
    }

    /// Returns the device's directory below `sys`.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.bridge_path(), self.bdf())
    }
}

/// The chips of a machine, and the groups that one job uses together.
#[derive(Debug)]
pub(crate) struct Layout {
    /// Sorted by id: local chips, then remote ones.
    pub(crate) chips: Vec<Chip>,
    /// The ids of each board's chips, including remote ones. A Galaxy is divided into groups of four chips.
    pub(crate) units: Vec<Vec<u32>>,
}

impl Layout {
    /// Lays out the chips. Galaxies come first, because their device numbers are fixed. Cards follow in the order of the spec.
    pub(crate) fn new(spec: &Spec, seed: u64) -> Self {
        let cards = spec.boards.iter().flat_map(|(board, count)| {
            let cards = u64::from(board.cards) * count;
            (0..cards).map(|_| *board)
        });
        let (galaxies, cards): (Vec<&'static Board>, Vec<_>) = cards.partition(|board| board.is_galaxy());
        let mut layout = Self { chips: Vec::new(), units: Vec::new() };
        let slots = slots(cards.len());
        let total = galaxies.iter().chain(&cards).map(|board| board.chips).sum();
        let first_domain = u32::try_from(galaxies.len()).unwrap_or(u32::MAX);
        let of_galaxies = (0..).zip(&galaxies).map(|(domain, board)| (board, galaxy_addresses(board, domain)));
        let of_cards = cards.iter().zip(slots).map(|(board, (domain, root))| {
            let addresses = card_addresses(board, first_domain + domain, root, cards.len() == 1);
            (board, addresses)
        });
        for (number, (board, addresses)) in (0..).zip(of_galaxies.chain(of_cards)) {
            layout.add_local(seed, number, total, board, addresses);
        }
        layout.add_remotes();
        layout
    }

    fn add_local(&mut self, seed: u64, card: u64, total: u32, board: &'static Board, addresses: Vec<Pci>) {
        let product = board.product();
        let serial = serial(seed, board, card);
        let first = next_id(&self.chips);
        for (id, mut pci) in (first..).zip(addresses) {
            // In the driver, a deferred job assigns the lowest free number, so the second device may get the first number.
            pci.hwmon = if id < 2 && total > 1 { 1 - id } else { id };
            let asic_id = Random::new(seed, Purpose::AsicId, 0).at(id.into());
            let unique_id = unique_id(product, product.local_chip, serial, asic_id);
            self.chips.push(Chip { id, board, product, serial, asic_id, unique_id, location: Location::Local(pci) });
        }
        let ids: Vec<u32> = (first..next_id(&self.chips)).collect();
        self.units.extend(ids.chunks(4).map(<[u32]>::to_vec));
    }

    fn add_remotes(&mut self) {
        let locals = self.chips.len();
        for index in 0..locals {
            let Chip { id: via, board, product, serial, .. } = self.chips[index];
            for position in product.remote_chips {
                let id = next_id(&self.chips);
                // Remote chips have no files, so the asic id is never visible.
                let unique_id = unique_id(product, Some(*position), serial, 0);
                self.chips.push(Chip { id, board, product, serial, asic_id: 0, unique_id, location: Location::Remote });
                let unit = self.units.iter_mut().find(|unit| unit.contains(&via)).expect("every local chip is in a unit");
                unit.push(id);
            }
        }
    }
}

fn next_id(chips: &[Chip]) -> u32 {
    u32::try_from(chips.len()).expect("a machine has at most 256 devices")
}

/// Returns domain and root bus of each card. The cards are spread over the buses as on real mainboards.
fn slots(cards: usize) -> impl Iterator<Item = (u32, u32)> {
    let stride = match cards {
        0..=4 => 0x40,
        5..=8 => 0x20,
        9..=16 => 0x10,
        _ => 0x08,
    };
    (0..).flat_map(move |domain| (0..0x100).step_by(stride).map(move |root| (domain, root))).take(cards)
}

/// Returns the PCI addresses of a card's chips. A machine with one card has one NUMA node, which the kernel reports as -1.
fn card_addresses(board: &Board, domain: u32, root: u32, is_alone: bool) -> Vec<Pci> {
    let address = |chip| Pci {
        domain,
        root,
        bus: root + 1 + chip,
        port: 1 + chip,
        lanes: board.link.width,
        numa_node: if is_alone { -1 } else { i32::from(root >= 0x80) },
        hwmon: 0,
    };
    (0..board.chips).map(address).collect()
}

/// Returns the PCI addresses of a Galaxy's chips. The driver numbers them tray by tray, by the low nibble of the bus. The high nibble is
/// the tray (driver 2.8, `galaxy_bdf_to_ordinal`). The sixth chip of a tray has eight lanes, the others have one.
fn galaxy_addresses(board: &Board, domain: u32) -> Vec<Pci> {
    const TRAYS_WORMHOLE: [u32; 4] = [0xC0, 0x80, 0x00, 0x40];
    const TRAYS_BLACKHOLE: [u32; 4] = [0x00, 0x40, 0xC0, 0x80];
    let trays = if board.card_type == "galaxy-wormhole" { TRAYS_WORMHOLE } else { TRAYS_BLACKHOLE };
    let address = |root, nibble| Pci {
        domain,
        root,
        bus: root + nibble,
        port: nibble,
        lanes: if nibble == 6 { board.link.width } else { 1 },
        numa_node: -1,
        hwmon: 0,
    };
    trays.iter().flat_map(|root| (1..=8).map(move |nibble| address(*root, nibble))).collect()
}

/// Returns a board id: the product number above a revision and a serial number.
fn serial(seed: u64, board: &Board, card: u64) -> u64 {
    let Board { silicon, card_type, .. } = board;
    let product = board.product();
    let revision: u64 = if *card_type == "n300" { 5 } else { 1 };
    let own = match *card_type {
        // Captured Wormhole Galaxies have no serial.
        "galaxy-wormhole" => 0,
        _ => 0x1172_0000 | (Random::new(seed, Purpose::Serial, 0).at(card) & 0xFF) << 8 | (card & 0xFF),
    };
    silicon.serial_prefix | product.upi << 36 | revision << 32 | own
}

/// Returns the id that UMD computes for a chip. Tests compare it with the model's candidates.
fn unique_id(product: &Product, position: Option<ChipPosition>, serial: u64, asic_id: u64) -> u64 {
    let n300 = |high: u64| (high << 32) | ((serial >> 4) & 0xF000_0000) | (serial & 0x0FFF_FFFF);
    match position {
        Some(ChipPosition::Left) => n300(2),
        Some(ChipPosition::Right) => n300(3),
        None if product.shares_serial => asic_id,
        None if product.arch == ttmon_model::Arch::Blackhole => serial << 5,
        None => serial,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use ttmon_model::identity::unique_id_candidates;

    fn layout(spec: &str) -> Layout {
        Layout::new(&Spec::parse(spec).unwrap(), 7)
    }

    fn bdfs(layout: &Layout) -> Vec<String> {
        layout.chips.iter().filter_map(|chip| if let Location::Local(pci) = &chip.location { Some(pci.bdf()) } else { None }).collect()
    }

    #[test]
    fn a_t3k_has_four_local_and_four_remote_chips() {
        let layout = layout("t3k");
        assert_eq!(bdfs(&layout), ["0000:01:00.0", "0000:41:00.0", "0000:81:00.0", "0000:c1:00.0"]);
        assert_eq!(layout.units, [[0, 4], [1, 5], [2, 6], [3, 7]]);
    }

    #[test]
    fn galaxies_are_numbered_by_tray_and_nibble() {
        assert_eq!(bdfs(&layout("galaxy-bh"))[5], "0000:06:00.0");
        assert_eq!(bdfs(&layout("galaxy-bh"))[16], "0000:c1:00.0");
        assert_eq!(bdfs(&layout("galaxy"))[0], "0000:c1:00.0");
        let mixed = layout("n150,galaxy");
        assert_eq!((bdfs(&mixed)[31].as_str(), bdfs(&mixed)[32].as_str()), ("0000:48:00.0", "0001:01:00.0"));
    }

    #[test]
    fn addresses_and_ids_are_unique_on_the_largest_machines() {
        for spec in ["n150x256", "n300x128", "p300x128", "galaxyx4,galaxy-bhx4", "galaxy,galaxy-bh,t3k,p300x8,p150x8,n150x8,n300x8,p100a"] {
            let layout = layout(spec);
            let bdfs = bdfs(&layout);
            assert_eq!(bdfs.iter().collect::<BTreeSet<_>>().len(), bdfs.len(), "{spec}");
            for (index, chip) in layout.chips.iter().enumerate() {
                assert_eq!(chip.id as usize, index);
                let position = match chip.location {
                    Location::Local(_) => chip.product.local_chip,
                    Location::Remote => chip.product.remote_chips.first().copied(),
                };
                let own_id = matches!(chip.location, Location::Local(_)).then_some(chip.asic_id);
                let candidates = unique_id_candidates(own_id, Some(chip.serial), position, chip.product.shares_serial);
                for other in &layout.chips {
                    assert_eq!(candidates.contains(&other.unique_id), other.id == chip.id, "{spec}: {} and {}", chip.id, other.id);
                }
            }
        }
    }

    #[test]
    fn serials_name_their_product() {
        for chip in layout("n150,n300,p100a,p150,p300,galaxy,galaxy-bh").chips {
            assert_eq!((chip.serial >> 36) & 0xF_FFFF, chip.product.upi, "{}", chip.board.name);
        }
    }
}
