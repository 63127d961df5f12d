//! Examines the program of a command: whether a library can be preloaded into it, and which interpreter it needs.
//!
//! If a library cannot be preloaded into a program, the dynamic linker prints an error to standard error, and musl's linker aborts. So
//! these commands are started without the library.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Whether a library can be preloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Linkage {
    /// A library can be preloaded, or it is unknown.
    Dynamic,
    /// The program has no dynamic linker. Its children may have one.
    Static,
    /// The dynamic linker is musl's, which cannot load libraries built for another C library.
    Musl,
    /// The program is for another processor, or for 32 bits.
    Foreign,
}

impl Linkage {
    /// Whether to add the library to the program's environment.
    pub(crate) fn takes_preload(self) -> bool {
        matches!(self, Self::Dynamic | Self::Static)
    }

    /// Why the program cannot be tracked.
    pub(crate) fn reason(self) -> Option<&'static str> {
        match self {
            Self::Dynamic => None,
            Self::Static => Some("it is statically linked, so nothing can be preloaded"),
            Self::Musl => Some("it uses musl's dynamic linker, which cannot preload our library"),
            Self::Foreign => Some("it is a program for another processor or for 32 bits"),
        }
    }
}

/// Determines the linkage of a command's program before it is started. If the file cannot be read, that is the usual one, and starting the
/// command tells why.
pub(crate) fn linkage(command: &OsStr, path: Option<&OsStr>) -> Linkage {
    // Opening a pipe would wait for a writer.
    let program = resolve(command, path).filter(|path| path.is_file());
    program.and_then(|path| File::open(path).ok()).map_or(Linkage::Dynamic, |file| of_file(&file))
}

/// Returns the file that the system executes first: the interpreter in a script's first line, or the dynamic linker. Returns `None` if
/// there is neither, or if the command does not exist.
pub(crate) fn interpreter_of(command: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    let file = File::open(resolve(command, path).filter(|path| path.is_file())?).ok()?;
    let path = match header(&file) {
        Some(header) => interpreter(&file, &header)??,
        None => {
            let mut line = [0; SCRIPT_BYTES];
            let length = file.read_at(&mut line, 0).ok()?;
            let line = line.get(..length)?.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
            line.trim_ascii_start().split(|byte| b" \t".contains(byte)).next()?.to_vec()
        }
    };
    let path = path.split(|byte| *byte == 0).next().filter(|path| !path.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(path)))
}

/// Returns the file that would be executed. A name with a slash is a path; any other name is searched in `path`.
pub(super) fn resolve(command: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    if command.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(command));
    }
    let is_program = |candidate: &PathBuf| candidate.is_file() && access(candidate, Access::EXEC_OK).is_ok();
    env::split_paths(path.unwrap_or(OsStr::new("/bin:/usr/bin"))).map(|folder| folder.join(Path::new(command))).find(is_program)
}

const HEADER_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;
/// Maximum number of segments that are read. Programs have about a dozen.
const SEGMENTS_MAX: u16 = 256;
const INTERPRETER: u32 = 3;
const INTERPRETER_BYTES_MAX: u64 = 4096;
/// Bytes that the system reads from the beginning of a script.
const SCRIPT_BYTES: usize = 256;

/// The parts of an ELF header that identify the processor: class, byte order and machine.
type Target = (u8, u8, u16);

fn of_file(file: &File) -> Linkage {
    let Some(header) = header(file) else { return Linkage::Dynamic };
    if own_target().is_some_and(|own| own != target(&header)) {
        return Linkage::Foreign;
    }
    match interpreter(file, &header) {
        Some(Some(path)) if path.windows(7).any(|part| part == b"ld-musl") => Linkage::Musl,
        Some(None) => Linkage::Static,
        _ => Linkage::Dynamic,
    }
}

/// Reads the header of a 64-bit or 32-bit ELF file. Returns `None` for any other file, such as a script.
fn header(file: &File) -> Option<[u8; HEADER_BYTES]> {
    let mut header = [0; HEADER_BYTES];
    file.read_exact_at(&mut header, 0).ok()?;
    header.starts_with(b"\x7fELF").then_some(header)
}

fn target(header: &[u8; HEADER_BYTES]) -> Target {
    (header[4], header[5], u16::from_le_bytes(at(header, 18)))
}

/// The target of ttmon's libraries, which is the target of this program.
fn own_target() -> Option<Target> {
    header(&File::open(env::current_exe().ok()?).ok()?).map(|header| target(&header))
}

