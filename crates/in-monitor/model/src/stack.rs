//! Source lines of a program that requested memory.

use std::fmt;
use std::sync::Arc;

/// A source line of a program. The program controls the texts, so sanitise them before printing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceLine {
    /// The file name from the interpreter. Only the end of a long name is stored.
    pub file: Arc<str>,
    /// The line number, or 0 if unknown.
    pub line: u32,
    /// The function.
    pub function: Arc<str>,
}

impl SourceLine {
    /// Returns whether the search for the user's line skips this one: a line of ttnn, torch, ttmon, the standard library or the
    /// interpreter, machine code of TT-Metal or of the C and C++ libraries, or a function of their headers.
    pub fn is_skipped(&self) -> bool {
        is_skipped(&self.file)
    }

    /// Returns the line that represents an address of machine code: file `OBJECT+0xADDRESS`, line 0, function `[BUILD ID]`.
    pub fn of_native(object: &str, address: u32, build_id: &str) -> Self {
        Self { file: format!("{object}+{address:#x}").into(), line: 0, function: format!("[{build_id}]").into() }
    }

    /// Returns the address that the line represents, if it is an unresolved address.
    pub fn native(&self) -> Option<NativeFrame<'_>> {
        let build_id = self.function.strip_prefix('[')?.strip_suffix(']')?;
        let (object, address) = self.file.rsplit_once("+0x").filter(|_| self.line == 0)?;
        Some(NativeFrame { object, address: u64::from_str_radix(address, 16).ok()?, build_id })
    }

    /// Returns the file name with its folder: `models/decoder.py`.
    pub fn short_file(&self) -> &str {
        let mut slashes = self.file.rmatch_indices('/').map(|(at, _)| at + 1);
        let at = slashes.nth(1).unwrap_or(0);
        self.file.get(at..).filter(|_| at > 1).unwrap_or(&self.file)
    }
}

/// Formats the line: `models/decoder.py:42 Decoder.forward`, `bin/model+0x1f40`.
impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short_file())?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        let has_name = !self.function.is_empty() && &*self.function != "<module>" && self.native().is_none();
        if has_name { write!(f, " {}", self.function) } else { Ok(()) }
    }
}

/// An unresolved address of machine code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NativeFrame<'a> {
    /// The path of the program or library.
    pub object: &'a str,
    /// The address in its file.
    pub address: u64,
    /// The build id in hexadecimal. Empty if the file has none.
    pub build_id: &'a str,
}

/// The lines that were active when a program requested memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// The number in the ledger of the process, or 0 if unknown.
    pub number: u32,
    /// The line that is shown to users (see [`user_line`]).
    pub line: Arc<SourceLine>,
    /// All lines, innermost first.
    pub frames: Vec<Arc<SourceLine>>,
}

impl Stack {
    /// Creates a stack. Returns `None` if it has no line to show to users.
    pub fn new(number: u32, frames: Vec<Arc<SourceLine>>) -> Option<Self> {
        Some(Self { number, line: user_line(frames.iter())?.clone(), frames })
    }

    /// Creates a stack of which only the user's line is known.
    pub fn of_line(line: Arc<SourceLine>) -> Self {
        Self { number: 0, frames: vec![line.clone()], line }
    }
}

/// Packages that may be between a user's line and the allocation.
const PACKAGES: [&str; 3] = ["ttnn", "torch", "ttmon"];
/// Folders that packages are installed into.
const INSTALLED: [&str; 2] = ["site-packages", "dist-packages"];

/// Libraries of machine code that may be between a user's line and the allocation. These are prefixes of their names.
const OBJECTS: [&str; 12] = [
    "libtt_metal.",
    "libtt_stl.",
    "libtt-umd.",
    "libttnn",
    "_ttnn",
    "libttmon",
    "libstdc++.",
    "libc++.",
    "libgcc_s.",
    "libc.",
    "libpthread.",
    "ld-linux",
];
/// Folders of headers with functions that are inlined into a user's code.
const HEADERS: [&str; 4] = ["/usr/include/", "/usr/lib/gcc/", "/tt-metalium/", "/tt_stl/"];

