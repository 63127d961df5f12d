//! The C ABI. cbindgen generates `include/ttmon_monitor.h` from this file, so these comments are the documentation for C programmers.

// cbindgen treats this file as the root of a crate and expects the module at this path.
#[path = "shapes.rs"]
mod shapes;

use std::ffi::{CStr, OsStr, c_char};
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::time::Duration;

pub use shapes::*;
use ttmon_model::snapshot::{Health, State, Status};
use ttmon_model::{DeviceId, Kind, Missing, Source};

use crate::fill;
use crate::gate::{self, Failure, pass};
use crate::monitor::Monitor;
use crate::stats;

/// An open monitor. Threads may share it. No other thread may use it while it is closed.
#[derive(Debug)]
pub struct Handle {
    pub(crate) monitor: Monitor,
}

/// Opens the machine below a directory that is used as `/`, or this machine for NULL. Returns NULL if the directory cannot be read.
/// ttmon_monitor_last_error() then has the reason. A machine without devices can be opened.
///
/// # Safety
/// `root` is NULL, or a string that ends with NUL and is not modified until the call returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmon_monitor_open(root: *const c_char) -> *mut Handle {
    let mut handle = ptr::null_mut();
    pass(|| {
        // SAFETY: the caller guarantees that `root` is valid.
        let monitor = match unsafe { gate::text_at(root) } {
            None => Monitor::new()?,
            Some(path) => Monitor::at(Path::new(OsStr::from_bytes(path.to_bytes())))?,
        };
        handle = Box::into_raw(Box::new(Handle { monitor }));
        Ok(())
    });
    handle
}

/// Closes a monitor. Does nothing for NULL.
///
/// # Safety
/// `monitor` is NULL or came from ttmon_monitor_open, and no other call uses it now or later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmon_monitor_close(monitor: *mut Handle) {
    pass(|| {
        if !monitor.is_null() {
            // SAFETY: `monitor` came from Box::into_raw, and the caller guarantees that it is not used any more.
            drop(unsafe { Box::from_raw(monitor) });
        }
        Ok(())
    });
}

/// Returns the text of the last failed call in this thread, or "" if none has failed. Never returns NULL. Each thread has its own text,
/// which stays unchanged until the next failed call in the thread.
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_monitor_last_error() -> *const c_char {
    gate::last_error()
}

/// Sets how many milliseconds a sample is used after it was taken. The default is 100. With 0, every call takes its own sample.
///
/// # Safety
/// `monitor` is NULL or an open monitor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmon_monitor_set_max_age(monitor: *mut Handle, milliseconds: u32) -> i32 {
    pass(|| {
        // SAFETY: the caller guarantees that `monitor` is valid.
        unsafe { opened(monitor) }?.set_max_age(Duration::from_millis(u64::from(milliseconds)));
        Ok(())
    })
}

/// Writes the number of devices to `count`.
///
/// # Safety
/// `monitor` is NULL or an open monitor. `count` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmon_monitor_device_count(monitor: *mut Handle, count: *mut u32) -> i32 {
    // SAFETY: the caller guarantees that `monitor` and `count` are valid.
    unsafe { ttmon_monitor_device_ids(monitor, ptr::null_mut(), 0, count) }
}

/// Writes the ids of the devices to `ids`, in order. There may be gaps. Writes at most `capacity` ids, and the number of devices to
/// `count`.
///
/// # Safety
/// `monitor` is NULL or an open monitor. `ids` has room for `capacity` numbers, or is NULL and `capacity` is 0. `count` is NULL or
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmon_monitor_device_ids(monitor: *mut Handle, ids: *mut u32, capacity: u32, count: *mut u32) -> i32 {
    // SAFETY: the caller guarantees that the pointers are valid.
    unsafe { list(monitor, ids, capacity, count, |monitor| Ok(monitor.device_ids()?)) }
}

/// Writes the pids of the processes that hold a device or have memory on it. The arguments are like those of ttmon_monitor_device_ids.
///
/// # Safety
/// The same as for ttmon_monitor_device_ids.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmon_monitor_process_ids(
    monitor: *mut Handle,
    device: u32,
    pids: *mut i32,
    capacity: u32,
    count: *mut u32,
) -> i32 {
    let find = |monitor: &Monitor| {
        let snapshot = monitor.devices()?.ok_or_else(|| no_device(device))?;
        snapshot.device(DeviceId(device)).ok_or_else(|| no_device(device))?;
        // Pids of Linux are at most 2^22.
        Ok(snapshot.processes_on(DeviceId(device)).filter_map(|(process, _)| i32::try_from(process.key.pid).ok()).collect())
    };
    // SAFETY: the caller guarantees that the pointers are valid.
    unsafe { list(monitor, pids, capacity, count, find) }
}

