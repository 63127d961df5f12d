//! Finds the chips of a TT-Metal device.
//!
//! A `MeshDevice` has a function for its chips. A single `Device` has no exported `id()`, so its slot in the virtual function table is
//! taken from `MeshDevice::id`, which has the same interface. The chips of any other device are unknown.

use crate::buffer::low;
use crate::exceptions::catching;
use crate::library::{Library, TABLE_OFFSET};
use crate::memory;
use crate::symbols::Symbol;

pub(crate) const CHIPS_MAX: usize = 64;
/// Upper limit of the slot of `id` in the virtual function table.
const SLOTS_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    /// Metal ids; only the first `count` are valid.
    chips: [u32; CHIPS_MAX],
    count: usize,
    /// Rows and columns, 0 if the device is no two-dimensional mesh.
    pub(crate) mesh: (u16, u16),
}

impl Device {
    pub(crate) const UNKNOWN: Self = Self { chips: [0; CHIPS_MAX], count: 0, mesh: (0, 0) };

    pub(crate) fn chips(&self) -> &[u32] {
        self.chips.get(..self.count).unwrap_or_default()
    }

    /// # Safety
    /// `device` is null or points to a live `IDevice` of `library`.
    pub(crate) unsafe fn describe(library: &Library, device: usize) -> Self {
        if device == 0 {
            return Self::UNKNOWN;
        }
        // SAFETY: an `IDevice` has virtual functions.
        let table = unsafe { (device as *const usize).read() };
        // SAFETY: the table identifies the class.
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

unsafe fn mesh(library: &Library, device: usize) -> Device {
    let mut described = Device::UNKNOWN;
    if !library.has_symbol(Symbol::MeshChips) || !library.has_symbol(Symbol::Delete) {
        return described;
    }
    // `std::vector<int>`: begin, end, end of its storage.
    let mut vector = [0_usize; 3];
    // SAFETY: a function of `MeshDevice` that returns a vector through the pointer in its first argument. We own the vector then: numbers
    // between its first two words, in storage that C++'s `operator delete` frees.
    unsafe {
        if catching(library, library.address(Symbol::MeshChips), [(&raw mut vector) as u64, device as u64, 0]).is_none() {
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
        // SAFETY: functions of `MeshDevice` without arguments. They throw if a mesh does not have two dimensions.
        let sides = unsafe { catching(library, library.address(symbol), [device as u64, 0, 0]) };
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
    // Both classes have `IDevice` as their first base. A table may be shorter than `SLOTS_MAX`.
    let word = |slot: usize| memory::words(mesh_table + TABLE_OFFSET + slot * size_of::<usize>());
    let slot = (0..SLOTS_MAX).map_while(word).position(|[function]| function == mesh_id);
    let Some(slot) = slot else { return Device::UNKNOWN };
    // SAFETY: the same slot in a table of the same interface is the same function, without arguments.
    let id = unsafe {
        let function = (table as *const usize).add(slot).read();
        catching(library, function, [device as u64, 0, 0])
    };
    let Some(id) = id else { return Device::UNKNOWN };
    let mut described = Device { count: 1, ..Device::UNKNOWN };
    let [first, ..] = &mut described.chips;
    *first = low(id);
    described
}
