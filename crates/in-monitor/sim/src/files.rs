//! The text of each driver file for a chip in a given state. The model's table lists the files.

use ttmon_model::attributes::{ATTRIBUTES, Attribute, AttributeFolder, Format};
use ttmon_model::units::Version;
use ttmon_model::{Arch, Attr};

use crate::chip::{Chip, Pci};
use crate::random::{Purpose, Random, whole};
use crate::telemetry::Telemetry;

/// The share of each counter in a chip's traffic. Programs mostly write to the chip and let it write back. NoC 1 is rarely used.
const TRAFFIC: [(Attr, f64); 12] = [
    (Attr::HostPosted0, 0.40),
    (Attr::HostPosted1, 0.04),
    (Attr::HostNonposted0, 0.01),
    (Attr::HostNonposted1, 0.0),
    (Attr::HostRead0, 0.02),
    (Attr::HostRead1, 0.01),
    (Attr::ChipPosted0, 0.28),
    (Attr::ChipPosted1, 0.03),
    (Attr::ChipNonposted0, 0.01),
    (Attr::ChipNonposted1, 0.0),
    (Attr::ChipRead0, 0.18),
    (Attr::ChipRead1, 0.02),
];

/// The index of the first random number for counters. Another index would change every simulated machine.
const COUNTER_DRAWS: u64 = 32;

/// Returns the files that this driver publishes for a chip of this architecture.
pub(crate) fn published(arch: Arch, driver: Version) -> impl Iterator<Item = &'static Attribute> {
    ATTRIBUTES.iter().filter(move |row| row.since_on(arch).is_some_and(|since| since <= driver))
}

/// Returns whether the simulation changes the file. Link and slower clocks could change, but do not.
pub(crate) fn moves(attr: Attr) -> bool {
    let is_sensor =
        matches!(attr, Attr::Temperature | Attr::Power | Attr::Voltage | Attr::Current | Attr::Fan | Attr::Aiclk | Attr::Heartbeat);
    is_sensor || attr.attribute().folder == AttributeFolder::Counters
}

/// Returns the contents of a file, without the newline.
pub(crate) fn text(chip: &Chip, pci: &Pci, seed: u64, attr: Attr, now: &Telemetry) -> String {
    let board = chip.board;
    let (silicon, limits) = (board.silicon, board.limits);
    let is_galaxy_bh = board.card_type == "galaxy-blackhole";
    match attr {
        // The driver converts a fixed-point number, so only every 15th or 16th thousandth occurs.
        Attr::Temperature => (whole(now.celsius * 65_536.0) * 1000 / 65_536).to_string(),
        Attr::TemperatureMax => (limits.celsius * 1000).to_string(),
        Attr::Power => (now.watts * 1_000_000).to_string(),
        Attr::PowerMax => (limits.watts * 1_000_000).to_string(),
        Attr::Voltage => now.millivolts.to_string(),
        Attr::VoltageMax => limits.millivolts.to_string(),
        Attr::Current => (now.amperes * 1000).to_string(),
        Attr::CurrentMax => (limits.amperes * 1000).to_string(),
        Attr::Fan => now.fan_rpm.to_string(),
        Attr::Aiclk => now.aiclk_mhz.to_string(),
        Attr::Axiclk => silicon.axiclk_mhz.to_string(),
        Attr::Arcclk => silicon.arcclk_mhz.to_string(),
        Attr::Heartbeat => now.heartbeat.to_string(),
        Attr::ThermTrips => "0".to_owned(),
        Attr::Serial => format!("{:016X}", chip.serial),
        Attr::CardType => board.card_type.to_owned(),
        Attr::AsicId => format!("{:016X}", chip.asic_id),
        Attr::FirmwareBundle => silicon.firmware_bundle.to_owned(),
        Attr::FirmwareM3App if silicon.arch == Arch::Wormhole => "5.12.0.0".to_owned(),
        Attr::FirmwareM3App if is_galaxy_bh => "0.0.0.0".to_owned(),
        Attr::FirmwareM3App => "0.22.0.0".to_owned(),
        Attr::FirmwareM3Boot => "129.2.0.0".to_owned(),
        Attr::FirmwareArc => "2.36.0.0".to_owned(),
        Attr::FirmwareEth => "6.14.0".to_owned(),
        Attr::TtFlash => "3.3.2.0".to_owned(),
        Attr::HwmonName => silicon.arch.name().to_owned(),
        Attr::PciDevice => format!("{:#06x}", silicon.pci_device),
        Attr::SubsystemDevice => format!("{:#06x}", chip.product.upi),
        Attr::NumaNode => pci.numa_node.to_string(),
        Attr::LinkSpeed => board.link.speed.to_owned(),
        Attr::LinkSpeedMax => board.link.speed_max.to_owned(),
        Attr::LinkWidth | Attr::LinkWidthMax | Attr::BridgeWidthMax => pci.lanes.to_string(),
        counter if counter.attribute().folder == AttributeFolder::Counters => count(chip, seed, counter, now).to_string(),
        other => unmodelled(other.attribute()),
    }
}