/// Writes the figures of a device, over all processes.
///
/// # Safety
/// `monitor` is NULL or an open monitor. `out` is NULL, or has as many bytes as its struct_size states.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmon_monitor_system_stats(monitor: *mut Handle, device: u32, out: *mut CSystemStats) -> i32 {
    let make = |monitor: &Monitor| {
        let stats = monitor.system_stats(device)?.ok_or_else(|| no_device(device))?;
        Ok(fill::system_stats(&stats))
    };
    // SAFETY: the caller guarantees that the pointers are valid, and struct_size is the first field.
    unsafe { write(monitor, out, make) }
}

/// Writes the figures of a process on a device, or on all devices with TTMON_MONITOR_ALL_DEVICES. `pid` is the pid on this host. If the
/// process holds no device, all processes must be searched, which may take 0.2 s.
///
/// # Safety
/// The same as for ttmon_monitor_system_stats.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmon_monitor_process_stats(monitor: *mut Handle, pid: i32, device: u32, out: *mut CProcessStats) -> i32 {
    let make = |monitor: &Monitor| {
        let host_pid = u32::try_from(pid).ok().filter(|pid| *pid > 0).ok_or(Failure::BadArgument("a pid is positive"))?;
        let stats = monitor.process_stats(host_pid)?;
        let nothing = || Failure::NotFound(format!("process {pid} neither holds a device nor tracks its memory, as far as can be seen"));
        let stats = stats.ok_or_else(nothing)?;
        if device == TTMON_MONITOR_ALL_DEVICES {
            return Ok(fill::process_stats(&stats, pid, device, &stats.total()));
        }
        let elsewhere = || Failure::NotFound(format!("process {pid} has nothing to do with device {device}"));
        Ok(fill::process_stats(&stats, pid, device, stats.on(device).ok_or_else(elsewhere)?))
    };
    // SAFETY: the caller guarantees that the pointers are valid, and struct_size is the first field.
    unsafe { write(monitor, out, make) }
}

/// Writes the figures of one kind of memory of a device, over all processes. `kind` is one of TTMON_KIND_...
///
/// # Safety
/// The same as for ttmon_monitor_system_stats.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmon_monitor_detailed_stats(monitor: *mut Handle, device: u32, kind: u8, out: *mut CKindStats) -> i32 {
    let make = |monitor: &Monitor| {
        let which = fill::kind_of(kind).ok_or(Failure::BadArgument("no such kind of memory"))?;
        let snapshot = monitor.devices()?.ok_or_else(|| no_device(device))?;
        let found = snapshot.device(DeviceId(device)).ok_or_else(|| no_device(device))?;
        Ok(fill::kind_stats(&found.memory.kinds[which], device, kind, snapshot.processes_on(found.id).count()))
    };
    // SAFETY: the caller guarantees that the pointers are valid, and struct_size is the first field.
    unsafe { write(monitor, out, make) }
}

/// Writes banks and fragmentation of one kind of memory of one allocator on a device. `index` counts the allocators from 0. After the last
/// one, the result is TTMON_MONITOR_NOT_FOUND. The order is the same as long as the sample is used (see ttmon_monitor_set_max_age).
///
/// # Safety
/// The same as for ttmon_monitor_system_stats.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmon_monitor_bank_stats(monitor: *mut Handle, device: u32, kind: u8, index: u32, out: *mut CBankStats) -> i32 {
    let make = |monitor: &Monitor| {
        let which = fill::kind_of(kind).ok_or(Failure::BadArgument("no such kind of memory"))?;
        let snapshot = monitor.listed()?.ok_or_else(|| no_device(device))?;
        snapshot.device(DeviceId(device)).ok_or_else(|| no_device(device))?;
        let mut allocators = stats::allocators(&snapshot, DeviceId(device));
        let allocator = usize::try_from(index).ok().and_then(|index| allocators.nth(index));
        let count = || stats::allocators(&snapshot, DeviceId(device)).count();
        let beyond = || Failure::NotFound(format!("device {device} has {} allocators", count()));
        Ok(fill::bank_stats(allocator.ok_or_else(beyond)?, device, which))
    };
    // SAFETY: the caller guarantees that the pointers are valid, and struct_size is the first field.
    unsafe { write(monitor, out, make) }
}

/// Returns the name of a reason, for example "not_tracked". All functions of this group return the names of ttmon --json. They return ""
/// for TTMON_PRESENT and for an unknown number, and never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_monitor_missing_name(missing: i32) -> *const c_char {
    word(&Missing::ALL.map(fill::missing), missing)
}

/// Returns the name of a TTMON_KIND_...
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_monitor_kind_name(kind: u8) -> *const c_char {
    word(&Kind::ALL.map(fill::kind), kind)
}

/// Returns the name of a TTMON_STATUS_...
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_monitor_status_name(status: u32) -> *const c_char {
    word(&Status::ALL.map(fill::status), status)
}

/// Returns the name of a TTMON_SOURCE_...
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_monitor_source_name(source: u64) -> *const c_char {
    word(&Source::ALL.map(fill::source), source)
}

