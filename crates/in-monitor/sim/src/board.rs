//! The boards that can be simulated: their published limits, and their idle and busy values.
//!
//! The model's product table has the properties that ttmon itself uses (cores, memory, remote chips). This table has the values that exist
//! only in the driver's files. Limits come from firmware tables, idle values from captured machines.

use ttmon_model::Arch;
use ttmon_model::product::Product;

#[derive(Debug)]
pub(crate) struct Board {
    pub(crate) name: &'static str,
    /// The contents of `tt_card_type`.
    pub(crate) card_type: &'static str,
    pub(crate) cards: u32,
    /// The number of chips of one card on PCIe.
    pub(crate) chips: u32,
    pub(crate) silicon: &'static Silicon,
    pub(crate) limits: Limits,
    pub(crate) idle: Point,
    pub(crate) busy: Point,
    pub(crate) link: Link,
    /// Whether the firmware drives a fan and reports its speed.
    pub(crate) has_fan: bool,
}

/// Chips of a Galaxy: four trays of eight.
const GALAXY_CHIPS: u32 = 32;

/// The values of the `*_max` files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) celsius: u64,
    pub(crate) watts: u64,
    pub(crate) amperes: u64,
    pub(crate) millivolts: u64,
}

/// The steady state of an idle or a busy chip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) celsius: f64,
    pub(crate) watts: f64,
    pub(crate) millivolts: f64,
}

const fn point(celsius: f64, watts: f64, millivolts: f64) -> Point {
    Point { celsius, watts, millivolts }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) speed: &'static str,
    pub(crate) speed_max: &'static str,
    /// Number of lanes. On a Galaxy, only one chip of each tray has this many.
    pub(crate) width: u32,
}

const GEN4: &str = "16.0 GT/s PCIe";
const GEN5: &str = "32.0 GT/s PCIe";

/// Properties that all chips of an architecture share.
#[derive(Debug)]
pub(crate) struct Silicon {
    pub(crate) arch: Arch,
    pub(crate) pci_device: u32,
    pub(crate) aiclk_idle_mhz: u64,
    pub(crate) aiclk_busy_mhz: u64,
    pub(crate) axiclk_mhz: u64,
    pub(crate) arcclk_mhz: u64,
    pub(crate) firmware_bundle: &'static str,
    pub(crate) labels: &'static [(&'static str, &'static str)],
    /// The bits of a board id above the product number. Wormhole's ids begin with 01.
    pub(crate) serial_prefix: u64,
}

const WORMHOLE: Silicon = Silicon {
    arch: Arch::Wormhole,
    pci_device: 0x401e,
    aiclk_idle_mhz: 500,
    aiclk_busy_mhz: 1000,
    axiclk_mhz: 900,
    arcclk_mhz: 540,
    firmware_bundle: "19.13.0.0",
    labels: &[("temp1_label", "asic1_temp"), ("in0_label", "vcore1"), ("curr1_label", "current1"), ("power1_label", "power1")],
    serial_prefix: 0x01 << 56,
};

const BLACKHOLE: Silicon = Silicon {
    arch: Arch::Blackhole,
    pci_device: 0xb140,
    aiclk_idle_mhz: 800,
    aiclk_busy_mhz: 1350,
    axiclk_mhz: 960,
    arcclk_mhz: 800,
    firmware_bundle: "19.13.0.0",
    labels: &[
        ("temp1_label", "asic_temp"),
        ("in0_label", "vcore"),
        ("curr1_label", "current"),
        ("power1_label", "power"),
        ("fan1_label", "fan_rpm"),
    ],
    serial_prefix: 0,
};

const N150: Board = Board {
    name: "n150",
    card_type: "n150",
    cards: 1,
    chips: 1,
    silicon: &WORMHOLE,
    limits: Limits { celsius: 75, watts: 100, amperes: 240, millivolts: 950 },
    idle: point(36.0, 14.0, 795.0),
    busy: point(62.0, 84.0, 905.0),
    link: Link { speed: GEN4, speed_max: GEN4, width: 16 },
    has_fan: false,
};

