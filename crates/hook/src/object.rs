//! The loaded objects of this process: finds the object at an address, and the symbols that the object or its dependencies define.

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
    /// The object that contains this address.
    Around(usize),
    /// The object with this index.
    After(usize),
}

impl Object {
    /// Returns the object that contains an address.
    pub(crate) fn of(address: usize) -> Option<Self> {
        Self::search(Which::Around(address))
    }

    /// Returns the object with this index, or `None` after the last one.
    pub(crate) fn nth(number: usize) -> Option<Self> {
        Self::search(Which::After(number))
    }

    /// Whether this is the main program. The loader gives it no name, and looks up its symbols in all objects, including preloaded ones.
    pub(crate) fn is_program(&self) -> bool {
        self.path.first() == Some(&0)
    }

    pub(crate) fn has(&self, address: usize) -> bool {
        address.wrapping_sub(self.start) < self.bytes
    }

    fn search(which: Which) -> Option<Self> {
        let mut search = Search { which, found: None };
        // SAFETY: the loader calls `visit_object` with the pointer to `search`, which outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(visit_object), (&raw mut search).cast()) };
        search.found
    }

    /// Returns the loaded object with this soname, independent of its path.
    pub(crate) fn named(name: &CStr) -> Option<Self> {
        // SAFETY: a NUL-terminated string. Nothing is loaded: NOLOAD.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if handle.is_null() {
            forget_error();
            return None;
        }
        let mut map: *const usize = std::ptr::null();
        // SAFETY: an open handle. The loader stores the address of its record of the object (`struct link_map` of <link.h>). The third word
        // points to the dynamic section. The record lives as long as the object, which other handles keep loaded.
        let address = unsafe {
            let is_told = libc::dlinfo(handle, libc::RTLD_DI_LINKMAP, (&raw mut map).cast()) == 0;
            let address = if is_told && !map.is_null() { map.add(2).read() } else { 0 };
            libc::dlclose(handle);
            address
        };
        Self::of(address)
    }

    /// Resolves names to addresses, 0 if neither the object nor its dependencies define a name. The loader searches breadth first, so the
    /// object's own definition has precedence. The preloaded hook is not searched. Returns `None` for the main program.
    pub(crate) fn resolve<const N: usize>(&self, names: &[&CStr]) -> Option<[usize; N]> {
        if self.is_program() {
            return None;
        }
        // SAFETY: a NUL-terminated string. Nothing is loaded: NOLOAD.
        let handle = unsafe { libc::dlopen(self.path.as_ptr().cast(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if handle.is_null() {
            forget_error();
            return None;
        }
        let mut addresses = [0; N];
        for (address, name) in addresses.iter_mut().zip(names) {
            // SAFETY: an open handle and a NUL-terminated string.
            *address = unsafe { libc::dlsym(handle, name.as_ptr()) } as usize;
            if *address == 0 {
                forget_error();
            }
        }
        // SAFETY: closed once. The program keeps the object loaded; our handle must not prevent it from unloading the object.
        unsafe { libc::dlclose(handle) };
        Some(addresses)
    }
}

/// The program or library that contains an address of code.
pub(crate) struct LoadedCode {
    /// The load address: the loader adds it to the addresses in the file.
    pub(crate) base: usize,
    start: usize,
    bytes: usize,
    path: [u8; PATH_BYTES],
    build_id: BuildId,
}

/// A build id in hexadecimal, empty if there is none.
#[derive(Clone, Copy)]
pub(crate) struct BuildId {
    text: [u8; 2 * BUILD_ID_MAX],
    length: usize,
}

/// Maximum bytes of a build id. A SHA-1 has 20.
const BUILD_ID_MAX: usize = 32;

impl BuildId {
    pub(crate) fn as_str(&self) -> &str {
        self.text.get(..self.length).and_then(|text| str::from_utf8(text).ok()).unwrap_or_default()
    }

    fn new(bytes: &[u8]) -> Self {
        let mut id = Self { text: [0; 2 * BUILD_ID_MAX], length: 0 };
        let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        for (place, digit) in id.text.iter_mut().zip(digits) {
            *place = b"0123456789abcdef".get(usize::from(digit)).copied().unwrap_or(b'0');
            id.length += 1;
        }
        id
    }
}

impl LoadedCode {
    pub(crate) fn of(address: usize) -> Option<Self> {
        let mut search = CodeSearch { address, found: None };
        // SAFETY: the loader calls `find_code` with the pointer to `search`, which outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(find_code), (&raw mut search).cast()) };
        let mut found = search.found?;
        if found.path.first() == Some(&0) {
            let [path, into] = [c"/proc/self/exe".as_ptr(), found.path.as_mut_ptr().cast()];
            // SAFETY: a NUL-terminated string, and a buffer of this length plus one byte, which stays NUL.
            unsafe { libc::readlink(path, into.cast_mut(), PATH_BYTES - 1) };
        }
        Some(found)
    }

    pub(crate) fn has(&self, address: usize) -> bool {
        address.wrapping_sub(self.start) < self.bytes
    }

    pub(crate) fn path(&self) -> &str {
        CStr::from_bytes_until_nul(&self.path).ok().and_then(|path| path.to_str().ok()).unwrap_or_default()
    }

    pub(crate) fn build_id(&self) -> BuildId {
        self.build_id
    }
}

struct CodeSearch {
    address: usize,
    found: Option<LoadedCode>,
}

unsafe extern "C" fn find_code(info: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
    // SAFETY: the loader's struct is valid during this call; `search` belongs to the caller alone.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<CodeSearch>()) };
    // SAFETY: the loader guarantees this number of headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let base = position(info.dlpi_addr);
    let segments = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let ends = |header: &libc::Elf64_Phdr| {
        let from = base.wrapping_add(position(header.p_vaddr));
        (from, from.wrapping_add(position(header.p_memsz)))
    };
    let Some((start, end)) = segments().map(ends).find(|(from, to)| (*from..*to).contains(&search.address)) else { return 0 };
    let mut build_id = BuildId::new(&[]);
    for header in headers.iter().filter(|header| header.p_type == libc::PT_NOTE) {
        let (from, to) = ends(header);
        // The notes are in memory only if a loaded segment contains them.
        if segments().map(ends).any(|(first, last)| first <= from && to <= last) {
            // SAFETY: within a segment that the loader mapped readable. The object cannot be unloaded during this call.
            let notes = unsafe { std::slice::from_raw_parts(from as *const u8, to.wrapping_sub(from)) };
            if let Some(id) = find_build_id(notes) {
                build_id = BuildId::new(id);
            }
        }
    }
    let mut path = [0; PATH_BYTES];
    if !info.dlpi_name.is_null() {
        // SAFETY: a NUL-terminated string of the loader.
        let name = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes();
        path.iter_mut().zip(name.iter().take(PATH_BYTES - 1)).for_each(|(to, from)| *to = *from);
    }
    search.found = Some(LoadedCode { base, start, bytes: end.saturating_sub(start), path, build_id });
    1
}

/// Finds the build id among ELF notes. A note has three words (length of the name, length of the content, type), then name and content,
/// each padded to a word.
fn find_build_id(mut notes: &[u8]) -> Option<&[u8]> {
    const NT_GNU_BUILD_ID: usize = 3;
    loop {
        let (head, rest) = notes.split_at_checked(12)?;
        let word = |at: usize| Some(u32::from_ne_bytes(head.get(at..at + 4)?.try_into().ok()?) as usize);
        let (name_bytes, bytes, kind) = (word(0)?, word(4)?, word(8)?);
        let (name, rest) = rest.split_at_checked(name_bytes.checked_next_multiple_of(4)?)?;
        let content = rest.get(..bytes)?;
        if kind == NT_GNU_BUILD_ID && name.starts_with(b"GNU\0") {
            return Some(content.get(..BUILD_ID_MAX).unwrap_or(content));
        }
        notes = rest.get(bytes.checked_next_multiple_of(4)?..)?;
    }
}

/// Number of objects that this process has unloaded. Addresses resolved before a change may be invalid.
pub(crate) fn unloads() -> u64 {
    unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _size: usize, into: *mut c_void) -> c_int {
        // SAFETY: the loader's struct, and the caller's counter.
        unsafe { into.cast::<u64>().write((*info).dlpi_subs) };
        1
    }
    let mut count = 0_u64;
    // SAFETY: the loader calls `first` with the pointer to `count`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut count).cast()) };
    count
}

fn forget_error() {
    // SAFETY: no preconditions. Clears our error message, so that the program does not read it as its own.
    unsafe { libc::dlerror() };
}

unsafe extern "C" fn visit_object(info: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
    // SAFETY: the loader's struct is valid during this call; `search` belongs to the caller alone.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
    // SAFETY: the loader guarantees this number of headers.
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
        // SAFETY: a NUL-terminated string of the loader.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_this_program_has_its_path() {
        let code = LoadedCode::of(code_of_this_program_has_its_path as *const () as usize).expect("this test is loaded");
        assert_eq!(Some(code.path()), std::env::current_exe().expect("a path").to_str());
        assert!(code.has(code_of_this_program_has_its_path as *const () as usize));
        assert!(LoadedCode::of(8).is_none());
    }

    #[test]
    fn a_build_id_is_found_among_notes() {
        let note = |kind: usize, name: &[u8], content: &[u8]| {
            let mut note = Vec::new();
            for word in [name.len(), content.len(), kind] {
                note.extend(u32::try_from(word).expect("short").to_ne_bytes());
            }
            for part in [name, content] {
                note.extend(part);
                note.resize(note.len().next_multiple_of(4), 0);
            }
            note
        };
        let id = note(3, b"GNU\0", &[0xAB, 1, 2]);
        let notes = [note(1, b"GNU\0", &[9; 16]), note(3, b"Go\0\0", &[7]), id.clone()].concat();
        assert_eq!(find_build_id(&notes).map(BuildId::new).expect("there").as_str(), "ab0102");
        assert_eq!(find_build_id(&notes[..notes.len() - 4]), None, "cut");
        assert_eq!(find_build_id(&note(3, b"GNU\0", &[1; 64])).expect("there").len(), BUILD_ID_MAX);
        assert_eq!(find_build_id(&[0xFF; 64]), None);
        assert_eq!(find_build_id(&[]), None);
    }
}