/// Returns the name of a TTMON_STATE_...
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_monitor_state_name(state: u32) -> *const c_char {
    word(&State::ALL.map(fill::state), state)
}

/// Returns the name of a TTMON_HEALTH_...
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_monitor_health_name(health: u32) -> *const c_char {
    word(&Health::ALL.map(fill::health), health)
}

fn word<T: Copy + PartialEq>(words: &[(T, &'static CStr)], number: T) -> *const c_char {
    words.iter().find(|(one, _)| *one == number).map_or(c"", |(_, word)| *word).as_ptr()
}

const NULL: Failure = Failure::BadArgument("a null pointer");

fn no_device(device: u32) -> Failure {
    Failure::NotFound(format!("there is no device {device}"))
}

/// # Safety
/// `monitor` is null or an open monitor, which must stay open as long as the result is used.
unsafe fn opened<'a>(monitor: *mut Handle) -> Result<&'a Monitor, Failure> {
    // SAFETY: `as_ref` returns `None` for null. Otherwise the pointer came from Box::into_raw, and only shared references to it exist.
    unsafe { monitor.as_ref() }.map(|handle| &handle.monitor).ok_or(NULL)
}

/// # Safety
/// `monitor` is as for [`opened`]. `place` has room for `capacity` values, or is null and `capacity` is 0. `count` is null or writable.
unsafe fn list<T: Copy>(
    monitor: *mut Handle,
    place: *mut T,
    capacity: u32,
    count: *mut u32,
    find: impl FnOnce(&Monitor) -> Result<Vec<T>, Failure>,
) -> i32 {
    pass(|| {
        if count.is_null() || (place.is_null() && capacity > 0) {
            return Err(NULL);
        }
        // SAFETY: the caller guarantees that `monitor` is valid.
        let found = find(unsafe { opened(monitor) }?)?;
        let room = usize::try_from(capacity).unwrap_or(usize::MAX);
        for (index, value) in found.iter().take(room).enumerate() {
            // SAFETY: `place` is not null because the capacity is not 0, and the index is below the capacity.
            unsafe { place.add(index).write_unaligned(*value) };
        }
        // SAFETY: `count` is not null, and the caller guarantees that it is writable.
        unsafe { count.write_unaligned(fill::count(found.len())) };
        Ok(())
    })
}

const SIZE: Failure = Failure::BadArgument(
    "struct_size is not the size of this struct: set it to sizeof before the call; if it is, the library is older than the header",
);

/// Fills a struct of the caller, from its second field on. If the library is newer than the caller's header, its structs may be longer, and
/// the caller gets only the fields that it has. If the library is older, it returns an error, because a missing figure would read as the
/// number zero.
///
/// # Safety
/// `monitor` is as for [`opened`]. `out` is null, or has as many bytes as its first field struct_size states. T must have struct_size as
/// its first field.
unsafe fn write<T>(monitor: *mut Handle, out: *mut T, make: impl FnOnce(&Monitor) -> Result<T, Failure>) -> i32 {
    const SIZE_BYTES: usize = size_of::<u32>();
    pass(|| {
        if out.is_null() {
            return Err(NULL);
        }
        // SAFETY: `out` is not null, and its first four bytes are the caller's struct_size.
        let given = unsafe { out.cast::<u32>().read_unaligned() };
        // The structs have not grown yet, so the first size of each struct is the current one.
        if usize::try_from(given).ok() != Some(size_of::<T>()) {
            return Err(SIZE);
        }
        // SAFETY: the caller guarantees that `monitor` is valid.
        let made = make(unsafe { opened(monitor) }?)?;
        // SAFETY: both structs have `size_of::<T>()` bytes, as checked above and guaranteed by the caller. They do not overlap, because
        // one is a local. The copied bytes are plain numbers, and only padding between them may be uninitialised.
        unsafe {
            let from = (&raw const made).cast::<u8>().add(SIZE_BYTES);
            ptr::copy_nonoverlapping(from, out.cast::<u8>().add(SIZE_BYTES), size_of::<T>() - SIZE_BYTES);
        }
        Ok(())
    })
}

const _: () = assert!(offset_of!(CSystemStats, struct_size) == 0);
const _: () = assert!(offset_of!(CProcessStats, struct_size) == 0);
const _: () = assert!(offset_of!(CKindStats, struct_size) == 0);
const _: () = assert!(offset_of!(CBankStats, struct_size) == 0);
// Programs were built with these sizes. If a struct grows at its end, `write` must also accept its first size.
const _: () = assert!(size_of::<CSystemStats>() == 24 + 6 * 16 + 3 * 8 + 3 * 16);
const _: () = assert!(size_of::<CProcessStats>() == 24 + TTMON_NAME_BYTES + TTMON_KINDS * 6 * 16);
const _: () = assert!(size_of::<CKindStats>() == 16 + 8 * 16);
const _: () = assert!(size_of::<CBankStats>() == 16 + TTMON_NAME_BYTES + 7 * 16);
