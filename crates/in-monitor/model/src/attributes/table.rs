//! The table of the driver's files. A new file takes a name in [`Attr`] and a row at the same position of [`ATTRIBUTES`].

use std::ops::RangeInclusive;

use super::{Attribute, AttributeFolder as Folder, Format, ReadInterval};
use crate::units::Version;

const U32_VALID: RangeInclusive<u64> = 0..=0xFFFF_FFFE;
/// All ones are the answer of a dead bus.
const ANY_BUT_ONES: RangeInclusive<u64> = 0..=u64::MAX - 1;
const CLOCK: RangeInclusive<u64> = 0..=10_000;
const LANES: RangeInclusive<u64> = 1..=32;
const GENERATION: RangeInclusive<u64> = 1..=7;

const fn v(major: u32, minor: u32) -> Option<Version> {
    Some(Version::new(major, minor, 0))
}
const SINCE_KERNEL: [Option<Version>; 3] = [v(0, 0), v(0, 0), v(0, 0)];
const SINCE_1_28: [Option<Version>; 3] = [v(1, 28), v(1, 32), v(1, 28)];
const SINCE_1_28_BUT_BLACKHOLE: [Option<Version>; 3] = [v(1, 28), None, v(1, 28)];
const SINCE_HWMON: [Option<Version>; 3] = [v(1, 27), v(1, 32), v(1, 27)];
const SINCE_HWMON_MAX: [Option<Version>; 3] = [v(1, 27), v(2, 9), v(1, 27)];
const SINCE_COUNTERS: [Option<Version>; 3] = [v(2, 0), v(2, 0), None];

/// Every file, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "each is the file in its row")]
pub enum Attr {
    AsicId,
    Serial,
    NumaNode,
    Temperature,
    TemperatureMax,
    Fan,
    Power,
    PowerMax,
    Voltage,
    VoltageMax,
    Current,
    CurrentMax,
    Aiclk,
    Axiclk,
    Arcclk,
    Heartbeat,
    ThermTrips,
    LinkSpeed,
    LinkWidth,
    LinkSpeedMax,
    LinkWidthMax,
    FirmwareBundle,
    FirmwareM3App,
    FirmwareM3Boot,
    FirmwareArc,
    FirmwareEth,
    TtFlash,
    CardType,
    HwmonName,
    PciDevice,
    SubsystemDevice,
    BridgeWidthMax,
    HostPosted0,
    HostPosted1,
    HostNonposted0,
    HostNonposted1,
    HostRead0,
    HostRead1,
    ChipPosted0,
    ChipPosted1,
    ChipNonposted0,
    ChipNonposted1,
    ChipRead0,
    ChipRead1,
}

impl Attr {
    /// Returns the row of this file in the table.
    pub fn attribute(self) -> &'static Attribute {
        &ATTRIBUTES[self as usize]
    }
}

