//! The loaded objects of this process: finds the object at an address, and the symbols that the object or its dependencies define.

use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;

use ttmon_pystack::Text;

const PATH_BYTES: usize = 4096;

/// A program or library in memory.
pub(crate) struct Object {
    /// The load address: the loader adds it to the addresses in the file.
    pub(crate) base: usize,
    pub(crate) start: usize,
    pub(crate) bytes: usize,
    path: [u8; PATH_BYTES],
    /// Only known if the object was found by an address.
    pub(crate) build_id: BuildId,
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

    /// Returns the object that contains an address, with the path of its file even if it is the main program.
    pub(crate) fn with_path(address: usize) -> Option<Self> {
        let mut found = Self::of(address)?;
        if found.is_program() {
            let [path, into] = [c"/proc/self/exe".as_ptr(), found.path.as_mut_ptr().cast()];
            // SAFETY: a NUL-terminated string, and a buffer of this length plus one byte, which stays NUL.
            unsafe { libc::readlink(path, into.cast_mut(), PATH_BYTES - 1) };
        }
        Some(found)
    }

    pub(crate) fn path(&self) -> &str {
        CStr::from_bytes_until_nul(&self.path).ok().and_then(|path| path.to_str().ok()).unwrap_or_default()
    }

    /// Returns the object with this index, or `None` after the last one.
    pub(crate) fn nth(number: usize) -> Option<Self> {
        Self::search(Which::After(number))
    }

    /// Whether this is the main program. The loader gives it no name, and resolves its symbols in all objects, including preloaded ones.
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

/// A build id in hexadecimal, empty if there is none.
pub(crate) type BuildId = Text<{ 2 * BUILD_ID_MAX }>;

/// Maximum bytes of a build id. A SHA-1 has 20.
const BUILD_ID_MAX: usize = 32;

fn hexadecimal(bytes: &[u8]) -> BuildId {
    let mut text = BuildId::default();
    for digit in bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]) {
        text.push(char::from_digit(digit.into(), 16).unwrap_or('0'));
    }
    text
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
    let of_kind = |kind| {
        headers.iter().filter(move |header| header.p_type == kind).map(move |header| {
            let from = base.wrapping_add(position(header.p_vaddr));
            from..from.wrapping_add(position(header.p_memsz))
        })
    };
    let segments = || of_kind(libc::PT_LOAD);
    let mut build_id = BuildId::default();
    match &mut search.which {
        Which::Around(address) if segments().any(|segment| segment.contains(address)) => {
            // The notes are in memory only if a loaded segment contains them.
            let is_loaded = |notes: &Range<usize>| segments().any(|segment| segment.start <= notes.start && notes.end <= segment.end);
            for notes in of_kind(libc::PT_NOTE).filter(is_loaded) {
                // SAFETY: within a segment that the loader mapped readable. The object cannot be unloaded during this call.
                let notes = unsafe { std::slice::from_raw_parts(notes.start as *const u8, notes.len()) };
                build_id = find_build_id(notes).map_or(build_id, hexadecimal);
            }
        }
        Which::After(0) => {}
        Which::Around(_) => return 0,
        Which::After(others) => {
            *others -= 1;
            return 0;
        }
    }
    let start = segments().map(|segment| segment.start).min().unwrap_or(0);
    let end = segments().map(|segment| segment.end).max().unwrap_or(0);
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
    search.found = Some(Object { base, start, bytes: end.saturating_sub(start), path, build_id });
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
        let code = Object::with_path(code_of_this_program_has_its_path as *const () as usize).expect("this test is loaded");
        assert_eq!(Some(code.path()), std::env::current_exe().expect("a path").to_str());
        assert!(code.has(code_of_this_program_has_its_path as *const () as usize));
        assert!(Object::of(8).is_none());
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
        assert_eq!(find_build_id(&notes).map(hexadecimal).expect("there").as_str(), "ab0102");
        assert_eq!(find_build_id(&notes[..notes.len() - 4]), None, "cut");
        assert_eq!(find_build_id(&note(3, b"GNU\0", &[1; 64])).expect("there").len(), BUILD_ID_MAX);
        assert_eq!(find_build_id(&[0xFF; 64]), None);
        assert_eq!(find_build_id(&[]), None);
    }
}