const N300: Board = Board {
    name: "n300",
    card_type: "n300",
    limits: Limits { celsius: 75, watts: 85, amperes: 160, millivolts: 1000 },
    busy: point(63.0, 72.0, 900.0),
    ..N150
};

const GALAXY: Board = Board {
    name: "galaxy",
    card_type: "galaxy-wormhole",
    chips: GALAXY_CHIPS,
    limits: Limits { celsius: 75, watts: 170, amperes: 240, millivolts: 1000 },
    idle: point(33.0, 20.0, 800.0),
    busy: point(58.0, 130.0, 930.0),
    link: Link { speed: GEN4, speed_max: GEN4, width: 8 },
    ..N150
};

const P150: Board = Board {
    name: "p150",
    card_type: "p150a",
    silicon: &BLACKHOLE,
    limits: Limits { celsius: 90, watts: 150, amperes: 200, millivolts: 900 },
    idle: point(43.0, 30.0, 722.0),
    busy: point(72.0, 128.0, 850.0),
    link: Link { speed: GEN5, speed_max: GEN5, width: 16 },
    has_fan: true,
    ..N150
};

const P300: Board = Board {
    name: "p300",
    card_type: "p300c",
    chips: 2,
    limits: Limits { celsius: 90, watts: 125, amperes: 500, millivolts: 900 },
    idle: point(35.0, 17.0, 720.0),
    busy: point(68.0, 106.0, 845.0),
    link: Link { speed: GEN4, speed_max: GEN5, width: 8 },
    has_fan: false,
    ..P150
};

const GALAXY_BH: Board = Board {
    name: "galaxy-bh",
    card_type: "galaxy-blackhole",
    chips: GALAXY_CHIPS,
    limits: Limits { celsius: 90, watts: 130, amperes: 500, millivolts: 900 },
    idle: point(42.0, 37.0, 742.0),
    busy: point(66.0, 108.0, 850.0),
    link: Link { speed: GEN4, speed_max: GEN5, width: 8 },
    has_fan: false,
    ..P150
};

/// Every board that a spec may name, in the order of messages.
pub(crate) static BOARDS: [Board; 8] = [
    N150,
    N300,
    Board { name: "t3k", cards: 4, ..N300 },
    GALAXY,
    GALAXY_BH,
    Board { name: "p100a", card_type: "p100a", ..P150 },
    P150,
    P300,
];

impl Board {
    pub(crate) fn product(&self) -> &'static Product {
        Product::by_card_type(self.card_type).expect("the model knows every board that is simulated")
    }

    /// Returns the number of chips, including remote ones.
    pub(crate) fn devices(&self) -> u64 {
        let remote_chips = self.product().remote_chips.len() as u64;
        u64::from(self.cards) * u64::from(self.chips) * (1 + remote_chips)
    }

    pub(crate) fn is_galaxy(&self) -> bool {
        self.chips == GALAXY_CHIPS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_fits_the_model_and_itself() {
        for board in &BOARDS {
            let product = board.product();
            assert_eq!(product.arch, board.silicon.arch, "{}", board.name);
            assert_eq!(product.arch.aiclk_limit_mhz(), board.silicon.aiclk_busy_mhz, "{}", board.name);
            assert_eq!(Arch::from_pci_device(board.silicon.pci_device.into()), Some(product.arch), "{}", board.name);
            assert_eq!(product.shares_serial, board.chips > 1, "{}", board.name);
            // A busy chip is healthy: it stays well below 90 % of each limit that the health check uses.
            let amperes = board.busy.watts / board.busy.millivolts * 1000.0;
            assert!(board.busy.celsius < board.limits.celsius as f64 * 0.87, "{}", board.name);
            assert!(amperes < board.limits.amperes as f64 * 0.85, "{}", board.name);
            assert!(board.busy.watts < board.limits.watts as f64 && board.busy.millivolts < board.limits.millivolts as f64);
        }
    }

    #[test]
    fn devices_count_remote_chips() {
        let devices = |name| BOARDS.iter().find(|board| board.name == name).unwrap().devices();
        assert_eq!(["n150", "n300", "t3k", "galaxy", "galaxy-bh", "p300"].map(devices), [1, 2, 8, 32, 32, 2]);
    }
}
