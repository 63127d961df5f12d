//! The driver's files: the format of their text, the valid values, and the first driver version that has each file. `collect` reads every
//! file in the table, and `derive` checks every value.

mod table;

use std::ops::RangeInclusive;

pub use table::{ATTRIBUTES, Attr, FROM_DEVICE, TO_DEVICE};

use crate::missing::{Missing, Reading};
use crate::product::Arch;
use crate::units::Version;

/// Directory of a file, relative to the class device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeFolder {
    /// `tenstorrent!N/`
    Class,
    /// `tenstorrent!N/device/hwmon/hwmonK/`, with the highest K.
    Hwmon,
    /// `tenstorrent!N/device/`
    Pci,
    /// The PCI bridge above the device.
    Bridge,
    /// `tenstorrent!N/pcie_perf_counters/`
    Counters,
}

/// Format of a file's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `54312`
    Decimal,
    /// `1`, or `-1` if there is no value.
    DecimalOrNone,
    /// `0x401e`
    PrefixedHex,
    /// `010001451172208F`
    Hex64,
    /// `n300`
    Word,
    /// `18.4.0.0`, or `255.255.255.255` if there is no version.
    FirmwareVersion,
    /// `16.0 GT/s PCIe`, read as a PCIe generation.
    LinkSpeed,
}

/// How often a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadInterval {
    /// Once, when the device appears.
    Static,
    /// In every sample.
    Dynamic,
    /// Once in several samples, because it rarely changes.
    Slow,
}

/// A raw value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raw {
    /// A number in the file's own unit.
    Number(u64),
    /// A word or a version.
    Text(Box<str>),
}

impl Raw {
    /// Returns the number, or `None` for a text.
    pub fn number(&self) -> Option<u64> {
        if let Self::Number(number) = self { Some(*number) } else { None }
    }

    /// Returns the text, or `None` for a number.
    pub fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

/// One file of the driver or of the kernel's PCI directory.
#[derive(Debug)]
pub struct Attribute {
    /// The name in code.
    pub attr: Attr,
    /// The directory of the file.
    pub folder: AttributeFolder,
    /// The file name.
    pub file: &'static str,
    /// The format of the text.
    pub format: Format,
    /// How often the file is read.
    pub interval: ReadInterval,
    /// Numbers outside this range are invalid. All ones, which a dead bus returns, is always outside.
    pub bounds: RangeInclusive<u64>,
    /// Whether the file determines the device's state. Only for files that every chip of the architecture answers: one ENODATA keeps the
    /// device unsettled, and two values out of range make it unreadable.
    pub shows_state: bool,
    /// The first driver that publishes the file, in the order of [`Arch`].
    pub since: [Option<Version>; 3],
}

impl Attribute {
    /// Returns the first driver that publishes the file for this architecture.
    pub fn since_on(&self, arch: Arch) -> Option<Version> {
        self.since[arch as usize]
    }

    /// Returns whether the value comes from the chip's firmware. The kernel itself provides the files of the PCI device.
    pub fn is_from_firmware(&self) -> bool {
        matches!(self.folder, AttributeFolder::Class | AttributeFolder::Hwmon | AttributeFolder::Counters)
    }

    /// Parses a text. [`Attribute::check_bounds`] checks the bounds. The number stays in the file's unit; `Value::of_file` converts it by
    /// the unit of the field.
    pub fn parse(&self, text: &str) -> Reading<Raw> {
        let text = text.trim_end_matches(['\n', ' ', '\0']);
        match self.format {
            Format::Decimal => parse_decimal(text),
            Format::DecimalOrNone if text == "-1" => Err(Missing::NoSource),
            Format::DecimalOrNone => parse_decimal(text),
            Format::PrefixedHex => text.strip_prefix("0x").ok_or(Missing::Unparsable).and_then(parse_hex),
            Format::Hex64 if text.len() == 16 => parse_hex(text),
            Format::Hex64 => Err(Missing::Unparsable),
            Format::Word => parse_word(text),
            Format::FirmwareVersion => parse_firmware_version(text),
            Format::LinkSpeed => parse_link_speed(text),
        }
    }

