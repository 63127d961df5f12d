//! Selects devices: `-d 0,2-3`, `-d 0000:c1:00.0`, `-d board:n300`.

use std::fmt;

use crate::identity::{Bdf, gaps, ranges};
use crate::snapshot::{Device, Snapshot};

/// One item of a device list.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Selector {
    Ids(u32, u32),
    Bdf(Bdf),
    /// An asic id or a serial number: 16 hexadecimal digits.
    HardwareId(String),
    /// A prefix of the board's name.
    Board(String),
}

/// Why a list of devices cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the texts document the causes")]
pub enum SelectionError {
    #[error("no device {unknown} (available: {available})")]
    Unknown { unknown: String, available: String },
    #[error("the range {0} runs backwards")]
    Backwards(String),
    #[error("{0:?} names no device; use an id (0), a range (0-3), a PCI address (0000:c1:00.0), an asic id, a serial or board:NAME")]
    NotADevice(String),
}

/// A list of devices in the user's notation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection(Vec<Selector>);

impl Selection {
    /// Parses a comma-separated list.
    pub fn parse(text: &str) -> Result<Self, SelectionError> {
        text.split(',').map(|word| parse_word(word.trim())).collect::<Result<_, _>>().map(Self)
    }

    /// Adds another list.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Returns whether the selection is empty, which means all devices.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a device is selected.
    pub fn matches(&self, device: &Device) -> bool {
        self.is_empty() || self.0.iter().any(|selector| selector.matches(device))
    }

    /// Returns an error for named devices that do not exist.
    pub fn check(&self, snapshot: &Snapshot) -> Result<(), SelectionError> {
        let devices = &snapshot.devices;
        let mut unknown: Vec<String> = Vec::new();
        for selector in self.0.iter().flat_map(|selector| selector.unknown(devices)) {
            let word = selector.to_string();
            if !unknown.contains(&word) {
                unknown.push(word);
            }
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let available = if devices.is_empty() { "none".to_owned() } else { ranges(devices.iter().map(|device| device.id)) };
        Err(SelectionError::Unknown { unknown: unknown.join(", "), available })
    }

    /// Keeps only the selected devices and the processes on them.
    pub fn apply(&self, snapshot: &mut Snapshot) {
        if self.is_empty() {
            return;
        }
        snapshot.devices.retain(|device| self.matches(device));
        let kept: Vec<_> = snapshot.devices.iter().map(|device| device.id).collect();
        for process in &mut snapshot.processes {
            process.devices.retain(|use_of| kept.contains(&use_of.device));
        }
        snapshot.processes.retain(|process| !process.devices.is_empty());
        let is_kept = |devices: &[crate::DeviceId]| devices.iter().any(|device| kept.contains(device));
        snapshot.allocators.retain(|allocator| is_kept(&allocator.devices));
        snapshot.circulars.retain(|circular| is_kept(&circular.devices));
        snapshot.buffers.retain(|buffer| is_kept(buffer.devices()));
    }
}

impl Selector {
    fn matches(&self, device: &Device) -> bool {
        let is = |reading: &crate::Reading<String>, wanted: &str| reading.as_ref().is_ok_and(|text| text.eq_ignore_ascii_case(wanted));
        match self {
            Self::Ids(first, last) => (*first..=*last).contains(&device.id.0),
            Self::Bdf(bdf) => device.bdf == Ok(*bdf),
            Self::HardwareId(digits) => is(&device.asic_id, digits) || is(&device.serial, digits),
            Self::Board(prefix) => device.board.as_ref().is_ok_and(|board| board.starts_with(prefix.as_str())),
        }
    }

    /// Returns the parts of this selector that match no device: the whole selector, or parts of a range.
    fn unknown(&self, devices: &[Device]) -> Vec<Self> {
        let Self::Ids(first, last) = self else {
            return if devices.iter().any(|device| self.matches(device)) { Vec::new() } else { vec![self.clone()] };
        };
        let mut ids: Vec<u32> = devices.iter().map(|device| device.id.0).collect();
        ids.sort_unstable();
        gaps(*first, *last, ids).into_iter().map(|(first, last)| Self::Ids(first, last)).collect()
    }
}

/// Formats a selector in the notation of the user.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ids(first, last) if first == last => first.fmt(f),
            Self::Ids(first, last) => write!(f, "{first}-{last}"),
            Self::Bdf(bdf) => bdf.fmt(f),
            Self::HardwareId(digits) => f.write_str(digits),
            Self::Board(prefix) => write!(f, "board:{prefix}"),
        }
    }
}

fn parse_word(word: &str) -> Result<Selector, SelectionError> {
    if let Some(board) = word.strip_prefix("board:").filter(|board| !board.is_empty()) {
        return Ok(Selector::Board(board.to_owned()));
    }
    if let Ok(bdf) = word.parse() {
        return Ok(Selector::Bdf(bdf));
    }
    let number = |text: &str| text.parse::<u32>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    if let Some((first, last)) = word.split_once('-').and_then(|(first, last)| Some((number(first)?, number(last)?))) {
        return if first <= last { Ok(Selector::Ids(first, last)) } else { Err(SelectionError::Backwards(word.to_owned())) };
    }
    // Sixteen digits are a serial number, even if they could be parsed as an id.
    if word.len() == 16 && word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(Selector::HardwareId(word.to_owned()));
    }
    match word.strip_prefix("/dev/tenstorrent/").or(Some(word)).and_then(number) {
        Some(id) => Ok(Selector::Ids(id, id)),
        None => Err(SelectionError::NotADevice(word.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words() {
        let parse = |text| Selection::parse(text).map(|selection| selection.0);
        assert_eq!(parse("0,2-3"), Ok(vec![Selector::Ids(0, 0), Selector::Ids(2, 3)]));
        assert_eq!(parse("/dev/tenstorrent/5"), Ok(vec![Selector::Ids(5, 5)]));
        assert_eq!(parse("0000:c1:00.0"), Ok(vec![Selector::Bdf("0000:c1:00.0".parse().unwrap())]));
        assert_eq!(parse("0000047131831011"), Ok(vec![Selector::HardwareId("0000047131831011".into())]));
        assert_eq!(parse("board:p150"), Ok(vec![Selector::Board("p150".into())]));
        for bad in ["", "x", "3-1", "-1", "0,,1", "board:", "1-", "+1"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC{0,40}") {
            let _ = Selection::parse(&text);
        }
    }
}
