//! Restricts two actions of the program to one file each: writing to stderr, and reading the command line as typed.

use super::code::macro_calls;
use super::{File, Finding};

const PROGRAM: &str = "crates/ttmon/src/";
/// Its `complain` ignores a closed or full stderr.
const HOME: &str = "crates/ttmon/src/failure.rs";
const MACROS: &[&str] = &["eprintln", "eprint"];

/// The macros panic if stderr cannot be written to, but a monitor must survive the end of its terminal.
pub(super) fn panicking_macros(file: &File) -> Vec<Finding> {
    if !file.path.starts_with(PROGRAM) || file.path == HOME {
        return Vec::new();
    }
    let calls = macro_calls(&file.code, MACROS);
    calls.map(|(at, word)| file.finding(file.line_of(at), format!("{word}! panics without a stderr: use failure::complain"))).collect()
}

/// Files that may read the command line as typed: its interpretation, and pages generated from its definition.
const READERS_OF_CLI: &[&str] = &["cli", "invocation", "main.rs", "pages.rs", "completion.rs"];

/// A command reads the interpreted command line, from `invocation`.
pub(super) fn commands_reading_the_command_line(file: &File) -> Vec<Finding> {
    let Some(path) = file.path.strip_prefix(PROGRAM) else { return Vec::new() };
    let is_reader = |name: &str| path == name || path == format!("{name}.rs") || path.starts_with(&format!("{name}/"));
    if READERS_OF_CLI.iter().any(|name| is_reader(name)) {
        return Vec::new();
    }
    let found = file.code.match_indices("crate::cli");
    found.map(|(at, _)| file.finding(file.line_of(at), "a command reads what was typed: give it a request of crate::invocation")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::said;
    use super::*;

    #[test]
    fn commands_get_what_was_meant() {
        let text = "// crate::cli\nuse crate::cli::MemArgs;\n";
        let found = said(&commands_reading_the_command_line(&File::new("crates/ttmon/src/mem/by.rs", text)));
        assert_eq!(found, ["crates/ttmon/src/mem/by.rs:2: a command reads what was typed: give it a request of crate::invocation"]);
        for path in ["invocation/memory.rs", "invocation.rs", "cli/span.rs", "main.rs"] {
            let path = format!("crates/ttmon/src/{path}");
            assert_eq!(commands_reading_the_command_line(&File::new(&path, text)), [], "{path}");
        }
    }

    const TEXT: &str = "// eprintln!()\nfn a() { eprintln!(\"eprint!\"); }\nfn eprint() { eprint!(\"b\") }\n";

    #[test]
    fn what_panics_without_a_stderr_is_found() {
        let found = said(&panicking_macros(&File::new("crates/ttmon/src/watch/frame.rs", TEXT)));
        let says = |line: usize, word: &str| {
            format!("crates/ttmon/src/watch/frame.rs:{line}: {word}! panics without a stderr: use failure::complain")
        };
        assert_eq!(found, [says(2, "eprintln"), says(3, "eprint")]);
    }

    #[test]
    fn its_home_and_other_programs_may() {
        for path in [HOME, "crates/ttmon/tests/json.rs", "xtask/src/main.rs"] {
            assert_eq!(panicking_macros(&File::new(path, TEXT)), [], "{path}");
        }
    }
}
