//! Finds an interpreter in this process.

use std::ffi::{CStr, c_void};

use crate::layout::Unknown;

/// Addresses of an interpreter's own symbols.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbols {
    pub(crate) this_thread: usize,
    pub(crate) code_type: usize,
    pub(crate) text_type: usize,
    pub(crate) bytes_type: usize,
    pub(crate) runtime: usize,
    pub(crate) version: (u8, u8),
}

/// Names of the interpreter's library, for programs that loaded it with a local scope.
const LIBRARIES: [&CStr; 5] =
    [c"libpython3.10.so.1.0", c"libpython3.11.so.1.0", c"libpython3.12.so.1.0", c"libpython3.13.so.1.0", c"libpython3.14.so.1.0"];

/// Returns `None` if there is no interpreter in this process.
pub(crate) fn find() -> Option<Result<Symbols, Unknown>> {
    let mut handle = libc::RTLD_DEFAULT;
    if symbol(handle, c"PyGILState_GetThisThreadState") == 0 {
        handle = LIBRARIES.iter().find_map(|name| loaded(name))?;
    }
    let this_thread = symbol(handle, c"PyGILState_GetThisThreadState");
    (this_thread != 0).then(|| all(handle, this_thread))
}

fn all(handle: *mut c_void, this_thread: usize) -> Result<Symbols, Unknown> {
    let version = version(handle)?;
    let symbols = Symbols {
        this_thread,
        code_type: symbol(handle, c"PyCode_Type"),
        text_type: symbol(handle, c"PyUnicode_Type"),
        bytes_type: symbol(handle, c"PyBytes_Type"),
        runtime: symbol(handle, c"_PyRuntime"),
        version,
    };
    let is_whole = [symbols.code_type, symbols.text_type, symbols.bytes_type, symbols.runtime].iter().all(|address| *address != 0);
    if is_whole { Ok(symbols) } else { Err(Unknown::NoTable) }
}

/// Returns major and minor version. From 3.11 on there is a constant. 3.10 is identified by a function that is new in it.
fn version(handle: *mut c_void) -> Result<(u8, u8), Unknown> {
    let constant = symbol(handle, c"Py_Version");
    if constant == 0 {
        let is_3_10 = symbol(handle, c"PyModule_AddObjectRef") != 0;
        return if is_3_10 { Ok((3, 10)) } else { Err(Unknown::Version(3, 0)) };
    }
    let word = crate::memory::word(constant).ok_or(Unknown::NoCopies)?;
    let [_, _, minor, major, ..] = word.to_le_bytes();
    Ok((major, minor))
}

fn symbol(handle: *mut c_void, name: &CStr) -> usize {
    // SAFETY: a handle of the loader, and a NUL-terminated name.
    unsafe { libc::dlsym(handle, name.as_ptr()) as usize }
}

/// Returns the handle of a loaded library. The additional reference stays, because the library is in use as long as its interpreter.
fn loaded(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a NUL-terminated name; nothing is loaded.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    (!handle.is_null()).then_some(handle)
}