/// The files, in the order of [`Attr`].
pub const ATTRIBUTES: &[Attribute] = &[
    file(Attr::AsicId, Folder::Class, "tt_asic_id", Format::Hex64).since([v(2, 3), v(2, 1), None]),
    file(Attr::Serial, Folder::Class, "tt_serial", Format::Hex64).since(SINCE_1_28),
    file(Attr::NumaNode, Folder::Pci, "numa_node", Format::DecimalOrNone).range(0..=65_535).since(SINCE_KERNEL),
    file(Attr::Temperature, Folder::Hwmon, "temp1_input", Format::Decimal).range(0..=150_000).dynamic().shows_state().since(SINCE_HWMON),
    file(Attr::TemperatureMax, Folder::Hwmon, "temp1_max", Format::Decimal).range(1_000..=150_000).since(SINCE_HWMON_MAX),
    file(Attr::Fan, Folder::Hwmon, "fan1_input", Format::Decimal).range(0..=u64::MAX).dynamic().since([None, v(2, 0), None]),
    file(Attr::Power, Folder::Hwmon, "power1_input", Format::Decimal).range(0..=1_000_000_000).dynamic().shows_state().since(SINCE_HWMON),
    file(Attr::PowerMax, Folder::Hwmon, "power1_max", Format::Decimal).range(1_000_000..=1_000_000_000).since(SINCE_HWMON_MAX),
    file(Attr::Voltage, Folder::Hwmon, "in0_input", Format::Decimal).range(0..=2_000).dynamic().shows_state().since(SINCE_HWMON),
    file(Attr::VoltageMax, Folder::Hwmon, "in0_max", Format::Decimal).range(100..=2_000).since(SINCE_HWMON_MAX),
    file(Attr::Current, Folder::Hwmon, "curr1_input", Format::Decimal).range(0..=1_000_000).dynamic().shows_state().since(SINCE_HWMON),
    file(Attr::CurrentMax, Folder::Hwmon, "curr1_max", Format::Decimal).range(1_000..=2_000_000).since(SINCE_HWMON_MAX),
    file(Attr::Aiclk, Folder::Class, "tt_aiclk", Format::Decimal).range(CLOCK).dynamic().shows_state().since(SINCE_1_28),
    file(Attr::Axiclk, Folder::Class, "tt_axiclk", Format::Decimal).range(CLOCK).dynamic().shows_state().since(SINCE_1_28),
    file(Attr::Arcclk, Folder::Class, "tt_arcclk", Format::Decimal).range(CLOCK).dynamic().shows_state().since(SINCE_1_28),
    file(Attr::Heartbeat, Folder::Class, "tt_heartbeat", Format::Decimal).range(U32_VALID).dynamic().shows_state().since([
        v(2, 7),
        v(2, 7),
        None,
    ]),
    file(Attr::ThermTrips, Folder::Class, "tt_therm_trip_count", Format::Decimal).range(U32_VALID).dynamic().shows_state().since([
        None,
        v(2, 7),
        None,
    ]),
    file(Attr::LinkSpeed, Folder::Pci, "current_link_speed", Format::LinkSpeed).range(GENERATION).slow().since(SINCE_KERNEL),
    file(Attr::LinkWidth, Folder::Pci, "current_link_width", Format::Decimal).range(LANES).slow().since(SINCE_KERNEL),
    file(Attr::LinkSpeedMax, Folder::Pci, "max_link_speed", Format::LinkSpeed).range(GENERATION).since(SINCE_KERNEL),
    file(Attr::LinkWidthMax, Folder::Pci, "max_link_width", Format::Decimal).range(LANES).since(SINCE_KERNEL),
    file(Attr::FirmwareBundle, Folder::Class, "tt_fw_bundle_ver", Format::FirmwareVersion).since([v(1, 29), v(1, 32), v(1, 29)]),
    file(Attr::FirmwareM3App, Folder::Class, "tt_m3app_fw_ver", Format::FirmwareVersion).since([v(1, 28), v(1, 32), None]),
    file(Attr::FirmwareM3Boot, Folder::Class, "tt_m3bl_fw_ver", Format::FirmwareVersion).since([v(1, 28), None, None]),
    file(Attr::FirmwareArc, Folder::Class, "tt_arc_fw_ver", Format::FirmwareVersion).since(SINCE_1_28_BUT_BLACKHOLE),
    file(Attr::FirmwareEth, Folder::Class, "tt_eth_fw_ver", Format::FirmwareVersion).since([v(1, 28), None, None]),
    file(Attr::TtFlash, Folder::Class, "tt_ttflash_ver", Format::FirmwareVersion).since(SINCE_1_28_BUT_BLACKHOLE),
    file(Attr::CardType, Folder::Class, "tt_card_type", Format::Word).since(SINCE_1_28),
    file(Attr::HwmonName, Folder::Hwmon, "name", Format::Word).since(SINCE_HWMON),
    file(Attr::PciDevice, Folder::Pci, "device", Format::PrefixedHex).since(SINCE_KERNEL),
    file(Attr::SubsystemDevice, Folder::Pci, "subsystem_device", Format::PrefixedHex).since(SINCE_KERNEL),
    file(Attr::BridgeWidthMax, Folder::Bridge, "max_link_width", Format::Decimal).range(LANES).since(SINCE_KERNEL),
    counter(Attr::HostPosted0, "mst_posted_wr_data_word_sent0"),
    counter(Attr::HostPosted1, "mst_posted_wr_data_word_sent1"),
    counter(Attr::HostNonposted0, "mst_nonposted_wr_data_word_sent0"),
    counter(Attr::HostNonposted1, "mst_nonposted_wr_data_word_sent1"),
    counter(Attr::HostRead0, "mst_rd_data_word_received0"),
    counter(Attr::HostRead1, "mst_rd_data_word_received1"),
    counter(Attr::ChipPosted0, "slv_posted_wr_data_word_received0"),
    counter(Attr::ChipPosted1, "slv_posted_wr_data_word_received1"),
    counter(Attr::ChipNonposted0, "slv_nonposted_wr_data_word_received0"),
    counter(Attr::ChipNonposted1, "slv_nonposted_wr_data_word_received1"),
    counter(Attr::ChipRead0, "slv_rd_data_word_sent0"),
    counter(Attr::ChipRead1, "slv_rd_data_word_sent1"),
];

/// Counters of data sent to the chip: writes by the host, and reads of host memory by the chip.
pub const TO_DEVICE: &[Attr] =
    &[Attr::HostPosted0, Attr::HostPosted1, Attr::HostNonposted0, Attr::HostNonposted1, Attr::ChipRead0, Attr::ChipRead1];
/// Counters of data sent by the chip: its writes to host memory, and reads by the host.
pub const FROM_DEVICE: &[Attr] =
    &[Attr::HostRead0, Attr::HostRead1, Attr::ChipPosted0, Attr::ChipPosted1, Attr::ChipNonposted0, Attr::ChipNonposted1];

/// A file that is read once.
const fn file(attr: Attr, folder: Folder, file: &'static str, format: Format) -> Attribute {
    let (interval, bounds, since) = (ReadInterval::Static, ANY_BUT_ONES, SINCE_KERNEL);
    Attribute { attr, folder, file, format, interval, bounds, shows_state: false, since }
}

/// A counter of the chip's PCIe traffic.
const fn counter(attr: Attr, name: &'static str) -> Attribute {
    file(attr, Folder::Counters, name, Format::Decimal).range(U32_VALID).dynamic().since(SINCE_COUNTERS)
}

impl Attribute {
    const fn range(self, bounds: RangeInclusive<u64>) -> Self {
        Self { bounds, ..self }
    }

    const fn dynamic(self) -> Self {
        Self { interval: ReadInterval::Dynamic, ..self }
    }

    const fn slow(self) -> Self {
        Self { interval: ReadInterval::Slow, ..self }
    }

    const fn shows_state(self) -> Self {
        Self { shows_state: true, ..self }
    }

    /// The first driver that publishes the file, for each architecture.
    const fn since(self, since: [Option<Version>; 3]) -> Self {
        Self { since, ..self }
    }
}
