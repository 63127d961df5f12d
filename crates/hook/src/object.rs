//! The loaded objects of this process: which one an address lies in, and what it, or what it needs, defines.

use std::ffi::{CStr, c_int, c_void};

const PATH_BYTES: usize = 4096;

/// A program or library in memory.
pub(crate) struct Object {
    pub(crate) start: usize,
    pub(crate) bytes: usize,
    path: [u8; PATH_BYTES],
}

struct Search {
    which: Which,
    found: Option<Object>,
}

enum Which {
    /// The one with this address.
    Around(usize),
    /// The one after so many others.
    After(usize),
}

impl Object {
    /// The object an address lies in.
    pub(crate) fn of(address: usize) -> Option<Self> {
        Self::search(Which::Around(address))
    }

    /// All of them, by number, until there are no more.
    pub(crate) fn nth(number: usize) -> Option<Self> {
        Self::search(Which::After(number))
    }

    /// The program itself has no name here, and what is looked up in it is looked up everywhere, also in what is preloaded.
    pub(crate) fn is_program(&self) -> bool {
        self.path.first() == Some(&0)
    }

    pub(crate) fn has(&self, address: usize) -> bool {
        address.wrapping_sub(self.start) < self.bytes
    }

    fn search(which: Which) -> Option<Self> {
        let mut search = Search { which, found: None };
        // SAFETY: the loader calls `look` with the pointer to `search`, which lives until it returned.
        unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
        search.found
    }

    /// The object of that name, as it calls itself, wherever it was loaded from.
    pub(crate) fn named(name: &CStr) -> Option<Self> {
        // SAFETY: a text that ends with NUL. Nothing is loaded: NOLOAD.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if handle.is_null() {
            forget_error();
            return None;
        }
        let mut map: *const usize = std::ptr::null();
        // SAFETY: an open handle; the loader stores the address of its own record of the object, whose third word points at the
        // object's dynamic section (`struct link_map` of <link.h>). The record lives while the object does, which others hold.
        let address = unsafe {
            let is_told = libc::dlinfo(handle, libc::RTLD_DI_LINKMAP, (&raw mut map).cast()) == 0;
            let address = if is_told && !map.is_null() { map.add(2).read() } else { 0 };
            libc::dlclose(handle);
            address
        };
        Self::of(address)
    }

    /// The addresses behind names, 0 where neither it nor what it needs defines one. The loader's order is breadth first, so
    /// that its own definition comes before others', and ours, which is preloaded, never. Of the program itself: `None`.
    pub(crate) fn resolve<const N: usize>(&self, names: &[&CStr]) -> Option<[usize; N]> {
        if self.is_program() {
            return None;
        }
        // SAFETY: a text that ends with NUL. Nothing is loaded: NOLOAD.
        let handle = unsafe { libc::dlopen(self.path.as_ptr().cast(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if handle.is_null() {
            forget_error();
            return None;
        }
        let mut addresses = [0; N];
        for (address, name) in addresses.iter_mut().zip(names) {
            // SAFETY: an open handle and a text that ends with NUL.
            *address = unsafe { libc::dlsym(handle, name.as_ptr()) } as usize;
            if *address == 0 {
                forget_error();
            }
        }
        // SAFETY: closed once. The program that loaded the object holds it; a program that unloads it must not find it held by us.
        unsafe { libc::dlclose(handle) };
        Some(addresses)
    }
}

/// How many objects this process has ever unloaded: what was resolved before a change may be gone.
pub(crate) fn unloads() -> u64 {
    unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _size: usize, into: *mut c_void) -> c_int {
        // SAFETY: the loader's struct, and the counter of the caller.
        unsafe { into.cast::<u64>().write((*info).dlpi_subs) };
        1
    }
    let mut count = 0_u64;
    // SAFETY: the loader calls `first` with the pointer to `count`, which lives until it returned.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut count).cast()) };
    count
}

fn forget_error() {
    // SAFETY: without arguments. Clears the message of our failure, so that the program does not read it as its own.
    unsafe { libc::dlerror() };
}

unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
    // SAFETY: the loader's struct is valid during this call; `search` is the caller's and nobody else's.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
    // SAFETY: so many headers are there, by the loader's word.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let base = position(info.dlpi_addr);
    let (mut start, mut end, mut is_inside) = (usize::MAX, 0, false);
    for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD) {
        let from = base.wrapping_add(position(header.p_vaddr));
        let to = from.wrapping_add(position(header.p_memsz));
        is_inside |= matches!(search.which, Which::Around(address) if (from..to).contains(&address));
        start = start.min(from);
        end = end.max(to);
    }
    if let Which::After(others) = &mut search.which {
        is_inside = *others == 0;
        *others = others.saturating_sub(1);
    }
    if !is_inside {
        return 0;
    }
    let mut path = [0; PATH_BYTES];
    if !info.dlpi_name.is_null() {
        // SAFETY: the loader's text, which ends with NUL.
        let name = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes();
        if name.len() >= path.len() {
            return 1;
        }
        for (to, from) in path.iter_mut().zip(name) {
            *to = *from;
        }
    }
    search.found = Some(Object { start, bytes: end.saturating_sub(start), path });
    1
}

fn position(address: u64) -> usize {
    usize::try_from(address).unwrap_or(0)
}
