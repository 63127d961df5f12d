//! Identities of devices, boards and processes, and the different numbers of a chip.

use std::fmt;
use std::str::FromStr;

/// The row of a chip: N of `/dev/tenstorrent/N` for a local chip, a higher number for a remote one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u32);

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// UMD's unique id of a chip. The files of TT-Metal's statistics are named by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UniqueId(pub u64);

impl fmt::Display for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A PCI address, `DDDD:BB:DD.F`. The order is the one that UMD uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bdf {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

impl Bdf {
    /// Returns the address as one number.
    pub fn number(self) -> u64 {
        u64::from(self.domain) << 24 | u64::from(self.bus) << 16 | u64::from(self.device) << 8 | u64::from(self.function)
    }
}

impl FromStr for Bdf {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        fn hex<T: TryFrom<u32>>(digits: &str, most: usize) -> Result<T, ()> {
            let is_hex = (1..=most).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            let value = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex).ok_or(())?;
            T::try_from(value).map_err(|_| ())
        }
        let (domain, rest) = text.split_once(':').ok_or(())?;
        let (bus, rest) = rest.split_once(':').ok_or(())?;
        let (device, function) = rest.split_once('.').ok_or(())?;
        Ok(Self { domain: hex(domain, 8)?, bus: hex(bus, 2)?, device: hex(device, 2)?, function: hex(function, 1)? })
    }
}

impl fmt::Display for Bdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

/// Identifies a process. A pid alone may be reused, but a pid with its start time is unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessKey {
    /// Process id on this host.
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat`: clock ticks since boot.
    pub start_ticks: u64,
}

crate::named! {
    /// Position of a chip on its board, named by the vendor's letter.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ChipPosition {
        /// The n300's chip on PCIe.
        Left = "L",
        /// The n300's chip behind it.
        Right = "R",
    }
}

/// Returns the ids that UMD and TT-Metal's statistics may use for a chip. The driver does not publish the id in use. It depends on board,
/// firmware, UMD version and whether an Ethernet link was up.
pub fn unique_id_candidates(asic_id: Option<u64>, serial: Option<u64>, position: Option<ChipPosition>, shares_serial: bool) -> Vec<u64> {
    let mut candidates = Vec::new();
    candidates.extend(asic_id);
    // A serial that several chips share does not identify a chip.
    if let Some(serial) = serial.filter(|_| !shares_serial) {
        match position {
            Some(position) => {
                let low = ((serial >> 4) & 0xF000_0000) | (serial & 0x0FFF_FFFF);
                let high: u64 = if position == ChipPosition::Left { 2 } else { 3 };
                candidates.push((high << 32) | low);
                if position == ChipPosition::Left {
                    candidates.push(serial);
                }
            }
            None => candidates.extend([serial, serial << 5, serial << 1]),
        }
    }
    candidates.sort_unstable();
    candidates.dedup();
    candidates
}

/// Returns the parts of a range that contain none of these sorted numbers.
pub(crate) fn gaps(first: u32, last: u32, numbers: impl IntoIterator<Item = u32>) -> Vec<(u32, u32)> {
    let mut gaps = Vec::new();
    let mut next = Some(first);
    for number in numbers.into_iter().filter(|number| (first..=last).contains(number)) {
        gaps.extend(next.filter(|next| *next < number).map(|next| (next, number - 1)));
        next = number.checked_add(1);
    }
    gaps.extend(next.filter(|next| *next <= last).map(|next| (next, last)));
    gaps
}

/// Formats device ids with ranges: `0-3,6`.
pub fn ranges(ids: impl IntoIterator<Item = DeviceId>) -> String {
    let mut ids: Vec<u32> = ids.into_iter().map(|id| id.0).collect();
    ids.sort_unstable();
    ids.dedup();
    let neighbours = ids.chunk_by(|before, next| before + 1 == *next);
    let parts: Vec<String> = neighbours
        .map(|run| match run {
            [first, .., last] => format!("{first}-{last}"),
            _ => run.iter().map(u32::to_string).collect(),
        })
        .collect();
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bdf_reads_what_sysfs_prints() {
        let bdf: Bdf = "0002:04:00.0".parse().unwrap();
        assert_eq!(bdf.to_string(), "0002:04:00.0");
        for bad in ["", "04:00.0", "0000:c1:00", "0000:c1:00.0.1", "0000:+1:00.0", "zzzz:00:00.0", "0:0:0:0.0"] {
            assert_eq!(bad.parse::<Bdf>(), Err(()), "{bad}");
        }
    }

    #[test]
    fn ids_as_ranges() {
        for (ids, text) in
            [(&[0u32, 1, 2, 3, 6][..], "0-3,6"), (&[5], "5"), (&[2, 0], "0,2"), (&[1, 0], "0-1"), (&[], ""), (&[0, 1, 3, 4, 5], "0-1,3-5")]
        {
            assert_eq!(ranges(ids.iter().copied().map(DeviceId)), text);
        }
    }

    /// The two ids of a captured n300 (board 72058990194901188) are 9956278468 and 14251245764.
    #[test]
    fn n300_formula_fits_a_captured_board() {
        let serial = 72_058_990_194_901_188;
        let left = unique_id_candidates(None, Some(serial), Some(ChipPosition::Left), false);
        let right = unique_id_candidates(None, Some(serial), Some(ChipPosition::Right), false);
        assert!(left.contains(&9_956_278_468), "{left:?}");
        assert!(right.contains(&14_251_245_764), "{right:?}");
        assert!(!right.contains(&serial));
    }

    proptest! {
        #[test]
        fn bdf_never_panics_and_round_trips(
            text in "\\PC{0,24}", domain in 0u32..0x1_0000, bus: u8, device in 0u8..32, function in 0u8..8,
        ) {
            let _ = text.parse::<Bdf>();
            let bdf = Bdf { domain, bus, device, function };
            prop_assert_eq!(bdf.to_string().parse::<Bdf>(), Ok(bdf));
        }
    }
}
