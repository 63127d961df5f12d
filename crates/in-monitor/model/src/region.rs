//! TT-Metal's statistics: the 8,576 bytes of `/dev/shm/tt_device_<unique id>_memory`.
//!
//! Versions 2, 3 and 4 share one layout. There is no magic number, no lock and no guarantee that the parts are consistent. `derive` decides
//! which values are plausible.

use crate::memory::{Kind, PerKind};
use crate::missing::{Missing, Reading};
use crate::units::UnixTime;

/// Length of a region in bytes.
pub const BYTES: usize = 8576;
/// Offset of the slots of processes.
pub const SLOTS_AT: usize = 856;
/// Length of a slot in bytes.
pub const SLOT_BYTES: usize = 120;
/// Number of slots in a region.
pub const SLOTS: usize = 64;
const NAME_AT: usize = 56;
const NAME_BYTES: usize = 64;
const TOTALS_AT: usize = 48;
const INIT_STATE_AT: usize = 8536;
const READY: u32 = 0x5245_4459;
const _: () = assert!(SLOTS_AT + SLOTS * SLOT_BYTES == INIT_STATE_AT);

/// The kinds in the order of totals and slots.
const KINDS: [Kind; 5] = [Kind::Dram, Kind::L1, Kind::L1Small, Kind::Trace, Kind::Cb];

/// The contents of one region.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// Version of the layout: 2, 3 or 4.
    pub version: u32,
    /// The chip's logical id in the last process that attached.
    pub device_id: u32,
    /// Bytes of all processes, including dead ones.
    pub totals: PerKind<u64>,
    /// Slots that are in use.
    pub slots: Vec<Slot>,
}

/// The part of a region that one process wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// The pid of the process in its own namespace.
    pub pid: u32,
    /// Bytes in use.
    pub used: PerKind<u64>,
    /// Time of the last change.
    pub updated: UnixTime,
    /// The `comm` of the process when it claimed the slot.
    pub name: String,
}

impl Region {
    /// Parses a region. Returns `Unparsable` if the region is too short or uninitialised, or if its version is unknown.
    pub fn parse(bytes: &[u8]) -> Reading<Self> {
        if bytes.len() < BYTES {
            return Err(Missing::Unparsable);
        }
        let version = u32_at(bytes, 0);
        let is_ready = version != 4 || u32_at(bytes, INIT_STATE_AT) == READY;
        if !(2..=4).contains(&version) || !is_ready {
            return Err(Missing::Unparsable);
        }
        let slots = (0..SLOTS).filter_map(|index| Slot::parse(&bytes[SLOTS_AT + index * SLOT_BYTES..][..SLOT_BYTES]));
        Ok(Self { version, device_id: u32_at(bytes, 40), totals: kinds_at(bytes, TOTALS_AT), slots: slots.collect() })
    }

    /// Encodes a region for this id. The processes of the simulator write regions this way.
    pub fn encode(&self, unique_id: u64) -> Vec<u8> {
        let mut bytes = vec![0; BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &self.version.to_le_bytes());
        put(4, &u32::try_from(self.slots.len()).unwrap_or(u32::MAX).to_le_bytes());
        put(32, &unique_id.to_le_bytes());
        put(40, &self.device_id.to_le_bytes());
        put_kinds(&mut put, TOTALS_AT, &self.totals);
        for (index, slot) in self.slots.iter().take(SLOTS).enumerate() {
            let at = SLOTS_AT + index * SLOT_BYTES;
            put(at, &slot.pid.to_le_bytes());
            put_kinds(&mut put, at + 8, &slot.used);
            put(at + 48, &slot.updated.0.to_le_bytes());
            let name = &slot.name.as_bytes()[..slot.name.len().min(NAME_BYTES - 1)];
            put(at + NAME_AT, name);
        }
        if self.version == 4 {
            put(INIT_STATE_AT, &READY.to_le_bytes());
        }
        bytes
    }
}

impl Slot {
    fn parse(bytes: &[u8]) -> Option<Self> {
        // 0 means free, -1 means being released.
        let pid = i32::try_from(i64::from(u32_at(bytes, 0))).ok().filter(|pid| *pid > 0)?;
        let name = &bytes[NAME_AT..NAME_AT + NAME_BYTES];
        let length = name.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
        Some(Self {
            pid: pid.unsigned_abs(),
            used: kinds_at(bytes, 8),
            updated: UnixTime(u64_at(bytes, 48)),
            name: String::from_utf8_lossy(&name[..length]).into_owned(),
        })
    }
}

