//! A stand-in for the kernel compiler, which the wheel does not include and which even a mock device calls.
//!
//! Mock chips never run kernels, so every "compilation" may produce the same file: the smallest RISC-V executable that TT-Metal's loader
//! accepts. The loader needs a text segment at its entry point, symbols, and relocations; one relocation without effect is enough. Never
//! use it with real chips.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The programs that TT-Metal calls.
const NAMES: &[&str] = &["riscv-tt-elf-g++", "riscv-tt-elf-gcc", "riscv-tt-elf-ld", "riscv-tt-elf-objcopy"];

/// Prints the compiler's version, or else copies the executable to the path after `-o`, with the list of dependencies beside it.
const SCRIPT: &str = r#"#!/bin/sh
# Written by `cargo xtask ttnn setup`: a compiler for mock chips, which never run anything.
executable=${0%/*}/../../mock.elf
output= list= wants_list= last=
for word in "$@"; do
  case $word in
    --version) echo 'riscv-tt-elf-g++ (tenstorrent/sfpi:0.0.0-mock[0]) 15.1.0'; exit 0 ;;
    -MD|-MMD) wants_list=yes ;;
  esac
  case $last in
    -o) output=$word ;;
    -MF) list=$word ;;
  esac
  last=$word
done
if [ -z "$output" ]; then exit 0; fi
cp "$executable" "$output" || exit 1
if [ -n "$wants_list" ]; then echo "$output:" > "${list:-${output%.*}.d}"; fi
"#;

/// Installs the stand-in where the ttnn package searches its compiler. An existing compiler is not changed.
pub(super) fn install(package: &Path) -> io::Result<()> {
    let home = package.join("runtime/sfpi");
    let programs = home.join("compiler/bin");
    fs::create_dir_all(&programs)?;
    fs::create_dir_all(home.join("include"))?;
    fs::write(home.join("mock.elf"), executable())?;
    for name in NAMES {
        let program = programs.join(name);
        fs::write(&program, SCRIPT)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

const TEXT_ADDRESS: u32 = 0x5000;
/// `ret` between `nop` instructions, four bytes each.
const TEXT: [u32; 4] = [0x0000_0013, 0x0000_8067, 0x0000_0013, 0x0000_0013];
/// Names of sections and of the one symbol, in one table.
const NAMES_TABLE: &[u8] = b"\0.text\0.names\0.symtab\0.rela.text\0_start\0";

const HEADER_BYTES: u32 = 52;
const SEGMENT_BYTES: u32 = 32;
const SYMBOL_BYTES: u32 = 16;
const RELOCATION_BYTES: u32 = 12;
const SECTION_BYTES: u16 = 40;

/// A row of the table of sections.
struct Section {
    name: &'static [u8],
    /// SHT_PROGBITS 1, SHT_SYMTAB 2, SHT_STRTAB 3, SHT_RELA 4.
    kind: u32,
    flags: u32,
    address: u32,
    link: u32,
    info: u32,
    record: u32,
    content: Vec<u8>,
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn name_at(name: &[u8]) -> u32 {
    let at = NAMES_TABLE.windows(name.len()).position(|window| window == name).unwrap_or(0);
    u32::try_from(at).unwrap_or(0)
}

fn sections() -> [Section; 4] {
    let section = |name, kind, content| Section { name, kind, flags: 0, address: 0, link: 0, info: 0, record: 0, content };
    // Symbol 1: global function in section 1.
    let mut symbols = vec![0; 16];
    symbols.extend(words(&[name_at(b"_start\0"), TEXT_ADDRESS, 16, 0x0001_0012]));
    // R_RISCV_RELAX (51) with symbol 1 is a hint for a linker. A loader ignores it.
    let relocations = words(&[TEXT_ADDRESS, (1 << 8) | 51, 0]);
    [
        Section { flags: 6, address: TEXT_ADDRESS, ..section(b".text\0", 1, words(&TEXT)) },
        section(b".names\0", 3, NAMES_TABLE.to_vec()),
        Section { link: 2, info: 1, record: SYMBOL_BYTES, ..section(b".symtab\0", 2, symbols) },
        Section { flags: 0x40, link: 3, info: 1, record: RELOCATION_BYTES, ..section(b".rela.text\0", 4, relocations) },
    ]
}

/// Returns a 32-bit little-endian RISC-V executable: header, one segment, contents, table of sections.
fn executable() -> Vec<u8> {
    let text_at = HEADER_BYTES + SEGMENT_BYTES;
    let mut contents = Vec::new();
    let mut table = vec![0; usize::from(SECTION_BYTES)];
    let here = |contents: &Vec<u8>| text_at + u32::try_from(contents.len()).unwrap_or(0);
    for Section { name, kind, flags, address, link, info, record, content } in sections() {
        contents.resize(contents.len().next_multiple_of(4), 0);
        let size = u32::try_from(content.len()).unwrap_or(0);
        table.extend(words(&[name_at(name), kind, flags, address, here(&contents), size, link, info, 4, record]));
        contents.extend(content);
    }
    contents.resize(contents.len().next_multiple_of(4), 0);

    let mut file = vec![0x7f, b'E', b'L', b'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    // ET_EXEC 2, EM_RISCV 243.
    file.extend(words(&[2 | (243 << 16), 1, TEXT_ADDRESS, HEADER_BYTES, here(&contents), 0]));
    for half in [52, 32, 1, SECTION_BYTES, 5, 2] {
        file.extend(u16::to_le_bytes(half));
    }
    // PT_LOAD 1; read and execute 5.
    file.extend(words(&[1, text_at, TEXT_ADDRESS, TEXT_ADDRESS, 16, 16, 5, 4]));
    file.extend(contents);
    file.extend(table);
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_laid_out_as_its_header_says() {
        let file = executable();
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
        assert_eq!(&file[..4], b"\x7fELF");
        assert_eq!(word(52 + 4), 84, "the segment begins behind both headers");
        assert_eq!(word(84), TEXT[0] as usize);
        let sections = word(32);
        assert_eq!(sections + 5 * 40, file.len(), "the table of sections is the end of the file");
        assert_eq!(word(sections + 40 + 16), 84, "the first section is the segment");
        let names = word(sections + 2 * 40 + 16);
        assert_eq!(&file[names + word(sections + 3 * 40)..][..7], b".symtab");
    }

    #[test]
    fn the_script_copies_and_lists() {
        let folder = tempfile::tempdir().unwrap();
        install(folder.path()).unwrap();
        let compiler = folder.path().join("runtime/sfpi/compiler/bin/riscv-tt-elf-g++");
        let run = |arguments: &[&str]| {
            let mut command = std::process::Command::new(&compiler);
            command.args(arguments).current_dir(folder.path()).output().unwrap()
        };
        assert!(String::from_utf8(run(&["--version"]).stdout).unwrap().contains(" 15.1.0"));
        assert!(run(&["-MMD", "a.cpp", "-o", "a.o"]).status.success());
        assert_eq!(fs::read(folder.path().join("a.o")).unwrap(), executable());
        assert_eq!(fs::read_to_string(folder.path().join("a.d")).unwrap(), "a.o:\n");
        assert!(!run(&["-o", "no/such/place"]).status.success());
    }
}