    /// Checks whether a parsed value is within its bounds.
    pub fn check_bounds(&self, raw: &Raw) -> Reading<()> {
        match raw {
            Raw::Number(number) if !self.bounds.contains(number) => Err(Missing::OutOfRange),
            _ => Ok(()),
        }
    }
}

fn parse_decimal(text: &str) -> Reading<Raw> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return Err(Missing::Unparsable);
    }
    text.parse().map(Raw::Number).map_err(|_| Missing::OutOfRange)
}

fn parse_hex(digits: &str) -> Reading<Raw> {
    let is_hex = (1..=16).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex {
        return Err(Missing::Unparsable);
    }
    u64::from_str_radix(digits, 16).map(Raw::Number).map_err(|_| Missing::Unparsable)
}

fn parse_word(text: &str) -> Reading<Raw> {
    let is_word = (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    match text {
        // The driver prints this for an unknown board.
        "unknown" => Err(Missing::NoSource),
        _ if is_word => Ok(Raw::Text(text.into())),
        _ => Err(Missing::Unparsable),
    }
}

fn parse_firmware_version(text: &str) -> Reading<Raw> {
    let parts: Vec<&str> = text.split('.').collect();
    let is_version = (3..=4).contains(&parts.len())
        && parts.iter().all(|part| (1..=5).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit()));
    match text {
        "255.255.255.255" | "255.15.4095" => Err(Missing::NoSource),
        _ if is_version => Ok(Raw::Text(text.into())),
        _ => Err(Missing::Unparsable),
    }
}

fn parse_link_speed(text: &str) -> Reading<Raw> {
    match text.split_once(' ').map_or(text, |(speed, _)| speed) {
        "2.5" => Ok(Raw::Number(1)),
        "5.0" | "5" => Ok(Raw::Number(2)),
        "8.0" | "8" => Ok(Raw::Number(3)),
        "16.0" | "16" => Ok(Raw::Number(4)),
        "32.0" | "32" => Ok(Raw::Number(5)),
        "64.0" | "64" => Ok(Raw::Number(6)),
        // The link is down.
        "Unknown" => Err(Missing::NoSource),
        _ => Err(Missing::Unparsable),
    }
}

/// The readings of all files of one device.
#[derive(Clone, Debug, PartialEq)]
pub struct Attributes(Vec<Reading<Raw>>);

impl Attributes {
    /// Returns a device without any value, for one reason.
    pub fn all_missing(reason: Missing) -> Self {
        Self(vec![Err(reason); ATTRIBUTES.len()])
    }

    /// Returns the reading of one file.
    pub fn get(&self, attr: Attr) -> Reading<&Raw> {
        self.0[attr as usize].as_ref().map_err(|reason| *reason)
    }

    /// Returns the reading, checked against the file's bounds.
    pub(crate) fn in_bounds(&self, attr: Attr) -> Reading<&Raw> {
        let raw = self.get(attr)?;
        attr.attribute().check_bounds(raw)?;
        Ok(raw)
    }

    /// Returns the number, checked against the file's bounds.
    pub fn number(&self, attr: Attr) -> Reading<u64> {
        self.in_bounds(attr)?.number().ok_or(Missing::Unparsable)
    }

    /// Returns the text of one file.
    pub fn text(&self, attr: Attr) -> Reading<&str> {
        self.get(attr)?.text().ok_or(Missing::Unparsable)
    }