/// Returns the text of a file that is not simulated: the lowest value that its row allows.
fn unmodelled(row: &Attribute) -> String {
    let number = *row.bounds.start();
    match row.format {
        Format::Decimal | Format::DecimalOrNone => number.to_string(),
        Format::PrefixedHex => format!("{number:#06x}"),
        Format::Hex64 => format!("{number:016X}"),
        Format::Word => "simulated".to_owned(),
        Format::FirmwareVersion => "1.0.0.0".to_owned(),
        Format::LinkSpeed => "2.5 GT/s PCIe".to_owned(),
    }
}

/// Returns the value of a counter. Counters are 32 bits wide and wrap. They skip the value of all ones, which a dead bus returns.
fn count(chip: &Chip, seed: u64, attr: Attr, now: &Telemetry) -> u64 {
    let place = TRAFFIC.iter().position(|(counter, _)| *counter == attr);
    let share = place.map_or(0.0, |place| TRAFFIC[place].1);
    let start = Random::new(seed, Purpose::Counters, chip.id.into()).at(COUNTER_DRAWS + place.unwrap_or_default() as u64);
    let count = (start & 0xFFFF_FFFF) + whole(now.words * share);
    (count & 0xFFFF_FFFF).min(0xFFFF_FFFE)
}

/// Returns the text when the bus returns all ones, or `None` if the kernel provides the file. Before driver 2.9, Wormhole used 16 bits.
pub(crate) fn all_ones(attr: Attr, arch: Arch, driver: Version) -> Option<&'static str> {
    let is_narrow = arch == Arch::Wormhole && driver < Version::new(2, 9, 0);
    match attr.attribute().folder {
        AttributeFolder::Pci | AttributeFolder::Bridge => return None,
        AttributeFolder::Counters => return Some("4294967295"),
        AttributeFolder::Class | AttributeFolder::Hwmon => {}
    }
    Some(match attr {
        Attr::Temperature if is_narrow => "4095937",
        Attr::TemperatureMax | Attr::Current | Attr::CurrentMax if is_narrow => "65535000",
        Attr::Power | Attr::PowerMax if is_narrow => "1110490560",
        Attr::Temperature => "65535999",
        Attr::TemperatureMax | Attr::Current | Attr::CurrentMax => "4294966296",
        Attr::Power | Attr::PowerMax => "4293967296",
        Attr::VoltageMax => "65535",
        Attr::Serial | Attr::AsicId => "FFFFFFFFFFFFFFFF",
        Attr::CardType => "unknown",
        Attr::FirmwareEth => "255.15.4095",
        Attr::FirmwareBundle | Attr::FirmwareM3App | Attr::FirmwareM3Boot | Attr::FirmwareArc | Attr::TtFlash => "255.255.255.255",
        // The name is a constant of the driver.
        Attr::HwmonName => return None,
        _ => "4294967295",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmon_model::attributes::{FROM_DEVICE, TO_DEVICE};
    use ttmon_model::{Missing, Raw};

    #[test]
    fn all_counters_have_a_share() {
        for attr in TO_DEVICE.iter().chain(FROM_DEVICE) {
            assert_eq!(TRAFFIC.iter().filter(|(counter, _)| counter == attr).count(), 1, "{attr:?}");
        }
        let total: f64 = TRAFFIC.iter().map(|(_, share)| share).sum();
        assert!((total - 1.0).abs() < 1e-9);
    }

    /// The model rejects the value of a dead bus in every file.
    #[test]
    fn all_ones_is_no_reading() {
        let drivers = [Version::new(2, 5, 0), Version::new(2, 9, 0)];
        for (row, driver) in ATTRIBUTES.iter().flat_map(|row| drivers.map(|driver| (row, driver))) {
            let Some(text) = all_ones(row.attr, Arch::Wormhole, driver) else { continue };
            let reading = row.parse(text).and_then(|raw| row.check_bounds(&raw).map(|()| raw));
            match row.attr {
                Attr::Fan => assert_eq!(reading, Ok(Raw::Number(0xFFFF_FFFF))),
                _ => assert!(matches!(reading, Err(Missing::OutOfRange | Missing::NoSource)), "{}: {reading:?}", row.file),
            }
        }
    }
}
