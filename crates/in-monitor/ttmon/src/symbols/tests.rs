//! Resolves lines of a program that is compiled on this machine.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use object::{Object, ObjectSymbol};
use ttmon_model::stack::SourceLine;

const SOURCE: &str = "\
namespace app {
struct Model {
    __attribute__((noinline)) int forward(int tokens);
    static inline int grow(int tokens) {
        volatile int bytes = tokens;
        return bytes + 1;
    }
};
int Model::forward(int tokens) { return grow(tokens) * 2; }
}  // namespace app
int main(int count, char**) { return app::Model().forward(count); }
";
const FUNCTION: &str = "_ZN3app5Model7forwardEi";

/// Compiles the source and returns the address of its function and its build id. Prints a message and returns `None` if there is no
/// compiler.
fn build(program: &Path, more: &[&str]) -> Option<(u32, String)> {
    let source = program.with_extension("cpp");
    fs::write(&source, SOURCE).expect("written");
    let mut compiler = Command::new("c++");
    compiler.args(["-O1", "-Wl,--build-id=sha1", "-o"]).arg(program).arg(source).args(more);
    let Ok(output) = compiler.output() else {
        eprintln!("SKIPPED: no c++ on this machine, so no program was resolved");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = fs::read(program).expect("there");
    let elf = object::read::elf::ElfFile64::<object::Endianness>::parse(&*bytes).expect("a program");
    let symbol = elf.symbols().find(|symbol| symbol.name() == Ok(FUNCTION)).expect("its function");
    let build_id = elf.build_id().expect("readable").expect("asked for").iter().map(|byte| format!("{byte:02x}")).collect();
    Some((u32::try_from(symbol.address()).expect("a small program"), build_id))
}

fn resolved(program: &Path, address: u32, build_id: &str) -> Vec<(String, u32, String)> {
    let frame = Arc::new(SourceLine::of_native(program.to_str().expect("text"), address, build_id));
    let lines = super::resolve(&[frame]);
    let name = |file: &str| file.rsplit('/').next().unwrap_or_default().to_owned();
    lines[0].iter().map(|line| (name(&line.file), line.line, line.function.to_string())).collect()
}

fn unresolved(program: &Path, address: u32, build_id: &str) -> Vec<(String, u32, String)> {
    let name = program.file_name().and_then(|name| name.to_str()).expect("text");
    vec![(format!("{name}+{address:#x}"), 0, format!("[{build_id}]"))]
}

#[test]
fn inlined_functions_have_their_own_lines() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("debug");
    let Some((address, build_id)) = build(&program, &["-g"]) else { return };
    let lines: Vec<_> = (0..8).map(|more| resolved(&program, address + more, &build_id)).collect();
    let outer = ("debug.cpp".to_owned(), 9, "app::Model::forward".to_owned());
    assert!(lines.iter().all(|lines| lines.last() == Some(&outer)), "{lines:?}");
    assert!(lines.iter().any(|lines| lines.len() == 2 && lines[0].1 == 5 && lines[0].2 == "app::Model::grow"), "{lines:?}");
}

#[test]
fn a_program_without_debug_information_has_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("plain");
    let Some((address, build_id)) = build(&program, &[]) else { return };
    let name = "app::Model::forward".to_owned();
    assert_eq!(resolved(&program, address, &build_id), [(format!("plain+{address:#x}"), 0, name)]);
    assert_eq!(resolved(&program, 0xF00_0000, &build_id), unresolved(&program, 0xF00_0000, &build_id), "no function is there");
}

#[test]
fn an_address_behind_a_nested_symbol_belongs_to_the_outer_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("nested");
    // `inner` is a symbol of 2 bytes inside of the function.
    let assembly = folder.path().join("inner.s");
    let text = ".text\n.globl outer\n.type outer,@function\nouter: nop\n\
        .type inner,@function\ninner: nop\nnop\n.size inner,2\nnop\nret\n.size outer,.-outer\n";
    fs::write(&assembly, text).expect("written");
    let Some((_, build_id)) = build(&program, &[assembly.to_str().expect("text")]) else { return };
    let bytes = fs::read(&program).expect("there");
    let elf = object::read::elf::ElfFile64::<object::Endianness>::parse(&*bytes).expect("a program");
    let outer = elf.symbols().find(|symbol| symbol.name() == Ok("outer")).expect("outer").address();
    let outer = u32::try_from(outer).expect("a small program");
    let names = [0, 1, 2, 3, 4].map(|more| resolved(&program, outer + more, &build_id)[0].2.clone());
    assert_eq!(names, ["outer", "inner", "inner", "outer", "outer"]);
}

#[test]
fn a_file_that_is_not_the_program_resolves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("other");
    let Some((address, build_id)) = build(&program, &["-g"]) else { return };
    for expected in ["", "00ff", &"0".repeat(40)] {
        assert_eq!(resolved(&program, address, expected), unresolved(&program, address, expected), "{expected}");
    }
    for (name, bytes) in [("text", b"no program".to_vec()), ("cut", fs::read(&program).expect("there")[..200].to_vec())] {
        let file = folder.path().join(name);
        fs::write(&file, bytes).expect("written");
        assert_eq!(resolved(&file, address, &build_id), unresolved(&file, address, &build_id), "{name}");
    }
    for missing in ["missing", "."] {
        let path = folder.path().join(missing);
        assert_eq!(resolved(&path, 1, &build_id).len(), 1, "{missing}");
    }
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo starts").success());
    assert_eq!(resolved(&pipe, 1, &build_id), unresolved(&pipe, 1, &build_id), "nobody waits for a pipe");
}

/// A name in a ledger may be a link of another user, who can replace it by a device at any time.
#[test]
#[ignore = "needs root"]
fn links_of_other_users_are_not_followed() {
    const ANOTHER: u32 = 64_001;
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("program");
    let Some((address, build_id)) = build(&program, &["-g"]) else { return };
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("its mode");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&program, &link).expect("a link");
    assert_ne!(resolved(&link, address, &build_id), unresolved(&link, address, &build_id), "root's own link");
    std::os::unix::fs::lchown(&link, Some(ANOTHER), Some(ANOTHER)).expect("root");
    assert_eq!(resolved(&link, address + 1, &build_id), unresolved(&link, address + 1, &build_id), "another user's link");
    for open in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "/dev/zero"] {
        assert_eq!(resolved(Path::new(open), 1, &build_id).len(), 1, "{open}");
    }
}

/// Damages bytes of the debug information in steps, one at a time. There must be no panic and no endless loop.
#[test]
fn damaged_debug_information_resolves_something_or_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("damaged");
    let Some((address, build_id)) = build(&program, &["-g"]) else { return };
    let whole = fs::read(&program).expect("there");
    let elf = object::read::elf::ElfFile64::<object::Endianness>::parse(&*whole).expect("a program");
    let sections = [".debug_info", ".debug_abbrev", ".debug_line", ".debug_aranges"];
    let ranges = sections.iter().filter_map(|name| object::ObjectSection::file_range(&elf.section_by_name(name)?)).collect::<Vec<_>>();
    for (number, (start, length)) in (0_u8..).zip(ranges) {
        for at in (start..start + length).step_by(29) {
            let mut bytes = whole.clone();
            bytes[usize::try_from(at).expect("a small program")] ^= 0x81;
            let file = folder.path().join(format!("damaged-{number}-{at}"));
            fs::write(&file, bytes).expect("written");
            assert!(!resolved(&file, address + 4, &build_id).is_empty());
            fs::remove_file(&file).expect("removed");
        }
    }
}