    /// Sets the reading of one file.
    pub fn set(&mut self, attr: Attr, reading: Reading<Raw>) {
        self.0[attr as usize] = reading;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn table_follows_the_enum_and_names_files_once() {
        for (index, row) in ATTRIBUTES.iter().enumerate() {
            assert_eq!(row.attr as usize, index, "{row:?}");
            let same = ATTRIBUTES.iter().filter(|other| other.folder == row.folder && other.file == row.file);
            assert_eq!(same.count(), 1, "{}", row.file);
        }
        assert_eq!(TO_DEVICE.len() + FROM_DEVICE.len(), 12);
    }

    #[allow(clippy::needless_pass_by_value, reason = "reads better at the many calls")]
    fn check(attr: Attr, text: &str, expected: Reading<Raw>) {
        let row = attr.attribute();
        let reading = row.parse(text).and_then(|raw| row.check_bounds(&raw).map(|()| raw));
        assert_eq!(reading, expected, "{} {text:?}", row.file);
    }

    #[test]
    fn real_lines() {
        check(Attr::Temperature, "54312\n", Ok(Raw::Number(54312)));
        check(Attr::Serial, "010001451172208F\n", Ok(Raw::Number(0x0100_0145_1172_208F)));
        check(Attr::CardType, "galaxy-blackhole\n", Ok(Raw::Text("galaxy-blackhole".into())));
        check(Attr::FirmwareEth, "6.14.0\n", Ok(Raw::Text("6.14.0".into())));
        check(Attr::PciDevice, "0x401e\n", Ok(Raw::Number(0x401e)));
        check(Attr::LinkSpeed, "16.0 GT/s PCIe\n", Ok(Raw::Number(4)));
        check(Attr::LinkSpeed, "8 GT/s\n", Ok(Raw::Number(3)));
        check(Attr::NumaNode, "-1\n", Err(Missing::NoSource));
        check(Attr::CardType, "unknown\n", Err(Missing::NoSource));
        check(Attr::FirmwareBundle, "255.255.255.255\n", Err(Missing::NoSource));
    }

    /// Values of a dead bus (all ones) and of stale telemetry addresses (tt-kmd#213), by file.
    #[test]
    fn nonsense_is_out_of_range() {
        for (attr, text) in [
            (Attr::Temperature, "65535999"),
            (Attr::Temperature, "4095937"),
            (Attr::Temperature, "65535000"),
            (Attr::TemperatureMax, "4294966296"),
            (Attr::Voltage, "4294967295"),
            (Attr::Voltage, "3211313"),
            (Attr::VoltageMax, "65535"),
            (Attr::Current, "4294966296"),
            (Attr::Current, "65535000"),
            (Attr::Current, "3342387000"),
            (Attr::Power, "4293967296"),
            (Attr::Power, "1110490560"),
            (Attr::Power, "4080218930"),
            (Attr::PowerMax, "1110490560"),
            (Attr::Aiclk, "4294967295"),
            (Attr::Aiclk, "65535"),
            (Attr::Heartbeat, "4294967295"),
            (Attr::HostPosted0, "4294967295"),
            (Attr::LinkWidth, "63"),
            (Attr::Serial, "FFFFFFFFFFFFFFFF"),
            (Attr::AsicId, "FFFFFFFFFFFFFFFF"),
            (Attr::Heartbeat, "99999999999999999999999"),
        ] {
            check(attr, text, Err(Missing::OutOfRange));
        }
    }

    #[test]
    fn broken_text_is_unparsable() {
        for text in ["", "\n", " 5", "5x", "0x5", "-5", "5 5", "\u{fffd}", "1e3", "١"] {
            check(Attr::Temperature, text, Err(Missing::Unparsable));
        }
        check(Attr::Serial, "0100014511722", Err(Missing::Unparsable));
        check(Attr::CardType, "two words", Err(Missing::Unparsable));
        check(Attr::FirmwareBundle, "18.4", Err(Missing::Unparsable));
        check(Attr::FirmwareBundle, "18.4.0.x", Err(Missing::Unparsable));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,40}", bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            for row in ATTRIBUTES {
                for text in [text.as_str(), &String::from_utf8_lossy(&bytes)] {
                    if let Ok(raw) = row.parse(text) {
                        let _ = row.check_bounds(&raw);
                    }
                }
            }
        }

        #[test]
        fn numbers_come_back(number: u64) {
            let row = Attr::HostPosted0.attribute();
            prop_assert_eq!(row.parse(&format!("{number}\n")), Ok(Raw::Number(number)));
            let row = Attr::Serial.attribute();
            prop_assert_eq!(row.parse(&format!("{number:016X}\n")), Ok(Raw::Number(number)));
        }
    }
}
