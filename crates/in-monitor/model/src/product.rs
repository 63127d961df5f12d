//! The table of products: memory sizes, nominal clocks and remote chips.
//!
//! The driver does not publish harvesting, so core counts are nominal.

use crate::identity::ChipPosition;
use crate::units::Version;

/// Chip architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arch {
    /// Wormhole.
    Wormhole,
    /// Blackhole.
    Blackhole,
    /// Grayskull. Drivers since 2.2 do not support it.
    Grayskull,
}

impl Arch {
    /// Returns the name in JSON, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wormhole => "wormhole",
            Self::Blackhole => "blackhole",
            Self::Grayskull => "grayskull",
        }
    }

    /// TT-Metal's name of the architecture.
    pub fn chip_name(self) -> &'static str {
        match self {
            Self::Wormhole => "Wormhole_B0",
            Self::Blackhole => "Blackhole",
            Self::Grayskull => "Grayskull",
        }
    }

    /// Returns the architecture for a PCI device id.
    pub fn from_pci_device(device: u64) -> Option<Self> {
        match device {
            0x401e => Some(Self::Wormhole),
            0xb140 => Some(Self::Blackhole),
            0xfaca => Some(Self::Grayskull),
            _ => None,
        }
    }

    /// Returns the architecture for the `name` file of a hwmon directory, or for a name in a cluster descriptor (`wormhole_b0`).
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "wormhole" | "wormhole_b0" => Some(Self::Wormhole),
            "blackhole" => Some(Self::Blackhole),
            "grayskull" => Some(Self::Grayskull),
            _ => None,
        }
    }

    /// Returns the L1 bytes of one Tensix core that TT-Metal may use.
    pub fn l1_bytes_per_core(self) -> u64 {
        match self {
            Self::Wormhole => 1_499_136,
            Self::Blackhole => 1_572_864,
            Self::Grayskull => 1_048_576,
        }
    }

    /// Returns the bytes of one DRAM bank that TT-Metal may use: the `dram_view_size` of its SoC descriptors. Blackhole's banks have 4 GiB,
    /// of which 16 MiB are reserved.
    pub fn dram_bytes_per_bank(self) -> u64 {
        match self {
            Self::Wormhole | Self::Grayskull => GIB,
            Self::Blackhole => 4 * GIB - (16 << 20),
        }
    }

    /// Returns the bytes of one word of the PCIe counters. The value for Blackhole is unknown: the driver's documentation says 32, the
    /// hardware headers say 64.
    pub fn counter_word_bytes(self) -> Option<f64> {
        match self {
            Self::Wormhole | Self::Grayskull => Some(32.0),
            Self::Blackhole => None,
        }
    }

    /// Returns the nominal maximum AI clock.
    pub fn aiclk_limit_mhz(self) -> u64 {
        match self {
            Self::Wormhole => 1000,
            Self::Blackhole => 1350,
            Self::Grayskull => 1200,
        }
    }
}

const GIB: u64 = 1 << 30;

/// One kind of board.
#[derive(Debug)]
pub struct Product {
    /// Content of `tt_card_type`.
    pub card_type: &'static str,
    /// The UPI, which is part of the board id and is the PCI subsystem device.
    pub upi: u64,
    /// Architecture of its chips.
    pub arch: Arch,
    /// Nominal number of Tensix cores of a chip.
    pub cores: u64,
    /// Number of DRAM banks of a chip.
    pub dram_banks: u64,
    /// The chips that are reached only through another chip.
    pub remote_chips: &'static [ChipPosition],
    /// Position of the chip on PCIe, if the board has several positions.
    pub local_chip: Option<ChipPosition>,
    /// Whether several chips on PCIe print the same board serial.
    pub shares_serial: bool,
    /// Whether this board has narrow PCIe links by design, so that the width does not affect its health.
    pub narrow_link_is_normal: bool,
}

const fn product(card_type: &'static str, upi: u64, arch: Arch, cores: u64, dram_banks: u64) -> Product {
    Product {
        card_type,
        upi,
        arch,
        cores,
        dram_banks,
        remote_chips: &[],
        local_chip: None,
        shares_serial: false,
        narrow_link_is_normal: false,
    }
}

