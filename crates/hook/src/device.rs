//! Which chips a device of TT-Metal is.
//!
//! A `MeshDevice` says so itself. A single `Device` has no exported `id()`: the place of `MeshDevice::id` in its table of
//! virtual functions is the place of `id` in every device's. Anything else is a device whose chips are not known.

use crate::buffer::low;
use crate::caught::caught;
use crate::library::{Library, TABLE_OFFSET};
use crate::memory;
use crate::symbols::Symbol;

pub(crate) const CHIPS_MAX: usize = 64;
/// No device has so many virtual functions before `id`.
const SLOTS_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    /// Metal ids; only the first `count` count.
    chips: [u32; CHIPS_MAX],
    count: usize,
    /// Rows and columns, 0 where it is no mesh of two dimensions.
    pub(crate) mesh: (u16, u16),
}

impl Device {
    pub(crate) const UNKNOWN: Self = Self { chips: [0; CHIPS_MAX], count: 0, mesh: (0, 0) };

    pub(crate) fn chips(&self) -> &[u32] {
        self.chips.get(..self.count).unwrap_or_default()
    }

    /// # Safety
    /// `device` is null or points at a live `IDevice` of `library`.
    pub(crate) unsafe fn describe(library: &Library, device: usize) -> Self {
        if device == 0 {
            return Self::UNKNOWN;
        }
        // SAFETY: an `IDevice` has virtual functions.
        let table = unsafe { (device as *const usize).read() };
        // SAFETY: its table says which class it is.
        unsafe {
            if library.is_table(table, Symbol::MeshTable) {
                mesh(library, device)
            } else if library.is_table(table, Symbol::DeviceTable) {
                single(library, device, table)
            } else {
                Self::UNKNOWN
            }
        }
    }
}

/// Whether it is a `MeshDevice`.
///
/// # Safety
/// `device` points at a live object with virtual functions.
pub(crate) unsafe fn is_mesh(library: &Library, device: usize) -> bool {
    // SAFETY: what the caller promises.
    library.is_table(unsafe { (device as *const usize).read() }, Symbol::MeshTable)
}

unsafe fn mesh(library: &Library, device: usize) -> Device {
    let mut described = Device::UNKNOWN;
    if !library.has_symbol(Symbol::MeshChips) || !library.has_symbol(Symbol::Delete) {
        return described;
    }
    // `std::vector<int>`: begin, end, end of its storage.
    let mut vector = [0_usize; 3];
    // SAFETY: a function of `MeshDevice` that returns a vector through the place its first argument names. The vector is
    // ours then: so many numbers between its first two words, and storage that C++'s own operator takes back.
    unsafe {
        if caught(library, library.address(Symbol::MeshChips), [(&raw mut vector) as u64, device as u64, 0]).is_none() {
            return described;
        }
        let [begin, end, _] = vector;
        if begin == 0 {
            return described;
        }
        let ids = std::slice::from_raw_parts(begin as *const i32, end.saturating_sub(begin) / size_of::<i32>());
        for (place, id) in described.chips.iter_mut().zip(ids) {
            *place = u32::try_from(*id).unwrap_or(u32::MAX);
        }
        described.count = ids.len().min(CHIPS_MAX);
        let delete: unsafe extern "C" fn(usize) = std::mem::transmute(library.address(Symbol::Delete));
        delete(begin);
    }
    let side = |symbol| {
        if !library.has_symbol(symbol) {
            return 0;
        }
        // SAFETY: functions of `MeshDevice` without arguments. They throw for a mesh that has not two dimensions.
        let sides = unsafe { caught(library, library.address(symbol), [device as u64, 0, 0]) };
        sides.and_then(|sides| u16::try_from(sides).ok()).unwrap_or(0)
    };
    let (rows, columns) = (side(Symbol::MeshRows), side(Symbol::MeshColumns));
    if usize::from(rows) * usize::from(columns) == described.count {
        described.mesh = (rows, columns);
    }
    described
}

unsafe fn single(library: &Library, device: usize, table: usize) -> Device {
    let (mesh_table, mesh_id) = (library.address(Symbol::MeshTable), library.address(Symbol::MeshId));
    if mesh_table == 0 || mesh_id == 0 {
        return Device::UNKNOWN;
    }
    // Both classes have `IDevice` as their first base, and a table may be shorter than we look.
    let word = |slot: usize| memory::words(mesh_table + TABLE_OFFSET + slot * size_of::<usize>());
    let slot = (0..SLOTS_MAX).map_while(word).position(|[function]| function == mesh_id);
    let Some(slot) = slot else { return Device::UNKNOWN };
    // SAFETY: the same slot of a table of the same interface is the same function, without arguments.
    let id = unsafe {
        let function = (table as *const usize).add(slot).read();
        caught(library, function, [device as u64, 0, 0])
    };
    let Some(id) = id else { return Device::UNKNOWN };
    let mut described = Device { count: 1, ..Device::UNKNOWN };
    let [first, ..] = &mut described.chips;
    *first = low(id);
    described
}
