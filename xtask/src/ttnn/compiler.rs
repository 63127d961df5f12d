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
# Written by `cargo xtask ttnn`: a compiler for mock chips, which never run anything.
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
# Another process may read the same output at this moment.
cp "$executable" "$output.$$" && mv "$output.$$" "$output" || exit 1
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
/// A 32-bit little-endian RISC-V executable, in words of four bytes.
const EXECUTABLE: &[&[u32]] = &[
    // Header: 0x7f ELF, 32 bits, little-endian, version 1.
    &[0x464c_457f, 0x0001_0101, 0, 0],
    // ET_EXEC 2 and EM_RISCV 243, version, entry point, places of the segment and of the sections, flags.
    &[0x00f3_0002, 1, TEXT_ADDRESS, 52, 184, 0],
    // Pairs of 16 bits: a header of 52 bytes, 1 segment of 32, 5 sections of 40, of which number 2 has the names.
    &[0x0020_0034, 0x0028_0001, 0x0002_0005],
    // At 52: PT_LOAD 1, place, two addresses, two sizes, read and execute 5, alignment.
    &[1, 84, TEXT_ADDRESS, TEXT_ADDRESS, 16, 16, 5, 4],
    // At 84: `ret` between `nop` instructions.
    &[0x13, 0x8067, 0x13, 0x13],
    // At 100: the names "\0.text\0.names\0.symtab\0.rela.text\0_start\0".
    &[0x6574_2e00, 0x2e00_7478, 0x656d_616e, 0x732e_0073, 0x6174_6d79],
    &[0x722e_0062, 0x2e61_6c65, 0x7478_6574, 0x7473_5f00, 0x0074_7261],
    // At 140: an empty symbol, and symbol 1: name, address, size, global function in section 1.
    &[0, 0, 0, 0, 33, TEXT_ADDRESS, 16, 0x0001_0012],
    // At 172: R_RISCV_RELAX (51) with symbol 1 is a hint for a linker. A loader ignores it.
    &[TEXT_ADDRESS, 1 << 8 | 51, 0],
    // At 184: an empty section, .text, .names, .symtab and .rela.text: name; SHT_PROGBITS 1, SHT_SYMTAB 2, SHT_STRTAB 3 or SHT_RELA 4;
    // flags, address, place, size, linked section, related section, alignment, size of an entry.
    &[0; 10],
    &[1, 1, 6, TEXT_ADDRESS, 84, 16, 0, 0, 4, 0],
    &[7, 3, 0, 0, 100, 40, 0, 0, 4, 0],
    &[14, 2, 0, 0, 140, 32, 2, 1, 4, 16],
    &[22, 4, 0x40, 0, 172, 12, 3, 1, 4, 12],
];

fn executable() -> Vec<u8> {
    EXECUTABLE.concat().into_iter().flat_map(u32::to_le_bytes).collect()
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
        assert_eq!(word(84), 0x13);
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
