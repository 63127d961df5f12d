//! Examines the program of a command: whether a library can be preloaded into it, and which interpreter it needs.
//!
//! If a library cannot be preloaded into a program, the dynamic linker prints an error to standard error, and musl's linker aborts. So
//! these commands are started without the library.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use object::elf::{DataEncoding, ELFMAG, FileClass, FileHeader64, Machine};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{LittleEndian, ReadCache, ReadRef};
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
    let data = ReadCache::new(&file);
    let path = match header(&data) {
        Some(header) => interpreter(&data, header).ok()??.to_vec(),
        None => {
            let mut line = [0; SCRIPT_BYTES];
            let length = file.read_at(&mut line, 0).ok()?;
            let line = line.get(..length)?.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
            line.trim_ascii_start().split(|byte| b" \t\0".contains(byte)).next()?.to_vec()
        }
    };
    (!path.is_empty()).then(|| PathBuf::from(OsString::from_vec(path)))
}

/// Returns the file that would be executed. A name with a slash is a path; any other name is searched in `path`.
pub(super) fn resolve(command: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    if command.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(command));
    }
    let is_program = |candidate: &PathBuf| candidate.is_file() && access(candidate, Access::EXEC_OK).is_ok();
    env::split_paths(path.unwrap_or(OsStr::new("/bin:/usr/bin"))).map(|folder| folder.join(Path::new(command))).find(is_program)
}

/// Bytes that the system reads from the beginning of a script.
const SCRIPT_BYTES: usize = 256;

/// The header of an ELF file of 64 bits. One of 32 bits begins with the same members.
type Header = FileHeader64<LittleEndian>;
/// The parts of a header that identify the processor: class, byte order and machine.
type Target = (FileClass, DataEncoding, Machine);

fn of_file(file: &File) -> Linkage {
    let data = ReadCache::new(file);
    let Some(header) = header(&data) else { return Linkage::Dynamic };
    if own_target().is_some_and(|own| own != target(header)) {
        return Linkage::Foreign;
    }
    match interpreter(&data, header) {
        Ok(Some(path)) if path.windows(7).any(|part| part == b"ld-musl") => Linkage::Musl,
        Ok(None) => Linkage::Static,
        _ => Linkage::Dynamic,
    }
}

/// Reads the header of an ELF file. Returns `None` for any other file, such as a script.
fn header<'a>(data: &'a ReadCache<&File>) -> Option<&'a Header> {
    let header: &Header = data.read_at(0).ok()?;
    (header.e_ident.magic == ELFMAG).then_some(header)
}

fn target(header: &Header) -> Target {
    (header.e_ident.class, header.e_ident.data, header.e_machine(LittleEndian))
}

/// The target of ttmon's libraries, which is the target of this program.
fn own_target() -> Option<Target> {
    let file = File::open(env::current_exe().ok()?).ok()?;
    header(&ReadCache::new(&file)).map(target)
}

/// Returns the path of the dynamic linker, or `None` if there is none.
fn interpreter<'a>(data: &'a ReadCache<&File>, header: &Header) -> object::Result<Option<&'a [u8]>> {
    let segments = header.program_headers(LittleEndian, data)?;
    segments.iter().find_map(|segment| segment.interpreter(LittleEndian, data).transpose()).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::elf::{ELFCLASS32, EM_386};
    use std::io::Write;

    const HEADER_BYTES: usize = 64;
    const SEGMENT_BYTES: usize = 56;

    /// Creates an ELF file with a header and segments. Each segment has a type and a text.
    fn elf(target: Target, segments: &[(u32, &[u8])]) -> File {
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(b"\x7fELF");
        (header[4], header[5]) = (target.0.0, target.1.0);
        header[18..20].copy_from_slice(&target.2.0.to_le_bytes());
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
        assert_eq!(of_file(&elf((ELFCLASS32, own.1, EM_386), &[])), Linkage::Foreign);
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