/// Boards by card type. Sources: the driver's `tt_sysfs_show_card_type`, UMD's harvesting tables, vendor pages.
pub const PRODUCTS: &[Product] = &[
    product("n150", 0x18, Arch::Wormhole, 72, 12),
    Product { remote_chips: &[ChipPosition::Right], local_chip: Some(ChipPosition::Left), ..product("n300", 0x14, Arch::Wormhole, 64, 12) },
    Product { shares_serial: true, narrow_link_is_normal: true, ..product("galaxy-wormhole", 0x35, Arch::Wormhole, 80, 12) },
    product("p100", 0x36, Arch::Blackhole, 140, 8),
    product("p100a", 0x43, Arch::Blackhole, 120, 7),
    product("p150a", 0x40, Arch::Blackhole, 120, 8),
    product("p150b", 0x41, Arch::Blackhole, 120, 8),
    product("p150c", 0x42, Arch::Blackhole, 120, 8),
    Product { shares_serial: true, ..product("p300b", 0x44, Arch::Blackhole, 120, 8) },
    Product { shares_serial: true, ..product("p300a", 0x45, Arch::Blackhole, 120, 8) },
    Product { shares_serial: true, ..product("p300c", 0x46, Arch::Blackhole, 120, 8) },
    Product { shares_serial: true, narrow_link_is_normal: true, ..product("galaxy-blackhole", 0x47, Arch::Blackhole, 130, 8) },
    product("e150", 0x03, Arch::Grayskull, 120, 8),
    product("e75", 0x07, Arch::Grayskull, 96, 8),
];

impl Product {
    /// Returns the product for a card type.
    pub fn by_card_type(card_type: &str) -> Option<&'static Self> {
        PRODUCTS.iter().find(|product| product.card_type == card_type)
    }

    /// Returns the product for a PCI subsystem device. This is used if the driver prints no card type.
    pub fn by_subsystem_device(upi: u64) -> Option<&'static Self> {
        PRODUCTS.iter().find(|product| product.upi == upi)
    }

    /// Returns the DRAM of a chip that TT-Metal can allocate, in bytes.
    pub fn dram_bytes(&self) -> u64 {
        self.dram_banks * self.arch.dram_bytes_per_bank()
    }

    /// Returns the nominal number of Tensix cores with this firmware. Bundle 19.5 reduced p150 from 140 to 120. Bundles numbered 80.x are
    /// older than 18.x.
    pub fn cores_with(&self, firmware: Option<Version>) -> u64 {
        let is_p150 = matches!(self.card_type, "p150a" | "p150b" | "p150c");
        let is_old = firmware.is_some_and(|version| version < Version::new(19, 5, 0) || version.major >= 80);
        if is_p150 && is_old { 140 } else { self.cores }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sound() {
        for product in PRODUCTS {
            assert!(product.cores > 0 && product.dram_bytes() >= 8 * GIB, "{}", product.card_type);
            assert_eq!(Product::by_subsystem_device(product.upi).unwrap().card_type, product.card_type);
            assert_eq!(product.remote_chips.is_empty(), product.local_chip.is_none(), "{}", product.card_type);
        }
    }

    #[test]
    fn dram_is_what_metal_can_allocate() {
        let dram = |card_type| Product::by_card_type(card_type).unwrap().dram_bytes();
        assert_eq!(["n150", "p150a", "p100a"].map(dram), [12 * GIB, 8 * 4_278_190_080, 7 * 4_278_190_080]);
    }

    #[test]
    fn p150_lost_cores_with_bundle_19_5() {
        let p150 = Product::by_card_type("p150a").unwrap();
        assert_eq!(p150.cores_with(Version::parse("18.4.0.0")), 140);
        assert_eq!(p150.cores_with(Version::parse("80.17.0.0")), 140);
        assert_eq!(p150.cores_with(Version::parse("19.5.0.0")), 120);
        assert_eq!(p150.cores_with(None), 120);
    }
}