fn is_skipped(file: &str) -> bool {
    if file.starts_with("<frozen") || file.is_empty() {
        return true;
    }
    if let Some((object, _)) = file.rsplit_once("+0x") {
        let name = object.rsplit('/').next().unwrap_or(object);
        return OBJECTS.iter().any(|known| name.starts_with(known));
    }
    let is_python = file.ends_with(".py");
    if !is_python && HEADERS.iter().any(|folder| file.contains(folder)) {
        return true;
    }
    let parts: Vec<&str> = file.split('/').collect();
    if let Some(at) = parts.iter().rposition(|part| INSTALLED.contains(part)) {
        let package = parts.get(at + 1).map_or("", |part| part.strip_suffix(".py").unwrap_or(part));
        return PACKAGES.contains(&package);
    }
    // A checkout of TT-Metal has its package in ttnn/ttnn. The standard library is in lib/python3.N.
    let mut pairs = parts.windows(2).map(|pair| (pair[0], pair[1]));
    pairs.any(|(folder, inner)| (folder, inner) == ("ttnn", "ttnn") || ["lib", "lib64"].contains(&folder) && inner.starts_with("python3."))
}

/// Returns the line of a stack that is shown to users: the innermost frame outside libraries. If there is none, the outermost frame
/// outside the interpreter.
pub fn user_line<'a>(frames: impl Iterator<Item = &'a Arc<SourceLine>>) -> Option<&'a Arc<SourceLine>> {
    let mut last = None;
    for frame in frames {
        if !frame.is_skipped() {
            return Some(frame);
        }
        if !frame.file.starts_with('<') && !frame.file.is_empty() {
            last = Some(frame);
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(file: &str) -> Arc<SourceLine> {
        Arc::new(SourceLine { file: file.into(), line: 7, function: "f".into() })
    }

    #[test]
    fn lines_of_libraries_are_not_a_users() {
        for file in [
            "/venv/lib/python3.12/site-packages/ttnn/decorators.py",
            "/venv/lib/python3.12/site-packages/torch/nn/modules/module.py",
            "/usr/lib/python3/dist-packages/ttmon.py",
            "/home/me/tt-metal/ttnn/ttnn/decorators.py",
            "/usr/lib/python3.11/threading.py",
            "<frozen runpy>",
            "",
        ] {
            assert!(line(file).is_skipped(), "{file}");
        }
        for file in [
            "/home/me/model.py",
            "/home/me/ttnn/test.py",
            "/venv/lib/python3.12/site-packages/transformers/modeling.py",
            "/venv/lib/python3.12/site-packages/ttnn_models/a.py",
            "model.py",
            "<string>",
        ] {
            assert!(!line(file).is_skipped(), "{file}");
        }
    }

    #[test]
    fn the_line_is_the_innermost_of_the_user() {
        let [inner, user, outer] = ["/x/site-packages/ttnn/a.py", "/me/model.py", "/me/main.py"].map(line);
        assert_eq!(user_line([&inner, &user, &outer].into_iter()), Some(&user));
        let example = line("/x/site-packages/ttnn/examples/b.py");
        assert_eq!(user_line([&inner, &example, &line("<frozen runpy>")].into_iter()), Some(&example), "a program of ttnn's own");
        assert_eq!(user_line(std::iter::empty()), None);
    }

    #[test]
    fn machine_code_is_known_by_its_object() {
        let native = |object: &str| SourceLine::of_native(object, 0x1F40, "ab12");
        let line = native("/opt/app/bin/model");
        assert_eq!(line.native(), Some(NativeFrame { object: "/opt/app/bin/model", address: 0x1F40, build_id: "ab12" }));
        assert_eq!((line.to_string(), line.is_skipped()), ("bin/model+0x1f40".to_owned(), false));
        for object in ["/x/libtt_metal.so", "/lib/libc.so.6", "/y/_ttnncpp.so", "/z/libttmon_hook.so", "/lib64/ld-linux-x86-64.so.2"] {
            assert!(native(object).is_skipped(), "{object}");
        }
        assert!(!native("/opt/libcustom.so").is_skipped());
        assert!(is_skipped("/usr/include/c++/12/bits/shared_ptr.h") && !is_skipped("/home/me/src/main.cpp"));
        let named = SourceLine { function: "app::run".into(), ..line };
        assert_eq!((named.to_string(), named.native()), ("bin/model+0x1f40 app::run".to_owned(), None));
    }

    #[test]
    fn a_line_in_words() {
        let words = |file: &str, function: &str| SourceLine { file: file.into(), line: 42, function: function.into() }.to_string();
        assert_eq!(words("/home/me/models/decoder.py", "Decoder.forward"), "models/decoder.py:42 Decoder.forward");
        assert_eq!(words("/a.py", "<module>"), "/a.py:42");
        assert_eq!(words("a.py", ""), "a.py:42");
        assert_eq!(words("b/a.py", "f"), "b/a.py:42 f");
    }
}