/// Parses the unique id in a region's file name: `tt_device_9956278468_memory`.
pub fn unique_id_of(file_name: &str) -> Option<u64> {
    file_name.strip_prefix("tt_device_")?.strip_suffix("_memory")?.parse().ok()
}

/// Returns the file name of a region.
pub fn file_name(unique_id: u64) -> String {
    format!("tt_device_{unique_id}_memory")
}

fn kinds_at(bytes: &[u8], at: usize) -> PerKind<u64> {
    let mut kinds = PerKind::default();
    for (index, kind) in KINDS.into_iter().enumerate() {
        kinds[kind] = u64_at(bytes, at + index * 8);
    }
    kinds
}

fn put_kinds(put: &mut impl FnMut(usize, &[u8]), at: usize, kinds: &PerKind<u64>) {
    for (index, kind) in KINDS.into_iter().enumerate() {
        put(at + index * 8, &kinds[kind].to_le_bytes());
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The region is built from the offsets in TT-Metal's header, not by `encode`.
    #[test]
    fn reads_the_layout_of_the_header() {
        let mut bytes = vec![0u8; BYTES];
        bytes[0] = 3;
        bytes[40] = 7;
        bytes[48..56].copy_from_slice(&4096u64.to_le_bytes());
        let slot = 856 + 120 * 63;
        bytes[slot..slot + 4].copy_from_slice(&1234i32.to_le_bytes());
        bytes[slot + 8..slot + 16].copy_from_slice(&4096u64.to_le_bytes());
        bytes[slot + 40..slot + 48].copy_from_slice(&99u64.to_le_bytes());
        bytes[slot + 48..slot + 56].copy_from_slice(&5u64.to_le_bytes());
        bytes[slot + 56..slot + 63].copy_from_slice(b"python3");
        let released = 856 + 120;
        bytes[released..released + 4].copy_from_slice(&(-1i32).to_le_bytes());

        let region = Region::parse(&bytes).unwrap();
        assert_eq!((region.version, region.device_id, region.totals[Kind::Dram]), (3, 7, 4096));
        assert_eq!(region.slots.len(), 1);
        let slot = &region.slots[0];
        assert_eq!((slot.pid, slot.used[Kind::Dram], slot.used[Kind::Cb]), (1234, 4096, 99));
        assert_eq!((slot.updated, slot.name.as_str()), (UnixTime(5), "python3"));
    }

    #[test]
    fn refuses_what_is_not_a_region() {
        assert_eq!(Region::parse(&[]), Err(Missing::Unparsable));
        assert_eq!(Region::parse(&[3; 100]), Err(Missing::Unparsable));
        for version in [0u8, 1, 5, 255] {
            let mut bytes = vec![0; BYTES];
            bytes[0] = version;
            assert_eq!(Region::parse(&bytes), Err(Missing::Unparsable), "{version}");
        }
        let mut half_made = vec![0; BYTES];
        half_made[0] = 4;
        assert_eq!(Region::parse(&half_made), Err(Missing::Unparsable));
    }

    #[test]
    fn names_carry_the_id() {
        assert_eq!(unique_id_of("tt_device_9956278468_memory"), Some(9_956_278_468));
        assert_eq!(unique_id_of(&file_name(u64::MAX)), Some(u64::MAX));
        for other in
            ["tt_device__memory", "tt_device_-1_memory", "TT_UMD_LOCK.x", "tt_device_1_memory2", "tt_device_99999999999999999999_memory"]
        {
            assert_eq!(unique_id_of(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), BYTES), version in 2u8..5) {
            let mut bytes = bytes;
            bytes[..4].copy_from_slice(&[version, 0, 0, 0]);
            if let Ok(region) = Region::parse(&bytes) {
                prop_assert!(region.slots.len() <= SLOTS);
            }
        }

        #[test]
        fn encode_then_parse(pid in 1u32..100_000, dram: u64, cb: u64, version in 2u32..5, name in "[a-z]{0,15}") {
            let mut used = PerKind::default();
            used[Kind::Dram] = dram;
            used[Kind::Cb] = cb;
            let region = Region {
                version,
                device_id: 3,
                totals: used.clone(),
                slots: vec![Slot { pid, used, updated: UnixTime(77), name }],
            };
            prop_assert_eq!(Region::parse(&region.encode(5)), Ok(region));
        }
    }
}