/// Returns the path of the dynamic linker. `Some(None)` means that there is none, `None` that it is unknown.
fn interpreter(file: &File, header: &[u8; HEADER_BYTES]) -> Option<Option<Vec<u8>>> {
    let (offset, bytes, count) =
        (u64::from_le_bytes(at(header, 32)), usize::from(u16::from_le_bytes(at(header, 54))), u16::from_le_bytes(at(header, 56)));
    if bytes != SEGMENT_BYTES || count > SEGMENTS_MAX {
        return None;
    }
    let mut segments = vec![0; bytes * usize::from(count)];
    file.read_exact_at(&mut segments, offset).ok()?;
    let Some(segment) = segments.chunks_exact(SEGMENT_BYTES).find(|segment| u32::from_le_bytes(at(segment, 0)) == INTERPRETER) else {
        return Some(None);
    };
    let mut path = vec![0; usize::try_from(u64::from_le_bytes(at(segment, 32)).min(INTERPRETER_BYTES_MAX)).ok()?];
    file.read_exact_at(&mut path, u64::from_le_bytes(at(segment, 8))).ok()?;
    Some(Some(path))
}

/// Returns the bytes at an offset; zeros if there are too few.
fn at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes.get(offset..offset + N).and_then(|part| part.try_into().ok()).unwrap_or([0; N])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Creates an ELF file with a header and segments. Each segment has a type and a text.
    fn elf(target: Target, segments: &[(u32, &[u8])]) -> File {
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(b"\x7fELF");
        (header[4], header[5]) = (target.0, target.1);
        header[18..20].copy_from_slice(&target.2.to_le_bytes());
        header[32..40].copy_from_slice(&64_u64.to_le_bytes());
        header[54..56].copy_from_slice(&56_u16.to_le_bytes());
        header[56..58].copy_from_slice(&u16::try_from(segments.len()).unwrap().to_le_bytes());
        let (mut table, mut texts) = (Vec::new(), Vec::new());
        for (kind, text) in segments {
            let mut segment = [0; SEGMENT_BYTES];
            segment[..4].copy_from_slice(&kind.to_le_bytes());
            segment[8..16].copy_from_slice(&((64 + 56 * segments.len() + texts.len()) as u64).to_le_bytes());
            segment[32..40].copy_from_slice(&(text.len() as u64).to_le_bytes());
            table.extend_from_slice(&segment);
            texts.extend_from_slice(text);
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[&header[..], &table, &texts].concat()).unwrap();
        file
    }

    #[test]
    fn the_linkage_of_a_program_is_found() {
        let own = own_target().unwrap();
        assert_eq!(of_file(&elf(own, &[(1, b"code"), (3, b"/lib64/ld-linux-x86-64.so.2\0")])), Linkage::Dynamic);
        assert_eq!(of_file(&elf(own, &[(3, b"/lib/ld-musl-x86_64.so.1\0")])), Linkage::Musl);
        assert_eq!(of_file(&elf(own, &[(1, b"code")])), Linkage::Static);
        assert_eq!(of_file(&elf((1, own.1, 3), &[])), Linkage::Foreign);
        assert_eq!(of_file(&File::open(env::current_exe().unwrap()).unwrap()), Linkage::Dynamic);
    }

    #[test]
    fn other_files_have_no_known_linkage() {
        for bytes in [&b""[..], b"#!/bin/sh\nexit 0\n", &[0x7f; 200]] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(bytes).unwrap();
            assert_eq!(of_file(&file), Linkage::Dynamic);
        }
        // One segment is outside the file, and so is one segment table.
        let own = own_target().unwrap();
        let file = elf(own, &[(3, b"x")]);
        file.write_all_at(&u64::MAX.to_le_bytes(), 64 + 8).unwrap();
        assert_eq!(of_file(&file), Linkage::Dynamic);
        file.write_all_at(&u64::MAX.to_le_bytes(), 32).unwrap();
        assert_eq!(of_file(&file), Linkage::Dynamic);
    }

    #[test]
    fn the_interpreter_of_a_program_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let check = |text: &str, expected: Option<&str>| {
            let path = folder.path().join("script");
            std::fs::write(&path, text).unwrap();
            assert_eq!(interpreter_of(path.as_os_str(), None), expected.map(PathBuf::from), "{text:?}");
        };
        check("#!/bin/sh\nexit 0\n", Some("/bin/sh"));
        check("#! \t/usr/bin/env -S python3 -u\n", Some("/usr/bin/env"));
        check("#!/bin/sh\r\n", Some("/bin/sh\r"));
        check("#!/bin/sh", Some("/bin/sh"));
        for nothing in ["", "#!", "#!\n", "#! \n/bin/sh", "exit 0\n"] {
            check(nothing, None);
        }
        assert!(interpreter_of(env::current_exe().unwrap().as_os_str(), None).is_some_and(|linker| linker.exists()));
        assert_eq!(interpreter_of(OsStr::new("/no/such/program"), None), None);
    }

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        assert_eq!(resolve(OsStr::new("./x"), None), Some(PathBuf::from("./x")));
        assert!(resolve(OsStr::new("sh"), env::var_os("PATH").as_deref()).is_some_and(|path| path.is_absolute()));
        assert_eq!(resolve(OsStr::new("no-such-program-anywhere"), env::var_os("PATH").as_deref()), None);
    }
}
